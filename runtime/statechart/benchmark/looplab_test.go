package benchmark

import (
	"context"
	"fmt"

	"github.com/looplab/fsm"
)

// looplab/fsm has flat states only, no context and no guards. Its callbacks belong to an event or to a state, not to a
// transition. The callback of the event serves as the action here and counts in a variable.

func looplabFlat() (subject, error) {
	c := new(counts)
	count := func(context.Context, *fsm.Event) { c.Actions++ }
	return looplabSubject(fsm.NewFSM("off", fsm.Events{
		{Name: "TOGGLE", Src: []string{"off"}, Dst: "on"},
		{Name: "TOGGLE", Src: []string{"on"}, Dst: "off"},
	}, fsm.Callbacks{"after_TOGGLE": count}), "TOGGLE", c), nil
}

func looplabPayload() (subject, error) {
	c := new(counts)
	add := func(_ context.Context, e *fsm.Event) { c.Actions += e.Args[0].(added).N }
	return looplabSubject(fsm.NewFSM("off", fsm.Events{
		{Name: "ADD", Src: []string{"off"}, Dst: "on"},
		{Name: "ADD", Src: []string{"on"}, Dst: "off"},
	}, fsm.Callbacks{"after_ADD": add}), "ADD", c, added{N: 1}), nil
}

func looplabRing(r ring) (subject, error) {
	c := new(counts)
	var events fsm.Events
	for _, g := range r.tops {
		if len(g.children) > 0 {
			return subject{}, fmt.Errorf("looplab/fsm has no hierarchy: state %s has children", g.id)
		}
		events = append(events, fsm.EventDesc{Name: "NEXT", Src: []string{g.id}, Dst: r.next(g.id)})
	}
	count := func(context.Context, *fsm.Event) { c.Actions++ }
	return looplabSubject(fsm.NewFSM(r.leaf(0), events, fsm.Callbacks{"after_NEXT": count}), "NEXT", c), nil
}

func looplabSubject(m *fsm.FSM, event string, c *counts, args ...any) subject {
	ctx := context.Background()
	return subject{
		run: func(n int) error {
			for range n {
				if err := m.Event(ctx, event, args...); err != nil {
					return err
				}
			}
			return nil
		},
		seen: func() seen { return seen{counts: *c, State: []string{m.Current()}} },
	}
}
