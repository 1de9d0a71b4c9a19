package statechart

// CommunicationError is the type of the event that reports that a requested effect will never happen. See SCXML 5.10
// and 6.2.4. Only a chart that declares it with PayloadOf[CommunicationFailure] receives it. Only the host sends it,
// once per effect.
const CommunicationError = "error.communication"

// CommunicationFailure is the payload of CommunicationError.
type CommunicationFailure struct {
	// Effect is the effect's globally unique ID.
	Effect string     `json:"effect"`
	Kind   EffectKind `json:"kind"`
	// Target is the target of the effect. It is the instance of a send, the timer of a schedule ("1h0m0s of waiting"),
	// the alias to claim or release, or the name under which a task waits. It may be empty.
	Target string `json:"target,omitempty"`
	// Message is the reason in plain words.
	Message string `json:"message"`
}
