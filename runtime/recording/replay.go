package recording

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Play runs the steps on the machines, without services, and sets their outcomes. It returns an error if a step leads
// to other states than the recorded ones. Pass the loop's Config.SnapshotBytesMax, or 0 for its default: it decides
// whether a deferred event fits into the instance.
func (run *Run) Play(machines *durable.Machines, snapshotBytesMax int) error {
	p, err := newPlayer(machines, *run, snapshotBytesMax)
	if err != nil {
		return err
	}
	for i := range run.Steps {
		step, from := &run.Steps[i], p.state()
		step.Owner, step.Service = p.owner(step.Event), p.service(step.Event)
		outcome, handled, err := p.play(step.Event)
		if err != nil {
			return fmt.Errorf("%s in %s: %w", step.Type, list(from), err)
		}
		// The log has no line for the start of an instance without a parent, so the states after this start are unknown.
		if step.To != nil && (!slices.Equal(outcome.State, step.To) || handled == step.Ignored) {
			return fmt.Errorf("%s in %s: expected %s as recorded, got %s", step.Type, list(from), reached(step.To, !step.Ignored), reached(outcome.State, handled))
		}
		step.Outcome, step.To, step.Ignored = outcome, outcome.State, !handled
	}
	return nil
}

// list names states for a message.
func list(state []string) string { return cmp.Or(strings.Join(state, ", "), "no state") }

// reached describes the result of an event.
func reached(state []string, handled bool) string {
	if !handled {
		return list(state) + " (ignored)"
	}
	return list(state)
}

// RowsMax is the maximum number of differences that a Replay lists. A Replay only counts the runs with further ones.
const RowsMax = 1000

// Replay runs recorded runs on the machines of another build, and counts the runs with the same difference.
type Replay struct {
	// SnapshotBytesMax is the loop's limit: see Run.Play.
	SnapshotBytesMax int

	machines *durable.Machines
	accepted map[difference]bool
	rows     map[difference]*Row
	order    []difference
	counts   map[countKey]*Count
	unknown  int // runs of machines that the build does not have
	runs     int
}

type countKey struct {
	machine string
	version int
}

// Count counts the runs of one machine and version.
type Count struct {
	Machine string `json:"machine"`
	Version int    `json:"version"` // the version of the chart that was recorded
	Same    int    `json:"same"`
	// Partial counts the runs that are the same up to an accepted difference, after which the replay skipped the rest.
	Partial int `json:"partial"`
	Differ  int `json:"differ"`
}

