package deadletter_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/deadletter"
)

// stack has three queues with their dead-letter queues. The third pair are standard queues.
type stack struct {
	t *testing.T
	deadletter.Queues
	sent int
}

// inStack runs a test in virtual time.
func inStack(t *testing.T, test func(t *testing.T, s *stack)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := awslocal.New(awslocal.Config{})
		t.Cleanup(func() {
			if err := cloud.Close(); err != nil {
				t.Error(err)
			}
		})
		s := &stack{t: t, Queues: deadletter.Queues{Sources: map[string]string{}}}
		s.Client = sqs.NewFromConfig(aws.Config{
			Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(),
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		})
		for _, name := range []string{"a%s.fifo", "b%s.fifo", "c%s"} {
			url := s.create(fmt.Sprintf(name, "-dead"))
			s.URLs = append(s.URLs, url)
			s.Sources[url] = s.create(fmt.Sprintf(name, ""))
		}
		test(t, s)
	})
}

func (s *stack) create(name string) string {
	s.t.Helper()
	attributes := map[string]string{}
	if deadletter.IsFIFO(name) {
		attributes["FifoQueue"] = "true"
	}
	made, err := s.Client.CreateQueue(s.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		s.t.Fatal(err)
	}
	return *made.QueueUrl
}

// park sends a message to a dead-letter queue, and returns its ID.
func (s *stack) park(queue int, group, body string) string {
	s.t.Helper()
	s.sent++
	input := &sqs.SendMessageInput{QueueUrl: &s.URLs[queue], MessageBody: &body}
	if deadletter.IsFIFO(s.URLs[queue]) {
		input.MessageGroupId, input.MessageDeduplicationId = &group, aws.String(fmt.Sprint(s.sent))
	}
	sent, err := s.Client.SendMessage(s.t.Context(), input)
	if err != nil {
		s.t.Fatal(err)
	}
	return *sent.MessageId
}

// bodies returns the sorted bodies of the messages that queues offer.
func (s *stack) bodies(urls ...string) string {
	s.t.Helper()
	messages, err := deadletter.Queues{Client: s.Client, URLs: urls}.Read(s.t.Context(), 1000)
	if err != nil {
		s.t.Fatal(err)
	}
	var bodies []string
	for _, m := range messages {
		bodies = append(bodies, m.Body)
	}
	slices.Sort(bodies)
	return strings.Join(bodies, " ")
}

