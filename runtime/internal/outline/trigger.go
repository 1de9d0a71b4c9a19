package outline

import (
	"cmp"
	"iter"
	"strconv"
	"strings"
)

// Kind is the kind of a Trigger.
type Kind int

// The kinds of triggers.
const (
	External  Kind = iota // an event from outside, or one that the chart raises
	Eventless             // statechart.State.Always
	Timer
	ServiceDone
	ServiceFailed
	ChildDone
	ChildFailed
	StateDone
)

// Glyph returns the mark of the kind in pictures and lists, or "" for External.
func (k Kind) Glyph() string {
	return [...]string{Eventless: "ε", Timer: "◷", ServiceDone: "✓", ServiceFailed: "✗", ChildDone: "✓", ChildFailed: "✗", StateDone: "✓"}[k]
}

// Trigger is the cause of a transition.
type Trigger struct {
	Kind Kind
	// Event is the event descriptor, as an instance's history shows it: "VERIFY", "after 5m0s" or "done.invoke.check".
	// It is empty for an eventless transition.
	Event string
	// Name is the event descriptor, or the name of the timer, service, child machine or state. It is empty for an eventless
	// transition.
	Name string
}

// timerPrefix is the prefix of a timer in the history.
const timerPrefix = "after "

// Matches reports whether the trigger matches an event of the history. An eventless trigger matches only "".
func (t Trigger) Matches(event string) bool {
	return t.Event == event || t.Event != "" && event != "" && !strings.HasPrefix(event, timerPrefix) && Matches(t.Event, event)
}

// executionError is statechart.ExecutionError.
const executionError = "error.execution"

// Matches reports whether an event descriptor matches the type of an event that is not a timer's. As in SCXML 3.12.1, a
// descriptor is "*", the type itself, or "a.b.*" for a.b and every type with the prefix "a.b.". "*" does not match
// statechart.ExecutionError.
func Matches(descriptor, typ string) bool {
	if descriptor == typ {
		return true
	}
	if descriptor == "*" {
		return typ != executionError
	}
	prefix, partial := strings.CutSuffix(descriptor, ".*")
	return partial && (typ == prefix || strings.HasPrefix(typ, prefix+"."))
}

// DefaultID returns the ID of an invocation or a child whose definition sets no ID. `position` is its position in the
// state's list. For the root, `path` is the chart's ID.
func DefaultID(path string, position int) string {
	if position > 0 {
		return path + ":" + strconv.Itoa(position)
	}
	return path
}

// Transitions yields the transitions of the state with their triggers. `path` is the path of the state, empty for the
// root.
func (s *State) Transitions(path string) iter.Seq2[Trigger, *Transition] {
	name := cmp.Or(path, s.ID)
	return func(yield func(Trigger, *Transition) bool) {
		each := func(kind Kind, event, name string, list []Transition) bool {
			for i := range list {
				if !yield(Trigger{kind, event, name}, &list[i]) {
					return false
				}
			}
			return true
		}
		for i := range s.On {
			if !yield(Trigger{External, s.On[i].Event, s.On[i].Event}, &s.On[i]) {
				return
			}
		}
		if !each(Eventless, "", "", s.Always) {
			return
		}
		for i := range s.After {
			id := cmp.Or(s.After[i].ID, s.After[i].Delay.String())
			if !yield(Trigger{Timer, timerPrefix + id, id}, &s.After[i].Transition) {
				return
			}
		}
		for i := range s.Invoke {
			v := &s.Invoke[i]
			id := cmp.Or(v.ID, DefaultID(name, i))
			if !each(ServiceDone, "done.invoke."+id, v.Service, v.OnDone) || !each(ServiceFailed, "error.invoke."+id, v.Service, v.OnError) {
				return
			}
		}
		for i := range s.Children {
			v := &s.Children[i]
			id := cmp.Or(v.ID, DefaultID(name, i))
			if !each(ChildDone, "done.child."+id, v.Machine, v.OnDone) || !each(ChildFailed, "error.child."+id, v.Machine, v.OnError) {
				return
			}
		}
		each(StateDone, "done.state."+name, s.ID, s.OnDone)
	}
}

// Text returns the guard's name. The names of And and Or are in parentheses, which Text leaves out.
func (g *Guard) Text() string {
	if g == nil {
		return ""
	}
	name := cmp.Or(g.Name, "guard")
	if g.By == And || g.By == Or {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "("), ")")
	}
	return name
}
