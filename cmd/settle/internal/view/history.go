package view

import (
	"io"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
)

// WriteHistory writes transitions, one a line, with times in the zone.
func WriteHistory(w io.Writer, style console.Style, history []durable.Transition, zone *time.Location) error {
	if len(history) == 0 {
		return nil
	}
	_, err := io.WriteString(w, style.Fold(historyText(style, history, zone)+"\n"))
	return err
}

// Log writes transitions one by one, in columns that grow with their content.
type Log struct {
	w     io.Writer
	style console.Style
	zone  *time.Location
	// named is set if each line starts with the name of its instance.
	named bool
	// instances and events are the current widths of the columns.
	instances, events int
}

// NewLog returns a log. If named is true, each line starts with the name of its instance.
func NewLog(w io.Writer, style console.Style, zone *time.Location, named bool) *Log {
	return &Log{w: w, style: style, zone: zone, named: named, events: len("done.invoke")}
}

// Write writes one transition of the instance.
func (l *Log) Write(instance string, transition durable.Transition) error {
	_, err := io.WriteString(l.w, l.style.Fold(l.line(instance, transition)))
	return err
}

func (l *Log) event(t durable.Transition) string { return escaped(console.EventName(t.Event, t.From)) }

func (l *Log) line(instance string, t durable.Transition) string {
	var b strings.Builder
	b.WriteString(l.style.Dim(t.At.In(l.zone).Format("01-02 15:04:05.000")) + "  ")
	if l.named {
		b.WriteString(l.style.Bold(console.Pad(escaped(instance), &l.instances)) + "  ")
	}
	b.WriteString(console.Pad(l.event(t), &l.events) + "  " + console.Change(l.style, t.From, t.To, t.Ignored) + "\n")
	return b.String()
}
