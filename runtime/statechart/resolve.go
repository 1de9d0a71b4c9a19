package statechart

import (
	"encoding/json"
	"fmt"
)

// Resolution is an answer to those outside who wait for an instance under a name, such as the tasks
// of Step Functions workflows that have handed it their tokens. They are told one of as many outcomes
// as the chart has, or that what they wait for has failed.
type Resolution[C any] struct {
	// Name is the name under which they wait. The host keeps who they are.
	Name string
	// Outcome is the word by which they branch. Of a state's Resolve it defaults to the state's ID.
	Outcome string
	// Output makes what they get beside it. It must marshal to JSON; nil means nothing.
	Output func(C, Event) any
	// Error, if it is set, makes the answer a failure of this name, in place of an outcome. Cause
	// makes the text that explains it; nil means none.
	Error string
	Cause func(C, Event) string
}

// Resolve returns an action that answers those who wait under a name when the step is stored. Who
// comes to wait later is not answered by it: State.Resolve is for that.
func Resolve[C any](r Resolution[C]) Action[C] {
	return Action[C]{Name: "resolve " + r.Name, resolves: &r, run: func(x *interpreter[C]) error {
		answer, err := r.effect(x.snapshot.Context, *x.event)
		if err != nil {
			return err
		}
		x.resolved = true
		return x.effect(answer)
	}}
}

// effect makes the answer, still without the state that it tells of.
func (r *Resolution[C]) effect(context C, event Event) (Effect, error) {
	effect := Effect{Kind: ResolveWaits, Name: r.Name, Outcome: r.Outcome, Error: r.Error}
	if r.Error != "" {
		effect.Outcome = ""
		if r.Cause != nil {
			effect.Message = r.Cause(context, event)
		}
		return effect, nil
	}
	if r.Output == nil {
		return effect, nil
	}
	output, err := json.Marshal(r.Output(context, event))
	if err != nil {
		return effect, fmt.Errorf("encoding the output of the resolution of %q: %w", r.Name, err)
	}
	effect.Output = output
	return effect, nil
}

// tellState completes the answers of a macrostep that is over with where it has led.
func (x *interpreter[C]) tellState() {
	if !x.resolved {
		return
	}
	for k := range x.effects {
		if e := &x.effects[k]; e.Kind == ResolveWaits && e.State == nil {
			e.State, e.Tags = x.snapshot.State(), x.snapshot.Tags()
		}
	}
}

// Resolving returns the answer for those who come to wait under a name while the snapshot stands:
// that of the first active state, in document order, whose Resolve has the name. It reports false if
// there is none: they have to wait. The answer is made with the event, and has no ID; an instance
// that is done answers with the state that it ended in.
func (c *Chart[C]) Resolving(snapshot Snapshot[C], name string, event Event) (answer Effect, ok bool, err error) {
	if snapshot.chart != c {
		return Effect{}, false, c.anothers()
	}
	for _, i := range c.active(&snapshot.configuration) {
		n := &c.nodes[i]
		for k := range n.def.Resolve {
			if n.def.Resolve[k].Name == name {
				answer, err = n.answer(&n.def.Resolve[k], c, snapshot, event)
				return answer, err == nil, err
			}
		}
	}
	return Effect{}, false, nil
}

// answer is Resolution.effect with a panic as its error.
func (n *node[C]) answer(r *Resolution[C], c *Chart[C], snapshot Snapshot[C], event Event) (answer Effect, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil {
			err = &StepError{Chart: c.id, State: n.path, Event: event.Type, Code: "action resolve " + r.Name, Err: err}
		}
	}()
	context := snapshot.Context
	if c.cloneContext != nil {
		context = c.cloneContext(context)
	}
	answer, err = n.defaults(*r).effect(context, event)
	answer.State, answer.Tags = snapshot.State(), snapshot.Tags()
	return answer, err
}

// defaults returns a resolution of the state with what is left out.
func (n *node[C]) defaults(r Resolution[C]) *Resolution[C] {
	if r.Outcome == "" {
		r.Outcome = n.def.ID
	}
	return &r
}

// Resolves returns the names under which the chart answers those who wait, in document order, each
// once.
func (c *Chart[C]) Resolves() []string {
	var names []string
	known := map[string]bool{}
	add := func(actions []Action[C]) {
		for i := range actions {
			if r := actions[i].resolves; r != nil && !known[r.Name] {
				known[r.Name] = true
				names = append(names, r.Name)
			}
		}
	}
	for i := range c.nodes {
		n := &c.nodes[i]
		add(n.entry)
		add(n.def.DefaultEntry)
		add(n.def.Exit)
		for _, transitions := range [][]transition[C]{n.transitions, n.always} {
			for k := range transitions {
				add(transitions[k].actions)
			}
		}
	}
	return names
}

// linkResolve makes the answers of a state actions that follow those of its entry.
func (c *compiler[C]) linkResolve(n *node[C]) {
	n.entry = n.def.Entry
	if len(n.def.Resolve) == 0 {
		return
	}
	n.entry = append([]Action[C]{}, n.def.Entry...)
	for i := range n.def.Resolve {
		n.entry = append(n.entry, Resolve(*n.defaults(n.def.Resolve[i])))
	}
}

// checkResolves checks an answer that an action gives.
func (c *compiler[C]) checkResolves(n *node[C], place string, r *Resolution[C]) {
	switch {
	case r.Name == "":
		c.find(n, place+": resolves no name", "set Resolution.Name to the name under which a task waits")
	case r.Outcome == "" && r.Error == "":
		c.find(n, fmt.Sprintf("%s: resolves %q with neither an outcome nor an error", place, r.Name), "set Resolution.Outcome, or Error")
	case r.Error == "" && r.Cause != nil:
		c.find(n, fmt.Sprintf("%s: resolves %q with a Cause but no Error", place, r.Name), "set Resolution.Error, or remove Cause")
	case r.Error != "" && r.Output != nil:
		c.find(n, fmt.Sprintf("%s: resolves %q with an Output and an Error, which carries none", place, r.Name), "remove one of the two")
	}
}
