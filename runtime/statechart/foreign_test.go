package statechart_test

import (
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/internal/foreign"
	"github.com/settle-run/settle/runtime/statechart"
)

// A failure in a foreign chart raises error.execution. Without a handler, the event is dropped, as in SCXML.
func TestForeignChartDropsUnhandledErrors(t *testing.T) {
	t.Parallel()
	chart, err := statechart.Compile(Def{Foreign: &foreign.Document{}, ID: "c", Version: 1, Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "b", Actions: append(append(logs("1"), failing), logs("2")...)}}},
		{ID: "b", On: []On{{Event: "END", Target: "c", Actions: Do{failing}}}},
		{ID: "c", Type: statechart.Final},
	}})
	if err != nil {
		t.Fatal(err)
	}
	step, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t: t, chart: chart, step: step, now: epoch}
	r.send("GO").is("b", "1")
	r.send("END").is("c", "")
	equal(t, "status", r.step.Next.Status, statechart.Done)
}

// A foreign chart may wait in any configuration, even next to a running service. It may raise and send undeclared
// events.
func TestForeignChartNeedNotSettle(t *testing.T) {
	t.Parallel()
	def := Def{ID: "c", Version: 1, Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "b"}}},
		{ID: "b", Invoke: []Invoke{service("s", nil, nil)}, On: []On{
			{Event: "ASK", Actions: Do{statechart.SendAfter("", "LATER", func(trace, Event) (time.Duration, any) { return time.Minute, nil })}},
			{Event: "LATER", Target: "c"},
		}},
		{ID: "c", Tags: settled, Always: []On{{Target: "d"}}},
		{ID: "d"}, {ID: "unreachable"},
	}}
	if _, err := statechart.Compile(def); err == nil {
		t.Fatal("Compile accepted the chart")
	}
	def.Foreign = &foreign.Document{}
	chart, err := statechart.Compile(def)
	if err != nil {
		t.Fatal(err)
	}
	step, err := chart.Start(statechart.Start{At: epoch})
	r := &run{t: t, chart: chart, step: step, now: epoch}
	if err != nil {
		t.Fatal(err)
	}
	r.is("a", "")
	r.send("GO", "ASK").is("b", "")
	r.fire(r.timer("")).is("d", "")
	if _, err := statechart.Compile(Def{Foreign: &foreign.Document{}, ID: "c", Version: 1, Initial: "x"}); err == nil {
		t.Error("Compile accepted a chart without states")
	}
}

func TestForeignChartReplaysDeferredEventsWhileUnsettled(t *testing.T) {
	t.Parallel()
	chart, err := statechart.Compile(Def{Foreign: &foreign.Document{}, ID: "c", Version: 1, Initial: "a", Payloads: statechart.Payloads{"E": statechart.NoPayload()}, States: []S{
		{ID: "a", Defer: []string{"E"}, On: []On{{Event: "GO", Target: "b"}}}, {ID: "b", On: []On{{Event: "E", Actions: logs("e")}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	step, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t: t, chart: chart, step: step, now: epoch}
	r.send("E", "GO").is("b", "e")
}
