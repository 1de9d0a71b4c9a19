package statechart

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/runtime/internal/foreign"
)

// Settled is the tag of atomic states in which a chart may wait for the outside world.
const Settled = "settled"

// Limits of a chart and of its steps. Exceeding a limit is an error that names the limit. Nothing is truncated
// silently.
const (
	// MicrostepsMax is the maximum number of microsteps per event. A macrostep beyond it counts as endless.
	MicrostepsMax = 1000
	// NestingDepthMax is the maximum nesting depth of states. The root has depth 0.
	NestingDepthMax = 32
	// StatesMax is the maximum number of states in a chart, including the root.
	StatesMax = 4096
	// TimersMax is the maximum number of timers in a snapshot.
	TimersMax = 256
	// ReasonBytesMax is the length to which the reason for parking a deferred event is truncated.
	ReasonBytesMax = 2 << 10
	// EffectsMax is the maximum number of effects in a step, including effects of replayed events. ParkEvent effects do
	// not count.
	EffectsMax = 256
	// DeferredMax is the maximum number of deferred events in a snapshot.
	DeferredMax = 64
	// ChildrenMax is the maximum number of child instances at a time.
	ChildrenMax = 64
)

// Definition describes a chart over the context type C. It is plain data. Compile does not modify it.
type Definition[C any] struct {
	// ID names the chart: ASCII letters, digits, '-', '_'. It is the first part of instance names, as in signup/42.
	ID string
	// Version is stored with every snapshot, and is at least 1. Raise it if existing snapshots need a migration.
	Version int
	// Migrations lead from earlier versions to this one. They form one unbroken chain of versions.
	Migrations []Migration
	// Payloads declares every event type that the chart may receive, with the type of its payload. The host rejects
	// undeclared event types.
	Payloads Payloads
	// Input declares the type of Start.Input, with PayloadOf. The zero value means no input.
	Input Payload
	// Context returns the context of a new instance. Nil means the zero value of C.
	Context func(Start) C
	// Output returns the output of an instance that reached a top-level final state. Nil means the output of that final
	// state.
	Output func(C, Event) any
	// ContextParams and OutputParams hold the parameters of Context and Output, as Action.Params does.
	ContextParams, OutputParams json.RawMessage

	// The remaining fields describe the root state.

	// Initial names the state entered first, as State.Initial does. Required unless Parallel.
	Initial string
	// DefaultEntry holds the actions of the root's initial transition, as State.DefaultEntry does.
	DefaultEntry []Action[C]
	// Parallel makes the top-level states regions, all active at once.
	Parallel bool
	States   []State[C]
	// Tags are present while the instance is active. Settled is not allowed here: only atomic states wait.
	Tags  []string
	Entry []Action[C]
	Exit  []Action[C]
	On    []Transition[C]
	// Always is evaluated after the eventless transitions of all other states. In a chart with settled states, every
	// entry needs a guard.
	Always []Transition[C]
	After  []After[C]
	// Invoke holds services that start with the instance and run until they return or the instance ends. It must be
	// empty in a chart with settled states, which could otherwise never settle.
	Invoke []Invoke[C]
	// Children holds child instances that start with the instance and run until they end or the instance ends.
	Children []Child[C]
	// Defer holds descriptors of events to defer in every state. They are replayed once a transition accepts them.
	Defer []string
	// Resolve holds answers that waiting callers receive from the start on.
	Resolve []Resolution[C]
	// Doc is a one-sentence description of the chart, shown in diagrams.
	Doc string
	// Meta is data about the chart for tools that display instances, as State.Meta is.
	Meta any
	// Foreign is set by xstatejson.Foreign for a chart of another interpreter. Leave it nil.
	Foreign *foreign.Document
}

// Type is the kind of a state. The zero value means atomic, or compound if the state has States.
type Type int

// The types of states (SCXML 3.3 to 3.10).
const (
	// Plain is an atomic state, or a compound state if it has child states.
	Plain Type = iota
	// Parallel is a state whose children are all active while it is active.
	Parallel
	// Final is a state that completes its parent.
	Final
	// ShallowHistory stands for the last active child of its parent.
	ShallowHistory
	// DeepHistory stands for the last active atomic descendants of its parent.
	DeepHistory
)

