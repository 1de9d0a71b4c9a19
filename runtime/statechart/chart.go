package statechart

import "github.com/settle-run/settle/runtime/internal/foreign"

// Chart is a compiled definition. It is immutable and safe for concurrent use.
type Chart[C any] struct {
	chart
	definition Definition[C]
	// states holds the definition's states, indexed like chart.nodes.
	states []*State[C]
	// clone deep-copies a context. It is nil if plain assignment is a full copy.
	clone func(C) C
}

// Must is Compile for charts that are part of the program. It panics with all findings.
func Must[C any](def Definition[C]) *Chart[C] {
	chart, err := Compile(def)
	if err != nil {
		panic(err)
	}
	return chart
}

// Compile validates and compiles a definition. It returns a *DefinitionError with all findings.
func Compile[C any](def Definition[C]) (*Chart[C], error) { return compile(def, false) }

// CompileForeign compiles a chart written for an interpreter without the Settled tag, such as an SCXML document of a
// conformance suite. It checks only the preconditions of the algorithm: any configuration may wait, services run
// alongside, and states may be unreachable. Event types need no declaration. An undeclared event carries the payload it
// was raised with or, if SendAfter sent it, its JSON form. An ExecutionError without a matching transition is dropped.
//
// Only packages below runtime/ can create a foreign.Document. Hosts refuse the chart: see Description.Foreign.
func CompileForeign[C any](def Definition[C], _ foreign.Document) (*Chart[C], error) {
	return compile(def, true)
}

func compile[C any](def Definition[C], asForeign bool) (*Chart[C], error) {
	root := []State[C]{def.root()}
	clone, problem := contextCloner[C]()
	made := &Chart[C]{definition: def, clone: clone}
	err := (&compiler{chart: &made.chart}).compile(erasedDefinition{
		id: def.ID, version: def.Version, migrations: def.Migrations, payloads: def.Payloads, input: def.Input,
		root: &eraseStates(root, map[stateList][]State[erased]{})[0], output: eraseFunc(def.Output), contexts: contextsOf(clone, problem),
	}, asForeign)
	if err != nil {
		return nil, err
	}
	made.definition.Migrations, made.states = made.migrations, inDocumentOrder(root, nil)
	return made, nil
}

// root returns the root state, built from the fields from Initial on.
func (d *Definition[C]) root() State[C] {
	root := State[C]{
		ID: d.ID, Initial: d.Initial, DefaultEntry: d.DefaultEntry, States: d.States,
		Tags: d.Tags, Entry: d.Entry, Exit: d.Exit, On: d.On, Always: d.Always, After: d.After,
		Invoke: d.Invoke, Children: d.Children, Defer: d.Defer, Resolve: d.Resolve, Doc: d.Doc, Meta: d.Meta,
	}
	if d.Parallel {
		root.Type = Parallel
	}
	return root
}

// inDocumentOrder appends the states in the order of layOut: each before its descendants.
func inDocumentOrder[C any](states []State[C], into []*State[C]) []*State[C] {
	for i := range states {
		into = inDocumentOrder(states[i].States, append(into, &states[i]))
	}
	return into
}

// Definition returns the definition that the chart was compiled from. Callers must not modify its slices.
func (c *Chart[C]) Definition() Definition[C] { return c.definition }

// Root returns the root state, with the fields of the Definition.
func (c *Chart[C]) Root() *State[C] { return c.states[0] }

// CloneContext returns a copy of a context that shares no mutable data with the original. Services receive such a copy,
// because they run while the chart continues.
func (c *Chart[C]) CloneContext(context C) C {
	if c.clone == nil {
		return context
	}
	return c.clone(context)
}
