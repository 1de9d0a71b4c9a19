package statelesshost

import (
	"time"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/statechart"
)

// Config describes how a stateless machine is hosted. T is the data of one instance, stored as the instance's context.
// If an action keeps data elsewhere, all instances in the process share it, and it is lost when the process ends.
//
// The host copies the data before each step, so that a failed step changes nothing. If T has a method Clone() T, that
// method makes the copy. Otherwise reflection makes the copy, as for the context of a chart.
type Config[T any] struct {
	// ID and Version are as in a chart: see statechart.Definition.
	ID      string
	Version int

	// Machine is the machine that all instances share. It must come from NewStateMachine. Configure it before New and
	// do not change it afterwards. Set exactly one of Machine and Build.
	Machine *stateless.StateMachine
	// Build returns a new machine for each step, in either firing mode. The machine must start in the given state and
	// use the given data, which is the step's copy. New calls Build too, with a zero T, to find out how states nest.
	Build func(state stateless.State, data *T) *stateless.StateMachine

	// Initial is the state of a new instance. It must be settled. As in stateless, its entry actions do not run.
	Initial stateless.State
	// Data returns the data of a new instance. Nil means the zero T.
	Data func(statechart.Start) T
	// States lists every state of the machine, including superstates, in the order of the diagram.
	States []State[T]
	// Events declares the event types that the machine accepts from outside, by type.
	Events map[string]Event

	// StartedBy names the event types that may create an instance. Nil means all of Events.
	StartedBy []string
	// Retention is how long the item of a finished instance is kept. Zero means forever.
	Retention time.Duration
	// BacklogAgeMax is as in durable.MachineConfig.
	BacklogAgeMax time.Duration
}

// State describes one state to the runtime.
type State[T any] struct {
	// State is the value that was passed to the machine's Configure.
	State stateless.State
	// Name is the state's name in snapshots and diagrams. Empty means fmt.Sprint(State).
	Name string
	// Tags apply to an instance that is in the state or in a substate. An instance may wait for events only in states
	// that are tagged statechart.Settled themselves.
	Tags []string
	// Final ends the instance in this state once no trigger is left. Output returns the instance's output, which must
	// marshal to JSON; nil means none.
	Final  bool
	Output func(T) any
	// After lists the timers that start when the state is entered and end when it is left.
	After []After
	// Resolve lists the answers to tasks that wait for the instance, as in a chart's state. The instance answers the
	// tasks when it has entered the state, after the entry actions. It also answers tasks that start to wait later.
	Resolve []statechart.Resolution[T]
}

// After fires a trigger, without arguments, some time after its state was entered.
type After struct {
	// ID identifies the timer within its state, also in stored snapshots. Empty means Delay as text, such as "5m0s".
	ID      string
	Delay   time.Duration
	Trigger stateless.Trigger
}

// Event describes the trigger that an event fires, and its arguments.
type Event struct {
	// Trigger is the value that the machine was configured with. Nil means the event's type.
	Trigger stateless.Trigger
	// Payload declares the event's payload. The zero value means none.
	Payload statechart.Payload
	// Args returns the trigger's arguments for the payload. Nil means the payload as the only argument, or no
	// arguments if the event has no payload.
	Args func(payload any) []any
}
