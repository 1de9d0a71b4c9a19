package simulate_test

import (
	"encoding/json"
	"errors"
	"regexp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// What the sequential model knows of services.

// settle feeds the model what the history says has come of its services, and of the time that they had.
func (r *replay) settle() error {
	for !r.instance.Settled() {
		if r.migrate(); r.instance.Settled() {
			return nil // The new version waits for the outside here.
		}
		if r.at == len(r.record.History) {
			return differ("the history ends in %v, which is not settled", r.instance.State())
		}
		was := r.record.History[r.at]
		event, ok := r.inside(was)
		if !ok {
			return differ("%s was applied in %v, which is not settled", was.Event, r.instance.State())
		}
		if err := r.step(event); err != nil {
			return differ("%v", err)
		}
	}
	return nil
}

// inside finds what a step of an unsettled instance was about.
func (r *replay) inside(was durable.Transition) (statechart.Event, bool) {
	for _, invocation := range r.instance.Invocations() {
		switch was.Event {
		case "done.invoke." + invocation.ID:
			return invocation.Done(r.output(invocation)), true
		case "error.invoke." + invocation.ID:
			if !r.hasUsedUp(invocation) {
				return statechart.Event{}, false
			}
			r.failed = true
			return invocation.Failed(errors.New("any")), true
		}
	}
	var next *statechart.Timer
	for _, timer := range r.instance.Timers() {
		if next == nil || timer.At.Before(next.At) {
			next = &timer
		}
	}
	if next == nil || was.Event != "after "+next.After {
		return statechart.Event{}, false
	}
	return statechart.Event{Type: statechart.TimerEvent, Timer: next.ID}, true
}

// hasUsedUp reports whether a service has used up its attempts: each has begun, or its process has died or frozen. Failures of AWS
// use up none.
func (r *replay) hasUsedUp(invocation statechart.Invocation) bool {
	s := r.simulation
	if realMachineOf(r.name) != nil || s.plan.config.ServicesMax > 0 { // Nobody counts those of shipped machines. Beyond ServicesMax, services fail without an attempt.
		return true
	}
	work, err := r.instance.Prepare(invocation, statechart.Call{})
	if err != nil {
		panic(err)
	}
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	return s.lab.tries[derivedID(r.name, r.record.CreatedAt, invocation.Key)]+s.died() >= work.Retry.Attempts
}

// died returns how many processes have died or frozen, but for those that their services have killed.
func (s *simulation) died() (died int) {
	for _, kind := range []string{nameOf(dieBefore), nameOf(dieAfter), nameOf(freeze), countTimeOut} {
		died += s.director.counts[kind]
	}
	return died
}

// output is what a service has returned.
func (r *replay) output(invocation statechart.Invocation) any {
	l := r.simulation.lab
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outputs[derivedID(r.name, r.record.CreatedAt, invocation.Key)]
}

// withoutReasons leaves out of a snapshot why services have failed.
func withoutReasons(snapshot json.RawMessage) json.RawMessage {
	return reasons.ReplaceAll(snapshot, []byte(`"$1":""`))
}

// reasons are where the shipped machines keep why a service has failed.
var reasons = regexp.MustCompile(`"(error|failure|cause)": ?"[^"]*"`)
