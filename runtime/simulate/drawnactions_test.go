package simulate_test

import (
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// This file draws the targets and actions of transitions in random charts.

// target draws a target state, or none.
func (d *drawer) target() string {
	if d.one(4) {
		return ""
	}
	return "#" + d.paths[d.IntN(len(d.paths))]
}

func (d *drawer) guard() statechart.Guard[trail] {
	if d.one(2) {
		return d.sometimes(2 + d.IntN(2))
	}
	return statechart.Guard[trail]{}
}

// actions draws a transition's actions.
func (d *drawer) actions(name string) []chartAction {
	actions := []chartAction{mark(name)}
	if d.lab.plan.longOutboxes && d.one(3) {
		actions = append(actions, d.sendToPeer(8+d.IntN(24)))
	}
	for d.one(2) {
		if d.flows && d.one(4) {
			actions = append(actions, d.starting())
			continue
		}
		if d.family && d.one(3) {
			actions = append(actions, d.childAction())
			continue
		}
		switch d.IntN(6) {
		case 0:
			actions = append(actions, statechart.Raise[trail]("hint"))
		case 1:
			delay := delays[d.IntN(4)]
			actions = append(actions, statechart.SendAfter("self", "later", func(c trail, _ statechart.Event) (time.Duration, any) {
				return delay, serial{c.Digest}
			}))
		case 2:
			actions = append(actions, statechart.Cancel[trail]("self"))
		case 3:
			alias := fmt.Sprintf("alias-%d", d.IntN(3))
			actions = append(actions, statechart.Alias(func(trail, statechart.Event) string { return alias }))
		default:
			actions = append(actions, d.sendToPeer(1))
		}
	}
	return actions
}

// sendToPeer sends count events to a peer. It sends none once the instance has sent sendsLimit times.
func (d *drawer) sendToPeer(count int) chartAction {
	peer := d.peers[d.IntN(len(d.peers))]
	return statechart.EnqueueActions("tell "+peer, func(c *trail, _ statechart.Event, enqueue statechart.Enqueue) error {
		if c.Sends >= sendsLimit {
			return nil
		}
		c.Sends++
		for range count {
			if err := enqueue.SendTo(peer, "told", serial{c.Digest}); err != nil {
				return err
			}
		}
		return nil
	})
}
