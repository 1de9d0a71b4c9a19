package statechart

import (
	"encoding/json"
	"time"
)

// Settled is the tag of the atomic states in which a chart may wait for the outside world.
const Settled = "settled"

// Limits of a chart and of its steps. What exceeds one is refused with an error that names
// the limit; none is silently truncated.
const (
	// MicrostepsMax is how many microsteps one event may bring about before it counts as endless.
	MicrostepsMax = 1000
	// NestingDepthMax is how deep states may nest, the root being at depth 0.
	NestingDepthMax = 32
	// StatesMax is how many states a chart may have, the root included.
	StatesMax = 4096
	// TimersMax is how many timers one snapshot may hold.
	TimersMax = 256
	// ReasonBytesMax is how much of the reason for parking a deferred event is kept.
	ReasonBytesMax = 2 << 10
	// EffectsMax is how many effects one step may ask for, those of the deferred events that it
	// replays included; those that park such events come on top.
	EffectsMax = 256
	// DeferredMax is how many deferred events one snapshot may hold.
	DeferredMax = 64
	// ChildrenMax is how many child instances may live at once.
	ChildrenMax = 64
)

// Definition describes a chart over the context type C. It is plain data; Compile checks it
// and leaves it untouched.
type Definition[C any] struct {
	// ID names the chart: letters, digits, '-', '_'. It is the first half of an instance's
	// name, as in signup/42.
	ID string
	// Version is stored with every snapshot; raise it when a stored snapshot would read
	// differently. At least 1.
	Version int
	// Migrations take snapshots that earlier versions have stored to this one: one from each version, from
	// some version on.
	Migrations []Migration
	// Payloads declares every event type that the chart may receive, with the type of its
	// payload. An event type that is not declared is refused before it reaches the chart.
	Payloads Payloads
	// Input declares the type of Start.Input, with PayloadOf. The zero value means that the chart
	// takes none.
	Input Payload
	// Context makes the context of a new instance. Nil means the zero value of C.
	Context func(Start) C
	// Output makes the output of an instance that reached a top-level final state.
	// Nil means that final state's own output.
	Output func(C, Event) any
	// ContextParams and OutputParams are what Context and Output were made with, as an action's
	// Params are.
	ContextParams, OutputParams json.RawMessage

	// The remaining fields are those of the root state.

	// Initial names the state entered first, as a State's does. Required unless Parallel.
	Initial string
	// DefaultEntry are the actions of the root's initial transition, as a State's are.
	DefaultEntry []Action[C]
	// Parallel makes the top-level states regions that are all active at once.
	Parallel bool
	States   []State[C]
	// Tags are on the chart as long as an instance is. Settled is none for it: only an atomic
	// state waits.
	Tags  []string
	Entry []Action[C]
	Exit  []Action[C]
	On    []Transition[C]
	// Always are tried after those of all other states. A chart that settles guards them.
	Always []Transition[C]
	After  []After[C]
	// Invoke are the services that run from the start to the end of an instance, unless they
	// return before. A chart with a settled state has none, for it could never settle.
	Invoke []Invoke[C]
	// Children are the child instances that live as long as the instance does, unless they end
	// before.
	Children []Child[C]
	// Defer are the descriptors of the events that wait wherever no transition takes them; they are
	// replayed once one does.
	Defer []string
	// Resolve are the answers that those outside who wait for the instance get from the beginning.
	Resolve []Resolution[C]
	// Doc is one sentence about the chart for people, shown in graphs.
	Doc string
	// Meta is what those who show the instance want to know about the chart, as a State's is.
	Meta any
}

// Type is the kind of a state. The zero value means atomic, or compound if it has States.
type Type int

// The types of states (SCXML 3.3 to 3.10).
const (
	// Plain is an atomic state, or a compound one if it has child states.
	Plain Type = iota
	// Parallel is a state whose children are all active while it is.
	Parallel
	// Final is a state that completes its parent.
	Final
	// ShallowHistory stands for the child of its parent that was last active.
	ShallowHistory
	// DeepHistory stands for the atomic descendants of its parent that were last active.
	DeepHistory
)

