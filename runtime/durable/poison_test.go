package durable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPoisonIsParkedWithItsReasonAndTheGroupGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, reason string }{
		{"no JSON", `VERIFY`, "not an event: expected a JSON object"},
		{"no object", `["add"]`, "not an event: expected a JSON object"},
		{"cut off", `{"type": "add"`, "not an event"},
		{"no type", `{"item": "a"}`, `expected the key "type"`},
		{"type is no string", `{"type": 7}`, `expected a string under the key "type"`},
		{"undeclared", `{"type": "vanish"}`, `chart order has no event "vanish"; it declares add, again, both`},
		{"reserved", `{"type": "settle.after.waiting.1h0m0s"}`, "undeclared event type"},
		{"wrong payload", `{"type": "add", "item": 7}`, `wrong payload: event "add" of chart order`},
		{"invalid payload", `{"type": "add", "item": "invalid"}`, "invalid item"},
		{"payload that panics", `{"type": "add", "item": "explosive"}`, "panic: a value of the type string"},
		{"endless type", `{"type": "` + strings.Repeat("t", 257) + `"}`, `expected at most 256 bytes under the key "type"`},
		{"endless ID", `{"type": "add", "item": "a", "$id": "` + strings.Repeat("i", 257) + `"}`, `expected at most 256 bytes under the key "$id"`},
		{"timer without ID", `{"type": "settle.timer"}`, `expects the key "timer"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.post("order/1", event("add", "before"), c.body, event("add", "after"))
				w.post("order/2", event("add", "beside"))
				if failed := w.invoke(); len(failed) != 0 {
					t.Errorf("failed: %q", failed)
				}
				w.wantParked(t, [2]string{c.body, c.reason})
				w.wantLog(t, "order/1", "before", "after")
				w.wantLog(t, "order/2", "beside")
				if w.counted("Commit order/1") != 1 {
					t.Errorf("%d writes, want 1", w.counted("Commit order/1"))
				}
				if shown := w.load("order/1").Error; shown == nil || !strings.Contains(shown.Message, c.reason) || !shown.At.Equal(time.Now()) {
					t.Errorf("the instance shows %+v", shown)
				}
			})
		})
	}
}

func TestAReasonThatQuotesALongEventDoesNotFillTheItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "before"), event("add", "quoted"+strings.Repeat("é", 200_000)), event("add", "after"))
		w.invoke()
		w.wantLog(t, "order/1", "before", "after")
		message := w.load("order/1").Error.Message
		if !strings.HasPrefix(message, "wrong payload") || !strings.HasSuffix(message, "é…") || len(message) > 2100 {
			t.Errorf("the instance shows %d bytes: %.100s", len(message), message)
		}
	})
}

func TestAGroupThatLeadsToNoMachineIsParked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ group, reason string }{
		{"order", "expected machine/id such as signup/42"},
		{"order/1/2", `expected machine/id such as signup/42, got "order/1/2"; write the ID without a slash, such as 1-2`},
		{"order/" + strings.Repeat("1", 123), "expected at most 128 bytes"},
		{"order/ü", `expected ASCII letters, digits and punctuation, got "ü" at byte 6 of "order/ü"`},
		{"ghost/1", `unknown machine: expected one of boot, greeter, order, got "ghost"`},
	} {
		t.Run(c.group, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.post(c.group, event("add", "a"), event("add", "b"))
				w.post("order/2", event("add", "beside"))
				if failed := w.invoke(); len(failed) != 0 {
					t.Errorf("failed: %q", failed)
				}
				w.wantParked(t, [2]string{`"a"`, c.reason}, [2]string{`"b"`, c.reason})
				w.wantLog(t, "order/2", "beside")
			})
		})
	}
}

func TestAnEventThatDoesNotStartAnInstanceIsParkedAndTheNextOneMayStartIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("greeter/1", event("wait", "a"))
		w.invoke()
		w.wantParked(t, [2]string{"wait", `greeter/1 does not exist, and an event of type "wait" does not start one`})
		w.wantCalls(t, "Load greeter/1", "Park greeter/1")

		w.post("greeter/1", event("wait", "a"), event("add", "b"), event("wait", "c"))
		w.runFor(t, time.Minute)
		w.wantLog(t, "greeter/1", "b")
		if record := w.load("greeter/1"); len(w.parked) != 2 || record.Ignored != 1 {
			t.Errorf("%d events parked and %d ignored, want 2 and 1", len(w.parked), record.Ignored)
		}
	})
}

// The first event is parked, because it cannot start an instance. The next event starts the instance and stores a try
// count. Then SQS redelivers both events.
func TestAnEventThatWasParkedBeforeItsInstanceBeganIsNotAppliedToIt(t *testing.T) {
	t.Parallel()
	for _, what := range []fault{failBefore, dieBefore} {
		t.Run(what.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.hook = faults(map[string]fault{
					"Load greeter/1 #1": failBefore, "Load greeter/1 #2": failBefore, "Load greeter/1 #3": failBefore, // After these failed receives, the next try stores a count.
					"Commit greeter/1 #2": what,
				})
				w.post("greeter/1", event("wait", "a"), event("add", "b"))
				w.runFor(t, 10*time.Minute)
				w.wantLog(t, "greeter/1", "b")
				record := w.load("greeter/1")
				if reason := "does not start one"; len(w.parked) == 0 || !strings.Contains(w.parked[0].Reason, reason) || record.Ignored != 0 || len(record.History) != 1 {
					t.Errorf("parked %+v, ignored %d, history %+v: want the first parked because it %s, and never applied", w.parked, record.Ignored, record.History, reason)
				}
			})
		})
	}
}

func TestPoisonThatCannotBeParkedIsDeliveredAgainAndNothingIsLost(t *testing.T) {
	t.Parallel()
	for _, what := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
		t.Run(what.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.hook = faults(map[string]fault{"Park order/1 #1": what})
				bodies := []string{event("add", "before"), `{"type": "vanish"}`, event("add", "after")}
				w.post("order/1", bodies...)
				failed := w.invoke()
				if !slices.Equal(failed, bodies) { // The events before the bad one are applied, but the turn has not ended.
					t.Errorf("failed: %q, want %q", failed, bodies)
				}
				w.run(t)
				w.wantLog(t, "order/1", "before", "after")
				w.wantParked(t, [2]string{"vanish", "undeclared"})
			})
		})
	}
}

func TestABadGroupThatCannotBeParkedIsDeliveredAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hook = faults(map[string]fault{"Park ghost/1 #2": failBefore})
		w.post("ghost/1", adds(3)...)
		if failed := w.invoke(); !slices.Equal(failed, adds(3)[1:]) {
			t.Errorf("failed: %q, want the second and the third", failed)
		}
		w.run(t)
		w.wantParked(t, [2]string{`"0"`, "ghost"}, [2]string{`"1"`, "ghost"}, [2]string{`"2"`, "ghost"})
	})
}

func TestAFiringOfAnEarlierInstanceOfTheNameIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""))
		w.invoke()
		timer := w.scheduled[0].message.Body
		delete(w.records, "order/1") // The instance's retention is over.
		w.revision["order/1"] = 0
		w.scheduled = nil
		time.Sleep(time.Second)

		w.post("order/1", event("wait", ""))
		w.invoke()
		w.post("order/1", string(timer))
		w.calls = nil
		w.invoke()
		w.wantCalls(t, "Load order/1")
		w.wantState(t, "order/1", "waiting")
		w.wantParked(t)
		w.run(t)
		w.wantLog(t, "order/1", "hour over")
	})
}

func TestAPortThatPanicsFailsItsGroupAlone(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"Load order/1", "Commit order/1", "Park order/1"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				panicked := false
				w.hook = func(c string) fault {
					if c == call && !panicked {
						panicked = true
						panic(fmt.Sprint("bug in ", c))
					}
					return none
				}
				w.post("order/1", event("add", "a"), `{"type": "spoil"}`)
				w.post("order/2", event("add", "b"))
				w.invoke()
				w.wantLog(t, "order/2", "b")
				w.run(t)
				w.wantLog(t, "order/1", "a")
				w.wantParked(t, [2]string{"spoil", "NaN"})
			})
		})
	}
}

func TestWhatHasBegunForAnEventThatCannotBeParkedIsNotPerformed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hook = faults(map[string]fault{"Park greeter/1 #1": failBefore})
		w.post("greeter/1", event("refuse", "a"))
		w.run(t)
		w.wantParked(t, [2]string{"refuse", "refused"})
		stored, greeted := slices.Index(w.calls, "Commit greeter/1"), slices.Index(w.calls, "Send order/2")
		if greeted >= 0 && (stored < 0 || greeted < stored) || w.counted("Park greeter/1") != 2 {
			t.Errorf("expected two tries to park, and no effect of an instance that is not stored, got the calls %q", w.calls)
		}
	})
}

func TestAnEventOfTheLoopWithABooleanForATextIsParkedInWordsOfJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""), `{"type": "settle.token", "token": true}`)
		w.invoke()
		w.wantParked(t, [2]string{"settle.token", `expected a string under "token", got a boolean`})
	})
}