// Row counts the runs with the same difference. Runs that differ only in their data, or in the data in an error, are in the
// same row. Expected and Got then belong to Example.
type Row struct {
	Machine string `json:"machine"`
	Version int    `json:"version"`
	// Event is the step with the difference, and State lists the active atomic states before it.
	Event string `json:"event"`
	State string `json:"state"`
	// What names the difference: start, event, state, status, output, services, effects, timers or ended timers. A path in
	// the data may follow.
	What     string `json:"what"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
	Runs     int    `json:"runs"`
	Example  string `json:"example"` // the instance of the first run
}

// difference identifies a Row. Expected and Got are without the data of one instance.
type difference struct {
	machine                           string
	version                           int
	event, state, what, expected, got string
}

// NewReplay returns a replay on the machines. It does not report the differences of the rows in `accepted`.
func NewReplay(machines *durable.Machines, accepted []Row) *Replay {
	r := &Replay{machines: machines, accepted: map[difference]bool{}, rows: map[difference]*Row{}, counts: map[countKey]*Count{}}
	for _, row := range accepted {
		r.accepted[row.difference()] = true
	}
	return r
}

// Add runs a recorded run, and compares the outcome of each step. If the states differ, it skips the later steps,
// unless the difference is accepted and only renames states.
func (r *Replay) Add(run Run) error {
	id, err := instances.ParseID(run.Instance)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if _, err := r.machines.Lookup(id.Machine); err != nil {
		r.unknown++
	}
	r.runs++
	key := countKey{id.Machine, run.Version}
	if r.counts[key] == nil {
		r.counts[key] = &Count{Machine: id.Machine, Version: run.Version}
	}
	count, seen := r.counts[key], map[difference]bool{}
	isWhole := r.compare(run, func(row Row) (accepted bool) {
		row.Machine, row.Version, row.Example = id.Machine, run.Version, run.Instance
		which := row.difference()
		if r.accepted[which] {
			return true
		}
		if seen[which] || r.rows[which] == nil && len(r.rows) == RowsMax {
			seen[which] = true
			return false
		}
		if seen[which] = true; r.rows[which] == nil {
			r.rows[which] = &row
			r.order = append(r.order, which)
		}
		r.rows[which].Runs++
		return false
	})
	switch {
	case len(seen) > 0:
		count.Differ++
	case isWhole:
		count.Same++
	default:
		count.Partial++
	}
	return nil
}

// Rows returns the differences, by machine and version, the most frequent first.
func (r *Replay) Rows() []Row {
	rows := []Row{}
	for _, which := range r.order {
		rows = append(rows, *r.rows[which])
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.Version, b.Version), cmp.Compare(b.Runs, a.Runs))
	})
	return rows
}

// Counts returns the counts of runs, by machine and version.
func (r *Replay) Counts() []Count {
	counts := []Count{}
	byKey := func(a, b countKey) int {
		return cmp.Or(cmp.Compare(a.machine, b.machine), cmp.Compare(a.version, b.version))
	}
	for _, key := range slices.SortedFunc(maps.Keys(r.counts), byKey) {
		counts = append(counts, *r.counts[key])
	}
	return counts
}

// IsForeign reports whether the build has none of the recorded machines. The recording then belongs to another project.
func (r *Replay) IsForeign() bool { return r.runs > 0 && r.unknown == r.runs }

// compare reports the differences of a run, in the order of its steps. isWhole is false if it skipped the later steps. After
// an accepted difference in the names of states, it continues with the new names.
func (r *Replay) compare(run Run, report func(Row) (accepted bool)) (isWhole bool) {
	p, err := newPlayer(r.machines, run, r.SnapshotBytesMax)
	if err != nil {
		report(Row{What: "start", Expected: "a build that can read the instance", Got: r.text(err, run)})
		return false
	}
	names := renames{}
	for i, step := range run.Steps {
		isLast := i == len(run.Steps)-1
		before, expected := list(p.state()), step.Outcome
		event := step.Event
		event.Owner, event.Type, expected.State = names.one(event.Owner), names.ended(event.Type), names.all(expected.State)
		outcome, handled, err := p.play(event)
		was, is := reached(expected.State, !step.Ignored), reached(outcome.State, handled)
		if err != nil {
			report(Row{Event: step.Type, State: before, What: "event", Expected: was, Got: r.text(err, run)})
			return isLast
		}
		differences := func() {
			for _, row := range compareOutcomes(expected, outcome) {
				row.Event, row.State = step.Type, before
				report(row)
			}
		}
		differences()
		if was == is {
			continue
		}
		accepted, isSame := report(Row{Event: step.Type, State: before, What: "state", Expected: was, Got: is}), slices.Equal(expected.State, outcome.State)
		if !accepted || !isSame && (handled == step.Ignored || !names.learn(expected.State, outcome.State, p.machine.Describe().States)) {
			return isLast
		}
		if !isSame {
			expected.State = outcome.State
			differences()
		}
	}
	return true
}

// renames maps paths of states in a recording to their paths in the new build.
type renames map[string]string

// learn maps each recorded path to the path at the same place. It returns false if these are no renames: the new build still
// has the state, or the numbers of paths differ.
func (n renames) learn(recorded, got []string, states []statechart.StateInfo) bool {
	for i, path := range recorded {
		exists := slices.ContainsFunc(states, func(s statechart.StateInfo) bool { return s.Path == path })
		if len(recorded) != len(got) || exists && path != got[i] {
			return false
		}
	}
	for i, path := range recorded {
		n[path] = got[i]
	}
	return true
}

// ended renames the event that reports the end of a service or child with a default ID. A default ID is the path of the
// state. All but the first in a state also have a number: "C.busy:1".
func (n renames) ended(event string) string {
	prefix, id, ok := endOf(event)
	if !ok {
		return event
	}
	path, _, _ := strings.Cut(id, ":")
	return prefix + n.one(path) + id[len(path):]
}

func (n renames) one(path string) string { return cmp.Or(n[path], path) }

func (n renames) all(paths []string) []string {
	var renamed []string
	for _, path := range paths {
		renamed = append(renamed, n.one(path))
	}
	return renamed
}

// text returns the error with a placeholder for the name of the instance, so that equal errors have equal texts.
func (r *Replay) text(err error, run Run) string {
	return strings.ReplaceAll(err.Error(), run.Instance, "the instance")
}

// compareOutcomes returns the differences between two outcomes with the same states, or nothing if the states differ.
func compareOutcomes(was, is Outcome) (rows []Row) {
	if !slices.Equal(was.State, is.State) {
		return nil // The other differences follow from this one.
	}
	if was.Status != is.Status {
		rows = append(rows, Row{What: "status", Expected: string(was.Status), Got: string(is.Status)})
	}
	rows = append(rows, differ("output", was.Output, is.Output)...)
	if !slices.Equal(was.Services, is.Services) {
		rows = append(rows, Row{What: "services", Expected: cmp.Or(strings.Join(was.Services, ", "), "none"), Got: cmp.Or(strings.Join(is.Services, ", "), "none")})
	}
	if effects := compareEffects(was.Effects, is.Effects); len(effects) > 0 {
		return append(rows, effects...)
	}
	// The effects show timers of states, but neither delayed events nor timers that end.
	if x, y := strings.Join(was.Ended, ", "), strings.Join(is.Ended, ", "); x != y {
		rows = append(rows, Row{What: "ended timers", Expected: cmp.Or(x, "none"), Got: cmp.Or(y, "none")})
	}
	x, err := json.Marshal(was.Timers)
	y, err2 := json.Marshal(is.Timers)
	if err != nil || err2 != nil {
		return append(rows, Row{What: "timers", Expected: fmt.Sprint(err), Got: fmt.Sprint(err2)})
	}
	return append(rows, differ("timers", x, y)...)
}

// compareEffects returns the differences of two lists of effects.
func compareEffects(was, is []statechart.Effect) (rows []Row) {
	names := func(effects []statechart.Effect) string {
		var list []string
		for _, effect := range effects {
			list = append(list, nameOf(effect))
		}
		return cmp.Or(strings.Join(list, ", "), "none")
	}
	if x, y := names(was), names(is); x != y {
		return []Row{{What: "effects", Expected: x, Got: y}}
	}
	for i := range was {
		x, err := json.Marshal(was[i])
		y, err2 := json.Marshal(is[i])
		if err != nil || err2 != nil {
			return []Row{{What: "effects", Expected: fmt.Sprint(err), Got: fmt.Sprint(err2)}}
		}
		rows = append(rows, differ("effects."+nameOf(was[i]), x, y)...)
	}
	return rows
}

// nameOf names an effect without its data: "send SHIP", "schedule pick_up".
func nameOf(effect statechart.Effect) string {
	var event struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(effect.Event, &event) // An effect without an event has no type.
	parts := []string{string(effect.Kind), event.Type, effect.Timer, effect.Child, effect.Machine}
	if effect.Kind == statechart.StartExecution || effect.Kind == statechart.ResolveWaits {
		parts = append(parts, effect.Name, effect.Outcome, effect.Error)
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}

// difference returns the key of the row.
func (row Row) difference() difference {
	d := difference{row.Machine, row.Version, row.Event, row.State, row.What, row.Expected, row.Got}
	if row.What == "start" || row.What == "event" {
		d.got = withoutData(row.Got) // This is an error.
	}
	if strings.HasPrefix(row.What, "output") || strings.HasPrefix(row.What, "effects.") || strings.HasPrefix(row.What, "timers") {
		d.expected, d.got = "", "" // These are data of one instance.
	}
	return d
}

// data matches quoted texts and numbers. Only these differ between two errors for the same reason.
var data = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\d+`)

// withoutData returns an error text without its quoted texts and numbers, so that equal errors have equal texts.
func withoutData(text string) string { return data.ReplaceAllString(text, "…") }
