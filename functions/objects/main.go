// Command objects is the Lambda function behind an EventBridge rule for S3's event "Object Created". It sends uploads
// of sales and warehouse files to the FIFO queue, each to the instance of its month. A rule alone cannot do this,
// because it sends all events to one message group. The function parks events about other files.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

func main() { host.Main(function) }

var function = host.Function{Requires: []string{host.QueueURL, host.DeadLetterQueueURL}, Handler: newHandler}

// machine is the machine that receives the uploads as events.
const machine = "upload"

// parkedGroup is the message group of events that belong to no instance.
const parkedGroup = machine + "/unnamed"

func newHandler(p *host.Process, _ *durable.Machines) (any, error) {
	queue := p.Queue()
	sender := p.Telemetry.Sender(queue)
	// EventBridge invokes the function asynchronously, so Lambda invokes it again after an error.
	return func(ctx context.Context, created json.RawMessage) error {
		id, event, err := upload.FromObjectCreated(created)
		if errors.Is(err, upload.ErrObjectCreated) {
			return park(ctx, p, queue, created, err)
		}
		if err != nil {
			return err
		}
		// The event is the same for every notification of the same upload.
		_, err = sender.Send(ctx, durable.Message{To: instances.ID{Machine: machine, ID: id}, Body: event, DeduplicationID: hash(event)})
		return err
	}, nil
}

// park parks an event that is not an upload of a sales or warehouse file. The reason goes to the dead-letter queue. The
// reason quotes the file name, so the log contains the reason only if payloads are logged.
func park(ctx context.Context, p *host.Process, queue *sqsqueue.Queue, created json.RawMessage, reason error) error {
	d := parked(created)
	if err := queue.Park(ctx, d, reason.Error()); err != nil {
		return err
	}
	attributes := []any{"instance", d.Group}
	if p.Settings.LogPayloads {
		attributes = append(attributes, "reason", reason)
	}
	p.Logger.ErrorContext(ctx, "event parked", attributes...)
	if report := p.Telemetry.Observer().Parked; report != nil {
		report(ctx, durable.Parked{Delivery: d, Reason: reason})
	}
	return nil
}

// parked returns a delivery for an event that did not arrive through the queue. The hash stands in for the sequence
// number, so that parking is idempotent.
func parked(created json.RawMessage) durable.Delivery {
	return durable.Delivery{Queue: "EventBridge", Group: parkedGroup, SequenceNumber: hash(created)[:32], ReceiveCount: 1, SentAt: time.Now(), Body: string(created)}
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
