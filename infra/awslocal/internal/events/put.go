package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/settle-run/settle/infra/awslocal/internal/events/pattern"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const (
	entriesMax = 10
	// requestBytesMax limits the total size of the entries of a PutEvents (EventBridge API Reference, PutEvents).
	requestBytesMax = 1 << 20
	// detailTypeMax limits the characters of a detail type (EventBridge API Reference, PutEventsRequestEntry).
	detailTypeMax = 128
)

// Delivery is a message to the queue of a target.
type Delivery struct {
	// Request is the input of SendMessage.
	Request json.RawMessage
}

// TakeDeliveries returns the deliveries since the last call, in order, and removes them. TakeRecords does not include
// deliveries, so a restart loses those that were not taken. The caller must take them within the change that caused
// them.
func (m *Model) TakeDeliveries() []Delivery {
	deliveries := m.deliveries
	m.deliveries = nil
	return deliveries
}

// TakePublished returns the events that a bus has received since the last call of TakePublished, in order, and removes
// them.
func (m *Model) TakePublished() []json.RawMessage {
	published := m.published
	m.published = nil
	return published
}

type entry struct {
	Source, DetailType, EventBusName string
	Detail                           *string
	Resources                        []string
	Time                             *float64 // in seconds since 1970
}

// size returns the size of an entry in bytes (EventBridge User Guide, "Calculating PutEvents event entry size").
func (e *entry) size() int {
	size := len(e.Source) + len(e.DetailType)
	if e.Time != nil {
		size += 14
	}
	if e.Detail != nil {
		size += len(*e.Detail)
	}
	for _, resource := range e.Resources {
		size += len(resource)
	}
	return size
}

// event is an event in the form that targets receive (EventBridge User Guide, "AWS service events").
type event struct {
	Version    string          `json:"version"`
	ID         string          `json:"id"`
	DetailType string          `json:"detail-type"`
	Source     string          `json:"source"`
	Account    string          `json:"account"`
	Time       string          `json:"time"`
	Region     string          `json:"region"`
	Resources  []string        `json:"resources"`
	Detail     json.RawMessage `json:"detail"`
}

// result is an entry of PutEvents' output.
type result struct {
	EventId      string `json:",omitempty"`
	ErrorCode    string `json:",omitempty"`
	ErrorMessage string `json:",omitempty"`
}

type entriesInput struct{ Entries []entry }

func (m *Model) putEvents(now time.Time, in *entriesInput) (any, *wire.Error) {
	if len(in.Entries) < 1 || len(in.Entries) > entriesMax {
		return nil, validation("1 validation error detected: Value at 'entries' failed to satisfy constraint: expected 1 to %d entries, got %d", entriesMax, len(in.Entries))
	}
	total := 0
	for i := range in.Entries {
		total += in.Entries[i].size()
	}
	if total > requestBytesMax {
		return nil, validation("Total size of the entries in the request is over the limit: expected at most %d bytes, got %d.", requestBytesMax, total)
	}
	if !slices.ContainsFunc(in.Entries, func(e entry) bool { return e.Source != "" && e.DetailType != "" && e.Detail != nil }) {
		return nil, validation("expected an entry with Source, DetailType and Detail, got none")
	}
	failed := 0
	results := make([]result, len(in.Entries))
	for i := range in.Entries {
		if results[i] = m.putEvent(now, &in.Entries[i]); results[i].ErrorCode != "" {
			failed++
		}
	}
	return map[string]any{"FailedEntryCount": failed, "Entries": results}, nil
}

// putEvent publishes an event. EventBridge accepts an event for a bus that does not exist and drops it
// (https://github.com/aws/aws-sdk/issues/186, https://github.com/aws/aws-cli/issues/9186).
func (m *Model) putEvent(now time.Time, e *entry) result {
	missing := func(name string) result {
		return result{ErrorCode: "InvalidArgument", ErrorMessage: fmt.Sprintf("Parameter %s is not valid. Reason: %s is a required argument.", name, name)}
	}
	switch {
	case e.Source == "":
		return missing("Source")
	case e.DetailType == "":
		return missing("DetailType")
	case e.Detail == nil:
		return missing("Detail")
	case strings.HasPrefix(e.Source, "aws."):
		return result{ErrorCode: "NotAuthorizedForSourceException", ErrorMessage: "Not authorized for the source."}
	case utf8.RuneCountInString(e.DetailType) > detailTypeMax:
		return result{ErrorCode: "InvalidArgument", ErrorMessage: fmt.Sprintf("Parameter DetailType is not valid. Reason: expected at most %d characters.", detailTypeMax)}
	}
	var detail bytes.Buffer
	if err := json.Compact(&detail, []byte(*e.Detail)); err != nil || detail.Bytes()[0] != '{' {
		return result{ErrorCode: "MalformedDetail", ErrorMessage: "Detail is malformed."}
	}
	m.serial++
	m.touched.Note(serialRecord)
	at := now
	if e.Time != nil {
		at = time.UnixMilli(int64(*e.Time * 1000))
	}
	event := event{
		Version: "0", ID: fmt.Sprintf("%08x-0000-4000-8000-%012x", m.serial>>48, m.serial&(1<<48-1)), DetailType: e.DetailType, Source: e.Source,
		Account: wire.Account, Time: at.UTC().Format("2006-01-02T15:04:05Z"), Region: wire.Region, Resources: append([]string{}, e.Resources...), Detail: detail.Bytes(),
	}
	if b, ok := m.buses[busName(e.EventBusName)]; ok {
		m.route(b, wire.Encode(event))
	}
	return result{EventId: event.ID}
}

// route adds an event to the published events, and delivers it to the targets of the enabled rules that match it.
func (m *Model) route(b *bus, event json.RawMessage) {
	m.published = append(m.published, event)
	for _, name := range slices.Sorted(maps.Keys(b.Rules)) {
		r := b.Rules[name]
		if matched, err := r.compiled.Match(event); err != nil || !matched || r.State != enabled {
			continue
		}
		for _, t := range r.Targets {
			request := map[string]string{"QueueUrl": strings.TrimPrefix(t.Arn, queueARNPrefix), "MessageBody": string(event)}
			if t.SqsParameters != nil {
				request["MessageGroupId"] = t.SqsParameters.MessageGroupId
			}
			m.deliveries = append(m.deliveries, Delivery{Request: wire.Encode(request)})
		}
	}
}

type testInput struct{ EventPattern, Event string }

func (m *Model) testEventPattern(_ time.Time, in *testInput) (any, *wire.Error) {
	compiled, err := pattern.Parse(in.EventPattern)
	if err != nil {
		return nil, wire.Errorf("InvalidEventPatternException", "Event pattern is not valid. Reason: %v", err)
	}
	matched, err := compiled.Match(json.RawMessage(in.Event))
	if err != nil {
		return nil, validation("Event is not valid. Reason: %v", err)
	}
	return map[string]bool{"Result": matched}, nil
}
