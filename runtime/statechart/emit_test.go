package statechart_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

var logN = statechart.Log(func(c trace, e Event) string { return e.Type + " " + strings.Repeat("x", c.N) })

func emitting(payload any) statechart.Action[trace] {
	return statechart.Emit("MOVED", func(trace, Event) any { return payload })
}

func TestEmitAndLogAreEffectsInOrder(t *testing.T) {
	t.Parallel()
	all := func(_ *trace, _ Event, enqueue statechart.Enqueue) error {
		return errors.Join(enqueue.Log("from within"), enqueue.Emit("MOVED", nil))
	}
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{
		{Event: "GO", Actions: Do{add(2), logN, emitting(map[string]int{"n": 7})}},
		{Event: "ALL", Actions: Do{statechart.EnqueueActions("all", all)}},
	}}}})
	r.send("GO").is("a", "+a")
	equal(t, "effects", text(t, r.step.Effects), `[{"id":"2.0","kind":"log","message":"GO xx"},{"id":"2.1","kind":"emit","event":{"n":7,"type":"MOVED"}}]`)
	r.send("ALL")
	equal(t, "effects of Enqueue", text(t, r.step.Effects), `[{"id":"3.0","kind":"log","message":"from within"},{"id":"3.1","kind":"emit","event":{"type":"MOVED"}}]`)
	equal(t, "names", emitting(nil).Name+", "+logN.Name, "emit MOVED, log")
}

func TestEmitPayloadMustBeAnObject(t *testing.T) {
	t.Parallel()
	def := Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO", Actions: Do{emitting([]int{1})}}, {Event: "B", Target: "b"}}}, {ID: "b"}}}
	r := begin(t, def)
	r.refuses(Event{Type: "GO"}, nil, `chart c, state "a", event "GO": action emit MOVED: encoding the payload of event "MOVED": expected a type that marshals to a JSON object, got []int`)
	def.States[0].On = append(def.States[0].On, On{Event: statechart.ExecutionError, Target: "b"})
	begin(t, def).send("GO").is("b", "+a -a +b")
}

func TestEmitsAndLogsCountAsEffects(t *testing.T) {
	t.Parallel()
	many := func(_ *trace, _ Event, enqueue statechart.Enqueue) error {
		for range statechart.EffectsMax {
			if err := enqueue.Log("line"); err != nil {
				return err
			}
		}
		return nil
	}
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{
		{Event: "MANY", Actions: Do{statechart.EnqueueActions("many", many)}}, {Event: "MORE", Actions: Do{statechart.EnqueueActions("many", many), emitting(nil)}},
	}}}})
	equal(t, "effects", len(r.send("MANY").step.Effects), statechart.EffectsMax)
	r.refuses(Event{Type: "MORE"}, statechart.ErrLimit, `chart c, state "a", event "MORE": action emit MOVED: limit exceeded: more than 256 effects in one macrostep (EffectsMax)`)
}
