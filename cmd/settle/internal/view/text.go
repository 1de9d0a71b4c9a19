package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/statechart"
)

// timeFormat is how points in time are shown: by the second, with their zone.
const timeFormat = "2006-01-02 15:04:05 MST"

// WriteText writes the instance for people to read; now is what times are counted from, in
// the zone that they are shown in.
func (v Instance) WriteText(w io.Writer, style console.Style, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", style.Bold(v.Instance))
	row := func(label, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %s  %s\n", style.Dim(fmt.Sprintf("%-8s", label)), strings.ReplaceAll(value, "\n", "\n            "))
		}
	}
	row("state", style.State(strings.Join(v.State, ", ")))
	row("since", v.sinceText(now))
	row("status", string(v.Status)+v.settledText())
	row("tags", strings.Join(without(v.Tags, statechart.Settled), ", "))
	row("next", v.nextText())
	row("timers", v.timersText(now))
	row("services", v.servicesText())
	row("context", indented(v.Context))
	row("output", indented(v.Output))
	if v.Parked != nil {
		// An event that cannot be read has no type.
		row("parked", style.Warning(fmt.Sprintf("%s, %s: %s", cmp.Or(v.Parked.Event, "an event"), ago(v.Parked.At, now), v.Parked.Message)))
	}
	if v.Ignored > 0 {
		row("ignored", fmt.Sprintf("%d so far, for want of a transition", v.Ignored))
	}
	row("stored", fmt.Sprintf("revision %d, %s, version %d of %s", v.Revision, ago(v.UpdatedAt, now), v.Version, v.Machine))
	if !v.ExpireAt.IsZero() {
		row("expires", at(v.ExpireAt, now))
	}
	row("history", v.historyText(style, now.Location()))
	_, err := io.WriteString(w, b.String())
	return err
}

// settledText says in words what the tag and the services mean.
func (v Instance) settledText() string {
	switch {
	case v.Status != statechart.Active:
		return ""
	case len(v.Services) == 0 && slices.Contains(v.Tags, statechart.Settled):
		return ", settled: nothing runs until an event or a timer comes"
	default:
		return ", not settled: its next events wait in the queue"
	}
}

func (v Instance) sinceText(now time.Time) string {
	if v.Since.IsZero() {
		return fmt.Sprintf("before %s, which is as far back as the history goes", v.History[0].At.In(now.Location()).Format(timeFormat))
	}
	return at(v.Since, now)
}

func (v Instance) nextText() string {
	if v.Status != statechart.Active {
		return "nothing: further events are ignored"
	}
	return strings.Join(v.NextEvents, ", ")
}

func (v Instance) timersText(now time.Time) string {
	var lines []string
	for _, timer := range v.timers() {
		lines = append(lines, fmt.Sprintf("after %s in %s: %s", timer.After, timer.State, at(timer.At, now)))
	}
	return strings.Join(lines, "\n")
}

func (v Instance) servicesText() string {
	var lines []string
	for _, service := range v.services() {
		lines = append(lines, fmt.Sprintf("%s in %s, attempt %d", service.Service, service.State, max(service.Attempt, 1)))
	}
	return strings.Join(lines, "\n")
}

func (v Instance) historyText(style console.Style, zone *time.Location) string {
	width := 0
	for _, transition := range v.History {
		width = max(width, len(console.EventName(transition.Event, transition.From)))
	}
	var lines []string
	for _, transition := range v.History {
		lines = append(lines, fmt.Sprintf("%s  %-*s  %s", style.Dim(transition.At.In(zone).Format("01-02 15:04:05.000")),
			width, console.EventName(transition.Event, transition.From), console.Change(style, transition.From, transition.To, transition.Ignored)))
	}
	return strings.Join(lines, "\n")
}

// at shows a point in time and how far it is away.
func at(t, now time.Time) string {
	return fmt.Sprintf("%s (%s)", t.In(now.Location()).Format(timeFormat), ago(t, now))
}

func ago(t, now time.Time) string {
	if t.After(now) {
		return "in " + console.Span(t.Sub(now))
	}
	return console.Span(now.Sub(t)) + " ago"
}

// indented lays JSON out over lines; it is shown as it is if it cannot be.
func indented(text json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}
