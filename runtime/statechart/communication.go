package statechart

// CommunicationError is the type of the event by which a chart hears that an effect it has asked for will
// never take effect (SCXML 5.10 and 6.2.4). Only a chart that declares it gets it, with
// PayloadOf[CommunicationFailure]; it comes from the host alone, once for each such effect.
const CommunicationError = "error.communication"

// CommunicationFailure is the payload of CommunicationError.
type CommunicationFailure struct {
	// Effect is the effect's ID among those of all instances.
	Effect string     `json:"effect"`
	Kind   EffectKind `json:"kind"`
	// Target is what the effect was to reach: the instance of a send, the timer of a schedule ("1h0m0s of
	// waiting"), the alias to claim or release, the name under which a task waits. It may be empty.
	Target string `json:"target,omitempty"`
	// Message says why, for people.
	Message string `json:"message"`
}
