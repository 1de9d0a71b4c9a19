package conformance_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/runtime/internal/foreign"
	"github.com/settle-run/settle/runtime/statechart"
)

// Short names for charts whose context is an env. An env only refers to a data model, because a data model cannot be
// copied.
type (
	definition = statechart.Definition[env]
	state      = statechart.State[env]
	transition = statechart.Transition[env]
	action     = statechart.Action[env]
	guard      = statechart.Guard[env]
)

type document struct {
	root  *element
	dir   string // base directory of relative file names
	chart *statechart.Chart[env]
	// paths maps the document's IDs to the chart's paths. `ids` is the reverse.
	paths, ids map[string]string
	// keys maps states to their IDs in the chart.
	keys map[*element]string
	// invokes maps the chart's invocation IDs to their elements.
	invokes map[string]*element
}

var stateNames = []string{"state", "parallel", "final", "history"}

func isState(e *element) bool { return slices.Contains(stateNames, e.name) }

func readFile(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, strings.TrimPrefix(name, "file:")))
	return string(text), err
}

// readDocument converts the root element of a document to a chart.
func readDocument(root *element, dir string) (*document, error) {
	d := &document{
		root: root, dir: dir, paths: map[string]string{}, ids: map[string]string{},
		keys: map[*element]string{}, invokes: map[string]*element{},
	}
	d.name(root, "")
	states, err := d.states(root)
	if err != nil {
		return nil, err
	}
	initial, actions, err := d.initial(root, "")
	if err != nil {
		return nil, err
	}
	d.chart, err = statechart.Compile(definition{
		Foreign: &foreign.Document{},
		ID:      "scxml-document", Version: 1, Initial: initial, DefaultEntry: actions, States: states,
		Context: func(start statechart.Start) env { return restoredEnv(start.Instance) },
		Entry:   []action{startAction(d)},
	})
	return d, err
}

// name assigns every state its ID in the chart. The ID must not contain '.', '#' or '/'.
func (d *document) name(parent *element, path string) {
	taken := map[string]bool{}
	for _, e := range parent.children {
		if !isState(e) {
			continue
		}
		id, named := e.attrs["id"]
		if !named {
			id = "state-" + strconv.Itoa(len(d.keys))
		}
		key := strings.NewReplacer(".", "_", "#", "_", "/", "_").Replace(id)
		for taken[key] {
			key += "_"
		}
		taken[key] = true
		full := key
		if path != "" {
			full = path + "." + key
		}
		d.keys[e], d.paths[id], d.ids[full] = key, full, id
		d.name(e, full)
	}
}

func (d *document) path(e *element) string { return d.paths[d.id(e)] }

func (d *document) id(e *element) string {
	if id, ok := e.attrs["id"]; ok {
		return id
	}
	return d.keys[e]
}

func (d *document) states(parent *element) ([]state, error) {
	var states []state
	for _, e := range parent.children {
		if !isState(e) {
			continue
		}
		s, err := d.state(e)
		if err != nil {
			return nil, fmt.Errorf("state %q: %w", e.attrs["id"], err)
		}
		states = append(states, s)
	}
	return states, nil
}

func (d *document) state(e *element) (state, error) {
	s := state{ID: d.keys[e]}
	switch e.name {
	case "history":
		s.Type = statechart.ShallowHistory
		if e.attrs["type"] == "deep" {
			s.Type = statechart.DeepHistory
		}
		if t := e.one("transition"); t != nil {
			targets, err := d.targets(t.attrs["target"])
			s.Target, s.DefaultEntry = targets, contentActions(t)
			return s, err
		}
		return s, nil
	case "parallel":
		s.Type = statechart.Parallel
	case "final":
		s.Type = statechart.Final
		s.Output = func(env env, _ statechart.Event) any { return env.output }
	}
	var err error
	if s.States, err = d.states(e); err != nil {
		return s, err
	}
	if s.Type == statechart.Plain && len(s.States) > 0 {
		if s.Initial, s.DefaultEntry, err = d.initial(e, d.path(e)); err != nil {
			return s, err
		}
	}
	s.Entry, s.Exit = []action{entryAction(d, e)}, []action{exitAction(d, e)}
	for _, t := range e.all("transition") {
		if err := d.transition(&s, e, t); err != nil {
			return s, err
		}
	}
	for k, invoke := range e.all("invoke") {
		id := invoke.attrs["id"]
		if id == "" {
			id = d.id(e) + "." + strconv.Itoa(k)
		}
		d.invokes[id] = invoke
		s.Invoke = append(s.Invoke, statechart.Invoke[env]{ID: id, Service: session})
	}
	return s, nil
}

