package tour

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/instanceview"
)

// startJob starts the workflow for a GitHub workflow job, and queues the job. `hook` is the object workflow_job in
// GitHub's webhooks about the job: https://docs.github.com/en/webhooks/webhook-events-and-payloads#workflow_job
func (p *player) startJob(runID, jobID int64, name string) (hook map[string]any, instance, execution string) {
	runID += 1000 * int64(p.round-1)
	hook = map[string]any{
		"id": jobID, "run_id": runID, "run_attempt": 1, "conclusion": nil, "workflow_name": "CI", "name": name,
		"labels": []string{"self-hosted", "linux"}, "runner_name": nil, "created_at": time.Now().UTC().Truncate(time.Second),
	}
	instance = "job/" + job.InstanceID(runID, jobID)
	execution = p.startWorkflow("job", instance, nil)
	p.taskWaits(instance, job.WaitQueued)
	p.webhook(hook, "queued", instance, "queued")
	return hook, instance, execution
}

// pickedUp plays a workflow job that a runner picks up and completes.
func (p *player) pickedUp() {
	p.title("A GitHub workflow job runs, and a Step Functions workflow waits for it",
		"GitHub reports the job in three webhooks. The first one launches a runner. Between them",
		"nothing runs: the job is an item in DynamoDB. The workflow waits twice, and branches on",
		"the outcome.")
	hook, instance, execution := p.startJob(1001, 1, "test")
	hook["runner_name"] = "linux-1"
	p.webhook(hook, "in_progress", instance, "in_progress")
	p.taskWaits(instance, job.WaitInProgress)
	hook["conclusion"] = "success"
	p.webhook(hook, "completed", instance, "success")
	p.showEnd(end{instance, "success"}, p.ended("job", execution, "Queued → PickedUp? → InProgress → Outcome → Succeeded"))
}

// neverPickedUp plays a workflow job that no runner picks up.
func (p *player) neverPickedUp() {
	p.title("A workflow job that no runner picks up",
		fmt.Sprintf("Each runner gets %s to pick up the job. Outside this demo it gets 5 minutes. After three", console.Span(p.config.PickUpTimeout)),
		"runners the chart gives up. Only the first event comes from outside. The others are timers.")
	_, instance, execution := p.startJob(1002, 2, "deploy")
	p.await(instance, "not_picked_up")
	p.showEnd(end{instance, "not_picked_up"}, p.ended("job", execution, "Queued → PickedUp? → Outcome → NotPickedUp"))
}

// signUp plays a sign-up with one wrong code and a second mail.
func (p *player) signUp() {
	instance, waiting := p.again("signup/ada"), "unverified.awaiting_verification"
	p.title("A sign-up, with a wrong code and a second mail",
		"The user gets a code by mail and must enter it within 24 hours. While a service sends the mail",
		"or creates the account, the state is not settled, and events wait in the queue.")
	p.event(instance, "SIGN_UP", map[string]any{"email": "ada@example.com", "name": "Ada"})
	p.await(instance, waiting)
	wrong := "000000"
	if p.seen.last("code") == wrong {
		wrong = "000001"
	}
	p.event(instance, "VERIFY", map[string]any{"code": wrong})
	p.await(instance, waiting)
	p.event(instance, "RESEND", nil)
	p.await(instance, "unverified.registering")
	p.await(instance, waiting)
	p.event(instance, "VERIFY", map[string]any{"code": p.seen.last("code")})
	p.await(instance, "active")
	p.showEnd(end{instance, "active"})
}

