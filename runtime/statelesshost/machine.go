package statelesshost

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/readjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// Machine is a hosted stateless machine. It implements durable.Machine, and is safe for concurrent use.
type Machine[T any] struct {
	config Config[T]
	states []hosted[T]
	index  map[stateless.State]int
	byName map[string]int
	// chart is a chart with a placeholder state. It handles events and data as in any chart: it decodes and validates
	// events, copies data, and rejects data that cannot be stored.
	chart       *statechart.Chart[T]
	graph       *graph
	description statechart.Description
	// keys holds the keys of the stored data.
	keys *readjson.Keys
}

// hosted is a state with values that are derived from other states.
type hosted[T any] struct {
	State[T]
	// value is State.State.
	value stateless.State
	// path lists the indexes of the state and its superstates, outermost first.
	path []int
	// tags are the tags of the path, sorted, without duplicates.
	tags    []string
	settled bool
}

// New checks a configuration and returns its machine. The error is a *statechart.DefinitionError with all findings.
func New[T any](config Config[T]) (*Machine[T], error) {
	m := &Machine[T]{
		config: config, index: map[stateless.State]int{}, byName: map[string]int{},
		keys: readjson.KeysOf(reflect.TypeFor[T]()),
	}
	c := checker[T]{m: m}
	c.check()
	if len(c.findings) > 0 {
		return nil, &statechart.DefinitionError{Chart: config.ID, Findings: c.findings}
	}
	return m, nil
}

// Must is New for machines that are part of the program: it panics on an error.
func Must[T any](config Config[T]) *Machine[T] {
	m, err := New(config)
	if err != nil {
		panic(err)
	}
	return m
}

// ID implements durable.Machine.
func (m *Machine[T]) ID() string { return m.config.ID }

// Version implements durable.Machine.
func (m *Machine[T]) Version() int { return m.config.Version }

// Events implements durable.Machine.
func (m *Machine[T]) Events() []string { return m.chart.Events() }

// Decode implements durable.Machine, like statechart.Chart.Decode.
func (m *Machine[T]) Decode(body []byte) (statechart.Event, error) { return m.chart.Decode(body) }

// StartedBy implements durable.Machine.
func (m *Machine[T]) StartedBy(eventType string) bool {
	return m.config.StartedBy == nil || slices.Contains(m.config.StartedBy, eventType)
}

// Check implements durable.Machine. New has already checked the machine.
func (m *Machine[T]) Check() error { return nil }

// Retention implements durable.Machine.
func (m *Machine[T]) Retention() time.Duration { return m.config.Retention }

// BacklogAgeMax implements durable.Machine.
func (m *Machine[T]) BacklogAgeMax() time.Duration { return m.config.BacklogAgeMax }

// TakesInput implements durable.Machine: a stateless machine accepts no input.
func (m *Machine[T]) TakesInput() bool { return false }

// DecodeInput implements durable.Machine.
func (m *Machine[T]) DecodeInput(body []byte) (any, error) { return m.chart.DecodeInput(body) }

// Describe implements durable.Machine. A state's path is its name.
func (m *Machine[T]) Describe() statechart.Description { return m.description }

// describe returns the machine's description.
func (m *Machine[T]) describe() statechart.Description {
	d := m.chart.Describe()
	d.States, d.Tags = d.States[:1:1], nil
	for k := range m.states {
		state := &m.states[k]
		shown := statechart.StateInfo{Path: state.Name, Settled: state.settled, Atomic: true}
		if state.Final {
			shown.Type = statechart.Final
		}
		for _, other := range m.states {
			shown.Atomic = shown.Atomic && (len(other.path) <= len(state.path) || !slices.Contains(other.path, k))
		}
		d.States, d.Tags = append(d.States, shown), append(d.Tags, state.Tags...)
	}
	slices.Sort(d.Tags)
	d.Tags = slices.Compact(d.Tags)
	return d
}

// Mermaid implements durable.Machine. The diagram shows the transitions of stateless's own diagram, which lacks dynamic
// transitions (PermitDynamic).
func (m *Machine[T]) Mermaid(current ...string) string {
	return m.graph.mermaid(m.index[m.config.Initial], current)
}

// Outline implements durable.Machine. It returns nil, because the machine is not a chart.
func (m *Machine[T]) Outline() *statechart.Outline { return nil }

