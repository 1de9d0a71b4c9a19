// Command objects is the Lambda function behind an EventBridge rule for S3's event "Object Created". It
// brings the uploads of sales and warehouse files to the FIFO queue, each to the instance of its month: a
// rule that sends to the queue itself could name one message group only. A file that is neither is parked.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

func main() {
	boot.Main(boot.Function{Requires: []string{boot.QueueURL, boot.DeadLetterQueueURL}, Handler: newHandler})
}

// machine is the machine that uploads become events of.
const machine = "upload"

// parkedGroup is the message group of events that belong to no instance.
const parkedGroup = machine + "/unnamed"

func newHandler(p *boot.Process, _ *durable.Machines) (any, error) {
	queue := sqsqueue.New(sqs.NewFromConfig(p.AWS), p.Settings.QueueURL, p.Settings.DeadLetterQueueURL)
	// An error has Lambda invoke it again, as EventBridge's events come asynchronously.
	return func(ctx context.Context, created json.RawMessage) error {
		id, event, err := upload.FromObjectCreated(created)
		if errors.Is(err, upload.ErrObjectCreated) {
			p.Logger.ErrorContext(ctx, "the event is parked", "error", err)
			return queue.Park(ctx, parked(created), err.Error())
		}
		if err != nil {
			return err
		}
		// However often the upload is told of, the event is the same.
		_, err = queue.Send(ctx, durable.Message{To: durable.InstanceID{Machine: machine, ID: id}, Body: event, DeduplicationID: hash(event)})
		return err
	}, nil
}

// parked is the delivery of an event that did not come through the queue. What stands for its sequence number
// is a hash, so that parking it twice parks it once.
func parked(created json.RawMessage) durable.Delivery {
	return durable.Delivery{Queue: "EventBridge", Group: parkedGroup, SequenceNumber: hash(created)[:32], ReceiveCount: 1, SentAt: time.Now(), Body: string(created)}
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
