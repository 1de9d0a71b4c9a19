package statelesshost

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/readjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// snapshotJSON is the JSON form of an instance. It has the form of a chart's snapshot.
type snapshotJSON[T any] struct {
	Machine string               `json:"machine"`
	Version int                  `json:"version"`
	Status  statechart.Status    `json:"status"`
	Value   string               `json:"value"`
	Context *T                   `json:"context"`
	Tags    []string             `json:"tags"`
	Timers  map[string]timerJSON `json:"timers,omitempty"`
	Steps   int64                `json:"steps"`
	Output  json.RawMessage      `json:"output,omitempty"`
}

type timerJSON struct {
	State string          `json:"state"`
	After string          `json:"after"`
	At    time.Time       `json:"at"`
	Event json.RawMessage `json:"event,omitempty"`
	Send  string          `json:"send,omitempty"`
}

// Snapshot implements durable.Instance. It returns a panic in the data's MarshalJSON as an error.
func (i *instance[T]) Snapshot() (snapshot json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = statechart.Panicked(r)
		}
	}()
	state := &i.machine.states[i.at]
	form := snapshotJSON[T]{
		Machine: i.machine.config.ID, Version: i.machine.config.Version, Status: i.status, Value: state.Name,
		Context: &i.data, Tags: state.tags, Steps: i.steps, Output: i.output,
	}
	if form.Tags == nil {
		form.Tags = []string{}
	}
	for _, timer := range i.timers {
		if form.Timers == nil {
			form.Timers = map[string]timerJSON{}
		}
		form.Timers[timer.ID] = timerJSON{State: timer.State, After: timer.After, At: timer.At, Event: timer.Event, Send: timer.Send}
	}
	return json.Marshal(form)
}

// Restore implements durable.Machine. All errors wrap statechart.ErrUnreadable.
func (m *Machine[T]) Restore(snapshot json.RawMessage) (restored durable.Instance, err error) {
	defer func() {
		if r := recover(); r != nil {
			restored, err = nil, m.unreadable("%w", statechart.Panicked(r))
		}
	}()
	i := &instance[T]{machine: m}
	form := snapshotJSON[T]{Context: &i.data}
	if err := readjson.Unmarshal(snapshot, &form); err != nil {
		return nil, m.unreadable("%w", err)
	}
	if form.Machine != m.config.ID || form.Version != m.config.Version {
		return nil, m.unreadable("expected version %d of machine %q, got version %d of %q", m.config.Version, m.config.ID, form.Version, form.Machine)
	}
	var stored struct{ Context json.RawMessage }
	if err := json.Unmarshal(snapshot, &stored); err != nil {
		return nil, m.unreadable("%w", err)
	}
	if err := m.keys.Check(stored.Context); err != nil { // The next event would erase the unknown key's value.
		return nil, &statechart.UnreadableError{
			Of: "machine " + m.config.ID, Err: fmt.Errorf("context: %w", err),
			Todo: "deploy the build that stores this key, or add the key to the type of the data",
		}
	}
	if form.Steps < 1 || form.Steps == math.MaxInt64 {
		return nil, m.unreadable("expected a step count of at least 1, got %d", form.Steps)
	}
	at, known := m.byName[form.Value]
	if !known {
		return nil, m.unmatched("this version has no state %q", form.Value)
	}
	want := statechart.Active
	if m.states[at].Final {
		want = statechart.Done
	}
	if form.Status == statechart.Stopped && want == statechart.Active {
		want = statechart.Stopped
	}
	if form.Status != want || want != statechart.Active && len(form.Timers) > 0 {
		return nil, m.unreadable("the status %q does not fit the state %q and its %d timers", form.Status, form.Value, len(form.Timers))
	}
	if want == statechart.Active && !m.states[at].settled {
		return nil, m.unmatched("the state %q is not settled in this version", form.Value)
	}
	i.status, i.at, i.steps, i.output = form.Status, at, form.Steps, form.Output
	if err := m.restoreTimers(i, form.Timers); err != nil {
		return nil, err
	}
	return i, nil
}

func (m *Machine[T]) restoreTimers(i *instance[T], timers map[string]timerJSON) error {
	for _, id := range slices.SortedFunc(maps.Keys(timers), byDerivation) {
		stored := timers[id]
		if step, position := split(id); step < 1 || step > i.steps || position < 0 {
			return m.unreadable("expected the ID of a timer that one of %d steps derived, such as 1.0, got %q", i.steps, id)
		}
		if stored.Event != nil {
			if sent, err := m.Decode(stored.Event); err != nil || sent.Type != stored.After {
				return m.unreadable("timer %s: this version cannot decode its event %q: %w", id, stored.After, err)
			}
		} else if _, ok := m.after(stored.State, stored.After); !ok || !slices.Contains(m.states[i.at].path, m.byName[stored.State]) {
			return m.unreadable("timer %s belongs to %q after %q, which is not a timer of an active state in this version", id, stored.State, stored.After)
		}
		i.timers = append(i.timers, statechart.Timer{ID: id, State: stored.State, After: stored.After, At: stored.At.UTC(), Event: stored.Event, Send: stored.Send})
	}
	return nil
}

// byDerivation orders IDs by the step that derived them, then by position.
func byDerivation(a, b string) int {
	aStep, aPosition := split(a)
	bStep, bPosition := split(b)
	return cmp.Or(cmp.Compare(aStep, bStep), cmp.Compare(aPosition, bPosition), strings.Compare(a, b))
}

// split returns the two numbers of a derived ID. An invalid number is -1.
func split(id string) (step, position int64) {
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != text {
			return -1
		}
		return n
	}
	before, after, _ := strings.Cut(id, ".")
	return number(before), number(after)
}
