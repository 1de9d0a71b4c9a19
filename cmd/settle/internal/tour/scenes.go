package tour

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// pickedUp plays a workflow job that a runner picks up and completes.
func (p *player) pickedUp() []end {
	p.title("A GitHub workflow job runs, and a Step Functions workflow waits for it",
		"GitHub reports the job in three webhooks. The first one launches a runner. Between them",
		"nothing runs: the job is an item in DynamoDB. The workflow waits twice, and branches on",
		"the outcome.")
	hook := newWorkflowJob(1001, 1, "test")
	instance := "job/" + job.InstanceID(1001, 1)
	execution := p.startWorkflow("job", instance, nil)
	p.taskWaits(instance, job.WaitQueued)
	p.webhook(hook, "queued", instance, "queued")
	hook["runner_name"] = "linux-1"
	p.webhook(hook, "in_progress", instance, "in_progress")
	p.taskWaits(instance, job.WaitInProgress)
	hook["conclusion"] = "success"
	p.webhook(hook, "completed", instance, "success")
	ended := p.ended("job", execution, "Queued", "PickedUp?", "InProgress", "Outcome", "Succeeded")
	p.showEnd(instance, ended)
	return []end{{instance, []string{"success"}}}
}

// neverPickedUp plays a workflow job that no runner picks up.
func (p *player) neverPickedUp() []end {
	p.title("A workflow job that no runner picks up",
		fmt.Sprintf("Each runner gets %s to pick up the job. Outside this demo it gets 5 minutes. After three", console.Span(p.config.PickUpTimeout)),
		"runners the chart gives up. Only the first event comes from outside. The others are timers.")
	hook := newWorkflowJob(1002, 2, "deploy")
	instance := "job/" + job.InstanceID(1002, 2)
	execution := p.startWorkflow("job", instance, nil)
	p.taskWaits(instance, job.WaitQueued)
	p.webhook(hook, "queued", instance, "queued")
	p.await(instance, "", "not_picked_up")
	ended := p.ended("job", execution, "Queued", "PickedUp?", "Outcome", "NotPickedUp")
	p.showEnd(instance, ended)
	return []end{{instance, []string{"not_picked_up"}}}
}

// signUp plays a sign-up with one wrong code and a second mail.
func (p *player) signUp() []end {
	const instance, waiting = "signup/ada", "unverified.awaiting_verification"
	p.title("A sign-up, with a wrong code and a second mail",
		"The user gets a code by mail and must enter it within 24 hours. While a service sends the mail",
		"or creates the account, the state is not settled, and events wait in the queue.")
	p.event(instance, "SIGN_UP", map[string]any{"email": "ada@example.com", "name": "Ada"})
	p.await(instance, "", waiting)
	p.event(instance, "VERIFY", map[string]any{"code": wrongCode(p.seen.lastCode())})
	p.await(instance, "VERIFY", waiting)
	p.event(instance, "RESEND", nil)
	p.await(instance, "", "unverified.registering")
	p.await(instance, "", waiting)
	p.event(instance, "VERIFY", map[string]any{"code": p.seen.lastCode()})
	p.await(instance, "", "active")
	p.showEnd(instance)
	return []end{{instance, []string{"active"}}}
}

// wrongCode returns a code that differs from the given one.
func wrongCode(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}

// calledBack plays a third party that finds a result, and then one that does not.
func (p *player) calledBack() []end {
	p.title("A third party that calls back, once",
		"It gets a callback address for this instance only. While it works, nothing runs: the instance is",
		"an item in DynamoDB, and the task waits in Step Functions. Only its first callback is accepted.")
	const found, missed = "enrich/demo-7", "enrich/demo-8"
	arn, party := p.ask(found, "https://example.com/company/7")
	p.findByAlias(found, party.job)
	data := map[string]any{"jobId": party.job, "success": true, "data": map[string]any{"name": "Acme", "employees": 250}}
	forged := party
	forged.callback = party.callback[:strings.LastIndexByte(party.callback, '/')+1] + "a-wrong-key"
	for _, try := range []struct {
		party asked
		want  int
	}{{forged, http.StatusNotFound}, {party, http.StatusAccepted}, {party, http.StatusConflict}} {
		p.callBack(try.party, data, try.want)
		if try.want == http.StatusAccepted {
			p.await(found, "", "succeeded")
		}
	}
	ended := p.ended("enrich", arn, "Enrich")
	p.showEnd(found, ended)

	p.say("\n   Another one finds nothing. Its workflow receives the reason and takes another path.\n")
	arn, party = p.ask(missed, "https://example.com/company/8")
	p.callBack(party, map[string]any{"jobId": party.job, "success": false, "error": "the page is gone"}, http.StatusAccepted)
	p.await(missed, "", "failed")
	ended = p.ended("enrich", arn, "Enrich", "NothingFound")
	p.showEnd(missed, ended)
	return []end{{found, []string{"succeeded"}}, {missed, []string{"failed"}}}
}

// ask starts the workflow and waits until the instance waits for the third party. It returns what the third
// party needs to call back.
func (p *player) ask(instance, subject string) (execution string, party asked) {
	execution = p.startWorkflow("enrich", instance, map[string]any{"subject": subject, "reference": strings.TrimPrefix(instance, "enrich/")})
	p.await(instance, "", "waiting")
	// The lookup fails until the alias is claimed.
	p.performed(instance)
	return execution, p.seen.lastAsked()
}

