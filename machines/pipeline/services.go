package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Services are the services that the chart calls. All are required.
//
// A call is cancelled after Config.ServiceTimeout. A failed call is retried, unless its error is marked with
// statechart.Permanent. The retry policy is Config.TriggerRetry for starting a job, otherwise Config.ServiceRetry.
type Services struct {
	Data   Data
	Jobs   Jobs
	Alerts Alerts
}

// Data evaluates whether a slot's data is ready.
type Data interface {
	// Evaluate checks the pipeline's rules against the data. Data that is not ready yet is not an error.
	Evaluate(ctx context.Context, slot Slot) (Readiness, error)
}

// Readiness is the result of an evaluation.
type Readiness struct {
	Ready bool `json:"ready"`
	// Reason says what is missing, for people.
	Reason string `json:"reason,omitempty"`
}

// Jobs starts, checks and stops jobs.
type Jobs interface {
	// Trigger starts the slot's job and returns without waiting for it. Two calls with the same IdempotencyKey must
	// start one job, and both return it.
	Trigger(ctx context.Context, request TriggerRequest) (Job, error)
	// Check returns the job's status.
	Check(ctx context.Context, slot Slot, job Job) (Progress, error)
	// Stop stops the job. A job that has already ended is not an error.
	Stop(ctx context.Context, slot Slot, job Job) error
}

// TriggerRequest is a request to start a job.
type TriggerRequest struct {
	// IdempotencyKey is the same for all attempts to start the job of one run. No other run has it.
	IdempotencyKey string
	Slot           Slot
	// Attempt counts the attempts of this run, from 1.
	Attempt int
}

// Job is a started job.
type Job struct {
	// ID is the job's ID in its system, such as the run ID of a Glue job.
	ID string `json:"id,omitempty"`
	// Metadata is additional data for Check.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// JobStatus is the status of a job.
type JobStatus string

// The final statuses of a job. Any other status means that the job is running.
const (
	JobSucceeded JobStatus = "success"
	JobFailed    JobStatus = "fail"
	JobTimedOut  JobStatus = "timeout"
)

// Progress is the result of a check.
type Progress struct {
	Status JobStatus `json:"status,omitempty"`
}

// Alerts publishes alerts to people or systems.
type Alerts interface {
	// Publish sends an alert. Calls with the same IdempotencyKey are attempts to send one alert.
	Publish(ctx context.Context, alert Alert) error
}

// AlertType is the type of an alert.
type AlertType string

// The alerts.
const (
	// ValidationExhausted is sent when the data did not arrive within the window.
	ValidationExhausted AlertType = "VALIDATION_EXHAUSTED"
	// SLAWarning is sent when the work has not ended and the deadline is near.
	SLAWarning AlertType = "SLA_WARNING"
	// SLABreach is sent when the deadline has passed.
	SLABreach AlertType = "SLA_BREACH"
	// SLAMet is sent when the work succeeded before the warning.
	SLAMet AlertType = "SLA_MET"
)

// Alert is a message to people or systems.
type Alert struct {
	// IdempotencyKey is the same for all attempts to send one alert. No other alert has it.
	IdempotencyKey string
	Type           AlertType
	Slot           Slot
	// WarningAt and BreachAt are zero for a run without a service level.
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
			err = errors.New("expected the ID of the started job, got an empty one")
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
