package demo

import (
	"context"
	"log/slog"
	"sync"

	"github.com/settle-run/settle/machines/pipeline"
)

// Plant implements the services of pipeline. The data is ready at the second evaluation, and a job succeeds at the
// third check. The counts restart when the process restarts.
type Plant struct {
	Logger *slog.Logger

	mu          sync.Mutex
	evaluations map[pipeline.Slot]int
	checks      map[string]int
}

// Evaluate logs the rules' verdict.
func (p *Plant) Evaluate(ctx context.Context, slot pipeline.Slot) (pipeline.Readiness, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.evaluations == nil {
		p.evaluations = map[pipeline.Slot]int{}
	}
	p.evaluations[slot]++
	readiness := pipeline.Readiness{Ready: p.evaluations[slot] > 1}
	if !readiness.Ready {
		readiness.Reason = "the sensor has reported nothing yet"
	}
	p.Logger.InfoContext(ctx, "demo: rules would be checked against the data now", "pipeline", slot.Pipeline, "date", slot.Date, "ready", readiness.Ready)
	return readiness, nil
}

// Trigger logs the request and returns a job that does not exist.
func (p *Plant) Trigger(ctx context.Context, request pipeline.TriggerRequest) (pipeline.Job, error) {
	id := "demo-job-" + derived(request.IdempotencyKey)
	p.Logger.InfoContext(ctx, "demo: a job would be started now", "job", id, "pipeline", request.Slot.Pipeline, "attempt", request.Attempt)
	return pipeline.Job{ID: id}, nil
}

// Check logs the job's status.
func (p *Plant) Check(ctx context.Context, _ pipeline.Slot, job pipeline.Job) (pipeline.Progress, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.checks == nil {
		p.checks = map[string]int{}
	}
	p.checks[job.ID]++
	progress := pipeline.Progress{Status: "running"}
	if p.checks[job.ID] > 2 {
		progress.Status = pipeline.JobSucceeded
	}
	p.Logger.InfoContext(ctx, "demo: a job would be checked now", "job", job.ID, "status", progress.Status)
	return progress, nil
}

// Stop logs the job.
func (p *Plant) Stop(ctx context.Context, _ pipeline.Slot, job pipeline.Job) error {
	p.Logger.InfoContext(ctx, "demo: a job would be stopped now", "job", job.ID)
	return nil
}

// Publish logs the alert.
func (p *Plant) Publish(ctx context.Context, alert pipeline.Alert) error {
	p.Logger.InfoContext(ctx, "demo: an alert would be sent now", "alert", alert.Type, "pipeline", alert.Slot.Pipeline, "date", alert.Slot.Date)
	return nil
}

var (
	_ pipeline.Data   = (*Plant)(nil)
	_ pipeline.Jobs   = (*Plant)(nil)
	_ pipeline.Alerts = (*Plant)(nil)
)
