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
)

// ReservedPrefix begins the event types that belong to the runtime; producers may not send
// them.
const ReservedPrefix = "settle."

// TimerEvent is the type of the event by which a timer fires: {"type": "settle.timer",
// "timer": ID}.
const TimerEvent = ReservedPrefix + "timer"

// ExecutionError is the type of the event that a chart raises when an action or a guard of its own
// returns an error, or the output of a final state cannot be encoded (SCXML 3.12.2, error.execution). Its payload is the
// StepError.
//
// Only a chart with a transition for "error.execution" or "error.*" gets it; "*" is not enough.
// Without one, or if no active state takes the event, the error is that of the step. A panic and
// ErrLimit always are. A guard of an eventless transition that fails again and again is endless:
// leave its state.
const ExecutionError = "error.execution"

// EventNameBytesMax limits the type of an event and the producer's ID "$id", both of which
// are stored with instances.
const EventNameBytesMax = 256

// Event is what a chart reacts to. The zero value is the event of a chart that starts.
type Event struct {
	Type string
	// ID is the producer's own event ID ("$id"), empty if it gave none. Events of one
	// instance with the same ID are applied once.
	ID string
	// At is when the event is applied. It is the only time a chart knows.
	At time.Time
	// Payload is a value of the declared type: for an event from outside that of Payloads,
	// for done.invoke.ID the service's result, for error.invoke.ID a ServiceError, for
	// done.state.ID of a compound state the output (json.RawMessage) of its final state.
	Payload any
	// Timer is the ID of the timer that fired, for events of type TimerEvent.
	Timer string
	// Invocation is the key of the invocation that ended, for its done and error events.
	Invocation string
}

// Payload declares the payload type of an event.
type Payload struct {
	typ      reflect.Type
	internal bool
}

// PayloadOf declares an event that carries a T. T is decoded from the event's JSON object by
// encoding/json; if T or *T has a method Validate() error, it is called and its error
// refuses the event, as a panic in it does. That error is logged and kept with the event: it
// should not quote secrets.
func PayloadOf[T any]() Payload { return Payload{typ: reflect.TypeFor[T]()} }

// NoPayload declares an event that carries nothing; further keys are ignored.
func NoPayload() Payload { return Payload{} }

// InternalOf declares an event that only the chart itself raises: one that arrives from
// outside is refused as undeclared.
func InternalOf[T any]() Payload { return Payload{typ: reflect.TypeFor[T](), internal: true} }

// Internal is InternalOf for an event that carries nothing.
func Internal() Payload { return Payload{internal: true} }

// Payloads declares the event types of a chart.
type Payloads map[string]Payload

// Types returns the types of the events that may come from outside, sorted.
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

// Errors by which a host decides what becomes of an event that cannot be decoded.
var (
	// ErrNotAnEvent is returned by Decode when the body is not a JSON object with a type.
	ErrNotAnEvent = errors.New("not an event")
	// ErrUndeclared is returned by Decode when the chart does not declare the event type.
	ErrUndeclared = errors.New("undeclared event type")
	// ErrPayload is returned by Decode when the payload does not have the declared shape.
	ErrPayload = errors.New("wrong payload")
)

// Decode reads an event from its JSON form: an object with the key "type", the payload's
// keys beside it, and optionally "$id". At is left zero. The errors wrap ErrNotAnEvent,
// ErrUndeclared or ErrPayload; with the latter two, the event that is returned has its type.
// Of the body they quote no values, which may be secret, but an undeclared type and names of
// keys.
func (c *chart) Decode(body []byte) (Event, error) { return c.payloads.decode(c.id, body) }

