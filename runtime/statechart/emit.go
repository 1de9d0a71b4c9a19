package statechart

// Emit returns an action that shows an event to whoever listens to the host, once this step is
// stored (emit in XState v5). No chart gets it: SendTo is for that. The function makes the
// payload, which must marshal to a JSON object, or be nil; a nil function means none.
func Emit[C any](typ string, fn func(C, Event) any) Action[C] {
	erased := eraseFunc(fn)
	return Action[C]{Name: "emit " + typ, actionBody: actionBody{made: Made{By: MadeByEmit, Event: typ, Computed: fn != nil}, run: func(x *interpreter) error {
		return x.emit(typ, x.made(erased))
	}}}
}

// Log returns an action that writes a line to the log of the host, once this step is stored
// (SCXML 4.7). A host may lose the line if it dies just then.
func Log[C any](fn func(C, Event) string) Action[C] {
	return Action[C]{Name: "log", actionBody: actionBody{made: Made{By: MadeByLog}, run: func(x *interpreter) error {
		return x.log(fn(*contextOf[C](x), *x.event))
	}}}
}

// Emit shows an event to whoever listens to the host, as the action Emit does.
func (q Enqueue) Emit(typ string, payload any) error { return q.to.emit(typ, payload) }

// Log writes a line to the log of the host, as the action Log does.
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