// State describes one state of a chart.
type State[C any] struct {
	// ID is unique among siblings. A state's path joins the IDs from the top down with dots: "verifying.sent".
	ID   string
	Type Type
	// Initial names the state entered by default: the ID of a child, or the path of a deeper state, as in
	// "child.grandchild". Separate several states in different regions with spaces. Required for a compound state.
	Initial string
	// DefaultEntry holds the actions of the initial transition (SCXML 3.6). They run after Entry and before the
	// children are entered, and only if the state is entered by default. For a history state, they run when its default
	// is entered, after Entry and DefaultEntry of its parent (SCXML 3.10). They do not run if the parent was not left.
	DefaultEntry []Action[C]
	// States holds the children in document order. States are entered, and transitions of parallel regions are taken,
	// in this order.
	States []State[C]
	Tags   []string
	Entry  []Action[C]
	Exit   []Action[C]
	// On holds the transitions on events. The first that matches and whose guard holds is taken.
	On []Transition[C]
	// Always holds the eventless transitions, taken as soon as their guard holds.
	Always []Transition[C]
	// After holds the transitions taken when a delay since entry has passed.
	After []After[C]
	// Invoke holds the services that run while the state is active. It must be empty in a settled state.
	Invoke []Invoke[C]
	// Children holds the child instances that run while the state is active. Unlike services, children are allowed in a
	// settled state.
	Children []Child[C]
	// Defer holds descriptors of events to defer while the state is active: see Deferred.
	Defer []string
	// Resolve holds answers for callers that wait for the instance. Each is given on entry, after Entry, and to callers
	// that arrive while the state is active.
	Resolve []Resolution[C]
	// OnDone holds the transitions taken when a child of a compound state is final, or when all regions of a parallel
	// state are.
	OnDone []Transition[C]
	// Target is the default of a history state, entered while it has no record. Empty means the initial state of the
	// parent.
	Target string
	// Output returns the output of a final state. It becomes the payload of the parent's done event or, at the top
	// level, the output of the chart.
	Output func(C, Event) any
	// OutputParams holds the parameters of Output, as Action.Params does.
	OutputParams json.RawMessage
	// Doc is a one-sentence description of the state, shown in diagrams.
	Doc string
	// Meta is data about the state for tools that display instances: see Snapshot.Meta. It must marshal to JSON. The
	// chart does not use it.
	Meta any
}

// Transition describes one transition.
type Transition[C any] struct {
	// Event is the event descriptor: an event type, a prefix as in "mouse.*", or "*" (SCXML 3.12.1). It is empty in
	// Always, OnDone, OnError and After.
	Event string
	// Target names the state to enter: `sibling`, `sibling.child`, `.child`, `#id` or `#path.to.state`. Separate
	// several states in different regions with spaces. Without a target, no state is left or entered. A transition
	// without target and actions forbids the event: no ancestor handles it.
	Target  string
	Guard   Guard[C]
	Actions []Action[C]
	// Reenter makes a transition to its source or to a descendant leave and re-enter the source.
	Reenter bool
	// Doc is a one-sentence description of the transition.
	Doc string
}

// After describes a delayed transition. It is taken once the delay since entry has passed, unless the state was left
// before. Entries of one state with the same ID share one timer and are tried in order when it fires.
type After[C any] struct {
	// ID names the timer within its state and in stored snapshots. It defaults to Delay as text, such as "5m0s". Set an
	// ID if the delay may change, so that existing snapshots stay readable. Required with DelayFunc and At.
	ID string
	// Delay is a constant time from entry. Set exactly one of Delay, DelayFunc and At. Set none to share the timer of
	// an earlier entry with the same ID.
	Delay time.Duration
	// DelayFunc computes the delay on entry.
	DelayFunc func(C, Event) time.Duration
	// At computes an absolute deadline on entry. A deadline in the past fires immediately.
	At func(C, Event) time.Time

	Target  string
	Guard   Guard[C]
	Actions []Action[C]
	Reenter bool
	// Doc is a one-sentence description of the transition.
	Doc string
}

// Invoke describes a service that runs while its state is active.
type Invoke[C any] struct {
	// ID names the invocation in the events done.invoke.ID and error.invoke.ID. It defaults to the path of the state,
	// or to the chart's ID for the root state.
	ID      string
	Service Service[C]
	// Timeout limits one attempt. Zero means the host's limit.
	Timeout time.Duration
	// Retry is the retry policy. OnError follows after the last attempt.
	Retry RetryPolicy
	// OnDone holds the transitions taken when the service has returned. The event's payload is its result.
	OnDone []Transition[C]
	// OnError holds the transitions taken when the service has failed permanently or used all attempts. The payload is
	// a ServiceError.
	OnError []Transition[C]
}
