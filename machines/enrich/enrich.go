// Package enrich asks a third party to enrich a subject, such as a company known only by a web page, and waits for the
// callback. During the wait, nothing runs.
//
// The third party gets a callback address that is valid for one instance only. The address cannot be guessed, and is
// valid until the wait ends: see [Callbacks]. The third party's job ID becomes an alias of the instance, [Alias], so
// that the callback, and people, can find the instance. The first callback counts, and the gateway rejects all others.
//
// The wait ends 30 minutes after ENRICH. From then on the gateway accepts no callback. The chart gives up a minute
// later, so a callback that was accepted in time also arrives in time.
//
// Every outcome is a separate final state. A workflow that sends its token with ENRICH continues with the data when
// the third party succeeds. In all other cases its task fails, with a different error for each case.
package enrich

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Failed is the tag of the final states without data.
const Failed = "failed"

// Retention is how long a finished instance is kept. Its alias is kept with it, and distinguishes repeated callbacks
// from unknown ones.
const Retention = 15 * 24 * time.Hour

// StartedBy names the event that starts an instance.
var StartedBy = []string{"ENRICH"}

// WaitEnrich is the name under which Step Functions tasks wait for an instance. It is also the name of the task's
// state in enrich.asl.json.
const WaitEnrich = "Enrich"

// A waiting task fails with one of these errors.
const (
	// ErrorFailed means that the third party reported a failure. The cause is its text.
	ErrorFailed = "Enrich.Failed"
	// ErrorExpired means that no callback arrived in time.
	ErrorExpired = "Enrich.Expired"
	// ErrorNotAccepted means that the third party could not be reached, or rejected the job.
	ErrorNotAccepted = "Enrich.NotAccepted"
	// ErrorJobMixedUp means that the third party returned a job ID that is already the alias of another instance.
	ErrorJobMixedUp = "Enrich.JobMixedUp"
)

// Context is the data of an instance. It contains nothing that would help to forge a callback.
type Context struct {
	// Instance is the instance's name. It is part of the callback address.
	Instance  string `json:"instance"`
	Subject   string `json:"subject,omitempty"`
	Reference string `json:"reference,omitempty"`
	// Deadline is the end of the wait, in whole seconds.
	Deadline time.Time `json:"deadline,omitzero"`
	// JobID is the third party's ID for the job. It is empty until the third party has accepted the job.
	JobID string `json:"job_id,omitempty"`
	// Data is the third party's result. It is nil unless the third party succeeded.
	Data json.RawMessage `json:"data,omitempty"`
	// Cause explains why there is no Data.
	Cause string `json:"cause,omitempty"`
}

// Output is the output of an instance. It does not repeat the data, which is in the context, because an item has no
// room for two copies.
type Output struct {
	// Outcome is the final state.
	Outcome   string `json:"outcome"`
	Reference string `json:"reference,omitempty"`
	JobID     string `json:"job_id,omitempty"`
	Cause     string `json:"cause,omitempty"`
}

// Found is the output for a waiting task.
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

// New returns the chart. If the config is not valid, New panics, so the error appears before the first event.
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
			{ID: "new", Tags: settled, Doc: "no request yet",
				On: []on{{Event: "ENRICH", Target: "submitting", Actions: do{keepRequest, setDeadline(config.Wait)}}}},

			{ID: "submitting", Doc: "calls the third party",
				Invoke: []invoke{{
					Service: submit(provider, callbacks), Timeout: config.SubmitTimeout, Retry: config.SubmitRetry,
					OnDone:  []on{{Target: "waiting", Actions: do{keepJobID}}},
					OnError: []on{{Target: "not_accepted", Actions: do{keepRefusal}}},
				}}},

			{ID: "waiting", Tags: settled, Doc: "waits for the third party's callback",
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
	keepMixUp   = statechart.Update("keepMixUp", func(c *Context) { c.Cause = "another instance is waiting for the job " + c.JobID })
	claimJobID  = statechart.Alias(func(c Context, _ statechart.Event) string { return Alias(c.JobID) })
)

// setDeadline starts the wait at the event, so that attempts to submit do not extend the wait.
func setDeadline(wait time.Duration) statechart.Action[Context] {
	return statechart.Assign("setDeadline", func(c *Context, e statechart.Event) { c.Deadline = e.At.Add(wait).UTC().Truncate(time.Second) })
}

func expiry(grace time.Duration) func(Context, statechart.Event) time.Time {
	return func(c Context, _ statechart.Event) time.Time { return c.Deadline.Add(grace) }
}

// without returns a final state without data. When the chart enters this state, the waiting task fails with the error.
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
