// Package view prints instances for operators. It omits secrets and the runtime's bookkeeping.
package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/instanceview"
	"github.com/settle-run/settle/runtime/statechart"
)

// Instance is the operator's view of an instance. To the keys of the gateway's view, it adds data for operators, such
// as the failed effects and the reason why an event was parked.
type Instance struct {
	instanceview.Instance
	// Parked replaces the gateway's field and adds the reason.
	Parked *Parked `json:"parked,omitempty"`
	// Failed are the effects that will never be performed, the most recent last.
	Failed []Failed `json:"failed_effects,omitempty"`
	// Executions are the executions that the instance waits for, in the order in which it requested them.
	Executions []Execution `json:"executions,omitempty"`
	// Problem is the reason why these machines cannot read the instance, or empty. A consumer with the same machines
	// cannot apply events to the instance.
	Problem string `json:"problem,omitempty"`
	// Kept is true if an operator keeps the instance beyond its retention.
	Kept bool `json:"kept,omitempty"`
	// Lane is the instance's lane, or empty for the main lane. MovingTo is the target of a pending move, if any.
	Lane     string `json:"lane,omitempty"`
	MovingTo string `json:"moving_to,omitempty"`
	// Skipped counts the duplicates and stale timers that were skipped.
	Skipped int64 `json:"skipped,omitempty"`
}

// Failed is an effect that will never be performed.
type Failed struct {
	Kind    statechart.EffectKind `json:"kind"`
	Target  string                `json:"target,omitempty"`
	At      time.Time             `json:"at"`
	Message string                `json:"message"`
	// Data is the content of the effect, unless it is longer than 2 KiB. DataBytes is the content's length.
	Data      json.RawMessage  `json:"data,omitempty"`
	DataBytes int              `json:"data_bytes,omitempty"`
	Report    instances.Report `json:"report,omitempty"`
}

// Execution is an execution of a workflow.
type Execution struct {
	Workflow  string    `json:"workflow"`
	Name      string    `json:"name"`
	Event     string    `json:"event"`
	StartedAt time.Time `json:"started_at"`
	// ARN is empty until the start is confirmed.
	ARN string `json:"arn,omitempty"`
	// Refused is the reason why the execution will never start.
	Refused string `json:"refused,omitempty"`
}

// Parked is an event that was parked, with the reason.
type Parked struct {
	instanceview.Parked
	Message string `json:"message"`
}

// Of returns the view of a stored record. If machines cannot read it, Problem is set.
func Of(machines *durable.Machines, record instances.Record) (Instance, error) {
	shown, err := instanceview.Of(machines, record)
	if err != nil {
		return Instance{}, err
	}
	v := Instance{Instance: shown}
	if _, _, err := machines.Restore(record); err != nil {
		v.Problem = "this build cannot read it: " + err.Error()
	}
	if shown.Parked != nil {
		v.Parked = &Parked{Parked: *shown.Parked, Message: record.Error.Message}
	}
	v.Lane = record.Lane
	if record.Moving != nil {
		v.MovingTo = record.Moving.Lane
	}
	v.Skipped, v.Kept, v.History = record.Skipped, record.Kept, append([]instances.Transition{}, record.History...)
	for _, e := range record.Executions {
		shown := Execution{Workflow: e.Workflow, Name: e.Name, Event: e.Event, StartedAt: e.StartedAt, ARN: e.ARN}
		if e.Refused != nil {
			shown.Refused = strings.TrimSuffix(e.Refused.Error+": "+e.Refused.Cause, ": ")
		}
		v.Executions = append(v.Executions, shown)
	}
	for _, f := range record.FailedEffects {
		v.Failed = append(v.Failed, Failed{Kind: f.Kind, Target: f.Target, At: f.At, Message: f.Error, Data: f.Data, DataBytes: f.DataBytes, Report: f.Report})
	}
	return v, nil
}

// timers returns the timers, ordered by time.
func (v Instance) timers() []instanceview.Timer {
	return slices.SortedFunc(maps.Values(v.Timers), func(a, b instanceview.Timer) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.State, b.State), cmp.Compare(a.After, b.After))
	})
}

// services returns the services, ordered by state.
func (v Instance) services() []instanceview.Service {
	return slices.SortedFunc(maps.Values(v.Services), func(a, b instanceview.Service) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.ID, b.ID))
	})
}

// timeFormat includes seconds and the time zone.
const timeFormat = "2006-01-02 15:04:05 MST"

