// Package events models the event buses of Amazon EventBridge: buses, rules and their targets, and the delivery of
// events to queues. A Model is a pure state machine: it starts no goroutines, takes no locks, reads no clock and sends
// nothing. IDs derive from counters. The same calls therefore always return the same answers.
//
// The model follows the EventBridge API Reference (2015-10-07) and the EventBridge User Guide. It rejects unsupported
// features with an error that names them: targets other than SQS queues, schedules, transformed inputs, archives.
package events

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/events/pattern"
	"github.com/settle-run/settle/infra/awslocal/internal/record"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const (
	defaultBus = "default"
	arnPrefix  = "arn:aws:events:" + wire.Region + ":" + wire.Account + ":"
	// queueARNPrefix starts the ARNs of queues.
	queueARNPrefix = "arn:aws:sqs:" + wire.Region + ":" + wire.Account + ":"
	// targetsMax limits the targets of a rule (EventBridge User Guide, "EventBridge quotas").
	targetsMax = 5
)

// Model holds the event buses of one account. It is not safe for concurrent use.
type Model struct {
	buses      map[string]*bus
	serial     uint64 // serial number of the last event
	deliveries []Delivery
	published  []json.RawMessage
	touched    record.Touched
}

// bus is an event bus.
type bus struct {
	CreatedAt   time.Time
	Description string           `json:",omitempty"`
	Rules       map[string]*rule `json:"-"`
}

// rule is a rule of a bus.
type rule struct {
	EventPattern string
	State        string
	Description  string   `json:",omitempty"`
	Targets      []target `json:",omitempty"`
	compiled     *pattern.Pattern
}

// target is a target of a rule.
type target struct {
	Id, Arn       string
	SqsParameters *sqsParameters `json:",omitempty"`
}

type sqsParameters struct{ MessageGroupId string }

// New returns a model with the bus "default".
func New() *Model {
	return &Model{buses: map[string]*bus{defaultBus: {CreatedAt: time.Unix(0, 0).UTC(), Rules: map[string]*rule{}}}}
}

// operation is an operation of the API.
type operation func(m *Model, now time.Time, body []byte) (any, *wire.Error)

// of adapts a method with a typed input to an operation.
func of[In any](perform func(m *Model, now time.Time, in *In) (any, *wire.Error)) operation {
	return func(m *Model, now time.Time, body []byte) (any, *wire.Error) {
		var in In
		if err := wire.Decode(body, &in, "ValidationException"); err != nil {
			return nil, err
		}
		return perform(m, now, &in)
	}
}

var operations = map[string]operation{
	"PutEvents": of((*Model).putEvents), "TestEventPattern": of((*Model).testEventPattern),
	"CreateEventBus": of((*Model).createBus), "DescribeEventBus": of((*Model).describeBus), "ListEventBuses": of((*Model).listBuses), "DeleteEventBus": of((*Model).deleteBus),
	"PutRule": of((*Model).putRule), "DescribeRule": of((*Model).describeRule), "ListRules": of((*Model).listRules), "DeleteRule": of((*Model).deleteRule),
	"EnableRule": of((*Model).enableRule), "DisableRule": of((*Model).disableRule),
	"PutTargets": of((*Model).putTargets), "ListTargetsByRule": of((*Model).listTargets), "RemoveTargets": of((*Model).removeTargets),
}

// Call performs an operation. Its input and output are JSON. After each call, perform the deliveries of TakeDeliveries.
func (m *Model) Call(now time.Time, name string, body []byte) ([]byte, *wire.Error) {
	perform, known := operations[name]
	if !known {
		return nil, wire.Errorf("UnknownOperationException", "awslocal does not support the operation %s of EventBridge; it supports %s", name, strings.Join(slices.Sorted(maps.Keys(operations)), ", "))
	}
	out, err := perform(m, now, body)
	if err != nil {
		return nil, err
	}
	return wire.Encode(out), nil
}

func validation(format string, args ...any) *wire.Error {
	return wire.Errorf("ValidationException", format, args...)
}

func notFound(format string, args ...any) *wire.Error {
	return wire.Errorf("ResourceNotFoundException", format, args...)
}

// checkName returns an error unless the name has from 1 to `most` characters. Each character must be an ASCII letter, a
// digit or a character of `permitted`.
func checkName(parameter, name string, most int, permitted string) *wire.Error {
	isOther := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune(permitted, r)
	}
	if name == "" || len(name) > most || strings.ContainsFunc(name, isOther) {
		return validation("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: expected 1 to %d letters, digits and characters of %s", name, parameter, most, permitted)
	}
	return nil
}

// busName returns the name of a bus from a name or an ARN. An empty name is the default bus.
func busName(nameOrARN string) string {
	if nameOrARN == "" {
		return defaultBus
	}
	if _, name, isARN := strings.Cut(nameOrARN, ":event-bus/"); isARN {
		return name
	}
	return nameOrARN
}

func busARN(name string) string { return arnPrefix + "event-bus/" + name }

// ruleARN returns the ARN of a rule. The ARN names the bus unless it is the default bus.
func ruleARN(bus, name string) string {
	if bus == defaultBus {
		return arnPrefix + "rule/" + name
	}
	return arnPrefix + "rule/" + bus + "/" + name
}

// find returns a bus.
func (m *Model) find(nameOrARN string) (name string, b *bus, err *wire.Error) {
	name = busName(nameOrARN)
	b, ok := m.buses[name]
	if !ok {
		return "", nil, notFound("Event bus %s does not exist.", name)
	}
	return name, b, nil
}

// findRule returns a rule and the name of its bus.
func (m *Model) findRule(busNameOrARN, name string) (onBus string, r *rule, err *wire.Error) {
	onBus, b, err := m.find(busNameOrARN)
	if err != nil {
		return "", nil, err
	}
	r, ok := b.Rules[name]
	if !ok {
		return "", nil, notFound("Rule %s does not exist on EventBus %s.", name, onBus)
	}
	return onBus, r, nil
}
