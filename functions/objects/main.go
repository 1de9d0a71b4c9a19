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

func main() { boot.Main(function) }

var function = boot.Function{Requires: []string{boot.QueueURL, boot.DeadLetterQueueURL}, Handler: newHandler}

// machine is the machine that uploads become events of.
const machine = "upload"

// parkedGroup is the message group of events that belong to no instance.
const parkedGroup = machine + "/unnamed"

func newHandler(p *boot.Process, _ *durable.Machines) (any, error) {
	queue := sqsqueue.New(sqs.NewFromConfig(p.RuntimeAWS()), p.Settings.QueueURL, p.Settings.DeadLetterQueueURL)
	told := p.Telemetry.Sender(queue)
	// An error has Lambda invoke it again, as EventBridge's events come asynchronously.
	return func(ctx context.Context, created json.RawMessage) error {
		id, event, err := upload.FromObjectCreated(created)
		if errors.Is(err, upload.ErrObjectCreated) {
			return park(ctx, p, queue, created, err)
		}
		if err != nil {
			return err
		}
		// However often the upload is told of, the event is the same.
		_, err = told.Send(ctx, durable.Message{To: durable.InstanceID{Machine: machine, ID: id}, Body: event, DeduplicationID: hash(event)})
		return err
	}, nil
}

// park parks an event that is no upload of ours. The reason is beside it in the dead-letter queue; the log has it only where
// payloads are logged, for it quotes the name of the file.
func park(ctx context.Context, p *boot.Process, queue *sqsqueue.Queue, created json.RawMessage, reason error) error {
	d := parked(created)
	if err := queue.Park(ctx, d, reason.Error()); err != nil {
		return err
	}
	attributes := []any{"instance", d.Group}
	if p.Settings.LogPayloads {
		attributes = append(attributes, "reason", reason)
	}
	p.Logger.ErrorContext(ctx, "event parked", attributes...)
	if told := p.Telemetry.Observer().Parked; told != nil {
		told(ctx, durable.Parked{Delivery: d, Reason: reason})
	}
	return nil
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
