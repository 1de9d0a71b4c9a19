// Package job follows a GitHub workflow job from its first webhook to its conclusion, and launches a self-hosted
// runner for it.
//
// A runner is launched when a job with all of [Config].Labels is queued. Another runner is launched if none picks up
// the job in time, or on RELAUNCH. A job with other labels gets no runner. GitHub may deliver webhooks late, twice and
// in any order, so a job only moves forward: waiting, queued, in progress, completed. Webhooks about an earlier phase
// are ignored.
//
// Every outcome is a separate final state, named after GitHub's conclusion. The chart adds four names: launch_failed,
// not_picked_up, overdue, and other for a conclusion that the chart does not know. Failures have the tag [Failed]. Once
// a job is given up, later webhooks do not change its outcome.
package job

import (
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Failed is the tag of the final states that mean failure: the job failed, got no runner, or took too long.
const Failed = "failed"

// Retention is how long an instance is kept after its job ended. A later webhook starts a new instance.
const Retention = 15 * 24 * time.Hour

// StartedBy names the events that may start an instance. The first event may be any webhook, or may come from a
// workflow that waits for the job.
var StartedBy = []string{"waiting", "queued", "in_progress", "completed", "settle.wait"}

// Context is the data of an instance.
type Context struct {
	// Job is the job according to the most advanced webhook.
	Job WorkflowJob `json:"job"`
	// Launches counts the runners launched for the job. Invariant: Launches <= Config.LaunchesMax.
	Launches int `json:"launches"`
	// Runner is the last runner launched. GitHub may assign the job to another runner: see Job.RunnerName.
	Runner Runner `json:"runner,omitzero"`
}

// Output is the output of an instance.
type Output struct {
	// Outcome is the final state: the conclusion, or "other", "launch_failed",
	// "not_picked_up" or "overdue".
	Outcome string `json:"outcome"`
	// Conclusion is GitHub's conclusion; empty if the job was given up before it completed.
	Conclusion string `json:"conclusion,omitempty"`
	Launches   int    `json:"launches"`
	RunnerName string `json:"runner_name,omitempty"`
	HTMLURL    string `json:"html_url,omitempty"`
}

// The names under which Step Functions tasks wait for an instance.
const (
	// WaitQueued is answered when a runner has the job, with the outcome "in_progress". If the job ends first, the
	// outcome is the final state.
	WaitQueued = "Queued"
	// WaitInProgress is answered when the job has ended, with the final state as the outcome.
	WaitInProgress = "InProgress"
)

type (
	state  = statechart.State[Context]
	on     = statechart.Transition[Context]
	after  = statechart.After[Context]
	invoke = statechart.Invoke[Context]
	do     = []statechart.Action[Context]

	resolution = statechart.Resolution[Context]
)

// New returns the chart. If the config is not valid, New panics, so the error appears before the first event.
func New(runners RunnerLauncher, config Config) *statechart.Chart[Context] {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		panic(err)
	}
	settled := []string{statechart.Settled}
	onQueued := []on{
		{Event: "queued", Target: "launching", Guard: labelsMatch(config), Actions: do{keepJob}},
		{Event: "queued", Target: "queued_elsewhere", Actions: do{keepJob}},
	}
	onInProgress := on{Event: "in_progress", Target: "in_progress", Actions: do{keepJob}}

	return statechart.Must(statechart.Definition[Context]{
		ID: "job", Version: 1, Initial: "new",
		Payloads: statechart.Payloads{
			"waiting":     statechart.PayloadOf[WorkflowJob](),
			"queued":      statechart.PayloadOf[WorkflowJob](),
			"in_progress": statechart.PayloadOf[WorkflowJob](),
			"completed":   statechart.PayloadOf[CompletedJob](),
			"RELAUNCH":    statechart.PayloadOf[Relaunch](),
		},
		On: []on{
			{Event: "completed", Target: ".success", Guard: concluded("success"), Actions: do{keepCompleted}},
			{Event: "completed", Target: ".failure", Guard: concluded("failure"), Actions: do{keepCompleted}},
			{Event: "completed", Target: ".cancelled", Guard: concluded("cancelled"), Actions: do{keepCompleted}},
			{Event: "completed", Target: ".skipped", Guard: concluded("skipped"), Actions: do{keepCompleted}},
			{Event: "completed", Target: ".timed_out", Guard: concluded("timed_out"), Actions: do{keepCompleted}},
			{Event: "completed", Target: ".action_required", Guard: concluded("action_required"), Actions: do{keepCompleted}},
			{Event: "completed", Target: ".neutral", Guard: concluded("neutral"), Actions: do{keepCompleted}},
			{Event: "completed", Target: ".stale", Guard: concluded("stale"), Actions: do{keepCompleted}},
			{Event: "completed", Target: ".startup_failure", Guard: concluded("startup_failure"), Actions: do{keepCompleted}},
			{Event: "completed", Target: ".other", Actions: do{keepCompleted}},
		},
		States: []state{
			{ID: "new", Tags: settled, Doc: "no webhook yet",
				On: slices.Concat([]on{{Event: "waiting", Target: "waiting", Actions: do{keepJob}}}, onQueued, []on{onInProgress})},
			{ID: "waiting", Tags: settled, Doc: "waits for an approval or other jobs, needs no runner yet",
				On: slices.Concat(onQueued, []on{onInProgress})},
			{ID: "queued_elsewhere", Tags: settled, Doc: "has other labels, waits for a runner of another system",
				On: []on{onInProgress}},
			{ID: "launching", Doc: "launches a runner",
				Invoke: []invoke{{
					Service: launchRunner(runners), Timeout: config.LaunchTimeout, Retry: config.LaunchRetry,
					OnDone:  []on{{Target: "queued", Actions: do{keepRunner}}},
					OnError: []on{{Target: "launch_failed"}},
				}}},
			{ID: "queued", Tags: settled, Doc: "waits for a runner to pick up the job",
				On: []on{
					onInProgress,
					{Event: "RELAUNCH", Target: "launching", Guard: statechart.And(launchedLast, launchesLeft(config.LaunchesMax))},
					{Event: "RELAUNCH", Target: "not_picked_up", Guard: launchedLast},
				},
				After: []after{
					{ID: "pick_up", Delay: config.PickUpTimeout, Target: "launching", Guard: launchesLeft(config.LaunchesMax)},
					{ID: "pick_up", Delay: config.PickUpTimeout, Target: "not_picked_up"},
				}},
			{ID: "in_progress", Tags: settled, Doc: "a runner runs the job",
				Resolve: []resolution{{Name: WaitQueued, Output: func(c Context, _ statechart.Event) any { return c.output("in_progress") }}},
				After:   []after{{ID: "time_limit", Delay: config.TimeLimit, Target: "overdue"}}},

			final("success"),
			final("failure", Failed),
			final("cancelled"),
			final("skipped"),
			final("timed_out", Failed),
			final("action_required"),
			final("neutral"),
			final("stale"),
			final("startup_failure", Failed),
			final("other"), // a conclusion that GitHub added later
			final("launch_failed", Failed),
			final("not_picked_up", Failed),
			final("overdue", Failed),
		},
	})
}

