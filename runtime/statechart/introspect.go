package statechart

import "encoding/json"

// Maker names the constructor of an action.
type Maker int

// The constructors that Made reports. The zero value stands for all others.
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

// Made describes how an action was constructed, for exporters of charts.
type Made struct {
	By Maker
	// Event is the event type given to Raise, RaiseWith, SendAfter, Emit or SendToChild. ID is the ID given to
	// SendAfter, Cancel, Spawn, StopChild or SendToChild. Machine is the machine given to Spawn.
	Event, ID, Machine string
	// Computed is set if Emit, Spawn or SendToChild was given a function.
	Computed bool
}

// Made returns how the action was constructed.
func (a Action[C]) Made() Made { return a.made }

// GuardMaker names the constructor of a composed guard or of an In guard.
type GuardMaker int

// The constructors that Guard.Made reports. The zero value stands for all others.
const (
	MadeByWhen GuardMaker = iota
	MadeByAnd
	MadeByOr
	MadeByNot
	MadeByIn
)

// GuardMade describes how a guard was constructed.
type GuardMade[C any] struct {
	By GuardMaker
	// Of holds the operands of And, Or and Not.
	Of []Guard[C]
	// In is the path given to In.
	In string
}

// Made returns how the guard was constructed.
func (g Guard[C]) Made() GuardMade[C] { return GuardMade[C]{By: g.made, Of: g.of, In: g.in} }

// IsZero reports whether the guard is the zero value, which always holds.
func (g Guard[C]) IsZero() bool { return g.test == nil && g.Name == "" }

// Erased is the context type of an Outline. It stands for any context type.
type Erased = erased

// Outline is the structure of a chart without the type of its context, so that exporters need not know the type. Its
// functions must not be called.
type Outline struct {
	// Root is the root state, with the fields of the Definition. Its ID is the chart's.
	Root *State[Erased]
	// Version is the chart's version.
	Version int
	// Payloads are the declared events.
	Payloads Payloads
	// ContextParams and OutputParams are the fields of the Definition. They are nil if the Definition lacks the function.
	ContextParams, OutputParams json.RawMessage
	// UsesChildren is set if some state has Children or some action refers to a child, except in EnqueueActions.
	UsesChildren bool
	chart        *chart
}

// Outline returns the structure of the chart. Callers must not modify it.
func (c *Chart[C]) Outline() *Outline {
	outline := &Outline{Root: c.nodes[0].def, Version: c.version, Payloads: c.definition.Payloads, UsesChildren: c.usesChildren, chart: &c.chart}
	if c.definition.Context != nil {
		outline.ContextParams = c.definition.ContextParams
	}
	if c.definition.Output != nil {
		outline.OutputParams = c.definition.OutputParams
	}
	return outline
}

// TargetPath resolves a target reference of the state with the given path to the path of a state. "" is the root. It
// reports false if the state or the target does not exist.
func (o *Outline) TargetPath(state, reference string) (string, bool) {
	c := o.chart
	from, ok := c.byPath[state]
	if !ok {
		return "", false
	}
	to, problem := (&compiler{chart: c}).target(&c.nodes[from], reference)
	if problem != "" {
		return "", false
	}
	return c.nodes[to].path, true
}

// InternalTypes returns the event types that only the chart itself raises, sorted.
func (p Payloads) InternalTypes() []string {
	var types []string
	for _, typ := range sortedKeys(p) {
		if p[typ].internal {
			types = append(types, typ)
		}
	}
	return types
}

// RaiseJSON is Raise for an event in JSON form: an object with the type and the payload's keys. It is decoded as the
// chart declares it.
func RaiseJSON[C any](typ string, event json.RawMessage) Action[C] {
	return Action[C]{Name: "raise " + typ, Params: event, actionBody: actionBody{raises: typ, made: Made{By: MadeByRaiseJSON, Event: typ}, run: func(x *interpreter) error {
		raised, err := x.chart.sent(event)
		if err != nil {
			return err
		}
		x.raise(raised)
		return nil
	}}}
}
