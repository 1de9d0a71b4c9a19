package statechart

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/runtime/internal/foreign"
)

// The error for an exceeded limit names it. Reasons are cut at ReasonBytesMax.
const (
	MicrostepsMax        = 1000    // microsteps per event
	NestingDepthMax      = 32      // nesting depth of states, where the root has depth 0
	StatesMax            = 4096    // states of a chart, including the root
	TransitionsMax       = 16384   // transitions of a chart
	RegionsMax           = 256     // regions of a chart that can be active at once, including nested regions
	TimersMax            = 256     // timers of a snapshot
	DeferredMax          = 64      // deferred events of a snapshot
	ChildrenMax          = 64      // child instances at a time
	EffectsMax           = 256     // effects of a step, including the replay of deferred events; ParkEvent does not count
	ReasonBytesMax       = 2 << 10 // the reason for parking a deferred event
	EventNameBytesMax    = 256     // an event type, or an event ID ("$id")
	AliasBytesMax        = 256     // an alias
	LimitKeyBytesMax     = 512     // the key of a limit
	LimitConcurrencyMax  = 1000    // Limit.Concurrency
	WorkflowNameBytesMax = 80      // the name of a workflow
)

// Definition describes a chart over the context type C. Compile does not modify it.
type Definition[C any] struct {
	// ID names the chart: ASCII letters, digits, '-', '_'. It is the first part of instance names, as in signup/42.
	ID string
	// Version is stored with every snapshot, and is at least 1. Raise it if existing snapshots need a migration.
	Version    int
	Migrations []Migration   // lead from earlier versions to this one, as one unbroken chain
	Payloads   Payloads      // declares every event type that the chart may receive; the host rejects others
	Input      Payload       // declares the type of Start.Input, with PayloadOf; the zero value means no input
	Context    func(Start) C // returns the context of a new instance; nil means the zero value of C
	// Output returns the output of a finished instance. Nil means the output of its top-level final state.
	Output                      func(C, Event) any
	ContextParams, OutputParams json.RawMessage   // the parameters of Context and Output, like Action.Params
	Foreign                     *foreign.Document // set by xstatejson.Foreign; leave it nil

	// The remaining fields describe the root state, as in State. The root is active until the instance ends. Initial is
	// required unless Parallel is set. With Parallel, the top-level states are regions, and all are active at once.
	Initial      string
	Parallel     bool
	States       []State[C]
	DefaultEntry []Action[C]
	Tags         []string // must not contain Settled, because only atomic states wait
	Entry        []Action[C]
	Exit         []Action[C]
	On           []Transition[C]
	// Always is evaluated after the eventless transitions of all other states. The chart must be able to rest in each
	// settled state. It cannot rest if an unguarded transition in Always changes something every time.
	Always   []Transition[C]
	After    []After[C]
	Invoke   []Invoke[C] // must be empty if the chart has settled states: a running service would prevent settling
	Children []Child[C]
	Defer    []string
	Resolve  []Resolution[C]
	Doc      string
	Meta     any
}

// Type is the kind of a state.
type Type int

// The types of states (SCXML 3.3 to 3.10).
const (
	Plain          Type = iota // an atomic state, or a compound state if it has child states
	Parallel                   // its children are all active while it is active
	Final                      // completes its parent
	ShallowHistory             // stands for the last active child of its parent
	DeepHistory                // stands for the last active atomic descendants of its parent
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
	// is entered, after Entry and DefaultEntry of its parent (SCXML 3.10). They run only if the parent is entered too.
	DefaultEntry []Action[C]
	// States holds the children in document order: the order in which states are entered and regions take transitions.
	States []State[C]
	Tags   []string
	Entry  []Action[C]
	Exit   []Action[C]
	On     []Transition[C] // transitions on events; the first that matches and whose guard holds is taken
	Always []Transition[C] // eventless transitions; each is taken as soon as its guard holds
	After  []After[C]
	// Invoke lists services, Children child instances. All run while the state is active. A settled state has no services.
	Invoke   []Invoke[C]
	Children []Child[C]
	Defer    []string // descriptors of events to defer while the state is active: see Deferred
	// Resolve holds answers for callers that wait for the instance. Callers that already wait get them on entry, after
	// Entry. Callers that arrive while the state is active get them at once.
	Resolve []Resolution[C]
	// OnDone is taken when a child of a compound state is final, or when all regions of a parallel state are done.
	OnDone []Transition[C]
	Target string // the default of a history state without a record; empty means the initial state of the parent
	// Output returns the output of a final state. It becomes the payload of the parent's done event or, at the top
	// level, the output of the chart.
	Output       func(C, Event) any
	OutputParams json.RawMessage // like Action.Params
	Doc          string          // one sentence, shown in diagrams
	Meta         any             // JSON data for tools that display instances: see Snapshot.Meta
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
	Reenter bool   // if set, a transition to its source or to a descendant of its source leaves and re-enters the source
	Doc     string // one sentence
}

// After describes a delayed transition, taken when the delay after the state's entry has passed. Elements of a state's
// After list with the same ID share one timer, and are tried in order when the timer fires.
type After[C any] struct {
	// ID names the timer within its state and in stored snapshots. It defaults to Delay as text, such as "5m0s". Set an
	// ID if the delay may change, so that existing snapshots stay readable. Required with DelayFunc and At.
	ID string
	// Set one of Delay, DelayFunc and At, or none to share the timer of an earlier entry with the same ID. The functions
	// run on entry. A deadline in the past fires immediately.
	Delay     time.Duration
	DelayFunc func(C, Event) time.Duration
	At        func(C, Event) time.Time

	Target  string
	Guard   Guard[C]
	Actions []Action[C]
	Reenter bool
	Doc     string
}

// Invoke describes a service that runs while its state is active.
type Invoke[C any] struct {
	ID       string // as in done.invoke.ID; defaults to the state's path, or to the chart's ID for the root state
	Service  Service[C]
	Timeout  time.Duration // the limit of one attempt; zero means the host's limit
	Retry    RetryPolicy
	Limit    Limit           // shared by all services that name it; the zero value means no limit
	LimitKey func(C) string  // the key that Limit applies to, such as a tenant, at most LimitKeyBytesMax; nil means ""
	OnDone   []Transition[C] // taken with the result of the service
	OnError  []Transition[C] // taken with a ServiceError, after a permanent error or the last attempt
}

// Limit limits service calls for each key (Invoke.LimitKey), across all instances and all consumers. A call that must
// wait does not use up an attempt: see docs/charts/limits.md.
type Limit struct {
	Name        string        // identifies the limit among all machines: ASCII letters, digits, '-', '_'
	Rate        int           // how many calls may start in any interval of length Per; zero means any number
	Per         time.Duration // zero means one second
	Concurrency int           // how many calls may run at once, at most LimitConcurrencyMax; zero means any number
}
