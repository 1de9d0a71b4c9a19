package statechart

// Microstep describes transitions that are taken together, or the exit actions of an instance that ends.
type Microstep struct {
	Event           string   // the event type; for an eventless transition, the previous event's type; "" at the start
	Transitions     []int    // indexes into Chart.Transitions, none at the start and at the end of the instance
	Exited, Entered []string // the paths of the states left and entered, in order
	Actions         []string // the names of the actions that began to run, in order
}

func (x *interpreter) traceMicrostep() {
	x.tracing = &Microstep{Event: x.event.Type}
	for k := range x.enabled {
		if t := x.enabled[k].transition; t.index >= 0 {
			x.tracing.Transitions = append(x.tracing.Transitions, t.index)
		}
	}
}

// endMicrostep reports the finished microstep.
func (x *interpreter) endMicrostep() {
	if x.tracing != nil {
		x.onMicrostep(*x.tracing)
		x.tracing = nil
	}
}

// TransitionInfo describes a transition of a chart.
type TransitionInfo struct {
	Source  string   // the path of the source state, or "" for the chart itself
	Trigger string   // such as "on VERIFY", "always", "after 5m0s", "on done" or "on error of launchRunner"
	Event   string   // the event descriptor, or "" for an eventless transition
	Guard   string   // the name of the guard, or ""
	Actions []string // the names of the actions
	Targets []string // the paths of the targets; none for a transition without a target
}

// Transitions returns the transitions in document order of their sources. For each source, transitions on events come
// first, then OnDone, services, children and timers, then eventless transitions.
func (c *chart) Transitions() []TransitionInfo {
	infos := make([]TransitionInfo, 0, len(c.transitions))
	for _, t := range c.transitions {
		info := TransitionInfo{Source: c.nodes[t.source].path, Trigger: t.place, Event: t.event, Guard: t.guard.Name}
		for _, action := range t.actions {
			info.Actions = append(info.Actions, action.Name)
		}
		for _, target := range t.targets {
			info.Targets = append(info.Targets, c.nodes[target].path)
		}
		infos = append(infos, info)
	}
	return infos
}

// StateInfo describes a state of a chart.
type StateInfo struct {
	Path    string // "" for the chart itself
	Type    Type
	Settled bool
	Atomic  bool // set if the state has no children and is not a history state; it may be final
}

// states returns the states of the chart in document order, the chart itself first.
func (c *chart) states() []StateInfo {
	infos := make([]StateInfo, 0, len(c.nodes))
	for i := range c.nodes {
		n := &c.nodes[i]
		infos = append(infos, StateInfo{Path: n.path, Type: n.def.Type, Settled: n.settled, Atomic: n.kind == atomic || n.kind == final})
	}
	return infos
}
