package durable_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

func growing(bytes int) string { return fmt.Sprintf(`{"type": "grow", "bytes": %d}`, bytes) }

func TestOfFoldedEventsOnlyTheOneThatCannotBeStoredIsParked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, bad, reason string }{
		{"too large", growing(300 << 10), "bytes, the limit is 262144"},
		{"does not marshal", `{"type": "spoil"}`, "unsupported value: NaN"},
		{"marshalling panics", `{"type": "poison"}`, "panic: a value of the type string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				bodies := adds(10)
				bodies[4] = c.bad
				w.post("order/1", bodies...)
				w.post("order/2", event("add", "beside"))
				if failed := w.invoke(); len(failed) != 0 {
					t.Errorf("failed: %q", failed)
				}
				w.wantParked(t, [2]string{c.bad, c.reason})
				w.wantLog(t, "order/1", "0", "1", "2", "3", "5", "6", "7", "8", "9")
				if shown := w.load("order/1").Error; shown == nil || !strings.Contains(shown.Message, c.reason) {
					t.Errorf("the instance shows %+v", shown)
				}
			})
		})
	}
}

func TestTheFirstEventOfAnInstanceThatCannotBeStoredLeavesNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", growing(300<<10))
		w.invoke()
		w.wantParked(t, [2]string{"grow", "bytes, the limit is 262144"})
		w.wantCalls(t, "Load order/1", "Load order/1", "Park order/1")
	})
}

// pickyStore is a process whose store refuses some records.
type pickyStore struct {
	*process
	refused func(instances.Record) bool
	err     error
}

// mentioning returns a function that selects records whose snapshot contains the word.
func mentioning(word string) func(instances.Record) bool {
	return func(record instances.Record) bool { return strings.Contains(string(record.Snapshot), word) }
}

func (s pickyStore) Commit(ctx context.Context, record instances.Record) error {
	if s.refused(record) {
		return s.err
	}
	return s.process.Commit(ctx, record)
}

// handlePicky does the work of handle with a pickyStore.
func (w *world) handlePicky(t *testing.T, refused func(instances.Record) bool, err error) (failed []string) {
	t.Helper()
	p := w.start(functionTimeout)
	defer p.cancel()
	loop, newErr := durable.New(w.machines, durable.Ports{Store: pickyStore{p, refused, err}, Queue: p, Timers: p}, w.config)
	if newErr != nil {
		t.Fatal(newErr)
	}
	failed = loop.Handle(p.ctx, w.receive(batchSize))
	if len(failed) == 0 {
		w.messages = nil
	}
	return failed
}

func TestWhatTheStoreRefusesForGoodIsParked(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"too large":  &durable.TooLargeError{Bytes: 410_000, BytesMax: 409_600},
		"unstorable": fmt.Errorf("validation: %w", durable.ErrUnstorable),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.post("order/1", event("add", "a"), event("add", "unloved"), event("add", "b"))
				if failed := w.handlePicky(t, mentioning("unloved"), err); len(failed) != 0 {
					t.Errorf("failed: %q", failed)
				}
				w.wantParked(t, [2]string{"unloved", err.Error()})
				w.wantLog(t, "order/1", "a", "b")
			})
		})
	}
}

func TestARecordTooFullForTheReasonStillLetsItsGroupGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"), `{"type": "vanish"}`, event("add", "b"))
		// The store refuses to store the reason.
		showing := func(record instances.Record) bool { return record.Error != nil }
		if failed := w.handlePicky(t, showing, &durable.TooLargeError{Bytes: 2, BytesMax: 1}); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		w.wantParked(t, [2]string{"vanish", "undeclared"})
		w.wantLog(t, "order/1", "a", "b")
	})
}

// The store refuses to store the reason, as above. The message is still parked because of its chain.
func TestAMessageOfACycleIsParkedForItsChainThoughItsRecordIsTooFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"), `{"$chain": {"origin": "x", "hops": 1001}, "type": "add", "item": "b"}`)
		showing := func(record instances.Record) bool { return record.Error != nil }
		if failed := w.handlePicky(t, showing, &durable.TooLargeError{Bytes: 2, BytesMax: 1}); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		w.wantParked(t, [2]string{`"b"`, "(HopsMax)"})
	})
}

