package pipeline_test

import (
	"context"
	"fmt"

	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// fakes are data, jobs and alerts that record their requests.
type fakes struct {
	// `ready` lists the results of evaluations, "no" or "yes". `job` lists the results of checks. After the last
	// result, data is ready and jobs succeed.
	ready, job []string
	// The outcomes of the calls.
	evaluate, trigger, check, stop, publish *statecharttest.Outcomes

	evaluations, checks, stops int
	triggers                   []pipeline.TriggerRequest
	alerts                     []pipeline.Alert
}

// newFakes returns fakes whose calls succeed.
func newFakes() *fakes {
	return &fakes{
		evaluate: &statecharttest.Outcomes{}, trigger: &statecharttest.Outcomes{}, check: &statecharttest.Outcomes{},
		stop: &statecharttest.Outcomes{}, publish: &statecharttest.Outcomes{},
	}
}

func (f *fakes) services() pipeline.Services { return pipeline.Services{Data: f, Jobs: f, Alerts: f} }

func (f *fakes) Evaluate(ctx context.Context, _ pipeline.Slot) (pipeline.Readiness, error) {
	if err := f.evaluate.Next(ctx); err != nil {
		return pipeline.Readiness{}, err
	}
	f.evaluations++
	if n := f.evaluations; n <= len(f.ready) && f.ready[n-1] == "no" {
		return pipeline.Readiness{Reason: "sales of the north are missing"}, nil
	}
	return pipeline.Readiness{Ready: true}, nil
}

func (f *fakes) Trigger(ctx context.Context, request pipeline.TriggerRequest) (pipeline.Job, error) {
	f.triggers = append(f.triggers, request)
	if err := f.trigger.Next(ctx); err != nil {
		return pipeline.Job{}, err
	}
	return pipeline.Job{ID: "jr_1", Metadata: map[string]string{"cluster": "c-1"}}, nil
}

func (f *fakes) Check(ctx context.Context, _ pipeline.Slot, job pipeline.Job) (pipeline.Progress, error) {
	if err := f.check.Next(ctx); err != nil {
		return pipeline.Progress{}, err
	}
	if job.ID != "jr_1" || job.Metadata["cluster"] != "c-1" {
		return pipeline.Progress{}, fmt.Errorf("unknown job %+v", job)
	}
	f.checks++
	if n := f.checks; n <= len(f.job) {
		return pipeline.Progress{Status: pipeline.JobStatus(f.job[n-1])}, nil
	}
	return pipeline.Progress{Status: pipeline.JobSucceeded}, nil
}

func (f *fakes) Stop(ctx context.Context, _ pipeline.Slot, _ pipeline.Job) error {
	f.stops++
	return f.stop.Next(ctx)
}

func (f *fakes) Publish(ctx context.Context, alert pipeline.Alert) error {
	if err := f.publish.Next(ctx); err != nil {
		return err
	}
	f.alerts = append(f.alerts, alert)
	return nil
}
