package console

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
)

// chart is a machine's chart as the pages use it: its states and transitions by path.
type chart struct {
	states []*chartState // in document order, without the root
	byPath map[string]*chartState
	edges  []chartEdge // in document order
	svg    template.HTML
}

// chartState is a state of a chart.
type chartState struct {
	Path, Kind string
	Tags       []string
	Services   []string
	Edges      []chartEdge
	invokes    map[string]string // the ID of each invocation → its service
}

// chartEdge is a transition of a chart.
type chartEdge struct {
	From string // "" is the chart itself
	// Event is the event as the history names it: "VERIFY", "after 5m0s", "done.invoke.check"; "" for an eventless one.
	Event   string
	Glyph   string // the mark of the event's kind
	Label   string // the event without its kind
	Kind    string // the kind in words, or "" for an event from outside
	Guard   string
	Targets []string
	Actions []string
}

// charts keeps the charts of the hosted machines, by ID and version.
type charts struct {
	mu    sync.Mutex
	known map[string]*chart
}

// of returns the chart of a machine, or nil if the machine is not a chart.
func (c *charts) of(machine durable.Machine) *chart {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := machine.ID() + "/" + strconv.Itoa(machine.Version())
	found, ok := c.known[key]
	if !ok {
		if o := machine.Outline(); o != nil {
			found = readChart(o)
		}
		if c.known == nil {
			c.known = map[string]*chart{}
		}
		c.known[key] = found
	}
	return found
}

func readChart(o *statechart.Outline) *chart {
	c := &chart{byPath: map[string]*chartState{}, svg: draw(o)}
	c.add(&o.Root, "", o.Root.ID)
	return c
}

