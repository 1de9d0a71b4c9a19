package statechart

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/runtime/internal/readjson"
)

// UnreadableError is an ErrUnreadable with its cause and its remedy.
type UnreadableError struct {
	Of   string // the reader of the snapshot, such as "chart signup", or ""
	Err  error  // the cause
	Todo string // the remedy; empty means that the snapshot is damaged, and that no version and no migration can help
}

// Remedies that several errors share.
const (
	repairSnapshot = "repair it, or restore it from a backup"
	fixMigration   = "fix the migration"
	hostOld        = "add a migration or host the old version too"
	hostOrRepair   = hostOld + ", or repair it"
)

func (e *UnreadableError) Error() string {
	of := ""
	if e.Of != "" {
		of = " of " + e.Of
	}
	return fmt.Sprintf("%v%s: %v; %s", ErrUnreadable, of, e.Err, cmp.Or(e.Todo, repairSnapshot))
}

func (e *UnreadableError) Unwrap() []error { return []error{ErrUnreadable, e.Err} }

// Restore reads a snapshot from its JSON form and migrates it from an earlier version. Deadlines stay as stored.
// Restore enters no state and starts nothing. Every error is an *UnreadableError and wraps ErrUnreadable.
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
	if form.Machine != c.id || form.Version < c.description.OldestVersion || form.Version >= c.version {
		return c.restore(form, ok, context)
	}
	form, err := c.migrate(data)
	if err != nil {
		return bareSnapshot{}, err
	}
	s, err := c.restore(form, false, context)
	if err == nil && !c.foreign && s.Status == Active {
		if leaf, service, ok := c.unserved(&s); ok {
			err = c.unmatched("move the instance to another state or host the old version too",
				"the state %s is not settled in this version and waits for its service %q, which is not running and which no migration can start", leaf.path, service)
		}
	}
	var unreadable *UnreadableError
	if errors.As(err, &unreadable) && (unreadable.Todo == "" || unreadable.Todo == hostOrRepair) {
		unreadable.Todo = fixMigration // A migration produced this snapshot.
	}
	if err != nil {
		return bareSnapshot{}, err
	}
	return s, nil
}

