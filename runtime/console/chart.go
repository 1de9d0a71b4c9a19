package console

import (
	"html/template"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/chartsvg"
)

// chart is a machine's chart as the pages use it: its states and transitions by path.
type chart struct {
	states []*chartState // in document order, without the root
	byPath map[string]*chartState
	edges  []chartEdge // in document order
	paths  *chartsvg.Paths
	svg    template.HTML
}

// chartState is a state of a chart.
type chartState struct {
	Path, Kind string
	Tags       []string
	Services   []string
	Edges      []chartEdge
}

// chartEdge is a transition of a chart.
type chartEdge struct {
	outline.Trigger
	From    string // "" is the chart itself
	Guard   string
	Targets []string
	Actions []string
}

// Words returns the kind of the trigger in words, or "" if the trigger is an event from outside.
func (e chartEdge) Words() string {
	return [...]string{
		outline.Eventless: "eventless", outline.Timer: "timer", outline.ServiceDone: "done", outline.ServiceFailed: "failed",
		outline.ChildDone: "child done", outline.ChildFailed: "child failed", outline.StateDone: "done",
	}[e.Kind]
}

// charts keeps the charts of the hosted machines, by ID and version.
type charts struct {
	mu sync.Mutex
	// known holds functions that return charts. Each lays out its chart on its first call, which takes up to a second
	// for a large chart. Pages with other charts do not wait for that.
	known map[string]func() *chart
}

// of returns the chart of a machine, or nil if the machine is not a chart.
func (c *charts) of(machine durable.Machine) *chart {
	c.mu.Lock()
	key := machine.ID() + "/" + strconv.Itoa(machine.Version())
	found, ok := c.known[key]
	if !ok {
		found = sync.OnceValue(func() *chart {
			if o := machine.Outline(); o != nil {
				return readChart(o)
			}
			return nil
		})
		if c.known == nil {
			c.known = map[string]func() *chart{}
		}
		c.known[key] = found
	}
	c.mu.Unlock()
	return found()
}

func readChart(o *statechart.Outline) *chart {
	c := &chart{byPath: map[string]*chartState{}, paths: chartsvg.NewPaths(o), svg: draw(o)}
	c.add(&o.Root, "")
	return c
}

// add adds a state and its descendants.
func (c *chart) add(s *outline.State, path string) {
	state := &chartState{Path: path, Kind: kindOf(s), Tags: s.Tags}
	c.byPath[path] = state
	if path != "" {
		c.states = append(c.states, state)
	}
	for i := range s.Invoke {
		state.Services = append(state.Services, s.Invoke[i].Service)
	}
	for trigger, t := range s.Transitions(path) {
		e := chartEdge{Trigger: trigger, From: path, Targets: t.Targets, Guard: t.Guard.Text()}
		for _, action := range t.Actions {
			e.Actions = append(e.Actions, action.Name)
		}
		state.Edges = append(state.Edges, e)
		c.edges = append(c.edges, e)
	}
	for i := range s.States {
		child := s.States[i].ID
		if path != "" {
			child = path + "." + child
		}
		c.add(&s.States[i], child)
	}
}

func kindOf(s *outline.State) string {
	switch statechart.Type(s.Type) {
	case statechart.Parallel:
		return "parallel"
	case statechart.Final:
		return "final"
	case statechart.ShallowHistory, statechart.DeepHistory:
		return "history"
	case statechart.Plain:
	}
	if len(s.States) > 0 {
		return "compound"
	}
	return "atomic"
}

// within reports whether the path leads to the state or to one of its descendants. "" is the chart itself.
func within(path, state string) bool {
	return state == "" || path == state || strings.HasPrefix(path, state+".")
}

// outer returns the path of the parent state, or "" at the top level.
func outer(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }

// candidates returns the transitions that the active state at the path or its ancestors may take on the event. The
// transitions of the innermost state come first. As in SCXML, a transition without a guard hides all later ones.
func (c *chart) candidates(path, event string) []chartEdge {
	var found []chartEdge
	for {
		if state := c.byPath[path]; state != nil {
			for _, e := range state.Edges {
				if e.Matches(event) {
					if found = append(found, e); e.Guard == "" {
						return found
					}
				}
			}
		}
		if path == "" {
			return found
		}
		path = outer(path)
	}
}

// reactions returns the candidates of all active states, each once.
func (c *chart) reactions(active []string, event string) []chartEdge {
	var found []chartEdge
	for _, path := range active {
		for _, e := range c.candidates(path, event) {
			if !slices.ContainsFunc(found, e.is) {
				found = append(found, e)
			}
		}
	}
	return found
}

// taken returns the transitions that lead from one configuration to the other on the event.
func (c *chart) taken(event string, from, to []string) []chartsvg.Taken {
	return c.paths.Of(chartsvg.Step{Event: event, From: from, To: to})
}

// addKeys adds the keys of transitions to a list, each once.
func addKeys(keys []string, taken []chartsvg.Taken) []string {
	for _, t := range taken {
		keys = union(keys, []string{keyOf(t.From, t.To, t.Event)})
	}
	return keys
}

// is reports whether both are the same transition.
func (e chartEdge) is(other chartEdge) bool {
	return e.From == other.From && e.Event == other.Event && e.Guard == other.Guard && slices.Equal(e.Targets, other.Targets)
}

// keys returns the keys of a transition in the drawing, one for the arrow to each target.
func (e chartEdge) keys() []string {
	var keys []string
	for _, target := range e.Targets {
		keys = append(keys, keyOf(e.From, target, e.Event))
	}
	return keys
}

// keyOf returns the key of an arrow for an event. chart.js computes the same key from the drawing.
func keyOf(from, to, event string) string { return from + "\n" + to + "\n" + event }

// leadsTo describes where transitions lead: "checking [jobHasTime], else job_timed_out".
func leadsTo(edges []chartEdge) string {
	var parts []string
	for _, e := range edges {
		text := "stays"
		if len(e.Targets) > 0 {
			var names []string
			for _, target := range e.Targets {
				names = append(names, lastSegment(target))
			}
			text = strings.Join(names, " + ")
		}
		if e.Guard != "" {
			text += " [" + e.Guard + "]"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", else ")
}
