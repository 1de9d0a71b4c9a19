package sqs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const delaySecondsMax = 900

// settings holds the parsed attributes of a queue.
type settings struct {
	visibility, retention, delay, receiveWait time.Duration

	messageBytesMax           int
	contentBasedDeduplication bool
	deduplicatePerGroup       bool
	redrive                   *redrivePolicy      // nil if not set
	redriveAllow              *redriveAllowPolicy // nil if all queues are allowed
}

// settable describes a queue attribute that CreateQueue and SetQueueAttributes accept.
type settable struct {
	fallback string // the default; if empty, the attribute is absent by default
	fifoOnly bool
	read     func(s *settings, value string) error
}

// settables lists the attributes that can be set, with the limits of the API Reference (CreateQueue, "Attributes").
var settables = map[string]settable{
	"VisibilityTimeout": {"30", false, seconds(0, visibilitySecondsMax,
		func(s *settings) *time.Duration { return &s.visibility })},
	"MessageRetentionPeriod": {"345600", false, seconds(60, 14*24*60*60,
		func(s *settings) *time.Duration { return &s.retention })},
	"DelaySeconds": {"0", false, seconds(0, delaySecondsMax,
		func(s *settings) *time.Duration { return &s.delay })},
	"ReceiveMessageWaitTimeSeconds": {"0", false, seconds(0, waitSecondsMax,
		func(s *settings) *time.Duration { return &s.receiveWait })},
	"MaximumMessageSize": {strconv.Itoa(MessageBytesMax), false, func(s *settings, value string) (err error) {
		s.messageBytesMax, err = integer(value, 1024, MessageBytesMax)
		return err
	}},
	"RedrivePolicy": {"", false, func(s *settings, value string) (err error) {
		s.redrive, err = parseRedrivePolicy(value)
		return err
	}},
	"RedriveAllowPolicy": {"", false, func(s *settings, value string) (err error) {
		s.redriveAllow, err = parseRedriveAllowPolicy(value)
		return err
	}},
	// awslocal stores this attribute but encrypts nothing. Clients see only the attribute.
	"SqsManagedSseEnabled": {"true", false, choice(nil, "true", "false")},
	"FifoQueue":            {"true", true, choice(nil, "true")},
	"ContentBasedDeduplication": {"false", true, choice(
		func(s *settings, value string) { s.contentBasedDeduplication = value == "true" }, "false", "true")},
	"DeduplicationScope": {"queue", true, choice(
		func(s *settings, value string) { s.deduplicatePerGroup = value == "messageGroup" }, "queue", "messageGroup")},
	// awslocal has no throughput quotas, so this attribute has no effect.
	"FifoThroughputLimit": {"perQueue", true, choice(nil, "perQueue", "perMessageGroupId")},
}

// unsupported lists the SQS attributes that awslocal does not support, and why.
var unsupported = map[string]string{
	"Policy":                       "every caller has full access",
	"KmsMasterKeyId":               "nothing is encrypted with KMS",
	"KmsDataKeyReusePeriodSeconds": "nothing is encrypted with KMS",
}

func seconds(least, most int, field func(*settings) *time.Duration) func(*settings, string) error {
	return func(s *settings, value string) error {
		n, err := integer(value, least, most)
		*field(s) = time.Duration(n) * time.Second
		return err
	}
}

func integer(value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("expected an integer from %d to %d", least, most)
	}
	return n, nil
}

func choice(set func(*settings, string), choices ...string) func(*settings, string) error {
	return func(s *settings, value string) error {
		if !slices.Contains(choices, value) {
			return fmt.Errorf("expected one of %v", choices)
		}
		if set != nil {
			set(s, value)
		}
		return nil
	}
}

// applyAttributes returns the attributes of a queue after the changes, and the settings parsed from them. A nil current
// means a new queue. An empty value in changes resets an attribute to its default.
func applyAttributes(current map[string]string, fifo bool, changes map[string]string) (map[string]string, settings, *wire.Error) {
	next := maps.Clone(current)
	if next == nil {
		next = make(map[string]string)
		for name, s := range settables {
			if s.fallback != "" && (fifo || !s.fifoOnly) {
				next[name] = s.fallback
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		s, ok := settables[name]
		if reason, known := unsupported[name]; known {
			return nil, settings{}, wire.Errorf("InvalidAttributeName",
				"awslocal does not support the queue attribute %s (%s); leave it out.", name, reason)
		}
		if !ok {
			return nil, settings{}, wire.Errorf("InvalidAttributeName", "Unknown Attribute %s; those that "+
				"can be set are %v.", name, slices.Sorted(maps.Keys(settables)))
		}
		if s.fifoOnly && !fifo {
			return nil, settings{}, wire.Errorf("InvalidAttributeName",
				"You can specify the %s only when FifoQueue is set to true.", name)
		}
		next[name] = changes[name]
		if changes[name] == "" {
			next[name] = s.fallback
		}
		if next[name] == "" {
			delete(next, name)
		}
	}
	parsed, err := parseAttributes(next)
	return next, parsed, err
}

func parseAttributes(attributes map[string]string) (settings, *wire.Error) {
	var parsed settings
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		err := settables[name].read(&parsed, attributes[name])
		if err == nil && name == "FifoThroughputLimit" && attributes[name] == "perMessageGroupId" &&
			attributes["DeduplicationScope"] != "messageGroup" {
			err = errors.New("perMessageGroupId is allowed only when DeduplicationScope is messageGroup")
		}
		if err != nil {
			return settings{}, wire.Errorf("InvalidAttributeValue",
				"Invalid value for the parameter %s. Reason: %v; got %q.", name, err, attributes[name])
		}
	}
	return parsed, nil
}
