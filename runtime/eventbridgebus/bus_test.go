package eventbridgebus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/eventbridgebus"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

var order7 = instances.ID{Machine: "order", ID: "7"}

// emitted returns n effects that emit events of the type "shown". Each event contains its number.
func emitted(n int) (events []statechart.Effect) {
	for i := range n {
		events = append(events, effect(i, fmt.Sprintf(`{"type": "shown", "n": %d, "<": "&"}`, i)))
	}
	return events
}

func effect(i int, event string) statechart.Effect {
	return statechart.Effect{ID: fmt.Sprint("order/7@1/2.", i), Kind: statechart.EmitEvent, Event: json.RawMessage(event)}
}

// recording is an EventBridge client. It records the number of entries of each request, and calls `answer`, if that is
// set, instead of `next`.
type recording struct {
	next     eventbridgebus.Client
	answer   func(*eventbridge.PutEventsInput) (*eventbridge.PutEventsOutput, error)
	requests []int
	bytes    []int
}

func (r *recording) PutEvents(ctx context.Context, in *eventbridge.PutEventsInput, options ...func(*eventbridge.Options)) (*eventbridge.PutEventsOutput, error) {
	bytes := 0
	for _, entry := range in.Entries {
		bytes += len(*entry.Source) + len(*entry.DetailType) + len(*entry.Detail)
	}
	r.requests, r.bytes = append(r.requests, len(in.Entries)), append(r.bytes, bytes)
	if r.answer != nil {
		return r.answer(in)
	}
	return r.next.PutEvents(ctx, in, options...)
}

// local returns a client of awslocal, and a function that returns the events that its buses have received.
func local(t *testing.T) (client *recording, published func() []string) {
	t.Helper()
	var events []string
	cloud := awslocal.New(awslocal.Config{Published: func(event json.RawMessage) { events = append(events, string(event)) }})
	config := eventbridge.Options{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(), Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	}
	return &recording{next: eventbridge.New(config)}, func() []string { return events }
}

// nilIndexes returns the indices of the errors that are nil.
func nilIndexes(errs []error) (all []int) {
	for i, err := range errs {
		if err == nil {
			all = append(all, i)
		}
	}
	return all
}

func TestEmitPublishesTheEventWithItsInstanceAndID(t *testing.T) {
	t.Parallel()
	client, published := local(t)
	errs := eventbridgebus.New(client, "default").Emit(t.Context(), order7, []statechart.Effect{effect(0, `{"type": "order.placed", "items": 2, "text": "<&>"}`)})
	if len(errs) != 1 || errs[0] != nil || len(published()) != 1 {
		t.Fatalf("got %v and the events %q, want one event", errs, published())
	}
	var event struct {
		Source     string          `json:"source"`
		DetailType string          `json:"detail-type"`
		Detail     json.RawMessage `json:"detail"`
	}
	if err := json.Unmarshal([]byte(published()[0]), &event); err != nil {
		t.Fatal(err)
	}
	const detail = `{"id":"order/7@1/2.0","instance":"order/7","machine":"order","event":"order.placed","payload":{"items":2,"text":"<&>"}}`
	if event.Source != "settle.order" || event.DetailType != "order.placed" || string(event.Detail) != detail {
		t.Errorf("got %s, want the detail %s", published()[0], detail)
	}
}

func TestTenEventsAreOneRequest(t *testing.T) {
	t.Parallel()
	client, published := local(t)
	errs := eventbridgebus.New(client, "default").Emit(t.Context(), order7, emitted(12))
	if len(errs) != 12 || len(nilIndexes(errs)) != 12 || len(published()) != 12 || !slices.Equal(client.requests, []int{10, 2}) {
		t.Errorf("got %v, %d events and requests of %v entries, want 12 events in requests of 10 and 2", errs, len(published()), client.requests)
	}
	if errs := eventbridgebus.New(client, "default").Emit(t.Context(), order7, nil); len(errs) != 0 || len(client.requests) != 2 {
		t.Errorf("got %v and %d requests for no event, want none", errs, len(client.requests)-2)
	}
}

// TestLargeEventsAreSplit uses events of the largest size that the runtime accepts.
func TestLargeEventsAreSplit(t *testing.T) {
	t.Parallel()
	client, published := local(t)
	var events []statechart.Effect
	for i := range 5 {
		const frame = `{"type":"large","x":""}`
		events = append(events, effect(i, `{"type":"large","x":"`+strings.Repeat("x", instances.EventBytesMax-len(frame))+`"}`))
	}
	errs := eventbridgebus.New(client, "default").Emit(t.Context(), order7, events)
	if len(nilIndexes(errs)) != 5 || len(published()) != 5 || !slices.Equal(client.requests, []int{3, 2}) || slices.Max(client.bytes) > 1<<20 {
		t.Errorf("got %v, requests of %v entries and %v bytes, want 3 and 2 events", errs, client.requests, client.bytes)
	}
}

