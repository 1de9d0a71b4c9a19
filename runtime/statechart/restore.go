package statechart

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrUnreadable is returned by Restore when the stored snapshot does not fit this chart: it
// is another machine's or version's, names states that are gone, or has a context that does
// not decode.
var ErrUnreadable = errors.New("unreadable snapshot")

// Restore reads a snapshot from its JSON form. Deadlines stay as they were stored; nothing is
// entered or started. All errors wrap ErrUnreadable.
func (c *Chart[C]) Restore(data []byte) (Snapshot[C], error) {
	var form snapshotJSON
	if err := json.Unmarshal(data, &form); err != nil {
		return Snapshot[C]{}, c.unreadable("%w", err)
	}
	if form.Machine != c.id || form.Version != c.version {
		return Snapshot[C]{}, c.unreadable("expected version %d of machine %q, got version %d of %q", c.version, c.id, form.Version, form.Machine)
	}
	if form.Status != Active && form.Status != Done {
		return Snapshot[C]{}, c.unreadable("expected the status %q or %q, got %q", Active, Done, form.Status)
	}
	if form.Steps < 0 {
		return Snapshot[C]{}, c.unreadable("expected a count of steps, got %d", form.Steps)
	}
	s := Snapshot[C]{chart: c, Status: form.Status, Steps: form.Steps, Output: form.Output, configuration: newStateSet(len(c.nodes))}
	if err := json.Unmarshal(form.Context, &s.Context); err != nil {
		return Snapshot[C]{}, c.unreadable("context: %w", err)
	}
	if err := c.restoreValue(form.Value, 0, s.configuration); err != nil {
		return Snapshot[C]{}, err
	}
	for _, restore := range []func(*snapshotJSON, *Snapshot[C]) error{c.restoreHistory, c.restoreTimers, c.restoreServices} {
		if err := restore(&form, &s); err != nil {
			return Snapshot[C]{}, err
		}
	}
	return s, nil
}

func (c *Chart[C]) unreadable(format string, args ...any) error {
	return fmt.Errorf("%w of chart %s: %w", ErrUnreadable, c.id, fmt.Errorf(format, args...))
}

// restoreValue marks as active the given state and what the value says below it. A value must
// name a legal configuration: one child of each active compound state, all of a parallel one.
func (c *Chart[C]) restoreValue(value json.RawMessage, state int, into stateSet) error {
	n := &c.nodes[state]
	into.add(state)
	children, err := valueChildren(value)
	if err != nil {
		return c.unreadable("the value of state %q: expected a string or an object, got %s", n.path, excerpt(value))
	}
	regions := 0
	for _, child := range n.children {
		if c.nodes[child].kind != history {
			regions++
		}
	}
	want := map[kind]int{compound: 1, parallel: regions}[n.kind]
	if len(children) != want {
		return c.unreadable("state %q: expected %d active children, got %d", n.path, want, len(children))
	}
	for _, id := range sortedKeys(children) {
		path := id
		if n.path != "" {
			path = n.path + "." + id
		}
		child, ok := c.byPath[path]
		if !ok || child == 0 || c.nodes[child].kind == history {
			return c.unreadable("this version has no state %q; bring a migration or host the old version too", path)
		}
		if err := c.restoreValue(children[id], child, into); err != nil {
			return err
		}
	}
	return nil
}

// valueChildren reads one level of a value: {"a": ...}, or "a" for {"a": {}}.
func valueChildren(value json.RawMessage) (map[string]json.RawMessage, error) {
	if bytes.HasPrefix(value, []byte{'"'}) {
		var id string
		err := json.Unmarshal(value, &id)
		return map[string]json.RawMessage{id: json.RawMessage("{}")}, err
	}
	var children map[string]json.RawMessage
	err := json.Unmarshal(value, &children)
	return children, err
}

func (c *Chart[C]) restoreHistory(form *snapshotJSON, s *Snapshot[C]) error {
	for _, path := range sortedKeys(form.HistoryValue) {
		h, ok := c.byPath[path]
		if !ok || c.nodes[h].kind != history {
			return c.unreadable("this version has no history state %q", path)
		}
		recorded := newStateSet(len(c.nodes))
		for _, active := range form.HistoryValue[path] {
			i, ok := c.byPath[active]
			if !ok || !c.isDescendant(i, c.nodes[h].parent) || c.nodes[i].kind == history {
				return c.unreadable("history %q records %q, which is no state beside it in this version", path, active)
			}
			recorded.add(i)
		}
		if s.history == nil {
			s.history = map[int]stateSet{}
		}
		s.history[h] = recorded
	}
	return nil
}

func (c *Chart[C]) restoreTimers(form *snapshotJSON, s *Snapshot[C]) error {
	for _, id := range sortedIDs(form.Timers) {
		stored := form.Timers[id]
		state, ok := c.byPath[stored.State]
		index := -1
		if ok {
			index = slices.IndexFunc(c.nodes[state].timers, func(d delay[C]) bool { return d.id == stored.After })
		}
		if index < 0 || !s.configuration.has(state) {
			return c.unreadable("timer %s belongs to %q after %q, which is no timer of an active state of this version", id, stored.State, stored.After)
		}
		s.Timers = append(s.Timers, Timer{ID: id, State: stored.State, After: stored.After, At: stored.At, state: state, index: index})
	}
	return nil
}

func (c *Chart[C]) restoreServices(form *snapshotJSON, s *Snapshot[C]) error {
	for _, key := range sortedIDs(form.Services) {
		stored := form.Services[key]
		state, ok := c.byPath[stored.State]
		index := -1
		if ok {
			index = slices.IndexFunc(c.nodes[state].invokes, func(i invocation[C]) bool { return i.id == stored.ID })
		}
		if index < 0 || !s.configuration.has(state) {
			return c.unreadable("service %q of state %q is no service of an active state of this version", stored.ID, stored.State)
		}
		s.Services = append(s.Services, Invocation{
			ID: stored.ID, Key: key, State: stored.State, Attempt: stored.Attempt,
			Service: c.nodes[state].invokes[index].service.Name, state: state, index: index,
		})
	}
	return nil
}

// sortedIDs returns the IDs in the order in which they were derived: by step, then position.
func sortedIDs[V any](m map[string]V) []string {
	ids := sortedKeys(m)
	slices.SortStableFunc(ids, func(a, b string) int {
		aStep, aPosition, _ := strings.Cut(a, ".")
		bStep, bPosition, _ := strings.Cut(b, ".")
		return cmp.Or(compareDecimal(aStep, bStep), compareDecimal(aPosition, bPosition))
	})
	return ids
}

func compareDecimal(a, b string) int {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	if errX != nil || errY != nil {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(x, y)
}
