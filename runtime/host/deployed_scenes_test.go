package host_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/infra/workflows"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/runtime/instances"
)

// outcome describes how a scene ended: the instance's states, and the results of the executions that waited for it.
type outcome struct {
	// States are the instance's states, empty if it is still running at the end of this test.
	States     string
	Executions []ended
}

// ended describes how an execution ended. Outcome is the outcome that the chart chose, or the name of the error.
type ended struct{ Workflow, Status, Outcome string }

// scene plays the demonstration's scene of the instance and returns its outcome.
type scene func(d *deployed, instance string) (outcome, error)

// scenes maps instances of settle demo to their scenes. Two scenes would take too long here. The job without a runner
// is left out, because each launch takes five minutes with the template's settings. The upload scene returns before the
// month's window closes.
var scenes = map[string]scene{
	"job/run-1001-job-1": pickedUp, "signup/ada": signUp,
	"enrich/demo-7": found, "enrich/demo-8": missed,
	"pipeline/sales-01": run(pipeline.RunConfig{
		EvaluationIntervalSeconds: 1, EvaluationWindowSeconds: 780, JobCheckIntervalSeconds: 1, SLA: pipeline.SLA{ExpectedDurationSeconds: 20},
	}, 14*time.Minute), // long enough for any computer, yet short enough for the delay queue
	"pipeline/stock-01": late,
	"pipeline/costs-01": run(pipeline.RunConfig{EvaluationIntervalSeconds: 60, EvaluationWindowSeconds: 1}, 0),
	"pipeline/leads-01": run(pipeline.RunConfig{EvaluationIntervalSeconds: 1, JobTimeLimitSeconds: 1}, 0),
	"pipeline/plans-01": run(pipeline.RunConfig{EvaluationIntervalSeconds: 1, JobCheckIntervalSeconds: 1}, -time.Hour),
	"upload/2000_01":    uploaded,
}

// pickedUp plays a job that GitHub reports in webhooks, and a workflow that waits for it through the tokentask
// function.
func pickedUp(d *deployed, instance string) (outcome, error) {
	definition, err := throughFunction("job")
	if err != nil {
		return outcome{}, err
	}
	arn, err := d.startWorkflow("job", definition, instance, nil)
	if err != nil {
		return outcome{}, err
	}
	if err := d.holds(instance, "Queued"); err != nil {
		return outcome{}, err
	}
	hook := map[string]any{
		"id": 1, "run_id": 1001, "run_attempt": 1, "workflow_name": "CI", "name": "canary-payload-test", "labels": []string{"self-hosted", "linux"},
		"created_at": time.Now().UTC().Truncate(time.Second),
	}
	for _, step := range []struct {
		action, key, value, state string
	}{{"queued", "", "", "queued"}, {"in_progress", "runner_name", "canary-payload-linux", "in_progress"}, {"completed", "conclusion", "success", "success"}} {
		if step.key != "" {
			hook[step.key] = step.value
		}
		if err := d.webhook(step.action, hook); err != nil {
			return outcome{}, err
		}
		if _, err := d.settles(instance, step.state); err != nil {
			return outcome{}, err
		}
		if step.state == "in_progress" {
			if err := d.holds(instance, "InProgress"); err != nil {
				return outcome{}, err
			}
		}
	}
	return d.ended("success", "job", arn)
}

// signUp plays a sign-up with a wrong code and a second email.
func signUp(d *deployed, instance string) (outcome, error) {
	const waiting = "unverified.awaiting_verification"
	if err := d.event(instance, `{"type":"SIGN_UP","email":"canary-payload@example.com","name":"canary-payload"}`); err != nil {
		return outcome{}, err
	}
	for _, event := range []string{`{"type":"VERIFY","code":"none"}`, `{"type":"RESEND"}`} {
		before, err := d.settles(instance, waiting)
		if err != nil {
			return outcome{}, err
		}
		if err := d.event(instance, event); err != nil {
			return outcome{}, err
		}
		if _, err := d.until(instance, "done with "+event, func(r instances.Record) bool { return r.Revision > before.Revision }); err != nil {
			return outcome{}, err
		}
	}
	record, err := d.settles(instance, waiting)
	if err != nil {
		return outcome{}, err
	}
	code, err := mailed(record)
	if err != nil {
		return outcome{}, err
	}
	if err := d.event(instance, `{"type":"VERIFY","code":"`+code+`"}`); err != nil {
		return outcome{}, err
	}
	_, err = d.settles(instance, "active")
	return outcome{States: "active"}, err
}

