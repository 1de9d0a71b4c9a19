package console

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// Transition is a stored transition, as logged by the runtime.
type Transition struct {
	// Instance is the name of the instance: "signup/42".
	Instance string
	// Event is the event's type, or the runtime's name for a timer or the end of a service.
	Event string
	// From and To are the paths of the active atomic states.
	From, To []string
	// Ignored is true if no active state had a transition for the event.
	Ignored bool
	// Revision is the revision of the commit.
	Revision int64
}

// TransitionOf parses a log record of durable.Loop. It returns false for records of other messages. Observer has no event
// for each transition: Applied covers a whole event, with the ends of its services.
func TransitionOf(record slog.Record) (Transition, bool) {
	values := map[string]any{}
	record.Attrs(func(attr slog.Attr) bool {
		values[attr.Key] = attr.Value.Resolve().Any()
		return true
	})
	var t Transition
	t.Instance, _ = values["instance"].(string)
	t.Event, _ = values["event"].(string)
	t.From, _ = values["from"].([]string)
	t.To, _ = values["to"].([]string)
	t.Ignored, _ = values["ignored"].(bool)
	t.Revision, _ = values["revision"].(int64)
	return t, record.Message == "transition" && t.Instance != ""
}

// Change describes the change of states in a few words.
func (t Transition) Change(style Style) string { return Change(style, t.From, t.To, t.Ignored) }

// EventName shortens the end of a service, done.invoke.ID, if the state with that ID was left. The states are shown
// next to it.
func EventName(event string, from []string) string {
	for _, prefix := range []string{"done.invoke", "error.invoke"} {
		if id, ok := strings.CutPrefix(event, prefix+"."); ok && slices.Contains(from, id) {
			return prefix
		}
	}
	return event
}

// Change describes the change of the active states in a few words.
func Change(style Style, from, to []string, ignored bool) string {
	states := style.State(Escape(strings.Join(to, ", ")))
	switch {
	case ignored:
		return style.Warning("ignored") + " in " + states
	case slices.Equal(from, to):
		return "stays in " + states
	case len(from) == 0:
		return "starts in " + states
	default:
		return fmt.Sprintf("%s → %s", Escape(strings.Join(from, ", ")), states)
	}
}

// BriefChange is Change without redundant parts: unchanged parallel states, and the common parent of siblings.
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
