package statecharttest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Limits of an exploration, unless its PathConfig says otherwise.
const (
	// PathsMax is how many paths there may be.
	PathsMax = 1_000
	// PathStepsMax is how many steps one path may take after its start.
	PathStepsMax = 64
)

var (
	// ErrPathLimit is returned when a chart has more paths, or longer ones, than the limits
	// allow. There are no paths then: part of them would look like all of them.
	ErrPathLimit = errors.New("too many paths")
	// ErrUnreached is returned by FinalPaths, with the other paths, when no path enters some
	// final state.
	ErrUnreached = errors.New("unreached")
)

// Event is an event from outside that paths are made of.
type Event struct {
	Type string
	// Payload is what Player.Send takes.
	Payload any
	// Name is what the event is called in paths, to tell events of one type apart. Defaults to
	// Type.
	Name string
}

// Outcome is a way in which a service may end. The zero value calls the service, once, and takes
// what comes of it.
type Outcome struct {
	// Name tells outcomes of one service apart: "done.invoke.launching, no capacity".
	Name string
	// Result, if set, is what the service returns; it is not called.
	Result any
	// Err, if set, is why the service fails for good; it is not called.
	Err error
}

// PathConfig says what a chart is explored with. The zero value tries every event of the chart
// without a payload.
type PathConfig[C any] struct {
	// Events are tried in every settled state, in this order. Those that are ignored make no
	// step.
	Events []Event
	// EventsIn returns more events to try in a settled state, after Events.
	EventsIn func(statechart.Snapshot[C]) []Event
	// Outcomes returns the ways in which a service may end. Nil means two: the service is
	// called, and it fails for good. A service that is called must depend on its input alone,
	// not on how often it was called: a path does not know of the others.
	Outcomes func(statechart.Invocation) []Outcome
	// Identity returns what tells states apart: two snapshots with one identity are one state.
	// Nil means ByContext.
	Identity func(statechart.Snapshot[C]) string
	// StopWhen, if set, says where paths end, beside the states in which the instance is done.
	StopWhen func(statechart.Snapshot[C]) bool
	// Invariant, if set, returns what is wrong with a snapshot. RunPaths asks it at every step.
	Invariant func(statechart.Snapshot[C]) error
	// Simple makes RunPaths run the simple paths instead of the shortest.
	Simple bool

	// PathsMax and StepsMax limit the exploration. They default to PathsMax and PathStepsMax.
	PathsMax int
	StepsMax int
	// Start says how the instance of a path begins. RunPaths fills its Coverage.
	Start Config
}

func (c PathConfig[C]) withDefaults(chart *statechart.Chart[C]) PathConfig[C] {
	if c.Events == nil && c.EventsIn == nil {
		for _, typ := range chart.Events() {
			c.Events = append(c.Events, Event{Type: typ})
		}
	}
	if c.Outcomes == nil {
		c.Outcomes = func(statechart.Invocation) []Outcome { return []Outcome{{}, {Err: errors.New("outcome fail")}} }
	}
	if c.Identity == nil {
		c.Identity = ByContext[C]
	}
	if c.PathsMax == 0 {
		c.PathsMax = PathsMax
	}
	if c.StepsMax == 0 {
		c.StepsMax = PathStepsMax
	}
	c.Start = c.Start.withDefaults(chart.ID())
	return c
}

// Path is a way from the start of an instance to a state.
type Path[C any] struct {
	// Steps are at least one: the first is the start, the last leads to the path's state.
	Steps []PathStep[C]
	// extended says that another path of the exploration begins with this one.
	extended bool
}

// Snapshot returns the snapshot that the path leads to.
func (p Path[C]) Snapshot() statechart.Snapshot[C] { return p.Steps[len(p.Steps)-1].Snapshot }

// String returns the steps, a line each.
func (p Path[C]) String() string {
	var b strings.Builder
	for _, step := range p.Steps {
		b.WriteString(step.String() + "\n")
	}
	return b.String()
}

// PathStep is a macrostep of a path.
type PathStep[C any] struct {
	// Via names what was taken: an event, "done.invoke.launching", "error.invoke.launching",
	// "queued after pick_up" of a timer; "" for the start.
	Via string
	// Event is what was taken, with its time.
	Event statechart.Event
	// From is the state before, as Player.State has it; "" for the start.
	From string
	// Snapshot, Effects and Microsteps are what it led to.
	Snapshot   statechart.Snapshot[C]
	Effects    []statechart.Effect
	Microsteps []statechart.Microstep
}

// String returns the step as "launching -> queued via done.invoke.launching".
func (s PathStep[C]) String() string {
	state := strings.Join(s.Snapshot.State(), ", ")
	if s.From == "" {
		return "starts in " + state
	}
	return s.From + " -> " + state + " via " + s.Via
}

// ShortestPaths returns a path with as few steps as possible to each state that can be reached,
// the start included. They are in the order of their lengths; of paths that are equally long,
// what is tried first comes first.
//
// What is tried in a state: while services run, their outcomes, one after the other; in a settled
// state the events; in both, last, the next timer, for which the clock is moved on. Nothing else
// takes time.
func ShortestPaths[C any](chart *statechart.Chart[C], config PathConfig[C]) ([]Path[C], error) {
	x := newExplorer(chart, config)
	found, err := x.shortest(nil)
	return x.paths(found, err)
}

// SimplePaths returns every path that comes to no state twice, each followed by those that begin
// with it. What is tried in a state is as with ShortestPaths.
func SimplePaths[C any](chart *statechart.Chart[C], config PathConfig[C]) ([]Path[C], error) {
	x := newExplorer(chart, config)
	found, err := x.simple()
	return x.paths(found, err)
}

// FinalPaths returns a shortest path to each final state of the chart, nested ones included, in
// document order. A path leads to a final state if its last step enters it, even if that step goes
// on from there. The error wraps ErrUnreached if there are final states without a path, and names
// them.
func FinalPaths[C any](chart *statechart.Chart[C], config PathConfig[C]) ([]Path[C], error) {
	x := newExplorer(chart, config)
	first := map[string]*visit[C]{}
	if _, err := x.shortest(func(v *visit[C]) {
		for _, microstep := range v.step.Microsteps {
			for _, path := range microstep.Entered {
				if first[path] == nil {
					first[path] = v
				}
			}
		}
	}); err != nil {
		return nil, err
	}
	var paths []Path[C]
	var unreached []string
	for _, state := range chart.States() {
		switch {
		case state.Type != statechart.Final:
		case first[state.Path] == nil:
			unreached = append(unreached, state.Path)
		default:
			paths = append(paths, first[state.Path].path())
		}
	}
	if unreached != nil {
		return paths, fmt.Errorf("final states of chart %s without a path: %w: %s", chart.ID(), ErrUnreached, strings.Join(unreached, ", "))
	}
	return paths, nil
}

// visit is the end of a path while it is explored.
type visit[C any] struct {
	// previous is nil at the start.
	previous *visit[C]
	step     PathStep[C]
	steps    int
	now      time.Time
	identity string
	// extended says that a path that was found goes on from here.
	extended bool
}

// path returns the path to here.
func (v *visit[C]) path() Path[C] {
	path := Path[C]{Steps: make([]PathStep[C], v.steps+1), extended: v.extended}
	for ; v != nil; v = v.previous {
		path.Steps[v.steps] = v.step
	}
	return path
}
