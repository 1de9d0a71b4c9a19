package durable_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// operate stores an operator's change and wakes the instance.
func (w *world) operate(t *testing.T, id string, op instances.Operation) []statechart.Microstep {
	t.Helper()
	op.At, op.By, op.Reason = time.Now(), "operator", "test"
	stored := w.load(id)
	record, steps, err := durable.Operate(w.machines, stored, op)
	if err != nil {
		t.Fatal(err)
	}
	if record.Revision != stored.Revision+1 {
		t.Errorf("%s has revision %d, want %d", id, record.Revision, stored.Revision+1)
	}
	if len(stored.Outbox) == 0 && slices.ContainsFunc(record.Outbox, func(e statechart.Effect) bool { return len(e.Chain) > 0 }) {
		t.Errorf("the effects of the operation on %s belong to a chain: %+v", id, record.Outbox)
	}
	last := record.History[len(record.History)-1]
	if want := (instances.Transition{
		At: op.At.UTC().Truncate(time.Millisecond), Event: "settle." + string(op.Kind), From: stored.State, To: record.State, By: "operator", Reason: "test",
	}); !cmp.Equal(last, want) {
		t.Errorf("the history of %s ends with %+v, want %+v", id, last, want)
	}
	w.wake(record)
	return steps
}

// wakeUp is an event that makes a consumer settle an instance and perform its effects.
const wakeUp = `{"type": "settle.timer", "timer": "resume"}`

// wake stores a record that an operator has changed, and wakes the instance.
func (w *world) wake(record instances.Record) {
	w.store(record)
	w.commit(record)
	w.post(record.Instance.String(), wakeUp)
}

// wantRefused checks that an operation fails with the error and a part of its text.
func (w *world) wantRefused(t *testing.T, id string, op instances.Operation, sentinel error, text string) {
	t.Helper()
	op.At = time.Now()
	_, _, err := durable.Operate(w.machines, w.load(id), op)
	if err == nil || sentinel != nil && !errors.Is(err, sentinel) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s of %s: got the error %v, want %v with %q", op.Kind, id, err, sentinel, text)
	}
}

// endings are the operations that end an instance. Only Stop runs exit actions.
var endings = []instances.OperationKind{instances.Stop, instances.Terminate}

func TestAnOperatorEndsAnInstanceWithItsChildren(t *testing.T) {
	t.Parallel()
	for _, kind := range endings {
		inFamily(t, func(t *testing.T, w *world) {
			w.post(boss1, ship)
			w.run(t)
			van := w.van(t)
			w.post(van, `{"type":"settle.wait","$task":`+w.wait("task", "Queued", 0, 0)+`}`)
			w.run(t)
			w.operate(t, van, instances.Operation{Kind: kind})
			w.run(t)
			reason := fmt.Sprintf("an operator ended %s in [driving] (%s): test", van, kind)
			w.wantState(t, boss1, "idle")
			w.wantFamily(t, "courier stopped, radio stopped", "lost courier: "+reason)
			if got := w.answers("task"); !strings.Contains(got, durable.ErrorStopped) || !strings.Contains(got, reason) {
				t.Errorf("the task was answered %s", got)
			}
			if leaves := len(w.stored("order")); leaves != map[instances.OperationKind]int{instances.Stop: 1}[kind] {
				t.Errorf("%s: the exit action ran %d times", kind, leaves)
			}
			if r := w.load(van); r.ExpireAt.IsZero() || r.Status != statechart.Stopped {
				t.Errorf("%s: the courier is %s and expires at %v", kind, r.Status, r.ExpireAt)
			}
			w.post(van, event("add", "late"))
			w.run(t)
			if ignored := w.load(van).Ignored; ignored != 1 {
				t.Errorf("%s: %d events were ignored, want 1", kind, ignored)
			}
			w.wantParked(t)
			for _, again := range []instances.OperationKind{instances.Stop, instances.Terminate, instances.Move} {
				w.wantRefused(t, van, instances.Operation{Kind: again, State: "driving"}, instances.ErrEnded, "it is stopped in [driving]")
			}
		})
	}
}

