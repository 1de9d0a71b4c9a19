package durable_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// race is one run in which an operator changes an instance while a consumer works on it.
type race struct {
	// `on` is the machine of the instance that the operator changes: boss/1, or its active courier.
	on, op, state string
	// script holds the events of boss/1. At "", the run waits until no work is left, and gives the courier a task to
	// hold.
	script []string
	// nth is the number of the consumer's call before which the change is stored. If `freezes` is set, the consumer
	// freezes before this call until another process has handled all messages.
	nth     int
	freezes bool
}

// racesEvery is the distance between the calls at which the test tries a combination. Other combinations begin at other
// calls.
const racesEvery = 7

// For scripts that send the courier an event, the test leaves out the move into the state `shipping`. The operator
// gives no input, so the new courier cannot start, and its event would be parked.
func TestAnOperatorsChangeDuringAnyCallLeavesASoundFamily(t *testing.T) {
	t.Parallel()
	changes := []race{
		{on: "boss", op: "move", state: "idle"}, {on: "boss", op: "move", state: "shipping"}, {on: "boss", op: "move", state: "gone"},
		{on: "courier", op: "move", state: "driving"}, {on: "courier", op: "move", state: "stuck"},
		{on: "courier", op: "move", state: "boarding"}, {on: "courier", op: "move", state: "arrived"},
	}
	for _, op := range []string{"stop", "terminate", "keep"} {
		changes = append(changes, race{on: "boss", op: op}, race{on: "courier", op: op})
	}
	runs := 0
	for _, r := range changes {
		for _, second := range []string{"", "finish", "cancel", "again", "tell", "doom"} {
			if r.script = []string{ship}; second != "" {
				r.script = append(r.script, "", event(second, "x"))
			}
			if r.on == "boss" && r.state == "shipping" && (second == "finish" || second == "tell") {
				continue
			}
			for _, r.freezes = range []bool{false, true} {
				happens := true
				for r.nth = 1 + runs%racesEvery; happens; r.nth += racesEvery {
					runs++
					inFamily(t, func(t *testing.T, w *world) { happens = w.race(t, r) })
				}
			}
		}
	}
	t.Logf("%d runs", runs)
}

// race performs one run and checks its end. It reports whether the consumer made the nth call.
func (w *world) race(t *testing.T, r race) (happened bool) {
	t.Helper()
	w.third["hang"] = lasting(time.Second, "hang ok")
	calls, applied := 0, "no change"
	w.hook = func(call string) fault {
		if calls++; calls != r.nth {
			return none
		}
		happened = true
		applied = w.change(t, r) + " before " + call
		if r.freezes && !strings.HasPrefix(call, "Serve") && !strings.HasPrefix(call, "Acknowledge") {
			w.mu.Unlock()
			time.Sleep(visibilityTimeout + time.Second)
			for range 5 {
				w.invoke()
				time.Sleep(time.Second)
			}
			w.mu.Lock()
		}
		return none
	}
	for _, body := range r.script {
		if body != "" {
			w.post(boss1, body)
			continue
		}
		w.run(t)
		if van := w.active("courier"); len(van) > 0 {
			w.post(van[0], `{"type":"settle.wait","$task":`+w.wait("task", "Queued", 0, 0)+`}`)
		}
	}
	w.run(t)
	w.hook = nil
	w.wantParked(t)
	couriers, want := w.active("courier"), 0
	if slices.Equal(w.active("boss"), []string{boss1}) && slices.Equal(w.load(boss1).State, []string{"shipping"}) {
		want = 1
	}
	if radios := w.active("radio"); len(couriers) != want || len(radios) != want {
		t.Errorf("%s: boss/1 is %s in %v with the couriers %q and the radios %q", applied, w.load(boss1).Status, w.load(boss1).State, couriers, radios)
	}
	if w.workflows["task"] != nil && want == 0 && w.answers("task") == "waits" {
		t.Errorf("%s: the task still waits", applied)
	}
	for _, name := range append(w.stored("courier"), boss1) {
		courier := w.load(name)
		isOver := courier.Status != statechart.Active && name != boss1 // The machine boss has no retention.
		if expires := !courier.ExpireAt.IsZero(); expires != (isOver && !courier.Kept) {
			t.Errorf("%s: %s is %s (kept: %v) and expires at %v", applied, name, courier.Status, courier.Kept, courier.ExpireAt)
		}
	}
	if t.Failed() {
		t.Fatalf("%s: %+v", applied, r)
	}
	return happened
}

// change stores the operator's change, if the instance is active, and wakes the instance. The world must be locked.
func (w *world) change(t *testing.T, r race) (applied string) {
	t.Helper()
	active := w.active(r.on)
	if len(active) == 0 {
		return "no " + r.on
	}
	id := active[0]
	record, _, err := durable.Operate(w.machines, w.load(id), instances.Operation{Kind: instances.OperationKind(r.op), State: r.state, At: time.Now(), By: "operator"})
	if err != nil {
		if !errors.Is(err, instances.ErrEnded) {
			t.Error(err)
		}
		return err.Error()
	}
	w.store(record)
	w.ledger.commit(record)
	w.enqueueRaw(id, wakeUp)
	return fmt.Sprintf("%s of %s at revision %d", r.op, id, record.Revision)
}

// active returns the active instances of a machine.
func (w *world) active(machine string) []string {
	return slices.DeleteFunc(w.stored(machine), func(name string) bool { return w.load(name).Status != statechart.Active })
}