// mailed returns the code of the last email. The record contains the code's hash, keyed with the template's secret.
func mailed(record instances.Record) (string, error) {
	var snapshot struct {
		Context struct {
			CodeHash string `json:"code_hash"`
		} `json:"context"`
	}
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		return "", err
	}
	for step := range 20 {
		for position := range 10 {
			code := demo.Code(fmt.Sprintf("%s@%d/%d.%d", record.Instance, record.CreatedAt.UnixMilli(), step, position))
			mac := hmac.New(sha256.New, []byte(secrets["SignupCodeKey"]))
			mac.Write([]byte(record.Instance.String() + "\n" + code))
			if hex.EncodeToString(mac.Sum(nil)) == snapshot.Context.CodeHash {
				return code, nil
			}
		}
	}
	return "", errors.New("expected the hash of a mailed code under the secret SignupCodeKey, got another hash: is the secret in the consumer's environment?")
}

// asked starts the enrich workflow and waits until the instance has submitted a job to the third party. It returns the
// execution's ARN, the third party's job ID and the path of the callback address.
func (d *deployed) asked(instance string) (arn, jobID, path string, err error) {
	arn, err = d.startWorkflow("enrich", "", instance, map[string]any{"subject": "https://example.com/canary-payload", "reference": strings.TrimPrefix(instance, "enrich/")})
	if err != nil {
		return "", "", "", err
	}
	record, err := d.settles(instance, "waiting")
	if err != nil {
		return "", "", "", err
	}
	var snapshot struct{ Context enrich.Context }
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		return "", "", "", err
	}
	address := enrich.Callbacks{Base: d.api.URL, Key: []byte(secrets["EnrichCallbackKey"])}.Address(instance, snapshot.Context.Deadline)
	d.plant(address[strings.LastIndexByte(address, '/')+1:])
	return arn, snapshot.Context.JobID, strings.TrimPrefix(address, d.api.URL), nil
}

// found plays a third party whose callback succeeds. The API rejects a forged address, and a repeat of the callback.
func found(d *deployed, instance string) (outcome, error) {
	arn, jobID, path, err := d.asked(instance)
	if err != nil {
		return outcome{}, err
	}
	if view, err := d.request(http.MethodGet, "/aliases/"+enrich.Alias(jobID), nil, nil, http.StatusOK); err != nil || !strings.Contains(string(view), `"instance":"`+instance+`"`) {
		return outcome{}, fmt.Errorf("expected to find %s by its alias, got %s %w", instance, view, err)
	}
	body := fmt.Appendf(nil, `{"jobId":%q,"success":true,"data":{"name":"canary-payload","employees":250}}`, jobID)
	forged := path[:strings.LastIndexByte(path, '/')] + "/canary-callback-forged"
	for _, try := range []struct {
		path   string
		status int
	}{{forged, http.StatusNotFound}, {path, http.StatusAccepted}, {path, http.StatusConflict}} {
		if _, err := d.request(http.MethodPost, try.path, nil, body, try.status); err != nil {
			return outcome{}, err
		}
	}
	if _, err = d.settles(instance, "succeeded"); err != nil {
		return outcome{}, err
	}
	return d.ended("succeeded", "enrich", arn)
}

// missed plays a third party that reports a failure.
func missed(d *deployed, instance string) (outcome, error) {
	arn, jobID, path, err := d.asked(instance)
	if err != nil {
		return outcome{}, err
	}
	if _, err := d.request(http.MethodPost, path, nil, fmt.Appendf(nil, `{"jobId":%q,"success":false,"error":"canary-payload is gone"}`, jobID), http.StatusAccepted); err != nil {
		return outcome{}, err
	}
	if _, err = d.settles(instance, "failed"); err != nil {
		return outcome{}, err
	}
	return d.ended("failed", "enrich", arn)
}

