// Package upload correlates two files of one month. Two teams upload the files, each to its own bucket and at any time.
// The sales file is processed after the warehouse file has been processed.
//
// The chart is an aggregator, one of the enterprise integration patterns. The correlation ID is the month in the file
// name: one instance follows one month. The message store is the instance's item. The completeness condition is one
// guard on one transition: a sales file in the state `held` is processed after the warehouse file has been processed.
// The two files may come in either order.
//
// S3 and EventBridge deliver at least once and in any order. S3's sequencer distinguishes a file from the file that it
// replaces, and the ETag identifies a copy, so events without new content do nothing. Until the window closes, a team
// may upload a file again if it was wrong or could not be processed. The chart processes the new file. After a new
// warehouse file, it processes the sales file again.
//
// Every outcome is a separate final state. An outcome has the tag [Failed] unless both files were processed.
package upload

import (
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Failed is the tag of the final states that mean failure: a file is missing, or was not processed.
const Failed = "failed"

// Retention is how long an instance is kept after its window closes. A file of the same month is ignored during that
// time. A later file opens a new window.
const Retention = 90 * 24 * time.Hour

// StartedBy names the events that may start an instance. The first event may be about either file, or may come from a
// workflow that waits for a file.
var StartedBy = []string{"sales_uploaded", "warehouse_uploaded", "settle.wait"}

// Context is the data of an instance.
type Context struct {
	Warehouse Upload `json:"warehouse,omitzero"`
	Sales     Upload `json:"sales,omitzero"`
}

// Upload is the state of one of the two files.
type Upload struct {
	// File is the newest upload.
	File File `json:"file,omitzero"`
	// Changes counts the uploads that had to be processed: the first, uploads with new content, and uploads after a
	// failure.
	Changes int `json:"changes,omitempty"`
	// Dataset is the result for File; empty until it is processed. A new warehouse file also empties the Dataset of
	// the sales file.
	Dataset Dataset `json:"dataset,omitzero"`
	// Error is why File could not be processed.
	Error string `json:"error,omitempty"`
}

// Output is the output of an instance.
type Output struct {
	// Outcome is the final state.
	Outcome   string `json:"outcome"`
	Warehouse Upload `json:"warehouse,omitzero"`
	Sales     Upload `json:"sales,omitzero"`
}

// The names under which Step Functions tasks wait for an instance. The output of each task is the file's Upload.
const (
	// WaitWarehouse is answered with "processed" or "failed" for the warehouse file, or with "missing" if the window
	// closes first.
	WaitWarehouse = "Warehouse"
	// WaitSales is answered in the same way for the sales file. When the window closes, it may also be answered with
	// "warehouse_missing" or "warehouse_failed".
	WaitSales = "Sales"
)

type (
	state  = statechart.State[Context]
	on     = statechart.Transition[Context]
	after  = statechart.After[Context]
	invoke = statechart.Invoke[Context]
	do     = []statechart.Action[Context]

	resolution = statechart.Resolution[Context]
)

// New returns the chart. If the config is not valid, New panics, so the error appears before the first event.
func New(processor Processor, config Config) *statechart.Chart[Context] {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		panic(err)
	}
	return statechart.Must(statechart.Definition[Context]{
		ID: "upload", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{
			"warehouse_uploaded": statechart.PayloadOf[WarehouseFile](),
			"sales_uploaded":     statechart.PayloadOf[SalesFile](),
		},
		States: []state{
			{ID: "open", Type: statechart.Parallel, Doc: "accepts the month's files, and their corrections",
				After:  closing(config.Window),
				States: []state{warehouse(processor, config), sales(processor, config)}},

			final("completed", "processed", "processed"),
			final("nothing_uploaded", "missing", "missing", Failed),
			final("warehouse_missing", "missing", "warehouse_missing", Failed),
			final("warehouse_failed", "failed", "warehouse_failed", Failed),
			final("sales_missing", "processed", "missing", Failed),
			final("sales_failed", "processed", "failed", Failed),
		},
	})
}

// warehouse returns the region of the warehouse file, which depends on nothing.
func warehouse(processor Processor, config Config) state {
	answer := []resolution{{Name: WaitWarehouse, Output: tellWarehouse}}
	return state{ID: "warehouse", Initial: "awaited",
		On: []on{
			{Event: "warehouse_uploaded", Target: ".processing", Guard: warehouseChanged, Actions: do{takeWarehouse}},
			{Event: "warehouse_uploaded", Guard: warehouseRepeated, Actions: do{noteWarehouse}},
		},
		States: []state{
			{ID: "awaited", Tags: []string{statechart.Settled}},
			{ID: "processing", Doc: "cleans the file and joins it with the shipping data",
				Invoke: []invoke{{
					Service: processWarehouse(processor), Timeout: config.ProcessTimeout, Retry: config.ProcessRetry,
					OnDone:  []on{{Target: "processed", Actions: do{keepWarehouse}}},
					OnError: []on{{Target: "failed", Actions: do{blameWarehouse}}},
				}}},
			{ID: "processed", Tags: []string{statechart.Settled}, Resolve: answer},
			{ID: "failed", Tags: []string{statechart.Settled}, Doc: "waits until a file is uploaded again, changed or not", Resolve: answer,
				On: []on{{Event: "warehouse_uploaded", Target: "processing", Guard: warehouseRepeated, Actions: do{takeWarehouse}}}},
		}}
}

