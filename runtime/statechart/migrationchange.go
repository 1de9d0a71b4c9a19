package statechart

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/internal/readjson"
)

// Rewrite returns a custom change. fn must depend only on its argument.
func Rewrite(name string, fn func(*Stored) error) Change { return Change{name: name, run: fn} }

// MigrateContext returns a change that converts the context. Old must have all keys of the old version's context. In a
// chart's last MigrateContext, New must be the chart's context type.
func MigrateContext[Old, New any](fn func(old Old) New) Change {
	change := Change{name: "migrate the context", gives: reflect.TypeFor[New]()}
	if fn == nil {
		return change
	}
	keys := readjson.KeysOf(reflect.TypeFor[Old]())
	change.run = func(s *Stored) error {
		var old Old
		if err := readjson.Unmarshal(s.Context, &old); err != nil {
			return fmt.Errorf("the old context: %w", err)
		}
		if err := keys.Check(s.Context); err != nil {
			return fmt.Errorf("the old context: %w: declare it in %v, or deploy the build that stores it", err, reflect.TypeFor[Old]())
		}
		migrated := fn(old)
		context, err := json.Marshal(&migrated) // With the pointer, Marshal also uses methods of *New.
		if err != nil {
			return fmt.Errorf("the new context: %w", err)
		}
		s.Context = context
		return nil
	}
	return change
}

// RenameState returns a change for a state that has a new ID or parent. Its descendants, history, timers, services and
// children move with it. A service or child with a default ID is renamed too.
func RenameState(from, to string) Change {
	change := Change{name: fmt.Sprintf("rename state %q to %q", from, to), problem: pathsProblem(from, to)}
	rename := func(path string) string {
		if rest, ok := within(path, from); ok {
			return to + rest
		}
		return path
	}
	change.run = func(s *Stored) error {
		here := func(path string) bool { _, ok := within(path, from); return ok }
		taken := func(path string) bool { _, ok := within(path, to); return ok && !here(path) }
		if slices.ContainsFunc(s.State, here) && slices.ContainsFunc(s.State, taken) {
			return fmt.Errorf("expected no active state %q, got %q", to, s.State)
		}
		each(s.State, func(path *string) { *path = rename(*path) })
		var ok bool
		if s.History, ok = renamedKeys(s.History, rename); !ok {
			return fmt.Errorf("two history states would share one path below %q", to)
		}
		for _, recorded := range s.History {
			each(recorded, func(path *string) { *path = rename(*path) })
		}
		each(s.Timers, func(t *Timer) { t.State = rename(t.State) })
		each(s.Services, func(i *Invocation) { i.ID, i.State = renamedID(i.ID, i.State, rename(i.State)), rename(i.State) })
		each(s.Children, func(r *ChildRef) { r.ID, r.State = renamedID(r.ID, r.State, rename(r.State)), rename(r.State) })
		return nil
	}
	return change
}

// MoveState returns a change for a state that was removed, or that is no longer atomic. Instances in or below the state
// `from` move to the state `to`, which may be a descendant. Timers, services and children of states that are no longer
// active are dropped. A history state's record moves too if `to` is at or below a sibling. Otherwise it is dropped.
func MoveState(from, to string) Change {
	change := Change{name: fmt.Sprintf("move from state %q to %q", from, to), problem: pathsProblem(from, to)}
	change.run = func(s *Stored) error {
		before := s.State
		s.State = moved(s.State, from, to)
		left := func(state string) bool {
			active := func(leaf string) bool { _, ok := within(leaf, state); return ok }
			return slices.ContainsFunc(before, active) && !slices.ContainsFunc(s.State, active)
		}
		s.Timers = slices.DeleteFunc(s.Timers, func(t Timer) bool { return left(t.State) })
		s.Services = slices.DeleteFunc(s.Services, func(i Invocation) bool { return left(i.State) })
		s.Children = slices.DeleteFunc(s.Children, func(r ChildRef) bool { return left(r.State) })
		_, isBelow := within(to, from)
		for _, path := range sortedKeys(s.History) {
			parent := path[:max(strings.LastIndexByte(path, '.'), 0)]
			recorded := moved(s.History[path], from, to)
			_, gone := within(path, from)
			_, beside := within(to, parent)
			if gone && !isBelow || !beside && !slices.Equal(recorded, s.History[path]) {
				delete(s.History, path)
				continue
			}
			s.History[path] = recorded
		}
		return nil
	}
	return change
}

// ForgetHistory returns a change that resets a history state to its default.
func ForgetHistory(path string) Change {
	return Change{name: fmt.Sprintf("forget history %q", path), run: func(s *Stored) error {
		delete(s.History, path)
		return nil
	}}
}