// Start implements durable.Machine. It calls Config.Data, starts the timers of the initial state, and requests the
// answers in that state's Resolve. Entry actions do not run.
func (m *Machine[T]) Start(start statechart.Start) (started durable.Instance, effects []statechart.Effect, err error) {
	i := &instance[T]{machine: m, status: statechart.Active, at: m.index[m.config.Initial]}
	s := i.step(statechart.Event{At: start.At})
	defer s.end()
	defer i.recovered(s, &err)
	data := new(T)
	if m.config.Data != nil {
		*data = m.config.Data(start)
	}
	s.data = data
	for _, k := range m.states[s.at].path {
		if err := m.enter(s, k); err != nil {
			return nil, nil, i.failed(s, err)
		}
	}
	started, effects = i.commit(s)
	return started, effects, nil
}

// Stopped implements durable.Machine. The instance is in the initial state.
func (m *Machine[T]) Stopped() (durable.Instance, error) {
	i := &instance[T]{machine: m, status: statechart.Stopped, at: m.index[m.config.Initial], steps: 1}
	snapshot, err := i.Snapshot()
	if err != nil {
		return nil, err
	}
	return m.Restore(snapshot)
}

// checker collects the errors of a configuration.
type checker[T any] struct {
	m        *Machine[T]
	findings []statechart.Finding
}

func (c *checker[T]) find(state, problem, fix string) {
	c.findings = append(c.findings, statechart.Finding{State: state, Problem: problem, Fix: fix})
}

// check builds the machine from its configuration.
func (c *checker[T]) check() {
	c.checkEvents()
	for _, state := range c.m.config.States {
		c.add(state)
	}
	initial, known := c.m.index[c.m.config.Initial]
	if !known {
		c.find("", fmt.Sprintf("has the initial state %v, which is not in States", c.m.config.Initial), "list it, or set Initial")
	} else if !c.m.states[initial].settled {
		c.find(c.m.states[initial].Name, "is the initial state but not settled, so no event could reach it", "tag it statechart.Settled")
	}
	if (c.m.config.Machine == nil) == (c.m.config.Build == nil) {
		c.find("", "has both Machine and Build, or neither", "set one of them")
	}
	if len(c.findings) > 0 {
		return // The remaining checks need the machine.
	}
	sm, err := c.m.probe(initial)
	if err != nil {
		c.find("", "cannot report its state: "+err.Error(), "create Config.Machine with NewStateMachine, and let Config.Build return a machine in the given state")
		return
	}
	c.nest()
	if len(c.findings) > 0 {
		return
	}
	g := readGraph(c.m, sm.ToGraph())
	for _, name := range g.unknown {
		c.find("", fmt.Sprintf("has a machine with the state %s, which States does not list", name), "list it: every state is stored and shown under its name")
	}
	c.m.graph, c.m.description = g, c.m.describe()
	if c.m.config.Machine != nil {
		c.m.config.Machine.OnTransitioned(func(ctx context.Context, t stateless.Transition) {
			if s, err := stepOf(ctx); err == nil && s.of == c.m {
				c.m.transitioned(ctx, c.m.config.Machine, s, t)
			}
		})
	}
}

// checkEvents compiles the chart that handles events and data.
func (c *checker[T]) checkEvents() {
	payloads := statechart.Payloads{}
	for typ, event := range c.m.config.Events {
		payloads[typ] = event.Payload
	}
	external := payloads.Types()
	for _, typ := range slices.Sorted(maps.Keys(payloads)) {
		if slices.Contains(external, typ) {
			continue
		}
		c.find("", fmt.Sprintf("declares the event %q as internal", typ), "fire its trigger with Fire, which needs no declaration")
	}
	for _, typ := range c.m.config.StartedBy {
		if _, declared := payloads[typ]; !declared {
			c.find("", fmt.Sprintf("is started by %q, which is not in Events", typ), "declare it, or remove it from StartedBy")
		}
	}
	var err error
	c.m.chart, err = statechart.Compile(statechart.Definition[T]{
		ID: c.m.config.ID, Version: c.m.config.Version, Payloads: payloads, Initial: "any",
		States: []statechart.State[T]{{ID: "any", Tags: []string{statechart.Settled}}},
	})
	if definition, ok := err.(*statechart.DefinitionError); ok { //nolint:errorlint // Compile's own error, not wrapped
		c.findings = append(c.findings, definition.Findings...)
	}
}

