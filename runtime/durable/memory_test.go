package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// forgetful implements the ports. It counts calls and stores nothing, so that all memory measured is the loop's.
type forgetful struct{ committed, armed, delayed atomic.Int64 }

func (f *forgetful) Load(_ context.Context, id instances.ID) (instances.Record, error) {
	return instances.Record{Instance: id}, nil
}

func (f *forgetful) Commit(_ context.Context, record instances.Record) error {
	if record.Revision != 1 {
		return durable.ErrConflict
	}
	f.committed.Add(1)
	return nil
}

func (f *forgetful) ClearOutbox(context.Context, instances.ID, int64, durable.Left) error {
	return nil
}

func (f *forgetful) KeepSends(context.Context, instances.ID, string, []instances.LastSend, time.Time) error {
	return nil
}

func (f *forgetful) LastSend(context.Context, instances.ID, string, string) (instances.LastSend, bool, error) {
	return instances.LastSend{}, false, nil
}

func (f *forgetful) Claim(context.Context, string, instances.ID, time.Time, int64) error {
	return nil
}

func (f *forgetful) Release(context.Context, string, instances.ID, time.Time, time.Time) error {
	return nil
}

func (f *forgetful) SendBatch(_ context.Context, messages []durable.Message) []error {
	return make([]error, len(messages))
}

func (f *forgetful) Send(context.Context, durable.Message) (string, error) { return "", nil }

func (f *forgetful) Forward(context.Context, durable.Delivery, string) error { return nil }

func (f *forgetful) Park(context.Context, durable.Delivery, string) error {
	f.delayed.Add(1)
	return nil
}

func (f *forgetful) Delay(context.Context, []durable.Delivery, time.Duration) error {
	f.delayed.Add(1)
	return nil
}

func (f *forgetful) Schedule(context.Context, time.Time, durable.Message) error {
	f.armed.Add(1)
	return nil
}

func (f *forgetful) Cancel(context.Context, string) error { return nil }

// alarm is a chart that waits for a one-year timer.
func alarm() durable.Machine {
	return durable.Host(statechart.Must(statechart.Definition[struct{}]{
		ID: "alarm", Version: 1, Initial: "idle", Payloads: statechart.Payloads{"SET": statechart.NoPayload()},
		States: []statechart.State[struct{}]{
			{ID: "idle", Tags: []string{statechart.Settled}, On: []statechart.Transition[struct{}]{{Event: "SET", Target: "set"}}},
			{ID: "set", Tags: []string{statechart.Settled}, After: []statechart.After[struct{}]{{Delay: 365 * 24 * time.Hour, Target: "idle"}}},
		},
	}), durable.MachineConfig{})
}

// Timers wait in the store and in AWS, not in the process. The test arms one timer in each of many instances.
//
//nolint:paralleltest // Other tests' allocations would be counted.
func TestAHundredThousandTimersTakeNoMoreMemoryThanTen(t *testing.T) {
	const (
		timers, batch = 100_000, 10
		// bytesMax limits the difference in heap size: less than three bytes per timer.
		bytesMax = 256 << 10
	)
	machines, err := durable.NewMachines(alarm())
	if err != nil {
		t.Fatal(err)
	}
	ports := &forgetful{}
	loop, err := durable.New(machines, durable.Ports{Store: ports, Queue: ports, Timers: ports}, durable.Config{
		Logger: slog.New(slog.DiscardHandler), SlowAfter: time.Hour, // A slow machine takes no lease, which would count as a delay.
	})
	if err != nil {
		t.Fatal(err)
	}
	arm := func(from, to int) {
		for first := from; first < to; first += batch {
			var deliveries []durable.Delivery
			for i := first; i < first+batch; i++ {
				deliveries = append(deliveries, durable.Delivery{
					MessageID: fmt.Sprint(i), Queue: queueARN, Group: fmt.Sprintf("alarm/%d", i), SequenceNumber: fmt.Sprint(i + 1),
					ReceiveCount: 1, SentAt: time.Unix(1_700_000_000, 0), Body: `{"type": "SET"}`,
				})
			}
			if failed := loop.Handle(t.Context(), deliveries); len(failed) > 0 {
				t.Fatalf("deliveries from %d on: %v failed", first, failed)
			}
		}
	}
	live := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // A second collection frees the objects held by pools.
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	arm(0, 10)
	ten := live()
	arm(10, timers)
	many := live()
	if ports.committed.Load() != timers || ports.armed.Load() != timers || ports.delayed.Load() != 0 {
		t.Fatalf("want %d instances stored and timers armed, got %d, %d and %d failures", timers, ports.committed.Load(), ports.armed.Load(), ports.delayed.Load())
	}
	if grown := many - ten; grown > bytesMax {
		t.Errorf("want the heap to grow by at most %d bytes from 10 timers to %d, it grew by %d", bytesMax, timers, grown)
	}
	runtime.KeepAlive(loop)
}
