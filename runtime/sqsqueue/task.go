package sqsqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-lambda-go/lambda/messages"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// Task is the Payload of a Step Functions task that invokes a Lambda function and waits for an instance
// (arn:aws:states:::lambda:invoke.waitForTaskToken).
type Task struct {
	// Instance is the name of the instance to wait for, such as "job/42".
	Instance string `json:"instance"`
	// Event is the event to send, with the task's token under "$task".
	Event json.RawMessage `json:"event"`
}

// These are the errors with which a task fails. Step Functions passes them to Retry and Catch.
const (
	// TaskInvalid is the error of a task with an invalid instance or event.
	TaskInvalid = "Settle.TaskInvalid"
	// TaskNotSent is the error of a task whose event the queue did not accept. Such a task can be retried.
	TaskNotSent = "Settle.TaskNotSent"
)

// TaskHandler returns the Lambda handler of the function that a Task invokes. The handler validates the task's event and
// sends it to the FIFO queue. If the handler returns an error, the task fails.
func TaskHandler(machines *durable.Machines, queue durable.Sender) func(context.Context, Task) error {
	return func(ctx context.Context, task Task) error {
		id, err := instances.ParseID(task.Instance)
		if err != nil {
			return failed(TaskInvalid, fmt.Errorf("the task's \"instance\": %w", err))
		}
		if err := machines.AcceptTask(id, task.Event); errors.Is(err, durable.ErrUnknownMachine) {
			return failed(TaskInvalid, fmt.Errorf("the task's \"instance\": %w", err))
		} else if err != nil {
			return failed(TaskInvalid, fmt.Errorf("the task's \"event\": %w", err))
		}
		// Step Functions may invoke the function twice for one token. Both invocations send the same event under the
		// same ID.
		hash := sha256.Sum256(task.Event)
		if _, err = queue.Send(ctx, durable.Message{To: id, Body: task.Event, DeduplicationID: hex.EncodeToString(hash[:])}); err != nil {
			return failed(TaskNotSent, err)
		}
		return nil
	}
}

// failed returns an error that Lambda reports under the given name. For any other error, Lambda reports the name of its
// Go type.
func failed(name string, err error) error {
	return messages.InvokeResponse_Error{Type: name, Message: err.Error()}
}
