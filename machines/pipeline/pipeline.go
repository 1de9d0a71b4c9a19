// Package pipeline runs a data pipeline for one date: it waits for the data, starts the job, and follows the job until
// the job ends. It also watches the deadline.
//
// # Two regions
//
// The region `run` does the work, and the region `sla` watches the deadline. An alert is sent when it is due,
// regardless of the state of the work. An alert that cannot be sent only increments a count. With the defaults, the
// attempts to send it delay the next step of the work by less than a minute. When the work ends, the region `sla`
// leaves its state, which also cancels the state's timer. The instance is done when both regions are done.
//
// # Properties
//
// Between evaluations, between checks of the job, and between attempts to start the job, the instance waits in a
// settled state: nothing runs, and each event is taken at once. The chart itself repeats failed attempts to start the job. A
// retry policy of the service would delay the instance's next event, such as CANCEL, by up to 4 minutes at a time.
//
// All attempts to start the job have one idempotency key, so an attempt with a lost response starts no second job.
//
// The verdict on the service level is decided once, by the clock, when the work ends. Only success can meet the level.
//
// Every outcome is a separate final state in the region `run`. Every verdict is a separate final state in the region
// `sla`.
package pipeline

import (
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Failed is the tag of the outcomes that mean failure.
const Failed = "failed"

// Retention is how long a finished instance is kept. A later START runs the pipeline again.
const Retention = 15 * 24 * time.Hour

// StartedBy names the events that may start an instance.
var StartedBy = []string{"START", "settle.wait"}

// WaitPipeline is the name under which Step Functions tasks wait for the end of the work. The task's result has
// the final state of the region `run` as its outcome, and an Output.
const WaitPipeline = "Pipeline"

// Context is the data of an instance.
type Context struct {
	// Run distinguishes this run from others with the same name.
	Run string `json:"run"`
	Slot
	// Config is START's configuration, with the defaults at that time.
	Config RunConfig `json:"config"`
	// WindowEndsAt is when the run stops waiting for the data.
	WindowEndsAt time.Time `json:"window_ends_at,omitzero"`
	// Evaluations counts the completed evaluations.
	Evaluations int `json:"evaluations"`
	// Reason is why the data was not ready at the last evaluation.
	Reason string `json:"reason,omitempty"`
	// TriggerAttempts counts the attempts to start the job.
	// Invariant: TriggerAttempts <= max(Config.TriggerRetry.Attempts, 1).
	TriggerAttempts int `json:"trigger_attempts"`
	Job             Job `json:"job,omitzero"`
	// JobTimeIsUpAt is when the run stops waiting for the job.
	JobTimeIsUpAt time.Time `json:"job_time_is_up_at,omitzero"`
	// Checks counts the completed checks of the job.
	Checks int `json:"checks"`
	// Failure is the cause of a permanent failure of a service, or empty.
	Failure string `json:"failure,omitempty"`

	// WarningAt and BreachAt are zero for a run without a service level.
	WarningAt time.Time `json:"warning_at,omitzero"`
	BreachAt  time.Time `json:"breach_at,omitzero"`
	// Reached is the last alert that became due; empty before the first.
	Reached AlertType `json:"reached,omitempty"`
	// AlertsLost counts the alerts that could not be sent.
	AlertsLost int `json:"alerts_lost"`

	// Outcome and SLA are empty until the work has ended. See Output.
	Outcome string `json:"outcome,omitempty"`
	SLA     string `json:"sla,omitempty"`
}

// Output is the output of an instance. The workflows that wait for the instance receive the output too.
type Output struct {
	// Outcome is the final state of the region `run`.
	Outcome string `json:"outcome"`
	// SLA is the final state of the region `sla`: "none", "met", "warned", "breached" or "called_off".
	SLA             string `json:"sla"`
	Evaluations     int    `json:"evaluations"`
	TriggerAttempts int    `json:"trigger_attempts"`
	JobID           string `json:"job_id,omitempty"`
	Checks          int    `json:"checks"`
	Reason          string `json:"reason,omitempty"`
	Failure         string `json:"failure,omitempty"`
	AlertsLost      int    `json:"alerts_lost,omitempty"`
}

type (
	state  = statechart.State[Context]
	on     = statechart.Transition[Context]
	after  = statechart.After[Context]
	invoke = statechart.Invoke[Context]
	do     = []statechart.Action[Context]

	resolution = statechart.Resolution[Context]
)

// New returns the chart. If the config is not valid, New panics, so the error appears before the first event.
func New(services Services, config Config) *statechart.Chart[Context] {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		panic(err)
	}
	return statechart.Must(statechart.Definition[Context]{
		ID: "pipeline", Version: 1, Parallel: true,
		Context: func(start statechart.Start) Context {
			return Context{Run: fmt.Sprintf("%s/%d", start.Instance, start.At.UnixMilli())}
		},
		Payloads: statechart.Payloads{
			"START":        statechart.PayloadOf[Start](),
			"CANCEL":       statechart.NoPayload(),
			"DATA_CHANGED": statechart.NoPayload(),
			"JOB_CHANGED":  statechart.NoPayload(),
		},
		Output: func(c Context, _ statechart.Event) any { return c.output() },
		States: []state{run(services, config), sla(services, config)},
	})
}

