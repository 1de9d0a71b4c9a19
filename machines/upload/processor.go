package upload

import (
	"context"

	"github.com/settle-run/settle/runtime/statechart"
)

// Processor does the work on the files. Both methods return when it is done: what takes longer than a
// Lambda function may run is better started by them and waited for in a settled state.
//
// An error is retried by Config.ProcessRetry, unless it is marked by statechart.Permanent, as that of a file
// that cannot be read should be: its team can upload another. Calls with the same IdempotencyKey are
// attempts at one thing and must leave one dataset.
type Processor interface {
	// ProcessWarehouse cleans a warehouse file and joins it with the shipping data.
	ProcessWarehouse(ctx context.Context, request WarehouseRequest) (Dataset, error)
	// ProcessSales correlates a sales file with the dataset of the warehouse file of its month. It is
	// never called before ProcessWarehouse has returned that.
	ProcessSales(ctx context.Context, request SalesRequest) (Dataset, error)
}

// WarehouseRequest asks to process a warehouse file.
type WarehouseRequest struct {
	// IdempotencyKey is the same in all attempts to process one file, and in no other request.
	IdempotencyKey string
	File           File
}

// SalesRequest asks to process a sales file.
type SalesRequest struct {
	// IdempotencyKey is the same in all attempts to process one file with one dataset, and in no other
	// request.
	IdempotencyKey string
	File           File
	// Warehouse is what ProcessWarehouse made of the newest warehouse file.
	Warehouse Dataset
}

// Dataset is what processing a file has made.
type Dataset struct {
	// Location says where it is, such as s3://lake/warehouse/2026_11/.
	Location string `json:"location,omitempty"`
}

func processWarehouse(processor Processor) statechart.Service[Context] {
	return statechart.ServiceFunc("processWarehouse", func(ctx context.Context, c Context, call statechart.Call) (Dataset, error) {
		return processor.ProcessWarehouse(ctx, WarehouseRequest{IdempotencyKey: call.Key, File: c.Warehouse.File})
	})
}

func processSales(processor Processor) statechart.Service[Context] {
	return statechart.ServiceFunc("processSales", func(ctx context.Context, c Context, call statechart.Call) (Dataset, error) {
		return processor.ProcessSales(ctx, SalesRequest{IdempotencyKey: call.Key, File: c.Sales.File, Warehouse: c.Warehouse.Dataset})
	})
}
