package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// WriteTable writes instances as a table, one a row. Times are relative to now.
func WriteTable(w io.Writer, style console.Style, instances []Instance, now time.Time) error {
	table := NewTable(style, "INSTANCE", "STATE", "STATUS", "SINCE", "NEXT TIMER")
	for _, v := range instances {
		since, timer := "", "-"
		if !v.Since.IsZero() {
			since = ago(v.Since, now)
		}
		if timers := v.timers(); v.Status == statechart.Active && len(timers) > 0 {
			timer = fmt.Sprintf("%s, %s", timers[0].After, ago(timers[0].At, now))
		}
		table.Add(Bold(v.Name), State(strings.Join(v.State, ", ")), Plain(string(v.Status)), Plain(since), Plain(timer))
	}
	return table.Write(w)
}

// WriteCheck writes the counts of a check as a table, one row for each machine, version, status and state. Below the
// table it writes an example of each row that breaks.
func WriteCheck(w io.Writer, style console.Style, rows []durable.CheckRow) error {
	table := NewTable(style, "MACHINE", "VERSION", "STATUS", "STATE", "FIT", "MIGRATE", "BREAK")
	for _, row := range rows {
		breaks := Plain
		if row.Break > 0 {
			breaks = Warning
		}
		table.Add(Bold(row.Machine), Plain(fmt.Sprint(row.Version)), Plain(string(row.Status)), State(strings.Join(row.State, ", ")),
			Plain(fmt.Sprint(row.Fit)), Plain(fmt.Sprint(row.Migrate)), breaks(fmt.Sprint(row.Break)))
	}
	if err := table.Write(w); err != nil {
		return err
	}
	for _, row := range rows {
		if row.Break == 0 {
			continue
		}
		which := escaped(row.Example) + " breaks"
		if row.Break > 1 {
			which = fmt.Sprintf("%s and %d more of the same row break", escaped(row.Example), row.Break-1)
		}
		if _, err := fmt.Fprintf(w, "\n%s\n  %s\n", style.Warning(which), escaped(row.Error)); err != nil {
			return err
		}
	}
	return nil
}

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
