package statechart

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Rewrite returns a change that does what no other one does, under a name for errors. The function must
// depend on nothing but what it is given.
func Rewrite(name string, fn func(*Stored) error) Change { return Change{Name: name, run: fn} }

// MigrateContext returns a change that makes the context anew from the old one. Old is a type that the old
// version's context decodes into, such as the old context type itself; the New of the last one is the chart's.
func MigrateContext[Old, New any](fn func(old Old) New) Change {
	change := Change{Name: "migrate the context", gives: reflect.TypeFor[New]()}
	if fn == nil {
		return change
	}
	change.run = func(s *Stored) error {
		var old Old
		if err := ReadJSON(s.Context, &old); err != nil {
			return fmt.Errorf("the old context: %w", err)
		}
		migrated := fn(old)
		context, err := json.Marshal(&migrated) // The pointer lets methods of *New write it too.
		if err != nil {
			return fmt.Errorf("the new context: %w", err)
		}
		s.Context = context
		return nil
	}
	return change
}

// RenameState returns a change for a state that has another ID now, or lies elsewhere: the states below it,
// its history, timers, services and children come along. A service or child whose ID is the path of its
// state, as it is without an ID of its own, gets the new path for one.
func RenameState(from, to string) Change {
	change := Change{Name: fmt.Sprintf("rename state %q to %q", from, to), problem: pathsProblem(from, to)}
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

// MoveState returns a change for a state that is gone, or is not atomic any more: instances that are in it or
// below it are in the state to, which may lie below it. What states that are not active any more had started is
// dropped, those above from included. What a history state has recorded is moved too if to lies beside it or below its
// siblings, and else forgotten.
func MoveState(from, to string) Change {
	change := Change{Name: fmt.Sprintf("move from state %q to %q", from, to), problem: pathsProblem(from, to)}
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

// ForgetHistory returns a change that lets a history state stand for its default again.
func ForgetHistory(path string) Change {
	return Change{Name: fmt.Sprintf("forget history %q", path), run: func(s *Stored) error {
		delete(s.History, path)
		return nil
	}}
}

// RenameTimer returns a change for a timer that has another ID now: the ID of an After, or its delay as text.
func RenameTimer(state, from, to string) Change {
	return Change{Name: fmt.Sprintf("rename timer %q of state %q to %q", from, state, to), run: func(s *Stored) error {
		each(s.Timers, func(t *Timer) {
			if t.Event == nil && t.State == state && t.After == from {
				t.After = to
			}
		})
		return nil
	}}
}

// DropTimer returns a change for a timer that is gone.
func DropTimer(state, after string) Change {
	return Change{Name: fmt.Sprintf("drop timer %q of state %q", after, state), run: func(s *Stored) error {
		s.Timers = slices.DeleteFunc(s.Timers, func(t Timer) bool { return t.Event == nil && t.State == state && t.After == after })
		return nil
	}}
}

// RenameService returns a change for a service that a state invokes under another ID now. It keeps its key and
// its attempts.
func RenameService(state, from, to string) Change {
	return Change{Name: fmt.Sprintf("rename service %q of state %q to %q", from, state, to), run: func(s *Stored) error {
		each(s.Services, func(i *Invocation) {
			if i.State == state && i.ID == from {
				i.ID = to
			}
		})
		return nil
	}}
}

// RenameChild returns a change for a child instance that has another ID now. It keeps its name, which does not
// depend on that.
func RenameChild(from, to string) Change {
	return Change{Name: fmt.Sprintf("rename child %q to %q", from, to), run: func(s *Stored) error {
		each(s.Children, func(r *ChildRef) {
			if r.ID == from {
				r.ID = to
			}
		})
		return nil
	}}
}

// RenameEvent returns a change for an event type that is called otherwise now: of events that are deferred, and
// of those that SendAfter has sent. Those that are in the queue keep the type that they were sent with.
func RenameEvent(from, to string) Change {
	return Change{Name: fmt.Sprintf("rename event %q to %q", from, to), run: func(s *Stored) error {
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

// retyped returns the JSON form of an event under another type.
func retyped(event json.RawMessage, typ string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	err := ReadJSON(event, &fields)
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

// within reports whether a path is that of the state or of one below it, and returns what follows the
// state's.
func within(path, state string) (rest string, ok bool) {
	if state == "" {
		return path, true
	}
	rest, ok = strings.CutPrefix(path, state)
	return rest, ok && (rest == "" || rest[0] == '.')
}

// moved returns the paths with one to in the place of those within from.
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

// renamedID returns the ID that a service or child of a state has once the state is renamed: another only if it
// is the one that it has for want of its own; see Chart.defaultID.
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

// pathsProblem says what is wrong with the paths of two states.
func pathsProblem(from, to string) string {
	for _, path := range []string{from, to} {
		if path == "" || slices.Contains(strings.Split(path, "."), "") {
			return fmt.Sprintf("%q is no path of a state", path)
		}
	}
	if from == to {
		return "these are the same"
	}
	return ""
}