// run plays a complete pipeline run. Its timers wait in the delay queue. Unless the deadline is 0, the run has a
// service level whose deadline is that long from now. A negative deadline has already passed.
func run(config pipeline.RunConfig, deadline time.Duration) scene {
	return func(d *deployed, instance string) (outcome, error) {
		arn, err := d.startPipeline(instance, config, deadline)
		if err != nil {
			return outcome{}, err
		}
		return d.endOfPipeline(instance, arn)
	}
}

func (d *deployed) startPipeline(instance string, config pipeline.RunConfig, deadline time.Duration) (arn string, err error) {
	today := time.Now().UTC()
	if deadline != 0 {
		config.SLA.Deadline = today.Add(deadline + time.Second - 1).Truncate(time.Second).Format(time.RFC3339)
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(instance, "pipeline/"), "-")
	return d.startWorkflow("pipeline", "", instance, map[string]any{
		"pipeline": name, "schedule": "canary-payload-daily", "date": today.Format(time.DateOnly), "config": config,
	})
}

func (d *deployed) endOfPipeline(instance, arn string) (outcome, error) {
	record, err := d.until(instance, "done", func(r instances.Record) bool { return r.Status == "done" && !r.Owes() })
	if err != nil {
		return outcome{}, err
	}
	return d.ended(strings.Join(record.State, ", "), "pipeline", arn)
}

// late plays a pipeline that warns, exceeds its deadline and is cancelled.
func late(d *deployed, instance string) (outcome, error) {
	arn, err := d.startPipeline(instance, pipeline.RunConfig{
		EvaluationIntervalSeconds: 60, EvaluationWindowSeconds: 600, JobCheckIntervalSeconds: 60, SLA: pipeline.SLA{ExpectedDurationSeconds: 1},
	}, 2*time.Second)
	if err != nil {
		return outcome{}, err
	}
	for _, step := range []struct{ state, event string }{{"run.active.not_ready", "DATA_CHANGED"}, {"sla.breached", "CANCEL"}} {
		if _, err := d.until(instance, step.state, func(r instances.Record) bool { return slices.Contains(r.State, step.state) }); err != nil {
			return outcome{}, err
		}
		if err := d.event(instance, `{"type":"`+step.event+`"}`); err != nil {
			return outcome{}, err
		}
	}
	return d.endOfPipeline(instance, arn)
}

// uploaded plays a month whose sales file arrives before its warehouse file. EventBridge reports both.
func uploaded(d *deployed, instance string) (outcome, error) {
	var arns []string
	for _, workflow := range []struct{ name, waits string }{{"upload-warehouse", "Warehouse"}, {"upload-sales", "Sales"}} {
		arn, err := d.startWorkflow(workflow.name, "", instance, nil)
		if err != nil {
			return outcome{}, err
		}
		if err := d.holds(instance, workflow.waits); err != nil {
			return outcome{}, err
		}
		arns = append(arns, arn)
	}
	for _, file := range []struct{ kind, sequencer, sales, warehouse string }{
		{"sales", "0061", "open.sales.held", "open.warehouse.awaited"}, {"warehouse", "0062", "open.sales.processed", "open.warehouse.processed"},
	} {
		created := fmt.Sprintf(`{"source":"aws.s3","detail-type":"Object Created","time":"2000-02-01T00:00:00Z","detail":{"bucket":{"name":"canary-payload-uploads"},
			"object":{"key":"%s_2000_01.csv","size":5,"etag":"b1946ac9","sequencer":%q}}}`, file.kind, file.sequencer)
		if _, err := d.objects.Invoke(d.ctx, []byte(created)); err != nil {
			return outcome{}, err
		}
		if _, err := d.settles(instance, file.warehouse, file.sales); err != nil {
			return outcome{}, err
		}
	}
	return d.ended("", "upload-warehouse", arns[0], "upload-sales", arns[1])
}