func (p Payloads) decode(chart string, body []byte) (Event, error) {
	// Keys are compared exactly, through a map: into a struct, encoding/json would take
	// "Type" for "type".
	var head map[string]json.RawMessage
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return Event{}, fmt.Errorf("%w: expected a JSON object such as {\"type\": \"VERIFY\"}, got %s", ErrNotAnEvent, beginning(body))
	}
	if err := json.Unmarshal(body, &head); err != nil {
		if err = syntaxError(err); errors.As(err, new(*JSONError)) {
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
			return Event{}, fmt.Errorf("%w: expected a string under the key %q, got %s", ErrNotAnEvent, field.key, jsonKind(value))
		}
		if len(*field.into) > EventNameBytesMax {
			return Event{}, fmt.Errorf("%w: expected at most %d bytes under the key %q, got %d", ErrNotAnEvent, EventNameBytesMax, field.key, len(*field.into))
		}
	}
	if event.Type == "" {
		got := keyNames(head)
		if value, ok := head["type"]; ok {
			got = jsonKind(value)
		}
		return Event{}, fmt.Errorf("%w: expected the key \"type\" with an event type, got %s", ErrNotAnEvent, got)
	}
	if event.Type == TimerEvent {
		if json.Unmarshal(head["timer"], &event.Timer) != nil || event.Timer == "" {
			return event, fmt.Errorf("%w: %s expects the key \"timer\" with a timer's ID, got %s", ErrPayload, TimerEvent, jsonKind(head["timer"]))
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

// beginningRunesMax is how much of a body that is no event is quoted at most.
const beginningRunesMax = 8

// beginning says how a body begins that is no object: with white space and a byte order mark, which nobody sees, and one
// character more. The rest may be secret.
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

// EncodeEvent writes an event in the JSON form that Decode reads, as SendTo does. The payload must
// marshal to a JSON object, or be nil.
func EncodeEvent(typ string, payload any) (json.RawMessage, error) { return encodeEvent(typ, payload) }

// sent reads an event that a chart sent itself, from its JSON form.
func (c *chart) sent(body []byte) (Event, error) {
	var head map[string]json.RawMessage
	var event Event
	err := json.Unmarshal(body, &head)
	if err == nil {
		err = json.Unmarshal(head["type"], &event.Type)
	}
	if err != nil {
		return Event{}, err
	}
	payload, declared := c.payloads[event.Type]
	if !declared && c.foreign {
		return Event{Type: event.Type, Payload: json.RawMessage(body)}, nil
	}
	if !declared {
		return Event{}, fmt.Errorf("%w: %q", ErrUndeclared, event.Type)
	}
	if payload.typ != nil {
		event.Payload, err = payload.decode(body)
	}
	return event, err
}

// decode reads and validates a payload. The type's own methods may panic on input that they
// did not expect; that refuses the event as their error would.
func (p Payload) decode(body []byte) (payload any, err error) {
	defer func() {
		if r := recover(); r != nil {
			payload, err = nil, Panicked(r)
		}
	}()
	pointer := reflect.New(p.typ)
	if err := json.Unmarshal(body, pointer.Interface()); err != nil {
		return nil, jsonError(err, body, p.typ)
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

// Limits on the keys that an error message names.
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

// jsonKind names the kind of a JSON value, which has no space around it, for a message.
func jsonKind(value json.RawMessage) string {
	if len(value) == 0 {
		return "nothing"
	}
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		if len(value) == len(`""`) {
			return "an empty string"
		}
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// isPartial reports whether a descriptor matches types beside the one that it spells.
func isPartial(descriptor string) bool {
	return descriptor == "*" || strings.HasSuffix(descriptor, ".*")
}

// matches reports whether an event descriptor matches an event type (SCXML 3.12.1): "*",
// the type itself, or "a.b.*" for a.b and every type that begins with "a.b.". The timers' own
// events are matched by nothing but themselves.
func matches(descriptor, typ string) bool {
	if descriptor == typ {
		return true
	}
	if strings.HasPrefix(typ, afterPrefix) {
		return false
	}
	if descriptor == "*" {
		return true
	}
	prefix, partial := strings.CutSuffix(descriptor, ".*")
	return partial && (typ == prefix || strings.HasPrefix(typ, prefix+"."))
}