// WriteText writes the instance as text. It shows times in the time zone of `now` and relative to `now`.
func (v Instance) WriteText(w io.Writer, style console.Style, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", style.Bold(escaped(v.Name)))
	row := func(label, value string) { b.WriteString(style.Fold(labelled(style, label, value))) }
	warning := func(label, value string) { row(label, style.Warning(value)) }
	warning("problem", escaped(v.Problem))
	row("state", style.State(escaped(strings.Join(v.State, ", "))))
	row("since", v.sinceText(now))
	row("status", string(v.Status)+v.settledText())
	row("tags", escaped(strings.Join(without(v.Tags, statechart.Settled), ", ")))
	row("next", escaped(v.nextText()))
	row("timers", v.timersText(now))
	row("services", v.servicesText(now))
	row("children", v.childrenText())
	row("parent", escaped(v.Parent))
	row("waits", v.waitsText(now))
	row("deferred", v.deferredText())
	row("workflow", v.executionsText(now))
	b.WriteString(labelled(style, "context", indented(v.Context)))
	b.WriteString(labelled(style, "output", indented(v.Output)))
	warning("parked", v.parkedText(now))
	warning("failed", v.failedText(now))
	if v.Ignored > 0 {
		row("ignored", fmt.Sprintf("%d so far (no matching transition)", v.Ignored))
	}
	if v.Skipped > 0 {
		row("skipped", fmt.Sprintf("%d so far (duplicates and stale timers)", v.Skipped))
	}
	row("stored", fmt.Sprintf("revision %d, %s, version %d of %s", v.Revision, ago(v.UpdatedAt, now), v.Version, v.Machine))
	if !v.ExpireAt.IsZero() {
		row("expires", at(v.ExpireAt, now))
	}
	if v.Kept {
		row("kept", "until settle unkeep")
	}
	switch {
	case v.MovingTo != "":
		row("lane", fmt.Sprintf("%s, moving to %s", cmp.Or(v.Lane, instances.MainLane), v.MovingTo))
	case v.Lane != "":
		row("lane", v.Lane)
	}
	row("history", historyText(style, v.History, now.Location()))
	_, err := io.WriteString(w, b.String())
	return err
}

// labelColumns is the width of the labels.
const labelColumns = 8

// labelled returns a labelled value of one or several lines, or "" if there is no value.
func labelled(style console.Style, label, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf("  %s%*s  %s\n", style.Dim(label), labelColumns-len(label), "", strings.ReplaceAll(value, "\n", "\n            "))
}

// Summary returns the state of the instance in one line.
func (v Instance) Summary(style console.Style) string {
	how := string(v.Status)
	if v.Status == statechart.Active {
		how = map[bool]string{true: "settled", false: "not settled"}[v.Settled]
	}
	problem := ""
	if v.Problem != "" {
		problem = ", not readable by this build"
	}
	return fmt.Sprintf("%s is in %s, %s, revision %d%s", style.Bold(escaped(v.Name)), style.State(escaped(strings.Join(v.State, ", "))), how, v.Revision, problem)
}

// settledText says whether the instance is settled, and what that means.
func (v Instance) settledText() string {
	switch {
	case v.Status != statechart.Active:
		return ""
	case v.Problem != "":
		return ": its events stay in the queue until a consumer can read it"
	case v.Settled && len(v.Children) > 0:
		return ", settled: it waits for an event, a timer or the end of a child"
	case v.Settled:
		return ", settled: nothing runs until the next event or timer"
	default:
		return ", not settled: its next events wait in the queue"
	}
}

func (v Instance) sinceText(now time.Time) string {
	if v.Since.IsZero() && len(v.History) == 0 {
		return "unknown: its stored history was dropped"
	}
	if v.Since.IsZero() {
		return fmt.Sprintf("before %s, where its stored history begins", v.History[0].At.In(now.Location()).Format(timeFormat))
	}
	return at(v.Since, now)
}

func (v Instance) nextText() string {
	if v.Status != statechart.Active {
		return "nothing: further events are ignored"
	}
	return strings.Join(v.NextEvents, ", ")
}

// lines joins the descriptions of a list's elements.
func lines[T any](list []T, describe func(T) string) string {
	var described []string
	for _, element := range list {
		described = append(described, describe(element))
	}
	return strings.Join(described, "\n")
}

func (v Instance) timersText(now time.Time) string {
	return lines(v.timers(), func(timer instanceview.Timer) string {
		return fmt.Sprintf("%s of %s: %s", escaped(timer.After), escaped(timer.State), at(timer.At, now))
	})
}

