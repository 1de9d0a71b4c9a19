package durable_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

type resolution = statechart.Resolution[basket]

// gone is the payload of the event that reports a task as no longer waiting.
type gone struct {
	Name      string `json:"name"`
	Execution string `json:"execution"`
}

// parcel is a machine for tasks with the names HandOver and Delivery.
func (w *world) parcel() durable.Machine {
	p := payloads()
	p[durable.TokenExpired] = statechart.PayloadOf[gone]()
	handedOver := resolution{Name: "HandOver", Outcome: "on_its_way"}
	keepGone := statechart.Assign("keepGone", func(b *basket, e gone) { b.Log = append(b.Log, "gone: "+e.Name+" of "+e.Execution) })
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "parcel", Version: 1, Initial: "ordered", Payloads: p,
		On: []on{{Event: durable.TokenExpired, Actions: do{keepGone}}},
		States: []chartState{
			{ID: "ordered", Tags: settled, On: []on{
				{Event: "ship", Target: "packing"}, {Event: "hurry", Target: "on_its_way"}, {Event: "grow", Actions: do{grow}}, {Event: "refuse", Actions: do{refuse}}}},
			{ID: "packing", Invoke: []invoke{{Service: w.service("pack"), Retry: statechart.RetryPolicy{Attempts: 2},
				OnDone:  []on{{Target: "on_its_way", Actions: do{answered}}},
				OnError: []on{{Target: "lost", Actions: do{gaveUp}}}}}},
			{ID: "on_its_way", Tags: []string{statechart.Settled, "moving"}, Resolve: []resolution{handedOver}, On: []on{
				{Event: "finish", Target: "delivered", Actions: do{keep}}, {Event: "doom", Target: "lost"}, {Event: "cancel", Target: "dropped"},
				{Event: "grow", Target: "heavy", Actions: do{grow}}}},
			{ID: "delivered", Type: statechart.Final, Resolve: []resolution{handedOver, {Name: "Delivery", Output: func(b basket, _ statechart.Event) any { return b.Log }}}},
			{ID: "heavy", Type: statechart.Final, Resolve: []resolution{handedOver, {Name: "Delivery", Output: func(b basket, _ statechart.Event) any { return b.Blob }}}},
			{ID: "lost", Type: statechart.Final, Resolve: []resolution{handedOver, {Name: "Delivery", Error: "Parcel.Lost", Cause: func(b basket, _ statechart.Event) string { return cmp.Or(b.Blob, "nobody knows") }}}},
			{ID: "dropped", Type: statechart.Final},
		},
	}), durable.MachineConfig{})
}

const (
	parcel1 = "parcel/1"
	// delivered is the answer to the task Delivery once the event "finish" has brought the item "ball".
	delivered = `[{"outcome":"delivered","state":["delivered"],"tags":[],"output":["ball"]}]`
	handed    = `[{"outcome":"on_its_way","state":["on_its_way"],"tags":["moving","settled"]}]`
)

// inParcelWorld runs a test in a world that has the machine parcel, in virtual time.
func inParcelWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		machines, err := durable.NewMachines(w.parcel())
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		w.third["pack"] = func(context.Context, statechart.Call) (string, error) { return "packed", nil }
		test(t, w)
	})
}

// waitFor sends the parcel an event that announces a task.
func (w *world) waitFor(token, name string, timeout, heartbeat time.Duration) {
	w.post(parcel1, `{"type": "settle.wait", "$task": `+w.wait(token, name, timeout, heartbeat)+`}`)
}

func (w *world) wantAnswer(t *testing.T, token, want string) {
	t.Helper()
	if got := w.answers(token); got != want {
		t.Errorf("task %s: want %s, got %s", token, want, got)
	}
}

// wantNoTokens checks that the parcel has no tokens and no outbox.
func (w *world) wantNoTokens(t *testing.T) {
	t.Helper()
	if r := w.load(parcel1); len(r.Tokens) > 0 || len(r.Outbox) > 0 {
		t.Errorf("want neither tokens nor an outbox left, got %d tokens and %v", len(r.Tokens), r.Outbox)
	}
}

