package statechart

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/internal/readjson"
)

// Migration converts stored snapshots of one version of a chart to the next version. It must depend only on the
// snapshot, because the same snapshot may be migrated many times before the result is stored.
//
// A migration does not enter or leave states, and starts nothing. If the new version adds timers or services to an
// active state, they do not start. If a migration moves an instance, the new state's Entry and Resolve do not run.
type Migration struct {
	From    int      // the version that stored the snapshot; the result has version From+1
	Changes []Change // applied in order; none means that the next version reads the snapshot as it is
}

// Change is one step of a migration, made by RenameState, MoveState, MigrateContext or another constructor.
type Change struct {
	name string // for errors
	run  func(*Stored) error
	// problem describes an error in the change itself, or is "".
	problem string
	// gives is the type of the context that the change returns, or nil.
	gives reflect.Type
}

// Stored is a snapshot of an earlier version during a migration. After all changes, it must fit the chart: see Restore.
type Stored struct {
	State   []string // the paths of the active atomic and final states, sorted
	Context json.RawMessage
	History map[string][]string // maps the path of each history state to the paths of its recorded states
	// Timers may be dropped or renamed. A new timer or a changed deadline is an error, because a migration cannot schedule
	// it.
	Timers   []Timer
	Services []Invocation // may be dropped or renamed, and their attempts may be reset
	Children []ChildRef   // may be dropped or renamed; the host stops dropped children
	Deferred []Deferred   // dropping a deferred event loses an accepted event
	Output   json.RawMessage

	status Status
}

// Status returns the status of the instance. No migration changes it.
func (s *Stored) Status() Status { return s.status }

// migrate reads a stored snapshot of an earlier version and converts it to this one.
func (c *chart) migrate(data []byte) (snapshotJSON, error) {
	var form snapshotJSON
	if err := readjson.Unmarshal(data, &form); err != nil {
		return form, c.unreadable("%w", err)
	}
	s, err := form.stored()
	if err != nil {
		return form, c.unreadable("version %d: %w", form.Version, err)
	}
	first := c.version - len(c.migrations)
	for _, migration := range c.migrations[form.Version-first:] {
		for _, change := range migration.Changes {
			if err := change.apply(s); err != nil {
				return form, c.refused(fixMigration, "migrating from version %d, %s: %w", migration.From, change.name, err)
			}
		}
	}
	migrated, err := s.form(form)
	if err != nil {
		return form, c.refused(fixMigration, "migrated from version %d: %w", form.Version, err)
	}
	migrated.Version = c.version
	c.liftShallow(migrated.HistoryValue)
	return migrated, nil
}

// liftShallow corrects the records of shallow history states after a migration. If the migration moved a recorded state
// deeper, liftShallow replaces it with the ancestor that is a sibling of the history state. A migration cannot do this,
// because only the chart knows which history states are shallow.
func (c *chart) liftShallow(recorded map[string][]string) {
	for _, path := range sortedKeys(recorded) {
		h, ok := c.byPath[path]
		if !ok || c.nodes[h].kind != history || c.nodes[h].def.Type != ShallowHistory {
			continue
		}
		for k, active := range recorded[path] {
			i, ok := c.byPath[active]
			for ok && c.isDescendant(i, c.nodes[h].parent) && c.nodes[i].parent != c.nodes[h].parent {
				i = c.nodes[i].parent
				recorded[path][k] = c.nodes[i].path
			}
		}
	}
}

// apply applies the change. It returns a panic as an error.
func (c Change) apply(s *Stored) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = Panicked(r)
		}
	}()
	return c.run(s)
}

// stored converts the JSON form to the form for migrations.
func (form *snapshotJSON) stored() (*Stored, error) {
	s := &Stored{Context: form.Context, History: form.HistoryValue, Output: form.Output, status: form.Status}
	var err error
	if s.State, err = leavesOf(form.Value, "", nil); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	slices.Sort(s.State)
	for _, id := range sortedIDs(form.Timers) {
		t := form.Timers[id]
		s.Timers = append(s.Timers, Timer{ID: id, State: t.State, After: t.After, At: t.At, Event: t.Event, Send: t.Send})
	}
	for _, key := range sortedIDs(form.Services) {
		i := form.Services[key]
		s.Services = append(s.Services, Invocation{ID: i.ID, Key: key, State: i.State, Service: i.Service, Attempt: i.Attempt, RetryAt: i.RetryAt})
	}
	for _, id := range sortedKeys(form.Children) {
		r := form.Children[id]
		s.Children = append(s.Children, ChildRef{ID: id, Key: r.Key, Machine: r.Machine, State: r.State})
	}
	for _, d := range form.Deferred {
		var head struct{ Type string }
		if err := readjson.Unmarshal(d.Event, &head); err != nil {
			return nil, fmt.Errorf("deferred event: %w", err)
		}
		s.Deferred = append(s.Deferred, Deferred{Type: head.Type, ID: d.ID, Event: d.Event})
	}
	return s, nil
}

// leavesOf appends the paths of the value's leaf states.
func leavesOf(value json.RawMessage, above string, into []string) ([]string, error) {
	children, err := valueChildren(value)
	if err != nil {
		return nil, fmt.Errorf("%s: expected a string or an object, got %s", stateName(above), readjson.Kind(value))
	}
	if len(children) == 0 && above != "" {
		return append(into, above), nil
	}
	for _, id := range sortedKeys(children) {
		path := id
		if above != "" {
			path = above + "." + id
		}
		if into, err = leavesOf(children[id], path, into); err != nil {
			return nil, err
		}
	}
	return into, nil
}

