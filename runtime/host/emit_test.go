package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/host/hosttest"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
)

// shop is the context of the machine `order`.
type shop struct{ Items int }

// add is the payload of ADD.
type add struct {
	Items int    `json:"items"`
	Event string `json:"event"`
}

// orders hosts the machine `order`, which emits order.changed and an event of the type that ADD names.
func orders(*host.Process) ([]durable.Machine, error) {
	count := statechart.Assign("count", func(s *shop, a add) { s.Items += a.Items })
	changed := statechart.Emit("order.changed", func(s shop, _ statechart.Event) any { return map[string]int{"items": s.Items} })
	named := statechart.EnqueueActions("named", func(_ *shop, a add, enqueue statechart.Enqueue) error {
		if a.Event == "" {
			return nil
		}
		return enqueue.Emit(a.Event, nil)
	})
	return []durable.Machine{durable.Host(statechart.Must(statechart.Definition[shop]{
		ID: "order", Version: 1, Initial: "open", Payloads: statechart.Payloads{"ADD": statechart.PayloadOf[add]()},
		States: []statechart.State[shop]{{ID: "open", Tags: []string{"settled"}, On: []statechart.Transition[shop]{
			{Event: "ADD", Actions: []statechart.Action[shop]{count, changed, named}},
		}}},
	}), durable.MachineConfig{})}, nil
}

// emitting runs the deployed consumer with the machine `order` on a local AWS, restricted to the consumer's role. A
// rule sends the events that the machine emits to the queue "published".
type emitting struct {
	t       *testing.T
	config  aws.Config
	cloud   *awslocal.Cloud
	queues  *sqs.Client
	logs    lines
	handler lambda.Handler
	store   *dynamostore.Store
}

// order7 is the instance of the tests.
var order7 = instances.ID{Machine: "order", ID: "7"}

func newEmitting(t *testing.T, cloud awslocal.Config, bus string) *emitting {
	t.Helper()
	e := &emitting{t: t, cloud: awslocal.New(cloud)}
	e.config = aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: e.cloud.Client(testClient),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	}
	e.queues = sqs.NewFromConfig(e.config)
	urls := map[string]string{}
	for name, attributes := range map[string]map[string]string{fifo: {"FifoQueue": "true"}, dead: {"FifoQueue": "true"}, delays: nil, "published": nil} {
		output, err := e.queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		e.must(err)
		urls[name] = *output.QueueUrl
	}
	e.must(dynamostore.CreateIndexedTable(t.Context(), dynamodb.NewFromConfig(e.config), "settle"))
	e.store = dynamostore.New(dynamodb.NewFromConfig(e.config), "settle")
	events := eventbridge.NewFromConfig(e.config)
	_, err := events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: aws.String("orders"), EventPattern: aws.String(`{"source": ["settle.order"]}`)})
	e.must(err)
	_, err = events.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: aws.String("orders"), Targets: []types.Target{{Id: aws.String("q"), Arn: aws.String("arn:aws:sqs:us-east-1:000000000000:published")}}})
	e.must(err)

	load := func(context.Context) (aws.Config, error) {
		config := e.config.Copy()
		config.HTTPClient = e.cloud.Client("consumer")
		config.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
		g, err := guard.New(infra.Stack{Name: "settle", Account: awslocal.Account, Region: awslocal.Region, Values: map[string]string{"Table": "settle"}}, "consumer")
		if err == nil {
			g.Attach(&config)
		}
		return config, err
	}
	e.handler, _, err = host.Start(host.Consumer(orders), hosttest.Environment(
		host.Table+"=settle", host.TableIndex+"=on", host.QueueURL+"="+urls[fifo], host.DeadLetterQueueURL+"="+urls[dead], host.DelayQueueURL+"="+urls[delays], host.EventBus+"="+bus,
	), load, io.Discard, &e.logs)
	e.must(err)
	return e
}

func (e *emitting) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// send sends events to order/7 and lets the consumer run for the duration `d`.
func (e *emitting) send(d time.Duration, bodies ...string) {
	e.t.Helper()
	for i, body := range bodies {
		_, err := sqsqueue.New(e.queues, "http://aws.local/"+awslocal.Account+"/"+fifo, "").Send(e.t.Context(),
			durable.Message{To: order7, Body: []byte(body), DeduplicationID: fmt.Sprint(time.Now().UnixNano(), "-", i)})
		e.must(err)
	}
	ctx, cancel := context.WithTimeout(e.t.Context(), d)
	defer cancel()
	e.must(e.cloud.Poll(ctx, awslocal.EventSource{Queue: fifo, ReportBatchItemFailures: true, Timeout: 30 * time.Second}, func() awslocal.Invoker { return e.handler }))
}

// published returns the details of the events in the queue of the rule, in order. It deletes the messages.
func (e *emitting) published() (details []string) {
	e.t.Helper()
	url := aws.String("http://aws.local/" + awslocal.Account + "/published")
	for {
		output, err := e.queues.ReceiveMessage(e.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10})
		e.must(err)
		if len(output.Messages) == 0 {
			return details
		}
		for _, message := range output.Messages {
			var event struct {
				Detail json.RawMessage `json:"detail"`
			}
			e.must(json.Unmarshal([]byte(*message.Body), &event))
			details = append(details, string(event.Detail))
			_, err := e.queues.DeleteMessage(e.t.Context(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: message.ReceiptHandle})
			e.must(err)
		}
	}
}

