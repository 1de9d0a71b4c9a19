package simulate_test

import (
	"encoding/json"
	"errors"
	"regexp"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// This file adds services to the sequential model.

// settle applies the results and timeouts of services from the history.
func (r *replay) settle() error {
	for !r.instance.Settled() {
		if r.migrate(); r.instance.Settled() {
			return nil // the new version waits for events here
		}
		if r.at == len(r.record.History) {
			return differ("the history ends in %v, which is not settled", r.instance.State())
		}
		was := r.record.History[r.at]
		if r.isOperators() {
			if err := r.operate(); err != nil {
				return err
			}
			continue
		}
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

// inside returns the event that causes a step of an unsettled instance: the end of a service, or a timer.
func (r *replay) inside(was instances.Transition) (statechart.Event, bool) {
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

// hasUsedUp reports whether a service may have used up its attempts. Each started attempt counts. Each process that
// died or froze counts too, because the loop may have counted an attempt that did not start. Failures of AWS use up no
// attempts.
func (r *replay) hasUsedUp(invocation statechart.Invocation) bool {
	s := r.simulation
	if realMachineOf(r.name) != nil || s.plan.config.ServicesMax > 0 { // Attempts of sample machines are not counted. Beyond ServicesMax, services fail without an attempt.
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

// died returns how many processes died or froze, except those that their services killed. If the loop
// could not take back the count of a try, the try counts as a death.
func (s *simulation) died() (died int) {
	for _, kind := range []string{nameOf(dieBefore), nameOf(dieAfter), nameOf(freeze), countTimeOut, countNotTakenBack} {
		died += s.director.counts[kind]
	}
	return died
}

// output returns the result of a service.
func (r *replay) output(invocation statechart.Invocation) any {
	l := r.simulation.lab
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outputs[derivedID(r.name, r.record.CreatedAt, invocation.Key)]
}

// withoutReasons removes the reasons of failed services from a snapshot.
func withoutReasons(snapshot json.RawMessage) json.RawMessage {
	return reasons.ReplaceAll(snapshot, []byte(`"$1":""`))
}

// reasons matches the places where the sample machines store the reasons of failed services.
var reasons = regexp.MustCompile(`"(error|failure|cause)": ?"[^"]*"`)
