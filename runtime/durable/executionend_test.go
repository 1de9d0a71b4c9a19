package durable_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestAnInstanceThatHasEndedHearsOfNothing(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]string{
		"meanwhile": {`{"type":"ship"}`, `{"type":"cancel"}`},
		"with it":   {`{"type":"doom"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inPrinterWorld(t, func(t *testing.T, w *world) {
				for _, event := range events {
					w.post(printer1, event)
					w.invoke()
				}
				w.wantPrinted(t, 0)
				w.ends(t, w.only(t), printed, 1)
				w.run(t)
				w.wantState(t, printer1, "gone")
				w.wantPrinted(t, 0)
				if r := w.load(printer1); r.Ignored != 0 || len(w.parked) != 0 || w.describes() != 0 {
					t.Errorf("want no ignored events, parked events or polls, got %d, %v and %d", r.Ignored, w.parked, w.describes())
				}
			})
		})
	}
}

// One batch holds the event that ends the instance, followed by the end of its execution.
func TestAnInstanceThatEndsInABatchHearsOfNothingInIt(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post(printer1, `{"type":"ship"}`)
		w.invoke()
		w.post(printer1, `{"type":"cancel"}`)
		w.ends(t, w.only(t), printed, 1)
		w.run(t)
		w.wantState(t, printer1, "gone")
		w.wantPrinted(t, 0)
		if r := w.load(printer1); r.Ignored != 0 || len(r.History) != 2 {
			t.Errorf("want two steps and nothing ignored, got %+v and %d", r.History, r.Ignored)
		}
	})
}

func TestAnOutputThatItsInstanceCannotHoldIsLeftOut(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.config.SnapshotBytesMax = 10_000
		w.post(printer1, `{"type":"ship"}`)
		w.invoke()
		w.ends(t, w.only(t), statechart.ExecutionEnded{Status: statechart.ExecutionSucceeded, Output: json.RawMessage(`"` + strings.Repeat("x", 20_000) + `"`)}, 1)
		w.run(t)
		w.wantPrinted(t, 0, "print SUCCEEDED Settle.OutputTooLarge the execution's output of 20002 bytes is left out")
	})
}

// The execution's output does not fit into the snapshot, so the loop leaves it out. The event that the chart has
// deferred until the end does not fit either.
func TestAnEndIsHeardOfBesideADeferredEventThatDoesNotFit(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.config.SnapshotBytesMax = 10_000
		w.post(printer1, `{"type":"hurry"}`, `{"type":"grow","bytes":20000}`)
		w.invoke()
		w.ends(t, w.only(t), statechart.ExecutionEnded{Status: statechart.ExecutionSucceeded, Output: json.RawMessage(`"` + strings.Repeat("x", 20_000) + `"`)}, 1)
		w.run(t)
		w.wantState(t, printer1, "free")
		w.wantPrinted(t, 0, "print SUCCEEDED Settle.OutputTooLarge the execution's output of 20002 bytes is left out")
		if len(w.parked) != 1 || !strings.Contains(w.parked[0].Body, `"type":"grow"`) {
			t.Errorf("want the deferred event to be parked, and nothing else, got %+v", w.parked)
		}
	})
}

// The new chart does not declare the event of the execution's end.
func TestAnEndThatTheChartDoesNotDeclareAnyMoreIsForgotten(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		var log bytes.Buffer
		w.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.post(printer1, `{"type":"ship"}`)
		w.invoke()
		const complaint = "the chart no longer declares the event"
		w.machines = formerPrinter(t, payloads())
		w.ends(t, w.only(t), printed, 1)
		w.run(t)
		w.wantPrinted(t, 0)
		if n := strings.Count(log.String(), complaint); n != 1 || len(w.parked) > 0 {
			t.Errorf("want one error line and no parked events, got %d and %+v in\n%s", n, w.parked, &log)
		}
	})
}

func TestAForgedEndOfAnExecutionIsRefused(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		const forged = `{"type":"printed","status":"SUCCEEDED"}`
		if _, err := w.machines.Accept(instances.ID{Machine: "printer", ID: "1"}, []byte(forged)); !errors.Is(err, durable.ErrReserved) {
			t.Errorf("want ErrReserved, got %v", err)
		}
		w.post(printer1, `{"type":"ship"}`, forged)
		w.invoke()
		w.wantPrinted(t, 1)
		if len(w.parked) != 1 || !strings.Contains(w.parked[0].Reason, `event type "printed" is reserved for the runtime`) {
			t.Errorf("want it parked, got %+v", w.parked)
		}
	})
}

// The response to StartExecution is lost, and AWS denies the retry. DescribeExecution is eventually consistent (Step
// Functions API Reference), and does not find the execution for ten minutes.
func TestADeniedRetryOfAStartIsNotToldBeforeAPollDecides(t *testing.T) {
	t.Parallel()
	denial := &durable.RefusedError{Code: "AccessDeniedException", Err: errors.New("no longer allowed")}
	play := func(t *testing.T, first fault, down time.Duration, test func(t *testing.T, w *world)) {
		inPrinterWorld(t, func(t *testing.T, w *world) {
			w.hook = faults(map[string]fault{"Start print #1": first})
			w.post(printer1, `{"type":"ship"}`)
			w.invoke()
			time.Sleep(down)
			w.refusal = denial
			retried := time.Now()
			w.refuse = func(call string) error {
				if strings.HasPrefix(call, "Describe ") && time.Since(retried) < 10*time.Minute {
					return durable.ErrNoExecution
				}
				return nil
			}
			test(t, w)
		})
	}
	for _, down := range []time.Duration{0, time.Hour} { // After an hour, the first poll follows the retry at once.
		t.Run(fmt.Sprint("started, down for ", down), func(t *testing.T) {
			t.Parallel()
			play(t, failAfter, down, func(t *testing.T, w *world) {
				w.runFor(t, 2*time.Hour)
				w.wantPrinted(t, 1)
				for _, e := range w.load(printer1).Executions {
					if e.ARN != "arn of "+e.Name || e.Refused != nil {
						t.Errorf("want the execution to be found, got %+v", e)
					}
				}
				w.only(t).end = &printed // EventBridge does not report it.
				w.run(t)
				w.wantPrinted(t, 0, printedLog)
			})
		})
		t.Run(fmt.Sprint("ended, down for ", down), func(t *testing.T) {
			t.Parallel()
			play(t, failAfter, down, func(t *testing.T, w *world) {
				w.ends(t, w.only(t), printed, 1)
				w.run(t)
				w.wantPrinted(t, 0, printedLog)
			})
		})
		t.Run(fmt.Sprint("not started, down for ", down), func(t *testing.T) {
			t.Parallel()
			play(t, failBefore, down, func(t *testing.T, w *world) {
				w.runFor(t, time.Hour)
				w.wantPrinted(t, 0, "print NOT_STARTED AccessDeniedException no longer allowed")
				w.run(t)
				w.wantPrinted(t, 0, "print NOT_STARTED AccessDeniedException no longer allowed")
			})
		})
	}
}

// The response to StartExecution is lost, AWS denies the retry, and polls fail for an hour. A failed poll shows nothing
// about the execution.
func TestAPollThatFailsDoesNotDecideThatAnExecutionWasNotStarted(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{errFault, durable.ErrDenied} {
		inPrinterWorld(t, func(t *testing.T, w *world) {
			w.hook = faults(map[string]fault{"Start print #1": failAfter})
			w.post(printer1, `{"type":"ship"}`)
			w.invoke()
			w.refusal = &durable.RefusedError{Code: "AccessDeniedException", Err: errors.New("no longer allowed")}
			began := time.Now()
			w.refuse = func(call string) error {
				if strings.HasPrefix(call, "Describe ") && time.Since(began) < time.Hour {
					return failure
				}
				return nil
			}
			w.runFor(t, 2*time.Hour)
			if polls := w.describes(); polls == 0 {
				t.Error("the execution was not polled: the test proves nothing")
			}
			w.only(t).end = &printed // EventBridge does not report it.
			w.run(t)
			w.wantPrinted(t, 0, printedLog)
		})
	}
}