// add adds a state and its descendants.
func (c *chart) add(s *outline.State, path, name string) {
	state := &chartState{Path: path, Kind: kindOf(s), Tags: s.Tags, invokes: map[string]string{}}
	c.byPath[path] = state
	if path != "" {
		c.states = append(c.states, state)
	}
	edge := func(e chartEdge, t *outline.Transition) {
		e.From, e.Targets, e.Guard = path, t.Targets, guardText(t.Guard)
		for _, action := range t.Actions {
			e.Actions = append(e.Actions, action.Name)
		}
		state.Edges = append(state.Edges, e)
		c.edges = append(c.edges, e)
	}
	each := func(e chartEdge, list []outline.Transition) {
		for i := range list {
			edge(e, &list[i])
		}
	}
	for i := range s.On {
		edge(chartEdge{Event: s.On[i].Event, Label: s.On[i].Event}, &s.On[i])
	}
	each(chartEdge{Event: "done.state." + name, Glyph: "✓", Label: lastSegment(name), Kind: "done"}, s.OnDone)
	defaultID := func(position int) string { // as statechart makes the IDs that a definition leaves out
		if position > 0 {
			return name + ":" + strconv.Itoa(position)
		}
		return name
	}
	for i := range s.Invoke {
		invoke := &s.Invoke[i]
		id := cmp.Or(invoke.ID, defaultID(i))
		state.Services = append(state.Services, invoke.Service)
		state.invokes[id] = invoke.Service
		each(chartEdge{Event: "done.invoke." + id, Glyph: "✓", Label: invoke.Service, Kind: "done"}, invoke.OnDone)
		each(chartEdge{Event: "error.invoke." + id, Glyph: "✗", Label: invoke.Service, Kind: "failed"}, invoke.OnError)
	}
	for i := range s.Children {
		child := &s.Children[i]
		id := cmp.Or(child.ID, defaultID(i))
		each(chartEdge{Event: "done.child." + id, Glyph: "✓", Label: id, Kind: "child done"}, child.OnDone)
		each(chartEdge{Event: "error.child." + id, Glyph: "✗", Label: id, Kind: "child failed"}, child.OnError)
	}
	for i := range s.After {
		after := &s.After[i]
		id := cmp.Or(after.ID, after.Delay.String())
		edge(chartEdge{Event: "after " + id, Glyph: "◷", Label: id, Kind: "timer"}, &after.Transition)
	}
	each(chartEdge{Glyph: "→", Label: "always", Kind: "eventless"}, s.Always)
	for i := range s.States {
		child := s.States[i].ID
		if path != "" {
			child = path + "." + child
		}
		c.add(&s.States[i], child, child)
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

// guardText returns a guard as the chart shows it, or "".
func guardText(g *outline.Guard) string {
	if g == nil {
		return ""
	}
	words := map[outline.Constructor]string{outline.And: " and ", outline.Or: " or "}
	switch by := g.By; by {
	case outline.Not:
		return "not " + guardText(&g.Of[0])
	case outline.In:
		return "in " + g.In
	case outline.And, outline.Or:
		var parts []string
		for i := range g.Of {
			parts = append(parts, guardText(&g.Of[i]))
		}
		return strings.Join(parts, words[by])
	default:
		return g.Name
	}
}

// within reports whether the path leads to the state or to one of its descendants. "" is the chart itself.
func within(path, state string) bool {
	return state == "" || path == state || strings.HasPrefix(path, state+".")
}

// outer returns the path of the parent state, or "" at the top level.
func outer(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }

// matches reports whether an event descriptor of a transition matches the type.
func matches(descriptor, event string) bool {
	if descriptor == "" || event == "" {
		return descriptor == event
	}
	prefix, partial := strings.CutSuffix(descriptor, "*")
	return descriptor == event || partial && (prefix == "" || event == strings.TrimSuffix(prefix, ".") || strings.HasPrefix(event, prefix))
}

// candidates returns the transitions on the event that the active state with the path may take, the innermost state's
// first. As in SCXML, a transition without a guard hides all later ones.
func (c *chart) candidates(path, event string) []chartEdge {
	var found []chartEdge
	for {
		if state := c.byPath[path]; state != nil {
			for _, e := range state.Edges {
				if matches(e.Event, event) {
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

// stepsMax limits the eventless transitions that taken follows.
const stepsMax = 8

// taken returns the transitions that lead from one configuration to the other on the event. The history does not name
// transitions, so this is the first path through the chart that fits.
func (c *chart) taken(event string, from, to []string) []chartEdge {
	var taken []chartEdge
	for _, leaf := range from {
		for _, e := range c.candidates(leaf, event) {
			path := c.follow(e, to, stepsMax)
			if path == nil || slices.ContainsFunc(taken, e.is) {
				continue
			}
			taken = append(taken, path...)
			break
		}
	}
	return taken
}

// follow returns the edge, and the eventless transitions after it that lead to an active state of `to`. It returns nil
// if none do.
func (c *chart) follow(e chartEdge, to []string, steps int) []chartEdge {
	for _, target := range e.Targets {
		if slices.ContainsFunc(to, func(path string) bool { return within(path, target) }) {
			return []chartEdge{e}
		}
	}
	if len(e.Targets) == 0 {
		if slices.ContainsFunc(to, func(path string) bool { return within(path, e.From) }) {
			return []chartEdge{e}
		}
		return nil
	}
	if steps == 0 {
		return nil
	}
	for _, target := range e.Targets {
		for state := target; state != ""; state = outer(state) {
			s := c.byPath[state]
			if s == nil {
				continue
			}
			for _, next := range s.Edges {
				if next.Event != "" && !strings.HasPrefix(next.Event, "done.state.") {
					continue
				}
				if rest := c.follow(next, to, steps-1); rest != nil {
					return append([]chartEdge{e}, rest...)
				}
			}
		}
	}
	return nil
}

// is reports whether both are the same transition.
func (e chartEdge) is(other chartEdge) bool {
	return e.From == other.From && e.Event == other.Event && e.Guard == other.Guard && slices.Equal(e.Targets, other.Targets)
}

// keys identify a transition in the drawing, where it has an arrow to each target: the source, a target and the event,
// each on a line.
func (e chartEdge) keys() []string {
	var keys []string
	for _, target := range e.Targets {
		keys = append(keys, e.From+"\n"+target+"\n"+e.Event)
	}
	return keys
}

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