func TestAnInstanceThatAnOperatorEndsReleasesItsAliases(t *testing.T) {
	t.Parallel()
	for _, kind := range endings {
		inCallerWorld(t, func(t *testing.T, w *world) {
			w.post("caller/1", event("add", "x-7"))
			w.run(t)
			w.operate(t, "caller/1", instances.Operation{Kind: kind})
			w.run(t)
			w.post("caller/2", event("add", "x-7"))
			w.run(t)
			if owner := w.aliases["x-7"]; !strings.HasPrefix(owner, "caller/2") {
				t.Errorf("%s: x-7 belongs to %q", kind, owner)
			}
			w.wantSound(t)
		})
	}
}

// The chart's exit action fails, or the item was stored by an unknown version.
func TestAnInstanceThatCannotBeStoppedIsTerminated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["slow"] = failing(9, errors.New("busy"))
		w.post("order/1", event("limit", ""))
		w.invoke()
		record := w.load("order/1")
		if snapshot := string(record.Snapshot); !strings.Contains(snapshot, `"services":`) || !strings.Contains(snapshot, `"timers":`) {
			t.Fatalf("the instance has no service or no timer: %s", snapshot)
		}
		record.Snapshot = json.RawMessage(strings.Replace(string(record.Snapshot), `"version":1`, `"version":9`, 1))
		w.store(record)
		w.wantRefused(t, "order/1", instances.Operation{Kind: instances.Stop}, statechart.ErrUnreadable, "version 9")
		terminated, _, err := durable.Operate(w.machines, record, instances.Operation{Kind: instances.Terminate, At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]json.RawMessage
		decode(t, terminated.Snapshot, &got)
		if terminated.Status != statechart.Stopped || string(got["status"]) != `"stopped"` || got["timers"] != nil || got["services"] != nil || string(got["version"]) != "9" {
			t.Errorf("the record is %s with the snapshot %s", terminated.Status, terminated.Snapshot)
		}
		if got, want := stepsOf(t, terminated), stepsOf(t, record)+1; got != want {
			t.Errorf("the count of steps is %d, want %d", got, want)
		}
		record.Instance.Machine = "nobody"
		if _, _, err := durable.Operate(w.machines, record, instances.Operation{Kind: instances.Terminate}); !errors.Is(err, durable.ErrUnknownMachine) {
			t.Errorf("got the error %v, want ErrUnknownMachine", err)
		}
	})
}

// A build that would rename the state terminates an instance of the earlier version. Terminating does not migrate.
func TestATerminatedInstanceKeepsTheStatesOfItsVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.desk(1))
		w.post("desk/1", event("add", "a"))
		w.run(t)
		w.host(t, w.desk(2, deskFrom1))
		w.operate(t, "desk/1", instances.Operation{Kind: instances.Terminate})
		if got, want := w.load("desk/1").State, []string{"open"}; !slices.Equal(got, want) {
			t.Errorf("the record is in %v, want %v, as its snapshot", got, want)
		}
	})
}

func TestAnOperatorMovesAnInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"), event("wait", ""))
		w.invoke()
		// Move into a state with a service: the next delivery runs the service.
		w.operate(t, "order/1", instances.Operation{Kind: instances.Move, State: "charging", Context: json.RawMessage(`{"log":["mended"],"note":{}}`)})
		if w.load("order/1").Status != statechart.Active {
			t.Errorf("order/1 is %s", w.load("order/1").Status)
		}
		w.run(t)
		w.wantState(t, "order/1", "idle")
		w.wantLog(t, "order/1", "mended", "charge ok") // The timer of the state `waiting` is gone.
		// Move into a state with a timer.
		steps := w.operate(t, "order/1", instances.Operation{Kind: instances.Move, State: "waiting"})
		if want := []statechart.Microstep{{Event: "settle.move", Exited: []string{"idle"}, Entered: []string{"waiting"}}}; !cmp.Equal(steps, want) {
			t.Errorf("the move took %+v, want %+v", steps, want)
		}
		w.run(t)
		w.wantLog(t, "order/1", "mended", "charge ok", "hour over")
		// Replace only the context.
		w.operate(t, "order/1", instances.Operation{Kind: instances.Move, Context: json.RawMessage(`{"log":[],"sum":2}`)})
		w.run(t)
		w.wantState(t, "order/1", "idle")
		w.wantLog(t, "order/1")
		// Move into a final state.
		w.operate(t, "order/1", instances.Operation{Kind: instances.Move, State: "finished"})
		w.run(t)
		if r := w.load("order/1"); r.Status != statechart.Done || r.ExpireAt.IsZero() {
			t.Errorf("order/1 is %s and expires at %v", r.Status, r.ExpireAt)
		}
		w.wantParked(t)
		w.wantSound(t)
	})
}