// TestUnacceptableEventsFailAlone sends an event whose detail type is too long, and an event that is not a JSON object.
// EventBridge would drop the first one and report no error.
func TestUnacceptableEventsFailAlone(t *testing.T) {
	t.Parallel()
	client, published := local(t)
	events := emitted(4)
	events[1].Event = json.RawMessage(`{"type": "` + strings.Repeat("é", 129) + `"}`)
	events[2].Event = json.RawMessage(`[]`)
	errs := eventbridgebus.New(client, "default").Emit(t.Context(), order7, events)
	if !slices.Equal(nilIndexes(errs), []int{0, 3}) || len(published()) != 2 {
		t.Fatalf("got %v and %d events, want the first and the last", errs, len(published()))
	}
	if !errors.Is(errs[1], durable.ErrRefused) || !errors.Is(errs[2], durable.ErrRefused) ||
		!strings.HasPrefix(errs[1].Error(), "publishing event order/7@1/2.1 on the bus default: ") || !strings.Contains(errs[1].Error(), "at most 128 characters, got 129") {
		t.Errorf("got %v and %v, want ErrRefused with the event and the limit", errs[1], errs[2])
	}
}

func TestErrorsOfEntriesAreClassified(t *testing.T) {
	t.Parallel()
	codes := map[string]error{
		"MalformedDetail": durable.ErrRefused, "InvalidArgument": durable.ErrRefused, "AccessDeniedException": durable.ErrDenied,
		"NotAuthorizedForSourceException": durable.ErrDenied, "ThrottlingException": nil, "InternalFailure": nil,
	}
	for code, want := range codes {
		client := &recording{answer: func(*eventbridge.PutEventsInput) (*eventbridge.PutEventsOutput, error) {
			return &eventbridge.PutEventsOutput{FailedEntryCount: 1, Entries: []types.PutEventsResultEntry{{EventId: aws.String("1")}, {ErrorCode: &code, ErrorMessage: aws.String("no")}}}, nil
		}}
		errs := eventbridgebus.New(client, "b").Emit(t.Context(), order7, emitted(2))
		wantClass(t, code, errs[1], want)
		if errs[0] != nil {
			t.Errorf("%s: got %v for an accepted event", code, errs[0])
		}
	}
}

func TestAFailedRequestFailsAllEvents(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{"AccessDeniedException": durable.ErrDenied, "ResourceNotFoundException": durable.ErrDenied, "ThrottlingException": nil, "InternalException": nil} {
		client := &recording{answer: func(*eventbridge.PutEventsInput) (*eventbridge.PutEventsOutput, error) {
			return nil, &smithy.GenericAPIError{Code: code, Message: "no"}
		}}
		errs := eventbridgebus.New(client, "b").Emit(t.Context(), order7, emitted(2))
		wantClass(t, code, errs[0], want)
		wantClass(t, code, errs[1], want)
		if len(client.requests) != 1 {
			t.Errorf("%s: got %d requests, want one", code, len(client.requests))
		}
	}
}

// TestARejectedRequestIsSentOneByOne rejects each request that contains a certain entry. The response does not name
// this entry, and the other entries must not be dropped.
func TestARejectedRequestIsSentOneByOne(t *testing.T) {
	t.Parallel()
	client, published := local(t)
	client.answer = func(in *eventbridge.PutEventsInput) (*eventbridge.PutEventsOutput, error) {
		if slices.ContainsFunc(in.Entries, func(e types.PutEventsRequestEntry) bool { return strings.Contains(*e.Detail, `"n":1`) }) {
			return nil, &smithy.GenericAPIError{Code: "ValidationException", Message: "no"}
		}
		return client.next.PutEvents(t.Context(), in)
	}
	errs := eventbridgebus.New(client, "default").Emit(t.Context(), order7, emitted(3))
	wantClass(t, "ValidationException", errs[1], durable.ErrRefused)
	if !slices.Equal(nilIndexes(errs), []int{0, 2}) || len(published()) != 2 || !slices.Equal(client.requests, []int{3, 1, 1, 1}) {
		t.Errorf("got %v, %d events and requests of %v entries, want two events and the second refused", errs, len(published()), client.requests)
	}
}

func TestAResponseThatOmitsEntriesIsRetried(t *testing.T) {
	t.Parallel()
	client := &recording{answer: func(*eventbridge.PutEventsInput) (*eventbridge.PutEventsOutput, error) {
		return &eventbridge.PutEventsOutput{}, nil
	}}
	errs := eventbridgebus.New(client, "b").Emit(t.Context(), order7, emitted(1))
	wantClass(t, "no entries", errs[0], nil)
}

// wantClass fails the test unless the error wraps `class`, which is ErrRefused or ErrDenied. If `class` is nil, the
// error must wrap neither.
func wantClass(t *testing.T, what string, err, class error) {
	t.Helper()
	isRefused, isDenied := errors.Is(err, durable.ErrRefused), errors.Is(err, durable.ErrDenied)
	if err == nil || isRefused != (class == durable.ErrRefused) || isDenied != (class == durable.ErrDenied) { //nolint:errorlint // class is one of the two
		t.Errorf("%s: got %v, want an error that wraps %v", what, err, class)
	}
}
