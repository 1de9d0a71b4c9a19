package durable_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

func telling(to, item string) string {
	return fmt.Sprintf(`{"type": "tell", "item": %q, "to": %q}`, item, to)
}

func TestEffectsArePerformedInOrderAfterTheirCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", telling("order/2", "a"), telling("order/3", "b"), event("wait", ""))
		w.invoke()
		w.wantCalls(t, "Load order/1", "Commit order/1", "Send order/2", "Send order/3", "Schedule order/1")
		at := time.Now().UnixMilli()
		if want := []string{fmt.Sprintf("order/1@%d/2.0", at), fmt.Sprintf("order/1@%d/3.0", at), fmt.Sprintf("order/1@%d/4.0", at)}; !slices.Equal(w.inOrder, want) {
			t.Errorf("performed %q, want %q", w.inOrder, want)
		}
		w.wantSound(t)
		w.run(t)
		w.wantLog(t, "order/2", "a")
		w.wantLog(t, "order/3", "b")
		w.wantLog(t, "order/1", "a", "b", "hour over")
	})
}

func TestAnEffectThatFailsIsPerformedAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"Send order/2 #1", "Send order/2 #2"} {
		for _, what := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
			t.Run(fmt.Sprint(call, " ", what), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.hook = faults(map[string]fault{call: what})
					w.post("order/1", telling("order/2", "a"), telling("order/2", "b"))
					if failed := w.invoke(); len(failed) != 2 {
						t.Errorf("failed: %q, want both", failed)
					}
					w.run(t)
					w.wantLog(t, "order/1", "a", "b")
					w.wantLog(t, "order/2", "a", "b")
					w.wantSound(t)
					if len(w.performed) != 2 {
						t.Errorf("performed %v, want two IDs", w.performed)
					}
				})
			})
		}
	}
}

func TestTheNextEventDrainsTheOutboxBeforeItIsApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		failures := 0
		w.hook = func(call string) fault {
			if call == "Send order/2" && failures <= 10 {
				failures++
				return failBefore
			}
			return none
		}
		w.post("order/1", telling("order/2", "a"))
		for range 10 {
			w.invoke()
			time.Sleep(visibilityTimeout)
		}
		w.messages = nil // SQS dropped the message after too many receives.
		w.post("order/1", telling("order/2", "b"))
		if failed := w.invoke(); len(failed) != 1 {
			t.Errorf("failed: %q, want the event that could not drain the outbox", failed)
		}
		w.wantLog(t, "order/1", "a")
		w.run(t)
		w.wantLog(t, "order/1", "a", "b")
		w.wantLog(t, "order/2", "a", "b")
		w.wantSound(t)
	})
}

func TestASendThatIsRepeatedAfterTheQueueForgotItIsAppliedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hook = faults(map[string]fault{"Send order/2 #1": dieAfter})
		w.post("order/1", telling("order/2", "a"))
		w.run(t) // The redelivery comes after 6 minutes. The queue remembers IDs for 5 minutes.
		if w.sequence != 3 {
			t.Errorf("%d messages were sent, want the repeat to be the third", w.sequence)
		}
		w.wantLog(t, "order/2", "a")
	})
}

func TestASendCarriesItsIDAndADeduplicationIDThatSQSTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		long := "order/" + strings.Repeat("1", 122)
		w.post(long, telling("order/2", "a"))
		w.invoke()
		sent := w.messages[0]
		var body struct {
			ID   string `json:"$id"`
			Item string `json:"item"`
		}
		decode(t, []byte(sent.Body), &body)
		if want := fmt.Sprintf("%s@%d/2.0", long, time.Now().UnixMilli()); body.ID != want || body.Item != "a" {
			t.Errorf("sent %s, want the $id %s", sent.Body, want)
		}
		if id := sent.DeduplicationID; len(id) != 64 || strings.Trim(id, "0123456789abcdef") != "" {
			t.Errorf("the deduplication ID is %q, want a hash", id)
		}
	})
}

func TestATimerThatTheInstanceNoLongerWaitsForIsNotScheduled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""), event("again", ""), telling("order/2", "ignored while waiting"), event("again", ""))
		w.invoke()
		w.wantCalls(t, "Load order/1", "Commit order/1", "Schedule order/1")

		// A crash between the commit and the call of Schedule makes no difference.
		w.hook = faults(map[string]fault{"Schedule order/1 #1": dieBefore})
		w.post("order/1", event("again", ""))
		w.invoke()
		w.hook = nil
		w.run(t)
		w.wantLog(t, "order/1", "hour over")
	})
}

func TestASendToWhatIsNoInstanceFailsTheStepNotTheOutbox(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ to, reason string }{
		"no instance": {"nowhere", "expected machine/id"},
		"too long":    {"order/" + strings.Repeat("2", 200), "at most 128 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.post("order/1", event("add", "before"), telling(c.to, "lost"), event("add", "after"))
				w.run(t)
				w.wantParked(t, [2]string{c.to, c.reason})
				w.wantLog(t, "order/1", "before", "after")
				w.wantSound(t)
			})
		})
	}
}

func TestASendThatIsTooLargeFailsTheStepNotTheOutbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", telling("order/2", strings.Repeat("x", 256<<10)), event("add", "after"))
		w.run(t)
		w.wantParked(t, [2]string{"tell", "the limit is 262144 (EventBytesMax)"})
		w.wantLog(t, "order/1", "after")
	})
}

func TestEffectsOfAStartArePerformedWithTheFirstEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("greeter/1", event("add", "a"))
		w.invoke()
		w.wantCalls(t, "Load greeter/1", "Commit greeter/1", "Send order/2", "Schedule greeter/1")
		w.runFor(t, time.Minute)
		w.wantLog(t, "order/2", "greeting")
	})
}

func TestRecordOwesEffectsAndAnswersThatAreNotKnownToBeGiven(t *testing.T) {
	t.Parallel()
	waiting, answered := instances.Token{Key: "a"}, instances.Token{Key: "b", Answer: &instances.Answer{Output: json.RawMessage(`{}`)}}
	for name, c := range map[string]struct {
		record instances.Record
		want   bool
	}{
		"nothing":                        {instances.Record{}, false},
		"an effect":                      {instances.Record{Outbox: []statechart.Effect{{ID: "1.0"}}}, true},
		"a waiting task":                 {instances.Record{Tokens: []instances.Token{waiting}}, false},
		"an answer":                      {instances.Record{Tokens: []instances.Token{answered}}, true},
		"an answer after a waiting task": {instances.Record{Tokens: []instances.Token{waiting, answered}}, true},
	} {
		if got := c.record.Owes(); got != c.want {
			t.Errorf("%s: expected %t, got %t", name, c.want, got)
		}
	}
}
