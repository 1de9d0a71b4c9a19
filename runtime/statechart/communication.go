package statechart

// CommunicationFailure is the payload of CommunicationError.
type CommunicationFailure struct {
	Effect string     `json:"effect"` // the effect's globally unique ID
	Kind   EffectKind `json:"kind"`
	// Target is the receiver of a sent event, the alias to claim or release, or the name under which a task waits. For a
	// schedule, Target names the timer and its state, as in "1h0m0s of unpaid". It may be empty.
	Target  string `json:"target,omitempty"`
	Message string `json:"message"` // the reason why the effect failed
}
