package durable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// tasks returns an observer that logs the tasks that still wait after a turn, and the age of the outbox at the turn's
// start.
func (h *heard) tasks() durable.Observer {
	return durable.Observer{
		Held: func(_ context.Context, held durable.Held) {
			h.note("%s of %s has %v of %v", held.Name, held.Instance, held.Left, held.Timeout)
		},
		Loaded: func(_ context.Context, loaded durable.Loaded) {
			if loaded.Outbox > 0 {
				h.note("outbox of %v", loaded.Outbox)
			}
		},
	}
}

// wants calls the method want, then clears the log.
func (h *heard) wants(t *testing.T, want ...string) {
	t.Helper()
	h.want(t, want...)
	h.lines = nil
}

// heardInParcelWorld runs a test in a world with the machine parcel, and logs waiting tasks.
func heardInParcelWorld(t *testing.T, test func(t *testing.T, w *world, h *heard)) {
	t.Helper()
	inParcelWorld(t, func(t *testing.T, w *world) {
		h := &heard{}
		w.config.Observer = h.tasks()
		test(t, w, h)
	})
}

func TestATurnTellsOfTheTasksThatItLeavesWaiting(t *testing.T) {
	t.Parallel()
	heardInParcelWorld(t, func(t *testing.T, w *world, h *heard) {
		w.waitFor("t1", "Delivery", 5*time.Minute, 0)
		w.waitFor("t2", "HandOver", time.Hour, 0)
		w.waitFor("t3", "Delivery", 0, 0) // This task has no timeout.
		w.invoke()
		h.wants(t, "Delivery of parcel/1 has 5m0s of 5m0s", "HandOver of parcel/1 has 1h0m0s of 1h0m0s")
		time.Sleep(280 * time.Second)
		w.post(parcel1, event("hurry", "")) // The event answers HandOver.
		w.invoke()
		h.wants(t, "Delivery of parcel/1 has 20s of 5m0s")
		time.Sleep(15 * time.Second)
		w.post(parcel1, event("finish", "ball")) // The event answers Delivery.
		w.invoke()
		h.wants(t)
		w.wantAnswer(t, "t1", delivered)
		w.wantNoTokens(t)
	})
}

// An event arrives between a task's timeout and the loop's check of the task, which follows a second later.
func TestATaskThatHasTimedOutIsToldOfUntilItIsLookedAfter(t *testing.T) {
	t.Parallel()
	heardInParcelWorld(t, func(t *testing.T, w *world, h *heard) {
		w.waitFor("t1", "Delivery", 5*time.Minute, 0)
		w.invoke()
		h.wants(t, "Delivery of parcel/1 has 5m0s of 5m0s")
		time.Sleep(300*time.Second + 500*time.Millisecond)
		w.post(parcel1, event("hurry", ""))
		w.invoke()
		h.wants(t, "Delivery of parcel/1 has -500ms of 5m0s")
		w.run(t)
		h.wants(t)
		w.wantNoTokens(t)
	})
}

