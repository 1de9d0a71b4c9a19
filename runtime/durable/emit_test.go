package durable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// teller is a machine that emits the item of each "add". It logs its own start and every event.
func teller() durable.Machine {
	say := func(text string) statechart.Action[basket] {
		return statechart.Log(func(b basket, _ statechart.Event) string { return fmt.Sprint(text, " ", len(b.Log)) })
	}
	large := func(kind string) statechart.Action[basket] {
		return statechart.EnqueueActions(kind, func(_ *basket, i item, enqueue statechart.Enqueue) error {
			switch text := strings.Repeat("x", i.Bytes); kind {
			case "emit":
				return enqueue.Emit("large", map[string]string{"text": text})
			case "log":
				return enqueue.Log(text)
			case "burst":
				for n := range i.Bytes {
					if err := enqueue.Emit("shown", map[string]int{"n": n}); err != nil {
						return err
					}
				}
				return nil
			default:
				return enqueue.Spawn("child", "order", nil)
			}
		})
	}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "teller", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{{ID: "idle", Tags: settled, Entry: do{say("begun")}, On: []on{
			{Event: "add", Actions: do{keep, show, say("added")}}, {Event: "refuse", Actions: do{say("refused"), refuse}},
			{Event: "grow", Actions: do{large("emit")}}, {Event: "grind", Actions: do{large("log")}}, {Event: "both", Actions: do{large("spawn")}},
			{Event: "tell", Actions: do{large("burst")}},
		}}},
	}), durable.MachineConfig{})
}

// newTellers returns a world that hosts teller, and a function that returns the charts' log lines.
func newTellers(t *testing.T) (w *world, logged func() []string) {
	t.Helper()
	w = newWorld(t)
	var logs bytes.Buffer
	w.config.Logger = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
	machines, err := durable.NewMachines(w.order(), teller())
	if err != nil {
		t.Fatal(err)
	}
	w.machines = machines
	return w, func() []string {
		return slices.DeleteFunc(strings.Split(logs.String(), "\n"), func(line string) bool { return !strings.HasPrefix(line, `msg="chart log"`) })
	}
}

// emit records emitted events. It implements Config.Emit.
func (w *world) emit(ctx context.Context, from instances.ID, events []statechart.Effect) []error {
	p, _ := ctx.Value(processKey{}).(*process)
	errs := make([]error, len(events))
	failed := p.call(ctx, "Emit", from.String(), func() error {
		for i, event := range events {
			if errs[i] = w.refuseEmit(event); errs[i] == nil {
				w.perform(durable.Message{To: from, DeduplicationID: event.ID})
				w.emitted = append(w.emitted, event.ID+" "+string(event.Event))
			}
		}
		return nil
	})
	if failed != nil {
		return slices.Repeat([]error{failed}, len(events))
	}
	return errs
}

// refuseEmit returns the error that w.refuse gives for an emitted event. The call's name consists of "Emit" and the
// effect's ID.
func (w *world) refuseEmit(event statechart.Effect) error {
	if w.refuse == nil {
		return nil
	}
	return w.refuse("Emit " + event.ID[strings.LastIndex(event.ID, "/")+1:])
}

func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestWhatIsEmittedIsTakenAfterItsCommitInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newTellers(t)
		w.config.Emit = w.emit
		w.post("teller/1", adds(2)...)
		w.invoke()
		w.wantCalls(t, "Load teller/1", "Commit teller/1", "Emit teller/1", "ClearOutbox teller/1")
		at := time.Now().UnixMilli()
		wantLines(t, "emitted", w.emitted, fmt.Sprintf(`teller/1@%d/2.0 {"items":1,"type":"shown"}`, at), fmt.Sprintf(`teller/1@%d/3.0 {"items":2,"type":"shown"}`, at))
		w.wantSound(t)
	})
}

func TestEmittedEventsArePublishedTenAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newTellers(t)
		w.config.Emit = w.emit
		w.post("teller/1", `{"type": "tell", "bytes": 21}`)
		w.invoke()
		w.wantCalls(t, "Load teller/1", "Commit teller/1", "Emit teller/1", "Emit teller/1", "Emit teller/1", "ClearOutbox teller/1")
		for n, line := range w.emitted {
			if want := fmt.Sprintf(`2.%d {"n":%d,"type":"shown"}`, n, n); !strings.HasSuffix(line, want) {
				t.Errorf("emitted %q at %d, want %q", line, n, want)
			}
		}
		if len(w.emitted) != 21 {
			t.Errorf("emitted %d events, want 21", len(w.emitted))
		}
	})
}

