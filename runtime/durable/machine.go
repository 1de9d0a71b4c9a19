package durable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Machine is a chart that the runtime hosts. Host returns a Machine.
type Machine interface {
	ID() string
	Version() int
	// Events returns the types of the events that the machine accepts from outside, sorted.
	Events() []string
	// Decode reads an event. Its errors wrap statechart.ErrNotAnEvent, ErrUndeclared or ErrPayload.
	Decode(body []byte) (statechart.Event, error)
	// StartedBy reports whether an event of the type may create an instance.
	StartedBy(eventType string) bool
	// Check returns an error if NewMachines must refuse the machine, for example if StartedBy names an unknown event.
	Check() error
	// Retention is MachineConfig.Retention, and BacklogAgeMax is MachineConfig.BacklogAgeMax.
	Retention() time.Duration
	BacklogAgeMax() time.Duration
	// TakesInput reports whether an instance starts with an input. Then only a parent can start it.
	TakesInput() bool
	// DecodeInput reads an input for Start. An empty body or null means no input. Its errors wrap statechart.ErrPayload.
	DecodeInput(body []byte) (any, error)
	// Start makes a new instance in its initial configuration.
	Start(start statechart.Start) (Instance, []statechart.Effect, error)
	// Stopped makes an instance that was stopped before it started. It needs no input and runs no code of the machine,
	// except to store and restore the zero value of its data. It returns an error if that fails.
	Stopped() (Instance, error)
	// Restore makes an instance from its stored snapshot.
	Restore(snapshot json.RawMessage) (Instance, error)
	// Describe returns the chart's declarations. Every call returns the same value.
	Describe() statechart.Description
	// Mermaid returns the chart as a Mermaid state diagram. The states with the given paths have the class current.
	Mermaid(current ...string) string
	// Outline returns the structure of the chart, or nil if the machine is not a chart of package statechart.
	Outline() *statechart.Outline
}

// Instance is an instance in memory: a snapshot that hides the type of its context. It is a value: methods that change
// it return the changed instance and leave the original unchanged. Only one goroutine at a time may use an instance and
// the values made from it, except for Work.Run.
type Instance interface {
	// Apply takes one macrostep.
	Apply(event statechart.Event) (next Instance, effects []statechart.Effect, handled bool, err error)
	// Stop ends the instance from outside, with the status Stopped. `stopped` is false if it has already ended.
	Stop(at time.Time) (next Instance, effects []statechart.Effect, stopped bool, err error)
	// Move enters the state with the path from outside: see statechart.Stepper.Move. The instance must be active.
	Move(path string, at time.Time) (next Instance, effects []statechart.Effect, err error)
	// Trace sets a function that receives the microsteps, for the instance and all values made from it.
	Trace(report func(statechart.Microstep))
	// Limit sets the maximum size of a snapshot's JSON form, for the instance and all values made from it. A deferred
	// event that would exceed the limit is parked.
	Limit(snapshotBytesMax int)
	// Snapshot returns the JSON form of the snapshot.
	Snapshot() (json.RawMessage, error)
	Status() statechart.Status
	Settled() bool
	State() []string
	// NextEvents returns the types of the events from outside for which an active state has a transition, sorted.
	NextEvents() []string
	Timers() []statechart.Timer
	Defers() bool // whether deferred events wait
	// Children returns the active child instances.
	Children() []statechart.ChildRef
	// Resolving returns the answer to a task that begins to wait under the name. ok is false if the task has to wait.
	Resolving(name string, event statechart.Event) (answer statechart.Effect, ok bool, err error)
	// Invocations returns the services that have not ended.
	Invocations() []statechart.Invocation
	// WithAttempt sets Attempt and RetryAt of the invocation with the key.
	WithAttempt(key string, attempt int, retryAt time.Time) Instance
	// Prepare returns one attempt of the invocation, with a copy of the current context.
	Prepare(invocation statechart.Invocation, call statechart.Call) (Work, error)
}

// Work is one attempt of a service, ready to run.
type Work struct {
	// Run performs the attempt. It may run concurrently with other uses of the instance.
	Run func(context.Context) (any, error)
	// Timeout limits the attempt. Zero means only the loop's own limit.
	Timeout time.Duration
	// Retry says whether and when another attempt follows.
	Retry statechart.RetryPolicy
	// Limit limits the attempts of all instances with the same LimitKey. The zero value means no limit.
	Limit    statechart.Limit
	LimitKey string
}

// MachineConfig tunes how a chart is hosted. The zero value is useful.
type MachineConfig struct {
	// StartedBy names the event types that may create an instance. Nil means all event types that the chart declares.
	// Other events are parked if the instance does not exist. A parent can always start a child, whatever StartedBy
	// says. NewMachines refuses a name that is neither an event of the chart nor WaitEvent.
	StartedBy []string
	// Retention is how long an item is kept after its instance is done or stopped. Zero means forever.
	Retention time.Duration
	// BacklogAgeMax is the age of a backlog (Loaded.Backlog) above which package producer refuses new events for the
	// instance. Set it longer than the machine's services take. Zero means no limit.
	BacklogAgeMax time.Duration
}

