package host_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// transcript is what settle demo prints; the tests of the demonstration hold it.
const transcript = "../../cmd/settle/internal/tour/testdata/tour.txt"

// demonstrated returns how the scenes of the demonstration end.
func demonstrated(t *testing.T) map[string]outcome {
	t.Helper()
	text, err := os.ReadFile(transcript)
	if err != nil {
		t.Fatal(err)
	}
	story, list, _ := strings.Cut(string(text), "ended as expected")
	told := map[string]outcome{}
	for _, line := range regexp.MustCompile(`(?m)^   (\S+/\S+) +(\S.*)$`).FindAllStringSubmatch(list, -1) {
		told[line[1]] = outcome{States: line[2]}
	}
	output := regexp.MustCompile(`output of ([\w-]+), ([A-Z]+)\n +(?:\{(?:"enriched": \{)?"outcome": "(\w+)"|([\w.]+):)`)
	for _, block := range strings.Split(story, "history of ") {
		instance, rest, _ := strings.Cut(block, "\n")
		if end, ok := told[instance]; ok {
			for _, found := range output.FindAllStringSubmatch(rest, -1) {
				end.Executions = append(end.Executions, ended{found[1], found[2], found[3] + found[4]})
			}
			told[instance] = end
		}
	}
	if len(told) != len(scenes)+1 {
		t.Fatalf("expected %d scenes here and one more in %s, which this test does not play, got %v", len(scenes), transcript, told)
	}
	return told
}

// TestTheDeployedFunctionsPlayTheDemo builds the functions as they are deployed, gives each the environment of infra/template.yaml, and
// plays the scenes of the demonstration at once: instances and executions must end as they do there.
func TestTheDeployedFunctionsPlayTheDemo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles every function as `make functions` does: `make check` runs it")
	}
	expected := demonstrated(t)
	d := deploy(t, buildDeployed(t))
	var playing sync.WaitGroup
	for instance, play := range scenes {
		playing.Go(func() {
			got, err := play(d, instance)
			want := expected[instance]
			if got.States == "" {
				want.States = "" // It has not ended.
			}
			if err != nil {
				t.Errorf("%s: %v", instance, err)
				d.fail(fmt.Errorf("%s: %w", instance, err))
			} else if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %+v, want %+v as in the demonstration", instance, got, want)
			}
		})
	}
	playing.Wait()
	if t.Failed() {
		for name, log := range d.logs {
			for line := range strings.Lines(log.String()) {
				if !strings.Contains(line, `"_aws"`) && !strings.Contains(line, `"level":"INFO"`) {
					t.Logf("%s: %s", name, line)
				}
			}
		}
		return
	}
	d.checkEndsOfExecutions()
	d.checkSchedules()
	d.checkIndex()
	d.checkNothingIsDead()
	d.checkLogs()
	d.checkRefusal()
	d.checkRoles()
}

// checkRoles holds the functions to their roles: what they have called was allowed, and went through the roles of all of them.
func (d *deployed) checkRoles() {
	d.t.Helper()
	if err := d.roles.Denied(); err != nil {
		d.t.Errorf("the functions have called AWS beyond their roles:\n%v", err)
	}
	unused := guard.Unused(d.roles)
	for _, needed := range []string{
		"consumer: dynamodb:PutItem on ${Table.Arn}", "consumer: iam:PassRole on ${SchedulerRole.Arn}", "consumer: states:SendTaskSuccess on ${JobWorkflow}",
		"consumer: sqs:SendMessage on ${DelayQueue.Arn}", "delay: sqs:SendMessage on ${Queue.Arn}", "executions: sqs:SendMessage on ${Queue.Arn}",
		"gateway: sqs:SendMessage on ${Queue.Arn}", "gateway: dynamodb:GetItem on ${Table.Arn}", "objects: sqs:SendMessage on ${Queue.Arn}",
		"tokentask: sqs:SendMessage on ${Queue.Arn}",
	} {
		if slices.Contains(unused, needed) {
			d.t.Errorf("expected a call by the permission of the %s, got none that went through its role", needed)
		}
	}
}

