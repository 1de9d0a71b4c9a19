package enrich

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Provider is the third party.
type Provider interface {
	// Submit submits a job and returns the third party's ID for it, without waiting for the result. Calls with the same
	// IdempotencyKey must submit one job: an attempt is repeated if its response was lost. A failed attempt is retried
	// under Config.SubmitRetry, unless its error is marked with statechart.Permanent.
	Submit(ctx context.Context, job Job) (jobID string, err error)
}

// Job is a request to the third party.
type Job struct {
	// IdempotencyKey is the same for all attempts to submit one job. No other job has it.
	IdempotencyKey string
	Subject        string
	// CallbackURL is where the third party must POST the result: see ReadCallback. The URL is a secret: anyone with it can
	// send a result.
	CallbackURL string
	// Deadline is when callbacks are no longer accepted.
	Deadline time.Time
}

// Accepted is the result of submit.
type Accepted struct {
	JobID string `json:"job_id"`
}

func submit(provider Provider, callbacks Callbacks) statechart.Service[Context] {
	return statechart.ServiceFunc("submit", func(ctx context.Context, c Context, call statechart.Call) (Accepted, error) {
		if err := callbacks.Validate(); err != nil {
			return Accepted{}, statechart.Permanent(err) // the third party could not call back
		}
		id, err := provider.Submit(ctx, Job{
			IdempotencyKey: call.Key, Subject: c.Subject, Deadline: c.Deadline, CallbackURL: callbacks.Address(c.Instance, c.Deadline),
		})
		if err != nil {
			return Accepted{}, err
		}
		if err := checkJobID(id); err != nil {
			return Accepted{}, statechart.Permanent(err)
		}
		return Accepted{JobID: id}, nil
	})
}

// JobIDBytesMax is the maximum length of a job ID.
const JobIDBytesMax = 128

// checkJobID returns an error if the ID of a job cannot be part of an alias.
func checkJobID(id string) error {
	refused := func(r rune) bool { return r <= ' ' || r > '~' }
	if id == "" || len(id) > JobIDBytesMax || strings.ContainsFunc(id, refused) {
		return fmt.Errorf("expected a job ID of 1 to %d printable ASCII characters without a space, got %.*q", JobIDBytesMax, JobIDBytesMax, id)
	}
	return nil
}

// Alias returns the alias of the instance that waits for the job.
func Alias(jobID string) string { return ProviderName + "/" + jobID }
