package demo

import (
	"context"
	"log/slog"

	"github.com/settle-run/settle/machines/upload"
)

// Files implements upload.Processor.
type Files struct{ Logger *slog.Logger }

// ProcessWarehouse logs the file and returns its dataset.
func (f Files) ProcessWarehouse(ctx context.Context, request upload.WarehouseRequest) (upload.Dataset, error) {
	location := "demo://warehouse/" + derived(request.IdempotencyKey)
	f.Logger.InfoContext(ctx, "demo: a warehouse file would be cleaned and joined with the shipping data now",
		"bucket", request.File.Bucket, "key", request.File.Key, "etag", request.File.ETag, "dataset", location)
	return upload.Dataset{Location: location}, nil
}

// ProcessSales logs the file and returns its dataset.
func (f Files) ProcessSales(ctx context.Context, request upload.SalesRequest) (upload.Dataset, error) {
	location := "demo://sales/" + derived(request.IdempotencyKey)
	f.Logger.InfoContext(ctx, "demo: a sales file would be correlated with the warehouse data now",
		"bucket", request.File.Bucket, "key", request.File.Key, "etag", request.File.ETag, "warehouse", request.Warehouse.Location, "dataset", location)
	return upload.Dataset{Location: location}, nil
}

var _ upload.Processor = Files{}
