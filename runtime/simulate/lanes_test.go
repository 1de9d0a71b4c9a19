package simulate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/statechart"
)

// diary is the context of a chart that lists the numbers of its events.
type diary struct {
	Numbers []int `json:"numbers"`
}

type entry struct {
	N int `json:"n"`
}

// writing hosts the chart. Each event leads to a call of the service.
func writing(service func(n int)) durable.Machine {
	type on = statechart.Transition[diary]
	note := statechart.Assign("note", func(d *diary, e entry) { d.Numbers = append(slices.Clip(d.Numbers), e.N) })
	call := statechart.ServiceFunc("work", func(_ context.Context, d diary, _ statechart.Call) (int, error) {
		service(d.Numbers[len(d.Numbers)-1])
		return 0, nil
	})
	return durable.Host(statechart.Must(statechart.Definition[diary]{
		ID: "diary", Version: 1, Initial: "open", Payloads: statechart.Payloads{"note": statechart.PayloadOf[entry]()},
		States: []statechart.State[diary]{
			{ID: "open", Tags: []string{statechart.Settled}, On: []on{{Event: "note", Target: "busy", Actions: []statechart.Action[diary]{note}}}},
			{ID: "busy", Invoke: []statechart.Invoke[diary]{{Service: call, OnDone: []on{{Target: "open"}}, OnError: []on{{Target: "open"}}}}},
		},
	}), durable.MachineConfig{})
}

// TestAnInstanceMovesBetweenLanesUnderLoad sends events to instances while an operator moves the instances between
// three lanes, and one AWS call fails. Each event is applied once, in order.
func TestAnInstanceMovesBetweenLanesUnderLoad(t *testing.T) {
	t.Parallel()
	names := []string{"diary/a", "diary/b"}
	const events, moves = 12, 4
	run := func(t *testing.T, seed uint64, hit *faults) {
		t.Helper()
		rng := rand.New(rand.NewPCG(seed, 1))
		o := options{faults: hit, lanes: []string{"bulk", "vip"}, laneRules: "diary/b*=vip", more: []durable.Machine{writing(func(int) {})}, sdkRetries: true}
		inWorld(t, o, func(w *world) {
			var all sync.WaitGroup
			for _, name := range names {
				pauses := rand.New(rand.NewPCG(seed, digestOf(name)))
				all.Go(func() {
					for n := range events {
						w.send(name, fmt.Sprintf(`{"type":"note","n":%d}`, n))
						time.Sleep(time.Duration(pauses.IntN(3000)) * time.Millisecond)
					}
				})
			}
			config := w.aws(w.cloud.HTTPClient(), true)
			sent := 0
			o := operations.Operator{
				Machines: w.machines(), Store: dynamostore.New(dynamodb.NewFromConfig(config), table), Queue: w.queue(sqs.NewFromConfig(config), ""),
				NewID: func() string { sent++; return fmt.Sprint("wake-", sent) },
			}
			for range moves {
				time.Sleep(time.Duration(rng.IntN(8000)) * time.Millisecond)
				record := w.record(anyOf(rng, names...))
				if record.Revision == 0 {
					continue
				}
				op := instances.Operation{Kind: instances.ChangeLane, Lane: anyOf(rng, "main", "bulk", "vip"), By: "an operator", At: time.Now()}
				if _, err := o.Change(w.t.Context(), record.Instance, 0, func(instances.Record) (instances.Operation, error) { return op, nil }); err != nil && !errors.Is(err, instances.ErrInUse) {
					t.Error(err)
				}
			}
			all.Wait()
			for _, name := range names {
				w.await(name, "open", func(r instances.Record) bool { return len(numbersOf(t, r)) >= events && r.Moving == nil })
				time.Sleep(time.Hour) // A second copy of an event would arrive now.
				record := w.record(name)
				if got := numbersOf(t, record); !slices.IsSorted(got) || len(got) != events || got[events-1] != events-1 {
					t.Errorf("%s has %v, want the numbers 0 to %d", name, got, events-1)
				}
			}
		})
	}
	seeds := 300
	if testing.Short() {
		seeds = 50
	}
	quiet := &faults{}
	run(t, 0, quiet)
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 2))
		kind := anyOf(rng, failBefore, loseAnswer, throttle, duplicate, freeze, dieBefore, dieAfter)
		hit := &faults{at: 1 + rng.IntN(len(quiet.calls)), kind: kind}
		t.Run(fmt.Sprintf("seed %d: %v at call %d", seed, kind, hit.at), func(t *testing.T) {
			t.Parallel()
			run(t, seed, hit)
		})
	}
}

