package chartsvg

import (
	"cmp"
	"strings"

	"github.com/settle-run/settle/runtime/internal/outline"
)

// targeted is a transition with its targets.
type targeted struct {
	transition
	Targets []string
}

// transitionsOf returns the transitions of a state in document order.
func transitionsOf(s *outline.State, path string) []targeted {
	var all []targeted
	for trigger, t := range s.Transitions(path) {
		out := transition{trigger: trigger, guard: t.Guard.Text(), doc: t.Doc, turn: len(all)}
		out.cause, out.text = describe(trigger)
		out.actions = actionNames(t.Actions)
		out.rows = out.layRows(joinCells)
		all = append(all, targeted{out, t.Targets})
	}
	return all
}

// arrowTo returns the transition for the arrow to one of its targets. The label names the other targets.
func (t *targeted) arrowTo(target string) transition {
	arrow := t.transition
	for _, path := range t.Targets {
		if path != target {
			arrow.others = append(arrow.others, cmp.Or(path[strings.LastIndexByte(path, '.')+1:], "the chart"))
		}
	}
	if arrow.others != nil {
		arrow.rows = arrow.layRows(joinCells)
	}
	return arrow
}

func actionNames(actions []outline.Action) string {
	var names []string
	for i := range actions {
		names = append(names, cmp.Or(actions[i].Name, "action"))
	}
	return strings.Join(names, ", ")
}

// describe returns the trigger in words, and its part of a label.
func describe(t outline.Trigger) (cause string, label run) {
	name := t.Name
	switch t.Kind {
	case outline.External:
		return name, run{name, "event"}
	case outline.Eventless:
		cause, name, label.class = "always", "always", "event"
	case outline.Timer:
		cause, label.class = t.Event, "after"
	case outline.ServiceDone, outline.ChildDone:
		cause, label.class = name+" is done", "done"
	case outline.ServiceFailed, outline.ChildFailed:
		cause, label.class = name+" fails", "error"
	case outline.StateDone:
		cause, name, label.class = "the state is done", "done", "done"
	}
	label.text = t.Kind.Glyph() + " " + name
	return cause, label
}

// layRows returns the event with its guard: in one line of at most cellsMax cells, or else in lines below each other.
// The other targets follow below.
func (t *transition) layRows(cellsMax int) []line {
	rows := []line{{t.text}}
	switch guard := "[" + t.guard + "]"; {
	case t.guard == "":
	case cells(t.text.text)+1+cells(guard) <= cellsMax:
		rows[0] = append(rows[0], run{" " + guard, "guard"})
	default:
		rows = append(rows, wrap(guard, "guard")...)
	}
	if len(t.others) > 0 {
		rows = append(rows, wrap("and → "+strings.Join(t.others, ", "), "muted")...)
	}
	return rows
}

// precedes reports whether a transition of the edge is evaluated before the other edge's first one on the same event.
func (e *edge) precedes(other *edge) bool {
	if e.from != other.from || e == other {
		return false
	}
	for i := range e.transitions {
		for k := range other.transitions {
			if e.transitions[i].trigger == other.transitions[k].trigger {
				return e.transitions[i].turn < other.transitions[k].turn
			}
		}
	}
	return false
}

// sentence describes a transition in words, for users of screen readers.
func (t *transition) sentence() string {
	text := t.cause
	if t.guard != "" {
		text += " [" + t.guard + "]"
	}
	if t.actions != "" {
		text += " / " + t.actions
	}
	if t.doc != "" {
		text += ": " + t.doc
	}
	return text
}