// add adds one state.
func (c *checker[T]) add(state State[T]) {
	if state.Name == "" {
		state.Name = fmt.Sprint(state.State)
		if isBareNumber(state.State) {
			c.find(state.Name, fmt.Sprintf("is a number of the type %T without a name, and stored instances would be in another state once the numbers change", state.State),
				"give the type a method String, use states that are strings, or set Name")
		}
	}
	misplaced := func(r rune) bool { return strings.ContainsRune(".#/ ", r) || !unicode.IsPrint(r) }
	if state.Name == "" || strings.ContainsFunc(state.Name, misplaced) || !utf8.ValidString(state.Name) {
		c.find(state.Name, "has an invalid name", "set Name to one without '.', '#', '/' and spaces")
	}
	if _, twice := c.m.byName[state.Name]; twice {
		c.find(state.Name, "is listed twice, or has the same name as another state", "list it once, or set Name")
	}
	if _, twice := c.m.index[state.State]; twice {
		c.find(state.Name, "is listed twice", "list it once")
	}
	h := hosted[T]{State: state, value: state.State, settled: slices.Contains(state.Tags, statechart.Settled)}
	switch {
	case state.Final && h.settled:
		c.find(state.Name, "is final and settled", "remove one of the two: an instance that has ended waits for nothing")
	case state.Final && len(state.After) > 0:
		c.find(state.Name, "is final and has timers", "remove After")
	case !state.Final && state.Output != nil:
		c.find(state.Name, "has an Output but is not final", "set Final, or remove Output")
	}
	h.After = slices.Clone(state.After)
	for k := range h.After {
		after := &h.After[k]
		if after.ID == "" {
			after.ID = after.Delay.String()
		}
		if after.Delay < 0 || after.Trigger == nil {
			c.find(state.Name, fmt.Sprintf("has the timer %q without a trigger or with a negative delay", after.ID), "set Trigger, and a Delay of at least 0")
		}
		if slices.ContainsFunc(h.After[:k], func(a After) bool { return a.ID == after.ID }) {
			c.find(state.Name, fmt.Sprintf("has two timers %q", after.ID), "change the ID of one")
		}
	}
	h.Resolve = slices.Clone(state.Resolve)
	for k := range h.Resolve {
		r := &h.Resolve[k]
		if r.Outcome == "" {
			r.Outcome = state.Name
		}
		if r.Name == "" || r.Error == "" && r.Cause != nil || r.Error != "" && r.Output != nil {
			c.find(state.Name, fmt.Sprintf("answers %q without a name, with a cause but no error, or with an output beside an error", r.Name), "set Name, and either Output or Error and Cause")
		}
	}
	c.m.index[state.State], c.m.byName[state.Name] = len(c.m.states), len(c.m.states)
	c.m.states = append(c.m.states, h)
}

// isBareNumber reports whether fmt.Sprint prints a state as a number.
func isBareNumber(state stateless.State) bool {
	switch state.(type) {
	case fmt.Stringer, error, fmt.Formatter:
		return false
	}
	kind := reflect.ValueOf(state).Kind()
	return kind >= reflect.Int && kind <= reflect.Complex128
}

// nest finds the superstate of each state.
func (c *checker[T]) nest() {
	for k := range c.m.states {
		state := &c.m.states[k]
		sm, err := c.m.probe(k)
		if err != nil {
			c.find(state.Name, "cannot be checked: "+err.Error(), "see Config.Build")
			continue
		}
		ctx := (&step{state: state.value}).context()
		for other := range c.m.states {
			if in, err := sm.IsInStateCtx(ctx, c.m.states[other].value); err == nil && in {
				state.path = append(state.path, other)
				state.tags = append(state.tags, c.m.states[other].Tags...)
			}
		}
		slices.Sort(state.tags)
		state.tags = slices.Compact(state.tags)
	}
	for k := range c.m.states {
		slices.SortFunc(c.m.states[k].path, func(a, b int) int { return len(c.m.states[a].path) - len(c.m.states[b].path) })
	}
}

// probe returns the shared machine, or a machine built for the state with zero data. It fails if the machine does not
// report that state.
func (m *Machine[T]) probe(state int) (sm *stateless.StateMachine, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	want := m.states[state].value
	if sm = m.config.Machine; sm == nil {
		sm = m.config.Build(want, new(T))
	}
	got, err := sm.State((&step{state: want}).context())
	if err == nil && got != want {
		err = fmt.Errorf("expected the state %v, got %v", want, got)
	}
	return sm, err
}

// unreadable returns the error for a damaged snapshot.
func (m *Machine[T]) unreadable(format string, args ...any) error {
	return &statechart.UnreadableError{Of: "machine " + m.config.ID, Err: fmt.Errorf(format, args...)}
}

// unmatched returns the error for a snapshot that may be intact but does not match this version.
func (m *Machine[T]) unmatched(format string, args ...any) error {
	return &statechart.UnreadableError{Of: "machine " + m.config.ID, Err: fmt.Errorf(format, args...), Todo: "host the old version too"}
}

var _ durable.Machine = (*Machine[struct{}])(nil)
