package statechart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/settle-run/settle/runtime/internal/readjson"
)

// Restore reads a snapshot from its JSON form and migrates it if an earlier version stored it. Deadlines stay as
// stored. Restore enters no state and starts nothing. Every error is an *UnreadableError and wraps ErrUnreadable.
func (c *Chart[C]) Restore(data []byte) (Snapshot[C], error) {
	var context C
	bare, err := c.read(data, &context)
	if err != nil {
		return Snapshot[C]{}, err
	}
	snapshot := Snapshot[C]{Context: context}
	snapshot.fromBare(&bare)
	return snapshot, nil
}

// read implements Restore. It decodes the context into the value that `context` points to.
func (c *chart) read(data []byte, context erased) (bareSnapshot, error) {
	form, ok := readCompact(data)
	if !ok {
		form = snapshotJSON{}
		if err := readjson.Unmarshal(data, &form); err != nil {
			return bareSnapshot{}, c.unreadable("%w", err)
		}
	}
	stored := form.Version
	s, err := c.readForm(form, data, ok, context)
	if err != nil {
		return bareSnapshot{}, c.advise(err, stored)
	}
	return s, nil
}

// readForm reads the JSON form of a snapshot, and migrates it. compactForm is set if readCompact has parsed it.
func (c *chart) readForm(form snapshotJSON, data []byte, compactForm bool, context erased) (bareSnapshot, error) {
	if form.Machine != c.id || form.Version < c.description.OldestVersion || form.Version >= c.version {
		return c.restore(form, compactForm, context)
	}
	form, err := c.migrate(data)
	if err != nil {
		return bareSnapshot{}, err
	}
	s, err := c.restore(form, false, context)
	if err == nil && !c.foreign && s.Status == Active {
		if leaf, service, ok := c.unserved(&s); ok {
			err = c.unmatched(fmt.Sprintf("MoveState(%q, ...)", leaf.path),
				"the state %s is not settled in this version and waits for its service %q, which is not running and which no migration can start", leaf.path, service)
		}
	}
	var unreadable *UnreadableError
	if errors.As(err, &unreadable) && unreadable.Todo == "" {
		unreadable.Todo = fixMigration // A migration produced this snapshot.
	}
	return s, err
}

// restore converts the JSON form of this version to a snapshot. compactForm is set if readCompact has parsed it.
func (c *chart) restore(form snapshotJSON, compactForm bool, context erased) (bareSnapshot, error) {
	if form.Machine != c.id {
		return bareSnapshot{}, c.unreadable("expected version %d of machine %q, got version %d of %q", c.version, c.id, form.Version, form.Machine)
	}
	if form.Version != c.version {
		return bareSnapshot{}, c.refused("add a migration or host that version too", "expected version %d of machine %q, got version %d of %q", c.version, c.id, form.Version, form.Machine)
	}
	if form.Status != Active && form.Status != Done && form.Status != Stopped {
		return bareSnapshot{}, c.unreadable("expected the status %q, %q or %q, got %q", Active, Done, Stopped, form.Status)
	}
	if form.Steps < 1 || form.Steps == math.MaxInt64 {
		return bareSnapshot{}, c.unreadable("expected a count of steps from 1, got %d", form.Steps)
	}
	s := bareSnapshot{chart: c, Status: form.Status, Steps: form.Steps, Output: form.Output}
	if err := json.Unmarshal(form.Context, context); err != nil {
		err = readjson.Explain(err, form.Context, c.contexts.typ)
		if !json.Valid(form.Context) {
			return bareSnapshot{}, c.unreadable("context: %w", err)
		}
		return bareSnapshot{}, c.unmatched("a MigrateContext", "context: %w", err)
	}
	if err := c.contexts.keys.Check(form.Context); err != nil { // The next step would erase the value of an unknown key.
		return bareSnapshot{}, c.refused("deploy the build that stores this key, or raise Version and drop the key with MigrateContext", "context: %w", err)
	}
	s.configuration.enter(0, -1)
	if value := (&compact{text: form.Value}); !c.readValue(value, 0, &s.configuration) || value.at < len(form.Value) {
		s.configuration = configuration{}
		if err := c.restoreValue(form.Value, 0, &s.configuration); err != nil {
			return bareSnapshot{}, err
		}
	}
	// A stopped instance may be in a final state: it may be stopped before it starts, and its initial state may be final.
	states := func() string { return strings.Join(c.state(&s.configuration), ", ") }
	if s.Status != Active && len(form.Timers)+len(form.Services)+len(form.Children) > 0 {
		return bareSnapshot{}, c.unreadable("the status %q does not fit the state %s, its timers, services and children", s.Status, states())
	}
	if ended := c.isInFinalState(0, &s.configuration); s.Status == Active && ended {
		return bareSnapshot{}, c.unmatched("a MoveState to a state that is not final", "the instance is active, but its state %s is final in this version", states())
	} else if s.Status == Done && !ended {
		return bareSnapshot{}, c.unmatched("a MoveState to a final state", "the instance is done, but its state %s is not final in this version", states())
	}
	if !compactForm { // readCompact accepts only snapshots in which restoreWaiting would find nothing.
		if err := c.restoreWaiting(&form, &s); err != nil {
			return bareSnapshot{}, err
		}
	}
	if !c.foreign && !s.settled() && len(s.Services) == 0 {
		return bareSnapshot{}, c.unmatched("a MoveState to a settled state",
			"the state %s is not settled in this version, and no service is running to move it on", states())
	}
	return s, nil
}