// initial returns the default targets of a state, relative to its path, and the actions of its initial transition.
func (d *document) initial(e *element, path string) (string, []action, error) {
	ids, actions := strings.Fields(e.attrs["initial"]), []action(nil)
	if initial := e.one("initial"); initial != nil {
		t := initial.one("transition")
		ids, actions = strings.Fields(t.attrs["target"]), contentActions(t)
	}
	if len(ids) == 0 {
		for _, child := range e.children {
			if isState(child) && child.name != "history" {
				ids = []string{d.id(child)}
				break
			}
		}
	}
	var initial []string
	for _, id := range ids {
		target, known := d.paths[id]
		below, inside := strings.CutPrefix(target, path+".")
		if path == "" {
			below, inside = target, true
		}
		if !known || !inside {
			return "", nil, fmt.Errorf("the initial state %q is not below it", id)
		}
		initial = append(initial, below)
	}
	return strings.Join(initial, " "), actions, nil
}

func (d *document) targets(text string) (string, error) {
	var targets []string
	for _, id := range strings.Fields(text) {
		path, known := d.paths[id]
		if !known {
			return "", fmt.Errorf("the target %q is not a state", id)
		}
		targets = append(targets, "#"+path)
	}
	return strings.Join(targets, " "), nil
}

// transition adds a transition to a state, once for each of its event descriptors.
func (d *document) transition(s *state, source, e *element) error {
	targets, err := d.targets(e.attrs["target"])
	if err != nil {
		return err
	}
	t := transition{Target: targets, Actions: contentActions(e), Guard: d.guard(e), Reenter: !d.internal(s, source, e)}
	if !e.has("event") {
		s.Always = append(s.Always, t)
		return nil
	}
	for _, descriptor := range strings.Fields(e.attrs["event"]) {
		t.Event = d.descriptor(descriptor)
		s.On = append(s.On, t)
	}
	return nil
}

// internal reports whether a transition keeps its source active. It must be marked as internal, its source must be
// compound, and its targets must lie below the source (SCXML 3.13).
func (d *document) internal(s *state, source, e *element) bool {
	if e.attrs["type"] != "internal" || s.Type != statechart.Plain || len(s.States) == 0 {
		return false
	}
	for _, id := range strings.Fields(e.attrs["target"]) {
		if !strings.HasPrefix(d.paths[id], d.path(source)+".") {
			return false
		}
	}
	return true
}

// descriptor converts an event descriptor to the chart's form. A prefix gets the suffix ".*". A done event gets the
// path of its state.
func (d *document) descriptor(text string) string {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "*"), ".")
	if text == "" {
		return "*"
	}
	if id, ok := strings.CutPrefix(text, doneState); ok {
		if path, known := d.paths[id]; known {
			return doneState + path
		}
	}
	return text + ".*"
}

const doneState = "done.state."

// inState matches a condition that only tests a state. The engine evaluates it.
var inState = regexp.MustCompile(`^\s*In\('([^']*)'\)\s*$`)

func (d *document) guard(e *element) guard {
	cond, ok := e.attrs["cond"]
	if !ok {
		return guard{}
	}
	if match := inState.FindStringSubmatch(cond); match != nil && d.paths[match[1]] != "" {
		return statechart.In[env](d.paths[match[1]])
	}
	return statechart.TryWhen(cond, func(env env, event statechart.Event) (bool, error) {
		env.bind(event)
		holds, err := env.condition(cond)
		return holds, at(e, err)
	})
}
