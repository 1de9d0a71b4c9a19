package telemetry

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/tracing"
)

const (
	traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	xray        = "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1"
)

// queue is a durable.Sender that records the trace of each message.
type queue struct {
	traces []tracing.Trace
	err    error
}

func (q *queue) Send(ctx context.Context, _ durable.Message) (string, error) {
	if trace := tracing.Of(ctx); trace != (tracing.Trace{}) {
		q.traces = append(q.traces, trace)
	}
	return "m-1", q.err
}

// withTraces returns a Telemetry, a context with an invocation, and that invocation. The Telemetry logs to the writer.
// Nothing listens at the address of its collector.
func withTraces(t *testing.T, log io.Writer) (*Telemetry, context.Context, *invocation) {
	t.Helper()
	config := quiet(io.Discard, log)
	config.Logger = slog.New(LogHandler(config.Logger.Handler()))
	config.TracesEndpoint, config.TracesClient = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, http.DefaultClient
	current := &invocation{}
	return New(config), context.WithValue(t.Context(), invocationKey{}, current), current
}

func TestSentEventIsLoggedAndTraced(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	tele, ctx, current := withTraces(t, &log)
	message := durable.Message{To: instances.ID{Machine: "order", ID: "1"}, Body: []byte(`{"type":"PAY","card":"canary"}`)}
	sent := &queue{}
	if id, err := tele.Sender(sent).Send(tracing.With(ctx, tracing.Trace{Parent: traceparent}), message); id != "m-1" || err != nil {
		t.Errorf("got %s, %v", id, err)
	}
	failed := &queue{err: errors.New("canary")}
	if _, err := tele.Sender(failed).Send(ctx, message); !errors.Is(err, failed.err) {
		t.Errorf("got %v, want the queue's error", err)
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(log.String()), &line); err != nil {
		t.Fatalf("%v in %s, want one line", err, log.String())
	}
	delete(line, "time")
	want := map[string]any{"level": "INFO", "msg": "event queued", "instance": "order/1", "type": "PAY", "message_id": "m-1", "trace_id": traceparent[3:35]}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("the line (-want +got):\n%s", diff)
	}
	if len(current.spans) != 2 || current.spans[0].Name != "send PAY" || current.spans[0].Failed || !current.spans[1].Failed {
		t.Fatalf("got the spans %+v", current.spans)
	}
	if got := sent.traces[0].Parent; got != current.spans[0].String() || got[:36] != traceparent[:36] {
		t.Errorf("the event is sent in span %s, want %s", got, current.spans[0].SpanContext)
	}
}

func TestMessageIsHandledWithinItsTrace(t *testing.T) {
	t.Parallel()
	tele, ctx, current := withTraces(t, io.Discard)
	message := func(id, parent, header string) lambdaevents.SQSMessage {
		m := lambdaevents.SQSMessage{MessageId: id, Attributes: map[string]string{"AWSTraceHeader": header}}
		if parent != "" {
			m.MessageAttributes = map[string]lambdaevents.SQSMessageAttribute{sqsqueue.AttrTraceparent: {StringValue: aws.String(parent), DataType: "String"}}
		}
		return m
	}
	var sent queue
	handler := tele.Each(func(ctx context.Context, batch lambdaevents.SQSEvent) (answer lambdaevents.SQSEventResponse, err error) {
		if len(batch.Records) != 1 {
			t.Errorf("got %d messages, want one at a time", len(batch.Records))
		}
		_, _ = tele.Sender(&sent).Send(ctx, durable.Message{})
		if id := batch.Records[0].MessageId; id != "good" {
			answer.BatchItemFailures = append(answer.BatchItemFailures, lambdaevents.SQSBatchItemFailure{ItemIdentifier: id})
		}
		return answer, nil
	})
	answer, err := handler(ctx, lambdaevents.SQSEvent{Records: []lambdaevents.SQSMessage{
		message("good", traceparent, ""), message("x-ray", "", xray), message("off", "", strings.Replace(xray, "Sampled=1", "Sampled=0", 1)), message("wrong", "wrong", "wrong"),
	}})
	if err != nil || len(answer.BatchItemFailures) != 3 || current.counts[retried] != 3 {
		t.Errorf("got %+v, %v and %d retried, want 3", answer, err, current.counts[retried])
	}
	var within []bool
	for _, trace := range sent.traces {
		within = append(within, strings.HasPrefix(trace.Parent, traceparent[:36]))
	}
	if want := []bool{true, true, false, false}; !slices.Equal(within, want) {
		t.Errorf("the events are sent in %+v, want %v within the trace", sent.traces, want)
	}
	for i, want := range []string{traceparent[36:52], traceparent[36:52], "0000000000000000", "0000000000000000"} {
		if got := hex.EncodeToString(current.spans[i].Parent[:]); got != want {
			t.Errorf("span %d has the parent %s, want %s", i, got, want)
		}
	}
}

// TestXRayIsUsedWithoutATraceparent starts spans in Lambda's own trace.
func TestXRayIsUsedWithoutATraceparent(t *testing.T) {
	t.Parallel()
	tele, ctx, _ := withTraces(t, io.Discard)
	lambdas := context.WithValue(ctx, "x-amzn-trace-id", xray) //nolint:revive,staticcheck // This is the key of aws-lambda-go.
	const other = "00-aaaabbbbccccddddaaaabbbbccccdddd-00f067aa0ba902b7-01"
	for trace, want := range map[tracing.Trace]string{
		{}: traceparent[:36], {AWS: xray}: traceparent[:36], {Parent: other}: other[:36], {Parent: other, AWS: xray}: other[:36], {Parent: "wrong", AWS: xray}: traceparent[:36],
	} {
		within, end := tele.begin(lambdas, tracing.Activity{Kind: tracing.Turn, Instance: "order/1", Trace: trace})
		end(nil)
		if got := tracing.Of(within).Parent; !strings.HasPrefix(got, want) {
			t.Errorf("%+v: got %s, want %s", trace, got, want)
		}
		// If an event has no trace or the same trace, its span belongs to the trace of the turn's span.
		for _, same := range []tracing.Trace{{}, trace} {
			event, end := tele.begin(within, tracing.Activity{Kind: tracing.Event, Instance: "order/1", Trace: same})
			end(nil)
			if got := tracing.Of(event).Parent; !strings.HasPrefix(got, want) {
				t.Errorf("%+v: the event is in %s, want %s", same, got, want)
			}
		}
		// If an event has another trace, its span belongs to that trace.
		const third = "1234567812345678aaaabbbbccccdddd"
		event, end := tele.begin(within, tracing.Activity{Kind: tracing.Event, Instance: "order/1", Trace: tracing.Trace{
			AWS: "Root=1-12345678-12345678aaaabbbbccccdddd;Parent=00f067aa0ba902b7;Sampled=1",
		}})
		end(nil)
		if got := tracing.Of(event).Parent; got[3:35] != third {
			t.Errorf("%+v: the event of another trace is in %s, want %s", trace, got, third)
		}
	}
}
