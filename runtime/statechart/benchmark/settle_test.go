package benchmark

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// Settle keeps the counts in the snapshot's context. Events are created before the measurement, because the runtime
// also decodes an event before it steps the chart.

type (
	definition = statechart.Definition[counts]
	state      = statechart.State[counts]
	transition = statechart.Transition[counts]
	do         = []statechart.Action[counts]
)

var settled = []string{statechart.Settled}

var (
	countExit   = statechart.Update("exit", func(c *counts) { c.Exits++ })
	countAction = statechart.Update("action", func(c *counts) { c.Actions++ })
	countEntry  = statechart.Update("entry", func(c *counts) { c.Entries++ })
	countBy     = statechart.Assign("action", func(c *counts, p added) { c.Actions += p.N })
)

// added is the payload of the event in the case "payload".
type added struct {
	N int `json:"n"`
}

func settleFlat() (subject, error) {
	return settleSubject(definition{
		Payloads: statechart.Payloads{"TOGGLE": statechart.NoPayload()},
		Initial:  "off",
		States: []state{
			{ID: "off", Tags: settled, On: []transition{{Event: "TOGGLE", Target: "on", Actions: do{countAction}}}},
			{ID: "on", Tags: settled, On: []transition{{Event: "TOGGLE", Target: "off", Actions: do{countAction}}}},
		},
	}, statechart.Event{Type: "TOGGLE"}, nil)
}

func settlePayload() (subject, error) {
	return settleSubject(definition{
		Payloads: statechart.Payloads{"ADD": statechart.PayloadOf[added]()},
		Initial:  "off",
		States: []state{
			{ID: "off", Tags: settled, On: []transition{{Event: "ADD", Target: "on", Actions: do{countBy}}}},
			{ID: "on", Tags: settled, On: []transition{{Event: "ADD", Target: "off", Actions: do{countBy}}}},
		},
	}, statechart.Event{Type: "ADD", Payload: added{N: 1}}, nil)
}

func nestedDefinition() definition {
	branch := func(name, target string) state {
		return state{ID: name + "1", Initial: name + "2", Entry: do{countEntry}, Exit: do{countExit}, States: []state{
			{ID: name + "2", Initial: name + "3", Entry: do{countEntry}, Exit: do{countExit}, States: []state{
				{ID: name + "3", Tags: settled, Entry: do{countEntry}, Exit: do{countExit},
					On: []transition{{Event: "GO", Target: target, Actions: do{countAction}}}},
			}},
		}}
	}
	return definition{
		Payloads: statechart.Payloads{"GO": statechart.NoPayload()},
		Initial:  "a1",
		States:   []state{branch("a", "#b1.b2.b3"), branch("b", "#a1.a2.a3")},
	}
}

func settleNested() (subject, error) {
	return settleSubject(nestedDefinition(), statechart.Event{Type: "GO"}, nil)
}

func settleGuards() (subject, error) {
	asked := new(int)
	ask := func(name string, answer bool) statechart.Guard[counts] {
		return statechart.When(name, func(counts, statechart.Event) bool { *asked++; return answer })
	}
	guarded := func(id string) state {
		s := state{ID: id, Tags: settled}
		for range guards - 1 {
			s.On = append(s.On, transition{Event: "GO", Target: "never", Guard: ask("no", false)})
		}
		s.On = append(s.On, transition{Event: "GO", Target: other(id, "off", "on"), Guard: ask("yes", true), Actions: do{countAction}})
		return s
	}
	return settleSubject(definition{
		Payloads: statechart.Payloads{"GO": statechart.NoPayload()},
		Initial:  "off",
		States:   []state{guarded("off"), guarded("on"), {ID: "never", Tags: settled}},
	}, statechart.Event{Type: "GO"}, asked)
}

func settleRegions() (subject, error) {
	def := definition{Payloads: statechart.Payloads{"TOGGLE": statechart.NoPayload()}, Parallel: true}
	for i := 1; i <= 3; i++ {
		off, on := fmt.Sprintf("off%d", i), fmt.Sprintf("on%d", i)
		def.States = append(def.States, state{ID: fmt.Sprintf("region%d", i), Initial: off, States: []state{
			{ID: off, Tags: settled, On: []transition{{Event: "TOGGLE", Target: on, Actions: do{countAction}}}},
			{ID: on, Tags: settled, On: []transition{{Event: "TOGGLE", Target: off, Actions: do{countAction}}}},
		}})
	}
	return settleSubject(def, statechart.Event{Type: "TOGGLE"}, nil)
}

func settleRing(r ring) (subject, error) {
	paths := map[string]string{}
	var index func(groups []group, prefix string)
	index = func(groups []group, prefix string) {
		for _, g := range groups {
			paths[g.id] = prefix + g.id
			index(g.children, prefix+g.id+".")
		}
	}
	index(r.tops, "")
	var states func([]group) []state
	states = func(groups []group) []state {
		var made []state
		for _, g := range groups {
			if len(g.children) > 0 {
				made = append(made, state{ID: g.id, Initial: g.children[0].id, States: states(g.children)})
				continue
			}
			made = append(made, state{ID: g.id, Tags: settled,
				On: []transition{{Event: "NEXT", Target: "#" + paths[r.next(g.id)], Actions: do{countAction}}}})
		}
		return made
	}
	return settleSubject(definition{
		Payloads: statechart.Payloads{"NEXT": statechart.NoPayload()},
		Initial:  r.tops[0].id, States: states(r.tops),
	}, statechart.Event{Type: "NEXT"}, nil)
}

func settleSubject(def definition, event statechart.Event, asked *int) (subject, error) {
	chart, started, err := start(def)
	if err != nil {
		return subject{}, err
	}
	stepper, kept := chart.Stepper(), started
	return subject{
		run: func(n int) error {
			for range n {
				if _, _, err := stepper.Step(&kept, &event); err != nil {
					return err
				}
			}
			return nil
		},
		seen: func() seen { return settleSeen(kept, asked) },
	}, nil
}

func settlePersist() (subject, error) {
	chart, started, err := start(nestedDefinition())
	if err != nil {
		return subject{}, err
	}
	stored, err := json.Marshal(started)
	if err != nil {
		return subject{}, err
	}
	stepper, event, kept := chart.Stepper(), statechart.Event{Type: "GO"}, started
	return subject{
		run: func(n int) error {
			for range n {
				restored, err := chart.Restore(stored)
				if err != nil {
					return err
				}
				if _, _, err := stepper.Step(&restored, &event); err != nil {
					return err
				}
				if stored, err = restored.AppendJSON(stored[:0]); err != nil {
					return err
				}
			}
			kept, err = chart.Restore(stored)
			return err
		},
		seen: func() seen { return settleSeen(kept, nil) },
	}, nil
}

func start(def definition) (*statechart.Chart[counts], statechart.Snapshot[counts], error) {
	def.ID, def.Version = "benchmark", 1
	chart, err := statechart.Compile(def)
	if err != nil {
		return nil, statechart.Snapshot[counts]{}, err
	}
	started, err := chart.Start(statechart.Start{Instance: "benchmark/1"})
	return chart, started.Next, err
}

func settleSeen(snapshot statechart.Snapshot[counts], asked *int) seen {
	s := seen{counts: snapshot.Context}
	for _, path := range snapshot.State() {
		s.State = append(s.State, path[strings.LastIndexByte(path, '.')+1:])
	}
	if asked != nil {
		s.Guards = *asked
	}
	s.State = sorted(s.State)
	return s
}
