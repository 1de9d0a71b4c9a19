// Package enrich asks a third party to enrich a subject, such as a company of which only the address of a
// page is known, and waits for its callback without anything running meanwhile.
//
// The third party is told an address for its callback that is made for this instance alone, cannot be
// guessed, and is good until the wait is over: see [Callbacks]. The ID that it gives the job becomes an
// alias of the instance, [Alias], so that its callback, and people, find the instance by it. The first
// callback counts; the gateway refuses all others.
//
// The wait is over 30 minutes after the ENRICH. The gateway takes no callback from then on, and the chart
// gives up a minute later: a callback that was taken in time is never late, whatever the queue needs.
//
// Every outcome is a final state of its own. A workflow that hands over its token with the ENRICH goes on
// with what was found when the third party succeeds; in all other cases its task fails, with an error by
// which the workflow can tell them apart.
package enrich

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Failed is the tag of the final states in which nothing was found.
const Failed = "failed"

// Retention is how long an instance is kept once it is over, and with it the alias by which repeated
// callbacks are told from unknown ones.
const Retention = 15 * 24 * time.Hour

// StartedBy names the event that makes an instance.
var StartedBy = []string{"ENRICH"}

// WaitEnrich is the name under which Step Functions tasks wait for an instance: the name of the task's state
// in enrich.asl.json.
const WaitEnrich = "Enrich"

// The errors with which a waiting task fails.
const (
	// ErrorFailed says that the third party has called back with a failure; the cause is its own text.
	ErrorFailed = "Enrich.Failed"
	// ErrorExpired says that no callback came in time.
	ErrorExpired = "Enrich.Expired"
	// ErrorNotAccepted says that the third party could not be reached, or would not take the job.
	ErrorNotAccepted = "Enrich.NotAccepted"
	// ErrorJobMixedUp says that the third party gave the job an ID that another instance waits under.
	ErrorJobMixedUp = "Enrich.JobMixedUp"
)

// Context is what an instance knows. It holds nothing by which a callback could be forged.
type Context struct {
	// Instance is the instance's own name, which the address of the callback contains.
	Instance  string `json:"instance"`
	Subject   string `json:"subject,omitempty"`
	Reference string `json:"reference,omitempty"`
	// Deadline is when callbacks are no longer taken, in whole seconds.
	Deadline time.Time `json:"deadline,omitzero"`
	// JobID is the third party's, empty until it has accepted the job.
	JobID string `json:"job_id,omitempty"`
	// Data is what the third party found, nil unless it succeeded.
	Data json.RawMessage `json:"data,omitempty"`
	// Cause is why there is no Data.
	Cause string `json:"cause,omitempty"`
}

// Output is what an instance ends with. What was found is in the context: an item has no room for it twice.
type Output struct {
	// Outcome is the final state.
	Outcome   string `json:"outcome"`
	Reference string `json:"reference,omitempty"`
	JobID     string `json:"job_id,omitempty"`
	Cause     string `json:"cause,omitempty"`
}

// Found is what a waiting task is told.
type Found struct {
	Reference string          `json:"reference,omitempty"`
	JobID     string          `json:"job_id"`
	Data      json.RawMessage `json:"data"`
}

type (
	state      = statechart.State[Context]
	on         = statechart.Transition[Context]
	after      = statechart.After[Context]
	invoke     = statechart.Invoke[Context]
	do         = []statechart.Action[Context]
	resolution = statechart.Resolution[Context]
)

