package statechart_test

import (
	"encoding/json"

	"github.com/settle-run/settle/runtime/statechart"
)

func ExampleStartWorkflow() {
	type month struct {
		Sales  string          `json:"sales"`
		Report json.RawMessage `json:"report,omitempty"`
		Why    string          `json:"why,omitempty"`
	}
	type (
		state = statechart.State[month]
		on    = statechart.Transition[month]
		do    = []statechart.Action[month]
		ended = statechart.ExecutionEnded
	)
	write := statechart.StartWorkflow("report", "report.ended", func(m month, _ statechart.Event) any {
		return map[string]string{"sales": m.Sales}
	})
	succeeded := statechart.When("succeeded", func(_ month, e ended) bool { return e.Status == statechart.ExecutionSucceeded })
	keep := statechart.Assign("keep", func(m *month, e ended) { m.Report = e.Output })
	why := statechart.Assign("why", func(m *month, e ended) { m.Why = string(e.Status) + " " + e.Error })

	p := play(statechart.Must(statechart.Definition[month]{
		ID: "month", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{"CLOSE": statechart.NoPayload(), "report.ended": statechart.PayloadOf[ended]()},
		Context:  func(statechart.Start) month { return month{Sales: "s3://sales/11"} },
		States: []state{
			{ID: "open", Tags: settled, On: []on{{Event: "CLOSE", Target: "reporting"}}},
			{ID: "reporting", Tags: settled, Entry: do{write}, On: []on{
				{Event: "report.ended", Guard: succeeded, Target: "reported", Actions: do{keep}},
				{Event: "report.ended", Target: "unreported", Actions: do{why}},
			}},
			{ID: "reported", Type: statechart.Final},
			{ID: "unreported", Type: statechart.Final},
		},
	}))
	p.send("CLOSE")
	p.sendWith("report.ended", ended{Workflow: "report", Status: statechart.ExecutionFailed, Error: "Report.NoSales"})
	show(p.Snapshot().Context)
	// Output:
	// starts in open
	// CLOSE: open -> reporting
	//   effect 2.0 start report input={"sales":"s3://sales/11"} end=report.ended
	// report.ended: reporting -> unreported
	//   done
	// {"sales":"s3://sales/11","why":"FAILED Report.NoSales"}
}
