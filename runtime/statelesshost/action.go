package statelesshost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

const eventBytesMax = durable.EventBytesMax

// The functions below are for guards and actions of a hosted machine, with the context that they
// were called with, and only while they run. Guards only look: they may be asked several times for
// one event. An error of these functions is the action's to return; it fails the step.

// Data returns the data of the instance that is stepped. An action may change it; what it changes is
// stored with the step, or gone if the step fails. It panics if the context is none of a hosted
// machine's, or if the machine's data is no T.
func Data[T any](ctx context.Context) *T {
	s, err := stepOf(ctx)
	if err != nil {
		panic(misuse{err})
	}
	data, ok := s.data.(*T)
	if !ok {
		panic(misuse{fmt.Errorf("expected the data of the machine, a %T, got asked for a %T", s.data, data)})
	}
	return data
}

// misuse is what this package panics with: unlike other panics it holds nothing of an event.
type misuse struct{ error }

// Now returns the time of the step, the only one that a machine should know: a repeated step is to
// do the same.
func Now(ctx context.Context) (time.Time, error) {
	s, err := stepOf(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return s.event.At, nil
}

// Fire puts a trigger at the end of the instance's own queue. It is fired in the same step, when the
// transition under way and what was put there before are over. If no state handles it then, the
// machine's OnUnhandledTrigger decides; as long as that returns an error, as it does by default, the
// step fails.
func Fire(ctx context.Context, trigger stateless.Trigger, args ...any) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	s.queue = append(s.queue, firing{trigger, args})
	return nil
}

// SendTo sends an event to another instance when the step is stored. The payload must marshal to a
// JSON object, or be nil.
func SendTo(ctx context.Context, instance, typ string, payload any) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	if _, err := durable.ParseInstanceID(instance); err != nil {
		return err
	}
	body, err := encode(typ, payload)
	if err != nil {
		return err
	}
	return s.effect(statechart.Effect{Kind: statechart.Send, To: instance, Event: body})
}

// SendAfter sends the instance itself an event of Config.Events when the delay has passed. It comes
// from a durable timer, which lives until the instance ends or Cancel is called with the ID.
func SendAfter(ctx context.Context, id, typ string, delay time.Duration, payload any) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	if delay < 0 {
		return fmt.Errorf("sending event %q: expected a delay from 0, got %v", typ, delay)
	}
	body, err := encode(typ, payload)
	if err != nil {
		return err
	}
	if _, err := s.sent(body); err != nil {
		return fmt.Errorf("sending event %q: %w", typ, err)
	}
	return s.start(statechart.Timer{After: typ, Event: body, Send: id}, delay)
}

// Cancel takes back the events that SendAfter sent under the ID and that have not arrived.
func Cancel(ctx context.Context, id string) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	s.drop(func(t statechart.Timer) bool { return id != "" && t.Send == id })
	return nil
}

// Emit shows an event to whoever listens to the host when the step is stored. The payload must
// marshal to a JSON object, or be nil.
func Emit(ctx context.Context, typ string, payload any) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	body, err := encode(typ, payload)
	if err != nil {
		return err
	}
	return s.effect(statechart.Effect{Kind: statechart.EmitEvent, Event: body})
}

// Log writes a line to the log of the host when the step is stored.
func Log(ctx context.Context, message string) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	return s.effect(statechart.Effect{Kind: statechart.LogMessage, Message: message})
}

// Answer is what those are told who wait for the instance under a name, such as the tasks of Step
// Functions workflows: an outcome, or an error.
type Answer struct {
	Name string
	// Outcome is the word by which they branch, Output what they get beside it: it must marshal to
	// JSON, nil means nothing.
	Outcome string
	Output  any
	// Error, if it is set, makes the answer a failure of this name, in place of an outcome, and
	// Cause the text that explains it.
	Error string
	Cause string
}

// Resolve answers those who wait under a name when the step is stored. Who comes to wait later is
// not answered by it: State.Resolve is for that.
func Resolve(ctx context.Context, a Answer) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	effect, err := a.effect()
	if err != nil {
		return err
	}
	return s.effect(effect)
}

func (a Answer) effect() (statechart.Effect, error) {
	effect := statechart.Effect{Kind: statechart.ResolveWaits, Name: a.Name, Outcome: a.Outcome}
	switch {
	case a.Name == "":
		return effect, errors.New("expected the name under which a task waits, got none")
	case a.Outcome == "" && a.Error == "":
		return effect, fmt.Errorf("answering %q: expected an outcome or an error, got neither", a.Name)
	case a.Error != "" && a.Output != nil:
		return effect, fmt.Errorf("answering %q: an error carries no output", a.Name)
	case a.Error == "" && a.Cause != "":
		return effect, fmt.Errorf("answering %q: expected an error with the cause, got none", a.Name)
	case a.Error != "":
		effect.Outcome, effect.Error, effect.Message = "", a.Error, a.Cause
		return effect, nil
	case a.Output == nil:
		return effect, nil
	}
	output, err := json.Marshal(a.Output)
	if err != nil {
		return effect, fmt.Errorf("answering %q: encoding the output: %w", a.Name, err)
	}
	effect.Output = output
	return effect, nil
}
