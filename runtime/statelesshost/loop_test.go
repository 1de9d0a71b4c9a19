package statelesshost_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
)

// world runs the consumer and the forwarder of the delay queue on local AWS. Each invocation acts as a separate
// process, with new machines.
type world struct {
	t     *testing.T
	queue *sqsqueue.Queue
	store *dynamostore.Store

	mu sync.Mutex
	// answers maps tokens to the answers that their tasks received.
	answers map[string]string
}

// billing is the chart that receives the phone calls' events.
func billing() durable.Machine {
	type account struct {
		Calls []call `json:"calls"`
	}
	return durable.Host(statechart.Must(statechart.Definition[account]{
		ID: "billing", Version: 1, Initial: "open", Payloads: statechart.Payloads{"CALL_ENDED": statechart.PayloadOf[call]()},
		States: []statechart.State[account]{{ID: "open", Tags: []string{statechart.Settled}, On: []statechart.Transition[account]{
			{Event: "CALL_ENDED", Actions: []statechart.Action[account]{statechart.Assign("keep", func(a *account, c call) { a.Calls = append(a.Calls, c) })}},
		}}},
	}), durable.MachineConfig{})
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := awslocal.New(awslocal.Config{})
		config := aws.Config{
			Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(),
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		}
		queues, tables := sqs.NewFromConfig(config), dynamodb.NewFromConfig(config)
		create := func(name, fifo string) string {
			attributes := map[string]string{"VisibilityTimeout": "60"}
			if fifo != "" {
				attributes["FifoQueue"] = fifo
			}
			made, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
			if err != nil {
				t.Fatal(err)
			}
			return *made.QueueUrl
		}
		fifo, dead, delay := create("settle.fifo", "true"), create("dead.fifo", "true"), create("delay", "")
		if err := dynamostore.CreateTable(t.Context(), tables, "settle"); err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, queue: sqsqueue.New(queues, fifo, dead), store: dynamostore.New(tables, "settle"), answers: map[string]string{}}
		delays, log := schedule.NewDelayQueue(queues, delay, time.Now), slog.New(slog.DiscardHandler)
		consumer := func(ctx context.Context, payload []byte) ([]byte, error) {
			machines, err := durable.NewMachines(hostPhone(), billing())
			if err != nil {
				return nil, err
			}
			loop, err := durable.New(machines, durable.Ports{Store: w.store, Queue: w.queue, Timers: delays, Tokens: w}, durable.Config{Logger: log})
			if err != nil {
				return nil, err
			}
			return lambda.NewHandler(sqsqueue.Handler(loop)).Invoke(ctx, payload)
		}
		ctx, stop := context.WithCancel(t.Context())
		var polls sync.WaitGroup
		for queue, handler := range map[string]awslocal.Invoker{
			"settle.fifo": invoker(consumer),
			"delay":       lambda.NewHandler(sqsqueue.EachHandler(log, schedule.NewForwarder(delays, nil, w.queue).Forward)),
		} {
			polls.Go(func() {
				source := awslocal.EventSource{Queue: queue, Timeout: 10 * time.Second, ReportBatchItemFailures: true}
				if err := cloud.Poll(ctx, source, func() awslocal.Invoker { return handler }); err != nil {
					t.Error(err)
				}
			})
		}
		test(w)
		stop()
		polls.Wait()
	})
}

type invoker func(ctx context.Context, payload []byte) ([]byte, error)

func (i invoker) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return i(ctx, payload) }

// Answer implements durable.Tokens.
func (w *world) Answer(_ context.Context, token instances.Token, answer instances.Answer, _ bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[token.Value.Reveal()] = string(answer.Output) + answer.Error
	return nil
}

// Heartbeat implements durable.Tokens.
func (w *world) Heartbeat(context.Context, instances.Token) error { return nil }