// restore converts the JSON form of this version to a snapshot. compactForm is set if readCompact has parsed it.
func (c *chart) restore(form snapshotJSON, compactForm bool, context erased) (bareSnapshot, error) {
	if form.Machine != c.id {
		return bareSnapshot{}, c.unreadable("expected version %d of machine %q, got version %d of %q", c.version, c.id, form.Version, form.Machine)
	}
	if form.Version != c.version {
		return bareSnapshot{}, c.unmatched("add a migration or host that version too", "expected version %d of machine %q, got version %d of %q", c.version, c.id, form.Version, form.Machine)
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
		return bareSnapshot{}, c.unreadable("context: %w", err)
	}
	s.configuration.enter(0, -1)
	if value := (&compact{text: form.Value}); !c.readValue(value, 0, &s.configuration) || value.at < len(form.Value) {
		s.configuration = configuration{}
		if err := c.restoreValue(form.Value, 0, &s.configuration); err != nil {
			return bareSnapshot{}, err
		}
	}
	// A stopped instance may be in a final state: it may be stopped before it starts, and its initial state may be final.
	if ended := c.isInFinalState(0, &s.configuration); s.Status != Stopped && ended != (s.Status == Done) || s.Status != Active && len(form.Timers)+len(form.Services)+len(form.Children) > 0 {
		return bareSnapshot{}, c.unreadable("the status %q does not fit the state %s, its timers, services and children", s.Status, strings.Join(c.state(&s.configuration), ", "))
	}
	if !compactForm { // readCompact accepts only snapshots in which restoreWaiting would find nothing.
		if err := c.restoreWaiting(&form, &s); err != nil {
			return bareSnapshot{}, err
		}
	}
	if !c.foreign && !s.settled() && len(s.Services) == 0 {
		return bareSnapshot{}, c.unmatched(hostOld, "the state %s is not settled in this version, and no service is running to move it on", strings.Join(c.state(&s.configuration), ", "))
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

// unreadable returns the error for a damaged snapshot.
func (c *chart) unreadable(format string, args ...any) error {
	return &UnreadableError{Of: "chart " + c.id, Err: fmt.Errorf(format, args...)}
}

// unmatched returns the error for a snapshot that does not fit this version but may be undamaged.
func (c *chart) unmatched(todo, format string, args ...any) error {
	return &UnreadableError{Of: "chart " + c.id, Err: fmt.Errorf(format, args...), Todo: todo}
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
		return c.unreadable("%s: expected %d active children, got %d", stateName(n.path), want, len(children))
	}
	for _, id := range sortedKeys(children) {
		path := id
		if n.path != "" {
			path = n.path + "." + id
		}
		child, ok := c.byPath[path]
		if !ok || c.nodes[child].parent != state || c.nodes[child].kind == history {
			return c.unmatched(hostOld, "this version has no state %q", path)
		}
		if err := c.restoreValue(children[id], child, into); err != nil {
			return err
		}
	}
	return nil
}

// valueChildren decodes one level of a value: {"a": ...}, or "a" for {"a": {}}.
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
			return c.unmatched(hostOld, "this version has no history state %q", path)
		}
		set := newStateSet(len(c.nodes))
		for _, active := range form.HistoryValue[path] {
			i, ok := c.byPath[active]
			if !ok || !c.isDescendant(i, c.nodes[h].parent) || c.nodes[i].kind == history {
				return c.unmatched(hostOrRepair, "history %q records %q, which is not a state below the history state's parent in this version", path, active)
			}
			set.add(i)
		}
		if !c.recordable(h, set) {
			return c.unmatched(hostOrRepair, "history %q records %q, which is not a valid record in this version", path, form.HistoryValue[path])
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

func (c *chart) restoreTimers(form *snapshotJSON, s *bareSnapshot) error {
	for _, id := range sortedIDs(form.Timers) {
		stored := form.Timers[id]
		if err := c.checkID(id, s); err != nil {
			return err
		}
		if stored.Event != nil {
			sent, err := c.sent(stored.Event)
			if err != nil {
				return c.unreadable("timer %s: its event: %w", id, err)
			}
			if stored.State != "" || stored.After != sent.Type {
				return c.unreadable("timer %s of the event %q belongs to %q after %q, not to the chart", id, sent.Type, stored.State, stored.After)
			}
			s.Timers = append(s.Timers, Timer{ID: id, After: stored.After, At: stored.At.UTC(), Event: stored.Event, Send: stored.Send, state: -1})
			continue
		}
		state, ok := c.byPath[stored.State]
		index := -1
		if ok {
			index = slices.IndexFunc(c.nodes[state].timers, func(d delay) bool { return d.id == stored.After })
		}
		if index < 0 || !c.isActive(state, &s.configuration) {
			return c.unmatched(hostOrRepair, "timer %s belongs to %q after %q, which is not a timer of an active state in this version", id, stored.State, stored.After)
		}
		if slices.ContainsFunc(s.Timers, func(t Timer) bool { return t.state == state && t.index == index }) {
			return c.unreadable("state %q has its timer %q twice", stored.State, stored.After)
		}
		if !storable(stored.At.UTC()) {
			return c.unreadable("timer %s: expected a deadline in the years 0 to 9999, got %v", id, stored.At.UTC())
		}
		s.Timers = append(s.Timers, Timer{ID: id, State: stored.State, After: stored.After, At: stored.At.UTC(), state: state, index: index})
	}
	return nil
}

func (c *chart) restoreServices(form *snapshotJSON, s *bareSnapshot) error {
	for _, key := range sortedIDs(form.Services) {
		stored := form.Services[key]
		state, ok := c.byPath[stored.State]
		index := -1
		if ok {
			index = slices.IndexFunc(c.nodes[state].invokes, func(i invocation) bool { return i.id == stored.ID })
		}
		if err := c.checkID(key, s); err != nil {
			return err
		}
		if index < 0 || !c.isActive(state, &s.configuration) {
			return c.unmatched(hostOrRepair, "service %q of state %q is not a service of an active state in this version", stored.ID, stored.State)
		}
		if slices.ContainsFunc(s.Services, func(i Invocation) bool { return i.state == state && i.index == index }) {
			return c.unreadable("state %q has its service %q twice", stored.State, stored.ID)
		}
		s.Services = append(s.Services, Invocation{
			ID: stored.ID, Key: key, State: stored.State, Attempt: stored.Attempt, RetryAt: stored.RetryAt,
			Service: c.nodes[state].invokes[index].service, state: state, index: index,
		})
	}
	return nil
}

// checkID checks that one of the snapshot's steps derived the ID. Otherwise a later step could derive it again.
func (c *chart) checkID(id string, s *bareSnapshot) error {
	step, position := splitID(id)
	if step < 1 || step > s.Steps || position < 0 || id != derivedID(step, position) {
		return c.unreadable("expected an ID that one of %d steps derived, such as 1.0, got %q", s.Steps, id)
	}
	return nil
}

// splitID returns the two numbers of a derived ID. An invalid number is -1.
func splitID(id string) (step, position int64) {
	number := func(text string) int64 {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		return -1
	}
	before, after, _ := strings.Cut(id, ".")
	return number(before), number(after)
}

// sortedIDs returns the IDs in the order of their derivation: by step, then position.
func sortedIDs[V any](m map[string]V) []string {
	ids := sortedKeys(m)
	slices.SortStableFunc(ids, func(a, b string) int {
		aStep, aPosition := splitID(a)
		bStep, bPosition := splitID(b)
		return cmp.Or(cmp.Compare(aStep, bStep), cmp.Compare(aPosition, bPosition))
	})
	return ids
}
