package xstatejson

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/internal/outline"
)

// persistedSnapshot is a persisted snapshot of XState 5 or 6.
type persistedSnapshot struct {
	Status       string               `json:"status"`
	Value        json.RawMessage      `json:"value"`
	Context      json.RawMessage      `json:"context"`
	Output       json.RawMessage      `json:"output"`
	HistoryValue map[string][]stateID `json:"historyValue"`
	Children     map[string]struct {
		Snapshot struct {
			Status string `json:"status"`
		} `json:"snapshot"`
	} `json:"children"`
	// Timers is nil in XState 5.
	Timers  map[string]persistedTimer `json:"timers"`
	Version string                    `json:"version"`
	Machine struct {
		ID string `json:"id"`
	} `json:"machine"`
}

// chartSnapshot is the JSON of a chart's snapshot.
type chartSnapshot struct {
	Machine      string                  `json:"machine"`
	Version      int                     `json:"version"`
	Status       string                  `json:"status"`
	Value        json.RawMessage         `json:"value"`
	Context      json.RawMessage         `json:"context"`
	HistoryValue map[string][]string     `json:"historyValue,omitempty"`
	Timers       map[string]chartTimer   `json:"timers,omitempty"`
	Services     map[string]chartService `json:"services,omitempty"`
	Steps        int                     `json:"steps"`
	Output       json.RawMessage         `json:"output,omitempty"`
}

type chartTimer struct {
	State string          `json:"state"`
	After string          `json:"after"`
	At    time.Time       `json:"at"`
	Event json.RawMessage `json:"event,omitempty"`
	Send  string          `json:"send,omitempty"`
}

type chartService struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Service string `json:"service"`
}

type snapshotReader struct {
	outline  *outline.Chart
	at       time.Time
	problems []Problem
	// active holds the paths of the active states.
	active []string
}

func (r *snapshotReader) problem(path, format string, args ...any) {
	r.problems = append(r.problems, Problem{Path: path, Text: fmt.Sprintf(format, args...)})
}

// read converts a persisted snapshot. It derives all keys of timers and services as the first step would.
func (r *snapshotReader) read(p *persistedSnapshot, state value) chartSnapshot {
	form := chartSnapshot{Machine: r.outline.Root.ID, Version: r.outline.Version, Status: p.Status, Context: p.Context, Output: p.Output, Steps: 1}
	if p.Machine.ID != "" && chartID(p.Machine.ID) != form.Machine {
		r.problem("machine.id", "expected a snapshot of %q, got one of %q", form.Machine, p.Machine.ID)
	}
	if version := strconv.Itoa(form.Version); p.Version != "" && p.Version != version {
		r.problem("version", "expected the chart's version %q, got %q: compile the chart with that version", version, p.Version)
	}
	if p.Status != "active" && p.Status != "done" && p.Status != "stopped" {
		r.problem("status", "expected active, done or stopped, got %q", p.Status)
	}
	if len(r.outline.Root.States) == 1 && r.outline.Root.States[0].ID == onlyState && len(state.members) == 0 && state.kind == object {
		state = textValue(onlyState) // of a machine without states
	}
	state = renamed(state)
	form.Value = state.raw()
	r.activate(&r.outline.Root, state, "")
	for id, recorded := range p.HistoryValue {
		path := r.path("historyValue", id)
		for _, state := range recorded {
			if form.HistoryValue == nil {
				form.HistoryValue = map[string][]string{}
			}
			form.HistoryValue[path] = append(form.HistoryValue[path], r.path(join("historyValue", id), state.ID))
		}
	}
	if p.Status != "active" {
		return form
	}
	form.Services = map[string]chartService{}
	for _, name := range slices.Sorted(maps.Keys(p.Children)) {
		if status := p.Children[name].Snapshot.Status; status == "" || status == "active" {
			form.Services["1."+strconv.Itoa(len(form.Services))] = r.service(name)
		}
	}
	timers := r.timers(p.Timers)
	slices.SortStableFunc(timers, func(a, b chartTimer) int { return a.At.Compare(b.At) })
	form.Timers = map[string]chartTimer{}
	for i, timer := range timers {
		form.Timers["1."+strconv.Itoa(len(form.Services)+i)] = timer
	}
	return form
}

