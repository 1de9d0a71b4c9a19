package statechart_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

type reminder struct {
	Text string `json:"text"`
}

// reminding returns a chart that, on ASK, sends itself REMIND with the ID r after the delay. STOP cancels REMIND.
func reminding(payload any, delay time.Duration) Def {
	remind := statechart.SendAfter("r", "REMIND", func(trace, Event) (time.Duration, any) { return delay, payload })
	keep := statechart.Assign("keep", func(c *trace, e reminder) { c.Log = append(c.Log, e.Text) })
	return Def{Initial: "a", Payloads: statechart.Payloads{"REMIND": statechart.InternalOf[reminder]()}, States: []S{
		{ID: "a", On: []On{{Event: "ASK", Target: "b", Actions: Do{remind}}, {Event: "BOTH", Actions: Do{remind, statechart.Cancel[trace]("r")}}}},
		{ID: "b", On: []On{{Event: "REMIND", Actions: Do{keep}}, {Event: "STOP", Actions: Do{statechart.Cancel[trace]("r")}}, {Event: "OTHER", Actions: Do{statechart.Cancel[trace]("x")}}, {Event: "ASK", Actions: Do{remind}}, {Event: "BACK", Target: "a"}}},
	}}
}

func TestSendAfterFiresInAnyState(t *testing.T) {
	t.Parallel()
	r := begin(t, reminding(reminder{Text: "now"}, time.Minute))
	r.send("ASK").is("b", "+a -a +b")
	equal(t, "effects", text(t, r.step.Effects), `[{"id":"2.0","kind":"schedule","timer":"2.0","at":"2026-01-02T03:05:05Z"}]`)
	equal(t, "timers", text(t, r.step.Next.Timers), `[{"ID":"2.0","State":"","After":"REMIND","At":"2026-01-02T03:05:05Z","Event":{"text":"now","type":"REMIND"},"Send":"r"}]`)
	r.send("OTHER")
	timer := r.timer("")
	r.fire(timer).is("b", "now")
	equal(t, "timers", len(r.step.Next.Timers), 0)
	r.fire(timer).is("b", "")
	equal(t, "handled", r.step.Handled, false)
}

func TestSendAfterIsStoredWithTheSnapshot(t *testing.T) {
	t.Parallel()
	r := begin(t, reminding(reminder{Text: "stored"}, time.Minute)).send("ASK")
	stored := text(t, r.step.Next)
	restored, err := r.chart.Restore([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "restored", text(t, restored), stored)
	r.step.Next, r.seen = restored, 3
	r.fire(r.timer("")).is("b", "stored")
	for problem, edit := range map[string][2]string{
		"belongs to":     {`"after":"REMIND"`, `"after":"ASK"`},
		"unexpected end": {`"event":{"text":"stored","type":"REMIND"}`, `"event":null`},
	} {
		edited := strings.Replace(stored, edit[0], edit[1], 1)
		if _, err := r.chart.Restore([]byte(edited)); edited == stored || !errors.Is(err, statechart.ErrUnreadable) || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: got the error %v", problem, err)
		}
	}
}

func TestCancelCancelsEventsWithItsID(t *testing.T) {
	t.Parallel()
	r := begin(t, reminding(reminder{}, time.Minute)).send("ASK", "ASK")
	equal(t, "timers", len(r.step.Next.Timers), 2)
	r.send("STOP")
	equal(t, "timers", len(r.step.Next.Timers), 0)
	r.send("BACK", "BOTH")
	equal(t, "timers", len(r.step.Next.Timers), 0)
	equal(t, "effects of an event sent and cancelled in one step", len(r.step.Effects), 0)
}

func TestSendAfterRejectsInvalidEvents(t *testing.T) {
	t.Parallel()
	for message, def := range map[string]Def{
		`sending event "REMIND": expected a delay from 0, got -1s`: reminding(nil, -time.Second),
		"encoding the payload of event":                            reminding([]int{1}, 0),
		`expected a string under "text", got a number`:             reminding(map[string]int{"text": 7}, 0),
	} {
		r := begin(t, def)
		_, err := r.chart.Step(r.step.Next, Event{Type: "ASK", At: epoch})
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("got the error %v, want %q", err, message)
		}
	}
	never := statechart.SendAfter("", "NEVER", func(trace, Event) (time.Duration, any) { return 0, nil })
	def := Def{Initial: "a", States: []S{{ID: "a", Entry: Do{never}}}}
	if _, err := statechart.Compile(traced(def)); err == nil || !strings.Contains(err.Error(), `sends itself the undeclared event type "NEVER"`) {
		t.Errorf("got the error %v", err)
	}
}

func TestSendAfterTimersAreLimited(t *testing.T) {
	t.Parallel()
	r := begin(t, reminding(reminder{}, time.Minute)).send("ASK")
	for len(r.step.Next.Timers) < statechart.TimersMax {
		r.send("ASK")
	}
	if _, err := r.chart.Step(r.step.Next, Event{Type: "ASK", At: epoch}); !errors.Is(err, statechart.ErrLimit) {
		t.Errorf("got the error %v, want ErrLimit", err)
	}
}

func TestSendAfterDeadlineIsInUTCMilliseconds(t *testing.T) {
	t.Parallel()
	r := begin(t, reminding(reminder{Text: "now"}, time.Minute))
	r.now = epoch.Add(1_999_999).In(time.FixedZone("east", 3600))
	r.send("ASK")
	equal(t, "deadline", r.timer("").At, epoch.Add(time.Minute+time.Millisecond))
	equal(t, "effect", r.step.Effects[0].At, epoch.Add(time.Minute+time.Millisecond))
}

func TestCancelIgnoresEventsWithoutID(t *testing.T) {
	t.Parallel()
	later := func(id string) statechart.Action[trace] {
		return statechart.SendAfter(id, "LATER", func(trace, Event) (time.Duration, any) { return time.Minute, nil })
	}
	cancel := statechart.EnqueueActions("cancel", func(_ *trace, _ Event, enqueue statechart.Enqueue) error { enqueue.Cancel(""); return nil })
	r := begin(t, Def{Initial: "a", Payloads: statechart.Payloads{"LATER": statechart.NoPayload()}, States: []S{
		{ID: "a", After: []After{{Delay: time.Hour}}, On: []On{{Event: "GO", Actions: Do{later(""), later("x"), cancel}}}}}})
	r.send("GO")
	equal(t, "timers", len(r.step.Next.Timers), 3)
}

func TestSendAfterSurvivesReentryOfTheRoot(t *testing.T) {
	t.Parallel()
	later := statechart.SendAfter("x", "LATER", func(trace, Event) (time.Duration, any) { return time.Minute, nil })
	r := begin(t, Def{Initial: "a", Payloads: statechart.Payloads{"LATER": statechart.NoPayload()}, After: []After{{Delay: time.Hour}},
		On: []On{{Event: "SEND", Actions: Do{later}}, {Event: "AGAIN", Target: "#c", Reenter: true}}, States: []S{{ID: "a"}}})
	r.send("SEND", "AGAIN")
	var ids []string
	for _, timer := range r.step.Next.Timers {
		ids = append(ids, timer.ID)
	}
	equal(t, "timers", strings.Join(ids, " "), "2.0 3.0")
}
