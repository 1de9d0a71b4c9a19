package durable_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestAnEventThatTheChartFailsOnIsTriedAndThenParked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, reason string }{
		{"refuse", `chart order, state "idle", event "refuse": action refuse: refused`},
		{"crash", "action crash: panic: a value of the type string"},
		{"explode", "guard exploding: panic: a value of the type string"},
	} {
		t.Run(c.typ, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				bad := event(c.typ, "bad")
				w.post("order/1", event("add", "before"), bad, event("add", "after"))
				w.post("order/2", event("add", "beside"))

				// The events before the bad one are committed and acknowledged. The loop retries the bad event and the
				// events after it.
				if failed := w.invoke(); !slices.Equal(failed, []string{bad, event("add", "after")}) {
					t.Errorf("failed: %q", failed)
				}
				w.wantLog(t, "order/1", "before")
				w.wantLog(t, "order/2", "beside")
				w.wantParked(t)
				if record := w.load("order/1"); record.Error != nil || markOf(record) == nil || markOf(record).Count != 1 {
					t.Errorf("after the first try the record shows %+v at revision %d", record.Error, record.Revision)
				}

				time.Sleep(w.delays[0])
				w.invoke()
				if record := w.load("order/1"); markOf(record) == nil || markOf(record).Count != 2 || markOf(record).SequenceNumber != "2" {
					t.Errorf("after the second try the count is %+v", markOf(record))
				}
				w.wantParked(t)

				w.run(t)
				w.wantParked(t, [2]string{bad, c.reason})
				w.wantLog(t, "order/1", "before", "after")
				if p := w.parked[0]; p.ReceiveCount != 3 {
					t.Errorf("parked at receipt %d, want 3 (AttemptsMax)", p.ReceiveCount)
				}
				if want := []time.Duration{time.Second, 2 * time.Second}; !slices.Equal(w.delays, want) {
					t.Errorf("delayed %v, want %v", w.delays, want)
				}
				shown := w.load("order/1").Error
				if shown == nil || shown.Event != c.typ || !strings.Contains(shown.Message, c.reason) {
					t.Errorf("the instance shows %+v", shown)
				}
			})
		})
	}
}

func TestAttemptsMaxIsConfigurable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AttemptsMax = 1
		w.post("order/1", event("refuse", ""), event("add", "a"))
		if failed := w.invoke(); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		w.wantLog(t, "order/1", "a")
		w.wantParked(t, [2]string{"refuse", "refused"})
	})
}

func TestAFirstEventThatFailsLeavesNoInstanceAndNoEffectBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("greeter/1", event("refuse", ""))
		w.invoke()
		w.wantCalls(t, "Load greeter/1", "Delay greeter/1")
		w.runFor(t, 2*time.Second)
		w.wantCalls(t, "Load greeter/1", "Delay greeter/1")
		if len(w.records) != 0 {
			t.Errorf("stored: %s", w.records)
		}

		w.runFor(t, time.Minute)
		w.wantParked(t, [2]string{"refuse", "refused"})
		if len(w.records) != 0 {
			t.Errorf("stored: %s", w.records)
		}
		w.wantSound(t)
	})
}

func TestAStartThatFailsIsTriedAndThenParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("greeter/unstartable", adds(2)...)
		w.run(t)
		w.wantParked(t, [2]string{`"0"`, "panic: a value of the type string"}, [2]string{`"1"`, "panic: a value of the type string"})
		if len(w.records) != 0 {
			t.Errorf("stored: %s", w.records)
		}
		if w.parked[0].ReceiveCount != 3 {
			t.Errorf("parked at receipt %d, want 3", w.parked[0].ReceiveCount)
		}
	})
}

func TestAnOutageDoesNotParkTheFirstEventOfAnInstance(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"Load order/1", "Commit order/1"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.post("order/1", adds(2)...)
				outage := time.Now().Add(2 * time.Hour)
				w.hook = func(c string) fault {
					if c == call && time.Now().Before(outage) {
						return failBefore
					}
					return none
				}
				w.run(t)
				w.wantParked(t)
				w.wantLog(t, "order/1", "0", "1")
			})
		})
	}
}

