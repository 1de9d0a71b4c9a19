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
	// Send asks that Event be sent to the instance To.
	Send EffectKind = "send"
)

// Effect is what a macrostep asks of the outside, as data.
// Effects must be performed only after the step's Next is stored, in their order.
type Effect struct {
	// ID is derived from the snapshot: its count of steps and the effect's position, as in
	// "3.0". A repeated step gives the same IDs; no two steps of an instance share one.
	ID   string     `json:"id"`
	Kind EffectKind `json:"kind"`

	// Timer is the ID of the timer to schedule; it equals ID.
	Timer string    `json:"timer,omitempty"`
	At    time.Time `json:"at,omitzero"`

	// To is the name of the instance to send Event to.
	To    string          `json:"to,omitempty"`
	Event json.RawMessage `json:"event,omitempty"`
}
