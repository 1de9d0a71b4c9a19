package statechart

import (
	"context"
	"reflect"
)

// held is a context as the engine holds it: a pointer to a C. The engine does not know C, so that a program has it once
// and not anew for each of its charts; what was made for a C does, and takes its context back with contextOf.
type held any

// contextOf returns the context of the step that is taken.
func contextOf[C any](x *interpreter) *C { return x.context.(*C) }

// contexts is what the engine knows of the contexts of a chart.
type contexts struct {
	typ reflect.Type
	// own makes a held context one that can be changed while copies of it stay as they are. Nil where
	// assignment copies all of it.
	own func(held)
	// keep returns a function that makes a held context again what it is now.
	keep func(held) (restore func())
	// problem says why a context cannot be copied, nil if it can.
	problem error
}

// contextsOf describes the contexts that clone copies.
func contextsOf[C any](clone func(C) C, problem error) contexts {
	made := contexts{typ: reflect.TypeFor[C](), problem: problem, keep: func(h held) func() {
		context := h.(*C)
		kept := *context
		return func() { *context = kept }
	}}
	if clone != nil {
		made.own = func(h held) {
			context := h.(*C)
			*context = clone(*context)
		}
	}
	return made
}

// The functions below make, of parts of a definition over a C, the same parts over held contexts. What does not mention
// the context is shared. Lists that are nil become empty ones, but for those of states and guards: the engine does not tell them apart.

// stateList tells lists of states apart.
type stateList struct {
	first  any
	length int
}

// eraseStates notes in begun the lists that it has begun: a definition that contains itself becomes one that does so too, and
// is refused for its depth.
func eraseStates[C any](states []State[C], begun map[stateList][]State[held]) []State[held] {
	if len(states) == 0 {
		return nil
	}
	list := stateList{&states[0], len(states)}
	if erased, ok := begun[list]; ok {
		return erased
	}
	erased := make([]State[held], len(states))
	begun[list] = erased
	for i := range states {
		s := &states[i]
		erased[i] = State[held]{
			ID: s.ID, Type: s.Type, Initial: s.Initial, DefaultEntry: eraseActions(s.DefaultEntry), States: eraseStates(s.States, begun),
			Tags: s.Tags, Entry: eraseActions(s.Entry), Exit: eraseActions(s.Exit), On: eraseTransitions(s.On),
			Always: eraseTransitions(s.Always), After: eraseAfters(s.After), Invoke: eraseInvokes(s.Invoke),
			Children: eraseChildren(s.Children), Defer: s.Defer, Resolve: eraseResolutions(s.Resolve), OnDone: eraseTransitions(s.OnDone),
			Target: s.Target, Output: eraseFunc(s.Output), OutputParams: s.OutputParams, Doc: s.Doc, Meta: s.Meta,
		}
	}
	return erased
}

func eraseTransitions[C any](transitions []Transition[C]) []Transition[held] {
	erased := make([]Transition[held], len(transitions))
	for i := range transitions {
		t := &transitions[i]
		erased[i] = Transition[held]{
			Event: t.Event, Target: t.Target, Guard: eraseGuard(&t.Guard), Actions: eraseActions(t.Actions), Reenter: t.Reenter, Doc: t.Doc,
		}
	}
	return erased
}

func eraseActions[C any](actions []Action[C]) []Action[held] {
	erased := make([]Action[held], len(actions))
	for i := range actions {
		a := &actions[i]
		erased[i] = Action[held]{Name: a.Name, Params: a.Params, actionBody: a.actionBody}
	}
	return erased
}

func eraseGuard[C any](g *Guard[C]) Guard[held] {
	erased := Guard[held]{Name: g.Name, Params: g.Params, guardBody: g.guardBody}
	for i := range g.of {
		erased.of = append(erased.of, eraseGuard(&g.of[i]))
	}
	return erased
}

func eraseAfters[C any](afters []After[C]) []After[held] {
	erased := make([]After[held], len(afters))
	for i := range afters {
		a := &afters[i]
		erased[i] = After[held]{
			ID: a.ID, Delay: a.Delay, DelayFunc: eraseFunc(a.DelayFunc), At: eraseFunc(a.At),
			Target: a.Target, Guard: eraseGuard(&a.Guard), Actions: eraseActions(a.Actions), Reenter: a.Reenter, Doc: a.Doc,
		}
	}
	return erased
}

func eraseInvokes[C any](invokes []Invoke[C]) []Invoke[held] {
	erased := make([]Invoke[held], len(invokes))
	for i := range invokes {
		v := &invokes[i]
		service := Service[held]{Name: v.Service.Name, Params: v.Service.Params, result: v.Service.result}
		if run := v.Service.Run; run != nil {
			service.Run = func(ctx context.Context, h held, call Call) (any, error) { return run(ctx, *h.(*C), call) }
		}
		erased[i] = Invoke[held]{
			ID: v.ID, Service: service, Timeout: v.Timeout, Retry: v.Retry,
			OnDone: eraseTransitions(v.OnDone), OnError: eraseTransitions(v.OnError),
		}
	}
	return erased
}

func eraseChildren[C any](children []Child[C]) []Child[held] {
	erased := make([]Child[held], len(children))
	for i := range children {
		c := &children[i]
		erased[i] = Child[held]{
			ID: c.ID, Machine: c.Machine, Input: eraseFunc(c.Input), InputParams: c.InputParams,
			OnDone: eraseTransitions(c.OnDone), OnError: eraseTransitions(c.OnError),
		}
	}
	return erased
}

func eraseResolutions[C any](resolutions []Resolution[C]) []Resolution[held] {
	erased := make([]Resolution[held], len(resolutions))
	for i := range resolutions {
		r := &resolutions[i]
		erased[i] = Resolution[held]{Name: r.Name, Outcome: r.Outcome, Output: eraseFunc(r.Output), Error: r.Error, Cause: eraseFunc(r.Cause)}
	}
	return erased
}

// eraseFunc returns nil for nil.
func eraseFunc[C, R any](fn func(C, Event) R) func(held, Event) R {
	if fn == nil {
		return nil
	}
	return func(h held, e Event) R { return fn(*h.(*C), e) }
}