func numbersOf(t *testing.T, record instances.Record) []int {
	t.Helper()
	var snapshot struct{ Context diary }
	if record.Revision > 0 {
		if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
			t.Fatal(err)
		}
	}
	return snapshot.Context.Numbers
}

// TestANoisyTenantDelaysOnlyItsOwnLane sends the events of 1,000 tenants to a consumer with a concurrency of 10. Each
// event takes 300 ms. One tenant imports 100 times as many events as the others. If this tenant has its own lane, the
// 99th percentile of the others' delays is at most 1.2 times the value without the tenant.
func TestANoisyTenantDelaysOnlyItsOwnLane(t *testing.T) {
	t.Parallel()
	const tenants, each, noisy, slots = 1000, 2, 200, 10
	const spread, work = 100 * time.Second, 300 * time.Millisecond
	measure := func(t *testing.T, o options, isNoisy bool) (p99 time.Duration) {
		t.Helper()
		delaysIn(t, o, func(w *world, delays func() []time.Duration) {
			var all sync.WaitGroup
			for tenant := range tenants {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(tenant), 3))
					for range each {
						time.Sleep(time.Duration(rng.Int64N(int64(spread / each))))
						w.send(fmt.Sprintf("diary/t%d.1", tenant), fmt.Sprintf(`{"type":"note","n":%d}`, time.Now().UnixMilli()))
					}
				})
			}
			if isNoisy {
				time.Sleep(spread / 2)
				for n := range noisy {
					w.send(fmt.Sprintf("diary/noisy.%d", n), fmt.Sprintf(`{"type":"note","n":%d}`, -time.Now().UnixMilli()))
				}
			}
			all.Wait()
			time.Sleep(10 * time.Minute)
			got := delays()
			if len(got) != tenants*each {
				t.Fatalf("%d events of the others were applied, want %d", len(got), tenants*each)
			}
			slices.Sort(got)
			p99 = got[len(got)*99/100]
		}, work)
		return p99
	}
	slotted := func(s *awslocal.EventSource) { s.Concurrency, s.BatchSize = slots, 1 }
	alone := measure(t, options{source: slotted}, false)
	oneLane := measure(t, options{source: slotted}, true)
	lanes := measure(t, options{source: slotted, lanes: []string{"bulk"}, laneRules: "diary/noisy.*=bulk"}, true)
	t.Logf("p99 of the other tenants: %v without the noisy tenant; with it, %v in one lane (%.1f times) and %v with lanes (%.2f times)",
		alone, oneLane, float64(oneLane)/float64(alone), lanes, float64(lanes)/float64(alone))
	if oneLane < 2*alone {
		t.Errorf("with one lane, the noisy tenant delays the others by less than twice: the test shows nothing")
	}
	if float64(lanes) > 1.2*float64(alone) {
		t.Errorf("with lanes, p99 is %.2f times the figure without the noisy tenant, want at most 1.2", float64(lanes)/float64(alone))
	}
}

// delaysIn runs a world whose chart works on each event for the given time. It collects the delays of the events with a
// positive number. The number is the time at which the event was sent.
func delaysIn(t *testing.T, o options, test func(w *world, delays func() []time.Duration), work time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var delays []time.Duration
	o.more = []durable.Machine{writing(func(n int) {
		time.Sleep(work)
		if n > 0 {
			mu.Lock()
			delays = append(delays, time.Since(time.UnixMilli(int64(n))))
			mu.Unlock()
		}
	})}
	inWorld(t, o, func(w *world) {
		test(w, func() []time.Duration { mu.Lock(); defer mu.Unlock(); return slices.Clone(delays) })
	})
}
