package client

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/canonicaljson"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// Event is an event with its type. Use it for an event without a payload, or if several events share the payload's
// type. Payload is nil or marshals to a JSON object.
type Event struct {
	Type    string
	Payload any
}

// Option changes how Send works.
type Option func(*options)

type options struct {
	id       string
	distinct bool
	until    Condition
}

// ID replaces the derived ID of the event. Use an ID from your own data, such as the ID of a payment. However often you
// send the event, it takes effect once. A different event with the same ID to the same instance fails with ErrIDReused.
func ID(id string) Option { return func(o *options) { o.id = id } }

// Distinct makes each call of Send queue a new event, even if an equal event was sent before. Use it for events that
// may recur, such as a reminder. If Send fails with ErrUnavailable, the event may be queued, and calling Send again may
// queue it twice.
func Distinct() Option { return func(o *options) { o.distinct = true } }

// Until makes Send wait until the instance has applied the event and has reached the condition. Set a deadline in the
// context. While it waits, Send reads the instance at growing intervals, from 100 ms to two seconds. It also reads the
// instance once before it queues the event.
func Until(condition Condition) Option { return func(o *options) { o.until = condition } }

// Sent is a queued event.
type Sent struct {
	// Instance is the name of the receiver, such as order/1.
	Instance string
	// Type is the event's type.
	Type string
	// ID is the event's ID. It is empty with Distinct.
	ID string
	// MessageID is the queue's ID of the message. If SQS drops the event as a duplicate, it is the ID of the first message.
	MessageID string
	// After is the instance after the event, if Send was called with Until. Otherwise, and after an error, it is the
	// zero value.
	After Instance
	// Ignored is set if Send knows that no transition matched the event. It is set only with Until.
	Ignored bool
}

// Send validates an event and queues it for an instance, such as order/1. The event may create the instance. The
// argument event is one of:
//
//   - a value, or a pointer to a value, of a payload type that one event of the machine declares: order.Place{...}
//   - an Event
//   - a json.RawMessage with the whole event, such as {"type": "PLACE", "item": "book"}
//
// Without an option, the event's ID derives from the event. A caller that retries Send, even after a crash, therefore
// sends only one event. The instance remembers its last 50 events with IDs. To send an equal event again as a new one,
// use ID or Distinct. Send requires one of them for an event without a payload, because a second event would always
// look like a retry.
//
// Send fails with ErrInvalid, ErrIDReused, ErrBehind, ErrDenied or ErrUnavailable. With Until, it also fails with ErrParked, with
// ErrUnreachable, or with the error of the context. If Sent.MessageID is not empty after an error, the event is queued.
func (c *Client) Send(ctx context.Context, id string, event any, options ...Option) (Sent, error) {
	to, err := instances.ParseID(id)
	if err != nil {
		return Sent{}, classified(err)
	}
	return c.send(ctx, to, event, options)
}

// SendByAlias is Send for the instance that has the alias, or had it last. An alias is a third party's ID, such as a
// job ID. SendByAlias fails with ErrUnknownAlias if no instance has had it.
func (c *Client) SendByAlias(ctx context.Context, alias string, event any, options ...Option) (Sent, error) {
	to, err := c.store.Find(ctx, alias)
	if err != nil {
		return Sent{}, classified(err)
	}
	return c.send(ctx, to, event, options)
}

func (c *Client) send(ctx context.Context, to instances.ID, event any, chosen []Option) (Sent, error) {
	var o options
	for _, option := range chosen {
		option(&o)
	}
	checked, isDerived, err := c.check(to, event, o)
	if err == nil && o.until != "" {
		err = producer.CheckCondition(c.machines, to.Machine, o.until)
	}
	if err != nil {
		return Sent{}, classified(err)
	}
	if err := c.producer.Admit(ctx, checked); err != nil {
		return Sent{}, classified(err)
	}
	// A derived ID needs no reservation, because no other event has it.
	if !isDerived {
		if err := c.producer.Reserve(ctx, checked); err != nil {
			return Sent{}, classified(err)
		}
	}
	watched := producer.Sent{Event: checked}
	if o.until != "" {
		if watched, err = c.producer.Watch(ctx, checked); err != nil {
			return Sent{}, classified(err)
		}
	}
	queued, err := c.producer.SendWatched(ctx, watched)
	if err != nil {
		return Sent{}, classified(err)
	}
	sent := Sent{Instance: to.String(), Type: checked.Type, ID: checked.ID, MessageID: queued.MessageID}
	if o.until == "" {
		return sent, nil
	}
	outcome, err := c.producer.Await(ctx, queued, o.until, nil)
	if err != nil {
		return sent, ofWait(ctx, fmt.Errorf("waiting for %s after %s to %s, queued as message %s: %w", o.until, sent.Type, to, sent.MessageID, err))
	}
	sent.Ignored = outcome.Ignored
	sent.After, err = c.instanceOf(outcome.Record)
	return sent, err
}