// Host makes a machine from a chart.
func Host[C any](chart *statechart.Chart[C], config MachineConfig) Machine {
	return &hosted[C]{Chart: chart, config: config}
}

// hosted implements Machine for a chart.
type hosted[C any] struct {
	*statechart.Chart[C]
	config MachineConfig
}

func (m *hosted[C]) StartedBy(eventType string) bool {
	return m.config.StartedBy == nil || slices.Contains(m.config.StartedBy, eventType)
}

// Check implements Machine. It checks the names in StartedBy.
func (m *hosted[C]) Check() error {
	for _, typ := range m.config.StartedBy {
		if !slices.Contains(m.Events(), typ) && typ != WaitEvent {
			return fmt.Errorf("machine %q: expected StartedBy to name events that its chart accepts from outside (%s) or %s, got %q: correct the name, or declare the event in Payloads",
				m.ID(), strings.Join(m.Events(), ", "), WaitEvent, typ)
		}
	}
	return nil
}

func (m *hosted[C]) Retention() time.Duration     { return m.config.Retention }
func (m *hosted[C]) BacklogAgeMax() time.Duration { return m.config.BacklogAgeMax }

func (m *hosted[C]) Start(start statechart.Start) (Instance, []statechart.Effect, error) {
	stepper := m.stepper()
	started, effects, err := stepper.Start(start)
	if err != nil {
		return nil, nil, err
	}
	return &instance[C]{chart: m.Chart, stepper: stepper, snapshot: started}, effects, nil
}

func (m *hosted[C]) Stopped() (Instance, error) {
	snapshot, err := marshalSafely(m.Chart.Stopped())
	if err != nil {
		return nil, err
	}
	return m.Restore(snapshot)
}

func (m *hosted[C]) Restore(snapshot json.RawMessage) (Instance, error) {
	restored, err := m.Chart.Restore(snapshot)
	if err != nil {
		return nil, err
	}
	return &instance[C]{chart: m.Chart, stepper: m.stepper(), snapshot: restored}, nil
}

// stepper returns a stepper that rejects effects that can never be performed.
func (m *hosted[C]) stepper() *statechart.Stepper[C] {
	stepper := m.Stepper()
	stepper.Accept = checkEffects
	return stepper
}

// instance implements Instance for a chart's snapshot.
type instance[C any] struct {
	chart    *statechart.Chart[C]
	stepper  *statechart.Stepper[C]
	snapshot statechart.Snapshot[C]
}

// Limit implements Instance.
func (i *instance[C]) Limit(snapshotBytesMax int) {
	i.stepper.Fits = func(snapshot statechart.Snapshot[C]) error {
		body, err := marshalSafely(snapshot)
		if err == nil && len(body) > snapshotBytesMax {
			err = &TooLargeError{Bytes: len(body), BytesMax: snapshotBytesMax}
		}
		return err
	}
}

// Apply implements Instance.
func (i *instance[C]) Apply(event statechart.Event) (Instance, []statechart.Effect, bool, error) {
	next := *i
	effects, handled, err := i.stepper.Step(&next.snapshot, &event)
	if err != nil {
		return i, nil, false, err
	}
	return &next, effects, handled, nil
}

// overEventBytesMax is the end of the error for an effect that exceeds EventBytesMax. The outbox stores effects, in an item
// of at most 400 KB. An event from outside may be larger, because the item stores only the part that the chart keeps.
const overEventBytesMax = "has %d bytes, the limit is %d (EventBytesMax): store the data elsewhere and send a reference"

// errEffect is wrapped by the errors of effects that can never be performed.
var errEffect = errors.New("the effect cannot be performed")

// checkEffects rejects effects that can never be performed, before they are committed. In the outbox they would block
// their instance.
func checkEffects(effects []statechart.Effect) error {
	for _, effect := range effects {
		if effect.Kind == statechart.SpawnInstance && len(effect.Input) > instances.EventBytesMax {
			return fmt.Errorf("%w: %s %s of machine %q: the input "+overEventBytesMax, errEffect, effect.Kind, effect.ID, effect.Machine, len(effect.Input), instances.EventBytesMax)
		}
		if effect.Kind == statechart.EmitEvent && len(effect.Event) > instances.EventBytesMax {
			return fmt.Errorf("%w: %s %s: the event "+overEventBytesMax, errEffect, effect.Kind, effect.ID, len(effect.Event), instances.EventBytesMax)
		}
		if effect.Kind == statechart.StartExecution && len(effect.Input) > inputBytesMax {
			return fmt.Errorf("%w: %s %s of the workflow %s: the input has %d bytes, the limit is %d", errEffect, effect.Kind, effect.ID, effect.Name, len(effect.Input), inputBytesMax)
		}
		if effect.Kind != statechart.Send {
			continue
		}
		if _, err := instances.ParseID(effect.To); err != nil && effect.Child == "" {
			return fmt.Errorf("%w: %s %s: %w", errEffect, effect.Kind, effect.ID, err)
		}
		if len(effect.Event) > instances.EventBytesMax {
			return fmt.Errorf("%w: %s %s to %s: the event "+overEventBytesMax, errEffect, effect.Kind, effect.ID, cmp.Or(effect.To, "a child of machine "+effect.Machine), len(effect.Event), instances.EventBytesMax)
		}
	}
	return nil
}