// checkEndsOfExecutions has an execution end that says it is the job's: the function executions tells the job.
func (d *deployed) checkEndsOfExecutions() {
	d.t.Helper()
	const name = durable.ExecutionPrefix + "deployed-1"
	machine, err := d.states.CreateStateMachine(d.ctx, &sfn.CreateStateMachineInput{
		Name: aws.String("ends"), RoleArn: aws.String("arn:aws:iam::000000000000:role/workflows"), Definition: aws.String(`{"StartAt":"End","States":{"End":{"Type":"Succeed"}}}`),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	input := fmt.Sprintf(`{"$settle":{"instance":"job/run-1001-job-1","execution":%q,"incarnation":1},"note":"canary-payload"}`, name)
	if _, err := d.states.StartExecution(d.ctx, &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn, Name: aws.String(name), Input: &input}); err != nil {
		d.t.Fatal(err)
	}
	queued := d.line("executions", `"msg":"event queued"`)
	if queued["instance"] != "job/run-1001-job-1" || queued["type"] != "settle.execution.ended" {
		d.t.Errorf("got the line %v, want one of the end of the execution", queued)
	}
	// The job has started none, and passes it over.
	d.line("consumer", fmt.Sprintf(`"message_id":%q`, queued["message_id"]))
}

// line waits for a line in the log of a function.
func (d *deployed) line(function, with string) (line map[string]any) {
	d.t.Helper()
	var found string
	_, err := d.until("job/run-1001-job-1", "told of in the log of "+function+" with "+with, func(durable.Record) bool {
		for text := range strings.Lines(d.logs[function].String()) {
			if strings.Contains(text, with) {
				found = text
			}
		}
		return found != ""
	})
	if err == nil {
		err = json.Unmarshal([]byte(found), &line)
	}
	if err != nil {
		d.t.Errorf("%v\n%s", err, d.logs[function])
	}
	return line
}

// checkSchedules looks for the timers that are due later than in fifteen minutes, the end of the uploads' window among them: they wait in the
// group of the stack, for its delay queue and by its role.
func (d *deployed) checkSchedules() {
	d.t.Helper()
	client := scheduler.NewFromConfig(d.config)
	list, err := client.ListSchedules(d.ctx, &scheduler.ListSchedulesInput{GroupName: aws.String(stackName)})
	if err != nil {
		d.t.Fatal(err)
	}
	queue, role := "arn:aws:sqs:"+d.stack.Region+":"+d.stack.Account+":"+stackName+"-delay", "arn:aws:iam::"+d.stack.Account+":role/"+stackName+"-SchedulerRole"
	windows := 0
	for _, listed := range list.Schedules {
		schedule, err := client.GetSchedule(d.ctx, &scheduler.GetScheduleInput{GroupName: aws.String(stackName), Name: listed.Name})
		if err != nil {
			d.t.Fatal(err)
		}
		if input := *schedule.Target.Input; strings.Contains(input, `"to":"upload/2000_01"`) && strings.Contains(input, "settle.timer") {
			windows++
		}
		if *schedule.Target.Arn != queue || *schedule.Target.RoleArn != role {
			d.t.Errorf("got a schedule for %s by %s, want one for %s by %s", *schedule.Target.Arn, *schedule.Target.RoleArn, queue, role)
		}
	}
	if windows == 0 {
		d.t.Errorf("got %d schedules in the group of the stack, want one of upload/2000_01 among them", len(list.Schedules))
	}
}

// checkIndex finds instances by their state, as settle list does.
func (d *deployed) checkIndex() {
	d.t.Helper()
	page, err := d.store.ListPage(d.ctx, dynamostore.Filter{Machine: "job", State: "success"}, 10, "")
	if err != nil || len(page.Records) != 1 || page.Records[0].Instance.String() != "job/run-1001-job-1" {
		d.t.Errorf("got %+v and %v in the index, want the job", page, err)
	}
}

// checkNothingIsDead looks into the dead-letter queues.
func (d *deployed) checkNothingIsDead() {
	d.t.Helper()
	for _, end := range []string{"-dlq.fifo", "-delay-dlq", "-executions-dlq"} {
		client := sqs.NewFromConfig(d.config)
		queue, err := client.GetQueueUrl(d.ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(stackName + end)})
		if err != nil {
			d.t.Fatal(err)
		}
		received, err := client.ReceiveMessage(d.ctx, &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}})
		if err != nil || len(received.Messages) > 0 {
			d.t.Errorf("got %v and %+v in %s, want nothing", err, received.Messages, end)
		}
	}
}

// checkLogs reads what the functions have written: lines of JSON that go by the stack's name, and hold no secret, no token and no payload.
func (d *deployed) checkLogs() {
	d.t.Helper()
	if len(d.planted) < 5 {
		d.t.Errorf("got %d secrets, want those of tasks and callbacks among them", len(d.planted))
	}
	for function, log := range d.logs {
		metrics := 0
		for line := range strings.Lines(log.String()) {
			var entry map[string]any
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				d.t.Errorf("%s: expected JSON, got %s", function, line)
			}
			if entry["_aws"] != nil {
				metrics++
				if entry["Service"] != stackName {
					d.t.Errorf("%s: expected metrics of %s, got %s", function, stackName, line)
				}
			}
			if slices.ContainsFunc(d.planted, func(secret string) bool { return strings.Contains(strings.ToLower(line), strings.ToLower(secret)) }) {
				d.t.Errorf("%s shows a secret: %s", function, line)
			}
			if entry["level"] == "ERROR" || entry["level"] == "WARN" {
				d.t.Errorf("%s: expected nothing to go wrong, got %s", function, line)
			}
		}
		if metrics == 0 {
			d.t.Errorf("%s: expected metrics, got\n%s", function, log)
		}
	}
}

// checkRefusal has a task send what the machine refuses: the error of the invocation is a line of JSON like all others, and quotes nothing.
func (d *deployed) checkRefusal() {
	d.t.Helper()
	const definition = `{"StartAt":"Refused","States":{"Refused":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","End":true,"Parameters":{
		"FunctionName":"tokentask","Payload":{"instance":"job/9","event":{"type":"in_progress","run_id":"canary-payload","$task":{"token.$":"$$.Task.Token","state.$":"$$.State.Name"}}}}}}}`
	arn, err := d.startWorkflow("refused", definition, "job/9", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if end, err := d.ended("", "refused", arn); err != nil || end.Executions[0].Status != "FAILED" {
		d.t.Errorf("got %+v and %v, want the task to fail", end, err)
	}
	line := d.line("tokentask", "errorMessage")
	if text := fmt.Sprint(line); line["level"] != "ERROR" || !strings.Contains(text, "run_id") || strings.Contains(text, "canary") {
		d.t.Errorf("got the line %v, want an error that names the key", line)
	}
}
