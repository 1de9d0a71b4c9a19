package xstatejson

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
)

// Parts of the persisted snapshot of XState.
type (
	persistedTimer struct {
		ID    string  `json:"id"`
		Delay float64 `json:"delay"` // in milliseconds
		Type  string  `json:"type"`
		// Event has the type afterType for a delayed transition, or else is a delayed event.
		Event  json.RawMessage `json:"event"`
		Target string          `json:"target"`
		// StartedAt is in milliseconds since 1970. XState omits it if the machine runs on a custom clock.
		StartedAt *float64 `json:"startedAt,omitempty"`
	}
	afterEvent struct {
		Type    string `json:"type"`
		Delay   any    `json:"delay"` // in milliseconds, or a name
		StateID string `json:"stateId"`
	}
	stateID struct {
		ID string `json:"id"`
	}
)

// Types of XState 6 in persisted timers.
const (
	afterType       = "xstate.after"
	persistedRaise  = "@xstate.raise"
	automaticTimer  = "xstate.timer.auto." // the prefix of the IDs of delayed events without an ID
	snapshotWriting = "writing a snapshot of XState"
	snapshotReading = "reading a snapshot of XState"
)

// WriteSnapshot writes a snapshot as the JSON that getPersistedSnapshot of XState returns, for the machine that Write
// writes. XState 6 resumes the timers. XState 5 ignores the timers and the version. The error is an *Error if services,
// children or deferred events of the instance have no form in XState.
func WriteSnapshot[C any](chart *statechart.Chart[C], snapshot statechart.Snapshot[C]) ([]byte, error) {
	if n := len(snapshot.Services) + len(snapshot.Children) + len(snapshot.Deferred); n > 0 {
		return nil, snapshotError(snapshotWriting, "expected no running services, children and deferred events, got %d: write the snapshot after they have ended", n)
	}
	text, err := json.Marshal(snapshot)
	if err != nil {
		return nil, fmt.Errorf("xstatejson: %s: %w", snapshotWriting, err)
	}
	form, err := parse(text)
	if err != nil {
		return nil, snapshotError(snapshotWriting, "%v", err)
	}
	o := chart.Outline()
	machine := value{}
	machine.set("id", textValue(o.Root.ID))
	machine.set("version", textValue(strconv.Itoa(o.Version)))
	out := value{kind: object}
	for _, key := range []string{"status", "output", "value", "context"} {
		if v := form.get(key); v != nil {
			out.set(key, *v)
		}
	}
	id := func(path string) string { return strings.TrimSuffix(o.Root.ID+"."+path, ".") }
	history := value{kind: object}
	if recorded := form.get("historyValue"); recorded != nil {
		for _, m := range recorded.members {
			ids := list()
			for _, item := range m.items {
				ids.items = append(ids.items, encoded(stateID{id(item.text)}))
			}
			history.set(id(m.key), ids)
		}
	}
	out.set("historyValue", history)
	out.set("children", value{kind: object})
	timers := value{kind: object}
	for _, timer := range snapshot.Timers {
		started := float64(timer.At.UnixMilli()) // charts keep deadlines in whole milliseconds
		t := persistedTimer{ID: cmp.Or(timer.Send, automaticTimer+timer.ID), Type: persistedRaise, Event: timer.Event, Target: "self", StartedAt: &started}
		if timer.Event == nil {
			event := afterEvent{afterType, timer.After, id(timer.State)}
			if delay, err := time.ParseDuration(timer.After); err == nil && isConstant(o, timer) {
				t.Delay = float64(delay) / float64(time.Millisecond)
				started -= t.Delay
				event.Delay = t.Delay
			}
			body := encoded(event)
			t.ID, t.Event = fmt.Sprintf("%s.%v.%s", afterType, event.Delay, event.StateID), body.raw()
		}
		timers.set(t.ID, encoded(t))
	}
	out.set("timers", timers)
	out.set("machine", machine)
	out.set("version", *machine.get("version"))
	return out.raw(), nil
}

// ReadSnapshot reads the JSON of getPersistedSnapshot of XState 5 or 6 for a chart that Read has read. States need the
// IDs that XState derives from their paths. XState 5 persists no timers, so the delays of all active states start at the
// given time. Services that were running start again. Every error is an *Error or a *statechart.UnreadableError.
func ReadSnapshot[C any](chart *statechart.Chart[C], persisted []byte, at time.Time) (statechart.Snapshot[C], error) {
	none := statechart.Snapshot[C]{}
	config, err := parse(persisted)
	if err != nil {
		return none, snapshotError(snapshotReading, "%v", err)
	}
	if config.kind != object {
		return none, snapshotError(snapshotReading, "expected an object, got %v", config.kind)
	}
	var p persistedSnapshot
	if err := json.Unmarshal(persisted, &p); err != nil {
		return none, snapshotError(snapshotReading, "expected a persisted snapshot: %v", err)
	}
	state := config.get("value")
	if state == nil || p.Context == nil {
		return none, snapshotError(snapshotReading, "expected the keys value and context of a persisted snapshot")
	}
	r := &snapshotReader{outline: chart.Outline(), at: at}
	form := r.read(&p, *state)
	if len(r.problems) > 0 {
		return none, &Error{What: snapshotReading, Problems: r.problems}
	}
	encoded, err := json.Marshal(form)
	if err != nil {
		return none, snapshotError(snapshotReading, "%v", err)
	}
	return chart.Restore(encoded)
}

func snapshotError(what, format string, args ...any) error {
	return &Error{What: what, Problems: []Problem{{Text: fmt.Sprintf(format, args...)}}}
}

// encoded returns a Go value as JSON with ordered keys.
func encoded(v any) value {
	text, _ := json.Marshal(v) // The types above can be encoded.
	made, _ := parse(text)
	return made
}

// stateAt returns the state with a path, or nil.
func stateAt(root *outline.State, path string) *outline.State {
	s := root
	for _, id := range strings.FieldsFunc(path, func(c rune) bool { return c == '.' }) {
		i := slices.IndexFunc(s.States, func(child outline.State) bool { return child.ID == id })
		if i < 0 {
			return nil
		}
		s = &s.States[i]
	}
	return s
}

// isConstant reports whether the delay of a timer is a number in XState, not a name.
func isConstant(o *outline.Chart, timer statechart.Timer) bool {
	s := stateAt(&o.Root, timer.State)
	return s != nil && slices.ContainsFunc(s.After, func(a outline.After) bool { return a.ID == "" && timerName(&a) == timer.After })
}

// timerName returns the name of a delayed transition's timer in snapshots.
func timerName(a *outline.After) string { return cmp.Or(a.ID, a.Delay.String()) }
