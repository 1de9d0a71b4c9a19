package statechart

import (
	"context"
	"reflect"

	"github.com/settle-run/settle/runtime/internal/readjson"
)

// erased is a pointer to a context of any type. The engine is compiled once for all context types. Functions over a
// context type C convert the pointer back to a *C.
type erased any

// contextOf returns the context of the current step.
func contextOf[C any](x *interpreter) *C { return x.context.(*C) }

// contexts holds the operations on a chart's contexts.
type contexts struct {
	typ reflect.Type
	// keys holds the keys of a stored context. It is nil for a foreign chart.
	keys *readjson.Keys
	// `own` replaces the context by a copy that may be changed. It is nil if plain assignment is a full copy.
	own func(erased)
	// keep saves the value of a context and returns a function that restores it.
	keep func(erased) (restore func())
	// problem is the reason why a context cannot be copied, or nil.
	problem error
}

// contextsOf returns the operations for contexts of the type C, which `clone` copies.
func contextsOf[C any](clone func(C) C, problem error) contexts {
	made := contexts{typ: reflect.TypeFor[C](), problem: problem, keep: func(h erased) func() {
		context := h.(*C)
		kept := *context
		return func() { *context = kept }
	}}
	if clone != nil {
		made.own = func(h erased) {
			context := h.(*C)
			*context = clone(*context)
		}
	}
	return made
}

// The functions below convert parts of a definition over C to parts over erased contexts. The results and the originals
// share everything that does not depend on the context type. Nil lists become empty lists, except lists of states and
// guards. The engine treats a nil list like an empty list.

// stateList identifies a list of states.
type stateList struct {
	first  any
	length int
}

// eraseStates converts a list of states. For each list whose conversion has begun, `begun` holds the result. A
// definition that contains itself stays cyclic, and the compiler rejects it because of its depth.
func eraseStates[C any](states []State[C], begun map[stateList][]State[erased]) []State[erased] {
	if len(states) == 0 {
		return nil
	}
	list := stateList{&states[0], len(states)}
	if done, ok := begun[list]; ok {
		return done
	}
	out := make([]State[erased], len(states))
	begun[list] = out
	for i := range states {
		s := &states[i]
		out[i] = State[erased]{
			ID: s.ID, Type: s.Type, Initial: s.Initial, DefaultEntry: eraseActions(s.DefaultEntry), States: eraseStates(s.States, begun),
			Tags: s.Tags, Entry: eraseActions(s.Entry), Exit: eraseActions(s.Exit), On: eraseTransitions(s.On),
			Always: eraseTransitions(s.Always), After: eraseAfters(s.After), Invoke: eraseInvokes(s.Invoke),
			Children: eraseChildren(s.Children), Defer: s.Defer, Resolve: eraseResolutions(s.Resolve), OnDone: eraseTransitions(s.OnDone),
			Target: s.Target, Output: eraseFunc(s.Output), OutputParams: s.OutputParams, Doc: s.Doc, Meta: s.Meta,
		}
	}
	return out
}

func eraseTransitions[C any](transitions []Transition[C]) []Transition[erased] {
	out := make([]Transition[erased], len(transitions))
	for i := range transitions {
		t := &transitions[i]
		out[i] = Transition[erased]{
			Event: t.Event, Target: t.Target, Guard: eraseGuard(&t.Guard), Actions: eraseActions(t.Actions), Reenter: t.Reenter, Doc: t.Doc,
		}
	}
	return out
}

func eraseActions[C any](actions []Action[C]) []Action[erased] {
	out := make([]Action[erased], len(actions))
	for i := range actions {
		a := &actions[i]
		out[i] = Action[erased]{Name: a.Name, Params: a.Params, actionBody: a.actionBody}
	}
	return out
}

func eraseGuard[C any](g *Guard[C]) Guard[erased] {
	out := Guard[erased]{Name: g.Name, Params: g.Params, guardBody: g.guardBody}
	for i := range g.of {
		out.of = append(out.of, eraseGuard(&g.of[i]))
	}
	return out
}

func eraseAfters[C any](afters []After[C]) []After[erased] {
	out := make([]After[erased], len(afters))
	for i := range afters {
		a := &afters[i]
		out[i] = After[erased]{
			ID: a.ID, Delay: a.Delay, DelayFunc: eraseFunc(a.DelayFunc), At: eraseFunc(a.At),
			Target: a.Target, Guard: eraseGuard(&a.Guard), Actions: eraseActions(a.Actions), Reenter: a.Reenter, Doc: a.Doc,
		}
	}
	return out
}

func eraseInvokes[C any](invokes []Invoke[C]) []Invoke[erased] {
	out := make([]Invoke[erased], len(invokes))
	for i := range invokes {
		v := &invokes[i]
		service := Service[erased]{Name: v.Service.Name, Params: v.Service.Params, result: v.Service.result}
		if run := v.Service.Run; run != nil {
			service.Run = func(ctx context.Context, h erased, call Call) (any, error) { return run(ctx, *h.(*C), call) }
		}
		out[i] = Invoke[erased]{
			ID: v.ID, Service: service, Timeout: v.Timeout, Retry: v.Retry, Limit: v.Limit,
			OnDone: eraseTransitions(v.OnDone), OnError: eraseTransitions(v.OnError),
		}
		if key := v.LimitKey; key != nil {
			out[i].LimitKey = func(h erased) string { return key(*h.(*C)) }
		}
	}
	return out
}

func eraseChildren[C any](children []Child[C]) []Child[erased] {
	out := make([]Child[erased], len(children))
	for i := range children {
		c := &children[i]
		out[i] = Child[erased]{
			ID: c.ID, Machine: c.Machine, Input: eraseFunc(c.Input), InputParams: c.InputParams,
			OnDone: eraseTransitions(c.OnDone), OnError: eraseTransitions(c.OnError),
		}
	}
	return out
}

func eraseResolutions[C any](resolutions []Resolution[C]) []Resolution[erased] {
	out := make([]Resolution[erased], len(resolutions))
	for i := range resolutions {
		r := &resolutions[i]
		out[i] = Resolution[erased]{Name: r.Name, Outcome: r.Outcome, Output: eraseFunc(r.Output), Error: r.Error, Cause: eraseFunc(r.Cause)}
	}
	return out
}

// eraseFunc converts a function. It returns nil for nil.
func eraseFunc[C, R any](fn func(C, Event) R) func(erased, Event) R {
	if fn == nil {
		return nil
	}
	return func(h erased, e Event) R { return fn(*h.(*C), e) }
}
