// Package eventbridgebus publishes the events that instances emit (statechart.Emit) on an event bus of Amazon
// EventBridge. Rules of the bus then route them to queues, functions and other targets.
//
// EventBridge delivers events in no particular order, and may deliver one more than once. A consumer recognises
// duplicates by the id in the detail.
package eventbridgebus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/denial"
	"github.com/settle-run/settle/runtime/internal/plainjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// SourcePrefix and the ID of the machine form the source of an event, such as settle.order.
const SourcePrefix = "settle."

const (
	// entriesMax is the maximum number of entries in a PutEvents request (EventBridge API Reference, PutEvents).
	entriesMax = 10
	// requestBytesMax limits the total size of the entries in a PutEvents request (EventBridge API Reference,
	// PutEvents). A single entry always fits, because instances.EventBytesMax limits its event.
	requestBytesMax = 1 << 20
	// detailTypeMax limits the characters of a detail type (EventBridge API Reference, PutEventsRequestEntry).
	// EventBridge accepts a longer one, and then drops the event without an error.
	detailTypeMax = 128
)

// Errors that Emit returns. After any other error (throttling, timeouts, lost connections) the event may or may not be
// published: publish it again.
var (
	// ErrRefused is returned if EventBridge will never accept the event.
	ErrRefused = fmt.Errorf("refused by EventBridge: %w", durable.ErrRefused)
	// ErrDenied is returned if a permission is missing, including the permission for the key of an encrypted
	// bus.
	ErrDenied = fmt.Errorf("denied by EventBridge: grant events:PutEvents on the bus, check the policies of role and bus (%w)", durable.ErrDenied)
)

// Client is the part of the EventBridge client that a Bus uses. *eventbridge.Client implements it.
type Client interface {
	PutEvents(context.Context, *eventbridge.PutEventsInput, ...func(*eventbridge.Options)) (*eventbridge.PutEventsOutput, error)
}

// Bus publishes events on an event bus. It is safe for concurrent use.
type Bus struct {
	client Client
	name   string
}

// New returns the bus with the given name or ARN. EventBridge drops the events for a bus that does not exist, and
// reports no error.
func New(client Client, name string) *Bus { return &Bus{client: client, name: name} }

// Detail is the detail of a published event.
type Detail struct {
	// ID is globally unique. A repeat of the event has the same ID.
	ID string `json:"id"`
	// Instance is the name of the instance that emitted the event, such as order/7. Machine is the ID of its machine.
	Instance string `json:"instance"`
	Machine  string `json:"machine"`
	// Event is the type of the event. It is also the detail type.
	Event string `json:"event"`
	// Payload is a JSON object: the event without its type.
	Payload json.RawMessage `json:"payload"`
}

// Emit publishes events of an instance: up to ten in one request, or in several requests if they are too large
// together. It returns one error for each event: nil if EventBridge accepted the event. An error may wrap ErrRefused or
// ErrDenied. Emit implements durable.Config.Emit.
func (b *Bus) Emit(ctx context.Context, from instances.ID, events []statechart.Effect) []error {
	errs := make([]error, len(events))
	var entries []types.PutEventsRequestEntry
	var of []int // for each entry, the index of its event
	bytes := 0
	put := func() {
		if len(entries) > 0 {
			b.put(ctx, entries, func(entry int, err error) { errs[of[entry]] = err })
		}
		entries, of, bytes = nil, nil, 0
	}
	for i, event := range events {
		entry, err := b.entry(from, event)
		if err != nil {
			errs[i] = err
			continue
		}
		size := entryBytes(entry)
		if len(entries) == entriesMax || bytes+size > requestBytesMax {
			put()
		}
		entries, of, bytes = append(entries, entry), append(of, i), bytes+size
	}
	put()
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("publishing event %s on the bus %s: %w", events[i].ID, b.name, err)
		}
	}
	return errs
}

// entry returns the entry of an event.
func (b *Bus) entry(from instances.ID, event statechart.Effect) (types.PutEventsRequestEntry, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(event.Event, &fields); err != nil {
		return types.PutEventsRequestEntry{}, fmt.Errorf("%w: reading the event: %w", ErrRefused, err)
	}
	var typ string
	if err := json.Unmarshal(fields["type"], &typ); err != nil {
		return types.PutEventsRequestEntry{}, fmt.Errorf("%w: reading the type of the event: %w", ErrRefused, err)
	}
	if n := utf8.RuneCountInString(typ); n > detailTypeMax {
		return types.PutEventsRequestEntry{}, fmt.Errorf("%w: expected an event type of at most %d characters, got %d: use a shorter type", ErrRefused, detailTypeMax, n)
	}
	delete(fields, "type")
	payload, err := plainjson.Marshal(fields)
	if err != nil {
		return types.PutEventsRequestEntry{}, fmt.Errorf("%w: encoding the payload: %w", ErrRefused, err)
	}
	detail, err := plainjson.Marshal(Detail{ID: event.ID, Instance: from.String(), Machine: from.Machine, Event: typ, Payload: payload})
	if err != nil {
		return types.PutEventsRequestEntry{}, fmt.Errorf("%w: encoding the detail: %w", ErrRefused, err)
	}
	return types.PutEventsRequestEntry{
		EventBusName: &b.name, Source: aws.String(SourcePrefix + from.Machine), DetailType: &typ, Detail: aws.String(string(detail)),
	}, nil
}

// entryBytes returns the size of an entry (EventBridge User Guide, "Calculating PutEvents event entry size").
func entryBytes(entry types.PutEventsRequestEntry) int {
	return len(aws.ToString(entry.Source)) + len(aws.ToString(entry.DetailType)) + len(aws.ToString(entry.Detail))
}

// put sends entries in one request and reports the error of each. If EventBridge rejects the request as a whole, put
// sends them one by one, because the response does not name the entry at fault.
func (b *Bus) put(ctx context.Context, entries []types.PutEventsRequestEntry, report func(entry int, err error)) {
	output, err := b.client.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: entries})
	err = classify(err)
	if errors.Is(err, ErrRefused) && len(entries) > 1 {
		for i := range entries {
			b.put(ctx, entries[i:i+1], func(_ int, err error) { report(i, err) })
		}
		return
	}
	if err == nil && len(output.Entries) != len(entries) {
		err = fmt.Errorf("expected EventBridge to report on %d entries, got %d", len(entries), len(output.Entries))
	}
	for i := range entries {
		if err != nil {
			report(i, err)
			continue
		}
		if result := output.Entries[i]; result.ErrorCode != nil {
			report(i, classify(&smithy.GenericAPIError{Code: *result.ErrorCode, Message: aws.ToString(result.ErrorMessage)}))
		}
	}
}

// refusals are the error codes of malformed requests and entries (EventBridge API Reference, PutEventsResultEntry and
// "Common errors").
var refusals = []string{"InvalidArgument", "MalformedDetail", "RedactionFailure", "ValidationException", "ValidationError", "RequestEntityTooLarge", "RequestEntityTooLargeException"}

// denials are error codes of EventBridge for missing permissions and resources. Package denial has more.
var denials = []string{"NotAuthorizedForSourceException", "NotAuthorizedForDetailTypeException", "InvalidAccountIdException", "ResourceNotFoundException"}

// classify converts an error of EventBridge to one of this package's errors. It returns every other error unchanged.
func classify(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch code := api.ErrorCode(); {
	case slices.Contains(refusals, code):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case slices.Contains(denials, code) || denial.Is(code):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	default:
		return err
	}
}
