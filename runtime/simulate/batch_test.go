package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/instances"
)

const (
	getItem     = "dynamodb.GetItem"
	putItem     = "dynamodb.PutItem"
	updateItem  = "dynamodb.UpdateItem"
	sendMessage = "sqs.SendMessage"

	createSchedule = "scheduler.CreateSchedule"
)

// message is one message of a batch that a producer sends without the gateway.
type message struct{ group, body string }

// sendBatch sends messages in one call, so that one poll receives all of them.
func (w *world) sendBatch(messages ...message) {
	w.t.Helper()
	var entries []types.SendMessageBatchRequestEntry
	for i, m := range messages {
		id := aws.String(fmt.Sprint(i))
		entries = append(entries, types.SendMessageBatchRequestEntry{Id: id, MessageGroupId: &m.group, MessageDeduplicationId: id, MessageBody: &m.body})
	}
	sent, err := w.queues().SendMessageBatch(w.t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &w.queueURL, Entries: entries})
	if err != nil || len(sent.Failed) > 0 {
		w.t.Fatal(err, sent.Failed)
	}
}

func (w *world) queues() *sqs.Client {
	return sqs.NewFromConfig(w.aws(w.cloud.HTTPClient(), true))
}

// calls counts the calls that consumer and forwarder made, by operation. It includes only the operations that a batch
// may need.
func (w *world) calls() map[string]int {
	synctest.Wait()
	counts := map[string]int{}
	for _, target := range []string{getItem, putItem, updateItem, sendMessage, createSchedule} {
		counts[target] = w.faults.count(target)
	}
	return counts
}

func TestTenEventsOfOneInstanceCostOneReadAndOneWrite(t *testing.T) {
	t.Parallel()
	inWorld(t, options{}, func(w *world) {
		w.send(registered, `{"type": "SIGN_UP", "email": "ada@example.com", "name": "Ada"}`)
		w.await(registered, "unverified.awaiting_verification")
		before := w.calls()
		wrong := message{registered, `{"type": "VERIFY", "code": "000000"}`}
		cancel := message{registered, `{"type": "CANCEL"}`}
		w.sendBatch(wrong, wrong, wrong, wrong, cancel, wrong, wrong, wrong, wrong, wrong)
		record := w.await(registered, "cancelled")
		after := w.calls()

		for target, want := range map[string]int{getItem: 1, putItem: 1, updateItem: 0, sendMessage: 0} {
			if got := after[target] - before[target]; got != want {
				t.Errorf("%s: want %d calls for ten events, got %d", target, want, got)
			}
		}
		if got := signupContext(w, record).WrongCodes; got != 4 {
			t.Errorf("want the 4 wrong codes before the cancellation counted, got %d", got)
		}
		if record.Ignored != 5 {
			t.Errorf("want the 5 events after the cancellation ignored and counted, got %d", record.Ignored)
		}
	})
}

func TestAnEventWithAnEffectCostsOneWrite(t *testing.T) {
	t.Parallel()
	inWorld(t, options{}, func(w *world) {
		w.workflowJob(10, "in_progress", "")
		w.await(pickedUp, "in_progress")
		want := map[string]int{getItem: 1, putItem: 1, createSchedule: 1}
		for target, got := range w.calls() {
			if got != want[target] {
				t.Errorf("%s: want %d calls, got %d", target, want[target], got)
			}
		}
	})
}

func TestOnePoisonedMessageDoesNotAffectTheRestOfItsBatch(t *testing.T) {
	t.Parallel()
	inWorld(t, options{}, func(w *world) {
		const poisoned = 4
		var batch []message
		for i := range 10 {
			m := message{fmt.Sprintf("job/run-1-job-%d", i+1), fmt.Sprintf(
				`{"type": "completed", "run_id": 1, "job_id": %d, "repository": "octo/hello", "conclusion": "success"}`, i+1)}
			if i == poisoned {
				m.body = `{"type": "completed"`
			}
			batch = append(batch, m)
		}
		w.sendBatch(batch...)
		for i, m := range batch {
			if i != poisoned {
				w.await(m.group, "success")
			}
		}
		if record := w.record(batch[poisoned].group); record.Revision != 0 {
			t.Errorf("want no instance from the poisoned message, got %+v", record)
		}
		parked := w.receiveDeadLetter()
		if *parked.Body != batch[poisoned].body || parked.Attributes["MessageGroupId"] != batch[poisoned].group {
			t.Errorf("want the poisoned message parked unchanged, got %q in group %q", *parked.Body, parked.Attributes["MessageGroupId"])
		}
		if reason := *parked.MessageAttributes["reason"].StringValue; !strings.Contains(reason, "not an event") {
			t.Errorf("want a reason that names the error, got %q", reason)
		}
		if got := w.calls()[getItem]; got != 10 {
			t.Errorf("want each instance read once and no message delivered twice, got %d reads", got)
		}
	})
}

func (w *world) receiveDeadLetter() types.Message {
	w.t.Helper()
	received, err := w.queues().ReceiveMessage(w.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: &w.deadLetterURL, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(received.Messages) != 1 {
		w.t.Fatalf("want one parked message, got %d", len(received.Messages))
	}
	return received.Messages[0]
}

func TestItemsOfCompletedJobsExpireAfterTheRetention(t *testing.T) {
	t.Parallel()
	inWorld(t, options{}, func(w *world) {
		w.workflowJob(10, "completed", "failure")
		record := w.await(pickedUp, "failure", func(r instances.Record) bool { return !r.ExpireAt.IsZero() })
		if got := record.ExpireAt.Sub(record.UpdatedAt); got != 15*24*time.Hour {
			t.Errorf("want the item to expire 15 days after the job was over, got %v", got)
		}
		time.Sleep(15*24*time.Hour + time.Hour)
		if record := w.record(pickedUp); record.Revision != 0 {
			t.Errorf("want the item deleted after its retention, got %+v", record)
		}
	})
}
