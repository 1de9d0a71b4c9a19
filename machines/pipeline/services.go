package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Services are what the chart calls while it settles. All are required.
//
// A call is given up after Config.ServiceTimeout and repeated, unless its error is marked by
// statechart.Permanent: by Config.TriggerRetry if it starts a job, else by Config.ServiceRetry.
type Services struct {
	Data   Data
	Jobs   Jobs
	Alerts Alerts
}

// Data knows whether a slot's data is there.
type Data interface {
	// Evaluate checks the pipeline's rules against the data. Data that is not ready yet is no
	// error.
	Evaluate(ctx context.Context, slot Slot) (Readiness, error)
}

// Readiness is what came of an evaluation.
type Readiness struct {
	Ready bool `json:"ready"`
	// Reason says what is missing, for people.
	Reason string `json:"reason,omitempty"`
}

// Jobs starts jobs and follows them.
type Jobs interface {
	// Trigger starts the slot's job and returns without waiting for it. Two calls with the same
	// IdempotencyKey must start one job and return the same.
	Trigger(ctx context.Context, request TriggerRequest) (Job, error)
	// Check tells how the job is.
	Check(ctx context.Context, slot Slot, job Job) (Progress, error)
	// Stop stops the job. A job that is over already is no error.
	Stop(ctx context.Context, slot Slot, job Job) error
}

// TriggerRequest asks for a job.
type TriggerRequest struct {
	// IdempotencyKey is the same in all attempts to start the job of one run, and in no other
	// run.
	IdempotencyKey string
	Slot           Slot
	// Attempt counts the attempts of this run, from 1.
	Attempt int
}

// Job is a job that was started.
type Job struct {
	// ID is the name that its own system gave it, such as the run ID of a Glue job.
	ID string `json:"id,omitempty"`
	// Metadata is what Check needs beside it.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// JobStatus tells how a job is.
type JobStatus string

// The ways in which a job ends. Any other status means that it goes on.
const (
	JobSucceeded JobStatus = "success"
	JobFailed    JobStatus = "fail"
	JobTimedOut  JobStatus = "timeout"
)

// Progress is what came of a look at a job.
type Progress struct {
	Status JobStatus `json:"status,omitempty"`
}

// Alerts tells people, or whoever listens, what they should know.
type Alerts interface {
	// Publish sends an alert. Calls with the same IdempotencyKey are one alert.
	Publish(ctx context.Context, alert Alert) error
}

// AlertType says what an alert is about.
type AlertType string

// The alerts.
const (
	// ValidationExhausted is sent when the data has not come within the window.
	ValidationExhausted AlertType = "VALIDATION_EXHAUSTED"
	// SLAWarning is sent when work that has not ended is about to be late.
	SLAWarning AlertType = "SLA_WARNING"
	// SLABreach is sent when it is late.
	SLABreach AlertType = "SLA_BREACH"
	// SLAMet is sent when it has succeeded before the warning.
	SLAMet AlertType = "SLA_MET"
)

// Alert is a thing to tell.
type Alert struct {
	// IdempotencyKey is the same in all attempts to send one alert, and in no other.
	IdempotencyKey string
	Type           AlertType
	Slot           Slot
	// WarningAt and BreachAt are zero if no service level was agreed on.
	WarningAt time.Time
	BreachAt  time.Time
}

func evaluate(data Data) statechart.Service[Context] {
	return statechart.ServiceFunc("evaluate", func(ctx context.Context, c Context, _ statechart.Call) (Readiness, error) {
		return data.Evaluate(ctx, c.Slot)
	})
}

func trigger(jobs Jobs) statechart.Service[Context] {
	return statechart.ServiceFunc("trigger", func(ctx context.Context, c Context, _ statechart.Call) (Job, error) {
		job, err := jobs.Trigger(ctx, TriggerRequest{IdempotencyKey: c.Run + "/trigger", Slot: c.Slot, Attempt: c.TriggerAttempts})
		if err == nil && job.ID == "" {
			err = errors.New("expected the ID of the job that was started, got an empty one")
		}
		return job, err
	})
}

func check(jobs Jobs) statechart.Service[Context] {
	return statechart.ServiceFunc("check", func(ctx context.Context, c Context, _ statechart.Call) (Progress, error) {
		return jobs.Check(ctx, c.Slot, c.Job)
	})
}

func stop(jobs Jobs) statechart.Service[Context] {
	return statechart.ServiceFunc("stop", func(ctx context.Context, c Context, _ statechart.Call) (struct{}, error) {
		return struct{}{}, jobs.Stop(ctx, c.Slot, c.Job)
	})
}

func publish(alerts Alerts, alert AlertType) statechart.Service[Context] {
	return statechart.ServiceFunc("publish "+string(alert), func(ctx context.Context, c Context, call statechart.Call) (struct{}, error) {
		return struct{}{}, alerts.Publish(ctx, Alert{IdempotencyKey: call.Key, Type: alert, Slot: c.Slot, WarningAt: c.WarningAt, BreachAt: c.BreachAt})
	})
}