// RenameTimer returns a change for a renamed timer. A timer's name is the ID of its After, or else the delay as text.
func RenameTimer(state, from, to string) Change {
	return Change{name: fmt.Sprintf("rename timer %q of state %q to %q", from, state, to), run: func(s *Stored) error {
		each(s.Timers, func(t *Timer) {
			if t.Event == nil && t.State == state && t.After == from {
				t.After = to
			}
		})
		return nil
	}}
}

// DropTimer returns a change for a removed timer.
func DropTimer(state, after string) Change {
	return Change{name: fmt.Sprintf("drop timer %q of state %q", after, state), run: func(s *Stored) error {
		s.Timers = slices.DeleteFunc(s.Timers, func(t Timer) bool { return t.Event == nil && t.State == state && t.After == after })
		return nil
	}}
}

// RenameService returns a change for a new invocation ID. The invocation keeps its key and attempts.
func RenameService(state, from, to string) Change {
	return Change{name: fmt.Sprintf("rename service %q of state %q to %q", from, state, to), run: func(s *Stored) error {
		each(s.Services, func(i *Invocation) {
			if i.State == state && i.ID == from {
				i.ID = to
			}
		})
		return nil
	}}
}

// ReplaceService returns a change for a state that invokes another service under the same ID. A running invocation
// becomes that service and keeps its key, which third parties may know. Its attempts count from zero.
func ReplaceService(state, id, service string) Change {
	return Change{name: fmt.Sprintf("replace service %q of state %q by %q", id, state, service), run: func(s *Stored) error {
		each(s.Services, func(i *Invocation) {
			if i.State == state && i.ID == id {
				i.Service, i.Attempt, i.RetryAt = service, 0, time.Time{}
			}
		})
		return nil
	}}
}

// RenameChild returns a change for a child's new ID. The child keeps its name.
func RenameChild(from, to string) Change {
	return Change{name: fmt.Sprintf("rename child %q to %q", from, to), run: func(s *Stored) error {
		each(s.Children, func(r *ChildRef) {
			if r.ID == from {
				r.ID = to
			}
		})
		return nil
	}}
}

// RenameEvent returns a change that renames an event type in deferred events and in pending SendAfter events. Queued
// events keep their type.
func RenameEvent(from, to string) Change {
	return Change{name: fmt.Sprintf("rename event %q to %q", from, to), run: func(s *Stored) error {
		var failures []error
		rename := func(event *json.RawMessage, typ *string) {
			if *event == nil || *typ != from {
				return
			}
			renamed, err := retyped(*event, to)
			failures = append(failures, err)
			*event, *typ = renamed, to
		}
		each(s.Deferred, func(d *Deferred) { rename(&d.Event, &d.Type) })
		each(s.Timers, func(t *Timer) { rename(&t.Event, &t.After) })
		return errors.Join(failures...)
	}}
}

// retyped returns the JSON form of an event with another type.
func retyped(event json.RawMessage, typ string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	err := readjson.Unmarshal(event, &fields)
	if err == nil {
		fields["type"], err = json.Marshal(typ)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

func each[E any](s []E, do func(*E)) {
	for i := range s {
		do(&s[i])
	}
}

// within reports whether a path names the state or a descendant, and returns the rest of the path.
func within(path, state string) (rest string, ok bool) {
	if state == "" {
		return path, true
	}
	rest, ok = strings.CutPrefix(path, state)
	return rest, ok && (rest == "" || rest[0] == '.')
}

// moved returns the paths, with the single path `to` in place of all paths at or below `from`.
func moved(paths []string, from, to string) []string {
	var out []string
	for _, path := range paths {
		if _, ok := within(path, from); ok {
			path = to
		}
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

// renamedID returns the ID of a service or child after its state is renamed. Only a default ID changes: see
// Chart.defaultID.
func renamedID(id, from, to string) string {
	rest, ok := strings.CutPrefix(id, from)
	if !ok || from == to || from == "" {
		return id
	}
	if number, isNumbered := strings.CutPrefix(rest, ":"); isNumbered {
		_, err := strconv.Atoi(number)
		ok = err == nil
	} else {
		ok = rest == ""
	}
	if !ok {
		return id
	}
	return to + rest
}

// pathsProblem describes an error in the paths of two states, or returns "".
func pathsProblem(from, to string) string {
	for _, path := range []string{from, to} {
		if path == "" || slices.Contains(strings.Split(path, "."), "") {
			return fmt.Sprintf("%q is not a state path", path)
		}
	}
	if from == to {
		return "both paths are equal"
	}
	return ""
}
