package durable_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestATimerFiresWhenItIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""))
		w.invoke()
		w.runFor(t, time.Hour-time.Second)
		w.wantState(t, "order/1", "waiting")
		w.runFor(t, time.Second)
		w.wantState(t, "order/1", "idle")
		w.wantLog(t, "order/1", "hour over")
		history := w.load("order/1").History
		if fired := history[len(history)-1]; fired.Event != "after 1h0m0s" || !fired.At.Equal(time.Now()) {
			t.Errorf("the history ends with %+v", fired)
		}
		w.wantSound(t)
	})
}

func TestAStaleFiringCostsNoWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""), event("cancel", ""))
		w.post("order/2", event("wait", ""))
		w.run(t)
		firing := w.load("order/2").Watermark[queueARN]
		if firing != "4" {
			t.Fatalf("the watermark of order/2 is %s, want the sequence number of the firing", firing)
		}
		w.post("order/1", event("wait", ""))
		w.invoke()
		w.post("order/1", event("cancel", ""))
		w.invoke()
		w.calls = nil
		w.run(t)
		w.wantCalls(t, "Load order/1")
		w.wantState(t, "order/1", "idle")
		w.wantLog(t, "order/1")
	})
}

// A log line about a skipped event would look like a lost event. So the log reports only a producer's duplicates,
// unless its level is DEBUG.
func TestTheLogSaysWhyAMessageIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var logged bytes.Buffer
		w.config.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		expect := func(level, message string) {
			t.Helper()
			if want := "level=" + level + " msg=\"" + message + "\""; strings.Count(logged.String(), "skipped") != 1 || !strings.Contains(logged.String(), want) {
				t.Errorf("the log is\n%s\nwant one line about a skipped message: %s", logged.String(), want)
			}
			logged.Reset()
		}
		for _, typ := range []string{"wait", "cancel"} {
			w.post("order/1", event(typ, ""))
			w.invoke()
		}
		w.run(t)
		expect("DEBUG", "message skipped, the instance no longer waits for it")

		w.third["charge"] = failing(1, errors.New("busy"))
		w.post("order/2", event("charge", ""))
		w.run(t)
		expect("DEBUG", "redelivery skipped, its event was already applied")

		w.post("order/3", `{"type":"add","item":"x","$id":"a"}`)
		w.run(t)
		w.post("order/3", `{"type":"add","item":"x","$id":"a"}`)
		w.run(t)
		expect("INFO", "duplicate skipped, an event with its ID was already applied")
	})
}

func TestAFiringForADoneOrUnknownInstanceIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""))
		w.invoke()
		w.post("order/1", event("cancel", ""), event("finish", ""))
		w.invoke()
		w.calls = nil
		firing := string(w.scheduled[0].message.Body)
		w.run(t)
		w.wantCalls(t, "Load order/1")

		w.post("order/9", firing)
		w.run(t)
		w.wantCalls(t, "Load order/9")
		w.wantParked(t)
		if len(w.records) != 1 {
			t.Errorf("stored %d records, want 1", len(w.records))
		}
	})
}

func TestAFiringIsAppliedOnceThoughItIsDeliveredTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""))
		w.invoke()
		firing := string(w.scheduled[0].message.Body)
		w.run(t)
		w.post("order/1", event("wait", ""))
		w.invoke()
		w.post("order/1", firing)
		w.invoke()
		w.wantState(t, "order/1", "waiting")
		w.run(t)
		w.wantLog(t, "order/1", "hour over", "hour over")
	})
}

func TestEventsAfterTheEndAreIgnoredAndCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"), event("finish", ""))
		w.invoke()
		done := w.load("order/1")
		if want := time.Now().Add(24 * time.Hour); done.Status != statechart.Done || !done.ExpireAt.Equal(want) {
			t.Errorf("status %s, to expire at %v, want done and %v", done.Status, done.ExpireAt, want)
		}
		time.Sleep(time.Hour)
		w.post("order/1", event("add", "late"), event("refuse", "late"))
		if failed := w.invoke(); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		after := w.load("order/1")
		if after.Ignored != 2 || !after.ExpireAt.Equal(done.ExpireAt) || after.Status != statechart.Done {
			t.Errorf("%d ignored, to expire at %v, status %s; want 2, %v, done", after.Ignored, after.ExpireAt, after.Status, done.ExpireAt)
		}
		if last := after.History[len(after.History)-1]; !last.Ignored || last.Event != "refuse" || strings.Join(last.To, " ") != "finished" {
			t.Errorf("the history ends with %+v", last)
		}
		w.wantLog(t, "order/1", "a")
		w.wantParked(t)
	})
}

func TestAnInstanceThatIsNotDoneDoesNotExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"), event("cancel", "nothing"))
		w.invoke()
		record := w.load("order/1")
		if !record.ExpireAt.IsZero() || record.Ignored != 1 || !record.CreatedAt.Equal(time.Now()) || !record.UpdatedAt.Equal(time.Now()) {
			t.Errorf("stored %+v", record)
		}
	})
}

