package durable_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestAnExecutionIsStartedWithWhoseItIs(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post(printer1, `{"type":"add","item":"ball"}`, `{"type":"ship"}`)
		w.invoke()
		created := w.load(printer1).CreatedAt.UnixMilli()
		e := w.only(t)
		if want := fmt.Sprintf(`{"$settle":{"instance":"printer/1","execution":%q,"incarnation":%d},"bytes":0,"items":1}`, e.name, created); e.input != want || e.workflow != "print" {
			t.Errorf("want print with %s, got %s with %s", want, e.workflow, e.input)
		}
		if !strings.HasPrefix(e.name, "settle-printer-1-") || len(e.name) != len("settle-printer-1-")+32 {
			t.Errorf("want settle-printer-1- and a hash, got %s", e.name)
		}
		stored := w.load(printer1).Executions
		if len(stored) != 1 || stored[0].ARN != "arn of "+e.name || stored[0].Name != e.name || stored[0].Event != "printed" {
			t.Errorf("want the execution to be kept with its ARN, got %+v", stored)
		}
		w.wantCalls(t, "Load printer/1", "Commit printer/1", "Start print", "Schedule printer/1", "ClearOutbox printer/1")
	})
}

func TestTheNameOfAnExecutionIsOneThatStepFunctionsTakes(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post("printer/"+strings.Repeat("a:~{", 30), `{"type":"ship"}`)
		w.invoke()
		if e := w.only(t); len(e.name) != 80 {
			t.Errorf("want 80 bytes, got %d in %s", len(e.name), e.name)
		}
		w.violations = nil // The ledger cannot resolve IDs that are hashes.
	})
}

func TestAnEndIsHeardOfOnceHoweverOftenItIsTold(t *testing.T) {
	t.Parallel()
	for times := 1; times <= 3; times++ {
		inPrinterWorld(t, func(t *testing.T, w *world) {
			w.post(printer1, `{"type":"ship"}`)
			w.invoke()
			w.ends(t, w.only(t), printed, times)
			w.invoke()
			w.wantPrinted(t, 0, printedLog)
			w.run(t)
			w.wantPrinted(t, 0, printedLog)
			if n := w.load(printer1).Ignored; n != 0 {
				t.Errorf("want duplicates skipped, got %d ignored events", n)
			}
		})
	}
}

func TestTwoExecutionsOfOneWorkflowEndEachOnItsOwn(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post(printer1, `{"type":"ship"}`, `{"type":"again"}`)
		w.invoke()
		if len(w.executions) != 2 {
			t.Fatalf("want two executions, got %d", len(w.executions))
		}
		first := w.executions[w.load(printer1).Executions[0].ARN]
		w.ends(t, first, statechart.ExecutionEnded{Status: statechart.ExecutionFailed, Error: "E", Cause: "C"}, 2)
		w.invoke()
		w.wantPrinted(t, 1, "print FAILED E C")
	})
}

// EventBridge reports no end. A timer polls the execution.
func TestAnEndThatIsLostIsFound(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post(printer1, `{"type":"ship"}`)
		w.invoke()
		commits := w.counted("Commit")
		for _, step := range []struct {
			wait  time.Duration
			looks int
		}{{15*time.Minute - time.Second, 0}, {2 * time.Second, 1}, {30 * time.Minute, 2}, {time.Hour, 3}, {14 * time.Hour, 6}, {9 * 24 * time.Hour, 15}} {
			w.runFor(t, step.wait)
			if looks := w.describes(); looks != step.looks {
				t.Errorf("%v later: want %d polls, got %d", step.wait, step.looks, looks)
			}
		}
		if n := w.counted("Commit"); n != commits {
			t.Errorf("want no write while it runs, got %d", n-commits)
		}
		w.only(t).end = &printed
		w.run(t)
		w.wantPrinted(t, 0, printedLog)
		w.ends(t, w.only(t), printed, 1) // The event arrives late.
		w.run(t)
		w.wantPrinted(t, 0, printedLog)
	})
}

