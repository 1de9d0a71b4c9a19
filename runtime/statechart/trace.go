package statechart

// Microstep is one microstep as a Stepper's OnMicrostep is told of it: transitions that are taken
// together, or the exit actions by which an instance ends, if there are any.
type Microstep struct {
	// Event is the type of the event that it takes, or, of an eventless one, of the last that was
	// taken; "" when the instance starts.
	Event string
	// Transitions are the indexes of those taken in Chart.Transitions; empty when the instance
	// starts and when it ends.
	Transitions []int
	// Exited and Entered are the paths of the states left and entered, in this order.
	Exited, Entered []string
	// Actions are the names of the actions that were begun, in order.
	Actions []string
}

// traceMicrostep begins to note what happens in a microstep.
func (x *interpreter) traceMicrostep() {
	x.tracing = &Microstep{Event: x.event.Type}
	for k := range x.enabled {
		if t := x.enabled[k].transition; t != &x.chart.initial {
			x.tracing.Transitions = append(x.tracing.Transitions, t.index)
		}
	}
}

// endMicrostep tells of the microstep that is over.
func (x *interpreter) endMicrostep() {
	if x.tracing != nil {
		x.onMicrostep(*x.tracing)
		x.tracing = nil
	}
}

// TransitionInfo describes a transition of a chart.
type TransitionInfo struct {
	// Source is the path of the state that has the transition, "" for the chart itself.
	Source string
	// Trigger says what it is taken on: "on VERIFY", "always", "after 5m0s", "on done",
	// "on done of launchRunner", "on error of launchRunner".
	Trigger string
	// Event is the descriptor of the events that it is taken on, "" for an eventless one.
	Event string
	// Guard and Actions are names; Guard is "" if there is none.
	Guard   string
	Actions []string
	// Targets are the paths of the target states; none if no state is left.
	Targets []string
}

// Transitions returns the transitions of the chart in document order of their sources; of one
// state, those on events first and then those of OnDone, of services, of timers, and the eventless
// ones.
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
	// Atomic says that the state has no children, be it final or not; history states are none.
	Atomic bool
}

// States returns the states of the chart in document order, the chart itself first.
func (c *chart) States() []StateInfo {
	infos := make([]StateInfo, 0, len(c.nodes))
	for i := range c.nodes {
		n := &c.nodes[i]
		infos = append(infos, StateInfo{Path: n.path, Type: n.def.Type, Settled: n.settled, Atomic: n.kind == atomic || n.kind == final})
	}
	return infos
}