// The consumer allows larger snapshots than the default.
func TestALargeInstanceCanBeStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.SnapshotBytesMax = 350 << 10
		w.post("order/1", growing(300_000))
		w.run(t)
		w.operate(t, "order/1", instances.Operation{Kind: instances.Stop})
		w.run(t)
		w.wantParked(t)
	})
}

func TestAMoveThatCannotSucceedIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"))
		w.run(t)
		move := func(state, context string) instances.Operation {
			return instances.Operation{Kind: instances.Move, State: state, Context: json.RawMessage(context)}
		}
		for _, c := range []struct {
			op   instances.Operation
			want string
		}{
			{move("idel", "null"), `chart order has no state "idel" (did you mean "idle"?)`},
			{move("", `{"log":["a"],"colour":"red"}`), "it would drop or change context.colour"},
			{move("", `{"log":["a"],"sum":"2"}`), "sum"},
			{move("", `{"log":["a"],"note":{"text":"x"}}`), "it would drop or change context.note.text"},
			{instances.Operation{Kind: "halt"}, `expected a known kind of operation, got "halt"`},
		} {
			if string(c.op.Context) == "null" {
				c.op.Context = nil
			}
			w.wantRefused(t, "order/1", c.op, nil, c.want)
		}
		w.wantRefused(t, "order/1", move("", `{"log":["a"],"blob":"`+strings.Repeat("x", 300<<10)+`"}`), durable.ErrUnstorable, "limit")
	})
}

func TestAKeptInstanceDoesNotExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"))
		w.run(t)
		w.operate(t, "order/1", instances.Operation{Kind: instances.Keep})
		w.post("order/1", event("finish", ""))
		w.run(t)
		if r := w.load("order/1"); r.Status != statechart.Done || !r.ExpireAt.IsZero() {
			t.Errorf("order/1 is %s and expires at %v", r.Status, r.ExpireAt)
		}
		w.operate(t, "order/1", instances.Operation{Kind: instances.Unkeep})
		if got, want := w.load("order/1").ExpireAt, time.Now().Add(24*time.Hour).UTC().Truncate(time.Millisecond); !got.Equal(want) {
			t.Errorf("order/1 expires at %v, want %v", got, want)
		}
		w.run(t)
		w.wantSound(t)
	})
}

// An operator ends a child, or moves the parent out of the child's state. In each run, one call of the consumer fails
// in one way.
func TestAFaultAtAnyCallAfterAnOperationChangesNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []instances.OperationKind{instances.Stop, instances.Terminate, instances.Move} {
		play := func(nth int, f fault) (calls int, outcome string) {
			inFamily(t, func(t *testing.T, w *world) {
				w.post(boss1, ship)
				w.run(t)
				on, op := w.van(t), instances.Operation{Kind: kind}
				if kind == instances.Move {
					on, op.State = boss1, "idle"
				}
				w.post(on, `{"type":"settle.wait","$task":`+w.wait("task", "Queued", 0, 0)+`}`)
				w.run(t)
				w.operate(t, on, op)
				w.hook = func(string) fault {
					if calls++; calls == nth {
						return f
					}
					return none
				}
				w.run(t)
				w.hook = nil
				family := append(w.stored("courier"), w.stored("radio")...)
				slices.Sort(family)
				for _, name := range slices.Concat(family, []string{boss1}, w.stored("order")) {
					r := w.load(name)
					outcome += fmt.Sprintf("%s %s %v %v\n", name, r.Status, r.State, w.logOf(t, name))
				}
				outcome += w.answers("task")
				w.wantParked(t)
			})
			return calls, outcome
		}
		calls, want := play(0, none)
		for nth := 1; nth <= calls; nth++ {
			for f := failBefore; f <= dieAfter; f++ {
				if _, got := play(nth, f); got != want {
					t.Errorf("%s, call %d, %v: got\n%s\nwant\n%s", kind, nth, f, got, want)
				}
			}
		}
		t.Logf("%s: %d calls", kind, calls)
	}
}
