package simulate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// This file adds the sample machines of this repository to a simulation, beside the drawn machines.

// realMachine is a sample machine, with the events of its instances.
type realMachine struct {
	host  func() durable.Machine
	names []string
	// event draws an event: type and payload.
	event func(*rand.Rand) map[string]any
	// `waits` lists the names that tasks wait under.
	waits []string
}

// observed hosts the machine, with failing services.
func (m realMachine) observed(l *lab, _ int) durable.Machine {
	return observed{Machine: m.host(), lab: l, troubled: true}
}

// realMachineOf returns the sample machine of an instance; nil for a drawn one.
func realMachineOf(instance string) *realMachine {
	for i := range realMachines {
		machine, _, _ := strings.Cut(instance, "/")
		if strings.HasPrefix(realMachines[i].names[0], machine+"/") {
			return &realMachines[i]
		}
	}
	return nil
}

// anyOf draws one of the values.
func anyOf[V any](rng *rand.Rand, values ...V) V { return values[rng.IntN(len(values))] }

const mailedCode = "271828"

var realMachines = []realMachine{
	{
		host: func() durable.Machine {
			return durable.Host(job.New(outside{}, job.Config{}), durable.MachineConfig{StartedBy: job.StartedBy})
		},
		names: []string{"job/17", "job/18"}, waits: []string{job.WaitQueued, job.WaitInProgress},
		event: func(rng *rand.Rand) map[string]any {
			typ := anyOf(rng, "waiting", "queued", "queued", "in_progress", "completed", "completed", "RELAUNCH")
			if typ == "RELAUNCH" {
				return map[string]any{"type": typ, "launch": 1 + rng.IntN(3)}
			}
			event := map[string]any{"type": typ, "run_id": 5, "job_id": 17, "run_attempt": 1, "repository": "octo-org/web", "owner": "octo-org", "labels": []string{"self-hosted"}}
			if typ == "completed" {
				event["conclusion"] = anyOf(rng, "success", "failure", "cancelled", "stale")
			}
			return event
		},
	},
	{
		host: func() durable.Machine {
			return durable.Host(signup.New(outside{}, outside{}, signup.Config{}), durable.MachineConfig{StartedBy: signup.StartedBy})
		},
		names: []string{"signup/1", "signup/2"},
		event: func(rng *rand.Rand) map[string]any {
			switch typ := anyOf(rng, "SIGN_UP", "SIGN_UP", "VERIFY", "VERIFY", "RESEND", "CHANGE_ADDRESS", "CANCEL"); typ {
			case "SIGN_UP":
				return map[string]any{"type": typ, "email": "ada@example.com", "name": "Ada"}
			case "VERIFY":
				return map[string]any{"type": typ, "code": anyOf(rng, mailedCode, "314159")}
			case "CHANGE_ADDRESS":
				return map[string]any{"type": typ, "email": "lovelace@example.com"}
			default:
				return map[string]any{"type": typ}
			}
		},
	},
	{
		host: func() durable.Machine {
			return durable.Host(enrich.New(outside{}, callbacks, enrich.Config{}), durable.MachineConfig{StartedBy: enrich.StartedBy})
		},
		names: []string{"enrich/1", "enrich/2"}, waits: []string{enrich.WaitEnrich},
		event: func(rng *rand.Rand) map[string]any {
			switch typ := anyOf(rng, "ENRICH", "ENRICH", "SUCCEEDED", "FAILED"); typ {
			case "ENRICH":
				return map[string]any{"type": typ, "subject": "https://example.com", "reference": "r-1"}
			case "SUCCEEDED":
				return map[string]any{"type": typ, "data": map[string]int{"employees": 7}}
			default:
				return map[string]any{"type": typ, "error": "no such page"}
			}
		},
	},
	{
		host: func() durable.Machine {
			return durable.Host(pipeline.New(pipeline.Services{Data: outside{}, Jobs: outside{}, Alerts: outside{}}, pipeline.Config{}), durable.MachineConfig{StartedBy: pipeline.StartedBy})
		},
		names: []string{"pipeline/sales.daily.2000-01-01"}, waits: []string{pipeline.WaitPipeline},
		event: func(rng *rand.Rand) map[string]any {
			typ := anyOf(rng, "START", "START", "START", "CANCEL", "DATA_CHANGED", "JOB_CHANGED")
			if typ != "START" {
				return map[string]any{"type": typ}
			}
			return map[string]any{"type": typ, "pipeline": "sales", "schedule": "daily", "date": "2000-01-01", "config": map[string]any{
				"evaluation_interval_seconds": 600, "evaluation_window_seconds": 3600, "job_check_interval_seconds": 300, "job_time_limit_seconds": 7200,
				"sla": map[string]any{"deadline": "02:00", "expected_duration_seconds": 1800},
			}}
		},
	},
	{
		host: func() durable.Machine {
			return durable.Host(upload.New(outside{}, upload.Config{Window: uploadWindow}), durable.MachineConfig{StartedBy: upload.StartedBy})
		},
		names: []string{month}, waits: []string{upload.WaitWarehouse, upload.WaitSales},
		event: func(rng *rand.Rand) map[string]any {
			kind, content := anyOf(rng, "warehouse", "sales"), rng.IntN(4)
			return map[string]any{"type": kind + "_uploaded", "bucket": kind + "-uploads", "key": kind + "_2026_11.csv", "etag": fmt.Sprint("etag", content),
				"size": 5, "sequencer": fmt.Sprintf("%016X", rng.IntN(8))}
		},
	},
}

