package statechart

import "github.com/settle-run/settle/runtime/internal/outline"

// Emit returns an action that shows an event to the host's listeners once this step is stored (emit in XState v5). No
// chart receives it: use SendTo for that. The function returns the payload, which must be nil or marshal to a JSON
// object. A nil function means no payload.
func Emit[C any](typ string, fn func(C, Event) any) Action[C] {
	compute := eraseFunc(fn)
	return Action[C]{Name: "emit " + typ, actionBody: actionBody{made: outline.Made{By: outline.Emit, Event: typ, Computed: fn != nil}, run: func(x *interpreter) error {
		return x.emit(typ, x.made(compute))
	}}}
}

// Log returns an action that writes a line to the host's log once this step is stored (SCXML 4.7). The line is lost if
// the host crashes before it writes.
func Log[C any](fn func(C, Event) string) Action[C] {
	return Action[C]{Name: "log", actionBody: actionBody{made: outline.Made{By: outline.Log}, run: func(x *interpreter) error {
		return x.log(fn(*contextOf[C](x), *x.event))
	}}}
}

// Emit shows an event to the host's listeners, as the action Emit does.
func (q Enqueue) Emit(typ string, payload any) error { return q.to.emit(typ, payload) }

// Log writes a line to the host's log, as the action Log does.
func (q Enqueue) Log(message string) error { return q.to.log(message) }

func (x *interpreter) emit(typ string, payload any) error {
	body, err := encodeEvent(typ, payload)
	if err != nil {
		return err
	}
	return x.effect(Effect{Kind: EmitEvent, Event: body})
}

func (x *interpreter) log(message string) error {
	return x.effect(Effect{Kind: LogMessage, Message: message})
}
