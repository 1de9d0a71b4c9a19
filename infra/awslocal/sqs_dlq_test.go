package awslocal_test

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
)

func redrivePolicy(name string, maxReceiveCount int) string {
	return fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:%s","maxReceiveCount":%d}`,
		name, maxReceiveCount)
}

func newFIFOWithDLQ(t *testing.T, maxReceiveCount int) (q, dlq queue) {
	t.Helper()
	cloud := awslocal.New(awslocal.Config{})
	dlq = addFIFO(t, cloud, "dead.fifo", nil)
	q = addFIFO(t, cloud, "queue.fifo", map[string]string{"RedrivePolicy": redrivePolicy("dead.fifo", maxReceiveCount)})
	return q, dlq
}

func TestSQS_dlq_keeps_the_order_of_a_group(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, dlq := newFIFOWithDLQ(t, 1)
		q.sendAll("a1", "b1", "a2", "a3")
		q.receive(upTo(10), visible(1))
		time.Sleep(time.Second)
		wantBodies(t, q.receive(upTo(10)))
		dead := dlq.receive(upTo(2))
		wantBodies(t, dead, "a1", "a2")
		for name, want := range map[string]string{
			"ApproximateReceiveCount": "2", "DeadLetterQueueSourceArn": "arn:aws:sqs:us-east-1:000000000000:queue.fifo",
		} {
			if got := dead[0].Attributes[name]; got != want {
				t.Errorf("%s in the dead-letter queue is %q, want %q", name, got, want)
			}
		}
	})
}

func TestSQS_dlq_deleted_leaves_the_message_in_its_queue(t *testing.T) {
	t.Parallel()
	q, dlq := newFIFOWithDLQ(t, 1)
	if _, err := q.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &dlq.url}); err != nil {
		t.Fatal(err)
	}
	q.sendAll("a1")
	q.setVisibility(q.receive()[0], 0)
	wantBodies(t, q.receive(), "a1")
}

func TestSQS_dlq_restarts_the_receive_count_for_its_own_policy(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	last := addFIFO(t, cloud, "last.fifo", nil)
	dlq := addFIFO(t, cloud, "dead.fifo", map[string]string{"RedrivePolicy": redrivePolicy("last.fifo", 1)})
	q := addFIFO(t, cloud, "queue.fifo", map[string]string{"RedrivePolicy": redrivePolicy("dead.fifo", 2)})
	q.sendAll("a1")
	for range 2 {
		q.setVisibility(q.receive()[0], 0)
	}
	wantBodies(t, q.receive())
	dead := dlq.receive()
	wantBodies(t, dead, "a1")
	dlq.setVisibility(dead[0], 0)
	wantBodies(t, dlq.receive())
	wantBodies(t, last.receive(), "a1")
}

func TestSQS_dlq_retention(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		suffix string
		fifo   map[string]string
		want   []string // bodies in the dead-letter queue, 70 s after the send and 20 s after the move
	}{
		"FIFO restarts":      {".fifo", map[string]string{"FifoQueue": "true"}, []string{"a1"}},
		"standard continues": {"", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cloud := awslocal.New(awslocal.Config{})
				attributes := map[string]string{"MessageRetentionPeriod": "60"}
				maps.Copy(attributes, test.fifo)
				dlq := addQueue(t, cloud, "dead"+test.suffix, attributes)
				attributes["RedrivePolicy"] = redrivePolicy(dlq.name, 1)
				q := addQueue(t, cloud, "queue"+test.suffix, attributes)
				in := &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: aws.String("a1")}
				if test.fifo != nil {
					in.MessageGroupId, in.MessageDeduplicationId = aws.String("a"), aws.String("1")
				}
				if _, err := q.client.SendMessage(t.Context(), in); err != nil {
					t.Fatal(err)
				}
				q.setVisibility(q.receive()[0], 0)
				time.Sleep(50 * time.Second)
				wantBodies(t, q.receive())
				time.Sleep(20 * time.Second)
				wantBodies(t, dlq.receive(), test.want...)
			})
		})
	}
}

func TestSQS_dlq_policies_are_checked(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	addFIFO(t, cloud, "dead.fifo", nil)
	addFIFO(t, cloud, "denied.fifo", map[string]string{"RedriveAllowPolicy": `{"redrivePermission":"denyAll"}`})
	addFIFO(t, cloud, "mine.fifo", map[string]string{"RedriveAllowPolicy": `{"redrivePermission":"byQueue",` +
		`"sourceQueueArns":["arn:aws:sqs:us-east-1:000000000000:allowed.fifo"]}`})
	addQueue(t, cloud, "standard", nil)
	addFIFO(t, cloud, "allowed.fifo", map[string]string{"RedrivePolicy": redrivePolicy("mine.fifo", 3)})
	addFIFO(t, cloud, "textual.fifo", map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":` +
		`"arn:aws:sqs:us-east-1:000000000000:dead.fifo","maxReceiveCount":"3"}`})

	client := newClient(cloud)
	for policy, code := range map[string]string{
		redrivePolicy("absent.fifo", 3): "InvalidParameterValue",
		redrivePolicy("standard", 3):    "InvalidParameterValue",
		redrivePolicy("denied.fifo", 3): "InvalidParameterValue",
		redrivePolicy("mine.fifo", 3):   "InvalidParameterValue",
		redrivePolicy("dead.fifo", 0):   "InvalidAttributeValue",
		`{"maxReceiveCount":3}`:         "InvalidAttributeValue",
		`{"maxRecieveCount":3}`:         "InvalidAttributeValue",
		`not JSON`:                      "InvalidAttributeValue",
	} {
		_, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{
			QueueName:  aws.String("new.fifo"),
			Attributes: map[string]string{"FifoQueue": "true", "RedrivePolicy": policy},
		})
		wantCode(t, err, code)
	}
}
