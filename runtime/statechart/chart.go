package statechart

// Chart is a compiled definition. It is immutable and safe for concurrent use.
type Chart[C any] struct {
	chart
	definition Definition[C]
	// states holds the definition's states, indexed like chart.nodes.
	states []*State[C]
	// clone deep-copies a context. It is nil if plain assignment is a full copy.
	clone func(C) C
}

// Must is Compile for a program's own charts, but panics with all findings.
func Must[C any](def Definition[C]) *Chart[C] {
	chart, err := Compile(def)
	if err != nil {
		panic(err)
	}
	return chart
}

// Compile validates and compiles a definition. An error is a *DefinitionError.
func Compile[C any](def Definition[C]) (*Chart[C], error) {
	root := []State[C]{def.root()}
	clone, problem := contextCloner[C]()
	made := &Chart[C]{definition: def, clone: clone}
	err := (&compiler{chart: &made.chart}).compile(erasedDefinition{
		id: def.ID, version: def.Version, migrations: def.Migrations, payloads: def.Payloads, input: def.Input,
		root: &eraseStates(root, map[stateList][]State[erased]{})[0], output: eraseFunc(def.Output), contexts: contextsOf(clone, problem),
	}, def.Foreign != nil)
	if err != nil {
		return nil, err
	}
	made.definition.Migrations, made.states = made.migrations, inDocumentOrder(root, nil)
	return made, nil
}

// root builds the root state from the definition's field Initial and the fields after it.
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

// inDocumentOrder appends each state before its descendants. This is the order of layOut.
func inDocumentOrder[C any](states []State[C], into []*State[C]) []*State[C] {
	for i := range states {
		into = inDocumentOrder(states[i].States, append(into, &states[i]))
	}
	return into
}

// Definition returns the compiled definition. Callers must not modify it.
func (c *Chart[C]) Definition() Definition[C] { return c.definition }

// CloneContext copies a context for a service. The copy shares no data.
func (c *Chart[C]) CloneContext(context C) C {
	if c.clone == nil {
		return context
	}
	return c.clone(context)
}
