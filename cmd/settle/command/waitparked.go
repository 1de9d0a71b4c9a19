package command

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/deadletter"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// An instance that does not exist cannot show why its first event was parked: the reason is only in the dead-letter
// queue. Each look into that queue briefly hides its messages from other readers. So the command looks rarely, and only
// while the instance does not exist.
const (
	// lookFirst is the time from the send to the first look. The time from the send doubles with each further look, but
	// two looks are at most lookEvery apart.
	lookFirst = 400 * time.Millisecond
	lookEvery = 30 * time.Second
	// lookTakes is the longest duration of a look, including SQS's long poll of a second. If less time is left, the
	// command does not look.
	lookTakes = 2 * time.Second
	// lookMessagesMax limits the messages that a look checks.
	lookMessagesMax = 100
)

// lookTimer decides when to look into the dead-letter queue.
type lookTimer struct{ next time.Duration }

// due reports whether to look now, given the time waited so far. Call it before each pause while the instance does not
// exist.
func (l *lookTimer) due(ctx context.Context, waited time.Duration) bool {
	if deadline, ok := ctx.Deadline(); waited < l.next || ok && time.Until(deadline) < lookTakes {
		return false
	}
	l.next = min(2*waited, waited+lookEvery)
	return true
}

// parked returns the error for a parked message.
func (w *waiter) parked(err *producer.ParkedError) error {
	return fmt.Errorf("%w; see %s", err, w.hintParked("--instance", w.sent.Message.To.String()))
}

// hintParked returns the command that lists the parked events, with the dead-letter queue if --queue was given.
func (w *waiter) hintParked(args ...string) string {
	if w.session.given["queue"] != "" && w.deadLetterQueue != "" {
		args = append([]string{"--dead-letter-queue", w.deadLetterQueue}, args...)
	}
	return w.session.hint("dlq list", args...)
}

// checkParked fails if the message is in the dead-letter queue. If the queue cannot be read for a lasting reason, such
// as a missing permission, later calls do nothing.
func (w *waiter) checkParked(ctx context.Context) error {
	if w.deadLetterQueue == "" {
		return nil
	}
	client := sqs.NewFromConfig(w.settings)
	url, err := sqsqueue.ResolveURL(ctx, client, w.deadLetterQueue)
	var found *deadletter.Message
	if err == nil {
		reader := deadletter.NewReader(client, url, deadletter.HiddenLook)
		found, err = w.findParked(ctx, reader)
		if left := reader.Close(ctx); left != nil {
			w.session.note("%s", oneLine(left))
			w.deadLetterQueue = ""
		}
	}
	switch {
	case found != nil:
		return &producer.ParkedError{Reason: cmp.Or(found.Reason, "no reason recorded, SQS moved it after too many receives")}
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !isTemporary(err):
		w.deadLetterQueue = ""
	}
	return nil
}

// findParked receives until it finds the message. It returns nil if the queue does not offer the message.
func (w *waiter) findParked(ctx context.Context, reader *deadletter.Reader) (*deadletter.Message, error) {
	seen := 0
	for m, err := range reader.All(ctx) {
		if err != nil {
			return nil, err
		}
		if m.ID == w.sent.MessageID || m.SourceQueue == w.sent.Place.Queue && m.Sequence == w.sent.Place.SequenceNumber {
			return m, nil
		}
		if seen++; seen == lookMessagesMax {
			break
		}
	}
	return nil, nil
}