func TestATaskEndsInAsManyWaysAsItsChart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		events []string
		want   string
	}{
		{"an outcome", []string{`{"type":"hurry"}`, `{"type":"finish","item":"ball"}`}, delivered},
		{"a failure", []string{`{"type":"hurry"}`, `{"type":"doom"}`}, "[Parcel.Lost: nobody knows]"},
		{"an end without an answer", []string{`{"type":"hurry"}`, `{"type":"cancel"}`}, "[Settle.Ended: parcel/1 has ended in [dropped] and has no answer under this name]"},
		{"no end", []string{`{"type":"hurry"}`}, "waits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inParcelWorld(t, func(t *testing.T, w *world) {
				w.waitFor("t1", "Delivery", 0, 0)
				w.post(parcel1, c.events...)
				w.run(t)
				w.wantAnswer(t, "t1", c.want)
				if c.want != "waits" {
					w.wantNoTokens(t)
				}
			})
		})
	}
}

func TestTheEventThatBringsATokenMayReachItsOutcome(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.post(parcel1, `{"type": "ship", "$task": `+w.wait("t1", "HandOver", 0, 0)+`}`)
		w.run(t)
		w.wantAnswer(t, "t1", handed)
		w.wantNoTokens(t)
	})
}

func TestATokenThatComesLateIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.post(parcel1, `{"type":"hurry"}`)
		w.run(t)
		w.waitFor("t1", "HandOver", 0, 0)
		w.run(t)
		w.wantAnswer(t, "t1", handed)
		w.post(parcel1, `{"type":"finish","item":"ball"}`)
		w.run(t)
		w.waitFor("t2", "Delivery", 0, 0)
		w.post(parcel1, `{"type": "ship", "$task": `+w.wait("t4", "Delivery", 0, 0)+`}`) // The ended instance ignores this event.
		w.run(t)
		w.wantAnswer(t, "t2", delivered)
		w.wantAnswer(t, "t4", delivered)
		w.wantNoTokens(t)
	})
}

func TestManyTasksWaitForOneInstance(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.waitFor("first", "Delivery", 0, 0)
		w.waitFor("second", "Delivery", 0, 0)
		w.waitFor("other", "HandOver", 0, 0)
		w.post(parcel1, `{"type":"hurry"}`)
		w.run(t)
		w.wantAnswer(t, "other", handed)
		w.wantAnswer(t, "first", "waits")
		w.post(parcel1, `{"type":"finish","item":"ball"}`)
		w.run(t)
		w.wantAnswer(t, "first", delivered)
		w.wantAnswer(t, "second", delivered)
		w.wantNoTokens(t)
	})
}

// One turn answers a task and receives a duplicate of the event that announced the task.
func TestATokenAnsweredForAStateIsNotKeptForTheNext(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.waitFor("t1", "HandOver", 0, 0)
		w.post(parcel1, `{"type":"hurry"}`)
		w.waitFor("t1", "HandOver", 0, 0) // This event is a duplicate.
		w.post(parcel1, `{"type":"doom"}`)
		w.run(t)
		w.wantAnswer(t, "t1", handed)
		w.wantNoTokens(t)
		if n := w.counted("Answer"); n != 1 {
			t.Errorf("want one answer, got %d", n)
		}
	})
}

func TestAnOutputThatIsTooLargeFailsTheTask(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.config.SnapshotBytesMax = 1 << 20
		w.waitFor("t1", "Delivery", 0, 0)
		w.post(parcel1, `{"type":"hurry"}`, `{"type":"grow","bytes":300000}`)
		w.run(t)
		w.wantAnswer(t, "t1", `[Settle.OutputTooLarge: the outcome is "heavy", but its output has 300059 bytes and Step Functions accepts 262144: `+
			`store it elsewhere and answer with a reference]`)
		w.wantNoTokens(t)
	})
}

