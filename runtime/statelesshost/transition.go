package statelesshost

import (
	"context"
	"fmt"
	"slices"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/statechart"
)

// transitioned runs after each transition. It ends the timers of the states that were left, starts the timers of the
// states that were entered, and requests their answers. A transition that does not begin where the last transition
// ended has run during another transition. In that case, transitioned fails the step.
func (m *Machine[T]) transitioned(ctx context.Context, sm *stateless.StateMachine, s *step, t stateless.Transition) {
	if s.failure != nil {
		return
	}
	if s.moves++; s.moves > statechart.MicrostepsMax {
		panic(m.endless(s)) // the queue of a machine in FiringQueued mode cannot be stopped otherwise
	}
	s.failure = m.follow(ctx, sm, s, t)
}

func (m *Machine[T]) follow(ctx context.Context, sm *stateless.StateMachine, s *step, t stateless.Transition) error {
	source, listed := m.index[t.Source]
	if !listed {
		return m.unlisted(t.Source)
	}
	state, err := sm.State(ctx)
	if err != nil {
		return err
	}
	to, listed := m.index[state]
	if !listed {
		return m.unlisted(state)
	}
	// For PermitReentry of a superstate, the transition names only the superstate.
	reentered := t.IsReentry() && slices.Contains(m.states[s.at].path, source)
	if source != s.at && !reentered || !t.IsReentry() && state != t.Destination {
		return errNested
	}
	left, entered := m.states[s.at].path, m.states[to].path
	if reentered {
		left, entered = m.below(left, source), m.below(entered, source)
	} else {
		left, entered = without(left, m.states[to].path), without(entered, m.states[s.at].path)
	}
	return m.change(s, to, left, entered)
}

// change sets the state to the state with the index `to`. It ends the timers of the states in `left`, and enters the
// states in `entered`.
func (m *Machine[T]) change(s *step, to int, left, entered []int) error {
	s.drop(func(timer statechart.Timer) bool {
		return timer.Event == nil && slices.ContainsFunc(left, func(k int) bool { return m.states[k].Name == timer.State })
	})
	s.at = to
	for _, k := range entered {
		if err := m.enter(s, k); err != nil {
			return err
		}
	}
	return nil
}

// enter starts the timers of a state, and requests its answers.
func (m *Machine[T]) enter(s *step, k int) error {
	state := &m.states[k]
	for _, after := range state.After {
		if err := s.start(statechart.Timer{State: state.Name, After: after.ID}, after.Delay); err != nil {
			return err
		}
	}
	for _, r := range state.Resolve {
		effect, err := answer(r, *s.data.(*T), s.event).effect()
		if err == nil {
			err = s.effect(effect)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answer evaluates one entry of a state's Resolve.
func answer[T any](r statechart.Resolution[T], data T, event statechart.Event) Answer {
	a := Answer{Name: r.Name, Outcome: r.Outcome, Error: r.Error}
	if r.Output != nil {
		a.Output = r.Output(data, event)
	}
	if r.Cause != nil {
		a.Cause = r.Cause(data, event)
	}
	return a
}

// Resolving implements durable.Instance.
func (i *instance[T]) Resolving(name string, event statechart.Event) (effect statechart.Effect, ok bool, err error) {
	s := i.step(event)
	defer i.recovered(s, &err)
	for _, k := range i.machine.states[i.at].path {
		for _, r := range i.machine.states[k].Resolve {
			if r.Name != name {
				continue
			}
			s.firing.trigger = "resolve " + name
			effect, err := answer(r, i.machine.chart.CloneContext(i.data), event).effect()
			if err != nil {
				return statechart.Effect{}, false, i.failed(s, err)
			}
			effect.State, effect.Tags = i.State(), i.machine.states[i.at].tags
			return effect, true, nil
		}
	}
	return statechart.Effect{}, false, nil
}

// below returns the part of a path that begins at the given state.
func (m *Machine[T]) below(path []int, state int) []int {
	if k := slices.Index(path, state); k >= 0 {
		return path[k:]
	}
	return nil
}

// without returns the states of a path that are not in the path `other`.
func without(path, other []int) []int {
	k := 0
	for k < len(path) && slices.Contains(other, path[k]) {
		k++
	}
	return path[k:]
}

func (m *Machine[T]) unlisted(state stateless.State) error {
	return fmt.Errorf("the machine is in the state %v, which Config.States does not list: every state is stored and shown under its name", state)
}

func (m *Machine[T]) endless(s *step) error {
	return fmt.Errorf("%w: machine %s took more than %d transitions on event %q (MicrostepsMax); check what its actions fire",
		statechart.ErrEndless, m.config.ID, statechart.MicrostepsMax, s.event.Type)
}

// after returns the timer of a state with the ID.
func (m *Machine[T]) after(state, id string) (After, bool) {
	k, ok := m.byName[state]
	if !ok {
		return After{}, false
	}
	n := slices.IndexFunc(m.states[k].After, func(a After) bool { return a.ID == id })
	if n < 0 {
		return After{}, false
	}
	return m.states[k].After[n], true
}
