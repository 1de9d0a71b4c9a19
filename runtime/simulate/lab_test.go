package simulate_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// This file defines the services of a simulation.

// serviceKind is the behaviour of a service.
type serviceKind int

const (
	// isSlow takes longer than most calls to AWS. A service of kind 0 succeeds at once.
	isSlow serviceKind = 1 + iota
	// flaky fails in the first two attempts.
	flaky
	alwaysFails
	// `hangs` blocks until its timeout.
	hangs
	// `kills` ends its process in the first two attempts.
	kills
	alwaysKills
	serviceKinds
)

// lab is the environment of the services.
type lab struct {
	director *director
	plan     plan
	problem  func(format string, args ...any)
	mu       sync.Mutex
	tries    map[string]int
	// finished lists the keys of services that returned, by instance. `sealed` contains the keys of services that must
	// never run again, because the instance has started another service since.
	finished map[string][]string
	sealed   map[string]bool
	// killers contains the instances whose services killed processes.
	killers map[string]bool
	// `alone` is set if each instance's events come through one queue. Then no two processes work on an instance at
	// once, unless one of them was frozen.
	alone bool
	// deploy is called when a service kills its process for the second time.
	deploy func()
	// outputs are the results of services by key, and `beginnings` are the start times of instances.
	outputs    map[string]any
	beginnings map[string][]time.Time
}

func newLab(s *simulation) *lab {
	return &lab{
		director: s.director, plan: s.plan, problem: s.problem, deploy: s.deployAtWork, tries: map[string]int{}, finished: map[string][]string{}, alone: s.plan.queues == 1,
		sealed: map[string]bool{}, killers: map[string]bool{}, outputs: map[string]any{}, beginnings: map[string][]time.Time{},
	}
}

// serve runs one attempt.
func (l *lab) serve(ctx context.Context, kind serviceKind, call statechart.Call) (result, error) {
	l.mu.Lock()
	l.tries[call.Key]++
	try := l.tries[call.Key]
	process, _ := ctx.Value(processKey{}).(string)
	// With a retention of seconds, a repeat of the first event can start a deleted instance again, under the same keys.
	if l.sealed[call.Key] && l.alone && l.plan.retention == 0 && !l.director.wasFrozen(process) {
		l.problem("%s runs again, but another service has started since it finished", call.Key)
	}
	for _, key := range l.finished[call.Instance] {
		// The sample machines run services in parallel regions, in an unknown order.
		if key != call.Key && realMachineOf(call.Instance) == nil {
			l.sealed[key] = true
		}
	}
	l.mu.Unlock()
	l.director.tally(map[serviceKind]string{isSlow: countServiceSlow, flaky: countServiceFails, alwaysFails: countServiceFails, hangs: countServiceHangs}[kind], kind != flaky || try <= 2)
	l.director.addTrace("%s serves %s, attempt %d (%d here)", process, call.Key, call.Attempt, try)
	switch {
	case kind == isSlow:
		pause, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		defer cancel()
		<-pause.Done()
	case kind == flaky && try <= 2, kind == alwaysFails:
		return result{}, errors.New("out of order")
	case kind == hangs:
		<-ctx.Done()
		return result{}, ctx.Err()
	case kind == kills && try <= 2, kind == alwaysKills:
		if try == 2 {
			l.deploy()
		}
		l.mu.Lock()
		l.killers[call.Instance] = true
		l.mu.Unlock()
		l.director.die(process, countKilled)
		<-ctx.Done()
		return result{}, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return result{}, err
	}
	if gone, _ := l.director.state(process); !gone {
		l.mu.Lock()
		l.finished[call.Instance] = append(l.finished[call.Instance], call.Key)
		l.mu.Unlock()
	}
	return result{call.Key}, nil
}
