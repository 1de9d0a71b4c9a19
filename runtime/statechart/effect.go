package statechart

import (
	"encoding/json"
	"time"
)

// EffectKind names the action that an effect requests.
type EffectKind string

// The kinds of effects.
const (
	// Schedule requests a timer: at time At or later, the host sends TimerEvent with the ID Timer to the instance.
	// Timers need no cancellation. A timer that the snapshot no longer holds is stale and has no effect.
	Schedule   EffectKind = "schedule"
	Send       EffectKind = "send" // send Event to the instance To or to the child instance Child
	EmitEvent  EffectKind = "emit" // show Event to the host's listeners
	LogMessage EffectKind = "log"  // write Message to the host's log, at most once
	// SpawnInstance starts the child instance Child of the machine Machine with Input. When the child ends, the host
	// steps the parent with ChildRef.Done or ChildRef.Failed.
	SpawnInstance EffectKind = "spawn"
	StopInstance  EffectKind = "stop" // stop the child instance Child, for which the parent no longer waits
	ParkEvent     EffectKind = "park" // set aside Event, a deferred event that failed for the reason in Message
	// ResolveWaits answers the callers that wait for the instance under Name. The answer is Outcome and Output or, if
	// Error is set, a failure with the name Error and the cause Message: see Resolution.
	ResolveWaits EffectKind = "resolve"
	ClaimAlias   EffectKind = "alias"   // give the instance the alias Name
	ReleaseAlias EffectKind = "release" // release the alias Name
	// StartExecution starts one execution of the workflow Name with Input. When the execution ends, the host adds the
	// payload to Event and sends it: see StartWorkflow.
	StartExecution EffectKind = "start"
)

// Effect is a request to the host, as data. Perform effects in order, and only after the step's Next is stored.
type Effect struct {
	// ID is derived from the snapshot's step count and the effect's position, as in "3.0". A repeated step gives the same
	// IDs. No two steps of an instance share an ID.
	ID   string     `json:"id"`
	Kind EffectKind `json:"kind"`

	// Timer is the ID of the timer to schedule. It equals ID, unless the host schedules the timer again.
	Timer string    `json:"timer,omitempty"`
	At    time.Time `json:"at,omitzero"`

	// To is the name of the instance that receives Event. Event is the JSON form of the event to send, emit or park, or
	// of the event that reports the end of an execution.
	To    string          `json:"to,omitempty"`
	Event json.RawMessage `json:"event,omitempty"`

	// Message is the line to log, the reason for parking, or the cause of a failure.
	Message string `json:"message,omitempty"`

	// Child is the key of a child instance (ChildRef.Key). The key is the ID of the effect that spawned the child. Machine
	// is the child's machine. Input is the JSON input of the child or execution, or nil.
	Child   string          `json:"child,omitempty"`
	Machine string          `json:"machine,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`

	// Name is the alias to claim or release, the workflow to start, or the name that callers wait under. These callers
	// get Outcome, State (the active atomic states), Tags and Output (JSON). If Error is set, they get a failure.
	Name    string          `json:"name,omitempty"`
	Outcome string          `json:"outcome,omitempty"`
	State   []string        `json:"state,omitempty"`
	Tags    []string        `json:"tags,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	Error   string          `json:"error,omitempty"`
	Chain   json.RawMessage `json:"chain,omitempty"` // set and used by the host
}
