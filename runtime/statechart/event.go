package statechart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/internal/readjson"
)

// Names with a meaning for the runtime: a tag, event types, and a key.
const (
	// Settled is the tag of atomic states in which a chart may wait for the outside world.
	Settled = "settled"
	// ReservedPrefix is the prefix of event types that producers must not send.
	ReservedPrefix = "settle."
	// TimerEvent reports a fired timer: {"type": "settle.timer", "timer": ID}.
	TimerEvent = ReservedPrefix + "timer"
	// ExecutionError is raised when an action or guard returns an error, or when the output of a final state cannot be
	// encoded (SCXML 3.12.2). Its payload is the StepError. A transition for "error.execution" or "error.*" receives it,
	// but one for "*" does not. If no active state accepts it, the error fails the step. A panic and ErrLimit always fail
	// the step. A failing guard of an eventless transition causes ErrEndless unless the handler leaves the state.
	ExecutionError = "error.execution"
	// CommunicationError reports that a requested effect will never happen (SCXML 5.10, 6.2.4). The host sends it, once
	// per effect, to charts that declare it with PayloadOf[CommunicationFailure].
	CommunicationError = "error.communication"
	// WorkflowKey is the key in a workflow's input under which the host stores the instance that started the execution.
	WorkflowKey = "$settle"
)

// Event is the input of a step. The zero value starts a chart.
type Event struct {
	Type string
	ID   string    // the producer's event ID ("$id"), or empty; an instance applies only one event per ID
	At   time.Time // the time at which the event is applied; charts have no other clock
	// Payload is a value of the declared type. For an event from outside, Payloads declares the type. The payload of
	// done.invoke.ID is the service's result, and error.invoke.ID carries a ServiceError. The payload of done.state.ID
	// for a compound state is the output (json.RawMessage) of its final state.
	Payload    any
	Timer      string // the ID of the timer that fired, for TimerEvent
	Invocation string // the key of the ended invocation, for done and error events

	// raw is the JSON form from which the event was decoded, if its chart may defer it. It is empty for other events.
	raw string
}

// Payload declares the payload type of an event.
type Payload struct {
	typ      reflect.Type
	internal bool
}

// PayloadOf declares an event whose JSON object decodes into T. If T or *T has a method Validate() error, Decode calls
// it, and an error or panic rejects the event. The error is logged and stored, so it should not quote secrets.
func PayloadOf[T any]() Payload { return Payload{typ: reflect.TypeFor[T]()} }

// NoPayload declares an event without payload. Additional keys are ignored.
func NoPayload() Payload { return Payload{} }

// InternalOf declares an event that only the chart raises. Decode refuses it.
func InternalOf[T any]() Payload { return Payload{typ: reflect.TypeFor[T](), internal: true} }

// Internal is InternalOf for an event without payload.
func Internal() Payload { return Payload{internal: true} }

// Payloads declares the event types of a chart.
type Payloads map[string]Payload

// Types returns the event types that may come from outside, sorted.
func (p Payloads) Types() []string {
	var types []string
	for typ, payload := range p {
		if !payload.internal {
			types = append(types, typ)
		}
	}
	sort.Strings(types)
	return types
}

// Errors of Decode.
var (
	ErrNotAnEvent = errors.New("not an event")          // the body is not a JSON object with a type
	ErrUndeclared = errors.New("undeclared event type") // the chart does not declare the event type
	ErrPayload    = errors.New("wrong payload")         // the payload does not have the declared shape
)

// JSONError reports a value of the wrong kind in a JSON document. The errors of Decode may wrap it.
type JSONError = readjson.Error

// Decode decodes an event: a JSON object with the key "type", the payload's keys, and an optional "$id". It leaves At
// zero. With ErrUndeclared and ErrPayload, the returned event has its Type. Errors may quote an undeclared event type
// and key names, but no values, because values may be secret.
func (c *chart) Decode(body []byte) (Event, error) {
	event, err := c.payloads.decode(c.id, body)
	if err == nil && c.defers && event.Type != TimerEvent {
		event.raw = string(body)
	}
	return event, err
}

