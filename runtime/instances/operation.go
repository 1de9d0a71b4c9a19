package instances

import (
	"encoding/json"
	"errors"
	"time"
)

// Operation is a change that an operator makes to a stored instance: see durable.Operate.
type Operation struct {
	Kind OperationKind
	At   time.Time
	// By identifies the operator. The history keeps it with the Reason.
	By, Reason string
	// State is the path of the state that Move enters. It is empty if Move changes only the context.
	State string
	// Context is the context that Move starts with. Nil leaves the context as it is.
	Context json.RawMessage
	// Lane is the lane to which ChangeLane moves the instance.
	Lane string
}

// OperationKind is the kind of an Operation.
type OperationKind string

// The kinds of operations.
const (
	// Stop ends an active instance. Its exit actions run.
	Stop OperationKind = "stop"
	// Terminate ends an active instance, even one that no hosted machine can read. No code of the chart runs.
	Terminate OperationKind = "terminate"
	// Move takes an active instance to another state, changes its context, or both.
	Move OperationKind = "move"
	// Keep prevents the deletion of the item after its retention, and Unkeep permits the deletion again.
	Keep   OperationKind = "keep"
	Unkeep OperationKind = "unkeep"
	// Forget erases the data of an instance that has ended. The item expires after durable.Config.RetentionMin.
	Forget OperationKind = "forget"
	// ChangeLane moves an instance to another lane. It keeps the order of the events.
	ChangeLane OperationKind = "lane"
)

// Errors of operations.
var (
	ErrEnded = errors.New("the instance has ended")
	ErrInUse = errors.New("the instance is in use") // Forget: it is active, is kept, or owes effects or answers. ChangeLane: it is moving to another lane.
)
