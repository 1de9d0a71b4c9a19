// Package job follows a GitHub workflow job from its first webhook to its conclusion, and
// sees to it that a self-hosted runner is there to run it.
//
// A runner is launched when the job is queued, and another one when nobody has picked the job
// up in time, or when somebody says so with RELAUNCH. GitHub delivers webhooks late, twice and in
// any order, so a job only ever moves forward: waiting, queued, in progress, completed. A webhook
// that tells of less than is known already is ignored.
//
// Every outcome is a final state of its own, named as GitHub names the conclusion; the chart
// adds three: launch_failed, not_picked_up and overdue. Those that mean failure carry the tag
// [Failed]. A job that was given up stays so, whatever GitHub says of it later.
package job

import (
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Failed is the tag of the final states that mean failure: of the job, or of finding it a
// runner.
const Failed = "failed"

// Retention is how long an instance is kept once its job is over. A webhook that comes later
// than that makes a new instance.
const Retention = 15 * 24 * time.Hour

// StartedBy names the events that may make an instance: any webhook may be the first to arrive, or
// a workflow that waits for the job.
var StartedBy = []string{"waiting", "queued", "in_progress", "completed", "settle.wait"}

// Context is what an instance knows.
type Context struct {
	// Job is as the most advanced webhook told it.
	Job WorkflowJob `json:"job"`
	// Launches counts the runners launched for the job.
	// Invariant: Launches <= Config.LaunchesMax.
	Launches int `json:"launches"`
	// Runner is the one launched last. GitHub may give the job to another: Job.RunnerName
	// says which.
	Runner Runner `json:"runner,omitzero"`
}

// Output is what an instance ends with.
type Output struct {
	// Outcome is the final state: the conclusion, or "other", "launch_failed",
	// "not_picked_up" or "overdue".
	Outcome string `json:"outcome"`
	// Conclusion is GitHub's own word, empty if the job was given up before it completed.
	Conclusion string `json:"conclusion,omitempty"`
	Launches   int    `json:"launches"`
	RunnerName string `json:"runner_name,omitempty"`
	HTMLURL    string `json:"html_url,omitempty"`
}

// The names under which Step Functions tasks wait for an instance.
const (
	// WaitQueued is answered once a runner has the job, with the outcome "in_progress", or when the
	// job has ended without.
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

// New returns the chart. It panics if the config is not valid, before the first event.
func New(runners RunnerLauncher, config Config) *statechart.Chart[Context] {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		panic(err)
	}
	settled := []string{statechart.Settled}

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
			{ID: "new", Tags: settled, Doc: "nothing was heard of the job",
				On: []on{
					{Event: "waiting", Target: "waiting", Actions: do{keepJob}},
					{Event: "queued", Target: "launching", Actions: do{keepJob}},
					{Event: "in_progress", Target: "in_progress", Actions: do{keepJob}},
				}},
			{ID: "waiting", Tags: settled, Doc: "waits for an approval or for other jobs and needs no runner yet",
				On: []on{
					{Event: "queued", Target: "launching", Actions: do{keepJob}},
					{Event: "in_progress", Target: "in_progress", Actions: do{keepJob}},
				}},
			{ID: "launching", Doc: "a runner is being launched",
				Invoke: []invoke{{
					Service: launchRunner(runners), Timeout: config.LaunchTimeout, Retry: config.LaunchRetry,
					OnDone:  []on{{Target: "queued", Actions: do{keepRunner}}},
					OnError: []on{{Target: "launch_failed"}},
				}}},
			{ID: "queued", Tags: settled, Doc: "waits for a runner to pick the job up",
				On: []on{
					{Event: "in_progress", Target: "in_progress", Actions: do{keepJob}},
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
			final("other"), // a conclusion that GitHub did not have when this was written
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

// launchedLast lets a runner be missed once: by the timer, or by any number of workflows and people.
var launchedLast = statechart.When("launchedLast", func(c Context, e Relaunch) bool { return e.Launch == c.Launches })

func launchesLeft(launchesMax int) statechart.Guard[Context] {
	return statechart.If("launchesLeft", func(c Context) bool { return c.Launches < launchesMax })
}

// final returns a final state whose output is named after it.
func final(outcome string, tags ...string) state {
	output := func(c Context, _ statechart.Event) any { return c.output(outcome) }
	return state{ID: outcome, Type: statechart.Final, Tags: tags, Output: output,
		Resolve: []resolution{{Name: WaitQueued, Output: output}, {Name: WaitInProgress, Output: output}}}
}

// output tells how far the job has come.
func (c Context) output(outcome string) Output {
	return Output{
		Outcome: outcome, Conclusion: c.Job.Conclusion, Launches: c.Launches,
		RunnerName: c.Job.RunnerName, HTMLURL: c.Job.HTMLURL,
	}
}
