package statechart

// CommunicationFailure is the payload of CommunicationError.
type CommunicationFailure struct {
	Effect string     `json:"effect"` // its globally unique ID
	Kind   EffectKind `json:"kind"`
	// Target is the instance of a send, the timer of a schedule ("1h0m0s of waiting"), the alias to claim or release, or
	// the name under which a task waits. It may be empty.
	Target  string `json:"target,omitempty"`
	Message string `json:"message"` // the reason
}
