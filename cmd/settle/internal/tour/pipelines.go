package tour

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/machines/pipeline"
)

// pipelineRun is a run of a pipeline for today, started by a workflow that waits for it.
type pipelineRun struct{ instance, execution string }

func (p *player) runPipeline(ctx context.Context, name string, config pipeline.RunConfig) (pipelineRun, error) {
	today := time.Now().UTC()
	run := pipelineRun{instance: "pipeline/" + name + today.Format("-02")}
	p.log.SetColumns(len(run.instance), len("after evaluation"))
	var err error
	run.execution, err = p.startWorkflow(ctx, "pipeline", run.instance, map[string]any{
		"pipeline": name, "schedule": "daily", "date": today.Format(time.DateOnly), "config": config,
	})
	return run, err
}

// endRun waits until the run's execution ends in the state, and prints its path beside the run's history.
func (p *player) endRun(ctx context.Context, run pipelineRun, state string) error {
	ended, err := p.ended(ctx, "pipeline", run.execution, "Pipeline", "Outcome", state)
	if err != nil {
		return err
	}
	p.ways = append(p.ways, state)
	return p.showBeside(ctx, run.instance, ended)
}

// agreed returns a service level with a deadline in so much time, rounded up to seconds, and a warning before it.
func agreed(deadline, before time.Duration) pipeline.SLA {
	at := time.Now().UTC().Add(deadline + time.Second - 1).Truncate(time.Second)
	return pipeline.SLA{Deadline: at.Format(time.RFC3339), ExpectedDurationSeconds: int(before / time.Second)}
}

// inTime plays a pipeline whose data is late and whose job is on time.
func (p *player) inTime(ctx context.Context) ([]end, error) {
	p.title("A data pipeline evaluates, starts a job, and checks it until it ends",
		"The region run does the work. The region sla watches the clock. The checks are a second apart.",
		"Outside this demo they are minutes apart, and nothing runs in between.")
	run, err := p.runPipeline(ctx, "sales", pipeline.RunConfig{
		EvaluationIntervalSeconds: 1, EvaluationWindowSeconds: 60, JobCheckIntervalSeconds: 1, SLA: agreed(time.Minute, 20*time.Second),
	})
	if err != nil {
		return nil, err
	}
	states := []string{"run.succeeded", "sla.met"}
	if err := p.seen.await(ctx, run.instance, "", states...); err != nil {
		return nil, err
	}
	return []end{{run.instance, states}}, p.endRun(ctx, run, "Succeeded")
}

// late plays a pipeline whose job runs until it is cancelled.
func (p *player) late(ctx context.Context) ([]end, error) {
	p.title("The same pipeline is late: a warning, a breach, and a cancellation",
		"Both alerts fire at absolute times, independent of the work. The event DATA_CHANGED does not wait",
		"for the next evaluation. CANCEL stops the job.")
	run, err := p.runPipeline(ctx, "stock", pipeline.RunConfig{
		EvaluationIntervalSeconds: 60, EvaluationWindowSeconds: 600, JobCheckIntervalSeconds: 60, SLA: agreed(2*time.Second, time.Second),
	})
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		event  string
		states []string
	}{
		{"", []string{"run.active.not_ready"}},
		{"DATA_CHANGED", []string{"run.active.job_running", "sla.breached"}},
		{"CANCEL", []string{"run.cancelled", "sla.breached"}},
	} {
		if step.event != "" {
			if err := p.event(ctx, run.instance, step.event, nil); err != nil {
				return nil, err
			}
		}
		if err := p.seen.await(ctx, run.instance, "", step.states...); err != nil {
			return nil, err
		}
	}
	return []end{{run.instance, []string{"run.cancelled", "sla.breached"}}}, p.endRun(ctx, run, "Cancelled")
}

// moreEnds plays three runs at the same time. It prints only their histories.
func (p *player) moreEnds(ctx context.Context) ([]end, error) {
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
		run, err := p.runPipeline(ctx, c.name, c.config)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	var ends []end
	for i, c := range cases {
		if err := p.seen.await(ctx, runs[i].instance, "", c.states...); err != nil {
			return nil, err
		}
		if err := p.endRun(ctx, runs[i], c.end); err != nil {
			return nil, err
		}
		ends = append(ends, end{runs[i].instance, c.states})
	}
	p.say("\n   %s", p.config.Style.Bold(fmt.Sprintf("pipeline.asl.json ended in %d ways:", len(p.ways)))+" "+strings.Join(p.ways, ", "))
	return ends, nil
}