// load returns the record of order/7.
func (e *emitting) load() instances.Record {
	e.t.Helper()
	record, err := e.store.Load(e.t.Context(), order7)
	e.must(err)
	return record
}

func TestEmittedEventsReachTheQueueOfARule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEmitting(t, awslocal.Config{}, "default")
		e.send(time.Minute, `{"type": "ADD", "items": 2}`, `{"type": "ADD", "items": 3}`)
		created := e.load().CreatedAt.UnixMilli()
		want := []string{
			fmt.Sprintf(`{"id":"order/7@%d/2.0","instance":"order/7","machine":"order","event":"order.changed","payload":{"items":2}}`, created),
			fmt.Sprintf(`{"id":"order/7@%d/3.0","instance":"order/7","machine":"order","event":"order.changed","payload":{"items":5}}`, created),
		}
		if got := e.published(); !slices.Equal(got, want) {
			t.Errorf("got the events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if strings.Contains(e.logs.String(), host.EventBus) {
			t.Errorf("got a warning with a bus: %s", e.logs.String())
		}
	})
}

// TestARepeatAfterACrashHasTheSameID loses the answer of PutEvents, or fails the write that clears the outbox.
func TestARepeatAfterACrashHasTheSameID(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"PutEvents", "UpdateItem"} {
		synctest.Test(t, func(t *testing.T) {
			failed := false
			e := newEmitting(t, awslocal.Config{Fault: func(call awslocal.Call) awslocal.Fault {
				if call.Client != "consumer" || call.Operation != lost || failed {
					return awslocal.Fault{}
				}
				failed = true
				return awslocal.Fault{AnswerLost: lost == "PutEvents", RequestLost: lost == "UpdateItem"}
			}}, "default")
			e.send(10*time.Minute, `{"type": "ADD", "items": 2}`)
			got := e.published()
			if len(got) != 2 || got[0] != got[1] || len(e.load().Outbox) > 0 {
				t.Errorf("%s lost: got the events %q and the outbox %v, want the event twice with one ID, and no outbox", lost, got, e.load().Outbox)
			}
		})
	}
}

func TestAThrottledEventIsPublishedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		throttled := 0
		e := newEmitting(t, awslocal.Config{Fault: func(call awslocal.Call) awslocal.Fault {
			if call.Service != "events" || call.Client != "consumer" || throttled == 5 {
				return awslocal.Fault{}
			}
			throttled++
			return awslocal.Fault{Throttled: true}
		}}, "default")
		e.send(30*time.Minute, `{"type": "ADD", "items": 2}`)
		if got := e.published(); throttled != 5 || len(got) != 1 || len(e.load().FailedEffects) > 0 {
			t.Errorf("got the events %q after %d throttled calls, and the failed effects %v, want the event once", got, throttled, e.load().FailedEffects)
		}
	})
}

// TestADeniedEventIsGivenUpAfterAnHour uses a bus that the role does not allow.
func TestADeniedEventIsGivenUpAfterAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEmitting(t, awslocal.Config{}, "other")
		e.send(30*time.Minute, `{"type": "ADD", "items": 2}`)
		if record := e.load(); len(record.Outbox) != 1 || len(record.FailedEffects) > 0 {
			t.Errorf("got the outbox %v and the failed effects %v, want the event in the outbox", record.Outbox, record.FailedEffects)
		}
		e.send(time.Hour, `{"type": "ADD", "items": 3}`)
		record := e.load()
		if len(record.FailedEffects) == 0 || record.FailedEffects[0].Kind != statechart.EmitEvent || !strings.Contains(record.FailedEffects[0].Error, "grant events:PutEvents on the bus") {
			t.Errorf("got the failed effects %v, want the event with the remedy", record.FailedEffects)
		}
	})
}

func TestAnUnacceptableEventDoesNotBlockTheInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEmitting(t, awslocal.Config{}, "default")
		e.send(time.Minute, `{"type": "ADD", "items": 2, "event": "`+strings.Repeat("x", 129)+`"}`, `{"type": "ADD", "items": 3}`)
		record := e.load()
		if len(record.Outbox) > 0 || len(record.FailedEffects) != 1 || !strings.Contains(record.FailedEffects[0].Error, "at most 128 characters, got 129") {
			t.Errorf("got the outbox %v and the failed effects %v, want the event with a long type as a failed effect", record.Outbox, record.FailedEffects)
		}
		if got := e.published(); len(got) != 2 {
			t.Errorf("got the events %q, want the two others", got)
		}
	})
}

func TestWithoutABusAWarningNamesTheDroppedEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEmitting(t, awslocal.Config{}, "")
		if logs := e.logs.String(); !strings.Contains(logs, `"level":"WARN"`) || !strings.Contains(logs, `set SETTLE_EVENT_BUS`) || !strings.Contains(logs, `"machine":"order","events":["order.changed"]`) {
			t.Errorf("got the log %s, want a warning that names the setting, the machine and the event", logs)
		}
		e.send(time.Minute, `{"type": "ADD", "items": 2}`)
		if got, outbox := e.published(), e.load().Outbox; len(got) > 0 || len(outbox) > 0 {
			t.Errorf("got the events %q and the outbox %v, want none", got, outbox)
		}
	})
}
