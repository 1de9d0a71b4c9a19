// Command tokentask is a Lambda function that a Step Functions task invokes to wait for an instance
// (arn:aws:states:::lambda:invoke.waitForTaskToken). It checks the event, which a task that sends
// straight to the queue cannot, and puts it into the FIFO queue.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

func main() {
	boot.Main(newHandler, boot.QueueURL)
}

// input is the Payload of the task.
type input struct {
	// Instance is the name of the instance to wait for, such as "job/42".
	Instance string `json:"instance"`
	// Event is the event to send, with the task's token under "$task".
	Event json.RawMessage `json:"event"`
}

func newHandler(p boot.Process) (any, error) {
	machines, err := p.Machines()
	if err != nil {
		return nil, err
	}
	queue := sqsqueue.New(sqs.NewFromConfig(p.AWS), p.Settings.QueueURL, "")
	return func(ctx context.Context, task input) error {
		id, err := durable.ParseInstanceID(task.Instance)
		if err != nil {
			return fmt.Errorf("the task's \"instance\": %w", err)
		}
		if err := machines.AcceptTask(id, task.Event); err != nil {
			return fmt.Errorf("the task's \"event\": %w", err)
		}
		// Step Functions may invoke twice for one token, and then sends the same event.
		hash := sha256.Sum256(task.Event)
		_, err = queue.Send(ctx, durable.Message{To: id, Body: task.Event, DeduplicationID: hex.EncodeToString(hash[:])})
		return err
	}, nil
}
