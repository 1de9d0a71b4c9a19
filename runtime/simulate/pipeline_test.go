package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/runtime/durable"
)

const nightly = "pipeline/sales.daily.2000-01-01"

// plant implements the services of a pipeline: its data, its jobs and the receiver of its alerts. It uses the clock of
// the bubble, which starts at midnight of January 1, 2000, UTC.
type plant struct {
	// dataAfter is the time at which the data is ready, and triggerAfter is the time from which jobs can be started.
	// Both count from `began`.
	dataAfter, triggerAfter time.Duration
	// jobTakes is the running time of the job, and `status` is its final status.
	jobTakes time.Duration
	status   pipeline.JobStatus
	// evaluateErr and publishErr are the errors of the calls.
	evaluateErr, publishErr error

	began time.Time
	mu    sync.Mutex
	jobs  map[string]time.Time // start times by idempotency key
	// alerts lists the alerts, without duplicates: time and type.
	alerts   []string
	toldKeys map[string]bool
	stopped  int
}

func (p *plant) machine() durable.Machine {
	return durable.Host(pipeline.New(pipeline.Services{Data: p, Jobs: p, Alerts: p}, pipeline.Config{}),
		durable.MachineConfig{StartedBy: pipeline.StartedBy, Retention: pipeline.Retention})
}

func (p *plant) Evaluate(context.Context, pipeline.Slot) (pipeline.Readiness, error) {
	return pipeline.Readiness{Ready: time.Since(p.began) >= p.dataAfter, Reason: "no sales yet"}, p.evaluateErr
}

func (p *plant) Trigger(_ context.Context, request pipeline.TriggerRequest) (pipeline.Job, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.began) < p.triggerAfter {
		return pipeline.Job{}, errors.New("too many concurrent runs")
	}
	if p.jobs == nil {
		p.jobs = map[string]time.Time{}
	}
	if _, started := p.jobs[request.IdempotencyKey]; !started {
		p.jobs[request.IdempotencyKey] = time.Now()
	}
	return pipeline.Job{ID: request.IdempotencyKey}, nil
}

func (p *plant) Check(_ context.Context, _ pipeline.Slot, job pipeline.Job) (pipeline.Progress, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.jobs[job.ID]) < p.jobTakes {
		return pipeline.Progress{}, nil
	}
	return pipeline.Progress{Status: p.status}, nil
}

func (p *plant) Stop(context.Context, pipeline.Slot, pipeline.Job) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped++
	return nil
}

func (p *plant) Publish(_ context.Context, alert pipeline.Alert) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.publishErr != nil {
		return p.publishErr
	}
	if p.toldKeys == nil {
		p.toldKeys = map[string]bool{}
	}
	if !p.toldKeys[alert.IdempotencyKey] {
		p.toldKeys[alert.IdempotencyKey] = true
		p.alerts = append(p.alerts, time.Now().UTC().Format("15:04 ")+string(alert.Type))
	}
	return nil
}

// alertTypes returns the types of the alerts. It omits their times, because a fault may delay an alert.
func (p *plant) alertTypes() []string {
	var types []string
	for _, alert := range p.alerts {
		types = append(types, alert[len("15:04 "):])
	}
	return types
}

