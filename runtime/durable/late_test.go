package durable_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// late is a machine that is in its answering state from the start. Computing the answer panics if the log has an entry.
func late() durable.Machine {
	output := func(b basket, _ statechart.Event) any {
		if len(b.Log) > 0 {
			panic("the log is not empty")
		}
		return b.Log
	}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "late", Version: 1, Initial: "reached", Payloads: payloads(),
		States: []chartState{{
			ID: "reached", Initial: "open", Resolve: []resolution{{Name: "Outcome", Output: output}},
			On:     []on{{Event: "add", Actions: do{keep}}, {Event: "tell", Actions: do{noted("told"), tell}}},
			States: []chartState{{ID: "open", Tags: settled}},
		}},
	}), durable.MachineConfig{})
}

func TestAnEventWhoseTokenCannotBeAnsweredChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, late())
		var logged bytes.Buffer
		w.config.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		handsOver := func(event, token string) string {
			return fmt.Sprintf(`{"type": %q, "item": "x", "to": "order/2", "$task": %s}`, event, w.wait(token, "Outcome", time.Hour, 0))
		}
		w.post("late/1", event("add", "a"), handsOver("tell", "t1"), handsOver("finish", "t2"), event("add", "b"))
		w.run(t)

		w.wantLog(t, "late/1", "a", "b")
		w.wantParked(t, [2]string{"tell", "action resolve Outcome: panic: "}, [2]string{"finish", "action resolve Outcome: panic: "})
		for _, token := range []string{"t1", "t2"} {
			if got := w.answers(token); !strings.HasPrefix(got, "[Settle.Parked: ") {
				t.Errorf("task %s received %s, want Settle.Parked", token, got)
			}
		}
		record := w.load("late/1")
		if len(record.History) != 2 || record.History[0].Event != "add" || record.History[1].Event != "add" || record.Ignored != 0 {
			t.Errorf("the history is %+v with %d ignored events, want the two applied events and none ignored", record.History, record.Ignored)
		}
		if len(record.Tokens) != 0 || w.counted("Send ") != 0 || w.counted("Commit order/2") != 0 {
			t.Errorf("the calls were %q and the tokens %+v, want no sends and no tokens", w.calls, record.Tokens)
		}
		if n := strings.Count(logged.String(), "msg=transition"); n != 2 {
			t.Errorf("%d transitions were logged, want 2:\n%s", n, logged.String())
		}
		w.wantSound(t)
	})
}
