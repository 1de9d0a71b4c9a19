package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/internal/deadletter"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// An event that no instance was begun for leaves its reason in the dead-letter queue only. To look there hides what is there from
// others for a moment; so it is done seldom, and only while nothing is stored.
const (
	// lookFirst is how long nothing has been stored when it is looked for the first time; then it doubles, up to lookEvery.
	lookFirst = 400 * time.Millisecond
	lookEvery = 30 * time.Second
	// lookTakes is how long a look may take, as SQS waits for a second: with less time left there is none.
	lookTakes = 2 * time.Second
	// lookMessagesMax is how many messages are received in a look.
	lookMessagesMax = 100
)

// looks says when to look into the dead-letter queue.
type looks struct{ waited, next time.Duration }

// due reports whether to look now, after nothing was stored and before a pause.
func (l *looks) due(ctx context.Context, pause time.Duration) bool {
	due := l.waited >= l.next
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < lookTakes {
		due = false
	}
	if due {
		l.next = min(2*l.waited, l.waited+lookEvery)
	}
	l.waited += pause
	return due
}

// deadLetterQueueOf returns the name of the queue that a RedrivePolicy leads to; empty if there is none.
func deadLetterQueueOf(policy string) string {
	var form struct {
		Target string `json:"deadLetterTargetArn"`
	}
	_ = json.Unmarshal([]byte(policy), &form) // What is none has no target.
	return form.Target[strings.LastIndexByte(form.Target, ':')+1:]
}

// parked is the error of a message that was parked.
func (w *waiter) parked(reason string) error {
	return fmt.Errorf("the event was parked: %s; see %s", reason, w.hintParked("--instance", w.to.String()))
}

// hintParked is the command that lists what was parked from the queue: one that was named has a dead-letter queue of its own.
func (w *waiter) hintParked(args ...string) string {
	if w.session.given["queue"] != "" && w.deadLetterQueue != "" {
		args = append([]string{"--dead-letter-queue", w.deadLetterQueue}, args...)
	}
	return w.session.hint("dlq list", args...)
}

// checkParked fails if the message is to be seen in the dead-letter queue. Who may send need not be allowed to look there: then
// it is not looked for again.
func (w *waiter) checkParked(ctx context.Context) error {
	if w.deadLetterQueue == "" {
		return nil
	}
	client := sqs.NewFromConfig(w.settings)
	url, err := sqsqueue.ResolveURL(ctx, client, w.deadLetterQueue)
	var found *deadletter.Message
	if err == nil {
		reader := deadletter.NewLook(client, url)
		found, err = w.findParked(ctx, reader)
		if left := reader.Close(ctx); left != nil {
			w.session.note("%s", oneLine(left))
			w.deadLetterQueue = ""
		}
	}
	switch {
	case found != nil:
		return w.parked(cmp.Or(found.Reason, "no reason recorded, SQS moved it after too many receives"))
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !mayPass(err):
		w.deadLetterQueue = ""
	}
	return nil
}

// findParked receives until the message is there; nil if it is not to be seen.
func (w *waiter) findParked(ctx context.Context, reader *deadletter.Reader) (*deadletter.Message, error) {
	isOfInstance := func(m *deadletter.Message) bool { return m.Group == w.to.String() }
	isGroupSeen, isGroupBack := false, false
	for seen := 0; seen < lookMessagesMax; {
		batch, err := reader.Next(ctx)
		if err == nil && len(batch) == 0 && isGroupSeen && !isGroupBack {
			// The message may be locked behind an earlier one of its group, with which the batch was full.
			isGroupBack = true
			if err = reader.PutBack(ctx, isOfInstance); err == nil {
				continue
			}
		}
		if err != nil || len(batch) == 0 {
			return nil, err
		}
		isGroupSeen = isGroupSeen || slices.ContainsFunc(batch, isOfInstance)
		for _, m := range batch {
			if m.ID == w.messageID || m.SourceQueue == w.arn && m.Sequence == w.sequence {
				return m, nil
			}
		}
		seen += len(batch)
	}
	return nil, nil
}
