package simulate_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// TestADeadProcessFreesItsInstancesWithinTheLease runs a ten-minute service whose first call kills its process after
// five minutes. The queue has the visibility timeout that the CDK construct sets for a function timeout of 15 minutes.
// The events of both instances of the batch reach another process within 30 seconds.
func TestADeadProcessFreesItsInstancesWithinTheLease(t *testing.T) {
	t.Parallel()
	const lives, takes, lease = 5 * time.Minute, 10 * time.Minute, 30 * time.Second
	var w *world
	var mu sync.Mutex
	calls := map[string][]time.Time{}
	work := func(ctx context.Context, _ patient, call statechart.Call) (int, error) {
		mu.Lock()
		calls[call.Instance] = append(calls[call.Instance], time.Now())
		isFirst := len(calls[call.Instance]) == 1
		mu.Unlock()
		if isFirst && call.Instance == "clinic/1" {
			time.Sleep(lives)
			w.faults.kill(ctx)
		}
		select {
		case <-time.After(takes):
			return 0, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	type on = statechart.Transition[patient]
	clinic := durable.Host(statechart.Must(statechart.Definition[patient]{
		ID: "clinic", Version: 1, Initial: "well", Payloads: statechart.Payloads{"operate": statechart.NoPayload()},
		States: []statechart.State[patient]{
			{ID: "well", Tags: []string{statechart.Settled}, On: []on{{Event: "operate", Target: "asleep"}}},
			{ID: "asleep", Invoke: []statechart.Invoke[patient]{{Service: statechart.ServiceFunc("operation", work), Retry: statechart.RetryPolicy{Attempts: 9},
				OnDone: []on{{Target: "well"}}, OnError: []on{{Target: "well"}}}}},
		},
	}), durable.MachineConfig{})
	o := options{more: []durable.Machine{clinic}, visibility: "1125", source: func(s *awslocal.EventSource) { s.Timeout = 15 * time.Minute }}
	inWorld(t, o, func(in *world) {
		w = in
		began := time.Now()
		w.sendRaw(raw{group: "clinic/1", body: `{"type": "operate"}`}, raw{group: "clinic/2", body: `{"type": "operate"}`})
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		for instance, times := range calls {
			if len(times) != 2 {
				t.Errorf("%s: want two calls of the service, got %v", instance, times)
				continue
			}
			if after := times[1].Sub(began.Add(lives)); after < 0 || after > lease+time.Second {
				t.Errorf("%s: want the second call within %v of the death of the process, got it after %v", instance, lease, after)
			}
			if state := w.record(instance).State; state[0] != "well" {
				t.Errorf("%s: want the state well, got %v", instance, state)
			}
		}
		if len(calls) != 2 || w.unacknowledged() != 0 {
			t.Errorf("want two instances and an empty queue, got calls %v and %d messages", calls, w.unacknowledged())
		}
	})
}
