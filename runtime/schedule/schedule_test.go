package schedule_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/schedule"
)

var ada = instances.ID{Machine: "signup", ID: "ada"}

// fixture is a local delay queue with a sender that records its messages.
type fixture struct {
	t         *testing.T
	cloud     *awslocal.Cloud
	client    *sqs.Client
	url       string
	delays    *schedule.DelayQueue
	forwarder *schedule.Forwarder
	// mu guards the fields that the poller's goroutines write.
	mu sync.Mutex
	// hops lists the delays, in seconds, of the messages that were put into the delay queue.
	hops []string
	sent []sent
	// sendErr is the error of the sender.
	sendErr error
}

// sent is a message and the time at which it was sent.
type sent struct {
	At      time.Time
	Message durable.Message
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, cloud: awslocal.New(awslocal.Config{})}
	f.client = sqs.New(sqs.Options{
		Region:       awslocal.Region,
		BaseEndpoint: aws.String("http://aws.local"),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:   f.cloud.HTTPClient(),
	})
	output, err := f.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("delays")})
	if err != nil {
		t.Fatal(err)
	}
	f.url = *output.QueueUrl
	f.delays = schedule.NewDelayQueue(f, f.url, time.Now)
	f.forwarder = schedule.NewForwarder(f.delays, nil, f)
	return f
}

// SendMessage implements schedule.Client.
func (f *fixture) SendMessage(ctx context.Context, input *sqs.SendMessageInput, options ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	f.mu.Lock()
	f.hops = append(f.hops, strconv.Itoa(int(input.DelaySeconds)))
	f.mu.Unlock()
	return f.client.SendMessage(ctx, input, options...)
}

// Send implements durable.Sender.
func (f *fixture) Send(_ context.Context, message durable.Message) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, sent{time.Now(), message})
	return "m-1", f.sendErr
}

// poll runs the forwarder on the delay queue for the given time, as functions/delay does.
func (f *fixture) poll(duration time.Duration) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), duration)
	defer cancel()
	start := func() awslocal.Invoker {
		return lambda.NewHandler(func(ctx context.Context, event events.SQSEvent) error {
			return f.forwarder.Forward(ctx, event.Records[0].Body)
		})
	}
	if err := f.cloud.Poll(ctx, awslocal.EventSource{Queue: "delays", BatchSize: 1}, start); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) waiting() string {
	f.t.Helper()
	output, err := f.client.GetQueueAttributes(f.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &f.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		f.t.Fatal(err)
	}
	return output.Attributes["ApproximateNumberOfMessages"] + " " + output.Attributes["ApproximateNumberOfMessagesDelayed"]
}

func TestAMessageIsSentWhenItIsDueAfterAnyDelay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		after time.Duration
		late  time.Duration // how late the message arrives, because delays are whole seconds
		hops  string
	}{
		{-time.Hour, 0, "0"},
		{0, 0, "0"},
		{time.Nanosecond, time.Second - time.Nanosecond, "1"},
		{5 * time.Minute, 0, "300"},
		{15 * time.Minute, 0, "900"},
		{15*time.Minute + time.Millisecond, time.Second - time.Millisecond, "900 1"},
		{40*time.Minute + 500*time.Millisecond, 500 * time.Millisecond, "900 900 601"},
	} {
		t.Run(test.after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				start := time.Now()
				message := durable.Message{To: ada, Body: []byte(`{"type":"settle.timer","timer":"3.0","n":1.50}`), DeduplicationID: "signup/ada@1/3.0"}
				if err := f.delays.Schedule(t.Context(), start.Add(test.after), message); err != nil {
					t.Fatal(err)
				}
				f.poll(24 * time.Hour)
				want := []sent{{start.Add(max(test.after, 0) + test.late), message}}
				if diff := cmp.Diff(want, f.sent); diff != "" {
					t.Errorf("sent (-want +got):\n%s", diff)
				}
				if got := strings.Join(f.hops, " "); got != test.hops {
					t.Errorf("travelled in hops of %s s, want %s", got, test.hops)
				}
				if got := f.waiting(); got != "0 0" {
					t.Errorf("the delay queue has %s messages waiting and delayed, want none", got)
				}
			})
		})
	}
}