// calledBack plays two jobs for a third party: the first finds a result, and the second finds nothing.
func (p *player) calledBack() {
	p.title("A third party that calls back, once",
		"It gets a callback address for this instance only. While it works, nothing runs: the instance is",
		"an item in DynamoDB, and the task waits in Step Functions. Only its first callback is accepted.")
	found, missed := p.again("enrich/demo-7"), p.again("enrich/demo-8")
	arn, jobID, address := p.ask(found, "https://example.com/company/7")
	p.findByAlias(found, jobID)
	data := map[string]any{"jobId": jobID, "success": true, "data": map[string]any{"name": "Acme", "employees": 250}}
	p.callBack(address[:strings.LastIndexByte(address, '/')+1]+"a-wrong-key", data, http.StatusNotFound)
	p.callBack(address, data, http.StatusAccepted)
	p.await(found, "succeeded")
	p.callBack(address, data, http.StatusConflict)
	p.showEnd(end{found, "succeeded"}, p.ended("enrich", arn, "Enrich"))

	p.say("\n   Another one finds nothing. Its workflow receives the reason and takes another path.\n")
	arn, jobID, address = p.ask(missed, "https://example.com/company/8")
	p.callBack(address, map[string]any{"jobId": jobID, "success": false, "error": "the page is gone"}, http.StatusAccepted)
	p.await(missed, "failed")
	p.showEnd(end{missed, "failed"}, p.ended("enrich", arn, "Enrich → NothingFound"))
}

// ask starts the workflow and returns when the instance waits for the third party. It returns the third party's job ID
// and the callback address, both from the log of a service.
func (p *player) ask(instance, subject string) (execution, jobID, address string) {
	execution = p.startWorkflow("enrich", instance, map[string]any{"subject": subject, "reference": strings.TrimPrefix(instance, "enrich/")})
	p.await(instance, "waiting")
	// The lookup by alias fails until the instance has performed the effect that claims the alias.
	p.performed(instance)
	return execution, p.seen.last("job"), p.seen.last("callback")
}

// findByAlias looks up the instance by the third party's job ID.
func (p *player) findByAlias(instance, jobID string) {
	answer := p.request(http.MethodGet, "/aliases/"+enrich.Alias(jobID), "", http.Header{}, nil, http.StatusOK)
	var view instanceview.Instance
	p.check(json.Unmarshal(answer, &view), "reading the instance with the alias "+enrich.Alias(jobID))
	p.say("     %s", p.config.Style.Dim(fmt.Sprintf(`{"instance": %q, "state": %s, "status": %q, "next_events": %s}`,
		view.Name, oneLine(view.State), view.Status, oneLine(view.NextEvents))))
	if view.Name != instance {
		p.check(fmt.Errorf("expected %s to have the alias %s, got %s", instance, enrich.Alias(jobID), view.Name))
	}
}

// pipelineRun is today's run of a pipeline. A workflow starts the run and waits for it.
type pipelineRun struct{ instance, execution string }

func (p *player) runPipeline(name string, config pipeline.RunConfig) pipelineRun {
	name = p.again(name)
	today := time.Now().UTC()
	instance := "pipeline/" + name + today.Format("-02")
	return pipelineRun{instance, p.startWorkflow("pipeline", instance, map[string]any{
		"pipeline": name, "schedule": "daily", "date": today.Format(time.DateOnly), "config": config,
	})}
}

// endRun waits until the run is in `states` and its execution ends in `state`. Then it prints the run.
func (p *player) endRun(run pipelineRun, states, state string) {
	p.await(run.instance, states)
	ended := p.ended("pipeline", run.execution, "Pipeline → Outcome → "+state)
	p.ways = append(p.ways, state)
	p.showEnd(end{run.instance, states}, ended)
}

// agreed returns a service level agreement. `deadline` is the time from the next event to the deadline, which is
// rounded up to seconds. `before` is the time from the warning to the deadline.
func (p *player) agreed(deadline, before time.Duration) pipeline.SLA {
	at := time.Now().UTC().Add(p.config.Pause + deadline + time.Second - 1).Truncate(time.Second)
	return pipeline.SLA{Deadline: at.Format(time.RFC3339), ExpectedDurationSeconds: int(before / time.Second)}
}

// inTime plays a pipeline whose data is late and whose job is on time.
func (p *player) inTime() {
	p.title("A data pipeline evaluates, starts a job, and checks it until it ends",
		"The region run does the work. The region sla watches the clock. The checks are a second apart.",
		"Outside this demo they are minutes apart, and nothing runs in between.")
	run := p.runPipeline("sales", pipeline.RunConfig{
		EvaluationIntervalSeconds: 1, EvaluationWindowSeconds: 60, JobCheckIntervalSeconds: 1, SLA: p.agreed(time.Minute, 20*time.Second),
	})
	p.endRun(run, "run.succeeded, sla.met", "Succeeded")
}

