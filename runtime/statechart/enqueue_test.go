package statechart_test

import (
	"errors"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// enqueuing returns a chart that runs fn on GO.
func enqueuing(fn func(*trace, Event, statechart.Enqueue) error) Def {
	return Def{Initial: "a", Payloads: statechart.Payloads{"NEXT": statechart.InternalOf[int](), "LATER": statechart.NoPayload()}, States: []S{
		{ID: "a", On: []On{
			{Event: "GO", Actions: Do{statechart.EnqueueActions("all", fn)}},
			{Event: "NEXT", Actions: Do{statechart.EnqueueActions("add", func(c *trace, n int, _ statechart.Enqueue) error { c.N += n; return nil })}},
			{Event: "LATER", Actions: logs("later")},
		}},
	}}
}

func TestEnqueueActionsOffersTheOtherActions(t *testing.T) {
	t.Parallel()
	r := begin(t, enqueuing(func(c *trace, e Event, enqueue statechart.Enqueue) error {
		c.Log = append(c.Log, e.Type)
		if !enqueue.In("a") || enqueue.In("b") {
			return errPlanned
		}
		err := errors.Join(
			enqueue.Raise("NEXT", 2), enqueue.Raise("NEXT", 3),
			enqueue.SendTo("other/1", "HELLO", map[string]int{"n": 1}),
			enqueue.SendAfter("x", "LATER", time.Hour, nil), enqueue.SendAfter("y", "LATER", time.Minute, nil))
		enqueue.Cancel("x")
		return err
	}))
	r.send("GO").is("a", "+a GO")
	equal(t, "N", r.step.Next.Context.N, 5)
	equal(t, "effects", text(t, r.step.Effects), `[{"id":"2.0","kind":"send","to":"other/1","event":{"n":1,"type":"HELLO"}},`+
		`{"id":"2.2","kind":"schedule","timer":"2.2","at":"2026-01-02T03:05:05Z"}]`)
	r.fire(r.timer("")).is("a", "later")
}

func TestEnqueueActionsMayFail(t *testing.T) {
	t.Parallel()
	for message, fn := range map[string]func(*trace, Event, statechart.Enqueue) error{
		"planned": func(*trace, Event, statechart.Enqueue) error { return errPlanned },
		`raising event: undeclared event type: "WHAT"`: func(_ *trace, _ Event, enqueue statechart.Enqueue) error {
			return enqueue.Raise("WHAT", nil)
		},
		`sending event "WHAT": undeclared event type: "WHAT"`: func(_ *trace, _ Event, enqueue statechart.Enqueue) error {
			return enqueue.SendAfter("", "WHAT", 0, nil)
		},
	} {
		r := begin(t, enqueuing(fn))
		r.refuses(Event{Type: "GO"}, nil, `chart c, state "a", event "GO": action all: `+message)
	}
}

func TestEnqueueActionsChecksItsPayloadType(t *testing.T) {
	t.Parallel()
	takes := statechart.EnqueueActions("takes", func(c *trace, e reminder, enqueue statechart.Enqueue) error {
		c.Log = append(c.Log, e.Text)
		return enqueue.Raise("NEXT", nil)
	})
	r := begin(t, Def{Initial: "a", Payloads: statechart.Payloads{"GO": statechart.PayloadOf[reminder]()}, States: []S{
		{ID: "a", On: []On{{Event: "GO", Actions: Do{takes}}, {Event: "NEXT", Actions: logs("next")}}}}})
	r.apply(Event{Type: "GO", Payload: reminder{"tea"}}).is("a", "+a tea next")
	r.refuses(Event{Type: "GO"}, nil, `chart c, state "a", event "GO": action takes: expected an event that carries statechart_test.reminder, got "GO" with <nil>`)
}