// findByAlias looks up the instance by the third party's job ID.
func (p *player) findByAlias(instance, job string) {
	answer := p.request(http.MethodGet, "/aliases/"+enrich.Alias(job), "", nil, nil, "", http.StatusOK)
	var view struct {
		Instance   string   `json:"instance"`
		State      []string `json:"state"`
		Status     string   `json:"status"`
		NextEvents []string `json:"next_events"`
	}
	p.check(json.Unmarshal(answer, &view), "reading the instance with the alias "+enrich.Alias(job))
	p.say("     %s", p.config.Style.Dim(oneLine(view)))
	if view.Instance != instance {
		p.check(fmt.Errorf("expected %s to have the alias %s, got %s", instance, enrich.Alias(job), view.Instance))
	}
}

// callBack posts to the callback address. Most of its key is not printed.
func (p *player) callBack(party asked, body map[string]any, want int) {
	text := p.json(body)
	path := strings.TrimPrefix(party.callback, p.stack.HTTPURL())
	p.request(http.MethodPost, path, shortened(path), jsonHeader(), text, fmt.Sprintf(`{"success": %v, ...}`, body["success"]), want)
}

// keyShown is how much of a callback key is printed.
const keyShown = 12

// shortened returns a callback address without most of its key, because the key authorizes a callback.
func shortened(address string) string {
	key := address[strings.LastIndexByte(address, '/')+1:]
	if len(key) <= keyShown {
		return address
	}
	return strings.TrimSuffix(address, key) + key[:keyShown/2] + "..."
}

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

// agreed returns a service level whose deadline is the given time from now, rounded up to seconds. before is the time
// from the warning to the deadline.
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

// uploaded plays a month whose sales file arrives before its warehouse file, which is corrected later.
func (p *player) uploaded() []end {
	p.title("Two dependent files, in the wrong order",
		"The sales file needs the warehouse file of its month. S3 may report a file twice, and a file may",
		fmt.Sprintf("be corrected while the window is open: %s here, 14 days outside this demo.", console.Span(p.config.UploadWindow)))
	month := time.Now().UTC().Format("2006_01")
	instance := "upload/" + month
	workflows := []struct{ name, waits, arn string }{{name: "upload-warehouse", waits: upload.WaitWarehouse}, {name: "upload-sales", waits: upload.WaitSales}}
	for i := range workflows {
		w := &workflows[i]
		w.arn = p.startWorkflow(w.name, instance, nil)
		p.taskWaits(instance, w.waits)
	}
	var executions []execution
	const processed, correlated = "open.warehouse.processed", "open.sales.processed"
	for _, file := range []struct {
		kind, etag, sequencer, note string
		states                      []string
	}{
		{"sales", "b1946ac9", "0061", "", []string{"open.warehouse.awaited", "open.sales.held"}},
		{"sales", "b1946ac9", "0061", "reported again: dropped", nil},
		{"warehouse", "0f343b09", "0062", "", []string{processed, correlated}},
		{"warehouse", "591785b7", "0063", "corrected", []string{processed, correlated}},
	} {
		if file.note == "corrected" {
			for _, w := range workflows {
				e := p.ended(w.name, w.arn, w.waits, "Outcome", "Processed")
				executions = append(executions, e)
			}
			p.say("   Both executions have ended. The window is still open.")
		}
		p.objectCreated(file.kind, month, file.etag, file.sequencer, file.note)
		if file.states == nil {
			continue
		}
		p.await(instance, "", file.states...)
	}
	p.await(instance, "after window", "completed")
	p.showEnd(instance, executions...)
	return []end{{instance, []string{"completed"}}}
}

// objectCreated builds the EventBridge event of a file and queues it as functions/objects does.
func (p *player) objectCreated(kind, month, etag, sequencer, note string) {
	bucket, key := kind+"-uploads", kind+"_"+month+".csv"
	created := p.json(map[string]any{
		"version": "0", "id": "17793124-05d4-b198-2fde-7ededc63b103", "detail-type": "Object Created", "source": "aws.s3",
		"account": "111122223333", "time": time.Now().UTC().Truncate(time.Second), "region": "us-east-1", "resources": []string{"arn:aws:s3:::" + bucket},
		"detail": map[string]any{
			"version": "0", "bucket": map[string]any{"name": bucket}, "reason": "PutObject",
			"object": map[string]any{"key": key, "size": 5, "etag": etag, "sequencer": sequencer},
		},
	})
	id, event, err := upload.FromObjectCreated(created)
	p.check(err)
	p.seen.hold()
	defer p.seen.release()
	hash := sha256.Sum256(event)
	queue := sqsqueue.New(sqs.NewFromConfig(p.stack.AWS()), p.stack.QueueURL(), "")
	_, err = queue.Send(p.ctx, durable.Message{
		To: instances.ID{Machine: "upload", ID: id}, Body: event, DeduplicationID: hex.EncodeToString(hash[:]),
	})
	p.check(err, "queueing the upload of "+key)
	if note != "" {
		note = "  " + p.config.Style.Dim("("+note+")")
	}
	p.say("   %s s3://%s/%s  etag %s%s", p.config.Style.Bold("Object Created"), bucket, key, etag, note)
}
