package simulate_test

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// What the sequential model knows of what only the loop can report to a chart.

// loseAlias takes a message that says that an alias belonged to another instance when this one claimed it. The loop claims it once
// more then: r.taken says that another instance still has it.
func (r *replay) loseAlias(alias string) error {
	if !r.aliases[alias] || !slices.Contains(r.machine.Events(), durable.AliasTaken) {
		if r.taken {
			return differ("the instance was told that %s is taken, and does not claim it", alias)
		}
		return nil
	}
	begin, end := r.between()
	isOwn := func(t tenure) bool { return t.of == r.name && t.createdAt.Equal(r.record.CreatedAt) }
	if !r.taken {
		if !r.simulation.ledger.had("alias/"+alias, begin, end, isOwn) {
			return differ("the instance was not told that %s is taken, and has not got it", alias)
		}
		return nil
	}
	if !r.simulation.ledger.had("alias/"+alias, begin, end, func(t tenure) bool { return !isOwn(t) }) {
		return differ("the instance was told that %s is taken, and no other has it", alias)
	}
	delete(r.aliases, alias)
	return r.tell(durable.AliasTaken, map[string]any{"alias": alias})
}

// between returns the times of the steps before and after the message at hand, which the clocks of two processes have told. A zero
// end has no limit.
func (r *replay) between() (begin, end time.Time) {
	if r.at > 0 {
		begin = r.record.History[r.at-1].At.Add(-clockSkewMax)
	}
	if r.at < len(r.record.History) {
		end = r.record.History[r.at].At.Add(clockSkewMax)
	}
	return begin, end
}

// tellFailed tells the chart of an effect that was given up, once.
func (r *replay) tellFailed(effect string) error {
	id := derivedID(r.name, r.record.CreatedAt, effect)
	if !r.simulation.ledger.failed[id] || r.failures[id] {
		return nil
	}
	r.failures[id] = true
	r.simulation.count("charts told that an effect has failed for good", 1)
	return r.tell(durable.CommunicationError, map[string]any{"effect": id, "kind": "any"})
}

// tell tells the chart what only the loop knows, if it declares the event.
func (r *replay) tell(typ string, form map[string]any) error {
	if !slices.Contains(r.machine.Events(), typ) {
		return nil
	}
	form["type"] = typ
	body, err := json.Marshal(form)
	if err != nil {
		return err
	}
	event, err := r.machine.Decode(body)
	if err != nil {
		return err
	}
	return r.step(event)
}