// HTML escapes would make the output too long.
func TestAnOutputIsAsLongAsItsAuthorWroteIt(t *testing.T) {
	t.Parallel()
	output := json.RawMessage(`"` + strings.Repeat("<", 250<<10) + `"`)
	message, _, err := durable.ExecutionEnd([]byte(`{"$settle": {"instance": "parcel/1"}}`), statechart.ExecutionEnded{Output: output})
	if err != nil || len(message.Body) > 251<<10 || !bytes.Contains(message.Body, output) {
		t.Errorf("want the end of an execution to contain its output of %d bytes as it is, got %d, %v", len(output), len(message.Body), err)
	}
}

func TestAnEventThatIsParkedFailsItsTask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ event, want string }{
		"the chart refuses it": {`{"type":"refuse", "$task": TASK}`, "[Settle.Parked: applying"},
		"it is undeclared":     {`{"type":"unheard of", "$task": TASK}`, "[Settle.Parked: undeclared event type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inParcelWorld(t, func(t *testing.T, w *world) {
				w.post(parcel1, strings.Replace(c.event, "TASK", w.wait("t1", "Delivery", 0, 0), 1))
				w.run(t)
				if got := w.answers("t1"); name == "it is undeclared" && !strings.HasPrefix(got, c.want) || !strings.HasPrefix(got, "[Settle.Parked: ") {
					t.Errorf("want the task to fail as %s, got %s", c.want, got)
				}
				if len(w.parked) != 1 {
					t.Errorf("want one event parked, got %d", len(w.parked))
				}
			})
		})
	}
}

// A task with a readable token fails at once. Otherwise it would wait until its timeout.
func TestATaskWhoseTokenCanBeReadIsToldWhatIsWrongWithTheRest(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		task := strings.TrimSuffix(w.wait("t1", "Delivery", 0, 0), "}") + `, "enteredAt": "yesterday", "sate": 1, "timeoutSeconds": "600"}`
		w.post(parcel1, `{"type": "hurry", "$task": `+task+`}`)
		w.run(t)
		w.wantAnswer(t, "t1", `[Settle.Parked: wrong $task: expected a time such as $$.State.EnteredTime under "enteredAt", got another string; unknown key "sate"; expected a whole number of 64 bits under "timeoutSeconds", got a string; its keys are token, name, state, execution, enteredAt, timeoutSeconds and heartbeatSeconds]`)
		w.wantParked(t, [2]string{"hurry", "wrong $task"})
	})
}

func TestATaskThatIsNotOneIsParkedWithoutItsToken(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		`"secret-1"`:                      "expected an object",
		`{"token": "secret-1", "sate":1}`: `wrong $task: unknown key "sate"`,
		`{"token": 7, "secret-1-secret-1-secret-1-secret-1":1}`:                                      `wrong $task: unknown key of 35 bytes; expected a string under "token", got a number`,
		`{"token": "secret-1"}`:                                                                      `"name" or "state"`,
		`{"state": "Delivery"}`:                                                                      `expected under "token"`,
		`{"token": "secret-1", "name": "Delivery", "timeoutSeconds": -1}`:                            "no negative seconds",
		`{"token": "secret-1", "name": "Delivery", "execution": "` + strings.Repeat("x", 257) + `"}`: `expected under "execution" an ARN of at most 256 bytes ($$.Execution.Id), got 257`,
	} {
		inParcelWorld(t, func(t *testing.T, w *world) {
			w.post(parcel1, `{"type": "hurry", "$task": `+task+`}`)
			w.run(t)
			if len(w.parked) != 1 || !strings.Contains(w.parked[0].Reason, want) || strings.Contains(w.parked[0].Reason, "secret-1") {
				t.Errorf("%s: want it parked because of %q, without the token, got %+v", task, want, w.parked)
			}
		})
	}
}

// snapshotLog returns the Log of the stored parcel's context.
func (w *world) snapshotLog(t *testing.T) []string {
	t.Helper()
	var snapshot struct{ Context basket }
	if err := json.Unmarshal(w.load(parcel1).Snapshot, &snapshot); err != nil {
		t.Fatal(err)
	}
	return snapshot.Context.Log
}

