package durable_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// A chart repeats an effect whenever the loop reports its failure. Each report is a message of the instance to itself.
func TestEffectsThatFailAgainAndAgainEndWithTheirChain(t *testing.T) {
	t.Parallel()
	for report, c := range map[string]struct {
		payload statechart.Payload
		effect  statechart.Action[basket]
	}{
		durable.AliasTaken: {statechart.PayloadOf[takenAlias](), statechart.Alias(func(basket, statechart.Event) string { return "taken" })},
		"printed": {statechart.PayloadOf[statechart.ExecutionEnded](),
			statechart.StartWorkflow("print", "printed", func(basket, statechart.Event) any { return nil })},
		statechart.CommunicationError: {statechart.PayloadOf[statechart.CommunicationFailure](), show},
	} {
		t.Run(report, func(t *testing.T) {
			t.Parallel()
			inChains(t, func(t *testing.T, w *world) {
				p := payloads()
				p[report] = c.payload
				w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
					ID: "stubborn", Version: 1, Initial: "on", Payloads: p,
					States: []chartState{{ID: "on", Tags: settled, On: []on{{Event: "add", Actions: do{c.effect}}, {Event: report, Actions: do{noted(report), c.effect}}}}},
				}), durable.MachineConfig{}))
				w.aliases["taken"] = "another instance"
				w.refusal = &durable.RefusedError{Code: "StateMachineDoesNotExist", Err: errors.New("no such machine")}
				w.config.Emit = func(_ context.Context, _ instances.ID, events []statechart.Effect) []error {
					errs := make([]error, len(events))
					for i := range errs {
						errs[i] = durable.ErrRefused
					}
					return errs
				}
				w.post("stubborn/1", event("add", ""))
				w.runFor(t, time.Minute) // A poll of an execution begins a chain of its own after 15 minutes.
				if got := len(w.logOf(t, "stubborn/1")); got != hopsMax {
					t.Errorf("%d reports were applied, want %d", got, hopsMax)
				}
				w.wantParked(t, [2]string{`"settle.`, "(HopsMax)"})
			})
		})
	}
}
