package upload

import (
	"context"

	"github.com/settle-run/settle/runtime/statechart"
)

// Processor processes the files. Both methods return when the work is done. If the work takes too long for a Lambda
// function, start it in a service and wait for its end in a settled state.
//
// A failed attempt is retried under Config.ProcessRetry, unless its error is marked with statechart.Permanent. Mark the
// error for an unreadable file, because a retry would fail too. The file's team can upload another file. Calls with the
// same IdempotencyKey are attempts at one task and must produce one dataset.
type Processor interface {
	// ProcessWarehouse cleans a warehouse file and joins it with the shipping data.
	ProcessWarehouse(ctx context.Context, request WarehouseRequest) (Dataset, error)
	// ProcessSales correlates a sales file with its month's warehouse dataset. It is only called after
	// ProcessWarehouse returned that dataset.
	ProcessSales(ctx context.Context, request SalesRequest) (Dataset, error)
}

// WarehouseRequest is a request to process a warehouse file.
type WarehouseRequest struct {
	// IdempotencyKey is the same for all attempts to process one file. No other request has it.
	IdempotencyKey string
	File           File
}

// SalesRequest is a request to process a sales file.
type SalesRequest struct {
	// IdempotencyKey is the same for all attempts to process one file with one dataset. No other request has it.
	IdempotencyKey string
	File           File
	// Warehouse is the dataset of the newest warehouse file.
	Warehouse Dataset
}

// Dataset is the result of processing a file.
type Dataset struct {
	// Location is the dataset's location, such as s3://lake/warehouse/2026_11/.
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
