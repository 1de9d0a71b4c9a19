package simulate_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// The services of a simulation.

// serviceKind says how a service behaves.
type serviceKind int

const (
	// isSlow takes longer than the network. What is before it, succeeds.
	isSlow serviceKind = 1 + iota
	// flaky fails the first two attempts.
	flaky
	alwaysFails
	// hangs until its time-out.
	hangs
	// kills its process in the first two attempts.
	kills
	alwaysKills
	serviceKinds
)

// lab is the world outside of the services.
type lab struct {
	director *director
	plan     plan
	problem  func(format string, args ...any)
	mu       sync.Mutex
	tries    map[string]int
	// finished are the keys of the services that have returned, by instance, and sealed those among them
	// after which another service has begun: they must never run again.
	finished map[string][]string
	sealed   map[string]bool
	// killers are the instances whose services have killed processes.
	killers map[string]bool
	// alone says that an instance's events come through one queue: only then does nobody else work on it,
	// but for a process that was frozen.
	alone bool
	// deploy is called when a service kills its process for the second time.
	deploy func()
	// outputs are what services have returned, by their keys, and beginnings when instances began.
	outputs    map[string]any
	beginnings map[string][]time.Time
}

func newLab(s *simulation) *lab {
	return &lab{
		director: s.director, plan: s.plan, problem: s.problem, deploy: s.deployAtWork, tries: map[string]int{}, finished: map[string][]string{}, alone: s.plan.queues == 1,
		sealed: map[string]bool{}, killers: map[string]bool{}, outputs: map[string]any{}, beginnings: map[string][]time.Time{},
	}
}

// serve performs one attempt.
func (l *lab) serve(ctx context.Context, kind serviceKind, call statechart.Call) (result, error) {
	l.mu.Lock()
	l.tries[call.Key]++
	try := l.tries[call.Key]
	process, _ := ctx.Value(processKey{}).(string)
	if l.sealed[call.Key] && l.alone && !l.director.wasFrozen(process) {
		l.problem("%s runs again, although another service has begun since it had finished", call.Key)
	}
	for _, key := range l.finished[call.Instance] {
		// The regions of shipped machines have services side by side: which began first, nobody knows.
		if key != call.Key && realMachineOf(call.Instance) == nil {
			l.sealed[key] = true
		}
	}
	l.mu.Unlock()
	l.director.tally(map[serviceKind]string{isSlow: countServiceSlow, flaky: countServiceFails, alwaysFails: countServiceFails, hangs: countServiceHangs}[kind], kind != flaky || try <= 2)
	l.director.tell("%s serves %s, attempt %d (%d here)", process, call.Key, call.Attempt, try)
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