// sales returns the region of the sales file, which depends on the warehouse file.
func sales(processor Processor, config Config) state {
	answer := []resolution{{Name: WaitSales, Output: tellSales}}
	behind := on{Event: "warehouse_uploaded", Target: "held", Guard: warehouseChanged, Actions: do{forgetSales}}
	return state{ID: "sales", Initial: "awaited",
		On: []on{
			{Event: "sales_uploaded", Target: ".held", Guard: salesChanged, Actions: do{takeSales}},
			{Event: "sales_uploaded", Guard: salesRepeated, Actions: do{noteSales}},
		},
		States: []state{
			{ID: "awaited", Tags: []string{statechart.Settled}},
			{ID: "held", Tags: []string{statechart.Settled}, Doc: "waits until the warehouse file is processed",
				Always: []on{{Target: "processing", Guard: statechart.In[Context]("open.warehouse.processed")}}},
			{ID: "processing", Doc: "correlates the file with the warehouse and shipping data",
				Invoke: []invoke{{
					Service: processSales(processor), Timeout: config.ProcessTimeout, Retry: config.ProcessRetry,
					OnDone:  []on{{Target: "processed", Actions: do{keepSales}}},
					OnError: []on{{Target: "failed", Actions: do{blameSales}}},
				}}},
			{ID: "processed", Tags: []string{statechart.Settled}, Resolve: answer, On: []on{behind}},
			{ID: "failed", Tags: []string{statechart.Settled}, Doc: "waits until a file is uploaded again, changed or not", Resolve: answer,
				On: []on{behind, {Event: "sales_uploaded", Target: "held", Guard: salesRepeated, Actions: do{takeSales}}}},
		}}
}

// closing returns the transitions at the end of the window. The first transition whose guard holds decides the outcome.
func closing(window time.Duration) []after {
	in := func(path, outcome string, actions ...statechart.Action[Context]) after {
		return after{ID: "window", Delay: window, Target: outcome, Guard: statechart.In[Context](path), Actions: actions}
	}
	return []after{
		in("open.sales.processed", "completed"),
		in("open.sales.failed", "sales_failed"),
		in("open.sales.processing", "sales_failed", interruptSales),
		in("open.warehouse.failed", "warehouse_failed"),
		in("open.warehouse.processing", "warehouse_failed", interruptWarehouse),
		in("open.warehouse.processed", "sales_missing"),
		in("open.sales.held", "warehouse_missing"),
		{ID: "window", Delay: window, Target: "nothing_uploaded"},
	}
}

// final returns a final state with the answers for tasks that wait for either file.
func final(outcome, warehouse, sales string, tags ...string) state {
	return state{ID: outcome, Type: statechart.Final, Tags: tags,
		Resolve: []resolution{
			{Name: WaitWarehouse, Outcome: warehouse, Output: tellWarehouse},
			{Name: WaitSales, Outcome: sales, Output: tellSales},
		},
		Output: func(c Context, _ statechart.Event) any {
			return Output{Outcome: outcome, Warehouse: c.Warehouse, Sales: c.Sales}
		}}
}

func tellWarehouse(c Context, _ statechart.Event) any { return c.Warehouse }

func tellSales(c Context, _ statechart.Event) any { return c.Sales }

// warehouseChanged and salesChanged hold for a newer upload with new content. The chart processes such a file.
// warehouseRepeated and salesRepeated hold for a newer upload with the same content. The chart processes such a file
// only after a failure. If neither guard holds, the upload is already known or is not the newest.
var (
	warehouseChanged  = statechart.When("warehouseChanged", func(c Context, e WarehouseFile) bool { return c.Warehouse.changed(e.File) })
	warehouseRepeated = statechart.When("warehouseRepeated", func(c Context, e WarehouseFile) bool { return c.Warehouse.repeated(e.File) })
	salesChanged      = statechart.When("salesChanged", func(c Context, e SalesFile) bool { return c.Sales.changed(e.File) })
	salesRepeated     = statechart.When("salesRepeated", func(c Context, e SalesFile) bool { return c.Sales.repeated(e.File) })
)

func (u Upload) changed(by File) bool { return by.follows(u.File) && by.ETag != u.File.ETag }

func (u Upload) repeated(by File) bool { return by.follows(u.File) && by.ETag == u.File.ETag }

var (
	takeWarehouse = statechart.Assign("takeWarehouse", func(c *Context, e WarehouseFile) { c.Warehouse.take(e.File) })
	takeSales     = statechart.Assign("takeSales", func(c *Context, e SalesFile) { c.Sales.take(e.File) })

	noteWarehouse = statechart.Assign("noteWarehouse", func(c *Context, e WarehouseFile) { c.Warehouse.File = e.File })
	noteSales     = statechart.Assign("noteSales", func(c *Context, e SalesFile) { c.Sales.File = e.File })

	keepWarehouse = statechart.Assign("keepWarehouse", func(c *Context, e Dataset) { c.Warehouse.Dataset = e })
	keepSales     = statechart.Assign("keepSales", func(c *Context, e Dataset) { c.Sales.Dataset = e })

	blameWarehouse = statechart.Assign("blameWarehouse", func(c *Context, e statechart.ServiceError) { c.Warehouse.Error = e.Message })
	blameSales     = statechart.Assign("blameSales", func(c *Context, e statechart.ServiceError) { c.Sales.Error = e.Message })

	forgetSales = statechart.Update("forgetSales", func(c *Context) { c.Sales.Dataset, c.Sales.Error = Dataset{}, "" })

	interruptWarehouse = statechart.Update("interruptWarehouse", func(c *Context) { c.Warehouse.Error = interrupted })
	interruptSales     = statechart.Update("interruptSales", func(c *Context) { c.Sales.Error = interrupted })
)

const interrupted = "the window closed while the file was being processed"

func (u *Upload) take(file File) { *u = Upload{File: file, Changes: u.Changes + 1} }
