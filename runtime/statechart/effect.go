package statechart

import (
	"encoding/json"
	"time"
)

// EffectKind says what an effect asks of the outside.
type EffectKind string

// The kinds of effects.
const (
	// Schedule asks that the timer Timer fire at At: that the event TimerEvent with its ID
	// reach the instance no earlier. It never has to be cancelled: a timer that the
	// snapshot no longer holds is stale and does nothing.
	Schedule EffectKind = "schedule"
	// Send asks that Event be sent to the instance To, or to the child instance Child.
	Send EffectKind = "send"
	// EmitEvent asks that Event be shown to whoever listens to the host: see Emit.
	EmitEvent EffectKind = "emit"
	// LogMessage asks that Message be written to the host's log: see Log. It is worth less than
	// the other effects: a host may perform it at most once.
	LogMessage EffectKind = "log"
	// SpawnInstance asks for an instance of the machine Machine, with Input: the child instance
	// Child. When it ends, the host steps its parent with ChildRef.Done or ChildRef.Failed.
	SpawnInstance EffectKind = "spawn"
	// ParkEvent asks that Event, which was deferred and which the chart fails on, be put aside where
	// someone finds it, with Message as the reason: see Deferred.
	ParkEvent EffectKind = "park"
	// ResolveWaits asks that whoever waits for the instance under Name be answered: with Outcome and
	// Output or, if Error is set, with a failure of that name and Message as its cause; see
	// Resolution.
	ResolveWaits EffectKind = "resolve"
	// ClaimAlias asks that the instance be known under Name too: see Alias.
	ClaimAlias EffectKind = "alias"
	// ReleaseAlias asks that other instances may claim the alias Name: see Unalias.
	ReleaseAlias EffectKind = "release"
	// StartExecution asks that an execution of the workflow Name be started with Input, once, and that
	// its end be told by Event, which is still without its payload: see StartWorkflow.
	StartExecution EffectKind = "start"
	// StopInstance asks that the child instance Child be stopped. Its parent waits for nothing
	// of it any more.
	StopInstance EffectKind = "stop"
)

// Effect is what a macrostep asks of the outside, as data.
// Effects must be performed only after the step's Next is stored, in their order.
type Effect struct {
	// ID is derived from the snapshot: its count of steps and the effect's position, as in
	// "3.0". A repeated step gives the same IDs; no two steps of an instance share one.
	ID   string     `json:"id"`
	Kind EffectKind `json:"kind"`

	// Timer is the ID of the timer to schedule. It equals ID, unless the host schedules the timer again.
	Timer string    `json:"timer,omitempty"`
	At    time.Time `json:"at,omitzero"`

	// To is the name of the instance to send Event to.
	To string `json:"to,omitempty"`
	// Event is the JSON form of the event to send, to emit or to park, or that tells of an end.
	Event json.RawMessage `json:"event,omitempty"`

	// Message is the line to log, the reason for parking, or the cause of a failure.
	Message string `json:"message,omitempty"`

	// Child is the key of a child instance (ChildRef.Key), Machine the ID of its machine, and
	// Input the JSON of what it, or an execution, starts with, nil for nothing. No two children of an instance
	// share a key; the effect that spawns one has it as ID.
	Child   string          `json:"child,omitempty"`
	Machine string          `json:"machine,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`

	// Name is the alias to claim or release, the workflow to start, or the name under which those wait who are to be answered. They are told Outcome, the
	// active atomic states as State, the Tags and Output, the JSON of what goes along; or else Error.
	Name    string          `json:"name,omitempty"`
	Outcome string          `json:"outcome,omitempty"`
	State   []string        `json:"state,omitempty"`
	Tags    []string        `json:"tags,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	Error   string          `json:"error,omitempty"`
}