// In each run, one fault hits one call. Both tasks must be answered once, and the chart must not receive token.expired.
func TestTasksAreAnsweredOnceWhateverCallFails(t *testing.T) {
	t.Parallel()
	play := func(hook func(call string) fault) (problem string, calls int) {
		inParcelWorld(t, func(t *testing.T, w *world) {
			w.hook = hook
			w.waitFor("t1", "HandOver", 0, 40*time.Minute)
			if problem = w.live(time.Now().Add(time.Hour)); problem != "" {
				return
			}
			w.post(parcel1, `{"type":"ship"}`)
			if problem = w.live(time.Now().Add(time.Hour)); problem != "" {
				return
			}
			w.post(parcel1, `{"type":"finish","item":"ball"}`)
			w.waitFor("t2", "Delivery", 0, 0)
			if problem = w.live(time.Time{}); problem != "" {
				return
			}
			got := fmt.Sprint(w.answers("t1"), w.answers("t2"), w.snapshotLog(t), len(w.load(parcel1).Tokens), len(w.load(parcel1).Outbox), w.violations, w.unperformed())
			want := handed + strings.Replace(delivered, `["ball"]`, `["packed","ball"]`, 1) + "[packed ball] 0 0 [] []"
			if got != want {
				problem = fmt.Sprintf("want %s\n got %s", want, got)
			}
			calls = len(w.calls)
		})
		return problem, calls
	}
	problem, calls := play(nil)
	if problem != "" || calls < 15 {
		t.Fatalf("without faults, in %d calls: %s", calls, problem)
	}
	for _, kind := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
		for at := 1; at <= calls; at++ {
			n, hit := 0, ""
			problem, _ := play(func(call string) fault {
				if n++; n == at {
					hit = call
					return kind
				}
				return none
			})
			if problem != "" {
				t.Errorf("call %d, %s: %v: %s", at, hit, kind, problem)
			}
		}
	}
}

func TestTokensAreNotShown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.config.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		w.hook = faults(map[string]fault{"Answer HandOver #1": failBefore, "Heartbeat HandOver #1": failBefore})
		w.waitFor("secret-1", "HandOver", 0, time.Minute)
		w.runFor(t, 2*time.Minute)
		w.post(parcel1, `{"type":"refuse", "$task": `+w.wait("secret-2", "Delivery", 0, 0)+`}`)
		w.runFor(t, 2*time.Minute)
		record := w.load(parcel1)
		if len(record.Tokens) != 1 {
			t.Fatalf("want a token, got %d", len(record.Tokens))
		}
		w.config.Logger.Info("token", "token", record.Tokens[0], "value", record.Tokens[0].Value)
		for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q %x", record.Tokens[0], record, record.Tokens, record.Tokens[0].Value, record.Tokens[0].Value, record.Tokens[0].Value), log.String()} {
			if strings.Contains(text, "secret-") || strings.Contains(text, fmt.Sprintf("%x", "secret-")) {
				t.Errorf("want no token shown, got %s", text)
			}
		}
		w.post(parcel1, `{"type":"hurry"}`)
		w.run(t)
	})
	if !strings.Contains(log.String(), "HandOver") {
		t.Error("want the name of the task in the log")
	}
}

func TestWithoutTokensAnEventThatBringsOneIsParked(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.noTokens = true
		w.waitFor("t1", "Delivery", 0, 0)
		w.run(t)
		if len(w.parked) != 1 || !strings.Contains(w.parked[0].Reason, "Ports.Tokens") {
			t.Errorf("want the event parked because of Ports.Tokens, got %+v", w.parked)
		}
	})
}

// The fake rejects a cause of more than 32,768 characters, as Step Functions does.
func TestACauseIsCutToWhatStepFunctionsTakes(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.waitFor("t1", "Delivery", 0, 0)
		w.post(parcel1, `{"type":"grow","bytes":40000}`, `{"type":"hurry"}`, `{"type":"doom"}`)
		w.run(t)
		if got := w.answers("t1"); len(got) != len("[Parcel.Lost: ]")+32768 || !strings.HasSuffix(got, "x…]") {
			t.Errorf("want a cause of 32768 bytes with an ellipsis, got %d bytes, the last %q", len(got), got[max(0, len(got)-20):])
		}
		w.wantNoTokens(t)
	})
}
