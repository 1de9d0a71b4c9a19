package statechart

// Microstep describes one microstep for Stepper.OnMicrostep: transitions taken together, or the exit actions of an
// ending instance.
type Microstep struct {
	// Event is the type of the microstep's event. For an eventless transition, it is the previous event. It is "" at
	// the start of the instance.
	Event string
	// Transitions holds indexes into Chart.Transitions. It is empty at the start and at the end of the instance.
	Transitions []int
	// Exited and Entered hold the paths of the states left and entered, in order.
	Exited, Entered []string
	// Actions holds the names of the actions that began to run, in order.
	Actions []string
}

func (x *interpreter) traceMicrostep() {
	x.tracing = &Microstep{Event: x.event.Type}
	for k := range x.enabled {
		if t := x.enabled[k].transition; t != &x.chart.initial {
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
	// Source is the path of the source state, or "" for the chart itself.
	Source string
	// Trigger describes the trigger: "on VERIFY", "always", "after 5m0s", "on done", "on done of launchRunner", "on
	// error of launchRunner".
	Trigger string
	// Event is the event descriptor, or "" for an eventless transition.
	Event string
	// Guard and Actions are names. Guard is "" without a guard.
	Guard   string
	Actions []string
	// Targets holds the paths of the target states. It is empty if no state is left.
	Targets []string
}

// Transitions returns the transitions of the chart in document order of their sources. Within a state, transitions on
// events come first, followed by OnDone, services, children, timers and eventless transitions.
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
	// Path is "" for the chart itself.
	Path    string
	Type    Type
	Settled bool
	// Atomic is set if the state has no children, final or not. It is false for history states.
	Atomic bool
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