// outside implements the services of the sample machines. Its results depend only on the request. The type `observed`
// decides whether a call fails.
type outside struct{}

func (outside) Launch(_ context.Context, r job.Request) (job.Runner, error) {
	return job.Runner{ID: "runner of " + r.IdempotencyKey}, nil
}

func (outside) SendVerification(context.Context, signup.Verification) (string, error) {
	return mailedCode, nil
}

func (outside) Provision(_ context.Context, a signup.Account) (string, error) {
	return "account of " + a.IdempotencyKey, nil
}

func (outside) Submit(_ context.Context, j enrich.Job) (string, error) {
	return fmt.Sprintf("job-%d", digestOf(j.IdempotencyKey)%3), nil
}

func (outside) Evaluate(context.Context, pipeline.Slot) (pipeline.Readiness, error) {
	return pipeline.Readiness{Ready: time.Now().Minute()%3 == 0, Reason: "no sales yet"}, nil
}

func (outside) Trigger(_ context.Context, r pipeline.TriggerRequest) (pipeline.Job, error) {
	return pipeline.Job{ID: r.IdempotencyKey}, nil
}

func (outside) Check(_ context.Context, _ pipeline.Slot, j pipeline.Job) (pipeline.Progress, error) {
	status := []pipeline.JobStatus{"", "", pipeline.JobSucceeded, pipeline.JobFailed, pipeline.JobTimedOut}
	return pipeline.Progress{Status: status[(int(digestOf(j.ID)%5)+time.Now().Minute()/5)%5]}, nil
}

func (outside) Stop(context.Context, pipeline.Slot, pipeline.Job) error { return nil }

func (outside) Publish(context.Context, pipeline.Alert) error { return nil }

func (outside) ProcessWarehouse(_ context.Context, r upload.WarehouseRequest) (upload.Dataset, error) {
	return upload.Dataset{Location: "stock " + r.File.ETag}, nil
}

func (outside) ProcessSales(_ context.Context, r upload.SalesRequest) (upload.Dataset, error) {
	return upload.Dataset{Location: "report " + r.File.ETag + ", " + r.Warehouse.Location}, nil
}

// observed is a machine that reports the starts of its instances and the results of its services to the lab. Like a
// third party with idempotency keys, a service returns the same result again for the same key.
type observed struct {
	durable.Machine
	lab *lab
	// troubled makes the machine's services fail sometimes. Drawn machines have their own failures.
	troubled bool
}

func (o observed) Start(start statechart.Start) (durable.Instance, []statechart.Effect, error) {
	o.lab.beganAt(start.Instance, start.At)
	instance, effects, err := o.Machine.Start(start)
	if err != nil {
		return nil, nil, err
	}
	return observedInstance{instance, o}, effects, nil
}

func (o observed) Stopped() (durable.Instance, error) {
	instance, err := o.Machine.Stopped()
	return observedInstance{instance, o}, err
}

func (o observed) Restore(snapshot json.RawMessage) (durable.Instance, error) {
	instance, err := o.Machine.Restore(snapshot)
	if err != nil {
		return nil, err
	}
	return observedInstance{instance, o}, nil
}

type observedInstance struct {
	durable.Instance
	of observed
}

func (o observedInstance) Apply(event statechart.Event) (durable.Instance, []statechart.Effect, bool, error) {
	next, effects, handled, err := o.Instance.Apply(event)
	return observedInstance{next, o.of}, effects, handled, err
}

func (o observedInstance) Stop(at time.Time) (durable.Instance, []statechart.Effect, bool, error) {
	next, effects, stopped, err := o.Instance.Stop(at)
	return observedInstance{next, o.of}, effects, stopped, err
}

func (o observedInstance) WithAttempt(key string, attempt int, retryAt time.Time) durable.Instance {
	return observedInstance{o.Instance.WithAttempt(key, attempt, retryAt), o.of}
}

func (o observedInstance) Prepare(invocation statechart.Invocation, call statechart.Call) (durable.Work, error) {
	work, err := o.Instance.Prepare(invocation, call)
	if err != nil {
		return work, err
	}
	run := work.Run
	work.Run = func(ctx context.Context) (any, error) {
		// Concurrent services must not end at the same instant, because a seed cannot decide their order.
		time.Sleep(time.Duration(1+digestOf(call.Key)%20_000) * time.Microsecond)
		if o.of.troubled {
			trouble := []serviceKind{0, 0, 0, isSlow, flaky, alwaysFails, kills}
			if _, err := o.of.lab.serve(ctx, trouble[digestOf(call.Key)%uint64(len(trouble))], call); err != nil {
				return nil, err
			}
		}
		output, err := run(ctx)
		if err != nil {
			return nil, err
		}
		return o.of.lab.returned(call.Key, output), nil
	}
	return work, nil
}

// returned stores the result of a service under the key of its call, and returns it. If the service has already
// returned a result for the key, returned returns that first result.
func (l *lab) returned(key string, output any) any {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.outputs[key]; ok {
		return before
	}
	l.outputs[key] = output
	return output
}

// beganAt records a time at which an instance may have started: not every start is stored.
func (l *lab) beganAt(instance string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beginnings[instance] = append(l.beginnings[instance], at)
}

// beginningsOf returns the times at which the instance may have started, without duplicates.
func (l *lab) beginningsOf(instance string) []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	times := slices.Clone(l.beginnings[instance])
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal)
}
