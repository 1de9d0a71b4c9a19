package statechart_test

import (
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestDbg(t *testing.T) {
	def := Def{Initial: "s0", States: []S{
		{ID: "s0", Type: statechart.Parallel, On: []On{{Event: "G", Target: "#s5 #s6", Reenter: true}}, States: []S{
			{ID: "s1", Initial: "s2", States: []S{
				{ID: "s2"},
				{ID: "s3", Type: 4, Target: "s2"},
				{ID: "s4", Type: 1, States: []S{{ID: "s5"}, {ID: "s6"}}},
			}},
			{ID: "s7", Type: 4, Target: "s1"},
			{ID: "s8", Type: 1, States: []S{{ID: "s9"}, {ID: "s10"}}},
		}},
		{ID: "s13"},
	}, On: []On{}}
	for _, id := range []string{"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s13"} {
		def.On = append(def.On, On{Event: "to." + id, Target: "#" + id})
	}
	for _, e := range def.On {
		r := begin(t, def)
		r.send(e.Event)
		t.Log(e.Event, states(r), r.step.Next.Context.Log)
	}
	r := begin(t, def)
	r.send("G")
	t.Log(states(r), r.step.Next.Context.Log)
}