// Stop implements Instance.
func (i *instance[C]) Stop(at time.Time) (Instance, []statechart.Effect, bool, error) {
	next := *i
	effects, stopped, err := i.stepper.Stop(&next.snapshot, at)
	if err == nil {
		err = checkEffects(effects)
	}
	if err != nil {
		return i, nil, false, err
	}
	return &next, effects, stopped, nil
}

// Move implements Instance.
func (i *instance[C]) Move(path string, at time.Time) (Instance, []statechart.Effect, error) {
	next := *i
	effects, _, err := i.stepper.Move(&next.snapshot, path, at)
	if err != nil {
		return i, nil, err
	}
	return &next, effects, nil
}

// Trace implements Instance.
func (i *instance[C]) Trace(report func(statechart.Microstep)) { i.stepper.OnMicrostep = report }

func (i *instance[C]) Snapshot() (json.RawMessage, error) { return marshalSafely(i.snapshot) }

// marshalSafely returns a panic of the context's MarshalJSON as an error.
func marshalSafely[C any](snapshot statechart.Snapshot[C]) (body json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = statechart.Panicked(r)
		}
	}()
	return snapshot.AppendJSON(nil)
}

func (i *instance[C]) Status() statechart.Status            { return i.snapshot.Status }
func (i *instance[C]) Settled() bool                        { return i.snapshot.Settled() }
func (i *instance[C]) State() []string                      { return i.snapshot.State() }
func (i *instance[C]) NextEvents() []string                 { return i.snapshot.NextEvents() }
func (i *instance[C]) Timers() []statechart.Timer           { return i.snapshot.Timers }
func (i *instance[C]) Defers() bool                         { return len(i.snapshot.Deferred) > 0 }
func (i *instance[C]) Invocations() []statechart.Invocation { return i.snapshot.Services }
func (i *instance[C]) Children() []statechart.ChildRef      { return i.snapshot.Children }

func (i *instance[C]) Resolving(name string, event statechart.Event) (statechart.Effect, bool, error) {
	return i.chart.Resolving(i.snapshot, name, event)
}

// WithAttempt implements Instance.
func (i *instance[C]) WithAttempt(key string, attempt int, retryAt time.Time) Instance {
	next := *i
	next.snapshot.Services = slices.Clone(i.snapshot.Services)
	for k := range next.snapshot.Services {
		if next.snapshot.Services[k].Key == key {
			next.snapshot.Services[k].Attempt, next.snapshot.Services[k].RetryAt = attempt, retryAt
		}
	}
	return &next
}

func (i *instance[C]) Prepare(invocation statechart.Invocation, call statechart.Call) (Work, error) {
	invoke, err := i.chart.Service(invocation)
	if err != nil {
		return Work{}, err
	}
	chartContext := i.chart.CloneContext(i.snapshot.Context)
	work := Work{Timeout: invoke.Timeout, Retry: invoke.Retry, Limit: invoke.Limit, Run: func(ctx context.Context) (any, error) {
		return invoke.Service.Run(ctx, chartContext, call)
	}}
	if work.LimitKey, err = limitKey(invoke, chartContext); err != nil {
		err = statechart.Permanent(fmt.Errorf("not called: the key of the limit %q: %w", invoke.Limit.Name, err))
		return Work{Retry: invoke.Retry, Run: func(context.Context) (any, error) { return nil, err }}, nil //nolint:nilerr // The chart receives the error as the end of the service.
	}
	return work, nil
}

// limitKey calls LimitKey, which is code of the chart. It returns an error if the function panics, or if the key is
// longer than statechart.LimitKeyBytesMax.
func limitKey[C any](invoke statechart.Invoke[C], c C) (key string, err error) {
	if invoke.LimitKey == nil {
		return "", nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = statechart.Panicked(r)
		}
	}()
	if key = invoke.LimitKey(c); len(key) > statechart.LimitKeyBytesMax {
		return "", fmt.Errorf("expected at most %d bytes (LimitKeyBytesMax), got %d: use a shorter key", statechart.LimitKeyBytesMax, len(key))
	}
	return key, nil
}