func TestOnlyTheFailedEventsOfABatchArePublishedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newTellers(t)
		w.config.Emit = w.emit
		failing := true
		w.refuse = func(call string) error {
			if failing && call == "Emit 3.0" {
				return errors.New("throttled")
			}
			return nil
		}
		w.post("teller/1", adds(3)...)
		w.invoke()
		failing = false
		w.run(t)
		at := w.load("teller/1").CreatedAt.UnixMilli()
		line := func(items int) string {
			return fmt.Sprintf(`teller/1@%d/%d.0 {"items":%d,"type":"shown"}`, at, items+1, items)
		}
		wantLines(t, "emitted", w.emitted, line(1), line(3), line(2))
		w.wantSound(t)
	})
}

// If Emit does not return one error per event, the loop cannot know which events the host has published.
func TestAWrongNumberOfErrorsOfEmitIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newTellers(t)
		calls := 0
		w.config.Emit = func(ctx context.Context, from instances.ID, events []statechart.Effect) []error {
			if calls++; calls <= 2 {
				return make([]error, 3*(calls-1))
			}
			return w.emit(ctx, from, events)
		}
		w.post("teller/1", adds(2)...)
		w.run(t)
		if len(w.emitted) != 2 {
			t.Errorf("emitted %q, want two events", w.emitted)
		}
	})
}

func TestAnEmitThatFailsIsRepeatedUnderTheSameID(t *testing.T) {
	t.Parallel()
	for _, what := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := newTellers(t)
			w.config.Emit = w.emit
			w.hook = faults(map[string]fault{"Emit teller/1 #1": what})
			w.post("teller/1", adds(1)...)
			w.run(t)
			w.wantSound(t)
			w.wantLog(t, "teller/1", "0")
			if len(w.performed) != 1 {
				t.Errorf("%v: emitted under %d IDs, want 1: %q", what, len(w.performed), w.emitted)
			}
		})
	}
}

func TestEmittingWithoutAListenerCostsNoWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newTellers(t)
		w.post("teller/1", adds(2)...)
		w.invoke()
		w.wantCalls(t, "Load teller/1", "Commit teller/1")
		w.wantSound(t)
	})
}

func TestAnOutboxThatLostItsListenerIsEmptied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newTellers(t)
		w.config.Emit = w.emit
		w.hook = faults(map[string]fault{"Emit teller/1 #1": dieBefore})
		w.post("teller/1", adds(1)...)
		w.invoke()
		w.config.Emit = nil
		w.run(t)
		if outbox := w.load("teller/1").Outbox; len(outbox) > 0 || len(w.emitted) > 0 {
			t.Errorf("the outbox holds %+v, emitted %q", outbox, w.emitted)
		}
	})
}

func TestWhatIsLoggedIsWrittenAfterItsCommitAndCostsNoWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, logged := newTellers(t)
		var atCommit [][]string
		w.hook = func(call string) fault {
			if call == "Commit teller/1" {
				if atCommit = append(atCommit, logged()); len(atCommit) == 1 {
					return failBefore
				}
			}
			return none
		}
		w.post("teller/1", adds(2)...)
		at := time.Now().UnixMilli()
		w.invoke()
		if lines := logged(); len(lines) > 0 {
			t.Errorf("logged before the commit: %q", lines)
		}
		w.run(t)
		line := func(id, message string) string {
			return fmt.Sprintf(`msg="chart log" instance=teller/1 effect=teller/1@%d/%s message=%q`, at, id, message)
		}
		wantLines(t, "logged", logged(), line("1.0", "begun 0"), line("2.1", "added 1"), line("3.1", "added 2"))
		if len(atCommit) != 3 || len(atCommit[1]) > 0 || len(atCommit[2]) != 2 { // The second commit stores the count of the redelivered second event.
			t.Errorf("logged at commits: %q", atCommit)
		}
		w.post("teller/1", adds(1)...)
		w.calls = nil
		w.invoke()
		w.wantCalls(t, "Load teller/1", "Commit teller/1")
	})
}

func TestWhatCameToNothingIsNotLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, logged := newTellers(t)
		w.post("teller/1", event("refuse", ""))
		w.run(t)
		w.wantParked(t, [2]string{"refuse", "refused"})
		wantLines(t, "logged", logged())
		w.post("teller/1", event("add", "a"))
		w.run(t)
		if lines := logged(); len(lines) != 2 || !strings.Contains(lines[0], "begun 0") || !strings.Contains(lines[1], "added 1") {
			t.Errorf("logged %q, want the start once and the added item", lines)
		}
	})
}

func TestALongMessageIsCutAndALargeEmitParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, logged := newTellers(t)
		w.post("teller/1", event("add", "a"), fmt.Sprintf(`{"type": "grind", "bytes": %d}`, messageBytesMax+1), growing(instances.EventBytesMax-26), growing(instances.EventBytesMax-25))
		w.run(t)
		if lines := logged(); len(lines) != 3 || strings.Count(lines[2], "x") != messageBytesMax-len("…") || !strings.HasSuffix(lines[2], "x…") {
			t.Errorf("logged %d lines, the last of %d bytes", len(lines), len(lines[len(lines)-1]))
		}
		w.wantParked(t, [2]string{"grow", "emit 5.0: the event has 262145 bytes, the limit is 262144 (EventBytesMax): store the data elsewhere and send a reference"})
	})
}

func TestDeferredEventsSurviveTheRuntimeOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		machines, err := durable.NewMachines(durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "later", Version: 1, Initial: "busy", Payloads: payloads(),
			States: []chartState{
				{ID: "busy", Tags: settled, Defer: []string{"add"}, On: []on{{Event: "wait", Target: "idle"}}},
				{ID: "idle", Tags: settled, On: []on{{Event: "add", Actions: do{keep}}}},
			},
		}), durable.MachineConfig{}))
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		once := `{"type": "add", "item": "a", "$id": "p-1"}`
		w.post("later/1", once, event("add", "b"))
		w.run(t)
		w.wantLog(t, "later/1")
		w.post("later/1", once, event("wait", ""))
		w.run(t)
		w.wantLog(t, "later/1", "a", "b")
		w.wantState(t, "later/1", "idle")
		w.wantParked(t)
	})
}

// Config.Emit fails for an event. Before the retry, an operator changes or ends the instance.
func TestAnEmitIsPerformedWhateverTheOperatorDoes(t *testing.T) {
	t.Parallel()
	for _, op := range []instances.Operation{{Kind: instances.Keep}, {Kind: instances.Move, State: "idle"}, {Kind: instances.Stop}, {Kind: instances.Terminate}} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := newTellers(t)
			w.config.Emit = w.emit
			w.hook = faults(map[string]fault{"Emit teller/1 #1": failBefore})
			w.post("teller/1", adds(1)...)
			w.invoke()
			w.operate(t, "teller/1", op)
			w.run(t)
			if len(w.emitted) != 1 {
				t.Errorf("%s: emitted %q, want one event", op.Kind, w.emitted)
			}
			w.wantSound(t)
		})
	}
}

// The operator's change runs an exit action, which emits an event.
func TestTheEmitOfAnOperatorsChangeIsPerformed(t *testing.T) {
	t.Parallel()
	for _, op := range []instances.Operation{{Kind: instances.Stop}, {Kind: instances.Move, State: "after"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.config.Emit = w.emit
			w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
				ID: "leaver", Version: 1, Initial: "before", Payloads: payloads(),
				States: []chartState{
					{ID: "before", Tags: settled, Exit: do{show}, On: []on{{Event: "add", Actions: do{keep}}, {Event: "cancel", Target: "after"}}},
					{ID: "after", Tags: settled},
				},
			}), durable.MachineConfig{}))
			w.post("leaver/1", event("add", "x"))
			w.run(t)
			w.operate(t, "leaver/1", op)
			w.run(t)
			if len(w.emitted) != 1 {
				t.Errorf("%s: emitted %q, want one event", op.Kind, w.emitted)
			}
		})
	}
}

// Emit returns an error of package durable. The host's Emit may, for example, pass on an error of its own
// durable.Store.
func TestAnErrorOfEmitIsNotAnErrorOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		calls := 0
		w.config.Emit = func(ctx context.Context, from instances.ID, events []statechart.Effect) []error {
			if calls++; calls <= 2 {
				return []error{fmt.Errorf("storing the event: %w", durable.ErrUnstorable)}
			}
			return w.emit(ctx, from, events)
		}
		w.post("order/1", event("wait", ""), event("cancel", ""))
		w.run(t)
		w.wantParked(t)
		if r := w.load("order/1"); r.Error != nil || len(w.emitted) != 1 {
			t.Errorf("want the event emitted and no failure, got %+v and %v", w.emitted, r.Error)
		}
	})
}

// messageBytesMax has the value of the same constant in package durable.
const messageBytesMax = 16 << 10
