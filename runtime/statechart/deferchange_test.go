package statechart_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// The tests in this file restore deferred events that another build has stored.

func TestDeferredEventKeepsKeysThatTheBuildDoesNotKnow(t *testing.T) {
	t.Parallel()
	def := busyDef()
	def.On = []On{{Event: "LATER", Actions: Do{statechart.SendAfter("", "ORDER", func(trace, Event) (time.Duration, any) { return 1, parcel{"cake"} })}}}
	r := begin(t, def).send("LATER")
	event, err := r.chart.Decode([]byte(`{"$id": "p-1", "$task": {"token": "t"}, "$chain": {"hops": 1}, "type": "ORDER", "ITEM": "x", "item": "te\u0061", "to": {"$id": 1}}`))
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
	const deferred = `"deferred":[{"event":{"item":"tea","type":"ORDER"}},{"id":"p-1","event":{"type":"OLD"}},{"id":"p-2","event":{"type":"ORDER","item":7}},{"event":{"type":"CALL"}}],"steps"`
	var err error
	if r.step.Next, err = r.chart.Restore([]byte(strings.Replace(text(t, r.step.Next), `"steps"`, deferred, 1))); err != nil {
		t.Fatal(err)
	}
	r.send("CALL")
	equal(t, "effects", text(t, r.step.Effects), `[{"id":"2.0","kind":"park","event":{"$id":"p-1","type":"OLD"},"message":"chart c, event \"OLD\": replay: undeclared event type: \"OLD\""}]`)
	equal(t, "waiting", deferredBy(r), "ORDER ORDER CALL CALL")
	r.send("IDLE").is("idle", "+busy -busy +idle tea call call")
	equal(t, "effects", text(t, r.step.Effects),
		`[{"id":"3.0","kind":"park","event":{"$id":"p-2","type":"ORDER","item":7},"message":"chart c, event \"ORDER\": replay: expected a string under \"item\", got a number"}]`)
	equal(t, "waiting", deferredBy(r), "")
}
