package statechart

import "github.com/settle-run/settle/runtime/internal/outline"

// Emit returns an action that shows an event to the host's listeners, but to no chart (emit in XState v5). A nil
// function means no payload.
func Emit[C any](typ string, fn func(C, Event) any) Action[C] {
	compute := eraseFunc(fn)
	return Action[C]{Name: "emit " + typ, actionBody: actionBody{made: outline.Made{By: outline.Emit, Event: typ, Computed: fn != nil}, run: func(x *interpreter) error {
		return x.emit(typ, x.made(compute))
	}}}
}

// Log returns an action that writes a line to the host's log (SCXML 4.7). A crash may lose the line.
func Log[C any](fn func(C, Event) string) Action[C] {
	return Action[C]{Name: "log", actionBody: actionBody{made: outline.Made{By: outline.Log}, run: func(x *interpreter) error {
		return x.log(fn(*contextOf[C](x), *x.event))
	}}}
}

// Emit shows an event to the host's listeners.
func (q Enqueue) Emit(typ string, payload any) error { return q.to.emit(typ, payload) }

// Log writes a line to the host's log.
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