// startPipeline starts an execution of the workflow that starts the instance of the pipeline and waits for it. The
// warning comes half an hour before the deadline.
func (w *world) startPipeline(name, deadline string) (execution string) {
	w.t.Helper()
	definition, err := os.ReadFile("../../infra/workflows/pipeline.asl.json")
	if err != nil {
		w.t.Fatal(err)
	}
	machine, err := w.workflows().CreateStateMachine(w.t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String("pipeline"), RoleArn: aws.String(anyRole), Definition: aws.String(string(definition)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	input := mustJSON(w.t, map[string]any{
		"instance": nightly, "queue_url": w.queueURL, "pipeline": "sales", "schedule": "daily", "date": "2000-01-01",
		"config": map[string]any{
			"evaluation_interval_seconds": 600, "evaluation_window_seconds": 4 * 60 * 60,
			"job_check_interval_seconds": 300, "job_time_limit_seconds": 12 * 60 * 60,
			"sla": map[string]any{"deadline": deadline, "expected_duration_seconds": 1800},
		},
	})
	started, err := w.workflows().StartExecution(w.t.Context(), &sfn.StartExecutionInput{
		StateMachineArn: machine.StateMachineArn, Name: &name, Input: aws.String(string(input)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return *started.ExecutionArn
}

// TestAPipelineEndsInManyWays plays each way in which a pipeline can end. A workflow starts it and waits.
func TestAPipelineEndsInManyWays(t *testing.T) {
	t.Parallel()
	hours := func(n float64) time.Duration { return time.Duration(n * float64(time.Hour)) }
	for name, c := range map[string]struct {
		plant    *plant
		deadline string
		// cancelAfter is when CANCEL is sent; zero means never.
		cancelAfter time.Duration
		last        string
		end         []string
		state       []string
		alerts      []string
	}{
		"in time": {plant: &plant{dataAfter: hours(2), jobTakes: hours(3), status: pipeline.JobSucceeded},
			last: "Succeeded", end: []string{`"outcome":"succeeded"`, `"sla":"met"`, `"evaluations":13`, `"checks":36`},
			state: []string{"run.succeeded", "sla.met"}, alerts: []string{"05:00 SLA_MET"}},
		"after the warning": {plant: &plant{dataAfter: hours(3), jobTakes: hours(4.75), status: pipeline.JobSucceeded},
			last: "Succeeded", end: []string{`"sla":"warned"`},
			state: []string{"run.succeeded", "sla.warned"}, alerts: []string{"07:30 SLA_WARNING"}},
		"after the breach": {plant: &plant{dataAfter: hours(3), jobTakes: hours(6), status: pipeline.JobSucceeded},
			last: "SucceededLate", end: []string{`"sla":"breached"`},
			state: []string{"run.succeeded", "sla.breached"}, alerts: []string{"07:30 SLA_WARNING", "08:00 SLA_BREACH"}},
		"alerts fail": {plant: &plant{jobTakes: hours(9), status: pipeline.JobSucceeded, publishErr: errors.New("no route")},
			last: "SucceededLate", end: []string{`"sla":"breached"`, `"alerts_lost":2`},
			state: []string{"run.succeeded", "sla.breached"}},
		"no data": {plant: &plant{dataAfter: hours(5)},
			last: "NoData", end: []string{`"outcome":"validation_exhausted"`, `"evaluations":24`, `"reason":"no sales yet"`},
			state: []string{"run.validation_exhausted", "sla.called_off"}, alerts: []string{"04:00 VALIDATION_EXHAUSTED"}},
		"started at the fifth attempt": {plant: &plant{triggerAfter: 7 * time.Minute, jobTakes: hours(1), status: pipeline.JobSucceeded},
			last: "Succeeded", end: []string{`"trigger_attempts":5`}, state: []string{"run.succeeded", "sla.met"}, alerts: []string{"01:07 SLA_MET"}},
		"not started": {plant: &plant{triggerAfter: hours(1)},
			last: "NotTriggered", end: []string{"FAILED Pipeline.NotTriggered"}, state: []string{"run.trigger_failed", "sla.called_off"}},
		"job failed": {plant: &plant{jobTakes: hours(1), status: pipeline.JobFailed},
			last: "JobFailed", end: []string{"FAILED Pipeline.JobFailed"}, state: []string{"run.job_failed", "sla.called_off"}},
		"job timed out by its system": {plant: &plant{jobTakes: hours(1), status: pipeline.JobTimedOut},
			last: "JobTimedOut", end: []string{"FAILED Pipeline.JobTimedOut"}, state: []string{"run.job_timed_out", "sla.called_off"}},
		"job never ends": {plant: &plant{jobTakes: hours(100)},
			last: "JobTimedOut", end: []string{"FAILED Pipeline.JobTimedOut"},
			state: []string{"run.job_timed_out", "sla.breached"}, alerts: []string{"07:30 SLA_WARNING", "08:00 SLA_BREACH"}},
		"no infrastructure": {plant: &plant{evaluateErr: errors.New("no route")},
			last: "InfraFailure", end: []string{"FAILED Pipeline.InfraFailure"}, state: []string{"run.infra_failure", "sla.called_off"}},
		"cancelled while the job runs": {plant: &plant{jobTakes: hours(5), status: pipeline.JobSucceeded}, cancelAfter: hours(1),
			last: "Cancelled", end: []string{`"outcome":"cancelled"`}, state: []string{"run.cancelled", "sla.called_off"}},
		"cancelled between two attempts": {plant: &plant{triggerAfter: hours(1)}, cancelAfter: 5 * time.Minute,
			last: "Cancelled", end: []string{`"trigger_attempts":4`}, state: []string{"run.cancelled", "sla.called_off"}},
		"refused": {plant: &plant{}, deadline: "8 o'clock", last: "Refused", end: []string{"FAILED Pipeline.Refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := c.plant
			inWorld(t, options{more: []durable.Machine{p.machine()}}, func(w *world) {
				p.began = time.Now()
				deadline := c.deadline
				if deadline == "" {
					deadline = "08:00"
				}
				execution := w.startPipeline("run-1", deadline)
				if c.cancelAfter > 0 {
					time.Sleep(c.cancelAfter)
					w.send(nightly, `{"type": "CANCEL"}`)
				}
				path, end := w.ended(execution)
				if want := "Pipeline Outcome " + c.last; path != want && path != "Pipeline "+c.last {
					t.Errorf("want %s, got %s with %s", want, path, end)
				}
				for _, want := range c.end {
					if !strings.Contains(end, want) {
						t.Errorf("want %s, got %s", want, end)
					}
				}
				time.Sleep(24 * time.Hour)
				r := w.record(nightly)
				if !slices.Equal(r.State, c.state) || len(r.Tokens) > 0 || owing(r) > 0 || r.Error != nil {
					t.Errorf("want it in %v with nothing left to do, got %v, %d tokens, %d effects, %v", c.state, r.State, len(r.Tokens), owing(r), r.Error)
				}
				if diff := cmp.Diff(c.alerts, p.alerts); diff != "" {
					t.Errorf("alerts (-want +got):\n%s", diff)
				}
				if stopped := name == "cancelled while the job runs"; stopped != (p.stopped > 0) {
					t.Errorf("want the job stopped: %v, got %d calls", stopped, p.stopped)
				}
			})
		})
	}
}

// TestTwoWorkflowsWaitForOneRun starts the workflow again while the pipeline runs, and once more after the pipeline has
// ended.
func TestTwoWorkflowsWaitForOneRun(t *testing.T) {
	t.Parallel()
	p := &plant{jobTakes: time.Hour, status: pipeline.JobSucceeded}
	inWorld(t, options{more: []durable.Machine{p.machine()}}, func(w *world) {
		first := w.startPipeline("run-1", "08:00")
		time.Sleep(time.Minute)
		second := w.startPipeline("run-2", "08:00")
		_, end1 := w.ended(first)
		_, end2 := w.ended(second)
		_, end3 := w.ended(w.startPipeline("run-3", "08:00"))
		if end1 != end2 || !strings.Contains(end1, `"outcome":"succeeded"`) || !strings.Contains(end3, `"outcome":"succeeded"`) {
			t.Errorf("want the same answer for all, got %s and %s and %s", end1, end2, end3)
		}
		if len(p.jobs) != 1 {
			t.Errorf("want one job, got %d", len(p.jobs))
		}
	})
}

// TestAPipelineSurvivesAFaultAtEveryCall plays a pipeline whose data is late and whose job is hard to start. The job
// ends after the warning. The test repeats the pipeline with each kind of fault at each AWS call.
func TestAPipelineSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	play := func(t *testing.T, hit *faults) (got string) {
		t.Helper()
		p := &plant{dataAfter: 15 * time.Minute, triggerAfter: 21 * time.Minute, jobTakes: 12 * time.Minute, status: pipeline.JobSucceeded}
		inWorld(t, options{faults: hit, more: []durable.Machine{p.machine()}}, func(w *world) {
			p.began = time.Now()
			path, end := w.ended(w.startPipeline("run-1", "00:58"))
			time.Sleep(24 * time.Hour)
			r := w.record(nightly)
			got = fmt.Sprint(path, " ", strings.Contains(end, `"outcome":"succeeded"`), strings.Contains(end, `"sla":"warned"`), " ",
				r.State, len(r.Tokens), owing(r), r.Error, " ", len(p.jobs), " ", p.alertTypes(), " ", w.deadLetters())
		})
		return got
	}
	const want = "Pipeline Outcome Succeeded true true [run.succeeded sla.warned] 0 0 <nil> 1 [SLA_WARNING] 0"
	quiet := &faults{}
	if got := play(t, quiet); got != want {
		t.Fatalf("without faults: want %s, got %s", want, got)
	}
	calls := len(quiet.calls)
	if calls < 30 {
		t.Fatalf("only %d calls to AWS", calls)
	}
	for _, kind := range []fault{failBefore, loseAnswer, throttle, duplicate, dieBefore, dieAfter} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			for at := 1; at <= calls; at += stride() {
				hit := &faults{at: at, kind: kind}
				if got := play(t, hit); got != want {
					t.Errorf("call %d (%s): want %s, got %s", at, hit.hit(), want, got)
				}
			}
		})
	}
}