// The event is applied, but its service has killed the process. The store then refuses all further records.
func TestAnAppliedEventIsNotParkedThoughItsRecordIsTooFullForTheReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = killing(2)
		w.post("order/1", event("charge", ""))
		for range 2 {
			w.invoke()
			time.Sleep(visibilityTimeout)
		}
		w.wantState(t, "order/1", "charging")
		all := func(instances.Record) bool { return true }
		if failed := w.handlePicky(t, all, &durable.TooLargeError{Bytes: 2, BytesMax: 1}); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		w.wantParked(t)
	})
}

// The outcome of two redelivered events does not fit into the item, not even without its history. The loop tries the
// second event again in the same process.
func TestARetryOneByOneIsNotAnotherTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AbandonedMax = 1
		w.post("order/1", event("add", "before"))
		w.invoke()
		w.hook = faults(map[string]fault{"Load order/1 #1": dieBefore})
		w.post("order/1", event("add", "a"), event("add", "b"))
		w.invoke()
		time.Sleep(visibilityTimeout)
		refusals := 0
		both := func(record instances.Record) bool {
			if refusals == 2 || !mentioning(`"b"`)(record) {
				return false
			}
			refusals++
			return true
		}
		if failed := w.handlePicky(t, both, &durable.TooLargeError{Bytes: 2, BytesMax: 1}); len(failed) != 0 || refusals != 2 {
			t.Errorf("%d refusals, failed: %q", refusals, failed)
		}
		w.wantParked(t)
		w.wantLog(t, "order/1", "before", "a", "b")
	})
}

func TestEffectsStoredBeforeAnEventTurnedOutUnstorableArePerformed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// On a redelivery, the instance's greeting is stored before its service starts. The end of the service cannot be
		// stored.
		w := newWorld(t)
		w.hook = faults(map[string]fault{"Commit greeter/1 #1": dieBefore})
		w.post("greeter/1", event("charge", ""))
		w.invoke()
		time.Sleep(visibilityTimeout)
		w.third["charge"] = lasting(0, "unloved")
		if failed := w.handlePicky(t, mentioning("unloved"), &durable.TooLargeError{Bytes: 2, BytesMax: 1}); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		w.wantParked(t) // The event is applied. A redrive from the dead-letter queue would apply it twice.
		if shown := w.load("greeter/1").Error; shown == nil || !strings.Contains(shown.Message, "the limit is 1") {
			t.Errorf("the instance shows %+v", shown)
		}
		w.wantSound(t)
		if w.counted("Send order/2") != 1 {
			t.Errorf("the greeting was sent %d times, want once", w.counted("Send order/2"))
		}
	})
}

func TestNoServiceStartsInAnInstanceThatCannotBeStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"), growing(300<<10), event("charge", ""))
		if failed := w.invoke(); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		w.wantParked(t, [2]string{"grow", "the limit is 262144"})
		w.wantServed(t, "charge 1") // No second attempt runs.
		w.wantLog(t, "order/1", "a", "charge ok")
	})
}

func TestAResultThatCannotBeStoredIsAFailureOfItsService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["second"] = lasting(0, strings.Repeat("x", 300<<10))
		w.post("order/1", event("devour", ""), event("add", "after"))
		if failed := w.invoke(); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		w.wantParked(t)
		w.wantServed(t, "first 1", "second 1")
		log := w.logOf(t, "order/1")
		if len(log) != 3 || !strings.Contains(log[1], "second: storing order/1") || !strings.Contains(log[1], "the limit is 262144") || log[2] != "after" {
			t.Errorf("the log is %q", log)
		}
		if history := w.load("order/1").History; len(history) != 4 {
			t.Errorf("the history lists a transition that was not applied: %+v", history)
		}
	})
}