func (p Payloads) decode(chart string, body []byte) (Event, error) {
	// A map compares keys exactly. Decoding into a struct would match "Type" as well.
	var head map[string]json.RawMessage
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return Event{}, fmt.Errorf("%w: expected a JSON object such as {\"type\": \"VERIFY\"}, got %s", ErrNotAnEvent, beginning(body))
	}
	if err := json.Unmarshal(body, &head); err != nil {
		if err = readjson.SyntaxError(err); errors.As(err, new(*readjson.Error)) {
			return Event{}, fmt.Errorf("%w: %w", ErrNotAnEvent, err)
		}
		return Event{}, fmt.Errorf("%w: %w, got %d bytes", ErrNotAnEvent, err, len(body))
	}
	var event Event
	for _, field := range []struct {
		key  string
		into *string
	}{{"type", &event.Type}, {"$id", &event.ID}} {
		if value, ok := head[field.key]; ok && json.Unmarshal(value, field.into) != nil {
			return Event{}, fmt.Errorf("%w: expected a string under the key %q, got %s", ErrNotAnEvent, field.key, readjson.Kind(value))
		}
		if len(*field.into) > EventNameBytesMax {
			return Event{}, fmt.Errorf("%w: expected at most %d bytes under the key %q, got %d", ErrNotAnEvent, EventNameBytesMax, field.key, len(*field.into))
		}
	}
	if event.Type == "" {
		got := keyNames(head)
		if value, ok := head["type"]; ok {
			got = readjson.Kind(value)
		}
		return Event{}, fmt.Errorf("%w: expected the key \"type\" with an event type, got %s", ErrNotAnEvent, got)
	}
	if event.Type == TimerEvent {
		if json.Unmarshal(head["timer"], &event.Timer) != nil || event.Timer == "" {
			return event, fmt.Errorf("%w: %s expects the key \"timer\" with a timer's ID, got %s", ErrPayload, TimerEvent, readjson.Kind(head["timer"]))
		}
		return event, nil
	}
	payload, declared := p[event.Type]
	if !declared || payload.internal {
		return event, fmt.Errorf("%w: chart %s has no event %+q; it declares %s", ErrUndeclared, chart, event.Type, strings.Join(p.Types(), ", "))
	}
	if payload.typ == nil {
		return event, nil
	}
	var err error
	if event.Payload, err = payload.decode(body); err != nil {
		return event, fmt.Errorf("%w: event %q of chart %s: %w", ErrPayload, event.Type, chart, err)
	}
	return event, nil
}

// beginningRunesMax is the maximum number of characters quoted from an invalid body.
const beginningRunesMax = 8

// beginning describes the start of a body that is not an object: its leading white space and byte order marks, and one
// more character. It quotes no more, because the body may be secret.
func beginning(body []byte) string {
	if len(body) == 0 {
		return "0 bytes"
	}
	length := 0
	for range beginningRunesMax {
		r, size := utf8.DecodeRune(body[length:])
		length += size
		if r != '\ufeff' && !unicode.IsSpace(r) {
			break
		}
	}
	return fmt.Sprintf("%d bytes that begin with %+q", len(body), body[:length])
}

// EncodeEvent encodes an event for Decode. The payload is nil or an object.
func EncodeEvent(typ string, payload any) (json.RawMessage, error) { return encodeEvent(typ, payload) }

// typeOf returns the type of a stored event.
func typeOf(body []byte) (typ string, err error) {
	var head map[string]json.RawMessage
	if err = json.Unmarshal(body, &head); err == nil {
		err = json.Unmarshal(head["type"], &typ)
	}
	return typ, err
}

// sent decodes an event that the chart sent to itself or deferred. If decoding fails, the returned event still has its
// type, provided that the type itself can be read.
func (c *chart) sent(body []byte) (event Event, err error) {
	if event.Type, err = typeOf(body); err != nil {
		return Event{}, err
	}
	payload, declared := c.payloads[event.Type]
	if !declared && c.foreign {
		return Event{Type: event.Type, Payload: json.RawMessage(body)}, nil
	}
	if !declared {
		return event, fmt.Errorf("%w: %q", ErrUndeclared, event.Type)
	}
	if payload.typ != nil {
		event.Payload, err = payload.decode(body)
	}
	return event, err
}

// decode decodes and validates a payload. A panic in a method of the type rejects the event, as an error does.
func (p Payload) decode(body []byte) (payload any, err error) {
	defer func() {
		if r := recover(); r != nil {
			payload, err = nil, Panicked(r)
		}
	}()
	pointer := reflect.New(p.typ)
	if err := json.Unmarshal(body, pointer.Interface()); err != nil {
		return nil, readjson.Explain(err, body, p.typ)
	}
	validator, ok := pointer.Interface().(interface{ Validate() error })
	if !ok {
		validator, ok = pointer.Elem().Interface().(interface{ Validate() error })
	}
	if ok {
		if err := validator.Validate(); err != nil {
			return nil, err
		}
	}
	return pointer.Elem().Interface(), nil
}

// Limits on the keys quoted in an error message.
const (
	namedKeysMax     = 10
	namedKeyBytesMax = 32
)

// keyNames lists the keys of an object for a message.
func keyNames(object map[string]json.RawMessage) string {
	if len(object) == 0 {
		return "no keys"
	}
	keys := sortedKeys(object)
	var names []string
	for _, key := range keys[:min(len(keys), namedKeysMax)] {
		if len(key) > namedKeyBytesMax {
			names = append(names, fmt.Sprintf("%q...", key[:namedKeyBytesMax]))
		} else {
			names = append(names, fmt.Sprintf("%q", key))
		}
	}
	listed := "the keys " + strings.Join(names, ", ")
	if more := len(keys) - len(names); more > 0 {
		listed += fmt.Sprintf(" and %d more", more)
	}
	return listed
}

// isPartial reports whether a descriptor is a wildcard or prefix.
func isPartial(descriptor string) bool {
	return descriptor == "*" || strings.HasSuffix(descriptor, ".*")
}

// matches reports whether an event descriptor matches an event type: see outline.Matches. Timer events match only their
// own descriptor.
func matches(descriptor, typ string) bool {
	return descriptor == typ || !strings.HasPrefix(typ, afterPrefix) && outline.Matches(descriptor, typ)
}
