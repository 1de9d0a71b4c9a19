package statechart

import (
	"encoding/json"
	"fmt"
)

// Resolution answers callers that wait for an instance under a name, such as tasks of Step Functions workflows. The
// answer is an outcome or a failure.
type Resolution[C any] struct {
	Name    string // the name that callers wait under
	Outcome string // the word that callers branch on; in State.Resolve it defaults to the state's ID
	// Output returns additional data for the answer. The data must marshal to JSON. A nil function means no data.
	Output func(C, Event) any
	// Error, if set, makes the answer a failure with this name. Cause explains the failure, and may be nil.
	Error string
	Cause func(C, Event) string
}

// Resolve returns an action that answers the callers now waiting under r.Name. For later callers, set State.Resolve.
func Resolve[C any](r Resolution[C]) Action[C] {
	erased := resolve(eraseResolutions([]Resolution[C]{r})[0])
	return Action[C]{Name: erased.Name, actionBody: erased.actionBody}
}

func resolve(r Resolution[erased]) Action[erased] {
	return Action[erased]{Name: "resolve " + r.Name, actionBody: actionBody{resolves: &r, run: func(x *interpreter) error {
		answer, err := answerOf(&r, x.context, *x.event)
		if err != nil {
			return err
		}
		x.resolved = true
		return x.effect(answer)
	}}}
}

// answerOf returns the answer of a resolution. State and Tags are missing: completeAnswers or chart.answer adds them.
func answerOf(r *Resolution[erased], context erased, event Event) (Effect, error) {
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

// completeAnswers adds the states and tags that are active after the macrostep to the step's ResolveWaits effects.
func (x *interpreter) completeAnswers() {
	if !x.resolved {
		return
	}
	for k := range x.effects {
		if e := &x.effects[k]; e.Kind == ResolveWaits && e.State == nil {
			e.State, e.Tags = x.chart.state(&x.snapshot.configuration), x.chart.tags(&x.snapshot.configuration, nil)
		}
	}
}

// Resolving returns the answer for a caller that starts to wait under a name now. The answer comes from the first
// active state in document order whose Resolve has the name. In a finished instance, the states in which it ended count
// as active. ok is false if the caller must wait. The answer has no ID.
func (c *Chart[C]) Resolving(snapshot Snapshot[C], name string, event Event) (answer Effect, ok bool, err error) {
	if snapshot.chart != &c.chart {
		return Effect{}, false, c.otherChart()
	}
	context := snapshot.Context
	return c.resolving(&snapshot.configuration, &context, name, event)
}

// resolving is Chart.Resolving. It may change the context.
func (c *chart) resolving(configuration *configuration, context erased, name string, event Event) (answer Effect, ok bool, err error) {
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

// answer computes the answer of a state's resolution. It returns a panic as an error.
func (c *chart) answer(n *node, r *Resolution[erased], configuration *configuration, context erased, event Event) (answer Effect, err error) {
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

// defaults fills in the defaults of a state's resolution.
func (n *node) defaults(r Resolution[erased]) *Resolution[erased] {
	if r.Outcome == "" {
		r.Outcome = n.def.ID
	}
	return &r
}

// resolves returns the names under which the chart answers callers, in document order without duplicates.
func (c *chart) resolves() []string {
	var names []string
	known := map[string]bool{}
	add := func(actions []Action[erased]) {
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

// linkResolve appends the answers of a state to its entry actions.
func (c *compiler) linkResolve(n *node) {
	n.entry = n.def.Entry
	if len(n.def.Resolve) == 0 {
		return
	}
	n.entry = append([]Action[erased]{}, n.def.Entry...)
	for i := range n.def.Resolve {
		n.entry = append(n.entry, resolve(*n.defaults(n.def.Resolve[i])))
	}
}

func (c *compiler) checkResolves(n *node, place string, r *Resolution[erased]) {
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