func TestAStoredSnapshotThatCannotBeReadIsNotTouched(t *testing.T) {
	t.Parallel()
	for name, snapshot := range map[string]string{
		"another version": `{"machine": "order", "version": 2, "status": "active", "value": "idle", "context": {}}`,
		"state is gone":   `{"machine": "order", "version": 1, "status": "active", "value": "gone", "context": {}}`,
		"no JSON":         `"snapshot"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.post("order/1", event("add", "a"))
				w.invoke()
				record := w.load("order/1")
				good := record.Snapshot
				record.Snapshot = []byte(snapshot)
				w.store(record)
				stored := string(w.records["order/1"])
				w.calls = nil

				w.post("order/1", event("add", "b"), `{"type": "vanish"}`)
				w.post("order/2", event("add", "beside"))
				w.runFor(t, 12*time.Hour)
				if string(w.records["order/1"]) != stored || len(w.parked) != 0 || len(w.messages) != 2 {
					t.Errorf("the item is now %s, parked %v, %d messages left; want all unchanged", w.records["order/1"], w.parked, len(w.messages))
				}
				if last := w.delays[len(w.delays)-1]; w.delays[0] != time.Second || w.delays[1] != 2*time.Second || last != 5*time.Minute {
					t.Errorf("the backoff went from %v to %v", w.delays[0], last)
				}
				w.wantLog(t, "order/2", "beside")

				record.Snapshot = good // A version that can read the item is deployed.
				w.store(record)
				w.run(t)
				w.wantLog(t, "order/1", "a", "b")
				w.wantParked(t, [2]string{"vanish", "undeclared"})
			})
		})
	}
}

func TestAnInstanceIsSettledBeforeAFirstEventThatCannotBeStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("boot/1", growing(300<<10))
		w.run(t)
		w.wantParked(t, [2]string{"grow", "bytes, the limit is 262144"})
		w.wantState(t, "boot/1", "idle")
		w.wantLog(t, "boot/1", "boot ok")
		if len(w.served) != 1 {
			t.Errorf("its service has run %d times, want once", len(w.served))
		}
	})
}

// A new version's migration makes the snapshot too large. Then a duplicate arrives, and a firing of a timer that no longer
// exists.
func TestARepeatIsNotParkedForWhatItsInstanceOwes(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		body := fmt.Sprintf(`{"type": "add", "item": "a", "$task": %s}`, w.wait("t1", "Outcome", 24*time.Hour, 0))
		w.post("desk/1", body, event("ship", ""))
		w.runFor(t, time.Minute)
		w.wantState(t, "desk/1", "helped")
		w.host(t, w.desk(2, deskFrom1))
		w.config.SnapshotBytesMax = 100
		w.post("desk/1", body, `{"type": "settle.timer", "timer": "9.9"}`)
		w.runFor(t, time.Minute)
		w.wantParked(t)
		w.wantAnswer(t, "t1", "waits")
		w.post("desk/1", event("add", "b"))
		w.runFor(t, time.Minute)
		w.wantParked(t, [2]string{"add", "the limit is 100"})
	})
}

// A process of the new version cannot store the migrated instance. Meanwhile a process of the old version stores an event
// and dies before it performs the effects. The new process must perform them, even if its only delivery is a duplicate.
func TestARepeatIsNotAcknowledgedBeforeTheOutboxOfAnother(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		w.post("desk/1", event("ship", ""))
		w.runFor(t, time.Minute)
		w.host(t, w.desk(2, deskFrom1))
		w.config.SnapshotBytesMax = 100
		loads, refused := 0, 0
		refuse := func(call string) fault {
			if call != "Send order/2" || refused == 2 {
				return none
			}
			refused++
			return failBefore
		}
		w.hook = func(call string) fault {
			if call == "Load desk/1" {
				loads++
			}
			if call != "Load desk/1" || loads != 2 { // The second load precedes the parking.
				return refuse(call)
			}
			w.mu.Unlock()
			defer w.mu.Lock()
			machines, config := w.machines, w.config
			w.host(t, w.desk(1))
			w.config.SnapshotBytesMax = 0
			w.hook = faults(map[string]fault{"Send order/2 #1": dieBefore})
			w.deliver("another queue", "desk/1", [2]string{"1", telling("order/2", "owed")})
			w.machines, w.config, w.hook = machines, config, refuse
			return none
		}
		w.post("desk/1", `{"type": "settle.timer", "timer": "9.9"}`)
		if failed := w.invoke(); len(failed) != 1 || len(w.load("desk/1").Outbox) == 0 {
			t.Errorf("failed: %q, outbox %+v: want the duplicate retried until the outbox is drained", failed, w.load("desk/1").Outbox)
		}
		w.config.SnapshotBytesMax = 0
		w.runFor(t, time.Minute)
		w.wantParked(t)
		w.wantLog(t, "order/2", "owed")
	})
}
