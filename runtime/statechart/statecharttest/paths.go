package statecharttest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Default limits of an exploration.
const (
	// PathsMax is the maximum number of paths.
	PathsMax = 1_000
	// PathStepsMax is the maximum number of steps in a path after its start.
	PathStepsMax = 64
)

var (
	// ErrPathLimit is returned if a chart has more or longer paths than the limits allow. No paths are returned with it,
	// because a caller could mistake them for all paths.
	ErrPathLimit = errors.New("too many paths")
	// ErrUnreached is returned by FinalPaths, together with the paths found, if a final state has no path.
	ErrUnreached = errors.New("unreached")
)

// Event is an event from outside for an exploration.
type Event struct {
	Type string
	// Payload is the payload for Player.Send.
	Payload any
	// Name names the event in paths and distinguishes events of one type. Defaults to Type.
	Name string
}

// Outcome is a possible end of a service or a child. The zero value calls the service once and uses its result, or ends
// the child without output.
type Outcome struct {
	// Name distinguishes outcomes of one service or child: "done.invoke.launching, no capacity".
	Name string
	// Result, if set, is the result of the service or the output of the child. The service is not called.
	Result any
	// Err, if set, is the error of the service's last attempt or the error of the child. The service is not called. To set
	// ServiceError.Permanent, wrap the error with [statechart.Permanent].
	Err error
}

// PathConfig configures an exploration. The zero value tries every event of the chart without a payload.
type PathConfig[C any] struct {
	// Events are tried in every settled state, in this order. An ignored event adds no step.
	Events []Event
	// EventsIn returns additional events for a settled state, tried after Events.
	EventsIn func(statechart.Snapshot[C]) []Event
	// Outcomes returns the possible ends of a service. Nil means two: the outcome of a real call, and a failed last
	// attempt with ServiceError.Permanent false. Add an outcome with [statechart.Permanent] if the chart tests Permanent.
	// The result of a called service must depend only on its input and not on the number of calls, because the exploration
	// tries each path independently.
	Outcomes func(statechart.Invocation) []Outcome
	// ChildOutcomes returns the possible ends of a running child, tried in every settled state after the events. An
	// Outcome's Result must marshal to JSON. Nil means that no child ends.
	ChildOutcomes func(statechart.ChildRef) []Outcome
	// Identity returns the identity of a snapshot. Snapshots with the same identity are the same state. Nil means
	// ByContext.
	Identity func(statechart.Snapshot[C]) string
	// StopWhen, if set, ends paths in additional states. Paths always end where the instance is done.
	StopWhen func(statechart.Snapshot[C]) bool
	// Invariant, if set, returns an error for an invalid snapshot. RunPaths checks it at every step.
	Invariant func(statechart.Snapshot[C]) error
	// Simple makes RunPaths run simple paths instead of shortest ones.
	Simple bool

	// PathsMax and StepsMax limit the exploration. Zero means the constants PathsMax and PathStepsMax.
	PathsMax int
	StepsMax int
	// Start configures the instance of a path. RunPaths fills its Coverage.
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

// Path leads from the start of an instance to a state.
type Path[C any] struct {
	// Steps holds at least the start. The last step leads to the path's state.
	Steps []PathStep[C]
	// extended is set if another path of the exploration extends this one.
	extended bool
}

// Snapshot returns the snapshot at the end of the path.
func (p Path[C]) Snapshot() statechart.Snapshot[C] { return p.Steps[len(p.Steps)-1].Snapshot }

// String returns the steps, one per line.
func (p Path[C]) String() string {
	var b strings.Builder
	for _, step := range p.Steps {
		b.WriteString(step.String() + "\n")
	}
	return b.String()
}

// PathStep is a macrostep of a path.
type PathStep[C any] struct {
	// Via names the cause of the step: the name of an event from outside, "done.invoke.launching",
	// "error.invoke.launching", or "queued after pick_up" for a timer. It is "" for the start.
	Via string
	// Event is the event of the step, with its time.
	Event statechart.Event
	// From is the previous state, as Player.State returns it, or "" for the start.
	From string
	// Snapshot, Effects and Microsteps are the results of the step.
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

// ShortestPaths returns a shortest path to each reachable state, including the start. Paths are sorted by length, and
// paths of equal length by the order of exploration.
//
// In an unsettled state, the exploration tries the outcomes of each service. In a settled state, it tries the events,
// then the outcomes of each child. In both cases it then advances the clock to the next timer. Nothing else takes time.
func ShortestPaths[C any](chart *statechart.Chart[C], config PathConfig[C]) ([]Path[C], error) {
	x := newExplorer(chart, config)
	found, err := x.shortest(nil)
	return x.paths(found, err)
}

// SimplePaths returns every path that visits no state twice. Each path is followed by its extensions. The exploration
// works as in ShortestPaths.
func SimplePaths[C any](chart *statechart.Chart[C], config PathConfig[C]) ([]Path[C], error) {
	x := newExplorer(chart, config)
	found, err := x.simple()
	return x.paths(found, err)
}

// FinalPaths returns a shortest path to each final state of the chart, including nested ones, in document order. A path
// leads to a final state if its last step enters it, even if the step then leaves it. The error wraps ErrUnreached and
// names the final states without a path.
//
// FinalPaths returns one path per final state, not all paths, and no path to other states. It explores with the events
// and outcomes of the configuration, as RunPaths does. To reach a final state that only the end of a child leads to,
// set PathConfig.ChildOutcomes:
//
//	config.ChildOutcomes = func(child statechart.ChildRef) []statecharttest.Outcome {
//		return []statecharttest.Outcome{{Result: "paid"}, {Err: errors.New("declined")}}
//	}
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
	for _, state := range chart.Describe().States {
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

// visit is the end of a path during the exploration.
type visit[C any] struct {
	// previous is the visit before this one, or nil at the start.
	previous *visit[C]
	step     PathStep[C]
	steps    int
	now      time.Time
	identity string
	// extended is set if a found path continues from here.
	extended bool
}

func (v *visit[C]) path() Path[C] {
	path := Path[C]{Steps: make([]PathStep[C], v.steps+1), extended: v.extended}
	for ; v != nil; v = v.previous {
		path.Steps[v.steps] = v.step
	}
	return path
}
