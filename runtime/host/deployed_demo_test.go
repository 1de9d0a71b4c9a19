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
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

// transcript is the output of settle demo. The tests of the demonstration keep it current.
const transcript = "../../cmd/settle/internal/tour/testdata/tour.txt"

// demonstrated returns the outcomes of the demonstration's scenes.
func demonstrated(t *testing.T) map[string]outcome {
	t.Helper()
	text, err := os.ReadFile(transcript)
	if err != nil {
		t.Fatal(err)
	}
	story, list, _ := strings.Cut(string(text), "ended as expected")
	outcomes := map[string]outcome{}
	for _, line := range regexp.MustCompile(`(?m)^   (\S+/\S+) +(\S.*)$`).FindAllStringSubmatch(list, -1) {
		outcomes[line[1]] = outcome{States: line[2]}
	}
	output := regexp.MustCompile(`output of ([\w-]+), ([A-Z]+)\n +(?:\{\s*(?:"enriched": \{\s*)?"outcome": "(\w+)"|([\w.]+):)`)
	for _, block := range strings.Split(story, "history of ") {
		instance, rest, _ := strings.Cut(block, "\n")
		if end, ok := outcomes[instance]; ok {
			for _, found := range output.FindAllStringSubmatch(rest, -1) {
				end.Executions = append(end.Executions, ended{found[1], found[2], found[3] + found[4]})
			}
			outcomes[instance] = end
		}
	}
	if len(outcomes) != len(scenes)+1 {
		t.Fatalf("expected the %d scenes of this test and one more in %s, got %v", len(scenes), transcript, outcomes)
	}
	return outcomes
}

// TestDeployedFunctionsPlayTheDemo builds the functions as deployed and gives each the environment of
// infra/template.yaml. It plays the scenes of the demonstration concurrently. Instances and executions must end as they
// do in the demonstration.
func TestDeployedFunctionsPlayTheDemo(t *testing.T) {
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
				want.States = "" // The instance is still running.
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

// checkRoles checks that the roles allowed every call and that every function made calls through its role.
func (d *deployed) checkRoles() {
	d.t.Helper()
	if err := d.roles.Denied(); err != nil {
		d.t.Errorf("the functions made calls that their roles do not allow:\n%v", err)
	}
	unused := guard.Unused(d.roles)
	for _, needed := range []string{
		"consumer: dynamodb:PutItem on ${Table.Arn}", "consumer: iam:PassRole on ${SchedulerRole.Arn}", "consumer: states:SendTaskSuccess on ${JobWorkflow}",
		"consumer: sqs:SendMessage on ${DelayQueue.Arn}", "delay: sqs:SendMessage on ${Queue.Arn}", "executions: sqs:SendMessage on ${Queue.Arn}",
		"gateway: sqs:SendMessage on ${Queue.Arn}", "gateway: dynamodb:GetItem on ${Table.Arn}", "objects: sqs:SendMessage on ${Queue.Arn}",
		"tokentask: sqs:SendMessage on ${Queue.Arn}",
	} {
		if slices.Contains(unused, needed) {
			d.t.Errorf("expected a call that needs the permission %s, got none", needed)
		}
	}
}

// checkEndsOfExecutions runs an execution whose input names the job, and checks that the executions function sends the
// job an event when the execution ends.
func (d *deployed) checkEndsOfExecutions() {
	d.t.Helper()
	const name = instances.ExecutionPrefix + "deployed-1"
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
		d.t.Errorf("got the log line %v, want the end of the execution", queued)
	}
	// The job did not start this execution and ignores the event.
	d.line("consumer", fmt.Sprintf(`"message_id":%q`, queued["message_id"]))
}

// line waits until the function logs a line that contains `with`, and returns the line.
func (d *deployed) line(function, with string) (line map[string]any) {
	d.t.Helper()
	var found string
	_, err := d.until("job/run-1001-job-1", "in the log of "+function+" with "+with, func(instances.Record) bool {
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

// checkSchedules checks the schedules of timers that are due in more than fifteen minutes, such as the end of the
// upload window. They must be in the stack's group, target its delay queue and use its role.
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
			d.t.Errorf("got a schedule with target %s and role %s, want %s and %s", *schedule.Target.Arn, *schedule.Target.RoleArn, queue, role)
		}
	}
	if windows == 0 {
		d.t.Errorf("got %d schedules in the stack's group, want one of upload/2000_01 among them", len(list.Schedules))
	}
}

// checkIndex queries instances by state, as settle list does.
func (d *deployed) checkIndex() {
	d.t.Helper()
	page, err := d.store.ListPage(d.ctx, dynamostore.Filter{Machine: "job", State: "success"}, 10, "")
	if err != nil || len(page.Records) != 1 || page.Records[0].Instance.String() != "job/run-1001-job-1" {
		d.t.Errorf("got %+v and %v in the index, want the job", page, err)
	}
}

// checkNothingIsDead checks that the dead-letter queues are empty.
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

// checkLogs checks that every log line is JSON, that metrics carry the stack's name, and that no line contains a
// secret, token or payload.
func (d *deployed) checkLogs() {
	d.t.Helper()
	if len(d.planted) < 5 {
		d.t.Errorf("got %d secrets, want the tokens of tasks and the keys of callbacks among them", len(d.planted))
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
				d.t.Errorf("%s logged a secret: %s", function, line)
			}
			if entry["level"] == "ERROR" || entry["level"] == "WARN" {
				d.t.Errorf("%s: expected no warning or error, got %s", function, line)
			}
		}
		if metrics == 0 {
			d.t.Errorf("%s: expected metrics, got\n%s", function, log)
		}
	}
}

// checkRefusal sends an invalid event from a task. The error of the invocation must be one JSON line that quotes no
// payload.
func (d *deployed) checkRefusal() {
	d.t.Helper()
	const definition = `{"StartAt":"InProgress","States":{"InProgress":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","End":true,"Parameters":{
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
		d.t.Errorf("got the log line %v, want an error that names the key", line)
	}
}
