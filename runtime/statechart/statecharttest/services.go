package statecharttest

import (
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// settle runs the services of the instance until it is settled. A foreign chart may also wait without services.
func (p *Player[C]) settle() error {
	p.t.Helper()
	for len(p.snapshot.Services) > 0 && !p.snapshot.Settled() {
		if err := p.serve(p.snapshot.Services[0].Key); err != nil {
			return err
		}
	}
	return nil
}

// serve runs the attempts of one invocation until it ends, or until a timer makes the instance leave the state that
// invoked it.
func (p *Player[C]) serve(key string) error {
	p.t.Helper()
	for p.awaits(key) {
		invocation := p.count(key)
		invoke, err := p.chart.Service(invocation)
		if err != nil {
			return err
		}
		result, failure, err := p.attempt(invocation, invoke.Service, invoke.Timeout)
		if err != nil {
			return err
		}
		if !p.awaits(key) {
			p.trace.attempt(invocation, "abandoned")
			return nil
		}
		if failure == nil {
			p.trace.attempt(invocation, "done")
			_, err := p.step(invocation.Done(result))
			return err
		}
		wait, more := invoke.Retry.Next(invocation.Attempt)
		if !more || statechart.IsPermanent(failure) {
			p.trace.attempt(invocation, fmt.Sprintf("failed permanently: %v", failure))
			_, err := p.step(invocation.Failed(failure))
			return err
		}
		p.trace.attempt(invocation, fmt.Sprintf("failed: %v, again in %v", failure, wait))
		if err := p.elapse(p.now.Add(wait), key); err != nil {
			return err
		}
	}
	return nil
}

func (p *Player[C]) count(key string) statechart.Invocation {
	p.t.Helper()
	snapshot := p.snapshot
	snapshot.Services = slices.Clone(snapshot.Services)
	k := slices.IndexFunc(snapshot.Services, func(i statechart.Invocation) bool { return i.Key == key })
	snapshot.Services[k].Attempt++
	p.keep(snapshot)
	return p.snapshot.Services[k]
}

// awaits reports whether the instance waits for the end of the invocation.
func (p *Player[C]) awaits(key string) bool {
	return slices.ContainsFunc(p.snapshot.Services, func(i statechart.Invocation) bool { return i.Key == key })
}

// elapse advances the clock during an invocation and fires due timers. No other events can arrive, because the instance
// is unsettled. elapse stops once the instance no longer waits for the invocation.
func (p *Player[C]) elapse(until time.Time, key string) error {
	p.t.Helper()
	for p.awaits(key) {
		timer, ok := p.nextTimer(until)
		if !ok {
			p.now = later(p.now, until)
			return nil
		}
		p.now = later(p.now, timer.At)
		p.trace.detail("%s %s", p.since(timer.At), timerName(timer))
		if _, err := p.step(statechart.Event{Type: statechart.TimerEvent, Timer: timer.ID}); err != nil {
			return err
		}
	}
	return nil
}