func TestAnEventThatKillsTheProcessEveryTimeIsParkedAtLast(t *testing.T) {
	t.Parallel()
	for _, exists := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.config.AbandonedMax = 4
			if exists {
				w.post("order/1", event("add", "before"))
				w.invoke()
			}
			w.post("order/1", event("add", "killer"), event("add", "after"))
			commits := 0
			// The test cannot kill the process inside the chart's code, so it kills the process at the next write.
			w.hook = func(call string) fault {
				record := w.load("order/1")
				if call != "Commit order/1" || len(w.parked) > 0 {
					return none
				}
				if markOf(record) != nil && markOf(record).Count > commits && commits < w.config.AbandonedMax {
					commits = markOf(record).Count
					return dieBefore
				}
				if markOf(record) == nil && (!exists && w.messages[0].ReceiveCount <= 3 || exists && w.messages[0].ReceiveCount == 1) {
					return dieBefore
				}
				return none
			}
			w.run(t)
			w.wantParked(t, [2]string{"killer", "the process died during the attempt, 4 times"})
			if exists {
				w.wantLog(t, "order/1", "before", "after")
			} else {
				w.wantLog(t, "order/1", "after")
			}
		})
	}
}

func TestTheEndOfAServiceThatKillsTheProcessEveryTimeBlocksTheGroupOnlySoLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The process dies at the write that follows the service's end. Once no attempt is left, the chart receives an
		// error event, and the process dies at the write that follows this event.
		w := newWorld(t)
		w.config.AbandonedMax = 4
		w.post("order/1", event("add", "before"))
		w.invoke()
		w.post("order/1", event("charge", ""), event("add", "after"))
		last := 3
		commits := 0
		w.hook = func(call string) fault {
			switch call {
			case "Load order/1":
				commits, last = 0, 2 // `last` is the number of writes: one for the attempt, one for the service's end.
				switch w.messages[0].ReceiveCount {
				case 1:
					last = 1
				case 2:
					last = 3 // `last` is the number of writes: one each for the try, the attempt and the service's end.
				}
			case "Commit order/1":
				attempt := markOf(w.load("order/1"))
				if commits++; commits == last && (attempt == nil || attempt.SequenceNumber == "2" && attempt.Count <= 7) {
					return dieBefore
				}
			}
			return none
		}
		w.run(t)
		w.wantParked(t) // The event is applied. A redrive from the dead-letter queue would apply it twice.
		if shown := w.load("order/1").Error; shown == nil || shown.Message != "settling order/1: the process died during the attempt, 7 times; find the cause in the log, fix it, then send the event again" {
			t.Errorf("the instance shows %+v", shown)
		}
		w.wantLog(t, "order/1", "before", "charge: the last of 3 attempts did not finish", "after")
		w.wantServed(t, "charge 1", "charge 1", "charge 2", "charge 3")
	})
}

func TestRetriesOfAnEarlierServiceAreNotCountedAsTriesOfTheEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["boot"] = failing(20, errors.New("not yet"))
		w.post("boot/1", event("refuse", "first"), event("add", "second"))
		w.run(t)
		w.wantParked(t, [2]string{"refuse", "refused"})
		w.wantLog(t, "boot/1", "charge ok", "second")
		if keys := w.calledFor("boot"); len(keys) != 21 {
			t.Errorf("%d attempts, want 21", len(keys))
		}
	})
}

// The chart fails on an event that would start an instance. No instance is stored yet, so nothing holds the count of
// the event's tries.
func TestEachFailureOfAFirstEventIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var reasons []string
		w.config.Observer.Retried = func(_ context.Context, r durable.Retried) { reasons = append(reasons, r.Reason.Error()) }
		w.post("order/1", event("refuse", ""))
		w.run(t)
		const reason = `applying "refuse" to order/1: chart order, state "idle", event "refuse": action refuse: refused`
		if !slices.Equal(reasons, []string{reason, reason}) {
			t.Errorf("the retries have the reasons %q, want %q twice", reasons, reason)
		}
	})
}

