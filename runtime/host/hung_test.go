package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// hungAWS is an AWS that accepts connections, reads requests and never responds. Its connections are in memory, so that
// tests run in virtual time.
type hungAWS struct {
	mu    sync.Mutex
	dials int
}

func (h *hungAWS) dial(context.Context, string, string) (net.Conn, error) {
	h.mu.Lock()
	h.dials++
	h.mu.Unlock()
	client, server := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, server) }() // until the client closes it
	return client, nil
}

// process returns a process that calls this AWS with the SDK's HTTP client, as a function does.
func (h *hungAWS) process() *Process {
	return &Process{
		Settings: Settings{
			Table: "settle", QueueURL: "http://aws.local/settle.fifo", DeadLetterQueueURL: "http://aws.local/settle-dlq.fifo", DelayQueueURL: "http://aws.local/settle-delay",
			DelayQueueARN: "arn:aws:sqs:eu-central-1:123456789012:settle-delay", SchedulerRoleARN: "arn:aws:iam::123456789012:role/scheduler",
		},
		AWS: aws.Config{
			Region: "eu-central-1", BaseEndpoint: aws.String("http://aws.local"), Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
			HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.DialContext = h.dial }),
		},
		Logger: slog.New(slog.DiscardHandler),
	}
}

func lamp(t *testing.T) *durable.Machines {
	t.Helper()
	machines, err := durable.NewMachines(durable.Host(statechart.Must(statechart.Definition[struct{}]{
		ID: "lamp", Version: 1, Initial: "off", Payloads: statechart.Payloads{"on": statechart.NoPayload()},
		States: []statechart.State[struct{}]{{ID: "off", Tags: []string{statechart.Settled}}},
	}), durable.MachineConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	return machines
}

// TestHungCallIsRetriedWithinTheInvocation invokes functions while AWS does not respond. Without a timeout per
// attempt, a hung call would last until the function is killed with its whole batch.
func TestHungCallIsRetriedWithinTheInvocation(t *testing.T) {
	t.Parallel()
	const (
		consumerTimeout = 45 * time.Second
		otherTimeout    = 30 * time.Second
	)
	record := func(body string) events.SQSEvent {
		return events.SQSEvent{Records: []events.SQSMessage{{
			MessageId: "m-1", ReceiptHandle: "r-1", Body: body, EventSourceARN: "arn:aws:sqs:eu-central-1:123456789012:settle.fifo",
			Attributes: map[string]string{"MessageGroupId": "lamp/1", "SequenceNumber": "1", "ApproximateReceiveCount": "1", "SentTimestamp": "0"},
		}}}
	}
	const timer = `{"at": "1999-01-01T00:00:00Z", "to": "lamp/1", "body": {"type": "on"}, "deduplication_id": "d"}`
	for name, c := range map[string]struct {
		timeout time.Duration
		handler func(*Process, *durable.Machines) (any, error)
		event   any
		fails   string // expected text in the answer or the error
	}{
		"consumer":            {consumerTimeout, newConsumer, record(`{"type": "on"}`), "m-1"},
		"delay":               {otherTimeout, newDelay, record(timer), "m-1"},
		"delay, one more hop": {otherTimeout, newDelay, record(strings.Replace(timer, "1999", "2001", 1)), "m-1"},
		"executions": {otherTimeout, newExecutions, record(`{"detail-type": "Step Functions Execution Status Change", "detail": {"executionArn": "arn", "name": "` +
			instances.ExecutionPrefix + `1", "status": "FAILED", "inputDetails": {"included": false}}}`), "m-1"},
		"tokentask": {otherTimeout, newTokenTask, json.RawMessage(`{"instance": "lamp/1", "event": {"type": "on", "$task": {"token": "t", "state": "Wait"}}}`), "SendMessage"},
		"gateway": {otherTimeout, func(p *Process, machines *durable.Machines) (any, error) {
			return newGateway(p, machines, ThirdParties{})
		}, events.APIGatewayV2HTTPRequest{
			RawPath: "/instances/lamp/1/events", Body: `{"type": "on"}`, Headers: map[string]string{"content-type": "application/json"},
			RequestContext: events.APIGatewayV2HTTPRequestContext{HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: http.MethodPost, Path: "/instances/lamp/1/events"}},
		}, `"statusCode":50`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hung := &hungAWS{}
				handler, err := c.handler(hung.process(), lamp(t))
				if err != nil {
					t.Fatal(err)
				}
				payload, err := json.Marshal(c.event)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				answer, err := lambda.NewHandler(handler).Invoke(ctx, payload)
				if ctx.Err() != nil {
					t.Errorf("want an answer before the function's timeout, got %s and %v too late", answer, err)
				}
				if result := string(answer) + errorText(err); !strings.Contains(result, c.fails) {
					t.Errorf("want %q in the answer, got %s and %v", c.fails, answer, err)
				}
				if hung.dials < 2 {
					t.Errorf("want more than one attempt, got %d", hung.dials)
				}
			})
		})
	}
}

// TestHungSchedulerCallIsRetried also shows that a timeout is not treated as a denial, so no timer falls back to hops
// through the delay queue.
func TestHungSchedulerCallIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hung := &hungAWS{}
		p := hung.process()
		_, timers, err := newTimers(p)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		message := durable.Message{To: instances.ID{Machine: "lamp", ID: "1"}, Body: []byte(`{}`), DeduplicationID: "d"}
		err = timers.Schedule(ctx, time.Now().Add(time.Hour), message)
		if err == nil || ctx.Err() != nil || hung.dials < 2 || !strings.Contains(err.Error(), "CreateSchedule") {
			t.Errorf("want a Scheduler error before the deadline and after more than one attempt, got %v (%v) after %d", err, ctx.Err(), hung.dials)
		}
	})
}

func TestAHungBodyEndsTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				_, _ = http.ReadRequest(bufio.NewReader(server))                                // The request has no body.
				_, _ = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{") // The rest of the response never comes.
			}()
			return client, nil
		}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://aws.local", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		response, err := attempts{transport}.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != AttemptTimeout {
			t.Errorf("got %s and %v after %v, want the end of the attempt after %v", body, err, time.Since(began), AttemptTimeout)
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
