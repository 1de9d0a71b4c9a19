package waking_test

import (
	"testing"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/waking"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestAnInstanceWithoutAMessageOrAScheduleIsNotWoken(t *testing.T) {
	t.Parallel()
	timer, beat := `{"type": "settle.timer", "timer": "2.0"}`, `{"type": "settle.token", "token": "k1"}`
	owing := instances.Record{Outbox: []statechart.Effect{{ID: "1.0"}}}
	stuck := instances.Record{Error: &instances.Failure{Message: "settling order/1: no way on"}}
	failed := instances.Record{FailedEffects: []instances.FailedEffect{{ID: "2.0"}}}
	waits := instances.Record{Tokens: []instances.Token{{Key: "k1", HeartbeatSeconds: 30}}}
	expired := instances.Record{Tokens: []instances.Token{{Key: "k1", HeartbeatSeconds: 30, Expired: true}}}
	for name, c := range map[string]struct {
		stored    waking.Stored
		cause     waking.Cause
		queued    []string
		scheduled []string
		notWoken  bool
	}{
		"unsettled":                   {waking.Stored{}, waking.ByMessage, nil, []string{timer}, true},
		"unsettled, with a message":   {waking.Stored{}, waking.ByMessage, []string{timer}, nil, false},
		"stuck":                       {waking.Stored{Record: stuck}, waking.ByMessage, nil, nil, false},
		"owing":                       {waking.Stored{Record: owing, Settled: true}, waking.ByMessage, nil, nil, true},
		"timer":                       {waking.Stored{Settled: true, Timers: []string{"2.0"}}, waking.ByTimer, nil, []string{timer}, false},
		"timer in the queue":          {waking.Stored{Settled: true, Timers: []string{"2.0"}}, waking.ByTimer, []string{timer}, nil, false},
		"one of two timers":           {waking.Stored{Settled: true, Timers: []string{"2.0", "3.0"}}, waking.ByTimer, nil, []string{timer}, true},
		"timer that AWS refused":      {waking.Stored{Record: failed, Settled: true, Timers: []string{"2.0"}}, waking.ByRest, nil, nil, false},
		"task with a heartbeat":       {waking.Stored{Record: waits, Settled: true}, waking.ByTimer, nil, []string{beat}, false},
		"task without a heartbeat":    {waking.Stored{Record: waits, Settled: true}, waking.ByTimer, nil, []string{timer}, true},
		"task that has expired":       {waking.Stored{Record: expired, Settled: true}, waking.ByRest, nil, nil, false},
		"settled and owing no effect": {waking.Stored{Settled: true}, waking.ByRest, nil, nil, false},
	} {
		err := c.stored.Check(c.queued, c.scheduled)
		if cause := c.stored.Cause(); cause != c.cause || (err != nil) != c.notWoken {
			t.Errorf("%s: expected the cause %s, not woken: %v, got %s and %v", name, c.cause, c.notWoken, cause, err)
		}
	}
}
