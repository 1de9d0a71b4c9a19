// Package pipeline runs a data pipeline for one date: it waits until the data is there, starts the
// job, follows it to its end, and meanwhile watches over the time by which that should have been.
//
// # Two regions
//
// The region run does the work, the region sla watches the clock. An alert is sent at its time
// whatever the work is at, and one that cannot be sent changes nothing but a count; its attempts
// put off the next step of the work by less than a minute, with the defaults. When the work is over, the region sla leaves the state that its timer belongs to,
// and the timer is gone with it; nobody has to remember what was scheduled. The instance is done
// when both regions are.
//
// # What holds
//
// Between two evaluations, two looks at the job and two attempts to start it, the instance waits in
// a settled state: nothing runs, and every event comes in. The waits between attempts to start the
// job are therefore not those of the service's own retry policy, which would keep the instance's
// queue locked for up to 4 minutes at a time, and with it a CANCEL.
//
// All attempts to start the job have one idempotency key, so an attempt whose answer was lost does
// not become a second job.
//
// The verdict on the service level is decided once, by the clock, when the work ends. Only success
// can meet it.
//
// Every outcome is a final state of its own in the region run, every verdict one in the region sla.
package pipeline

import (
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Failed is the tag of the outcomes that mean failure.
const Failed = "failed"

// Retention is how long an instance is kept once it is done. A START that comes later than that
// runs the pipeline again.
const Retention = 15 * 24 * time.Hour

// StartedBy names the events that may make an instance.
var StartedBy = []string{"START", "settle.wait"}

// WaitPipeline is the name under which Step Functions tasks wait for the work to end. They are
// answered with the final state of the region run as the outcome, and Output beside it.
const WaitPipeline = "Pipeline"

// Context is what an instance knows.
type Context struct {
	// Run tells this run from others of the same name.
	Run string `json:"run"`
	Slot
	// Config is that of START, with the defaults of the time of START.
	Config RunConfig `json:"config"`
	// WindowEndsAt is when data that is not there is no longer waited for.
	WindowEndsAt time.Time `json:"window_ends_at,omitzero"`
	// Evaluations counts the evaluations that came to an end.
	Evaluations int `json:"evaluations"`
	// Reason is why the data was not ready when it was evaluated last.
	Reason string `json:"reason,omitempty"`
	// TriggerAttempts counts the attempts to start the job.
	// Invariant: TriggerAttempts <= max(Config.TriggerRetry.Attempts, 1).
	TriggerAttempts int `json:"trigger_attempts"`
	Job             Job `json:"job,omitzero"`
	// JobTimeIsUpAt is when the job is no longer waited for.
	JobTimeIsUpAt time.Time `json:"job_time_is_up_at,omitzero"`
	// Checks counts the looks at the job that came to an end.
	Checks int `json:"checks"`
	// Failure is why a service failed for good, empty if none has.
	Failure string `json:"failure,omitempty"`

	// WarningAt and BreachAt are zero if no service level was agreed on.
	WarningAt time.Time `json:"warning_at,omitzero"`
	BreachAt  time.Time `json:"breach_at,omitzero"`
	// Reached is the alert whose time has come last, empty if none has.
	Reached AlertType `json:"reached,omitempty"`
	// AlertsLost counts the alerts that could not be sent.
	AlertsLost int `json:"alerts_lost"`

	// Outcome and SLA are empty until the work is over, see Output.
	Outcome string `json:"outcome,omitempty"`
	SLA     string `json:"sla,omitempty"`
}

// Output is what a workflow is told, and what an instance ends with.
type Output struct {
	// Outcome is the final state of the region run.
	Outcome string `json:"outcome"`
	// SLA is the final state of the region sla: "none", "met", "warned", "breached" or "called_off".
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

// New returns the chart. It panics if the config is not valid, before the first event.
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

// run is the region that does the work.
func run(services Services, config Config) state {
	settled := []string{statechart.Settled}

	return state{ID: "run", Initial: "new", States: []state{
		{ID: "new", Tags: settled, Doc: "nothing was asked for",
			On: []on{{Event: "START", Target: "active", Actions: do{keepStart(config)}}}},

		{ID: "active", Initial: "evaluating",
			On: []on{{Event: "CANCEL", Target: "cancelled"}},
			States: []state{
				{ID: "evaluating", Doc: "the rules are being checked against the data",
					Invoke: []invoke{{
						Service: evaluate(services.Data), Timeout: config.ServiceTimeout, Retry: config.ServiceRetry,
						OnDone: []on{
							{Target: "triggering", Guard: ready, Actions: do{keepReadiness}},
							{Target: "not_ready", Actions: do{keepReadiness}},
						},
						OnError: []on{{Target: "#infra_failure", Actions: do{keepFailure}}},
					}}},
				{ID: "not_ready", Tags: settled, Doc: "waits for the next evaluation, or for the news that the data has changed",
					On: []on{{Event: "DATA_CHANGED", Target: "evaluating"}},
					After: []after{
						{ID: "evaluation", At: nextEvaluation, Target: "evaluating", Guard: windowOpen},
						{ID: "evaluation", Target: "exhausting"},
					}},
				{ID: "exhausting", Doc: "it is being told that the data did not come in time",
					Invoke: []invoke{{
						Service: publish(services.Alerts, ValidationExhausted), Timeout: config.ServiceTimeout, Retry: config.ServiceRetry,
						OnDone:  []on{{Target: "#validation_exhausted"}},
						OnError: []on{{Target: "#validation_exhausted", Actions: do{countLost}}},
					}}},

				{ID: "triggering", Entry: do{countTrigger}, Doc: "the job is being started",
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

				{ID: "job_running", Tags: settled, Doc: "waits for the next look at the job, or for the news that it has changed",
					On: []on{
						{Event: "JOB_CHANGED", Target: "checking"},
						{Event: "CANCEL", Target: "stopping"},
					},
					After: []after{
						{ID: "check", At: nextCheck, Target: "checking", Guard: jobHasTime},
						{ID: "check", Target: "#job_timed_out"},
					}},
				{ID: "checking", Doc: "the job is being looked at",
					Invoke: []invoke{{
						Service: check(services.Jobs), Timeout: config.ServiceTimeout, Retry: config.ServiceRetry,
						OnDone: []on{
							{Target: "#succeeded", Guard: jobIs(JobSucceeded), Actions: do{countCheck}},
							{Target: "#job_failed", Guard: jobIs(JobFailed), Actions: do{countCheck}},
							{Target: "#job_timed_out", Guard: jobIs(JobTimedOut), Actions: do{countCheck}},
							{Target: "job_running", Actions: do{countCheck}}, // also for a word that is new
						},
						OnError: []on{{Target: "#infra_failure", Actions: do{keepFailure}}},
					}}},
				{ID: "stopping", Doc: "the job is being stopped",
					Invoke: []invoke{{
						Service: stop(services.Jobs), Timeout: config.ServiceTimeout, Retry: config.ServiceRetry,
						OnDone:  []on{{Target: "#cancelled"}},
						OnError: []on{{Target: "#infra_failure", Actions: do{keepFailure}}},
					}}},
			}},

		outcome("succeeded"),
		outcome("validation_exhausted", Failed), // the data did not come within the window
		outcome("trigger_failed", Failed),       // the job could not be started
		outcome("job_failed", Failed),
		outcome("job_timed_out", Failed),
		outcome("infra_failure", Failed), // what the work needs could not be reached
		outcome("cancelled"),
	}}
}

// sla is the region that watches the clock.
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
		{ID: "off", Tags: settled, Doc: "nothing was asked for",
			On: []on{
				{Event: "START", Target: "watching", Guard: agreedOn},
				{Event: "START", Target: "none"},
			}},

		{ID: "watching", Initial: "on_time",
			Always: []on{{Target: "breaching", Guard: late}},
			After: []after{{ID: "breach", At: func(c Context, _ statechart.Event) time.Time { return c.BreachAt },
				Target: "breaching", Guard: late}},
			States: []state{
				{ID: "on_time", Tags: settled, Doc: "waits for the time of the warning, or for the end of the work",
					Always: []on{
						{Target: "#meeting", Guard: verdict("met")},
						{Target: "#called_off", Guard: verdict("called_off")},
					},
					After: []after{{ID: "warning", At: func(c Context, _ statechart.Event) time.Time { return c.WarningAt }, Target: "warning"}}},
				{ID: "warning", Entry: do{reach(SLAWarning)}, Doc: "the warning is being sent", Invoke: sending(SLAWarning, "at_risk")},
				{ID: "at_risk", Tags: settled, Doc: "waits for the time of the breach, or for the end of the work",
					Always: []on{
						{Target: "#warned", Guard: verdict("warned")},
						{Target: "#called_off", Guard: verdict("called_off")},
					}},
			}},
		{ID: "breaching", Entry: do{reach(SLABreach)}, Doc: "the breach is being told", Invoke: sending(SLABreach, "breached")},
		{ID: "meeting", Doc: "it is being told that all was in time", Invoke: sending(SLAMet, "met")},

		{ID: "none", Type: statechart.Final},       // nothing was agreed on
		{ID: "met", Type: statechart.Final},        // success before the warning
		{ID: "warned", Type: statechart.Final},     // success after the warning, before the breach
		{ID: "breached", Type: statechart.Final},   // still at work at the deadline
		{ID: "called_off", Type: statechart.Final}, // another end before the breach
	}}
}

// outcome returns a final state of the region run, which answers those who wait.
func outcome(id string, tags ...string) state {
	return state{ID: id, Type: statechart.Final, Tags: tags, Entry: do{conclude(id)},
		Resolve: []resolution{{Name: WaitPipeline, Output: func(c Context, _ statechart.Event) any { return c.output() }}}}
}

// output tells how far the work has come.
func (c Context) output() Output {
	return Output{
		Outcome: c.Outcome, SLA: c.SLA, Evaluations: c.Evaluations, TriggerAttempts: c.TriggerAttempts, JobID: c.Job.ID,
		Checks: c.Checks, Reason: c.Reason, Failure: c.Failure, AlertsLost: c.AlertsLost,
	}
}
