package durable_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// rival returns a hook that runs another process before the nth commit of an instance, as if SQS had delivered the event
// twice.
func (w *world) rival(id string, nth int, run func()) func(call string) fault {
	commits := 0
	return func(call string) fault {
		if call == "Commit "+id {
			if commits++; commits == nth {
				w.mu.Unlock()
				run()
				w.mu.Lock()
			}
		}
		return none
	}
}

func TestAfterAConflictTheTurnBeginsAgainOnWhatIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"))
		w.invoke()
		w.calls = nil
		w.post("order/1", event("add", "b"), event("add", "c"))
		w.hook = w.rival("order/1", 1, func() {
			w.deliver("another queue", "order/1", [2]string{"1", event("add", "in between")})
		})
		if failed := w.invoke(); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		w.wantLog(t, "order/1", "a", "in between", "b", "c")
		w.wantCalls(t, "Load order/1", "Commit order/1", "Load order/1", "Commit order/1", "Load order/1", "Commit order/1")
	})
}

func TestAWriterThatWasFrozenCannotOverwrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The process freezes before its commit. Meanwhile SQS delivers the message again, and later messages too. Then the
		// process wakes up.
		w := newWorld(t)
		w.post("order/1", telling("order/2", "a"), event("add", "b"))
		w.hook = w.rival("order/1", 1, func() {
			time.Sleep(visibilityTimeout)
			w.invoke()
			w.post("order/1", event("add", "c"))
			w.invoke()
		})
		w.invoke()
		w.run(t)
		w.wantLog(t, "order/1", "a", "b", "c")
		w.wantLog(t, "order/2", "a")
		w.wantSound(t)
	})
}

func TestAWriterThatWasFrozenInItsServiceChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var calls atomic.Int64
		w.third["charge"] = func(context.Context, statechart.Call) (string, error) {
			if calls.Add(1) == 1 {
				time.Sleep(8 * time.Second)
				return "frozen", nil
			}
			return "quick", nil
		}
		w.post("order/1", event("charge", ""))
		batch := w.receive(batchSize)
		go w.handle(batch, functionTimeout)
		time.Sleep(time.Second)
		w.handle(batch, functionTimeout) // SQS redelivers too early.
		w.post("order/1", event("add", "after"))
		w.invoke()
		time.Sleep(time.Minute)
		synctest.Wait()
		w.run(t)
		w.wantLog(t, "order/1", "quick", "after")
		if keys := w.calledFor("charge"); len(slices.Compact(keys)) != 1 {
			t.Errorf("keys differ: %q", keys)
		}
	})
}

func TestACommitWhoseAnswerWasLostIsRecognised(t *testing.T) {
	t.Parallel()
	for nth, what := range map[string]fault{"Commit order/1 #1": failAfter, "Commit order/1 #2": dieAfter} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.hook = faults(map[string]fault{nth: what})
			w.post("order/1", telling("order/2", "a"))
			w.run(t)
			w.post("order/1", telling("order/2", "b"))
			w.run(t)
			w.wantLog(t, "order/1", "a", "b")
			w.wantLog(t, "order/2", "a", "b")
			w.wantSound(t)
		})
	}
}

func TestALostAnswerThatTheClientRetriedLooksLikeAConflictAndIsRecognised(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hook = w.rival("order/1", 1, func() {
			// The AWS client retries the write, so the same write arrives twice.
			w.hook = nil
			batch := slices.Clone(w.messages)
			w.deliver(queueARN, "order/1", [2]string{batch[0].SequenceNumber, batch[0].Body})
		})
		w.post("order/1", event("add", "a"))
		if failed := w.invoke(); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		w.wantLog(t, "order/1", "a")
	})
}

