package tour

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
)

// showBeside prints the paths and results of ended executions beside the history of the instance that they waited for.
// Without executions it prints the instance's history and output.
func (p *player) showBeside(instance string, executions ...execution) {
	id, err := durable.ParseInstanceID(instance)
	p.check(err)
	record, err := p.stack.Load(p.ctx, id)
	p.check(err)
	dim := p.config.Style.Dim
	left := pathLines(executions)
	right := append([]string{dim("history of " + instance)}, p.historyLines(record.History)...)
	wide := 0
	if len(left) > 0 {
		for _, line := range left {
			wide = max(wide, console.Width(line))
		}
		left[0] = dim(left[0])
		wide += 3
	}
	p.say("")
	if columns := p.config.Style.Columns(); columns > 0 && columns < columnsMax { // The terminal is too narrow for two columns.
		left, right, wide = append(left, right...), nil, 0
	}
	for i := range max(len(left), len(right)) {
		line := ""
		if i < len(left) {
			line = left[i]
		}
		if i < len(right) {
			line += strings.Repeat(" ", wide-console.Width(line)) + right[i]
		}
		p.say("   %s", line)
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

// pathLines returns the paths in columns, one state a line, below a heading.
func pathLines(executions []execution) []string {
	if len(executions) == 0 {
		return nil
	}
	lines := []string{"execution"}
	if len(executions) > 1 {
		lines[0] = "executions"
	}
	for row, more := 0, true; more; row++ {
		line := ""
		more = false
		for column, e := range executions {
			wide := 0
			for _, state := range e.path {
				wide = max(wide, len(state))
			}
			if column > 0 {
				line += "  "
			}
			state := ""
			if row < len(e.path) {
				state, more = e.path[row], true
			}
			line += fmt.Sprintf("%-*s", wide, state)
		}
		if more {
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	return lines
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
