package tour

import (
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/machines/pipeline"
)

// pipelineRun is a run of a pipeline for today, started by a workflow that waits for it.
type pipelineRun struct{ instance, execution string }

func (p *player) runPipeline(name string, config pipeline.RunConfig) pipelineRun {
	today := time.Now().UTC()
	run := pipelineRun{instance: "pipeline/" + name + today.Format("-02")}
	run.execution = p.startWorkflow("pipeline", run.instance, map[string]any{
		"pipeline": name, "schedule": "daily", "date": today.Format(time.DateOnly), "config": config,
	})
	return run
}

// endRun waits until the run's execution ends in the state, and prints its path and the run's history.
func (p *player) endRun(run pipelineRun, state string) {
	ended := p.ended("pipeline", run.execution, "Pipeline", "Outcome", state)
	p.ways = append(p.ways, state)
	p.showEnd(run.instance, ended)
}

// agreed returns a service level with a deadline in so much time, rounded up to seconds, and a warning before it.
func agreed(deadline, before time.Duration) pipeline.SLA {
	at := time.Now().UTC().Add(deadline + time.Second - 1).Truncate(time.Second)
	return pipeline.SLA{Deadline: at.Format(time.RFC3339), ExpectedDurationSeconds: int(before / time.Second)}
}

// inTime plays a pipeline whose data is late and whose job is on time.
func (p *player) inTime() []end {
	p.title("A data pipeline evaluates, starts a job, and checks it until it ends",
		"The region run does the work. The region sla watches the clock. The checks are a second apart.",
		"Outside this demo they are minutes apart, and nothing runs in between.")
	run := p.runPipeline("sales", pipeline.RunConfig{
		EvaluationIntervalSeconds: 1, EvaluationWindowSeconds: 60, JobCheckIntervalSeconds: 1, SLA: agreed(time.Minute, 20*time.Second),
	})
	states := []string{"run.succeeded", "sla.met"}
	p.await(run.instance, "", states...)
	p.endRun(run, "Succeeded")
	return []end{{run.instance, states}}
}

// late plays a pipeline whose job runs until it is cancelled.
func (p *player) late() []end {
	p.title("The same pipeline is late: a warning, a breach, and a cancellation",
		"Both alerts fire at absolute times, independent of the work. The event DATA_CHANGED does not wait",
		"for the next evaluation. CANCEL stops the job.")
	run := p.runPipeline("stock", pipeline.RunConfig{
		EvaluationIntervalSeconds: 60, EvaluationWindowSeconds: 600, JobCheckIntervalSeconds: 60, SLA: agreed(2*time.Second, time.Second),
	})
	p.await(run.instance, "", "run.active.not_ready")
	p.event(run.instance, "DATA_CHANGED", nil)
	p.await(run.instance, "", "run.active.job_running", "sla.breached")
	p.event(run.instance, "CANCEL", nil)
	p.await(run.instance, "", "run.cancelled", "sla.breached")
	p.endRun(run, "Cancelled")
	return []end{{run.instance, []string{"run.cancelled", "sla.breached"}}}
}

// moreEnds plays three runs at the same time. It prints only their histories.
func (p *player) moreEnds() []end {
	p.title("One waiting task, many ends",
		"The workflow waits in one task, and branches on the outcome, not just on success and failure.",
		"Three more runs take some seconds, at the same time: the data does not arrive, the job times out,",
		"the deadline has passed before the run begins. Their histories show the transitions.")
	p.seen.setQuiet(true)
	defer p.seen.setQuiet(false)
	var runs []pipelineRun
	cases := []struct {
		name   string
		config pipeline.RunConfig
		states []string
		end    string
	}{
		{"costs", pipeline.RunConfig{EvaluationIntervalSeconds: 60, EvaluationWindowSeconds: 1}, []string{"run.validation_exhausted", "sla.none"}, "NoData"},
		{"leads", pipeline.RunConfig{EvaluationIntervalSeconds: 1, JobTimeLimitSeconds: 1}, []string{"run.job_timed_out", "sla.none"}, "JobTimedOut"},
		{"plans", pipeline.RunConfig{EvaluationIntervalSeconds: 1, JobCheckIntervalSeconds: 1, SLA: agreed(-time.Hour, 0)},
			[]string{"run.succeeded", "sla.breached"}, "SucceededLate"},
	}
	for _, c := range cases {
		run := p.runPipeline(c.name, c.config)
		runs = append(runs, run)
	}
	var ends []end
	for i, c := range cases {
		p.await(runs[i].instance, "", c.states...)
		p.endRun(runs[i], c.end)
		ends = append(ends, end{runs[i].instance, c.states})
	}
	p.say("\n   %s", p.config.Style.Bold(fmt.Sprintf("pipeline.asl.json ended in %d ways:", len(p.ways)))+" "+strings.Join(p.ways, ", "))
	return ends
}