// The message about the execution's end is queued at the first call after the start of the execution. Each run injects
// one fault into one call.
func TestAnEndIsNotLostWhateverCallFails(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"Load printer/1", "Commit printer/1", "Start print", "Schedule printer/1", "ClearOutbox printer/1"} {
		for _, what := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
			for n, isReached := 1, true; isReached; n++ {
				isReached = false
				name := fmt.Sprintf("%s #%d: %v", call, n, what)
				inPrinterWorld(t, func(t *testing.T, w *world) {
					plan := faults(map[string]fault{fmt.Sprintf("%s #%d", call, n): what})
					told := false
					w.hook = func(call string) fault {
						if len(w.executions) == 1 && !told {
							told = true
							// The caller of the hook holds the lock.
							w.mu.Unlock()
							w.ends(t, w.only(t), printed, 1)
							w.mu.Lock()
						}
						f := plan(call)
						isReached = isReached || f != none
						return f
					}
					w.post(printer1, `{"type":"ship"}`)
					w.run(t)
					if !isReached && n == 1 {
						t.Errorf("%s never happens", name)
					}
					if log := w.logOf(t, printer1); len(log) != 1 || log[0] != printedLog || len(w.executions) != 1 {
						t.Errorf("%s: want one execution and %q, got %d and %q", name, printedLog, len(w.executions), log)
					}
					if r := w.load(printer1); len(r.Executions) > 0 || len(r.Outbox) > 0 || len(w.parked) > 0 {
						t.Errorf("%s: want nothing left, got %+v, %v and %v", name, r.Executions, r.Outbox, w.parked)
					}
				})
			}
		}
	}
}

func TestAnInstanceThatIsCreatedAnewHasItsOwnExecutions(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post(printer1, `{"type":"ship"}`)
		w.invoke()
		old := w.only(t)
		delete(w.records, printer1)
		delete(w.revision, printer1)
		time.Sleep(time.Minute)
		w.post(printer1, `{"type":"ship"}`)
		w.invoke()
		if len(w.executions) != 2 {
			t.Fatalf("want a second execution, got %d", len(w.executions))
		}
		w.ends(t, old, printed, 1)
		w.runFor(t, 20*time.Minute)
		w.wantPrinted(t, 1)
	})
}

func TestAnExecutionThatIsRefusedEndsNotStarted(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.refusal = &durable.RefusedError{Code: "StateMachineDoesNotExist", Err: errors.New("no such machine: print")}
		w.post(printer1, `{"type":"ship"}`, `{"type":"add","item":"ball"}`)
		w.runFor(t, time.Minute)
		w.wantPrinted(t, 0, "ball", "print NOT_STARTED StateMachineDoesNotExist no such machine")
		w.run(t)
		w.wantPrinted(t, 0, "ball", "print NOT_STARTED StateMachineDoesNotExist no such machine")
	})
}

// The process dies before it stores a refusal. The retry starts the execution.
func TestARefusalIsNotToldOfAnExecutionThatWasStarted(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.refusal = &durable.RefusedError{Code: "AccessDeniedException", Err: errors.New("not yet")}
		w.hook = faults(map[string]fault{"ClearOutbox printer/1 #1": dieBefore})
		w.post(printer1, `{"type":"ship"}`)
		w.invoke()
		w.refusal = nil
		w.runFor(t, 10*time.Minute)
		w.wantPrinted(t, 1)
		w.ends(t, w.only(t), printed, 1)
		w.run(t)
		w.wantPrinted(t, 0, printedLog)
	})
}

func TestAStartThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.refusal = errors.New("ThrottlingException")
		w.post(printer1, `{"type":"ship"}`)
		w.runFor(t, time.Minute)
		w.wantLog(t, printer1)
		w.refusal = nil
		w.runFor(t, 5*time.Minute)
		w.wantPrinted(t, 1)
		if w.only(t); len(w.parked) > 0 {
			t.Errorf("want nothing parked, got %v", w.parked)
		}
	})
}

func TestAnUnknownExecutionIsLost(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post(printer1, `{"type":"ship"}`)
		w.invoke()
		clear(w.executions)
		w.run(t)
		w.wantPrinted(t, 0, "print LOST ExecutionDoesNotExist there is no such execution")
	})
}

func TestALookThatFailsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post(printer1, `{"type":"ship"}`)
		w.invoke()
		w.hook = func(call string) fault {
			if strings.HasPrefix(call, "Describe ") {
				return failBefore
			}
			return none
		}
		w.runFor(t, 15*time.Minute+time.Millisecond)
		if n := w.describes(); n != 1 {
			t.Errorf("want one poll, got %d", n)
		}
		w.post(printer1, `{"type":"add","item":"ball"}`)
		w.runFor(t, 0)
		w.wantPrinted(t, 1, "ball")
		w.hook = nil
		w.only(t).end = &printed
		w.runFor(t, 31*time.Minute)
		w.wantPrinted(t, 0, "ball", printedLog)
	})
}