// send sends an event to an instance. It then waits ten seconds, which is enough for the consumer to handle the event.
func (w *world) send(instance, body string) instances.Record {
	w.t.Helper()
	id, err := instances.ParseID(instance)
	if err != nil {
		w.t.Fatal(err)
	}
	message := durable.Message{To: id, Body: []byte(body), DeduplicationID: fmt.Sprint(time.Now().UnixNano())}
	if _, err := w.queue.Send(w.t.Context(), message); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	return w.record(instance)
}

func (w *world) record(instance string) instances.Record {
	w.t.Helper()
	id, err := instances.ParseID(instance)
	if err != nil {
		w.t.Fatal(err)
	}
	record, err := w.store.Load(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return record
}

// path formats the history of an instance.
func path(record instances.Record) string {
	var all []string
	for _, tr := range record.History {
		line := fmt.Sprintf("%s: %s -> %s", tr.Event, strings.Join(tr.From, ","), strings.Join(tr.To, ","))
		if tr.Ignored {
			line += " (ignored)"
		}
		all = append(all, line)
	}
	return strings.Join(all, "; ")
}

func TestAPhoneCallRunsThroughQueueAndTable(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		record := w.send("phone/1", `{"type": "DIAL", "number": "555-0100", "$task": {"token": "secret", "name": "Call"}}`)
		equal(t, "state", record.State, []string{"Ringing"})
		w.send("phone/1", `{"type": "CONNECT"}`)
		w.send("phone/1", `{"type": "CONNECT"}`) // No state handles the second CONNECT.
		w.send("phone/1", `{"type": "VOLUME", "level": 7}`)
		w.send("phone/1", `{"type": "VOLUME", "level": 99}`) // The level is too high, so the event is parked.
		record = w.send("phone/1", `{"type": "HOLD"}`)
		equal(t, "parked", record.Error.Message, `wrong payload: event "VOLUME" of chart phone: expected a level from 0 to 10, got 99`)
		equal(t, "ignored", record.Ignored, int64(1))
		time.Sleep(time.Minute) // The 30 seconds of Ringing have passed. The timer is stale.
		record = w.send("phone/1", `{"type": "HANG_UP"}`)
		equal(t, "path", path(record), "DIAL: OffHook -> Ringing; CONNECT: Ringing -> Connected; CONNECT: Connected -> Connected (ignored); "+
			"VOLUME: Connected -> Connected; HOLD: Connected -> OnHold; HANG_UP: OnHold -> HungUp")
		equal(t, "status", record.Status, statechart.Done)
		equal(t, "expires", record.ExpireAt.Sub(record.UpdatedAt), 15*24*time.Hour)
		equal(t, "outbox", len(record.Outbox), 0)
		equal(t, "the task's answer", w.answers["secret"], `{"outcome":"ended","state":["HungUp"],"tags":[]}`)
		if bill := string(w.record("billing/calls").Snapshot); !strings.Contains(bill, `{"calls":[{"callee":"555-0100","volume":7}]}`) {
			t.Errorf("the billing instance: %s", bill)
		}
	})
}

func TestADurableTimerEndsAnUnansweredCall(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		dialled := w.send("phone/1", `{"type": "DIAL", "number": "555-0100"}`)
		equal(t, "state", dialled.State, []string{"Ringing"})
		time.Sleep(30 * time.Second)
		record := w.record("phone/1")
		equal(t, "path", path(record), "DIAL: OffHook -> Ringing; after 30s: Ringing -> HungUp")
		if late := record.UpdatedAt.Sub(dialled.UpdatedAt); late < 30*time.Second || late > 31*time.Second {
			t.Errorf("fired after %v", late)
		}
		// A task that starts to wait after the instance has ended is answered immediately.
		w.send("phone/1", `{"type": "settle.wait", "$task": {"token": "late", "name": "Call"}}`)
		equal(t, "the task's answer", w.answers["late"], `{"outcome":"ended","state":["HungUp"],"tags":[]}`)
	})
}
