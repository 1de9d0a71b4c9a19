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
	// Submit hands over a job and returns the ID that the third party gives it, without waiting for the
	// job to be done. Calls with the same IdempotencyKey must hand over one job: an attempt is repeated
	// when its answer was lost. An error is retried by Config.SubmitRetry, unless it is marked by
	// statechart.Permanent.
	Submit(ctx context.Context, job Job) (jobID string, err error)
}

// Job is what the third party is asked to do.
type Job struct {
	// IdempotencyKey is the same in all attempts to hand over one job, and in no other job.
	IdempotencyKey string
	Subject        string
	// CallbackURL is where the third party has to POST the result, see ReadCallback. It is a secret: who
	// has it can answer in the third party's place.
	CallbackURL string
	// Deadline is when the callback is no longer taken.
	Deadline time.Time
}

// Accepted is the result of submit.
type Accepted struct {
	JobID string `json:"job_id"`
}

func submit(provider Provider, callbacks Callbacks) statechart.Service[Context] {
	return statechart.ServiceFunc("submit", func(ctx context.Context, c Context, call statechart.Call) (Accepted, error) {
		if err := callbacks.Validate(); err != nil {
			return Accepted{}, statechart.Permanent(err) // The third party would have nowhere to call back.
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

// JobIDBytesMax is the longest ID of a third party's job.
const JobIDBytesMax = 128

// checkJobID reports what is wrong with the ID of a job, which has to be part of an alias.
func checkJobID(id string) error {
	refused := func(r rune) bool { return r <= ' ' || r > '~' }
	if id == "" || len(id) > JobIDBytesMax || strings.ContainsFunc(id, refused) {
		return fmt.Errorf("expected a job ID of 1 to %d printable ASCII characters without a space, got %.*q", JobIDBytesMax, JobIDBytesMax, id)
	}
	return nil
}

// Alias returns the alias of the instance that waits for the third party's job.
func Alias(jobID string) string { return ProviderName + "/" + jobID }
