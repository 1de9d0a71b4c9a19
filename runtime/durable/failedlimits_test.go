package durable_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestAPermanentFailureIsReportedLaterIfTheQueueRefusesTheReport(t *testing.T) {
	t.Parallel()
	inCourierWorld(t, func(t *testing.T, w *world) {
		f := failings()[0]
		w.refuse = refusing(durable.ErrDenied, "Send order/2", "Send order/9", "Send courier/1")
		w.post(courier1, f.post...)
		w.run(t)
		r := w.load(courier1)
		if len(r.FailedEffects) != 2 || r.FailedEffects[0].Report != instances.ReportUnsent || r.FailedEffects[1].Target != "order/9" || len(r.Outbox) > 0 {
			t.Fatalf("want two unreported failures, got %+v", r.FailedEffects)
		}
		w.wantLog(t, courier1, "ball")
		w.post(courier1, event("add", "denied still"))
		w.run(t)
		w.wantLog(t, courier1, "ball", "denied still")
		w.refuse = nil
		w.post(courier1, event("add", "mended"))
		w.run(t)
		if log := w.logOf(t, courier1); len(log) != 5 || log[2] != "mended" || !strings.HasPrefix(log[3], `send to "order/2"`) || !strings.HasPrefix(log[4], `send to "order/9"`) {
			t.Errorf("want both failures reported once the queue works again, got %q", log)
		}
		for _, failed := range w.load(courier1).FailedEffects {
			if failed.Report != instances.ReportReceived {
				t.Errorf("want the failure reported, got %+v", failed)
			}
		}
	})
}

func TestAChartThatFailsOnHearingOfAFailureHearsOfItWhenItIsMended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		broken := true
		machines, err := durable.NewMachines(w.order(), w.courier(&broken))
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		w.refuse = refusing(durable.ErrRefused, "Send order/2")
		w.post(courier1, telling("order/2", "ball"))
		w.run(t)
		w.wantParked(t, [2]string{`"settle.effect.failed"`, "bug in the chart"})
		if failed := w.load(courier1).FailedEffects; len(failed) != 1 || failed[0].Report != instances.ReportSent {
			t.Errorf("want the failure stored, got %+v", failed)
		}
		broken = false
		w.post(courier1, w.parked[0].Body, w.parked[0].Body)
		w.run(t)
		f := failings()[0]
		f.wantFailed(t, w, durable.ErrRefused, instances.ReportReceived)
	})
}

func TestAChartThatDoesNotDeclareItIsNotTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = refusing(durable.ErrRefused, "Send order/2")
		for i := range failedEffectsMax + 5 {
			w.post("order/1", telling("order/2", fmt.Sprint(i)))
		}
		w.run(t)
		failed := w.load("order/1").FailedEffects
		if len(failed) != failedEffectsMax {
			t.Fatalf("want %d stored failures, got %d", failedEffectsMax, len(failed))
		}
		if first := failed[0]; first.Report != "" || !strings.Contains(string(first.Data), `"5"`) {
			t.Errorf("want the latest failures and no report, got %+v", first)
		}
		if n := w.counted("Send order/1"); n != 0 {
			t.Errorf("want no report, got %d sends", n)
		}
		w.violations = nil
	})
}

func TestAllFailuresAreToldHoweverMany(t *testing.T) {
	t.Parallel()
	inCourierWorld(t, func(t *testing.T, w *world) {
		w.refuse = refusing(fmt.Errorf("%s: %w", strings.Repeat("x", 5000), durable.ErrRefused), "Send order/2")
		const many = 2 * failedEffectsMax
		var bodies []string
		for i := range many {
			bodies = append(bodies, telling("order/2", strings.Repeat(fmt.Sprint(i%10), 300)))
		}
		w.post(courier1, bodies...)
		longest := 0
		w.hook = func(string) fault {
			longest = max(longest, len(w.records[courier1]))
			return none
		}
		w.run(t)
		told := 0
		for _, line := range w.logOf(t, courier1) {
			if strings.HasPrefix(line, `send to "order/2"`) {
				told++
			}
		}
		if r := w.load(courier1); told != many || len(r.FailedEffects) > many {
			t.Errorf("want %d reported failures, got %d, and %d stored", many, told, len(r.FailedEffects))
		}
		if failed := w.load(courier1).FailedEffects[0]; len(failed.Error) != 1<<10 && len(failed.Error) != 128 {
			t.Errorf("want the error truncated, got %d bytes", len(failed.Error))
		}
	})
}

