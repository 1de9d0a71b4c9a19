package statechart

import "slices"

// program is a microstep of one transition, computed at compile time. It does the work of exitStates, the transition's
// actions and enterStates, but visits only states with actions.
//
// Only a simple transition has a program. Its source is atomic, and its domain is not parallel. The states that it
// leaves or enters are neither parallel nor final, and have no timers, services or children. No history state is a
// child of a state that it leaves.
type program struct {
	// actions holds the exit actions, the transition's actions and the entry actions, in this order. `left` is the
	// index of the transition's first action, and `entered` is the index of the first entry action.
	actions       []programmed
	left, entered int
	// `from` is the leaf that the program leaves. `to` is the leaf that it enters.
	from, to uint16
	// fastPath is set if the program covers the whole macrostep. No action can then fail or request effects. The leaf
	// `to` is settled, unless the chart is foreign.
	fastPath bool
}

// programmed is an action of a program, with the index of its state.
type programmed struct {
	*Action[erased]
	state int
	// list is the number of the action list. An error skips the rest of that list.
	list int
}

// program returns the program of a planned transition, or nil.
func (c *chart) program(t *transition) *program {
	source := &c.nodes[t.source]
	if source.kind != atomic {
		return nil
	}
	p := &program{from: uint16(source.index), to: uint16(source.index)}
	ok, lists := true, 0
	add := func(actions []Action[erased], state int) {
		lists++
		for i := range actions {
			ok = ok && !actions[i].enqueues
			p.actions = append(p.actions, programmed{&actions[i], state, lists})
		}
	}
	simple := func(n *node) bool { return len(n.timers)+len(n.invokes)+len(n.def.Children) == 0 && n.kind != final }
	if len(t.targets) > 0 {
		for i := source.index; i != t.domain; i = c.nodes[i].parent {
			add(c.nodes[i].def.Exit, i)
			ok = ok && simple(&c.nodes[i]) && !c.nodes[i].remembers
		}
		for i := source.parent; i >= t.domain && i >= 0; i = c.nodes[i].parent {
			ok = ok && c.nodes[i].kind != parallel
		}
	}
	p.left = len(p.actions)
	add(t.actions, t.source)
	p.entered = len(p.actions)
	for _, e := range t.entry {
		n := &c.nodes[e.state]
		add(n.entry, n.index)
		if e.byDefault {
			add(n.def.DefaultEntry, n.index)
		}
		ok = ok && simple(n) && n.kind != parallel
		p.to = e.state
	}
	if !ok {
		return nil
	}
	p.fastPath = !c.hasAlways && !c.defers && (c.foreign || c.nodes[p.to].settled) && !slices.ContainsFunc(p.actions, func(a programmed) bool { return a.run != nil })
	return p
}

// stepFast applies an event on the fast path. The event must enable an unguarded transition of the only active leaf,
// and that transition's program must have fastPath set. Only the configuration and the context change. If the fast path
// does not apply, stepFast changes nothing and reports false.
func (x *interpreter) stepFast(configuration *configuration) bool {
	leaf := configuration.only()
	if leaf < 0 {
		return false
	}
	transitions, compare := x.chart.nodes[leaf].candidates(x.event.Type)
	if compare || len(transitions) == 0 {
		return false
	}
	t := transitions[0]
	if t.guard.test != nil || t.program == nil || !t.program.fastPath {
		return false
	}
	actions := t.program.actions
	x.running.kind, x.running.programmed = programmedCode, actions
	for i := range actions {
		x.running.at = i
		if a := actions[i].Action; a.update != nil {
			a.update(x.context)
		} else {
			a.assign(x.context, x.event)
		}
	}
	configuration.few[0] = t.program.to
	return true
}

// programmed reports whether all enabled transitions have programs.
func (x *interpreter) programmed() bool {
	for k := range x.enabled {
		if x.enabled[k].program == nil {
			return false
		}
	}
	return true
}

// runPrograms is microstep for transitions with programs.
func (x *interpreter) runPrograms() error {
	for k := len(x.enabled) - 1; k >= 0; k-- {
		p := x.enabled[k].program
		if err := x.runProgrammed(p.actions[:p.left]); err != nil {
			return err
		}
	}
	for k := range x.enabled {
		p := x.enabled[k].program
		if err := x.runProgrammed(p.actions[p.left:p.entered]); err != nil {
			return err
		}
	}
	for k := range x.enabled {
		p := x.enabled[k].program
		if err := x.runProgrammed(p.actions[p.entered:]); err != nil {
			return err
		}
		x.snapshot.configuration.replace(p.from, p.to)
	}
	return nil
}

func (x *interpreter) runProgrammed(actions []programmed) error {
	x.running.kind, x.running.programmed = programmedCode, actions
	for i := 0; i < len(actions); i++ {
		a := &actions[i]
		x.running.at = i
		if a.update != nil {
			x.altered = true
			a.update(x.context)
			continue
		}
		err := a.perform(x)
		if err == nil {
			continue
		}
		if err := x.executionError(x.fail(err)); err != nil {
			return err
		}
		for i+1 < len(actions) && actions[i+1].list == a.list {
			i++
		}
	}
	return nil
}