// run returns the region that does the work.
func run(services Services, config Config) state {
	settled := []string{statechart.Settled}

	return state{ID: "run", Initial: "new", States: []state{
		{ID: "new", Tags: settled, Doc: "no request yet",
			On: []on{{Event: "START", Target: "active", Actions: do{keepStart(config)}}}},

		{ID: "active", Initial: "evaluating",
			On: []on{{Event: "CANCEL", Target: "cancelled"}},
			States: []state{
				{ID: "evaluating", Doc: "checks the rules against the data",
					Invoke: []invoke{{
						Service: evaluate(services.Data), Timeout: config.ServiceTimeout, Retry: config.ServiceRetry,
						OnDone: []on{
							{Target: "triggering", Guard: ready, Actions: do{keepReadiness}},
							{Target: "not_ready", Actions: do{keepReadiness}},
						},
						OnError: []on{{Target: "#infra_failure", Actions: do{keepFailure}}},
					}}},
				{ID: "not_ready", Tags: settled, Doc: "waits for the next evaluation, or for DATA_CHANGED",
					On: []on{{Event: "DATA_CHANGED", Target: "evaluating"}},
					After: []after{
						{ID: "evaluation", At: nextEvaluation, Target: "evaluating", Guard: windowOpen},
						{ID: "evaluation", Target: "exhausting"},
					}},
				{ID: "exhausting", Doc: "sends the alert that the data is late",
					Invoke: []invoke{{
						Service: publish(services.Alerts, ValidationExhausted), Timeout: config.ServiceTimeout, Retry: config.ServiceRetry,
						OnDone:  []on{{Target: "#validation_exhausted"}},
						OnError: []on{{Target: "#validation_exhausted", Actions: do{countLost}}},
					}}},

				{ID: "triggering", Entry: do{countTrigger}, Doc: "starts the job",
					Invoke: []invoke{{
						Service: trigger(services.Jobs), Timeout: config.ServiceTimeout,
						OnDone: []on{{Target: "job_running", Actions: do{keepJob}}},
						OnError: []on{
							{Target: "backing_off", Guard: attemptsLeft(config.TriggerRetry)},
							{Target: "#trigger_failed", Actions: do{keepFailure}},
						},
					}}},
				{ID: "backing_off", Tags: settled, Doc: "waits for the next attempt to start the job",
					After: []after{{ID: "backoff", DelayFunc: backoff(config.TriggerRetry), Target: "triggering"}}},

				{ID: "job_running", Tags: settled, Doc: "waits for the next check of the job, or for JOB_CHANGED",
					On: []on{
						{Event: "JOB_CHANGED", Target: "checking"},
						{Event: "CANCEL", Target: "stopping"},
					},
					After: []after{
						{ID: "check", At: nextCheck, Target: "checking", Guard: jobHasTime},
						{ID: "check", Target: "#job_timed_out"},
					}},
				{ID: "checking", Doc: "checks the job",
					Invoke: []invoke{{
						Service: check(services.Jobs), Timeout: config.ServiceTimeout, Retry: config.ServiceRetry,
						OnDone: []on{
							{Target: "#succeeded", Guard: jobIs(JobSucceeded), Actions: do{countCheck}},
							{Target: "#job_failed", Guard: jobIs(JobFailed), Actions: do{countCheck}},
							{Target: "#job_timed_out", Guard: jobIs(JobTimedOut), Actions: do{countCheck}},
							{Target: "job_running", Actions: do{countCheck}}, // also for an unknown status
						},
						OnError: []on{{Target: "#infra_failure", Actions: do{keepFailure}}},
					}}},
				{ID: "stopping", Doc: "stops the job",
					Invoke: []invoke{{
						Service: stop(services.Jobs), Timeout: config.ServiceTimeout, Retry: config.ServiceRetry,
						OnDone:  []on{{Target: "#cancelled"}},
						OnError: []on{{Target: "#infra_failure", Actions: do{keepFailure}}},
					}}},
			}},

		outcome("succeeded"),
		outcome("validation_exhausted", Failed), // the data did not arrive within the window
		outcome("trigger_failed", Failed),       // the job could not be started
		outcome("job_failed", Failed),
		outcome("job_timed_out", Failed),
		outcome("infra_failure", Failed), // a service was unavailable
		outcome("cancelled"),
	}}
}

