package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/deadletter"
)

// ParkedEvent is an event in a dead-letter queue.
type ParkedEvent struct {
	*deadletter.Message
	// Body is the event with its payload, without task tokens. If it is not valid JSON, it is a JSON string.
	Body json.RawMessage `json:"body,omitempty"`
}

// WithEvent returns the view of a message with its payload.
func WithEvent(m *deadletter.Message) ParkedEvent {
	p := ParkedEvent{m, json.RawMessage(m.Shown())}
	if !json.Valid(p.Body) {
		p.Body, _ = json.Marshal(m.Shown()) // A string always marshals.
	}
	return p
}

// givenUp is printed if no reason was recorded.
const givenUp = "none recorded: SQS moved it after too many receives"

// reasonRunesMax is the length at which a table truncates a reason.
const reasonRunesMax = 100

// WriteParked writes parked events as a table with one row for each event.
func WriteParked(w io.Writer, style console.Style, parked []ParkedEvent, now time.Time) error {
	table := NewTable(style, "MESSAGE ID", "INSTANCE", "EVENT", "SINCE", "REASON")
	for _, p := range parked {
		reason := []rune(cmp.Or(p.Reason, givenUp))
		if len(reason) > reasonRunesMax {
			reason = append(reason[:reasonRunesMax], []rune("...")...)
		}
		table.Add(Plain(p.ID), Bold(cmp.Or(p.Instance, "-")), Plain(cmp.Or(p.Event, "-")), Plain(ago(p.Sent, now)), Warning(string(reason)))
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
	row("parked", at(p.Sent, now))
	b.WriteString(style.Fold(labelled(style, "reason", escaped(cmp.Or(p.Reason, givenUp)))))
	row("from", p.SourceQueue)
	row("number", p.Sequence)
	row("sent", p.SentFirst)
	row("received", p.Receives)
	row("message", p.ID)
	b.WriteString(labelled(style, "body", indented(p.Body)))
	_, err := io.WriteString(w, b.String())
	return err
}
