package console

import (
	"fmt"
	"slices"
	"strings"
)

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