func TestATurnThatFailsLeavesWaitingWhatIsStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// post is sent 200 s after the task begins to wait. `hook` injects a fault into the turn that receives it.
		post []string
		hook func(w *world) func(call string) fault
		want []string
		// `then` holds the log of the retry, a second later.
		then []string
	}{
		"its service will be retried": {
			post: []string{event("ship", "")},
			hook: func(w *world) func(string) fault {
				w.third["pack"] = failing(9, errors.New("no tape"))
				return nil
			},
			want: []string{"Delivery of parcel/1 has 1m40s of 5m0s"},
			then: nil, // The service has failed permanently and the parcel is lost, so the task is answered.
		},
		"its commit fails": {
			post: []string{event("hurry", ""), event("finish", "ball")},
			hook: func(*world) func(string) fault { return faults(map[string]fault{"Commit parcel/1 #1": failBefore}) },
			want: []string{"Delivery of parcel/1 has 1m40s of 5m0s"},
		},
		"its answer cannot be given": {
			post: []string{event("hurry", ""), event("finish", "ball")},
			hook: func(*world) func(string) fault { return faults(map[string]fault{"Answer Delivery #1": failBefore}) },
			want: []string{"Delivery of parcel/1 has 1m40s of 5m0s"},
			then: []string{"outbox of 1s"},
		},
		"its answer is given but not recorded": {
			post: []string{event("hurry", ""), event("finish", "ball")},
			hook: func(*world) func(string) fault {
				return faults(map[string]fault{"ClearOutbox parcel/1 #1": failBefore})
			},
			want: []string{"Delivery of parcel/1 has 1m40s of 5m0s"},
			then: []string{"outbox of 1s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heardInParcelWorld(t, func(t *testing.T, w *world, h *heard) {
				w.waitFor("t1", "Delivery", 5*time.Minute, 0)
				w.invoke()
				h.lines = nil
				time.Sleep(200 * time.Second)
				w.hook = c.hook(w)
				w.post(parcel1, c.post...)
				w.invoke()
				h.wants(t, c.want...)
				time.Sleep(time.Second)
				w.invoke()
				h.wants(t, c.then...)
				w.wantNoTokens(t)
			})
		})
	}
}

// Another process applies an event of the instance while the turn applies the next two.
func TestATurnThatAnotherWriterHasOvertakenLeavesNothing(t *testing.T) {
	t.Parallel()
	heardInParcelWorld(t, func(t *testing.T, w *world, h *heard) {
		w.waitFor("t1", "Delivery", 5*time.Minute, 0)
		w.invoke()
		h.lines = nil
		w.hook = w.rival(parcel1, 1, func() { w.deliver("another queue", parcel1, [2]string{"1", event("hurry", "")}) })
		w.post(parcel1, event("hurry", ""), event("finish", "ball"))
		if failed := w.invoke(); len(failed) > 0 {
			t.Errorf("failed: %q", failed)
		}
		h.wants(t, "Delivery of parcel/1 has 5m0s of 5m0s")
		w.wantAnswer(t, "t1", delivered)
	})
}

// spoiler makes a stored item unreadable, or a call fail.
type spoiler func(w *world)

func edited(id string, change func(*instances.Record)) spoiler {
	return func(w *world) {
		record := w.load(id)
		change(&record)
		w.store(record)
	}
}

func refused(err error, call string) spoiler {
	return func(w *world) { w.refuse = refusing(err, call) }
}

// A delivery fails and is retried. Each case is one reason for the failure.
func TestWhatCannotBeReadIsToldOf(t *testing.T) {
	t.Parallel()
	const unreadableItem, triedAgain = `level=ERROR msg="stored item is unreadable, nothing was changed"`, `level=WARN msg="delivery failed, will retry"`
	for name, c := range map[string]struct {
		spoil      spoiler
		unreadable bool
		reason     string
		line       string
	}{
		"an item that is no record": {refused(durable.ErrUnreadable, "Load order/1"), true, "hydrating order/1: no Load order/1: unreadable item", unreadableItem},
		"a table that is denied": {refused(durable.ErrDenied, "Load order/1"), true, "hydrating order/1: no Load order/1: a retry cannot succeed until",
			`level=ERROR msg="cannot read the table, nothing was changed"`},
		"an invalid snapshot": {edited("order/1", func(r *instances.Record) { r.Snapshot = []byte(`{"version": "one"}`) }), true,
			"hydrating order/1: unreadable snapshot", unreadableItem},
		"an effect of an unknown kind":     {edited("order/1", func(r *instances.Record) { r.Outbox[0].Kind = "beam" }), true, `no effect of kind "beam"`, unreadableItem},
		"a table that answers too slowly":  {refused(errors.New("throttled"), "Load order/1"), false, "hydrating order/1: no Load order/1: throttled", triedAgain},
		"a queue that is denied":           {refused(durable.ErrDenied, "Send order/9"), false, "performing effect", triedAgain},
		"a table without write permission": {refused(durable.ErrDenied, "ClearOutbox order/1"), false, "clearing the outbox of order/1", triedAgain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.hook = faults(map[string]fault{"Send order/9 #1": failBefore})
				w.post("order/1", telling("order/9", "ball"))
				time.Sleep(25 * time.Hour) // The loop leaves no outbox of an event this old in the item.
				w.invoke()
				h := w.tellingOfRetries()
				var log bytes.Buffer
				w.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
				c.spoil(w)
				time.Sleep(time.Second)
				w.invoke()
				h.wantRetry(t, c.unreadable, c.reason)
				if !strings.Contains(log.String(), c.line) {
					t.Errorf("want a line %s, got %s", c.line, &log)
				}
			})
		})
	}
}