// A parked message may fill SQS's limit with its body and its attributes.
func TestTheLargestMessageIsRedrivenWithItsAttributes(t *testing.T) {
	t.Parallel()
	inStack(t, func(t *testing.T, s *stack) {
		const bytes = 1<<20 - len("reason") - len("String") - len("too large")
		sent, err := s.Client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &s.URLs[0], MessageBody: aws.String(strings.Repeat("x", bytes)), MessageGroupId: aws.String("order/1"), MessageDeduplicationId: aws.String("1"),
			MessageAttributes: map[string]types.MessageAttributeValue{"reason": {DataType: aws.String("String"), StringValue: aws.String("too large")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Redrive(t.Context(), *sent.MessageId); err != nil {
			t.Fatal(err)
		}
		moved, err := deadletter.Queues{Client: s.Client, URLs: []string{s.Sources[s.URLs[0]]}}.Read(t.Context(), 2)
		if err != nil || len(moved) != 1 || len(moved[0].Body) != bytes || moved[0].Reason != "too large" {
			t.Errorf("got %d messages, %v, want the message with its attribute", len(moved), err)
		}
	})
}

func TestAMessageOfAnyQueueIsRedrivenToItsSourceOrDropped(t *testing.T) {
	t.Parallel()
	inStack(t, func(t *testing.T, s *stack) {
		var ids []string
		for queue := range s.URLs {
			ids = append(ids, s.park(queue, "order/1", fmt.Sprintf("redrive-%d", queue)), s.park(queue, "order/2", fmt.Sprintf("drop-%d", queue)))
		}
		if count, err := s.Count(t.Context()); count != 6 || err != nil {
			t.Errorf("expected 6 messages, got %d, %v", count, err)
		}
		if found, err := s.Read(t.Context(), 5); len(found) != 5 || err != nil {
			t.Errorf("expected 5 messages, got %d, %v", len(found), err)
		}
		for queue, url := range s.URLs {
			if err := errors.Join(s.Redrive(t.Context(), ids[2*queue]), s.Drop(t.Context(), ids[2*queue+1])); err != nil {
				t.Error(err)
			}
			if got, want := s.bodies(s.Sources[url]), fmt.Sprintf("redrive-%d", queue); got != want {
				t.Errorf("expected %s in the source, got %q", want, got)
			}
		}
		if left := s.bodies(s.URLs...); left != "" {
			t.Errorf("expected no message, got %s", left)
		}
		for _, change := range []error{s.Redrive(t.Context(), ids[0]), s.Drop(t.Context(), ids[1]), s.Drop(t.Context(), "other")} {
			if !errors.Is(change, deadletter.ErrNotOffered) {
				t.Errorf("expected ErrNotOffered for a message that is gone, got %v", change)
			}
		}
	})
}

func TestRedriveReceivesAllMessagesUntilItFindsTheOne(t *testing.T) {
	t.Parallel()
	inStack(t, func(t *testing.T, s *stack) {
		var last string
		for i := range 35 {
			s.park(0, fmt.Sprintf("order/%d", i), "a")
			last = s.park(1, fmt.Sprintf("order/%d", i), fmt.Sprint(i))
		}
		if err := s.Redrive(t.Context(), last); err != nil {
			t.Error(err)
		}
		if got := s.bodies(s.Sources[s.URLs[1]]); got != "34" {
			t.Errorf("expected the last message in the source, got %q", got)
		}
		// All others are visible again at once.
		if first, second := s.bodies(s.URLs[0]), s.bodies(s.URLs[1]); len(strings.Fields(first)) != 35 || len(strings.Fields(second)) != 34 {
			t.Errorf("expected 35 and 34 messages, got %q and %q", first, second)
		}
	})
}

// A batch has ten messages, so it cuts some of these groups. Only the first ten messages of a group are offered.
func TestReadingShowsAllMessagesOfAGroupThatABatchCuts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		inStack(t, func(t *testing.T, s *stack) {
			rng, sent := rand.New(rand.NewPCG(seed, 0)), map[int]int{}
			var want []string
			var last string
			for range 100 {
				group := rng.IntN(1 + rng.IntN(30))
				body := fmt.Sprintf("%d-%d", group, sent[group])
				if id := s.park(0, fmt.Sprintf("order/%d", group), body); sent[group] < 10 {
					last, want = id, append(want, body)
				}
				sent[group]++
			}
			slices.Sort(want)
			if got := s.bodies(s.URLs[0]); got != strings.Join(want, " ") {
				t.Errorf("seed %d: expected %s, got %s", seed, strings.Join(want, " "), got)
			}
			if err := s.Drop(t.Context(), last); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}

func TestAQueueThatFailsDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	inStack(t, func(t *testing.T, s *stack) {
		id, second := s.park(1, "order/1", "one"), s.park(2, "", "two")
		s.URLs[0] = strings.Replace(s.URLs[0], "a-dead", "gone", 1)
		delete(s.Sources, s.URLs[2])
		found, err := s.Read(t.Context(), 10)
		if len(found) != 2 || err == nil || !strings.Contains(err.Error(), "gone.fifo") {
			t.Errorf("expected 2 messages and an error of the queue gone.fifo, got %d and %v", len(found), err)
		}
		if err := s.Redrive(t.Context(), id); err != nil {
			t.Errorf("expected no error, because the message was found, got %v", err)
		}
		if err := s.Redrive(t.Context(), second); err == nil || !strings.Contains(err.Error(), "no source is configured for the dead-letter queue "+s.URLs[2]) {
			t.Errorf("expected an error about the source, got %v", err)
		}
		if err := s.Drop(t.Context(), "other"); err == nil || errors.Is(err, deadletter.ErrNotOffered) {
			t.Errorf("expected the error of the queue, which may have the message, got %v", err)
		}
		if _, err := s.Count(t.Context()); err == nil {
			t.Error("expected an error, because the number of messages is unknown")
		}
	})
}
