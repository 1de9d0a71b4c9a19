package statechart

import (
	"fmt"
	"time"
)

// Move moves an active snapshot to the state with the path, as a transition to it would. Like Step, it changes the
// snapshot in place. The state's nearest active ancestor stays active. moved is false if the instance has ended.
func (s *Stepper[C]) Move(snapshot *Snapshot[C], path string, at time.Time) (effects []Effect, moved bool, err error) {
	x := &s.x
	if snapshot.chart != x.chart {
		return nil, false, x.chart.otherChart()
	}
	if snapshot.Status != Active {
		return nil, false, nil
	}
	t, err := x.chart.moveTo(path, &snapshot.configuration)
	if err != nil {
		return nil, false, err
	}
	x.own = Event{Type: moveEvent, At: at}
	s.adopt(snapshot, &x.own)
	s.reset(snapshot)
	defer s.recovered(snapshot, &err)
	err = x.move(t)
	x.returned = true
	if err != nil {
		snapshot.Context = s.before
		return nil, false, err
	}
	snapshot.fromBare(&x.snapshot)
	return x.effects, true, nil
}

// moveEvent is the type of the event that actions receive during a Move.
const moveEvent = ReservedPrefix + "move"

// moveTo returns the transition of a Move. Its domain is the nearest active ancestor of the target.
func (c *chart) moveTo(path string, configuration *configuration) (enabledTransition, error) {
	target, ok := c.byPath[path]
	switch {
	case !ok || path == "":
		var paths []string
		for i := range c.nodes[1:] {
			paths = append(paths, c.nodes[i+1].path)
		}
		return enabledTransition{}, fmt.Errorf("chart %s has no state %q%s", c.id, path, didYouMean(closest(path, paths)...))
	case c.nodes[target].isHistory():
		return enabledTransition{}, fmt.Errorf("%s is a history state: expected a state that can be active", path)
	}
	domain := c.nodes[target].parent
	for !c.isActive(domain, configuration) {
		domain = c.nodes[domain].parent
	}
	if c.nodes[domain].kind == parallel {
		return enabledTransition{}, fmt.Errorf("%s is a region of an active parallel state: expected a state inside the region", path)
	}
	return enabledTransition{&transition{targets: []int{target}, reenter: true, place: "move", index: -1}, domain}, nil
}

// move takes the transition of a Move, and completes the macrostep.
func (x *interpreter) move(t enabledTransition) error {
	x.ownContext()
	x.enabled = append(x.enabled[:0], t)
	err := x.microstep()
	if err == nil {
		err = x.complete()
	}
	if err == nil {
		err = x.accepted(0)
	}
	if err == nil && len(x.snapshot.Deferred) > 0 {
		x.replay()
	}
	if err == nil {
		err = x.stalled()
	}
	if err == nil {
		x.snapshot.Steps++
	}
	return err
}
