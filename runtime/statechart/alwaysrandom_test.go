package statechart_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/internal/foreign"
	"github.com/settle-run/settle/runtime/statechart"
)

// TestEndlessAlwaysOfRegionsIsFound compares the compiler with the interpreter on random charts with eventless
// transitions in nested regions. The event to.ID enters the state ID. If the compiler finds an endless macrostep, some
// event must lead to one. Without guards, the compiler must find an endless macrostep if some event leads to one.
func TestEndlessAlwaysOfRegionsIsFound(t *testing.T) {
	t.Parallel()
	first, charts, found := rand.Uint64(), 5000, [2]int{}
	if testing.Short() {
		charts = 500
	}
	for seed := first; seed < first+uint64(charts); seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		hasGuards := rng.IntN(2) == 0
		def := drawRegions(rng, hasGuards)
		_, err := statechart.Compile(def)
		isFound := err != nil && (strings.Contains(err.Error(), "cycle of unguarded Always") || strings.Contains(err.Error(), "never rests"))
		def.Foreign = &foreign.Document{} // the graph of a foreign chart is not checked
		chart, foreignErr := statechart.Compile(def)
		if foreignErr != nil {
			t.Fatalf("seed %d: %v", seed, foreignErr)
		}
		start, startErr := chart.Start(statechart.Start{At: epoch})
		if startErr != nil {
			t.Fatalf("seed %d: %v", seed, startErr)
		}
		endless := ""
		for typ := range def.Payloads {
			if _, err := chart.Step(start.Next, Event{Type: typ, At: epoch}); errors.Is(err, statechart.ErrEndless) {
				endless = typ
				break
			} else if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if isFound {
			found[map[bool]int{true: 1}[hasGuards]]++
		}
		if isFound && endless == "" || !isFound && endless != "" && !hasGuards {
			t.Errorf("seed %d: guards: %v, %q is endless in the interpreter, and the compiler says: %v\n%s", seed, hasGuards, endless, err, statesText(def.States, ""))
		}
	}
	if found[0] < charts/20 || found[1] < charts/20 {
		t.Errorf("seed %d: the compiler found only %d endless charts without guards and %d with guards, of %d charts", first, found[0], found[1], charts)
	}
}

// drawRegions draws states down to three levels. Their eventless transitions change the context, so a macrostep never
// ends merely because a microstep changes nothing.
func drawRegions(rng *rand.Rand, hasGuards bool) Def {
	var ids []string
	var draw func(depth int) S
	draw = func(depth int) S {
		s := S{ID: fmt.Sprintf("s%d", len(ids))}
		ids = append(ids, s.ID)
		if kind := rng.IntN(3); kind > 0 && depth < 3 {
			for range 2 {
				s.States = append(s.States, draw(depth+1))
			}
			if kind == 1 {
				s.Type = statechart.Parallel
			} else {
				s.Initial = s.States[0].ID
			}
		}
		return s
	}
	def := Def{ID: "c", Version: 1, Initial: "idle", Payloads: statechart.Payloads{}, States: []S{draw(0), draw(0), {ID: "idle", Tags: settled}}}
	var connect func(states []S)
	connect = func(states []S) {
		for i := range states {
			for rng.IntN(3) == 0 && len(states[i].Always) < 2 {
				always := On{Target: "#" + ids[rng.IntN(len(ids))], Reenter: rng.IntN(4) == 0, Actions: Do{add(1)}}
				if hasGuards && rng.IntN(2) == 0 {
					always.Guard = []statechart.Guard[trace]{yes, no}[rng.IntN(2)]
				}
				states[i].Always = append(states[i].Always, always)
			}
			connect(states[i].States)
		}
	}
	connect(def.States[:2])
	for _, id := range ids {
		def.Payloads["to."+id] = statechart.NoPayload()
		def.On = append(def.On, On{Event: "to." + id, Target: "#" + id})
	}
	return def
}

// statesText returns the states with their eventless transitions.
func statesText(states []S, indent string) string {
	var b strings.Builder
	for _, s := range states {
		fmt.Fprintf(&b, "%s%s type %d", indent, s.ID, s.Type)
		for _, always := range s.Always {
			fmt.Fprintf(&b, ", always %s guard %q reenter %v", always.Target, always.Guard.Name, always.Reenter)
		}
		b.WriteString("\n" + statesText(s.States, indent+"  "))
	}
	return b.String()
}
