package statechart

import "encoding/json"

// Maker names the constructor of an action that is known apart from its code.
type Maker int

// The constructors that Made tells of. The zero value stands for all others.
const (
	MadeByOther Maker = iota
	MadeByRaise
	MadeByRaiseWith
	MadeByRaiseJSON
	MadeBySendAfter
	MadeByCancel
	MadeByEmit
	MadeByLog
	MadeBySpawn
	MadeByStopChild
	MadeBySendToChild
)

// Made is what can be told of an action apart from its code, by those who write charts down in
// another notation.
type Made struct {
	By Maker
	// Event is the type that Raise, RaiseWith, SendAfter, Emit and SendToChild were given, ID what
	// SendAfter, Cancel, Spawn, StopChild and SendToChild were given, Machine what Spawn was.
	Event, ID, Machine string
	// Computed says that Emit, Spawn or SendToChild was given a function.
	Computed bool
}

// Made tells how the action was made.
func (a Action[C]) Made() Made { return a.made }

// GuardMaker names the constructor of a guard that is made of others or asks for a state.
type GuardMaker int

// The constructors that Guard.Made tells of. The zero value stands for all others.
const (
	MadeByWhen GuardMaker = iota
	MadeByAnd
	MadeByOr
	MadeByNot
	MadeByIn
)

// GuardMade is what can be told of a guard apart from its code.
type GuardMade[C any] struct {
	By GuardMaker
	// Of are the guards that And, Or and Not were given.
	Of []Guard[C]
	// In is the path that In was given.
	In string
}

// Made tells how the guard was made.
func (g Guard[C]) Made() GuardMade[C] { return GuardMade[C]{By: g.made, Of: g.of, In: g.in} }

// IsZero reports whether the guard is the zero value, which always holds.
func (g Guard[C]) IsZero() bool { return g.test == nil && g.Name == "" }

// Foreign reports whether the chart was made by CompileForeign: it need not settle, so that no
// host may run it.
func (c *Chart[C]) Foreign() bool { return c.foreign }

// Definition returns what the chart was compiled from. Its slices are the chart's own: they must
// not be changed.
func (c *Chart[C]) Definition() Definition[C] {
	root := c.nodes[0].def
	return Definition[C]{
		ID: c.id, Version: c.version, Payloads: c.payloads, Context: c.context, Output: c.output, Input: c.input,
		ContextParams: c.contextParams, OutputParams: c.outputParams, Migrations: c.migrations,
		Initial: root.Initial, DefaultEntry: root.DefaultEntry, Parallel: root.Type == Parallel, States: root.States,
		Tags: root.Tags, Entry: root.Entry, Exit: root.Exit, On: root.On, Always: root.Always, After: root.After,
		Invoke: root.Invoke, Children: root.Children, Defer: root.Defer, Resolve: root.Resolve, Doc: root.Doc, Meta: root.Meta,
	}
}

// Root returns the chart's own state, as Definition has its fields.
func (c *Chart[C]) Root() *State[C] { return c.nodes[0].def }

// root is the state that the definition's fields from Initial on describe.
func (d *Definition[C]) root() *State[C] {
	root := &State[C]{
		ID: d.ID, Initial: d.Initial, DefaultEntry: d.DefaultEntry, States: d.States,
		Tags: d.Tags, Entry: d.Entry, Exit: d.Exit, On: d.On, Always: d.Always, After: d.After,
		Invoke: d.Invoke, Children: d.Children, Defer: d.Defer, Resolve: d.Resolve, Doc: d.Doc, Meta: d.Meta,
	}
	if d.Parallel {
		root.Type = Parallel
	}
	return root
}

// TargetPath returns the path of the state that one target reference of the state with the given
// path names; "" is the root. It reports false if there is no such state or no such target.
func (c *Chart[C]) TargetPath(state, reference string) (string, bool) {
	from, ok := c.byPath[state]
	if !ok {
		return "", false
	}
	to, problem := (&compiler[C]{chart: c}).target(&c.nodes[from], reference)
	if problem != "" {
		return "", false
	}
	return c.nodes[to].path, true
}

// InternalTypes returns the types of the events that only the chart itself raises, sorted.
func (p Payloads) InternalTypes() []string {
	var types []string
	for _, typ := range sortedKeys(p) {
		if p[typ].internal {
			types = append(types, typ)
		}
	}
	return types
}

// RaiseJSON is Raise for an event whose JSON form is known: an object with the type and the keys
// of the payload, which is decoded as the chart declares it.
func RaiseJSON[C any](typ string, event json.RawMessage) Action[C] {
	return Action[C]{Name: "raise " + typ, Params: event, raises: typ, made: Made{By: MadeByRaiseJSON, Event: typ}, run: func(x *interpreter[C]) error {
		raised, err := x.chart.sent(event)
		if err != nil {
			return err
		}
		x.raise(raised)
		return nil
	}}
}
