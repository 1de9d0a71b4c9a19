package statelesshost

import (
	"time"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/statechart"
)

// Config says how a stateless machine is hosted. T is the data of one instance, stored with it as
// its context: what an action keeps anywhere else is shared by all instances, and lost.
//
// T is copied before each step, so that a step that fails leaves nothing behind: by its method
// Clone() T if it has one, or else by reflection, as the context of a chart is.
type Config[T any] struct {
	// ID and Version are those of a chart: see statechart.Definition.
	ID      string
	Version int

	// Machine is the machine that all instances share. It must come from NewStateMachine, and be
	// configured before New and not changed after it. Exactly one of Machine and Build is set.
	Machine *stateless.StateMachine
	// Build makes a machine of its own for each step, around the state and the data that the step
	// begins with, in either firing mode. What it closes over data is the copy of the step. It must
	// return a new machine each time. New calls it too, with a zero T, to learn how states nest.
	Build func(state stateless.State, data *T) *stateless.StateMachine

	// Initial is the state of a new instance. Its entry actions do not run, as they do not when
	// stateless makes a machine. It must be settled.
	Initial stateless.State
	// Data makes the data of a new instance. Nil means the zero T.
	Data func(statechart.Start) T
	// States lists every state of the machine, superstates included, in the order of the diagram.
	States []State[T]
	// Events declares the event types that the machine takes from outside, by type.
	Events map[string]Event

	// StartedBy names the event types that may create an instance. Nil means all of Events.
	StartedBy []string
	// Retention is how long the item of an instance that is done is kept. Zero means for ever.
	Retention time.Duration
}

// State says what the runtime has to know of one state.
type State[T any] struct {
	// State is the value that the machine was configured with.
	State stateless.State
	// Name is stored with instances and shown. Empty means fmt.Sprint(State).
	Name string
	// Tags are on an instance that is in the state or in a substate of it. An instance may wait for
	// events where the state itself is tagged statechart.Settled.
	Tags []string
	// Final ends the instance that is in the state once no trigger is left. Output makes its
	// output, which must marshal to JSON; nil means none.
	Final  bool
	Output func(T) any
	// After are the timers that start when the state is entered and end when it is left.
	After []After
	// Resolve are the answers to those outside who wait for the instance, as a chart's state has
	// them: given when the state is entered, after its entry actions, and to whoever comes later.
	Resolve []statechart.Resolution[T]
}

// After fires a trigger, without arguments, when a time has passed since its state was entered.
type After struct {
	// ID names the timer within its state, in stored snapshots too. Empty means Delay as text,
	// such as "5m0s".
	ID      string
	Delay   time.Duration
	Trigger stateless.Trigger
}

// Event says which trigger an event fires, and with which arguments.
type Event struct {
	// Trigger is the value that the machine was configured with. Nil means the event's type.
	Trigger stateless.Trigger
	// Payload declares what the event carries; the zero value means nothing.
	Payload statechart.Payload
	// Args makes the arguments of the trigger from the payload. Nil means the payload alone, or
	// none if the event carries nothing.
	Args func(payload any) []any
}