// renamed replaces the keys of a state value by the IDs of the chart.
func renamed(v value) value {
	v.text = stateName(v.text)
	v.members = slices.Clone(v.members)
	for i := range v.members {
		v.members[i] = member{stateName(v.members[i].key), renamed(v.members[i].value)}
	}
	return v
}

func (r *snapshotReader) activate(s *outline.State, v value, path string) {
	r.active = append(r.active, path)
	if v.kind == text {
		v = value{members: []member{{key: v.text}}}
	}
	for _, m := range v.members {
		for i := range s.States {
			if s.States[i].ID == m.key {
				r.activate(&s.States[i], m.value, below(path, m.key))
			}
		}
	}
}

// path returns the path of a state, given the ID that XState derived from the path.
func (r *snapshotReader) path(at, id string) string {
	machine, keys, _ := strings.Cut(id, ".")
	var path string
	for _, key := range strings.FieldsFunc(keys, func(c rune) bool { return c == '.' }) {
		path = below(path, stateName(key))
	}
	if chartID(machine) != r.outline.Root.ID || stateAt(&r.outline.Root, path) == nil {
		r.problem(at, "expected the ID that XState derives for a state, such as %s.a, got %q: remove the key id of the state", r.outline.Root.ID, id)
	}
	return path
}

// service finds the service of an active state that XState ran as the actor with the given name.
func (r *snapshotReader) service(name string) chartService {
	for _, path := range r.active {
		for i, invoke := range stateAt(&r.outline.Root, path).Invoke {
			position, id, _ := strings.Cut(name, ".")
			if invoke.ID == name || invoke.ID == "" && position == strconv.Itoa(i) && r.path(join("children", name), id) == path {
				return chartService{cmp.Or(invoke.ID, invokeID(r.outline.Root.ID, path, i)), path, invoke.Service}
			}
		}
	}
	r.problem(join("children", name), "expected a service of an active state; spawned actors and child instances cannot be read")
	return chartService{}
}

func (r *snapshotReader) timers(persisted map[string]persistedTimer) []chartTimer {
	var timers []chartTimer
	if persisted == nil {
		for _, path := range r.active {
			started := map[string]bool{}
			s := stateAt(&r.outline.Root, path)
			for i := range s.After {
				after := &s.After[i]
				if name := timerName(after); !started[name] {
					started[name] = true
					if after.Delay == 0 && after.ID != "0" {
						r.problem("timers", "expected a constant delay in the state %q, got the computed delay %q: use a snapshot of XState 6", path, after.ID)
					}
					timers = append(timers, chartTimer{State: path, After: name, At: r.at.Add(after.Delay).Truncate(time.Millisecond)})
				}
			}
		}
		return timers
	}
	for _, id := range slices.Sorted(maps.Keys(persisted)) {
		timers = append(timers, r.timer(join("timers", id), persisted[id]))
	}
	return timers
}

func (r *snapshotReader) timer(at string, t persistedTimer) chartTimer {
	due := t.Delay + float64(r.at.UnixMilli())
	if t.StartedAt != nil {
		due = t.Delay + *t.StartedAt
	}
	timer := chartTimer{At: time.UnixMilli(int64(due)).UTC()}
	var event afterEvent
	if err := json.Unmarshal(t.Event, &event); err != nil || event.Type == "" || t.Target != "self" {
		r.problem(at, "expected a delayed event of the machine to itself, got %s to %q", t.Event, t.Target)
		return timer
	}
	if event.Type != afterType {
		timer.After, timer.Event = event.Type, t.Event
		if !strings.HasPrefix(t.ID, automaticTimer) {
			timer.Send = t.ID
		}
		return timer
	}
	timer.State = r.path(at, event.StateID)
	timer.After = fmt.Sprint(event.Delay)
	if ms, constant := event.Delay.(float64); constant && ms != 0 {
		timer.After = time.Duration(ms * float64(time.Millisecond)).String()
	}
	return timer
}
