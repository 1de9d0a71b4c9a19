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

// TargetPath returns the path of the state that one target reference of the state with the given
// path names; "" is the root. It reports false if there is no such state or no such target.
func (c *chart) TargetPath(state, reference string) (string, bool) {
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
	return Action[C]{Name: "raise " + typ, Params: event, actionBody: actionBody{raises: typ, made: Made{By: MadeByRaiseJSON, Event: typ}, run: func(x *interpreter) error {
		raised, err := x.chart.sent(event)
		if err != nil {
			return err
		}
		x.raise(raised)
		return nil
	}}}
}