// throughFunction returns the definition of a workflow, changed so that its tasks invoke the tokentask function instead
// of sending to the queue.
func throughFunction(name string) (string, error) {
	text, err := workflows.Definition(name)
	if err != nil {
		return "", err
	}
	var definition map[string]any
	if err := json.Unmarshal([]byte(text), &definition); err != nil {
		return "", err
	}
	for _, state := range definition["States"].(map[string]any) {
		task := state.(map[string]any)
		if task["Resource"] == "arn:aws:states:::sqs:sendMessage.waitForTaskToken" {
			parameters := task["Parameters"].(map[string]any)
			task["Resource"] = "arn:aws:states:::lambda:invoke.waitForTaskToken"
			task["Parameters"] = map[string]any{
				"FunctionName": "tokentask", "Payload": map[string]any{"instance.$": parameters["MessageGroupId.$"], "event": parameters["MessageBody"]},
			}
		}
	}
	changed, err := json.Marshal(definition)
	return string(changed), err
}

// startWorkflow starts an execution that waits for the instance. If the definition is empty, it uses the one in
// infra/workflows.
func (d *deployed) startWorkflow(name, definition, instance string, input map[string]any) (arn string, err error) {
	if definition == "" {
		if definition, err = workflows.Definition(name); err != nil {
			return "", err
		}
	}
	machine, err := d.states.CreateStateMachine(d.ctx, &sfn.CreateStateMachineInput{Name: aws.String(workflowName(name)), Definition: &definition, RoleArn: aws.String("arn:aws:iam::000000000000:role/workflows")})
	if err != nil {
		return "", err
	}
	whole := map[string]any{"instance": instance, "queue_url": d.functions["consumer"].Environment["SETTLE_QUEUE_URL"]}
	for key, value := range input {
		whole[key] = value
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return "", err
	}
	started, err := d.states.StartExecution(d.ctx, &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn, Input: aws.String(string(text))})
	if err != nil {
		return "", err
	}
	return *started.ExecutionArn, nil
}

// workflowName returns the name of a workflow in the stack: acme-settle-UploadSalesWorkflow for upload-sales.
func workflowName(name string) string {
	id := ""
	for word := range strings.SplitSeq(name, "-") {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return stackName + "-" + id + "Workflow"
}

// holds waits until the instance has the token of the task.
func (d *deployed) holds(instance, task string) error {
	record, err := d.until(instance, "holding the token of the task "+task, func(r instances.Record) bool {
		return slices.ContainsFunc(r.Tokens, func(k instances.Token) bool { return k.Name == task })
	})
	for _, token := range record.Tokens {
		d.plant(string(token.Value))
	}
	return err
}

// ended waits until the executions have ended, and returns the scene's outcome. `executions` has a workflow and an ARN
// for each execution.
func (d *deployed) ended(states string, executions ...string) (outcome, error) {
	end := outcome{States: states}
	for execution := range slices.Chunk(executions, 2) {
		described, err := d.states.DescribeExecution(d.ctx, &sfn.DescribeExecutionInput{ExecutionArn: &execution[1]})
		for err == nil && described.Status == types.ExecutionStatusRunning {
			select {
			case <-d.ctx.Done():
				return end, fmt.Errorf("waited for the end of %s: %w", execution[1], errors.Join(d.ctx.Err()))
			case <-time.After(20 * time.Millisecond):
			}
			described, err = d.states.DescribeExecution(d.ctx, &sfn.DescribeExecutionInput{ExecutionArn: &execution[1]})
		}
		if err != nil {
			return end, err
		}
		var output struct {
			Outcome  string
			Enriched struct{ Outcome string }
		}
		if described.Error == nil {
			if err := json.Unmarshal([]byte(aws.ToString(described.Output)), &output); err != nil {
				return end, err
			}
		}
		end.Executions = append(end.Executions, ended{execution[0], string(described.Status), output.Outcome + output.Enriched.Outcome + aws.ToString(described.Error)})
	}
	return end, nil
}