// New returns the chart. It panics if the config is not valid, before the first event.
func New(provider Provider, callbacks Callbacks, config Config) *statechart.Chart[Context] {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		panic(err)
	}
	settled := []string{statechart.Settled}

	return statechart.Must(statechart.Definition[Context]{
		ID: "enrich", Version: 1, Initial: "new",
		Context: func(start statechart.Start) Context { return Context{Instance: start.Instance} },
		Payloads: statechart.Payloads{
			"ENRICH":    statechart.PayloadOf[Enrich](),
			"SUCCEEDED": statechart.PayloadOf[Succeeded](),
			"FAILED":    statechart.PayloadOf[Failure](),
			AliasTaken:  statechart.PayloadOf[TakenAlias](),
		},
		States: []state{
			{ID: "new", Tags: settled, Doc: "nothing was asked",
				On: []on{{Event: "ENRICH", Target: "submitting", Actions: do{keepRequest, setDeadline(config.Wait)}}}},

			{ID: "submitting", Doc: "the third party is being asked",
				Invoke: []invoke{{
					Service: submit(provider, callbacks), Timeout: config.SubmitTimeout, Retry: config.SubmitRetry,
					OnDone:  []on{{Target: "waiting", Actions: do{keepJobID}}},
					OnError: []on{{Target: "not_accepted", Actions: do{keepRefusal}}},
				}}},

			{ID: "waiting", Tags: settled, Doc: "waits for the callback of the third party; nothing runs",
				Entry: do{claimJobID},
				On: []on{
					{Event: "SUCCEEDED", Target: "succeeded", Actions: do{keepData}},
					{Event: "FAILED", Target: "failed", Actions: do{keepFailure}},
					{Event: AliasTaken, Target: "job_mixed_up", Actions: do{keepMixUp}},
				},
				After: []after{{ID: "expiry", At: expiry(config.Grace), Target: "expired", Actions: do{keepExpiry}}}},

			{ID: "succeeded", Type: statechart.Final, Output: output("succeeded"),
				Resolve: []resolution{{Name: WaitEnrich, Output: found}}},
			without("failed", ErrorFailed),
			without("expired", ErrorExpired),
			without("not_accepted", ErrorNotAccepted),
			without("job_mixed_up", ErrorJobMixedUp),
		},
	})
}

var (
	keepRequest = statechart.Assign("keepRequest", func(c *Context, e Enrich) { c.Subject, c.Reference = e.Subject, e.Reference })
	keepJobID   = statechart.Assign("keepJobID", func(c *Context, e Accepted) { c.JobID = e.JobID })
	keepRefusal = statechart.Assign("keepRefusal", func(c *Context, e statechart.ServiceError) { c.Cause = e.Message })
	keepData    = statechart.Assign("keepData", func(c *Context, e Succeeded) { c.Data = e.Data })
	keepFailure = statechart.Assign("keepFailure", func(c *Context, e Failure) { c.Cause = e.Error })
	keepExpiry  = statechart.Update("keepExpiry", func(c *Context) { c.Cause = "no callback by " + c.Deadline.Format(time.RFC3339) })
	keepMixUp   = statechart.Update("keepMixUp", func(c *Context) { c.Cause = "another instance waits for the job " + c.JobID })
	claimJobID  = statechart.Alias(func(c Context, _ statechart.Event) string { return Alias(c.JobID) })
)

// setDeadline starts the wait with the event, so that attempts to submit do not prolong it.
func setDeadline(wait time.Duration) statechart.Action[Context] {
	return statechart.Assign("setDeadline", func(c *Context, e statechart.Event) { c.Deadline = e.At.Add(wait).UTC().Truncate(time.Second) })
}

func expiry(grace time.Duration) func(Context, statechart.Event) time.Time {
	return func(c Context, _ statechart.Event) time.Time { return c.Deadline.Add(grace) }
}

// without returns a final state in which nothing was found: the task that waits fails with the error.
func without(outcome, taskError string) state {
	cause := func(c Context, _ statechart.Event) string { return c.Cause }
	return state{ID: outcome, Type: statechart.Final, Tags: []string{Failed}, Output: output(outcome),
		Resolve: []resolution{{Name: WaitEnrich, Error: taskError, Cause: cause}}}
}

func output(outcome string) func(Context, statechart.Event) any {
	return func(c Context, _ statechart.Event) any {
		return Output{Outcome: outcome, Reference: c.Reference, JobID: c.JobID, Cause: c.Cause}
	}
}

func found(c Context, _ statechart.Event) any {
	return Found{Reference: c.Reference, JobID: c.JobID, Data: c.Data}
}