// Wait waits until an instance, such as order/1, reaches the condition, and returns the instance. If the condition
// already holds, it returns at once. To wait for the outcome of an event, use Until. The instance need not exist yet.
// Set a deadline in the context. Wait reads the instance at growing intervals, from 100 ms to two seconds.
//
// Wait fails with ErrUnreachable if the instance ends without reaching the condition. If the context ends first, Wait
// fails with the error of the context. That error also wraps ErrNotFound if the instance does not exist by then.
func (c *Client) Wait(ctx context.Context, id string, until Condition) (Instance, error) {
	name, err := instances.ParseID(id)
	if err == nil {
		err = producer.CheckCondition(c.machines, name.Machine, until)
	}
	if err != nil {
		return Instance{}, classified(err)
	}
	outcome, err := c.producer.Wait(ctx, name, until, nil)
	switch {
	case err != nil && ctx.Err() != nil && outcome.Record.Revision == 0:
		return Instance{}, fmt.Errorf("waiting for %s: %w: %w", name, ErrNotFound, err)
	case err != nil:
		return Instance{}, ofWait(ctx, fmt.Errorf("waiting for %s of %s: %w", until, name, err))
	}
	return c.instanceOf(outcome.Record)
}

// check validates an event and gives it an ID. isDerived reports whether the ID derives from the event.
func (c *Client) check(to instances.ID, event any, o options) (checked producer.Event, isDerived bool, err error) {
	if o.id != "" && o.distinct {
		return checked, false, fmt.Errorf("%w: expected ID or Distinct, got both", ErrInvalid)
	}
	body, err := c.encode(to.Machine, event)
	if err != nil {
		return checked, false, err
	}
	checked, err = producer.Check(c.machines, to, body, o.id, producer.EventBytesMax)
	if err != nil || checked.ID != "" || o.distinct {
		return checked, false, err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(body, &keys); err != nil {
		return checked, false, err
	}
	if len(keys) == 1 { // The event has only a type.
		return checked, false, fmt.Errorf("%w: %s has no payload, so a second %s would count as a retry of the first: pass ID or Distinct", ErrInvalid, checked.Type, checked.Type)
	}
	digest, err := canonicaljson.EventDigest(body)
	if err != nil {
		return checked, false, err
	}
	checked, err = producer.Check(c.machines, to, body, "event/"+digest[:derivedDigits], producer.EventBytesMax)
	return checked, true, err
}

// derivedDigits is the number of hexadecimal digits in a derived ID. They are the first 128 bits of the digest.
const derivedDigits = 32

// encode returns the JSON of an event.
func (c *Client) encode(machine string, event any) (json.RawMessage, error) {
	switch e := event.(type) {
	case json.RawMessage:
		return e, nil
	case Event:
		return encoded(e.Type, e.Payload)
	case *Event:
		return nil, fmt.Errorf("%w: expected an Event, got a pointer to one", ErrInvalid)
	}
	typ := reflect.TypeOf(event)
	for typ != nil && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if _, err := c.machines.Lookup(machine); err != nil {
		return nil, err
	}
	var all []string
	for _, version := range c.machines.Versions(machine) {
		var types []string
		for eventType, payload := range version.Describe().Payloads {
			for payload != nil && payload.Kind() == reflect.Pointer {
				payload = payload.Elem()
			}
			if payload == typ && typ != nil {
				types = append(types, eventType)
			}
		}
		slices.Sort(types)
		switch len(types) {
		case 0:
		case 1:
			return encoded(types[0], event)
		default:
			return nil, fmt.Errorf("%w: %T is the payload of %s: pass an Event with the type", ErrInvalid, event, strings.Join(types, " and "))
		}
		all = append(all, version.Events()...)
	}
	slices.Sort(all)
	return nil, fmt.Errorf("%w: expected a payload of machine %s, which declares %s, or an Event, got %T", ErrInvalid, machine, strings.Join(slices.Compact(all), ", "), event)
}

// encoded returns the JSON of an event with a payload.
func encoded(typ string, payload any) (json.RawMessage, error) {
	body, err := statechart.EncodeEvent(typ, payload)
	if err != nil {
		return nil, fmt.Errorf("%w: encoding %s: %w", ErrInvalid, typ, err)
	}
	return body, nil
}
