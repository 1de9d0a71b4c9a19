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
	erased := resolve(eraseResolutions([]Resolution[C]{r})[0])
	return Action[C]{Name: erased.Name, actionBody: erased.actionBody}
}

func resolve(r Resolution[held]) Action[held] {
	return Action[held]{Name: "resolve " + r.Name, actionBody: actionBody{resolves: &r, run: func(x *interpreter) error {
		answer, err := answerOf(&r, x.context, *x.event)
		if err != nil {
			return err
		}
		x.resolved = true
		return x.effect(answer)
	}}}
}

// answerOf makes the answer of a resolution, still without the state that it tells of.
func answerOf(r *Resolution[held], context held, event Event) (Effect, error) {
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
func (x *interpreter) tellState() {
	if !x.resolved {
		return
	}
	for k := range x.effects {
		if e := &x.effects[k]; e.Kind == ResolveWaits && e.State == nil {
			e.State, e.Tags = x.chart.state(&x.snapshot.configuration), x.chart.tags(&x.snapshot.configuration, nil)
		}
	}
}

// Resolving returns the answer for those who come to wait under a name while the snapshot stands:
// that of the first active state, in document order, whose Resolve has the name. It reports false if
// there is none: they have to wait. The answer is made with the event, and has no ID; an instance
// that is done answers with the state that it ended in.
func (c *Chart[C]) Resolving(snapshot Snapshot[C], name string, event Event) (answer Effect, ok bool, err error) {
	if snapshot.chart != &c.chart {
		return Effect{}, false, c.anothers()
	}
	context := snapshot.Context
	return c.resolving(&snapshot.configuration, &context, name, event)
}

// resolving is Chart.Resolving; it may change the context.
func (c *chart) resolving(configuration *configuration, context held, name string, event Event) (answer Effect, ok bool, err error) {
	for _, i := range c.active(configuration) {
		n := &c.nodes[i]
		for k := range n.def.Resolve {
			if n.def.Resolve[k].Name == name {
				answer, err = c.answer(n, &n.def.Resolve[k], configuration, context, event)
				return answer, err == nil, err
			}
		}
	}
	return Effect{}, false, nil
}

// answer makes the answer of a state's resolution, with a panic as its error.
func (c *chart) answer(n *node, r *Resolution[held], configuration *configuration, context held, event Event) (answer Effect, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Panicked(p)
		}
		if err != nil {
			err = &StepError{Chart: c.id, State: n.path, Event: event.Type, Code: "action resolve " + r.Name, Err: err}
		}
	}()
	if c.contexts.own != nil {
		c.contexts.own(context)
	}
	answer, err = answerOf(n.defaults(*r), context, event)
	answer.State, answer.Tags = c.state(configuration), c.tags(configuration, nil)
	return answer, err
}

// defaults returns a resolution of the state with what is left out.
func (n *node) defaults(r Resolution[held]) *Resolution[held] {
	if r.Outcome == "" {
		r.Outcome = n.def.ID
	}
	return &r
}

// Resolves returns the names under which the chart answers those who wait, in document order, each
// once.
func (c *chart) Resolves() []string {
	var names []string
	known := map[string]bool{}
	add := func(actions []Action[held]) {
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
		for _, transitions := range [][]transition{n.transitions, n.always} {
			for k := range transitions {
				add(transitions[k].actions)
			}
		}
	}
	return names
}

// linkResolve makes the answers of a state actions that follow those of its entry.
func (c *compiler) linkResolve(n *node) {
	n.entry = n.def.Entry
	if len(n.def.Resolve) == 0 {
		return
	}
	n.entry = append([]Action[held]{}, n.def.Entry...)
	for i := range n.def.Resolve {
		n.entry = append(n.entry, resolve(*n.defaults(n.def.Resolve[i])))
	}
}

// checkResolves checks an answer that an action gives.
func (c *compiler) checkResolves(n *node, place string, r *Resolution[held]) {
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