// formerPrinter hosts the machine printer in a version that starts no workflow.
func formerPrinter(t *testing.T, p statechart.Payloads) *durable.Machines {
	t.Helper()
	machines, err := durable.NewMachines(durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "printer", Version: 1, Initial: "printing", Payloads: p, On: []on{{Event: "add", Actions: do{keep}}},
		States: []chartState{{ID: "printing", Tags: settled}},
	}), durable.MachineConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	return machines
}

// The chart no longer starts a workflow, but the instance still waits for one.
func TestAnInstanceThatWaitsIsNotHeldUpByAConsumerWithoutExecutions(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post(printer1, `{"type":"ship"}`)
		w.invoke()
		before, p := w.machines, payloads()
		p["printed"] = statechart.PayloadOf[statechart.ExecutionEnded]()
		w.machines, w.noExecutions = formerPrinter(t, p), true
		w.runFor(t, 15*time.Minute+time.Millisecond)
		w.post(printer1, `{"type":"add","item":"ball"}`)
		w.runFor(t, 0)
		w.wantPrinted(t, 1, "ball")
		w.machines, w.noExecutions = before, false
		w.only(t).end = &printed
		w.runFor(t, 31*time.Minute)
		w.wantPrinted(t, 0, "ball", printedLog)
	})
}

func TestAnInputThatStepFunctionsWouldRefuseIsParked(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.config.SnapshotBytesMax = 1 << 20
		w.post(printer1, `{"type":"grow","bytes":262000}`)
		w.run(t)
		if len(w.executions) != 0 || len(w.parked) != 1 || !strings.Contains(w.parked[0].Reason, "the input has 262011 bytes, the limit is 261120") {
			t.Errorf("want no execution and the event parked, got %d and %+v", len(w.executions), w.parked)
		}
	})
}

func TestAMachineThatStartsWorkflowsNeedsWhoStartsThem(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		_, err := durable.New(w.machines, durable.Ports{}, durable.Config{})
		if err == nil || !strings.Contains(err.Error(), "the machines start the workflows print: this consumer has no client that starts executions: set Ports.Executions") {
			t.Errorf("want the machines to be refused, got %v", err)
		}
	})
}

// Step Functions starts the execution after an hour of failures, when the first poll is already due. DescribeExecution is
// eventually consistent (Step Functions API Reference), and does not find the execution for ten minutes.
func TestAnExecutionThatStartsLateIsNotLost(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		began, started := time.Now(), time.Time{}
		w.refuse = func(call string) error {
			switch {
			case strings.HasPrefix(call, "Start ") && time.Since(began) < time.Hour:
				return errFault
			case strings.HasPrefix(call, "Start ") && started.IsZero():
				started = time.Now()
			case strings.HasPrefix(call, "Describe ") && time.Since(started) < 10*time.Minute:
				return durable.ErrNoExecution
			}
			return nil
		}
		w.post(printer1, `{"type":"ship"}`)
		w.runFor(t, 2*time.Hour)
		if w.describes() == 0 {
			t.Error("the execution was not polled: the test proves nothing")
		}
		w.ends(t, w.only(t), printed, 1)
		w.run(t)
		w.wantPrinted(t, 0, printedLog)
	})
}

// The waits between polls double, up to PollMax. Neither a long PollMin nor a forged count may cause an overflow.
func TestNoCountOfPollsOverflows(t *testing.T) {
	t.Parallel()
	for _, count := range []int{0, -2, math.MinInt, math.MaxInt} {
		inPrinterWorld(t, func(t *testing.T, w *world) {
			w.config.PollMin = 3 * time.Hour
			w.post(printer1, `{"type":"ship"}`)
			w.invoke()
			r := w.load(printer1)
			if count != 0 {
				w.post(printer1, fmt.Sprintf(`{"type":"settle.execution","execution":%q,"count":%d,"$incarnation":%d}`, r.Executions[0].Name, count, r.CreatedAt.UnixMilli()))
			}
			w.post(printer1, event("add", "a"))
			w.runFor(t, 40*24*time.Hour)
			if polls := w.describes(); polls < 40 || polls > 380 {
				t.Errorf("count %d: %d polls in 40 days, want one a day, and at most one more every three hours for the forged message", count, polls)
			}
			w.wantLog(t, printer1, "a")
			w.ends(t, w.only(t), printed, 1)
			w.run(t)
		})
	}
}
