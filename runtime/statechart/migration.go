package statechart

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Migration takes the stored snapshots of one version of a chart to the next. It is a function of what is
// stored and of nothing else: the same snapshot may be migrated many times before the outcome is stored.
//
// Nothing is entered, left or started by it. A timer or a service that the new version declares for a
// state in which a stored instance is does not start there, Entry and Resolve of a state that the
// instance is moved to do not run.
type Migration struct {
	// From is the version that the snapshot was stored by; the outcome is one of version From+1.
	From int
	// Changes are made in order. None means that the next version reads the snapshot as it is.
	Changes []Change
}

// Change is one step of a migration. RenameState, MoveState, MigrateContext and their like make one.
type Change struct {
	// Name identifies the change in errors.
	Name string

	run func(*Stored) error
	// problem says what is wrong with the change itself, "" if nothing is.
	problem string
	// gives is the type of the context that the change makes, nil if it makes none.
	gives reflect.Type
}

// Stored is a snapshot in the hands of a migration: one of a version whose chart is not there any more. What
// comes of it must fit the chart that reads it, as for Restore.
type Stored struct {
	// State is the paths of the active atomic and final states, sorted.
	State []string
	// Context is the JSON of the context.
	Context json.RawMessage
	// History is, by the path of a history state, the paths that it has recorded.
	History map[string][]string
	// Timers may be dropped and renamed. A new one, or another deadline, is an error: nobody would bring
	// its firing.
	Timers []Timer
	// Services may be dropped and renamed, and their attempts be counted anew.
	Services []Invocation
	// Children may be dropped and renamed. Whoever hosts the chart stops those that are dropped.
	Children []ChildRef
	// Deferred are the events that wait. One that is dropped was accepted and is lost.
	Deferred []Deferred
	// Output is the JSON of the output of an instance that is done.
	Output json.RawMessage

	status Status
}

// Status says whether the instance lives. No migration changes it.
func (s *Stored) Status() Status { return s.status }

// migrate reads a stored snapshot of an earlier version and takes it to this one.
func (c *chart) migrate(data []byte) (snapshotJSON, error) {
	var form snapshotJSON
	if err := ReadJSON(data, &form); err != nil {
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
				return form, c.unmatched(mendMigration, "migrating from version %d, %s: %w", migration.From, change.Name, err)
			}
		}
	}
	migrated, err := s.form(form)
	if err != nil {
		return form, c.unmatched(mendMigration, "migrated from version %d: %w", form.Version, err)
	}
	migrated.Version = c.version
	c.liftShallow(migrated.HistoryValue)
	return migrated, nil
}

// liftShallow puts in the place of what shallow history states have recorded the states beside them, if a migration has moved it
// deeper: which states are shallow only the chart knows.
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

// apply makes the change, with a panic as its error.
func (c Change) apply(s *Stored) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = Panicked(r)
		}
	}()
	return c.run(s)
}

// stored is the form as a migration sees it.
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
		s.Services = append(s.Services, Invocation{ID: i.ID, Key: key, State: i.State, Service: i.Service, Attempt: i.Attempt})
	}
	for _, id := range sortedKeys(form.Children) {
		r := form.Children[id]
		s.Children = append(s.Children, ChildRef{ID: id, Key: r.Key, Machine: r.Machine, State: r.State})
	}
	for _, d := range form.Deferred {
		var head struct{ Type string }
		if err := ReadJSON(d.Event, &head); err != nil {
			return nil, fmt.Errorf("deferred event: %w", err)
		}
		s.Deferred = append(s.Deferred, Deferred{Type: head.Type, ID: d.ID, Event: d.Event})
	}
	return s, nil
}

// leavesOf appends the paths of the states that the value names and that have none below them.
func leavesOf(value json.RawMessage, above string, into []string) ([]string, error) {
	children, err := valueChildren(value)
	if err != nil {
		return nil, fmt.Errorf("%s: expected a string or an object, got %s", stateName(above), jsonKind(value))
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

// configurationTree is a value with an object for every state.
type configurationTree map[string]configurationTree

// valueOf returns the value in which the states are active, and those above them.
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

// form is the outcome of a migration of the given form.
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
			return form, fmt.Errorf("timer %s of state %q: expected one of the stored timers, once, with its deadline: a migration starts no timer and moves no deadline", t.ID, t.State)
		}
		form.Timers[t.ID] = timerJSON{State: t.State, After: t.After, At: t.At, Event: t.Event, Send: t.Send}
	}
	for _, i := range s.Services {
		_, known := old.Services[i.Key]
		if _, twice := form.Services[i.Key]; !known || twice || i.Attempt < 0 {
			return form, fmt.Errorf("service %q under the key %q: expected one of the stored services, once: a migration starts none", i.ID, i.Key)
		}
		form.Services[i.Key] = serviceJSON{ID: i.ID, State: i.State, Service: i.Service, Attempt: i.Attempt}
	}
	machines := map[string]string{}
	for _, r := range old.Children {
		machines[r.Key] = r.Machine
	}
	for _, r := range s.Children {
		machine, known := machines[r.Key]
		if _, twice := form.Children[r.ID]; !known || twice || machine != r.Machine {
			return form, fmt.Errorf("child %q under the key %q: expected one of the stored children, once, of its machine: a migration starts none", r.ID, r.Key)
		}
		form.Children[r.ID] = childJSON{Key: r.Key, Machine: r.Machine, State: r.State}
	}
	return form, nil
}

// checkMigrations checks that the migrations are one chain that ends at the chart's version, and orders
// them.
func (c *compiler) checkMigrations(def heldDefinition) {
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
				c.find(nil, fmt.Sprintf("has a migration from version %d that is to %s, but %s", version, change.Name, change.problem), "name two states by their paths, such as region.state")
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

// renamedKeys returns a map with its keys under other names; ok is false if two would share one.
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