func (v Instance) servicesText(now time.Time) string {
	return lines(v.services(), func(service instanceview.Service) string {
		text := fmt.Sprintf("%s in %s, attempt %d", escaped(service.Service), escaped(service.State), max(service.Attempt, 1))
		if !service.RetryAt.IsZero() {
			text += " failed, next at " + at(service.RetryAt, now)
		}
		return text
	})
}

// childrenText lists the live child instances.
func (v Instance) childrenText() string {
	return lines(slices.Sorted(maps.Keys(v.Children)), func(id string) string {
		return fmt.Sprintf("%s: %s", escaped(id), escaped(v.Children[id].Instance))
	})
}

// waitsText lists the Step Functions tasks that wait for the instance. Their names come from a workflow.
func (v Instance) waitsText(now time.Time) string {
	return lines(v.Waits, func(wait instanceview.Wait) string {
		line := fmt.Sprintf("a task for %s since %s", escaped(wait.Name), at(wait.Since, now))
		if !wait.Deadline.IsZero() {
			line += ", until " + at(wait.Deadline, now)
		}
		return line
	})
}

// deferredText lists the deferred events. Their IDs come from producers.
func (v Instance) deferredText() string {
	return lines(v.Deferred, func(event instanceview.Deferred) string {
		if event.ID == "" {
			return escaped(event.Type)
		}
		return fmt.Sprintf("%s, ID %s", escaped(event.Type), escaped(event.ID))
	})
}

// executionsText lists the executions that the instance waits for.
func (v Instance) executionsText(now time.Time) string {
	return lines(v.Executions, func(e Execution) string {
		line := fmt.Sprintf("%s since %s, reports its end as %s", escaped(e.Workflow), at(e.StartedAt, now), escaped(e.Event))
		switch {
		case e.Refused != "" && e.ARN != "":
			line += "; start not confirmed, and the retry was refused: " + escaped(e.Refused)
		case e.Refused != "":
			line += "; it will never start: " + escaped(e.Refused)
		case e.ARN == "":
			line += "; start not confirmed yet"
		}
		return line
	})
}

// parkedText returns the parked event and the reason. The type and parts of the reason come from a producer.
func (v Instance) parkedText(now time.Time) string {
	if v.Parked == nil {
		return ""
	}
	what := ""
	if v.Parked.Event != "" {
		what = escaped(v.Parked.Event) + ", "
	}
	return fmt.Sprintf("%s%s: %s", what, ago(v.Parked.At, now), escaped(v.Parked.Message))
}

// failedText lists the permanently failed effects. Targets and reasons may contain text from a producer.
func (v Instance) failedText(now time.Time) string {
	return lines(v.Failed, func(f Failed) string {
		what := escaped(string(f.Kind))
		if f.Target != "" {
			what += " to " + escaped(f.Target)
		}
		line := fmt.Sprintf("%s, %s: %s", what, ago(f.At, now), escaped(f.Message))
		switch f.Report {
		case instances.ReportReceived:
			line += " (reported to the chart)"
		case instances.ReportSent:
			line += " (report sent to the chart; if this line stays, the report was parked)"
		case instances.ReportUnsent:
			line += " (not reported to the chart yet)"
		}
		return line
	})
}

func historyText(style console.Style, history []instances.Transition, zone *time.Location) string {
	var b strings.Builder
	log := Log{w: &b, style: style, zone: zone}
	for _, transition := range history {
		console.Pad(log.event(transition), &log.events)
	}
	for _, transition := range history {
		b.WriteString(log.line("", transition))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// at returns a time, with its distance from `now`.
func at(t, now time.Time) string {
	return fmt.Sprintf("%s (%s)", t.In(now.Location()).Format(timeFormat), ago(t, now))
}

func ago(t, now time.Time) string {
	if t.After(now) {
		return "in " + console.Span(t.Sub(now))
	}
	return console.Span(now.Sub(t)) + " ago"
}

// textBytesMax is the length at which a producer's text is truncated.
const textBytesMax = 1000

// escaped escapes control characters in a producer's text and truncates it.
func escaped(text string) string {
	if len(text) <= textBytesMax {
		return console.Escape(text)
	}
	end := textBytesMax
	for end > textBytesMax-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s... and %d more bytes", console.Escape(text[:end]), len(text)-end)
}

// indented returns JSON over several lines, and other text unchanged. Both are escaped for terminals.
func indented(text json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return console.Escape(string(text))
	}
	return console.EscapeJSON(b.String())
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}
