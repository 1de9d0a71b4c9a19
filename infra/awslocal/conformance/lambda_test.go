package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/settle-run/settle/infra/awslocal"
)

var lambdaBehaviours = []behaviour{
	{name: "esm_fifo_partial", test: esmFIFOPartial, promise: "With ReportBatchItemFailures, the records that the function names are redelivered after their visibility timeout. The others are deleted."},
	{name: "poller", test: poller, promise: "A function receives up to ten messages in the queue's order, of several groups, with one invocation per group in flight. If it fails or times out, the whole batch is redelivered one visibility timeout after it was received."},
	{name: "esm_payload_limit", test: esmPayloadLimit, promise: "A batch has at most 6 MB as the function's payload. The other messages follow in order, in the next batches."},
	{name: "bootstrap", test: bootstrap, processes: true, promise: "An executable for provided.al2023 runs unchanged. One process serves successive invocations through the Runtime API: next, response, error and the deadline header."},
}

// function is a Lambda function that records when it received which bodies.
type function struct {
	start time.Time
	do    func(ctx context.Context, invocation int, event events.SQSEvent) (any, error)

	mu              sync.Mutex
	calls           []string // each call as "<seconds>s [bodies]", with at most 3 characters of each body
	payloadBytesMax int      // the size of the largest payload
}

// measured wraps a handler and records the size of the function's largest payload.
type measured struct {
	lambda.Handler
	f *function
}

func (m measured) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	m.f.mu.Lock()
	m.f.payloadBytesMax = max(m.f.payloadBytesMax, len(payload))
	m.f.mu.Unlock()
	return m.Handler.Invoke(ctx, payload)
}

// feed polls q for a function until the test ends.
func (w *world) feed(t *testing.T, q queue, source awslocal.EventSource, do func(context.Context, int, events.SQSEvent) (any, error)) *function {
	t.Helper()
	f := &function{start: time.Now(), do: do}
	source.Queue = q.name
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.cloud.Poll(ctx, source, func() awslocal.Invoker { return measured{lambda.NewHandler(f.handle), f} })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Poll: %v", err)
		}
	})
	return f
}

func (f *function) handle(ctx context.Context, event events.SQSEvent) (any, error) {
	var bodies []string
	for _, r := range event.Records {
		bodies = append(bodies, fmt.Sprintf("%.3s", r.Body))
	}
	f.mu.Lock()
	f.calls = append(f.calls, fmt.Sprint(time.Since(f.start), " ", bodies))
	invocation := len(f.calls)
	f.mu.Unlock()
	return f.do(ctx, invocation, event)
}

// wantCalls fails unless the function received exactly these batches, in any order. Batches that arrive at the same
// time have no defined order.
func (f *function) wantCalls(t *testing.T, what string, calls ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	want(t, what, slices.Sorted(slices.Values(calls)), slices.Sorted(slices.Values(f.calls)))
}

func esmFIFOPartial(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "b1", "c1", "b2")
	f := w.feed(t, q, awslocal.EventSource{ReportBatchItemFailures: true}, func(_ context.Context, invocation int, event events.SQSEvent) (any, error) {
		var answer events.SQSEventResponse
		for _, r := range event.Records {
			if r.Body[0] == 'b' && invocation == 1 {
				answer.BatchItemFailures = append(answer.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: r.MessageId})
			}
		}
		return answer, nil
	})
	time.Sleep(time.Second)
	q.wantCounts(0, 2, 0)
	time.Sleep(5 * time.Minute)
	f.wantCalls(t, "invocations", "0s [a1 b1 c1 b2]", "30s [b1 b2]")
	q.wantCounts(0, 0, 0)
}

func poller(t *testing.T, w *world) {
	slow := func(context.Context, int, events.SQSEvent) (any, error) {
		time.Sleep(time.Second)
		return nil, nil
	}
	// The second receive skips the group c, which the first batch locks. The rest of c follows when the first batch
	// ends.
	q := w.fifo(t, nil)
	q.sendAll("a1", "b1", "a2", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "d1")
	f := w.feed(t, q, awslocal.EventSource{}, slow)
	time.Sleep(time.Minute)
	f.wantCalls(t, "batches", "0s [a1 b1 a2 c1 c2 c3 c4 c5 c6 c7]", "0s [d1]", "1s [c8]")

	for what, fail := range map[string]func(context.Context) error{
		"error":   func(context.Context) error { return errors.New("out of order") },
		"timeout": func(ctx context.Context) error { <-ctx.Done(); return nil },
	} {
		q := w.fifo(t, map[string]string{"VisibilityTimeout": "60"})
		q.sendAll("a1", "a2", "b1")
		f := w.feed(t, q, awslocal.EventSource{Timeout: 10 * time.Second}, func(ctx context.Context, invocation int, _ events.SQSEvent) (any, error) {
			if invocation == 1 {
				return nil, fail(ctx)
			}
			return nil, nil
		})
		time.Sleep(10 * time.Minute)
		f.wantCalls(t, what, "0s [a1 a2 b1]", "1m0s [a1 a2 b1]")
		q.wantCounts(0, 0, 0)
	}
}