func TestUnsentReportsThatTakeLongerThanAnInvocationAreSent(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]func(w *world){
		"slow queue":                func(w *world) { w.latency = func(string) time.Duration { return time.Second } },
		"no time from the start on": func(w *world) { w.config.DeadlineMargin = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCourierWorld(t, func(t *testing.T, w *world) {
				const many = 100
				w.config.FailedEffectsMax = many
				w.refuse = refusing(durable.ErrRefused, "Send order/2", "Send courier/1")
				w.post(courier1, slices.Repeat([]string{telling("order/2", "ball")}, many)...)
				w.run(t)
				if unsent := w.load(courier1).FailedEffects; len(unsent) != many || unsent[0].Report != instances.ReportUnsent {
					t.Fatalf("want %d unsent reports, got %d", many, len(unsent))
				}
				w.refuse = nil
				slow(w)
				w.post(courier1, event("add", "repaired"))
				w.run(t)
				for _, failed := range w.load(courier1).FailedEffects {
					if failed.Report != instances.ReportReceived {
						t.Fatalf("want the failure reported, got %+v", failed)
					}
				}
			})
		})
	}
}

func TestAPermanentFailureOfAnEndedInstanceIsKept(t *testing.T) {
	t.Parallel()
	inCourierWorld(t, func(t *testing.T, w *world) {
		w.refuse = refusing(durable.ErrRefused, "Release x-7")
		w.post(courier1, event("ship", "x-7"), event("finish", ""))
		w.run(t)
		failed := w.load(courier1).FailedEffects
		if len(failed) != 1 || failed[0].Kind != "release" || failed[0].Target != "x-7" || failed[0].Report != "" {
			t.Errorf("want the failed release stored without a report, got %+v", failed)
		}
		w.wantSound(t)
	})
}

// The chart fails on a deferred event. The dead-letter queue first denies and then refuses the event's parking.
func TestADeferredEventIsKeptUntilItsParkingSucceeds(t *testing.T) {
	t.Parallel()
	inCourierWorld(t, func(t *testing.T, w *world) {
		w.post(courier1, event("wait", ""), event("refuse", "poison"))
		w.invoke()
		for _, err := range []error{durable.ErrDenied, durable.ErrRefused} {
			w.refuse = refusing(err, "Park courier/1")
			w.post(courier1, event("cancel", ""))
			w.runFor(t, 5*time.Hour)
			if r := w.load(courier1); len(r.FailedEffects) > 0 || len(r.Outbox) != 1 {
				t.Fatalf("%v: want parking retried, got the failed effects %+v and the outbox %+v", err, r.FailedEffects, r.Outbox)
			}
		}
		w.refuse = nil
		w.run(t)
		if r := w.load(courier1); len(r.FailedEffects) > 0 || len(w.parked) != 1 || !strings.Contains(w.parked[0].Body, "poison") {
			t.Errorf("want the event parked, got %+v and the failed effects %+v", w.parked, r.FailedEffects)
		}
	})
}

func TestAnEmittedEventFailsPermanentlyLikeOtherEffects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		givenUp time.Duration // time until the loop gives up on the effect; 0 means never
	}{{durable.ErrRefused, time.Second}, {durable.ErrDenied, 2 * time.Hour}, {errors.New("throttled"), 0}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.config.Emit = w.emit
			w.refuse = refusing(c.err, "Emit ")
			w.post("order/1", event("wait", ""), event("cancel", ""))
			w.runFor(t, cmp.Or(c.givenUp, 5*time.Hour))
			w.refuse = nil
			w.run(t)
			failed := w.load("order/1").FailedEffects
			if c.givenUp == 0 {
				if len(w.emitted) != 1 || len(failed) > 0 {
					t.Errorf("%v: want the event emitted, got %q and the failed effects %+v", c.err, w.emitted, failed)
				}
			} else if len(w.emitted) != 0 || len(failed) != 1 || failed[0].Kind != statechart.EmitEvent || !strings.Contains(failed[0].Error, c.err.Error()) {
				t.Errorf("%v: want the event among the failed effects, got %q and %+v", c.err, w.emitted, failed)
			}
		})
	}
}

func TestAnItemWithoutRoomForAFailureGoesOn(t *testing.T) {
	t.Parallel()
	inCourierWorld(t, func(t *testing.T, w *world) {
		full := refusing(durable.ErrRefused, "Send order/2", "Send order/9")
		clears := 0
		w.refuse = func(call string) error {
			if call == "ClearOutbox courier/1" && clears < 3 { // the last try leaves out the history and the older failure
				clears++
				return &durable.TooLargeError{Bytes: 400<<10 + 1, BytesMax: 400 << 10}
			}
			return full(call)
		}
		w.post(courier1, telling("order/2", "ball"))
		w.run(t)
		r := w.load(courier1)
		if len(r.FailedEffects) != 1 || r.FailedEffects[0].Target != "order/9" || len(r.FailedEffects[0].Data) > 0 || len(r.Outbox) > 0 {
			t.Errorf("want the last failure without its data, and no outbox, got %+v and %+v", r.FailedEffects, r.Outbox)
		}
		if log := w.logOf(t, courier1); len(log) != 2 {
			t.Errorf("want the stored failure reported, got %q", log)
		}
	})
}