// late plays a pipeline whose job runs until it is cancelled.
func (p *player) late() {
	p.title("The same pipeline is late: a warning, a breach, and a cancellation",
		"Both alerts fire at absolute times, independent of the work. The event DATA_CHANGED does not wait",
		"for the next evaluation. CANCEL stops the job.")
	run := p.runPipeline("stock", pipeline.RunConfig{
		EvaluationIntervalSeconds: 60, EvaluationWindowSeconds: 600, JobCheckIntervalSeconds: 60, SLA: p.agreed(2*time.Second, time.Second),
	})
	p.await(run.instance, "run.active.not_ready")
	p.event(run.instance, "DATA_CHANGED", nil)
	p.await(run.instance, "run.active.job_running, sla.breached")
	p.event(run.instance, "CANCEL", nil)
	p.endRun(run, "run.cancelled, sla.breached", "Cancelled")
}

// moreEnds plays three runs at the same time. It prints how they end, but not their transitions while they run.
func (p *player) moreEnds() {
	p.title("One waiting task, many ends",
		"The workflow waits in one task, and branches on the outcome, not just on success and failure.",
		"Three more runs take some seconds, at the same time: the data does not arrive, the job times out,",
		"the deadline has passed before the run begins. Their histories show the transitions.")
	p.seen.quiet.Store(true)
	defer p.seen.quiet.Store(false)
	costs := p.runPipeline("costs", pipeline.RunConfig{EvaluationIntervalSeconds: 60, EvaluationWindowSeconds: 1})
	leads := p.runPipeline("leads", pipeline.RunConfig{EvaluationIntervalSeconds: 1, JobTimeLimitSeconds: 1})
	plans := p.runPipeline("plans", pipeline.RunConfig{EvaluationIntervalSeconds: 1, JobCheckIntervalSeconds: 1, SLA: p.agreed(-time.Hour, 0)})
	p.endRun(costs, "run.validation_exhausted, sla.none", "NoData")
	p.endRun(leads, "run.job_timed_out, sla.none", "JobTimedOut")
	p.endRun(plans, "run.succeeded, sla.breached", "SucceededLate")
	p.say("\n   %s", p.config.Style.Bold(fmt.Sprintf("pipeline.asl.json ended in %d ways:", len(p.ways)))+" "+strings.Join(p.ways, ", "))
}

// uploaded plays a month whose sales file arrives before its warehouse file. The warehouse file is corrected later.
func (p *player) uploaded() {
	p.title("Two dependent files, in the wrong order",
		"The sales file needs the warehouse file of its month. S3 may report a file twice, and a file may",
		fmt.Sprintf("be corrected while the window is open: %s here, 14 days outside this demo.", console.Span(p.config.UploadWindow)))
	now := time.Now().UTC()
	month := time.Date(now.Year(), now.Month()+1-time.Month(p.round), 1, 0, 0, 0, 0, time.UTC).Format("2006_01") // Each round has its own month.
	instance := "upload/" + month
	warehouse := p.startWorkflow("upload-warehouse", instance, nil)
	p.taskWaits(instance, upload.WaitWarehouse)
	sales := p.startWorkflow("upload-sales", instance, nil)
	p.taskWaits(instance, upload.WaitSales)
	const processed = "open.warehouse.processed, open.sales.processed"
	p.objectCreated("sales", month, "b1946ac9", "61", "")
	p.await(instance, "open.warehouse.awaited, open.sales.held")
	p.objectCreated("sales", month, "b1946ac9", "61", "reported again: dropped")
	p.objectCreated("warehouse", month, "0f343b09", "62", "")
	p.await(instance, processed)
	executions := []execution{
		p.ended("upload-warehouse", warehouse, "Warehouse → Outcome → Processed"),
		p.ended("upload-sales", sales, "Sales → Outcome → Processed"),
	}
	p.say("   Both executions have ended. The window is still open.")
	p.objectCreated("warehouse", month, "591785b7", "63", "corrected")
	p.await(instance, processed)
	p.await(instance, "completed")
	p.showEnd(end{instance, "completed"}, executions...)
}
