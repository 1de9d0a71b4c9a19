package statelesshost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

const eventBytesMax = instances.EventBytesMax

// Guards and actions of a hosted machine may call the functions below with their context, while they run. A guard
// should only read data, because it may run several times for one event. If one of these functions returns an error,
// the action should return it too, which fails the step.

// Data returns the data of the instance in the current step. An action may change it. The step stores the change, or
// discards it if the step fails. Data panics if ctx is not from a hosted machine, or if the machine's data is not a
// T.
func Data[T any](ctx context.Context) *T {
	s, _ := ctx.Value(stepKey{}).(*step)
	if s == nil {
		panic(misuse{errNoStep})
	}
	data, ok := s.data.(*T)
	if !ok {
		panic(misuse{fmt.Errorf("expected the data of the machine, a %T, got asked for a %T", s.data, data)})
	}
	return data
}

// misuse is the type of this package's own panics. Unlike other panics, it contains nothing from an event.
type misuse struct{ error }

// Now returns the time of the step. A machine must use no other clock, so that a retried step has the same result.
func Now(ctx context.Context) (time.Time, error) {
	s, err := stepOf(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return s.event.At, nil
}

// Fire adds a trigger to the end of the instance's own queue. The same step fires it, after the current transition
// and the triggers that are already in the queue. If no active state handles the trigger at that point, the
// machine's OnUnhandledTrigger decides. By default OnUnhandledTrigger returns an error, which fails the step.
func Fire(ctx context.Context, trigger stateless.Trigger, args ...any) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	s.queue = append(s.queue, firing{trigger, args})
	return nil
}

// SendTo sends an event to another instance once the step is stored. The payload must marshal to a JSON object, or be
// nil.
func SendTo(ctx context.Context, instance, typ string, payload any) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	if _, err := instances.ParseID(instance); err != nil {
		return err
	}
	body, err := encode(typ, payload)
	if err != nil {
		return err
	}
	return s.effect(statechart.Effect{Kind: statechart.Send, To: instance, Event: body})
}

// SendAfter sends an event of Config.Events to the instance itself after the delay. It uses a durable timer, which ends
// when the instance ends or when an action calls Cancel with the ID.
func SendAfter(ctx context.Context, id, typ string, delay time.Duration, payload any) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	if delay < 0 {
		return fmt.Errorf("sending event %q: expected a delay of at least 0, got %v", typ, delay)
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

// Cancel cancels the events that SendAfter scheduled under the ID and that have not arrived yet.
func Cancel(ctx context.Context, id string) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	s.drop(func(t statechart.Timer) bool { return id != "" && t.Send == id })
	return nil
}

// Emit publishes an event to the host's listeners once the step is stored. The payload must marshal to a JSON object,
// or be nil.
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

// Log writes a line to the log of the host once the step is stored.
func Log(ctx context.Context, message string) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	return s.effect(statechart.Effect{Kind: statechart.LogMessage, Message: message})
}

// Answer is the answer to tasks that wait for the instance under a name, such as tasks of Step Functions workflows:
// an outcome, or an error.
type Answer struct {
	Name string
	// Outcome is the value that a workflow branches on. Output is the data that belongs to the outcome. It must marshal
	// to JSON; nil means none.
	Outcome string
	Output  any
	// Error, if set, makes the answer a failure with this error code, instead of an outcome. Cause explains it.
	Error string
	Cause string
}

// Resolve answers the tasks that wait under a name once the step is stored. It does not answer tasks that start to
// wait later: use State.Resolve for those.
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
		return effect, fmt.Errorf("answering %q: expected an error without output, got both", a.Name)
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
