package console

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// transitionMessage is the message of the records that durable.Loop logs, one a transition.
const transitionMessage = "transition"

// Transition is what the runtime logs once a transition is stored.
type Transition struct {
	Time time.Time
	// Instance is the name of the instance: "signup/42".
	Instance string
	// Event is the event's type, or the runtime's name for a timer or the end of a service.
	Event string
	// From and To are the paths of the active atomic states.
	From, To []string
	// Ignored says that no active state had a transition for the event.
	Ignored bool
	// Revision is that of the commit.
	Revision int64
}

// TransitionOf reads a record of the runtime's log. Other records give false.
func TransitionOf(record slog.Record) (Transition, bool) {
	if record.Message != transitionMessage {
		return Transition{}, false
	}
	t := Transition{Time: record.Time}
	record.Attrs(func(attr slog.Attr) bool {
		switch value := attr.Value.Resolve().Any().(type) {
		case string:
			switch attr.Key {
			case "instance":
				t.Instance = value
			case "event":
				t.Event = value
			}
		case []string:
			switch attr.Key {
			case "from":
				t.From = value
			case "to":
				t.To = value
			}
		case bool:
			t.Ignored = value
		case int64:
			t.Revision = value
		}
		return true
	})
	return t, t.Instance != ""
}

// Change says in a few words what the transition did to the states.
func (t Transition) Change(style Style) string { return Change(style, t.From, t.To, t.Ignored) }

// EventName shortens the name of a service's end, done.invoke.ID, where the state left has the
// same ID: the states are shown beside it.
func EventName(event string, from []string) string {
	for _, prefix := range []string{"done.invoke", "error.invoke"} {
		if id, ok := strings.CutPrefix(event, prefix+"."); ok && slices.Contains(from, id) {
			return prefix
		}
	}
	return event
}

// Change says in a few words what a transition did to the active states.
func Change(style Style, from, to []string, ignored bool) string {
	states := style.State(Escape(strings.Join(to, ", ")))
	switch {
	case ignored:
		return style.Warning("ignored") + " in " + states
	case slices.Equal(from, to):
		return "stays in " + states
	default:
		return fmt.Sprintf("%s → %s", Escape(strings.Join(from, ", ")), states)
	}
}

// BriefChange is Change without what the reader knows already: parallel states that stay as they are, and the
// parent of a state that takes the place of its sibling.
func BriefChange(style Style, from, to []string, ignored bool) string {
	if ignored || slices.Equal(from, to) {
		return Change(style, from, to, ignored)
	}
	left, entered := without(from, to), without(to, from)
	if len(left) == 0 || len(entered) == 0 {
		return Change(style, from, to, ignored)
	}
	if len(left) != len(entered) {
		return Change(style, left, entered, ignored)
	}
	var changes []string
	for i, path := range left {
		sibling, ok := strings.CutPrefix(entered[i], path[:strings.LastIndexByte(path, '.')+1])
		if !ok || strings.Contains(sibling, ".") {
			return Change(style, left, entered, ignored)
		}
		changes = append(changes, Escape(path)+" → "+style.State(Escape(sibling)))
	}
	return strings.Join(changes, ", ")
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}