// When the loop starts a child, it loads the parent's item. That item cannot be read.
func TestAParentThatCannotBeReadIsToldOf(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]spoiler{
		"its item":     refused(durable.ErrUnreadable, "Load boss/1"),
		"its snapshot": edited(boss1, func(r *instances.Record) { r.Snapshot = []byte(`"none"`) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFamily(t)
				w.post(boss1, ship)
				w.invoke()
				h := w.tellingOfRetries()
				spoil(w)
				w.invoke()
				h.wantRetry(t, true, "the parent boss/1")
			})
		})
	}
}

// tellingOfRetries sets an observer that logs the retries from now on.
func (w *world) tellingOfRetries() *heard {
	h := &heard{}
	w.config.Observer.Retried = func(_ context.Context, r durable.Retried) { h.note("unreadable %v: %v", r.Unreadable, r.Reason) }
	return h
}

func (h *heard) wantRetry(t *testing.T, unreadable bool, reason string) {
	t.Helper()
	if prefix := fmt.Sprintf("unreadable %v: ", unreadable); len(h.lines) != 1 || !strings.HasPrefix(h.lines[0], prefix) || !strings.Contains(h.lines[0], reason) {
		t.Errorf("observed %q, want one retry, %sand the reason %q", h.lines, prefix, reason)
	}
}

// An acknowledgement of a heartbeat gets lost now and then, and the visibility timeout is longer than the time for which SQS
// recognises duplicates. So the queue delivers a firing twice, and both copies schedule the next one.
func TestALostAcknowledgementDoesNotMultiplyHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.parcel())
		w.waitFor("t1", "Delivery", 0, time.Hour)
		w.runFor(t, time.Minute)
		acknowledged := 0
		w.hook = func(call string) fault {
			if call == "Acknowledge "+parcel1 {
				if acknowledged++; acknowledged%5 == 1 {
					return dieBefore
				}
			}
			return none
		}
		w.runFor(t, 24*time.Hour)
		if chains := len(w.scheduled); chains != 1 {
			t.Errorf("want one firing to be scheduled, got %d", chains)
		}
		if beats := w.counted("Heartbeat"); beats < 72 || beats > 100 {
			t.Errorf("want about a heartbeat every 20 minutes for a day, got %d", beats)
		}
	})
}

// The number of a firing is far too high, as if its sender's clock were ahead. The next firing still comes within the
// interval, and not at once.
func TestAFiringAheadOfItsTimeDelaysNoHeartbeat(t *testing.T) {
	t.Parallel()
	for _, count := range []int{8_000_000, 9_000_000_000_000_000_000} { // The time of the next firing overflows.
		inParcelWorld(t, func(t *testing.T, w *world) {
			w.waitFor("t1", "Delivery", 0, time.Hour)
			w.runFor(t, time.Minute)
			record := w.load(parcel1)
			w.post(parcel1, fmt.Sprintf(`{"type": "settle.token", "token": %q, "count": %d, "$incarnation": %d}`, record.Tokens[0].Key, count, record.CreatedAt.UnixMilli()))
			w.runFor(t, time.Second)
			for _, s := range w.scheduled {
				if wait := time.Until(s.at); wait > 20*time.Minute || wait <= 0 {
					t.Errorf("want the next firing within 20 minutes, got %v", wait)
				}
			}
			if len(w.scheduled) != 2 {
				t.Errorf("want the real firing and the one after the forged one, got %d", len(w.scheduled))
			}
		})
	}
}
