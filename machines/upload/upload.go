// Package upload brings two files of one month together that two teams upload, each to a bucket of its
// own and whenever it likes: the sales file is processed once the warehouse file has been.
//
// It is the aggregator of enterprise integration patterns, as a chart. What correlates is the month in the
// file name: one instance follows one month. What is stored is the instance's item. And that the set is
// complete is one guard on one transition: a sales file that is held goes on when the warehouse file is
// processed, whichever of the two has come first.
//
// S3 and EventBridge deliver at least once and in any order. A file is told from the one that it replaces
// by S3's sequencer, and from its own copy by its ETag: events that tell nothing new do nothing. Until the
// window closes, a file may be uploaded again, be it that it could not be processed or that it was wrong:
// the new one is processed, and a new warehouse file has the sales file processed again after it.
//
// Every outcome is a final state of its own. Those without both files processed carry the tag [Failed].
package upload

import (
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Failed is the tag of the final states that mean failure: a file is missing, or was not processed.
const Failed = "failed"

// Retention is how long an instance is kept once its window is closed. A file of the same month that
// comes in that time is ignored; one that comes later opens a window anew.
const Retention = 90 * 24 * time.Hour

// StartedBy names the events that may make an instance: either file, for each may be the first, or a
// workflow that waits for one.
var StartedBy = []string{"sales_uploaded", "warehouse_uploaded", "settle.wait"}

// Context is what an instance knows of its month.
type Context struct {
	Warehouse Upload `json:"warehouse,omitzero"`
	Sales     Upload `json:"sales,omitzero"`
}

// Upload is what an instance knows of one of the two files.
type Upload struct {
	// File is the newest that was uploaded.
	File File `json:"file,omitzero"`
	// Changes counts the uploads that had to be processed: the first, those with other content than the one
	// before, and those after a failure.
	Changes int `json:"changes,omitempty"`
	// Dataset is what became of File, empty until it is processed. That of the sales file is empty again
	// when the warehouse file that it was correlated with is replaced.
	Dataset Dataset `json:"dataset,omitzero"`
	// Error is why File could not be processed.
	Error string `json:"error,omitempty"`
}

// Output is what an instance ends with.
type Output struct {
	// Outcome is the final state.
	Outcome   string `json:"outcome"`
	Warehouse Upload `json:"warehouse,omitzero"`
	Sales     Upload `json:"sales,omitzero"`
}

// The names under which Step Functions tasks wait for an instance. The output is the file's Upload.
const (
	// WaitWarehouse is answered when the warehouse file is "processed", when processing it has "failed",
	// or when the window closes and it is "missing".
	WaitWarehouse = "Warehouse"
	// WaitSales is answered likewise for the sales file; and when the window closes, too, with
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

// New returns the chart. It panics if the config is not valid, before the first event.
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
			{ID: "open", Type: statechart.Parallel, Doc: "the files of the month are taken, and taken again if they change",
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

// warehouse is the region of the file that depends on nothing.
func warehouse(processor Processor, config Config) state {
	answer := []resolution{{Name: WaitWarehouse, Output: tellWarehouse}}
	return state{ID: "warehouse", Initial: "awaited",
		On: []on{
			{Event: "warehouse_uploaded", Target: ".processing", Guard: warehouseChanged, Actions: do{takeWarehouse}},
			{Event: "warehouse_uploaded", Guard: warehouseRepeated, Actions: do{noteWarehouse}},
		},
		States: []state{
			{ID: "awaited", Tags: []string{statechart.Settled}},
			{ID: "processing", Doc: "is cleaned, and joined with the shipping data",
				Invoke: []invoke{{
					Service: processWarehouse(processor), Timeout: config.ProcessTimeout, Retry: config.ProcessRetry,
					OnDone:  []on{{Target: "processed", Actions: do{keepWarehouse}}},
					OnError: []on{{Target: "failed", Actions: do{blameWarehouse}}},
				}}},
			{ID: "processed", Tags: []string{statechart.Settled}, Resolve: answer},
			{ID: "failed", Tags: []string{statechart.Settled}, Doc: "until a file is uploaded again, be it the same", Resolve: answer,
				On: []on{{Event: "warehouse_uploaded", Target: "processing", Guard: warehouseRepeated, Actions: do{takeWarehouse}}}},
		}}
}

// sales is the region of the file that depends on the other one.
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
			{ID: "held", Tags: []string{statechart.Settled}, Doc: "until the warehouse file is processed",
				Always: []on{{Target: "processing", Guard: statechart.In[Context]("open.warehouse.processed")}}},
			{ID: "processing", Doc: "is correlated with the warehouse and shipping data",
				Invoke: []invoke{{
					Service: processSales(processor), Timeout: config.ProcessTimeout, Retry: config.ProcessRetry,
					OnDone:  []on{{Target: "processed", Actions: do{keepSales}}},
					OnError: []on{{Target: "failed", Actions: do{blameSales}}},
				}}},
			{ID: "processed", Tags: []string{statechart.Settled}, Resolve: answer, On: []on{behind}},
			{ID: "failed", Tags: []string{statechart.Settled}, Doc: "until a file is uploaded again, be it the same", Resolve: answer,
				On: []on{behind, {Event: "sales_uploaded", Target: "held", Guard: salesRepeated, Actions: do{takeSales}}}},
		}}
}

// closing is how the window closes: the first that holds is the outcome.
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

// final returns a final state with what those are told who wait for the one file and the other.
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

// A file has changed if it has to be processed, and is repeated if it is the same content uploaded again.
// An event for which neither holds tells of the file that is known, or of one that was replaced since.
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