func TestMessageWaitsInTheDelayQueueUntilItCouldBeSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		if err := f.delays.Schedule(t.Context(), time.Now(), durable.Message{To: ada, Body: []byte(`{}`), DeduplicationID: "d"}); err != nil {
			t.Fatal(err)
		}
		f.sendErr = errors.New("throttled")
		f.poll(70 * time.Second) // the visibility timeout is 30 s
		if len(f.sent) != 3 {
			t.Errorf("tried %d times, want 3", len(f.sent))
		}
		f.sendErr = nil
		f.poll(time.Minute)
		if len(f.sent) != 4 || f.waiting() != "0 0" {
			t.Errorf("tried %d times with %s messages left, want one more try and no messages left", len(f.sent), f.waiting())
		}
	})
}

func TestForwardErrorsNameTheFailedCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.sendErr = errors.New("throttled")
	err := f.forwarder.Forward(t.Context(), `{"at":"2020-01-01T00:00:00Z","to":"signup/ada","body":{},"deduplication_id":"d"}`)
	if !errors.Is(err, f.sendErr) || errors.Is(err, schedule.ErrNotDelayed) || err.Error() != "forwarding a message that was due at 2020-01-01T00:00:00Z: throttled" {
		t.Errorf("got %v", err)
	}

	delays := schedule.NewDelayQueue(f.client, f.url+"x", time.Now)
	err = delays.Schedule(t.Context(), time.Now(), durable.Message{To: ada, Body: []byte(`{}`), DeduplicationID: "d"})
	if err == nil || !strings.HasPrefix(err.Error(), "delaying d to signup/ada at "+f.url+"x: ") {
		t.Errorf("got %v", err)
	}
	err = f.delays.Schedule(t.Context(), time.Now(), durable.Message{To: ada, Body: []byte(`{`), DeduplicationID: "d"})
	if err == nil || !strings.HasPrefix(err.Error(), "delaying d to signup/ada: ") {
		t.Errorf("got %v", err)
	}
}

func TestForwardRefusesForeignMessages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, body, want string }{
		{"no JSON", "hello", `expected a JSON object: invalid character 'h' looking for beginning of value, got 5 bytes`},
		{"long", strings.Repeat("x", 300), "got 300 bytes"},
		{"null", "null", `but "at" is missing or wrong in a body of 4 bytes`},
		{"no time", `{"to":"signup/ada","body":{},"deduplication_id":"d"}`, `but "at" is missing or wrong`},
		{"wrong time", `{"at":"soon","to":"signup/ada","body":{},"deduplication_id":"d"}`, `parsing time`},
		{"no event", `{"at":"2020-01-01T00:00:00Z","to":"signup/ada","deduplication_id":"d"}`, `but "body" is missing or wrong`},
		{"event is no object", `{"at":"2020-01-01T00:00:00Z","to":"signup/ada","body":"{}","deduplication_id":"d"}`, `but "body" is missing or wrong`},
		{"no deduplication ID", `{"at":"2020-01-01T00:00:00Z","to":"signup/ada","body":{}}`, `but "deduplication_id" is missing or wrong`},
		{"no instance", `{"at":"2020-01-01T00:00:00Z","to":"ada","body":{},"deduplication_id":"d"}`, `the key "to": not the name of an instance`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			err := f.forwarder.Forward(t.Context(), test.body)
			if !errors.Is(err, schedule.ErrNotDelayed) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want ErrNotDelayed with %s", err, test.want)
			}
			if len(f.sent) > 0 || len(f.hops) > 0 {
				t.Errorf("sent %d messages and put back %d, want none", len(f.sent), len(f.hops))
			}
		})
	}
}