func TestAStaleTimerIsCancelledIfItIsFarAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cancels = true
		w.post("order/1", event("wait", "")) // The state has a timer of an hour.
		w.invoke()
		w.post("order/2", event("wait", ""))
		w.invoke()
		if n := len(w.scheduled); n != 2 {
			t.Fatalf("want two timers armed, got %d", n)
		}
		w.hook = func(call string) fault {
			if strings.HasPrefix(call, "Cancel order/2") {
				return failBefore
			}
			return none
		}
		w.post("order/1", event("cancel", ""))
		w.post("order/2", event("cancel", ""))
		w.invoke()
		if n := len(w.scheduled); n != 1 || w.scheduled[0].message.To.ID != "2" {
			t.Errorf("want only the timer that could not be cancelled, got %v", w.scheduled)
		}
		w.run(t) // The firing has no effect.
		w.wantState(t, "order/1", "idle")
		w.wantState(t, "order/2", "idle")
		w.wantLog(t, "order/2")

		w.hook = nil
		w.post("order/3", event("wait", ""))
		w.invoke()
		w.runFor(t, 50*time.Minute)
		w.calls = nil
		w.post("order/3", event("cancel", ""))
		w.invoke()
		if n := w.counted("Cancel"); n != 0 {
			t.Errorf("want no call for a timer that fires in ten minutes, got %d", n)
		}
	})
}

func TestATimerThatFiresMinutesEarlyIsNotLost(t *testing.T) {
	t.Parallel()
	for _, early := range []time.Duration{2 * time.Minute, 5*time.Minute - time.Second, 7 * time.Minute} {
		t.Run(early.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.post("order/1", event("wait", ""))
				w.invoke()
				w.scheduled[0].at = w.scheduled[0].at.Add(-early) // The forwarder's clock is ahead.
				w.runFor(t, 24*time.Hour)
				w.wantState(t, "order/1", "idle")
				w.wantLog(t, "order/1", "hour over")
			})
		})
	}
}

// A chart fails on its timer's firing for a day, and for half a day the delay queue does not accept the firing again.
// The firing stays in its queue and blocks the instance. The loop must not drop the firing, because no producer sends
// it again.
func TestAFiringThatTheDelayQueueRefusesBlocksItsInstanceAndIsNotLost(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{"denied": durable.ErrDenied, "refused": durable.ErrRefused} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				began := time.Now()
				w.host(t, clockOf(statechart.TryAssign("ring", func(b *basket, _ statechart.Event) error {
					if time.Since(began) < 24*time.Hour {
						return errFault
					}
					b.Log = append(b.Log, "rang")
					return nil
				})))
				w.post("clock/1", event("wait", ""))
				w.runFor(t, time.Second)
				w.refuse = func(call string) error {
					if call == "Schedule clock/1" && time.Since(began) < 12*time.Hour {
						return refusal
					}
					return nil
				}
				waits := w.waits("clock/1")
				w.runFor(t, time.Hour)
				w.post("clock/1", event("add", "behind"))
				w.runFor(t, 10*time.Hour)
				w.wantLog(t, "clock/1")
				if got := waits(); len(got) > 150 || got[len(got)-1] != 5*time.Minute {
					t.Errorf("want retries with backoff, up to 5 minutes, got %d, the last after %v", len(got), got[len(got)-1])
				}
				w.runFor(t, 2*time.Hour)
				w.wantLog(t, "clock/1", "behind")
				w.run(t)
				w.wantLog(t, "clock/1", "behind", "rang")
				w.wantParked(t)
			})
		})
	}
}

// EventBridge Scheduler is slow, and an event cancels more timers than fit into an invocation. The loop acknowledges
// the event without cancelling the other timers, because their firings do nothing.
func TestCancelsDoNotUseUpTheInvocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cancels = true
		var timers []after
		for i := range 70 {
			timers = append(timers, after{Delay: time.Duration(i+1) * time.Hour, Target: "idle"})
		}
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "row", Version: 1, Initial: "waiting", Payloads: payloads(),
			States: []chartState{
				{ID: "waiting", Tags: settled, After: timers, On: []on{{Event: "add"}, {Event: "cancel", Target: "idle"}}},
				{ID: "idle", Tags: settled},
			},
		}), durable.MachineConfig{}))
		w.post("row/1", event("add", "x"))
		w.runFor(t, time.Second)
		w.latency = func(id string) time.Duration {
			if strings.HasPrefix(id, "row/1@") {
				return time.Second
			}
			return 0
		}
		w.post("row/1", event("cancel", ""))
		w.invoke()
		if cancels := w.counted("Cancel "); len(w.messages) > 0 || cancels == 0 {
			t.Errorf("want the event acknowledged after some cancels, got %d messages left after %d", len(w.messages), cancels)
		}
	})
}