var (
	keepJob       = statechart.Assign("keepJob", func(c *Context, e WorkflowJob) { c.Job = e })
	keepCompleted = statechart.Assign("keepCompleted", func(c *Context, e CompletedJob) { c.Job = e.WorkflowJob })
	keepRunner    = statechart.Assign("keepRunner", func(c *Context, e Runner) { c.Runner = e; c.Launches++ })
)

func concluded(conclusion string) statechart.Guard[Context] {
	return statechart.When("concluded "+conclusion, func(_ Context, e CompletedJob) bool { return e.Conclusion == conclusion })
}

func labelsMatch(config Config) statechart.Guard[Context] {
	return statechart.When("labelsMatch", func(_ Context, e WorkflowJob) bool { return config.selects(e) })
}

// launchedLast holds if RELAUNCH names the last launch. So each launch is replaced at most once, by the timer or by
// RELAUNCH, however many RELAUNCH events arrive.
var launchedLast = statechart.When("launchedLast", func(c Context, e Relaunch) bool { return e.Launch == c.Launches })

func launchesLeft(launchesMax int) statechart.Guard[Context] {
	return statechart.If("launchesLeft", func(c Context) bool { return c.Launches < launchesMax })
}

// final returns a final state whose output has the state's name as outcome.
func final(outcome string, tags ...string) state {
	output := func(c Context, _ statechart.Event) any { return c.output(outcome) }
	return state{ID: outcome, Type: statechart.Final, Tags: tags, Output: output,
		Resolve: []resolution{{Name: WaitQueued, Output: output}, {Name: WaitInProgress, Output: output}}}
}

// output returns the output for an outcome.
func (c Context) output(outcome string) Output {
	return Output{
		Outcome: outcome, Conclusion: c.Job.Conclusion, Launches: c.Launches,
		RunnerName: c.Job.RunnerName, HTMLURL: c.Job.HTMLURL,
	}
}
