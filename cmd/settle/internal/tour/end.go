package tour

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
)

// showEnd prints the paths of ended executions, the history of the instance that they waited for, and their results.
// Without executions it prints the instance's history and output.
func (p *player) showEnd(instance string, executions ...execution) {
	id, err := durable.ParseInstanceID(instance)
	p.check(err)
	record, err := p.stack.Load(p.ctx, id)
	p.check(err)
	dim := p.config.Style.Dim
	p.say("")
	for _, e := range executions {
		p.say("   %s\n     %s", dim("path of "+e.workflow), strings.Join(e.path, " → "))
	}
	p.say("   %s", dim("history of "+instance))
	for _, line := range p.historyLines(record.History) {
		p.say("     %s", line)
	}
	for _, e := range executions {
		p.say("   %s %s", dim("output of "+e.workflow+","), p.config.Style.State(string(e.status)))
		p.say("     %s", e.text())
	}
	if len(executions) == 0 {
		var snapshot struct {
			Output json.RawMessage `json:"output"`
		}
		p.check(json.Unmarshal(record.Snapshot, &snapshot), "reading the snapshot of "+instance)
		p.say("   %s\n     %s", dim("output of "+instance), jsonText(string(snapshot.Output)))
	}
}

// text returns the result of the execution, formatted.
func (e execution) text() string {
	switch {
	case e.failure == "":
		return jsonText(e.output)
	case json.Valid([]byte(e.output)):
		return e.failure + ":\n     " + jsonText(e.output)
	default:
		return e.failure + ": " + e.output
	}
}

// historyLines returns a line for each transition: the time since the first one, the event, and the change.
func (p *player) historyLines(history []durable.Transition) []string {
	since := func(t durable.Transition) string {
		span := t.At.Sub(history[0].At)
		if span < time.Minute {
			return fmt.Sprintf("%.1fs", span.Seconds())
		}
		return console.Span(span)
	}
	times, events := 0, 0
	for _, t := range history {
		times, events = max(times, len(since(t))), max(events, len(console.EventName(t.Event, t.From)))
	}
	var lines []string
	for _, t := range history {
		lines = append(lines, fmt.Sprintf("%*s  %-*s  %s", times, since(t),
			events, console.EventName(t.Event, t.From), console.BriefChange(p.config.Style, t.From, t.To, t.Ignored)))
	}
	return lines
}

// jsonText formats JSON over several lines, indented by 5 columns. Other text is returned unchanged.
func jsonText(text string) string {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return text
	}
	return layOut(value, strings.Repeat(" ", 5))
}
