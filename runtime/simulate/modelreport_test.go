package simulate_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// This file models the events that only the loop can report to a chart.

// loseAlias applies the message with which the loop reports that another instance had the alias when this instance
// claimed it. The loop then claims the alias once more. r.taken means that the other instance still has the alias at
// that second claim.
func (r *replay) loseAlias(alias string) error {
	if !r.aliases[alias] || !r.declaresAliasTaken() {
		if r.taken {
			return differ("the instance received alias.taken for %s, but does not claim it", alias)
		}
		return nil
	}
	begin, end := r.between()
	isOwn := func(t tenure) bool { return t.of == r.name && t.createdAt.Equal(r.record.CreatedAt) }
	if !r.taken {
		if !r.simulation.ledger.had("alias/"+alias, begin, end, isOwn) {
			return differ("the instance does not have %s, but received no alias.taken for it", alias)
		}
		return nil
	}
	if !r.simulation.ledger.had("alias/"+alias, begin, end, func(t tenure) bool { return !isOwn(t) }) {
		return differ("the instance received alias.taken for %s, but no other has it", alias)
	}
	delete(r.aliases, alias)
	return r.report(durable.AliasTaken, map[string]any{"alias": alias})
}

// between returns the times of the steps before and after the current message, widened by the clock errors of the
// processes. A zero end means no limit.
func (r *replay) between() (begin, end time.Time) {
	if r.at > 0 {
		begin = r.record.History[r.at-1].At.Add(-clockSkewMax)
	}
	if r.at < len(r.record.History) {
		end = r.record.History[r.at].At.Add(clockSkewMax)
	}
	return begin, end
}

// reportFailed reports a dropped effect to the chart, once.
func (r *replay) reportFailed(effect string) error {
	id := derivedID(r.name, r.record.CreatedAt, effect)
	if !r.simulation.ledger.failed[id] || r.failures[id] {
		return nil
	}
	r.failures[id] = true
	r.simulation.count("effects that failed permanently and were reported to their chart", 1)
	return r.report(statechart.CommunicationError, map[string]any{"effect": id, "kind": "any"})
}

// report sends the chart an event from the loop, if the chart declares the event.
func (r *replay) report(typ string, form map[string]any) error {
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

// checkAliases checks that the instance has the aliases that it claimed and did not lose.
func (r *replay) checkAliases() error {
	r.simulation.ledger.mu.Lock()
	defer r.simulation.ledger.mu.Unlock()
	if r.simulation.ledger.failed[r.name] {
		return nil // A claim may be among the effects that failed permanently.
	}
	for alias := range r.aliases {
		if tenures := r.simulation.ledger.tenures["alias/"+alias]; r.declaresAliasTaken() && (len(tenures) == 0 || !tenures[len(tenures)-1].isOf(r)) {
			return fmt.Errorf("it claims %s, but does not have it: %+v", alias, tenures)
		}
	}
	return nil
}

// declaresAliasTaken reports whether the chart declares AliasTaken. If so, the history shows which aliases the instance
// lost.
func (r *replay) declaresAliasTaken() bool {
	return slices.Contains(r.machine.Events(), durable.AliasTaken)
}

// isOf reports whether the tenure belongs to the instance, and has not ended.
func (t tenure) isOf(r *replay) bool {
	return t.of == r.name && t.createdAt.Equal(r.record.CreatedAt) && t.end.IsZero()
}

// checkAliases checks that no instance has an alias that it no longer claims.
func (s *simulation) checkAliases(replays []*replay) {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	for name, tenures := range s.ledger.tenures {
		for _, r := range replays {
			if tenures[len(tenures)-1].isOf(r) && r.declaresAliasTaken() && !r.aliases[strings.TrimPrefix(name, "alias/")] && !tenures[len(tenures)-1].begin.Before(s.ledger.restored[r.name].at) {
				s.problem("%s has %s at the end, but does not claim it", r.name, name)
			}
		}
	}
}

// isScheduledAgain reports whether the loop scheduled a message of the runtime again because the message had killed
// processes.
func (r *replay) isScheduledAgain(message accepted) bool {
	if len(r.rescheduled) == 0 || !strings.HasPrefix(message.head().Type, statechart.ReservedPrefix) {
		return false
	}
	retries, form := retriesOf(message)
	return slices.ContainsFunc(r.rescheduled, func(other accepted) bool {
		n, same := retriesOf(other)
		return n == retries+1 && same == form
	})
}

// retriesOf returns how often a message was rescheduled, and the message without the count.
func retriesOf(message accepted) (retries float64, form string) {
	var fields map[string]any
	if err := json.Unmarshal([]byte(message.body), &fields); err != nil {
		return 0, ""
	}
	retries, _ = fields["$retries"].(float64)
	delete(fields, "$retries")
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return retries, string(text)
}

// checkStored compares the final state of the model, or its state before a forget, with the record.
func (r *replay) checkStored() error {
	if r.record.Kept != r.isKept {
		return fmt.Errorf("the record says kept: %v, want %v", r.record.Kept, r.isKept)
	}
	if want := r.instance.State(); !slices.Equal(want, r.record.State) {
		return fmt.Errorf("the record is in %v, want %v", r.record.State, want)
	}
	if want := r.snapshot(); !equalJSON(want, r.record.Snapshot) && !(r.failed && equalJSON(withoutReasons(want), withoutReasons(r.record.Snapshot))) {
		return fmt.Errorf("its snapshot differs:\n want %s\n  got %s", want, r.record.Snapshot)
	}
	return nil
}

func (r *replay) historyText() string {
	var text strings.Builder
	for i, step := range r.record.History {
		fmt.Fprintf(&text, "   %d %s %s: %v -> %v ignored %v\n", i, step.At.Format(time.RFC3339Nano), step.Event, step.From, step.To, step.Ignored)
	}
	return text.String()
}

func equalJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
