// Package waking states what wakes a stored instance. The tests of packages durable, explore and simulate call
// Stored.Check, which finds an instance that would wait forever.
package waking

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// Cause is what starts the next turn of a stored instance.
type Cause string

// The results of Stored.Cause.
const (
	// ByRest means that nothing is scheduled. The instance waits for events from outside or for its children, or it has
	// ended.
	ByRest Cause = "rest"
	// ByMessage means a message in the queue. The instance is unsettled or has effects to perform. The consumer
	// acknowledges a message only when the instance is settled and has no effects left.
	ByMessage Cause = "message"
	// ByTimer means scheduled messages: a timer, a heartbeat of a task, or a poll of an execution.
	ByTimer Cause = "timer"
)

// Stored is a stored instance. Timers holds the IDs of its timers. Settled and Timers come from the snapshot.
type Stored struct {
	Record  instances.Record
	Settled bool
	Timers  []string
}

// Of returns a stored instance. It restores the record, and may migrate it.
func Of(machines *durable.Machines, record instances.Record) (Stored, error) {
	_, instance, err := machines.Restore(record)
	if err != nil {
		return Stored{}, err
	}
	s := Stored{Record: record, Settled: instance.Settled()}
	for _, timer := range instance.Timers() {
		s.Timers = append(s.Timers, timer.ID)
	}
	return s, nil
}

// Cause returns what starts the next turn of the instance.
func (s Stored) Cause() Cause {
	switch {
	case !s.Settled || s.Record.Owes():
		return ByMessage
	case len(s.awaited()) > 0:
		return ByTimer
	default:
		return ByRest
	}
}

// awaited returns the timers, tasks and executions that need a scheduled message. It omits those whose effect is in
// FailedEffects, because their message will never be scheduled.
func (s Stored) awaited() (names []string) {
	wait := func(name, effect string) {
		isOf := func(f instances.FailedEffect) bool { return f.ID == effect || strings.HasPrefix(f.ID, effect+".") }
		if !slices.ContainsFunc(s.Record.FailedEffects, isOf) {
			names = append(names, name)
		}
	}
	for _, timer := range s.Timers {
		wait(timer, timer)
	}
	for _, token := range s.Record.Tokens {
		if !token.Expired && (token.TimeoutSeconds > 0 || token.HeartbeatSeconds > 0) {
			wait(token.Key, "token."+token.Key)
		}
	}
	for _, execution := range s.Record.Executions {
		wait(execution.Name, "execution."+execution.Name)
	}
	return names
}

// isStuck reports whether the instance cannot settle and has parked an event for this reason. Later events are parked
// too, until the chart is fixed: see docs/guarantees.md.
func (s Stored) isStuck() bool {
	return !s.Settled && s.Record.Error != nil && strings.Contains(s.Record.Error.Message, "settling ")
}

// Check returns an error if a message that must wake the instance is missing, unless the instance is stuck. `queued`
// holds the bodies of the messages of its group that are in the queue or in flight. `scheduled` holds the bodies of the
// messages that a timer will send to it.
func (s Stored) Check(queued, scheduled []string) error {
	switch s.Cause() {
	case ByMessage:
		if len(queued) == 0 && !s.isStuck() {
			return fmt.Errorf("settled: %v, effects to perform: %v, but it has no message in the queue", s.Settled, s.Record.Owes())
		}
	case ByTimer:
		if len(s.Record.Outbox) > 0 && len(queued) > 0 {
			return nil // The event that performs the outbox may be in the queue.
		}
		for _, name := range s.awaited() {
			names := func(body string) bool { return strings.Contains(body, strconv.Quote(name)) }
			if !slices.ContainsFunc(queued, names) && !slices.ContainsFunc(scheduled, names) {
				return fmt.Errorf("it waits for %s, but no message for it is scheduled or in the queue", name)
			}
		}
	case ByRest:
	}
	return nil
}
