package statecharttest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// workbench is the context of a chart with features that the machines of this repository lack: a service limited by a
// timer, and an event for another instance.
type workbench struct {
	Instance string    `json:"instance"`
	Started  time.Time `json:"started"`
	Pieces   int       `json:"pieces"`
	Marks    []string  `json:"marks,omitempty"`
	Error    string    `json:"error,omitempty"`
}

type work struct {
	Pieces int      `json:"pieces"`
	Marks  []string `json:"marks"`
}

// bench returns a chart whose context is a workbench. Its service calls the function `produce`. If that is nil, the
// service succeeds immediately.
func bench(t *testing.T, produce func(context.Context, statechart.Call) error) *statechart.Chart[workbench] {
	t.Helper()
	type (
		state  = statechart.State[workbench]
		on     = statechart.Transition[workbench]
		after  = statechart.After[workbench]
		invoke = statechart.Invoke[workbench]
		do     = []statechart.Action[workbench]
	)
	if produce == nil {
		produce = func(context.Context, statechart.Call) error { return nil }
	}
	keepWork := statechart.Assign("keepWork", func(c *workbench, e work) { c.Pieces, c.Marks = e.Pieces, e.Marks })
	keepError := statechart.Assign("keepError", func(c *workbench, e statechart.ServiceError) { c.Error = e.Message })
	deliver := statechart.SendTo("delivered", func(c workbench, _ statechart.Event) (string, any) {
		return "store/1", map[string]int{"pieces": c.Pieces}
	})
	return statechart.Must(statechart.Definition[workbench]{
		ID: "bench", Version: 1, Initial: "idle",
		Context:  func(s statechart.Start) workbench { return workbench{Instance: s.Instance, Started: s.At} },
		Payloads: statechart.Payloads{"work": statechart.PayloadOf[work](), "rest": statechart.NoPayload()},
		States: []state{
			{ID: "idle", Tags: []string{statechart.Settled}, On: []on{{Event: "work", Target: "working", Actions: do{keepWork}}}},
			{ID: "working", After: []after{{Delay: time.Minute, Target: "too_slow"}},
				Invoke: []invoke{{
					Service: statechart.ServiceFunc("produce", func(ctx context.Context, _ workbench, call statechart.Call) (int, error) {
						return 0, produce(ctx, call)
					}),
					Timeout: 20 * time.Second, Retry: statechart.RetryPolicy{Attempts: 2, Interval: 30 * time.Second},
					OnDone:  []on{{Target: "idle", Actions: do{deliver}}},
					OnError: []on{{Target: "idle", Actions: do{keepError}}},
				}}},
			{ID: "too_slow", Type: statechart.Final, Tags: []string{"slow", "failed"}},
		},
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	statecharttest.RunScripts(t, "testdata", func(setup *statecharttest.Setup) *statechart.Chart[workbench] {
		outcomes := setup.Outcomes("work")
		if words := setup.Words("pieces"); len(words) > 0 {
			made := 0
			return bench(t, func(context.Context, statechart.Call) error {
				made++
				if words[made-1] == "stone" {
					return errors.New("a stone in the works")
				}
				return nil
			})
		}
		return bench(t, func(ctx context.Context, _ statechart.Call) error { return outcomes.Next(ctx) })
	}).Require(t)
}