func TestAnEventIsParkedThoughItsTaskCannotBeFailed(t *testing.T) {
	t.Parallel()
	for cause, tries := range map[error]int{durable.ErrRefused: 1, durable.ErrDenied: 10} {
		inCourierWorld(t, func(t *testing.T, w *world) {
			w.refuse = refusing(cause, "Answer Rest")
			w.post(courier1, `{"type": "nothing", "$task": `+w.wait("secret-1", "Rest", time.Hour, 0)+`}`)
			w.run(t)
			w.wantParked(t, [2]string{"nothing", "undeclared"})
			if n := w.counted("Answer Rest"); n != tries {
				t.Errorf("%v: want %d tries, got %d", cause, tries, n)
			}
		})
	}
}

func TestAForgedCommunicationErrorIsRefused(t *testing.T) {
	t.Parallel()
	inCourierWorld(t, func(t *testing.T, w *world) {
		id := instances.ID{Machine: "courier", ID: "1"}
		_, err := w.machines.Accept(id, []byte(`{"type":"error.communication","effect":"x","kind":"send","message":"m"}`))
		if err == nil || !strings.Contains(err.Error(), "only the loop itself sends it") {
			t.Errorf("want the event refused, got %v", err)
		}
		// A report has no effect if the item has no such failure, or if the report belongs to an earlier instance of
		// the same name.
		w.refuse = refusing(durable.ErrRefused, "Send order/2")
		w.post(courier1, `{"type":"settle.effect.failed","effect":"1.0","$incarnation":946684800000}`, event("add", "a"),
			`{"type":"settle.effect.failed","effect":"9.9","$incarnation":946684800000}`, telling("order/2", "b"))
		w.runFor(t, time.Minute)
		w.post(courier1, `{"type":"settle.effect.failed","effect":"1.0","$incarnation":1}`)
		w.run(t)
		if log := w.logOf(t, courier1); len(log) != 3 || !slices.Equal(log[:2], []string{"a", "b"}) {
			t.Errorf("want one reported failure, got %q", log)
		}
	})
}

// The dead-letter queue refuses an event for hours, for example because its MaximumMessageSize is too small.
func TestAnEventThatTheDeadLetterQueueRefusesStaysInItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"), `{"type": "vanish"}`, event("add", "b"))
		w.refuse = refusing(durable.ErrRefused, "Park order/1")
		w.runFor(t, 5*time.Hour)
		w.refuse = nil
		w.run(t)
		w.wantParked(t, [2]string{"vanish", "vanish"})
		w.wantLog(t, "order/1", "a", "b")
	})
}

// An effect fails after the instance has ended, while more failures than FailedEffectsMax are still unreported.
func TestTheLatestFailureIsKeptBesideUnreportedOnes(t *testing.T) {
	t.Parallel()
	inCourierWorld(t, func(t *testing.T, w *world) {
		w.refuse = refusing(durable.ErrRefused, "Send order/2", "Send order/9", "Claim x-7", "Release x-7")
		bodies := []string{event("ship", "x-7")}
		for range batchSize - 1 {
			bodies = append(bodies, telling("order/2", "ball"))
		}
		w.post(courier1, append(bodies, event("finish", ""))...)
		w.run(t)
		if failed := w.load(courier1).FailedEffects; failed[len(failed)-1].Kind != statechart.ReleaseAlias {
			t.Errorf("want the failed release kept, got %+v", failed)
		}
	})
}

// The item is full while the queue refuses the report of a failure. The loop drops the item's history.
func TestAFullItemKeepsAnUnsentReport(t *testing.T) {
	t.Parallel()
	inCourierWorld(t, func(t *testing.T, w *world) {
		long := strings.Repeat("x", 500)
		w.refuse = refusing(fmt.Errorf("%s: %w", long, durable.ErrRefused), "Send order/2", "Send courier/1")
		w.post(courier1, telling("order/2", "ball"))
		w.run(t)
		hasHistory := func(r instances.Record) bool { return len(r.History) > 0 }
		w.post(courier1, event("add", "full"))
		if failed := w.handlePicky(t, hasHistory, &durable.TooLargeError{Bytes: 2, BytesMax: 1}); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		w.refuse = nil
		w.post(courier1, event("add", "mended"))
		w.run(t)
		if log := w.logOf(t, courier1); len(log) != 4 || !strings.Contains(log[3], long) {
			t.Errorf("want the failure reported with its whole error, got %q", log)
		}
	})
}
