package statecharttest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// trace is the trace of one call of a player. It has one section for the sent event or for each fired timer.
type trace struct {
	// idle is the text of a trace without sections.
	idle     string
	sections []section
}

// section is a line of states and the lines of details.
type section struct {
	// cause names the timer that fired. It is empty in other sections.
	cause string
	// states holds the states after each macrostep, without immediate repetitions.
	states  []string
	from    string
	ignored bool
	details []string
}

// section starts a section in the given state.
func (t *trace) section(cause, state string) {
	t.sections = append(t.sections, section{cause: cause, from: state, states: []string{state}})
}

func (t *trace) current() *section {
	if len(t.sections) == 0 {
		t.sections = append(t.sections, section{})
	}
	return &t.sections[len(t.sections)-1]
}

// enter adds the state after a macrostep.
func (t *trace) enter(state string) {
	s := t.current()
	if n := len(s.states); n == 0 || s.states[n-1] != state {
		s.states = append(s.states, state)
	}
}

func (t *trace) ignore() { t.current().ignored = true }

func (t *trace) detail(format string, args ...any) {
	s := t.current()
	s.details = append(s.details, fmt.Sprintf(format, args...))
}

func (t *trace) effect(effect statechart.Effect, timers []statechart.Timer, since func(time.Time) string) {
	if effect.Child != "" {
		t.childEffect(effect)
		return
	}
	switch effect.Kind {
	case statechart.Schedule:
		for _, timer := range timers {
			if timer.ID == effect.Timer {
				t.detail("effect %s schedule %s at %s", effect.ID, timerName(timer), since(effect.At))
			}
		}
	case statechart.Send:
		t.detail("effect %s send %s %s", effect.ID, effect.To, effect.Event)
	case statechart.EmitEvent:
		t.detail("effect %s emit %s", effect.ID, effect.Event)
	case statechart.LogMessage:
		t.detail("effect %s log %s", effect.ID, effect.Message)
	case statechart.ResolveWaits:
		t.detail("effect %s resolve %s", effect.ID, answer(effect))
	case statechart.StartExecution:
		var end struct{ Type string }
		_ = json.Unmarshal(effect.Event, &end) // The chart has encoded the event, so decoding cannot fail.
		t.detail("effect %s start %s input=%s end=%s", effect.ID, effect.Name, effect.Input, end.Type)
	default:
		text, err := json.Marshal(effect)
		t.detail("effect %s %s %s", effect.ID, effect.Kind, either(string(text), err))
	}
}

// answer describes the answer for waiting callers.
func answer(effect statechart.Effect) string {
	if effect.Error != "" {
		line := effect.Name + " error=" + effect.Error
		if effect.Message != "" {
			line += " cause=" + strconv.Quote(effect.Message)
		}
		return line
	}
	line := effect.Name + " outcome=" + effect.Outcome
	if effect.Output != nil {
		line += " output=" + string(effect.Output)
	}
	return line
}

func (t *trace) attempt(i statechart.Invocation, end string) {
	t.detail("service %s %s attempt %d %s", i.Key, i.Service, i.Attempt, end)
}

func (t *trace) done(tags []string, output json.RawMessage) {
	line := "done"
	if len(tags) > 0 {
		line += ", tagged " + strings.Join(tags, ", ")
	}
	if output != nil {
		line += ", output " + string(output)
	}
	t.detail("%s", line)
}

// String returns the lines of the trace, each with a line feed.
func (t *trace) String() string {
	var b strings.Builder
	if len(t.sections) == 0 && t.idle != "" {
		b.WriteString(t.idle + "\n")
	}
	for _, s := range t.sections {
		if s.cause != "" {
			b.WriteString(s.cause + ": ")
		}
		switch {
		case s.ignored:
			b.WriteString("ignored in " + s.from)
		case s.from == "":
			b.WriteString("starts in " + strings.Join(s.states, " -> "))
		case len(s.states) == 1:
			b.WriteString("stays in " + s.from)
		default:
			b.WriteString(strings.Join(s.states, " -> "))
		}
		b.WriteByte('\n')
		for _, line := range s.details {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}

func either(text string, err error) string {
	if err != nil {
		return err.Error()
	}
	return text
}
