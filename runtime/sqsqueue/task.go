package sqsqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/settle-run/settle/runtime/durable"
)

// Task is the Payload of a Step Functions task that invokes a Lambda function and waits for an instance
// (arn:aws:states:::lambda:invoke.waitForTaskToken).
type Task struct {
	// Instance is the name of the instance to wait for, such as "job/42".
	Instance string `json:"instance"`
	// Event is the event to send, with the task's token under "$task".
	Event json.RawMessage `json:"event"`
}

// TaskHandler returns the Lambda handler for such tasks. It validates the event and sends it to the FIFO queue. Its
// errors fail the task.
func TaskHandler(machines *durable.Machines, queue durable.Sender) func(context.Context, Task) error {
	return func(ctx context.Context, task Task) error {
		id, err := durable.ParseInstanceID(task.Instance)
		if err != nil {
			return fmt.Errorf("the task's \"instance\": %w", err)
		}
		if err := machines.AcceptTask(id, task.Event); err != nil {
			return fmt.Errorf("the task's \"event\": %w", err)
		}
		// Step Functions may invoke the function twice for one token. Both send the same event.
		hash := sha256.Sum256(task.Event)
		_, err = queue.Send(ctx, durable.Message{To: id, Body: task.Event, DeduplicationID: hex.EncodeToString(hash[:])})
		return err
	}
}
