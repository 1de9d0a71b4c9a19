package chartsvg

import (
	"cmp"
	"strconv"
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
	add := func(t *outline.Transition, event, cause, glyph, text, class string) {
		out := transition{event: event, cause: cause, text: run{text, class}, doc: t.Doc}
		if glyph != "" {
			out.text.text = glyph + " " + text
		}
		if t.Guard != nil {
			out.guard = guardText(t.Guard)
		}
		var actions []string
		for i := range t.Actions {
			actions = append(actions, cmp.Or(t.Actions[i].Name, "action"))
		}
		out.actions = strings.Join(actions, ", ")
		out.rows = out.layRows(joinCells)
		all = append(all, targeted{out, t.Targets})
	}
	for i := range s.On {
		add(&s.On[i], s.On[i].Event, s.On[i].Event, "", s.On[i].Event, "event")
	}
	for i := range s.Always {
		add(&s.Always[i], "", "always", "ε", "always", "event")
	}
	for i := range s.After {
		id := cmp.Or(s.After[i].ID, s.After[i].Delay.String())
		add(&s.After[i].Transition, "after "+id, "after "+id, "◷", id, "after")
	}
	ends := func(prefix, id, name string, done, failed []outline.Transition) {
		for i := range done {
			add(&done[i], "done."+prefix+id, name+" is done", "✓", name, "done")
		}
		for i := range failed {
			add(&failed[i], "error."+prefix+id, name+" fails", "✗", name, "error")
		}
	}
	for i := range s.Invoke {
		id := cmp.Or(s.Invoke[i].ID, defaultID(path, i))
		ends("invoke.", id, cmp.Or(s.Invoke[i].Service, id), s.Invoke[i].OnDone, s.Invoke[i].OnError)
	}
	for i := range s.Children {
		id := cmp.Or(s.Children[i].ID, defaultID(path, i))
		ends("child.", id, cmp.Or(s.Children[i].Machine, id), s.Children[i].OnDone, s.Children[i].OnError)
	}
	for i := range s.OnDone {
		add(&s.OnDone[i], "done.state."+path, "the state is done", "✓", "done", "done")
	}
	return all
}

// defaultID returns the ID of the invocation without an ID at a position of a state's list.
func defaultID(path string, position int) string {
	if position > 0 {
		return path + ":" + strconv.Itoa(position)
	}
	return path
}

// layRows returns the event with its guard: in one line of at most the given cells, or else below each other.
func (t *transition) layRows(cellsMax int) []line {
	switch guard := "[" + t.guard + "]"; {
	case t.guard == "":
		return []line{{t.text}}
	case cells(t.text.text)+1+cells(guard) <= cellsMax:
		return []line{{t.text, {" " + guard, "guard"}}}
	default:
		return append([]line{{t.text}}, wrap(guard, "guard")...)
	}
}

// guardText returns the name of a guard. The brackets of the label replace the parentheses of And and Or.
func guardText(g *outline.Guard) string {
	name := cmp.Or(g.Name, "guard")
	if g.By == outline.And || g.By == outline.Or {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "("), ")")
	}
	return name
}

// sentence describes a transition in words, for people who hear the drawing.
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