// esmPayloadLimit sends messages of 1 MiB. In JSON, a message of quotation marks has 2 MiB.
func esmPayloadLimit(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	for _, name := range []string{"a0.", "a1.", "a2.", "a3.", "a4.", "a5.", `b0"`, `b1"`, `b2"`, `b3"`} {
		in := q.message(name[:1], name+strings.Repeat(name[2:], 1<<20-len(name)))
		in.MessageDeduplicationId = aws.String(name[:2])
		_, err := w.sqs.SendMessage(t.Context(), in)
		must(t, "SendMessage", err)
	}
	f := w.feed(t, q, awslocal.EventSource{Concurrency: 1}, func(context.Context, int, events.SQSEvent) (any, error) {
		time.Sleep(time.Second)
		return nil, nil
	})
	time.Sleep(time.Minute)
	f.wantCalls(t, "batches", `0s [a0. a1. a2. a3. a4.]`, `1s [a5. b0" b1"]`, `2s [b2" b3"]`)
	if limit := 6 << 20; f.payloadBytesMax > limit {
		t.Fatalf("a payload has %d bytes, want at most %d", f.payloadBytesMax, limit)
	}
	q.wantCounts(0, 0, 0)
}

// functionTimeoutMax is Lambda's maximum timeout. Even on a slow machine, the functions of these tests do not reach
// it.
const functionTimeoutMax = 15 * time.Minute

// bootstrap runs a deployable function built with aws-lambda-go. Its payload selects its behaviour.
func bootstrap(t *testing.T, w *world) {
	path := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", path, "../testdata/handler")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building testdata/handler: %v\n%s", err, out)
	}
	b, err := awslocal.NewBootstrap(awslocal.BootstrapConfig{Path: path, FunctionName: "told"})
	must(t, "NewBootstrap", err)
	defer b.Close()
	deadline := time.Now().Add(functionTimeoutMax).Truncate(time.Millisecond)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	environment := b.Start()
	type told struct {
		Value, Request, ARN string
		PID                 int
	}
	tell := func(order string) (answer told, err error) {
		text, err := environment.Invoke(ctx, []byte(order))
		if err == nil {
			must(t, "reading "+string(text), json.Unmarshal(text, &answer))
		}
		return answer, err
	}
	first, err := tell(`{"Do": "echo", "Name": "<&> é 🙂"}`)
	must(t, "the first event", err)
	want(t, "the first response", told{"<&> é 🙂", first.Request, "arn:aws:lambda:us-east-1:000000000000:function:told", first.PID}, first)

	_, err = tell(`{"Do": "error", "Name": "tea"}`)
	var failed *awslocal.FunctionError
	wantAs(t, "an error of the function", err, &failed)
	want(t, "the error", awslocal.FunctionError{Type: "errorString", Message: "no such order: tea"}, *failed)

	second, err := tell(`{"Do": "deadline"}`)
	must(t, "the event after the error", err)
	want(t, "the process", first.PID, second.PID)
	want(t, "the deadline", deadline.UTC().Format(time.RFC3339Nano), second.Value)
	if first.Request == "" || first.Request == second.Request {
		t.Errorf("the request IDs are %q and %q, want one of its own for each event", first.Request, second.Request)
	}
	wantPolledProcess(t, w, b)
}

// wantPolledProcess fails unless Poll can invoke a function that runs in its own process.
func wantPolledProcess(t *testing.T, w *world, b *awslocal.Bootstrap) {
	t.Helper()
	q := w.fifo(t, map[string]string{"VisibilityTimeout": "5400"})
	q.sendAll("a1", "b1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- w.cloud.Poll(ctx, awslocal.EventSource{Queue: q.name, Timeout: functionTimeoutMax}, b.Start)
	}()
	for {
		select {
		case err := <-ended:
			t.Fatalf("Poll ended before the queue was empty: %v", err)
		default:
		}
		left := q.attributes("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
		if left["ApproximateNumberOfMessages"] == "0" && left["ApproximateNumberOfMessagesNotVisible"] == "0" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	must(t, "Poll", <-ended)
	q.wantCounts(0, 0, 0)
}
