package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/deadletter"
)

// ParkedEvent is an event in a dead-letter queue.
type ParkedEvent struct {
	MessageID string `json:"message_id"`
	Instance  string `json:"instance"`
	// Event is its type, EventID its idempotency key. Both are empty if the message is not an event.
	Event   string    `json:"event"`
	EventID string    `json:"event_id,omitempty"`
	Since   time.Time `json:"since"`
	// Reason is why it was parked, or why EventBridge could not deliver it. It is empty if SQS moved it after too many
	// receives.
	Reason string `json:"reason,omitempty"`
	// SourceQueue is the ARN of the queue that it was first parked from. SequenceNumber is its number in that queue.
	SourceQueue    string `json:"source_queue,omitempty"`
	SequenceNumber string `json:"sequence_number,omitempty"`
	SentAt         string `json:"sent_at,omitempty"`
	ReceiveCount   string `json:"receive_count,omitempty"`
	// Body is the event with its payload, without task tokens. If it is not valid JSON, it is a JSON string.
	Body json.RawMessage `json:"body,omitempty"`
}

// OfParked returns the view of a message, without its payload.
func OfParked(m *deadletter.Message) ParkedEvent {
	eventType, eventID := m.Head()
	return ParkedEvent{
		MessageID: m.ID, Instance: m.Instance, Event: eventType, EventID: eventID, Since: m.Sent, Reason: m.Reason,
		SourceQueue: m.SourceQueue, SequenceNumber: m.Sequence, SentAt: m.SentFirst, ReceiveCount: m.Receives,
	}
}

// WithEvent adds the payload.
func (p ParkedEvent) WithEvent(m *deadletter.Message) ParkedEvent {
	p.Body = json.RawMessage(m.Shown())
	if !json.Valid(p.Body) {
		p.Body, _ = json.Marshal(m.Shown()) // A string always marshals.
	}
	return p
}

// givenUp is printed if there is no reason.
const givenUp = "none recorded: SQS moved it after too many receives"

// reasonRunesMax is the length at which a table truncates a reason.
const reasonRunesMax = 100

// WriteParked writes parked events as a table, one a row.
func WriteParked(w io.Writer, style console.Style, parked []ParkedEvent, now time.Time) error {
	table := NewTable(style, "MESSAGE ID", "INSTANCE", "EVENT", "SINCE", "REASON")
	for _, p := range parked {
		reason := []rune(cmp.Or(p.Reason, givenUp))
		if len(reason) > reasonRunesMax {
			reason = append(reason[:reasonRunesMax], []rune("...")...)
		}
		table.Add(Plain(p.MessageID), Bold(cmp.Or(p.Instance, "-")), Plain(cmp.Or(p.Event, "-")), Plain(ago(p.Since, now)), Warning(string(reason)))
	}
	return table.Write(w)
}

// WriteText writes the event as text.
func (p ParkedEvent) WriteText(w io.Writer, style console.Style, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", style.Bold(escaped(cmp.Or(p.Instance, "no instance"))))
	row := func(label, value string) { b.WriteString(style.Fold(labelled(style, label, escaped(value)))) }
	row("event", p.Event)
	row("id", p.EventID)
	row("parked", at(p.Since, now))
	b.WriteString(style.Fold(labelled(style, "reason", escaped(cmp.Or(p.Reason, givenUp)))))
	row("from", p.SourceQueue)
	row("number", p.SequenceNumber)
	row("sent", p.SentAt)
	row("received", p.ReceiveCount)
	row("message", p.MessageID)
	b.WriteString(labelled(style, "body", indented(p.Body)))
	_, err := io.WriteString(w, b.String())
	return err
}