// restoreWaiting reads the timers, services, children, deferred events and history.
func (c *chart) restoreWaiting(form *snapshotJSON, s *bareSnapshot) error {
	if err := c.restoreHistory(form, s); err != nil {
		return err
	}
	if err := c.restoreTimers(form, s); err != nil {
		return err
	}
	if err := c.restoreServices(form, s); err != nil {
		return err
	}
	if err := c.restoreChildren(form, s); err != nil {
		return err
	}
	return c.restoreDeferred(form, s)
}

// stateName names a state by its path for a message.
func stateName(path string) string {
	if path == "" {
		return "the chart itself"
	}
	return fmt.Sprintf("state %q", path)
}

// restoreValue marks a state and the states of its value as active. A value must name a legal configuration: one child
// of each active compound state, and all children of each active parallel state.
func (c *chart) restoreValue(value json.RawMessage, state int, into *configuration) error {
	n := &c.nodes[state]
	into.enter(state, n.parent)
	children, err := valueChildren(value)
	if err != nil {
		return c.unreadable("the value of %s: expected a string or an object, got %s", stateName(n.path), readjson.Kind(value))
	}
	if want := c.activeChildren(n); len(children) != want {
		return c.unmatched(c.shapeChange(n, sortedKeys(children)), "%s: expected %d active children, got %d", stateName(n.path), want, len(children))
	}
	for _, id := range sortedKeys(children) {
		path := id
		if n.path != "" {
			path = n.path + "." + id
		}
		child, ok := c.byPath[path]
		if !ok || c.nodes[child].parent != state || c.nodes[child].kind == history {
			return c.unmatched(fmt.Sprintf("RenameState(%q, ...) or MoveState(%[1]q, ...)", path), "this version has no state %q", path)
		}
		if err := c.restoreValue(children[id], child, into); err != nil {
			return err
		}
	}
	return nil
}

// shapeChange names the migration change for a state whose kind (atomic, compound or parallel) differs from the stored
// version. A state that is parallel now needs a Rewrite, because MoveState cannot split a state into regions.
func (c *chart) shapeChange(n *node, stored []string) string {
	switch {
	case n.index > 0 && n.kind == compound:
		to := n
		for to.kind == compound {
			to = &c.nodes[to.initial[0]]
		}
		return fmt.Sprintf("MoveState(%q, %q)", n.path, to.path)
	case n.index > 0 && n.kind != parallel && len(stored) == 1:
		return fmt.Sprintf("MoveState(%q, %q)", n.path+"."+stored[0], n.path)
	default:
		return "a Rewrite of State"
	}
}

// valueChildren decodes one level of a value: {"a": ...} or "a", which is short for {"a": {}}.
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

func (c *chart) restoreHistory(form *snapshotJSON, s *bareSnapshot) error {
	for _, path := range sortedKeys(form.HistoryValue) {
		h, ok := c.byPath[path]
		if !ok || c.nodes[h].kind != history {
			return c.unmatched(fmt.Sprintf("RenameState(%q, ...) or ForgetHistory(%[1]q)", path), "this version has no history state %q", path)
		}
		forget := fmt.Sprintf("a change of the recorded states or ForgetHistory(%q)", path)
		set := newStateSet(len(c.nodes))
		for _, active := range form.HistoryValue[path] {
			i, ok := c.byPath[active]
			if !ok || !c.isDescendant(i, c.nodes[h].parent) || c.nodes[i].kind == history {
				return c.unmatched(forget, "history %q records %q, which is not a state below the history state's parent in this version", path, active)
			}
			set.add(i)
		}
		if !c.recordable(h, set) {
			return c.unmatched(forget, "history %q records %q, which is not a valid record in this version", path, form.HistoryValue[path])
		}
		if s.history == nil {
			s.history = make([]record, len(c.histories))
		}
		var recorded record
		for i := set.next(0); i >= 0; i = set.next(i + 1) {
			recorded = append(recorded, uint16(i))
		}
		s.history[c.nodes[h].ordinal] = recorded
	}
	return nil
}

// recordable reports whether a history state could have recorded the states. Shallow history records all active
// children of its parent, deep history all active atomic descendants.
func (c *chart) recordable(h int, recorded stateSet) bool {
	parent, deep := c.nodes[h].parent, c.nodes[h].def.Type == DeepHistory
	active := recorded.clone()
	for i := recorded.next(0); i >= 0; i = recorded.next(i + 1) {
		if deep && len(c.nodes[i].children) > 0 || !deep && c.nodes[i].parent != parent {
			return false
		}
		for at := c.nodes[i].parent; at > parent; at = c.nodes[at].parent {
			active.add(at)
		}
	}
	return c.legal(parent, active, deep)
}

// legal reports whether an active state has the right number of active children. If deep is set, it checks the
// descendants too.
func (c *chart) legal(state int, active stateSet, deep bool) bool {
	children := 0
	for _, child := range c.nodes[state].children {
		if active.has(child) {
			children++
			if deep && !c.legal(child, active, deep) {
				return false
			}
		}
	}
	return children == c.activeChildren(&c.nodes[state])
}

// activeChildren returns the number of active children of an active state: 1 for a compound state, and the number of
// regions for a parallel state.
func (c *chart) activeChildren(n *node) int {
	switch n.kind {
	case compound:
		return 1
	case parallel:
		regions := 0
		for _, child := range n.children {
			if c.nodes[child].kind != history {
				regions++
			}
		}
		return regions
	default:
		return 0
	}
}