// configurationTree is a state value with an object for every state.
type configurationTree map[string]configurationTree

// valueOf returns the value of a configuration with the given active states and their ancestors.
func valueOf(states []string) configurationTree {
	root := configurationTree{}
	for _, path := range states {
		at := root
		for id := range strings.SplitSeq(path, ".") {
			if at[id] == nil {
				at[id] = configurationTree{}
			}
			at = at[id]
		}
	}
	return root
}

// form converts a migrated snapshot to the JSON form. `old` is the JSON form before the migration.
func (s *Stored) form(old snapshotJSON) (form snapshotJSON, err error) {
	form = snapshotJSON{Machine: old.Machine, Status: old.Status, Steps: old.Steps, Context: s.Context, Output: s.Output}
	if form.Value, err = json.Marshal(valueOf(s.State)); err != nil {
		return form, err
	}
	form.HistoryValue, form.Deferred = s.History, deferredEventsJSON(s.Deferred)
	form.Timers, form.Services, form.Children = map[string]timerJSON{}, map[string]serviceJSON{}, map[string]childJSON{}
	for _, t := range s.Timers {
		was, known := old.Timers[t.ID]
		if _, twice := form.Timers[t.ID]; !known || twice || !was.At.Equal(t.At) || (was.Event == nil) != (t.Event == nil) {
			return form, fmt.Errorf("timer %s of state %q: expected a stored timer, once, with its stored deadline: a migration cannot start a timer or change a deadline", t.ID, t.State)
		}
		form.Timers[t.ID] = timerJSON{State: t.State, After: t.After, At: t.At, Event: t.Event, Send: t.Send}
	}
	for _, i := range s.Services {
		_, known := old.Services[i.Key]
		if _, twice := form.Services[i.Key]; !known || twice || i.Attempt < 0 {
			return form, fmt.Errorf("service %q under the key %q: expected a stored service, once: a migration cannot start one", i.ID, i.Key)
		}
		form.Services[i.Key] = serviceJSON{ID: i.ID, State: i.State, Service: i.Service, Attempt: i.Attempt, RetryAt: i.RetryAt}
	}
	machines := map[string]string{}
	for _, r := range old.Children {
		machines[r.Key] = r.Machine
	}
	for _, r := range s.Children {
		machine, known := machines[r.Key]
		if _, twice := form.Children[r.ID]; !known || twice || machine != r.Machine {
			return form, fmt.Errorf("child %q under the key %q: expected a stored child, once, with its stored machine: a migration cannot start one", r.ID, r.Key)
		}
		form.Children[r.ID] = childJSON{Key: r.Key, Machine: r.Machine, State: r.State}
	}
	return form, nil
}

// checkMigrations checks that the migrations form one chain to the chart's version, and sorts them.
func (c *compiler) checkMigrations(def erasedDefinition) {
	byVersion := map[int]Migration{}
	lowest := def.version
	for _, m := range def.migrations {
		_, twice := byVersion[m.From]
		switch {
		case m.From < 1:
			c.find(nil, fmt.Sprintf("has a migration from version %d", m.From), "count versions from 1")
			continue
		case m.From >= def.version:
			c.find(nil, fmt.Sprintf("has a migration from version %d, but is version %d itself", m.From, def.version), "raise Version above the versions that it migrates from")
			continue
		case twice:
			c.find(nil, fmt.Sprintf("has two migrations from version %d", m.From), "put all changes into one")
			continue
		}
		byVersion[m.From] = m
		lowest = min(lowest, m.From)
	}
	var made reflect.Type
	for version := lowest; version < def.version && len(byVersion) > 0; version++ {
		m, ok := byVersion[version]
		if !ok {
			c.find(nil, fmt.Sprintf("has a migration from version %d, but none from version %d", lowest, version), "add one, without Changes if the next version reads the same")
		}
		for i, change := range m.Changes {
			if change.run == nil {
				c.find(nil, fmt.Sprintf("has a migration from version %d whose change %d does nothing", version, i), "make it with RenameState, MigrateContext or another constructor")
			}
			if change.problem != "" {
				c.find(nil, fmt.Sprintf("has an invalid change in the migration from version %d: %s: %s", version, change.name, change.problem), "name two states by their paths, such as region.state")
			}
			if change.gives != nil {
				made = change.gives
			}
		}
		m.From, m.Changes = version, slices.Clone(m.Changes)
		c.chart.migrations = append(c.chart.migrations, m)
	}
	if own := def.contexts.typ; made != nil && made != own {
		c.find(nil, fmt.Sprintf("has migrations that end with the context type %v, but its own is %v", made, own), "let the last MigrateContext return the chart's context type")
	}
}

// renamedKeys returns a map with renamed keys. ok is false if two keys would collide.
func renamedKeys[V any](m map[string]V, rename func(string) string) (renamed map[string]V, ok bool) {
	if m == nil {
		return nil, true
	}
	renamed = make(map[string]V, len(m))
	for key, value := range maps.All(m) {
		renamed[rename(key)] = value
	}
	return renamed, len(renamed) == len(m)
}
