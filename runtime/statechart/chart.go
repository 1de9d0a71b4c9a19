package statechart

import "github.com/settle-run/settle/runtime/internal/foreign"

// Chart is a compiled definition: immutable, safe for concurrent use.
type Chart[C any] struct {
	chart
	definition Definition[C]
	// states are those of the definition, by the indexes of their nodes.
	states []*State[C]
	// clone copies a context so that the copy can be changed. Nil where assignment copies all of it.
	clone func(C) C
}

// Must is Compile for charts that are part of the program: it panics with all findings.
func Must[C any](def Definition[C]) *Chart[C] {
	chart, err := Compile(def)
	if err != nil {
		panic(err)
	}
	return chart
}

// Compile checks a definition and compiles it. The error is a *DefinitionError with all
// findings at once.
func Compile[C any](def Definition[C]) (*Chart[C], error) { return compile(def, false) }

// CompileForeign compiles a chart that was written for an interpreter that does not know Settled,
// such as an SCXML document of a conformance suite: every configuration may wait, services run
// beside it, states may be unreachable, and event types need no declaration (an undeclared one
// carries what it was raised with or, once SendAfter has sent it, the JSON form of the event). An
// ExecutionError that no state takes is dropped.
// What remains is what the algorithm needs. It is for the packages of runtime/ that read such
// documents, which alone can make a foreign.Document; no machine hosts the chart: see Foreign.
func CompileForeign[C any](def Definition[C], _ foreign.Document) (*Chart[C], error) {
	return compile(def, true)
}

func compile[C any](def Definition[C], asForeign bool) (*Chart[C], error) {
	root := []State[C]{def.root()}
	clone, problem := contextCloner[C]()
	made := &Chart[C]{definition: def, clone: clone}
	err := (&compiler{chart: &made.chart}).compile(heldDefinition{
		id: def.ID, version: def.Version, migrations: def.Migrations, payloads: def.Payloads, input: def.Input,
		root: &eraseStates(root, map[stateList][]State[held]{})[0], output: eraseFunc(def.Output), contexts: contextsOf(clone, problem),
	}, asForeign)
	if err != nil {
		return nil, err
	}
	made.definition.Migrations, made.states = made.migrations, inDocumentOrder(root, nil)
	return made, nil
}

// root is the state that the definition's fields from Initial on describe.
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

// inDocumentOrder appends the states, each before its descendants, as layOut does.
func inDocumentOrder[C any](states []State[C], into []*State[C]) []*State[C] {
	for i := range states {
		into = inDocumentOrder(states[i].States, append(into, &states[i]))
	}
	return into
}

// Definition returns what the chart was compiled from. Its slices are the chart's own: they must
// not be changed.
func (c *Chart[C]) Definition() Definition[C] { return c.definition }

// Root returns the chart's own state, as Definition has its fields.
func (c *Chart[C]) Root() *State[C] { return c.states[0] }

// CloneContext returns a copy of a context that shares nothing with it that can be changed: what
// a service gets, which runs while the chart goes on.
func (c *Chart[C]) CloneContext(context C) C {
	if c.clone == nil {
		return context
	}
	return c.clone(context)
}