func TestConflictsMaxBoundsHowOftenATurnBeginsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.ConflictsMax = 2
		storm := true
		w.hook = func(call string) fault {
			if call == "Commit order/1" && storm {
				record := w.load("order/1")
				record.Revision++ // Another writer commits.
				w.revision["order/1"] = record.Revision
			}
			return none
		}
		w.post("order/1", event("add", "a"))
		if failed := w.invoke(); len(failed) != 1 {
			t.Errorf("failed: %q, want the event", failed)
		}
		w.wantCalls(t, "Load order/1", "Commit order/1", "Load order/1", "Commit order/1", "Load order/1", "Commit order/1", "Delay order/1")
		storm = false
		w.revision["order/1"] = 0
		w.run(t)
		w.wantLog(t, "order/1", "a")
	})
}

func TestAConflictInClearingTheOutboxLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		frozen := false
		w.hook = func(call string) fault {
			if call == "ClearOutbox order/1" && !frozen {
				frozen = true
				w.mu.Unlock()
				w.deliver("another queue", "order/1", [2]string{"1", telling("order/2", "in between")})
				w.mu.Lock()
			}
			return none
		}
		w.post("order/1", telling("order/2", "a"))
		time.Sleep(25 * time.Hour) // The loop leaves no outbox of an event this old in the item.
		w.run(t)
		w.wantLog(t, "order/1", "a", "in between")
		w.wantLog(t, "order/2", "a", "in between")
		w.wantSound(t)
	})
}

// failToStore makes the loop store the count of a try of the event "a", and then fails the write of the result. Before
// each write that takes the count back, it calls `interfere`. An error of `interfere` fails the write.
func (w *world) failToStore(interfere func() error) {
	w.post("order/1", event("add", "before"))
	w.invoke()
	w.hook = faults(map[string]fault{"Load order/1 #1": dieBefore, "Commit order/1 #2": failBefore})
	w.post("order/1", event("add", "a"))
	w.invoke()
	time.Sleep(visibilityTimeout)
	commits := 0
	w.refuse = func(call string) error {
		if call == "Commit order/1" {
			if commits++; commits > 1 { // The hook fails the second commit, so `interfere` begins at the third.
				return interfere()
			}
		}
		return nil
	}
	w.calls = nil
	w.invoke()
}

func TestACountThatAnotherWriterStoredIsNotTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.failToStore(func() error { return durable.ErrConflict })
		w.wantCalls(t, "Load order/1", "Commit order/1", "Commit order/1", "Load order/1", "Commit order/1", "Load order/1", "Delay order/1")
		w.refuse = nil
		w.run(t)
		w.wantLog(t, "order/1", "before", "a")
	})
}

// AbandonedMax is 1, so a count that stays would park the event.
func TestAnOperatorsChangeUsesUpNoTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AbandonedMax = 1
		w.failToStore(func() error {
			w.refuse = nil
			return w.keepIt()
		})
		w.run(t)
		w.wantParked(t)
		w.wantLog(t, "order/1", "before", "a")
	})
}

// keepIt changes order/1 as an operator does.
func (w *world) keepIt() error {
	record, _, err := durable.Operate(w.machines, w.load("order/1"), instances.Operation{Kind: instances.Keep, At: time.Now(), By: "operator"})
	w.store(record)
	return err
}

// After the operator's change, another process writes the record. It may be running a service, so the count stays. The
// process writes either before or after the loop reads the operator's change.
func TestACountThatAnotherProcessStoredAfterAnOperatorIsNotTakenBack(t *testing.T) {
	t.Parallel()
	for _, isRead := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			writes := 0
			w.failToStore(func() (err error) {
				if writes++; writes == 1 {
					err = w.keepIt()
				}
				if !isRead || writes == 2 {
					record := w.load("order/1")
					record.Revision++
					w.store(record)
				}
				return errors.Join(err, durable.ErrConflict)
			})
			if want := map[bool]int{false: 1, true: 2}[isRead]; writes != want {
				t.Errorf("the operator's change is read: %t. The loop tried %d writes, want %d", isRead, writes, want)
			}
		})
	}
}
