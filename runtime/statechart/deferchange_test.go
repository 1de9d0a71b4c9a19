package statechart_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/internal/foreign"
	"github.com/settle-run/settle/runtime/statechart"
)

// Deferred events that another build has stored.

func TestDeferredEventKeepsKeysThatTheBuildDoesNotKnow(t *testing.T) {
	t.Parallel()
	def := busyDef()
	def.On = []On{{Event: "LATER", Actions: Do{statechart.SendAfter("", "ORDER", func(trace, Event) (time.Duration, any) { return 1, parcel{"cake"} })}}}
	r := begin(t, def).send("LATER")
	event, err := r.chart.Decode([]byte(`{"$id": "p-1", "$task": {"token": "t"}, "type": "ORDER", "ITEM": "x", "item": "te\u0061", "to": {"$id": 1}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.apply(event)
	written := strings.Replace(text(t, r.step.Next), `{"item":"cake"`, `{"to":7,"item":"cake"`, 1)
	if r.step.Next, err = r.chart.Restore([]byte(written)); err != nil {
		t.Fatal(err)
	}
	r.fire(r.timer("")).send("CALL")
	stored := text(t, r.step.Next)
	const want = `"deferred":[{"id":"p-1","event":{"type":"ORDER","ITEM":"x","item":"te\u0061","to":{"$id":1}}},{"event":{"to":7,"item":"cake","type":"ORDER"}},{"event":{"type":"CALL"}}]`
	if !strings.Contains(stored, want) {
		t.Errorf("got %s\nwant %s", stored, want)
	}

	var seen []any
	next := busyDef()
	type sent struct {
		parcel
		To any `json:"to"`
	}
	next.Payloads["ORDER"] = statechart.PayloadOf[sent]()
	keep := statechart.Assign("keep", func(_ *trace, s sent) { seen = append(seen, s.Item, s.To) })
	next.States[1].On[0].Actions, next.States[2].On[0].Actions = Do{keep}, Do{keep}
	chart := compile(t, traced(next))
	snapshot, err := chart.Restore([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = chart.Step(snapshot, Event{Type: "IDLE", At: epoch}); err != nil {
		t.Fatal(err)
	}
	equal(t, "seen", fmt.Sprint(seen), "[tea map[$id:1] cake 7]")
}

func TestUndecodableDeferredEventsAreParkedOnceNoStateDefersThem(t *testing.T) {
	t.Parallel()
	r := begin(t, busyDef())
	const deferred = `"deferred":[{"event":{"item":"tea","type":"ORDER"}},{"id":"p-1","event":{"type":"OLD"}},{"event":{"item":7,"type":"ORDER"}},{"event":{"type":"CALL"}}],"steps"`
	var err error
	if r.step.Next, err = r.chart.Restore([]byte(strings.Replace(text(t, r.step.Next), `"steps"`, deferred, 1))); err != nil {
		t.Fatal(err)
	}
	r.send("CALL")
	equal(t, "effects", text(t, r.step.Effects), `[{"id":"2.0","kind":"park","event":{"$id":"p-1","type":"OLD"},"message":"chart c, event \"OLD\": replay: undeclared event type: \"OLD\""}]`)
	equal(t, "waiting", deferredBy(r), "ORDER ORDER CALL CALL")
	r.send("IDLE").is("idle", "+busy -busy +idle tea call call")
	equal(t, "effects", text(t, r.step.Effects),
		`[{"id":"3.0","kind":"park","event":{"item":7,"type":"ORDER"},"message":"chart c, event \"ORDER\": replay: expected a string under \"item\", got a number"}]`)
	equal(t, "waiting", deferredBy(r), "")
}

// payDef returns a chart that handles PAY and CANCEL where an earlier version has deferred PAY.
func payDef() Def {
	say := statechart.Emit("PAID", func(trace, Event) any { return nil })
	over := []On{{Target: "paid", Actions: logs("charged")}}
	return Def{Initial: "open", Payloads: statechart.Payloads{"IDLE": statechart.NoPayload()}, States: []S{
		{ID: "open", After: []After{{Delay: time.Hour, Target: "late"}}, On: []On{{Event: "PAY", Target: "paid", Actions: append(logs("pay"), say)}, {Event: "CANCEL", Target: "gone"},
			{Event: "CHARGE", Target: "charging"}, {Event: "END", Target: "end"}}},
		{ID: "paid", On: []On{{Event: "CANCEL", Target: "refunded", Actions: append(logs("refund"), say)}, {Event: "FAIL", Actions: Do{failing}}}},
		{ID: "charging", Invoke: []Invoke{service("", over, over)}},
		{ID: "refunded"}, {ID: "gone"}, {ID: "late"}, {ID: "end", Type: statechart.Final},
	}}
}

// paying restores an instance of the chart in which the events wait as deferred.
func paying(t *testing.T, def Def, waiting ...string) *run {
	t.Helper()
	r := begin(t, def)
	var deferred []string
	for i, typ := range waiting {
		deferred = append(deferred, fmt.Sprintf(`{"id":"w-%d","event":{"type":%q}}`, i, typ))
	}
	var err error
	r.step.Next, err = r.chart.Restore([]byte(strings.Replace(text(t, r.step.Next), `"steps"`, `"deferred":[`+strings.Join(deferred, ",")+`],"steps"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	r.seen = len(r.step.Next.Context.Log)
	return r
}

func TestHandledDeferredEventsComeBeforeTheEventOfTheStep(t *testing.T) {
	t.Parallel()
	r := paying(t, payDef(), "IDLE", "PAY").send("CANCEL").is("refunded", "-open pay +paid -paid refund +refunded")
	equal(t, "waiting", deferredBy(r), "") // Nothing handles IDLE.
	equal(t, "effects", text(t, r.step.Effects), `[{"id":"2.0","kind":"emit","event":{"type":"PAID"}},{"id":"2.1","kind":"emit","event":{"type":"PAID"}}]`)

	r = paying(t, payDef(), "PAY")
	r.fire(r.timer("open")).is("paid", "-open pay +paid") // The deferred event has cancelled the timer.

	r = paying(t, payDef(), "PAY")
	r.refuses(Event{Type: "FAIL"}, errPlanned, `chart c, state "paid", event "FAIL": action failing: planned`)
	equal(t, "waiting", deferredBy(r), "PAY")
	r.send("IDLE").is("paid", "-open pay +paid")
	equal(t, "handled", r.step.Handled, true)

	ending := payDef()
	ending.States[0].On[0].Target, ending.States[1].On = "end", ending.States[1].On[:1]
	ending.States[6].Entry = logs("end")
	r = paying(t, ending, "PAY").send("CANCEL").is("end", "-open pay +end end -end")
	equal(t, "handled and status", fmt.Sprint(r.step.Handled, r.step.Next.Status), "truedone")

	// An event that no transition handles waits until the step has moved the chart.
	r = paying(t, payDef(), "FAIL").send("PAY").is("paid", "-open pay +paid")
	equal(t, "parked", string(r.step.Effects[1].Event), `{"$id":"w-0","type":"FAIL"}`)
}

func TestEventIsPostponedWhileADeferredEventRunsServices(t *testing.T) {
	t.Parallel()
	def := payDef()
	def.States[0].On[0].Target = "charging"
	r := paying(t, def, "PAY", "IDLE")
	r.apply(Event{Type: "CANCEL", ID: "c-1"}).is("charging", "-open pay +charging")
	equal(t, "waiting", deferredBy(r), "IDLE CANCEL")
	equal(t, "ID", r.step.Next.Deferred[1].ID, "c-1")
	restored, err := r.chart.Restore([]byte(text(t, r.step.Next)))
	if err != nil {
		t.Fatal(err)
	}
	r.step.Next = restored
	r.apply(r.step.Next.Services[0].Done(1)).is("refunded", "-charging charged +paid -paid refund +refunded")
	equal(t, "waiting", deferredBy(r), "")

	// Timers fire while the service runs.
	def.States[2].After = []After{{ID: "limit", Delay: time.Minute, Target: "late"}}
	r = paying(t, def, "PAY").send("CANCEL")
	r.fire(r.timer("charging")).is("late", "-open pay +charging -charging +late")
}

func TestForeignChartReplaysDeferredEventsFirst(t *testing.T) {
	t.Parallel()
	def := traced(payDef())
	def.Foreign = &foreign.Document{}
	chart, err := statechart.Compile(def)
	if err != nil {
		t.Fatal(err)
	}
	step, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	step.Next.Deferred = []statechart.Deferred{{Type: "UNKNOWN", Event: json.RawMessage(`{"type":"UNKNOWN"}`)}, {Type: "PAY", Event: json.RawMessage(`{"type":"PAY"}`)}}
	if step, err = chart.Step(step.Next, Event{Type: "CANCEL", At: epoch}); err != nil {
		t.Fatal(err)
	}
	equal(t, "state", fmt.Sprint(step.Next.State(), len(step.Next.Deferred)), "[refunded] 0")
}