func TestAServiceEndThatTheChartRefusesIsParkedAndBlocksNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["doom"] = failing(1, errors.New("doomed"))
		w.post("order/1", event("add", "before"), event("doom", ""), event("add", "after"))
		w.post("order/2", event("add", "beside"))
		w.run(t)
		w.wantParked(t, [2]string{"after", "broken down"}) // The event "doom" is already applied.
		w.wantLog(t, "order/1", "before")
		w.wantState(t, "order/1", "doomed")
		w.wantServed(t, "doom 1")
		w.wantLog(t, "order/2", "beside")
	})
}

// A stale timer reaches an instance that cannot settle.
func TestAStaleTimerOfAStuckInstanceIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["doom"] = failing(1, errors.New("doomed"))
		w.post("order/1", event("doom", ""), `{"type":"settle.timer","timer":"9.9","$incarnation":1}`)
		w.run(t)
		w.wantParked(t)
		w.wantState(t, "order/1", "doomed")
	})
}

func TestAnErrorOfAServiceIsNeverTakenForOneOfTheLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["boot"] = failing(6, &statechart.StepError{Chart: "another", Err: errors.New("failed there")})
		w.post("boot/1", event("add", "a"))
		w.run(t)
		w.wantParked(t)
		w.wantLog(t, "boot/1", "charge ok", "a")
	})
}

// In the case "after some deaths", the process dies in the first deliveries before any try. These deliveries do not
// count as tries.
func TestAServiceThatExhaustsItsAttemptsBeforeTheFirstEventParksIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan   map[string]fault
		served []string
	}{
		// The service runs once per try, because the chart fails each time the service ends.
		"at once":           {served: []string{"boot 1", "boot 2", "boot 3"}},
		"after some deaths": {map[string]fault{"Load boot/1 #1": dieBefore, "Load boot/1 #2": dieBefore, "Load boot/1 #3": dieBefore}, []string{"boot 1", "boot 2", "boot 3", "boot 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.third["boot"] = func(context.Context, statechart.Call) (string, error) {
					return "", statechart.Permanent(errors.New("never"))
				}
				w.hook = faults(c.plan)
				w.post("boot/1", event("add", "a"))
				w.run(t)
				w.wantParked(t, [2]string{"add", "broken down"})
				w.wantState(t, "boot/1", "booting")
				w.wantServed(t, c.served...)
			})
		})
	}
}

// Each of two queues delivers one event of the instance. The queues deliver in turns. The chart fails on both events.
func TestTheTriesOfEachQueueAreCountedApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deliver("one", "order/1", [2]string{"1", event("add", "a")})
		failing := func(queue string, received int) durable.Delivery {
			return durable.Delivery{MessageID: queue, ReceiptHandle: queue, Queue: queue, Group: "order/1", SequenceNumber: "2", ReceiveCount: received, Body: event("crash", "")}
		}
		for received := 1; received <= 3; received++ {
			for _, queue := range []string{"one", "two"} {
				failed := w.handle([]durable.Delivery{failing(queue, received)}, functionTimeout)
				if again := len(failed) > 0; again != (received < 3) {
					t.Errorf("try %d of queue %s: retried is %t", received, queue, again)
				}
				if received == 2 && queue == "two" && len(w.load("order/1").Attempts) != 2 {
					t.Errorf("the counts are %+v, want one per queue", w.load("order/1").Attempts)
				}
			}
		}
		w.wantParked(t, [2]string{"crash", "crash"}, [2]string{"crash", "crash"})
		if left := w.load("order/1").Attempts; len(left) > 0 {
			t.Errorf("the counts %+v are left, want none", left)
		}
		w.wantLog(t, "order/1", "a")
	})
}

// markOf returns the try count for the first queue's current event, or nil.
func markOf(record instances.Record) *instances.Attempt {
	if len(record.Attempts) == 0 {
		return nil
	}
	return &record.Attempts[0]
}