// sla returns the region that watches the deadline.
func sla(services Services, config Config) state {
	settled := []string{statechart.Settled}
	sending := func(alert AlertType, next string) []invoke {
		return []invoke{{
			Service: publish(services.Alerts, alert), Timeout: config.ServiceTimeout, Retry: config.ServiceRetry,
			OnDone:  []on{{Target: next}},
			OnError: []on{{Target: next, Actions: do{countLost}}},
		}}
	}

	return state{ID: "sla", Initial: "off", States: []state{
		{ID: "off", Tags: settled, Doc: "no request yet",
			On: []on{
				{Event: "START", Target: "watching", Guard: agreedOn},
				{Event: "START", Target: "none"},
			}},

		{ID: "watching", Initial: "on_time",
			Always: []on{{Target: "breaching", Guard: late}},
			After: []after{{ID: "breach", At: func(c Context, _ statechart.Event) time.Time { return c.BreachAt },
				Target: "breaching", Guard: late}},
			States: []state{
				{ID: "on_time", Tags: settled, Doc: "waits until the warning is due, or the work ends",
					Always: []on{
						{Target: "#meeting", Guard: verdict("met")},
						{Target: "#called_off", Guard: verdict("called_off")},
					},
					After: []after{{ID: "warning", At: func(c Context, _ statechart.Event) time.Time { return c.WarningAt }, Target: "warning"}}},
				{ID: "warning", Entry: do{reach(SLAWarning)}, Doc: "sends the warning", Invoke: sending(SLAWarning, "at_risk")},
				{ID: "at_risk", Tags: settled, Doc: "waits until the breach is due, or the work ends",
					Always: []on{
						{Target: "#warned", Guard: verdict("warned")},
						{Target: "#called_off", Guard: verdict("called_off")},
					}},
			}},
		{ID: "breaching", Entry: do{reach(SLABreach)}, Doc: "sends the alert of the breach", Invoke: sending(SLABreach, "breached")},
		{ID: "meeting", Doc: "sends the alert of success in time", Invoke: sending(SLAMet, "met")},

		{ID: "none", Type: statechart.Final},       // no service level
		{ID: "met", Type: statechart.Final},        // success before the warning
		{ID: "warned", Type: statechart.Final},     // success after the warning, before the breach
		{ID: "breached", Type: statechart.Final},   // the work has not ended at the deadline
		{ID: "called_off", Type: statechart.Final}, // the work ended without success before the breach
	}}
}

// outcome returns a final state of the region run, which answers the waiting tasks.
func outcome(id string, tags ...string) state {
	return state{ID: id, Type: statechart.Final, Tags: tags, Entry: do{conclude(id)},
		Resolve: []resolution{{Name: WaitPipeline, Output: func(c Context, _ statechart.Event) any { return c.output() }}}}
}

// output returns the instance's output.
func (c Context) output() Output {
	return Output{
		Outcome: c.Outcome, SLA: c.SLA, Evaluations: c.Evaluations, TriggerAttempts: c.TriggerAttempts, JobID: c.Job.ID,
		Checks: c.Checks, Reason: c.Reason, Failure: c.Failure, AlertsLost: c.AlertsLost,
	}
}