// State describes one state of a chart.
type State[C any] struct {
	// ID is unique among the state's siblings. The IDs from the top down to a state, joined
	// with dots, are its path: "verifying.sent".
	ID   string
	Type Type
	// Initial names the state entered by default: the ID of a child, or the path of a state
	// further below, as in "child.grandchild"; several, in different regions, are separated by
	// spaces. Required for a compound state.
	Initial string
	// DefaultEntry are the actions of the initial transition (SCXML 3.6). They run after Entry
	// and before the children are entered, and only when the state is entered without naming
	// a state below it. Those of a history state run when its default is entered, after Entry
	// and DefaultEntry of its parent (SCXML 3.10); if the parent was not left, they do not run.
	DefaultEntry []Action[C]
	// States are the children, in document order: the order in which states are entered and
	// in which transitions of parallel regions are taken.
	States []State[C]
	Tags   []string
	Entry  []Action[C]
	Exit   []Action[C]
	// On are the transitions taken on an event; the first that matches and whose guard
	// holds is taken.
	On []Transition[C]
	// Always are the eventless transitions, taken as soon as their guard holds.
	Always []Transition[C]
	// After are the transitions taken when a time has passed since the state was entered.
	After []After[C]
	// Invoke are the services that run while the state is active. A settled state has none.
	Invoke []Invoke[C]
	// Children are the child instances that live while the state is active. Unlike a service, a
	// child lives on its own: a settled state may have some.
	Children []Child[C]
	// Defer are the descriptors of the events that wait while the state is active: see Deferred.
	Defer []string
	// Resolve are the answers to those outside who wait for the instance: given once when the state
	// is entered, after Entry, and for as long as it is active to whoever comes to wait.
	Resolve []Resolution[C]
	// OnDone are the transitions taken when a compound state's child is final, or when all
	// regions of a parallel state are.
	OnDone []Transition[C]
	// Target is the default of a history state, entered while nothing is recorded; empty
	// means the initial state of the parent.
	Target string
	// Output makes the output of a final state; it is the payload of the parent's done
	// event and, at the top level, the output of the chart.
	Output func(C, Event) any
	// OutputParams are what Output was made with, as an action's Params are.
	OutputParams json.RawMessage
	// Doc is one sentence about the state for people, shown in graphs.
	Doc string
	// Meta is what those who show the instance want to know about the state; see Snapshot.Meta.
	// It must marshal to JSON. The chart itself has no use for it.
	Meta any
}

// Transition describes one transition.
type Transition[C any] struct {
	// Event is the event descriptor: an event type, a prefix as in "mouse.*", or "*"
	// (SCXML 3.12.1). Empty in Always, OnDone, OnError and After, where the place says it.
	Event string
	// Target names the state to enter: `sibling`, `sibling.child`, `.child`, `#id` or
	// `#path.to.state`; several, in different regions, are separated by spaces. Empty means
	// that no state is left or entered; a transition without target and actions forbids the
	// event, so that no ancestor handles it.
	Target  string
	Guard   Guard[C]
	Actions []Action[C]
	// Reenter makes a transition to the source itself or to its descendant leave and
	// re-enter the source.
	Reenter bool
	// Doc is one sentence about the transition for people.
	Doc string
}

// After describes a delayed transition: it is taken when its time has passed since the state
// was entered, unless the state was left. Entries of one state with the same ID share one
// timer and are tried in order when it fires.
type After[C any] struct {
	// ID names the timer within its state, in stored snapshots too. Empty means Delay as
	// text, such as "5m0s"; a delay that may be configured otherwise one day wants an ID, so
	// that snapshots stored before still read. Required with DelayFunc and At.
	ID string
	// Delay is the constant time from entry. Exactly one of Delay, DelayFunc and At is set, or
	// none if an earlier entry has the same ID, whose timer it is then.
	Delay time.Duration
	// DelayFunc computes the delay from the context when the state is entered.
	DelayFunc func(C, Event) time.Duration
	// At computes an absolute deadline when the state is entered. A deadline in the past
	// fires at once.
	At func(C, Event) time.Time

	Target  string
	Guard   Guard[C]
	Actions []Action[C]
	Reenter bool
	// Doc is one sentence about the transition for people.
	Doc string
}

// Invoke describes a service that runs while its state is active.
type Invoke[C any] struct {
	// ID names the invocation in the events done.invoke.ID and error.invoke.ID. Empty means
	// the path of the state, or the ID of the chart, for one of its own.
	ID      string
	Service Service[C]
	// Timeout limits one attempt. Zero means no limit but the host's own.
	Timeout time.Duration
	// Retry says how often and when a failed attempt is repeated before OnError.
	Retry RetryPolicy
	// OnDone are the transitions taken when the service has returned; its result is the
	// event's payload.
	OnDone []Transition[C]
	// OnError are the transitions taken when the service failed for good; the payload is a
	// ServiceError.
	OnError []Transition[C]
}
