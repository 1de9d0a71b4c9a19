package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// drill creates claims in a stack, loses a part of the stack, and recovers with the commands of docs/recovery.md.
type drill struct {
	t *testing.T
	// folder has the data of the stack's AWS.
	folder string
	stack  *stack.Stack
	// cloud is the stack's AWS while no function runs.
	cloud *awslocal.Cloud
	// blocked stops the consumer's calls that contain the text. Nil blocks none.
	blocked atomic.Pointer[string]
	// `without` is the step of the recovery that this drill skips.
	without string
	// claims is the number of claims. `from` is the number of the first claim that gets notes.
	claims, from int
}

// All claims start within an hour, and each runs for slightly more than an hour. So at the time of the loss, there are
// claims in each state.
const (
	drillLoad = time.Hour
	// drillEnd is enough time for all claims to end after the recovery.
	drillEnd = 2 * time.Hour
)

// drillHTTP blocks calls of the consumer.
type drillHTTP struct {
	next    aws.HTTPClient
	blocked *atomic.Pointer[string]
}

// Do implements aws.HTTPClient.
func (c drillHTTP) Do(r *http.Request) (*http.Response, error) {
	if text := c.blocked.Load(); text != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(string(body), *text) {
			return nil, errors.New("the drill stops the consumer")
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return c.next.Do(r)
}

// start starts the functions.
func (d *drill) start() {
	d.t.Helper()
	d.close()
	var err error
	d.stack, err = stack.Start(d.t.Context(), claims().hosted, stack.Config{
		Data: d.folder, Logger: slog.New(slog.DiscardHandler),
		Role: func(function string, settings *aws.Config) {
			if function == "consumer" {
				settings.HTTPClient = drillHTTP{settings.HTTPClient, &d.blocked}
			}
		},
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// stop stops the stack and reopens its AWS without the functions.
func (d *drill) stop() {
	d.t.Helper()
	d.close()
	var err error
	if d.cloud, err = awslocal.Open(awslocal.Config{Now: time.Now, Data: d.folder, StatusChanges: stack.ExecutionsQueue}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *drill) close() {
	d.t.Helper()
	var err error
	if d.stack != nil {
		err = d.stack.Close()
	}
	if d.cloud != nil {
		err = d.cloud.Close()
	}
	if d.stack, d.cloud = nil, nil; err != nil {
		d.t.Fatal(err)
	}
}

// aws returns the settings of clients.
func (d *drill) aws() aws.Config {
	if d.stack != nil {
		return d.stack.AWS()
	}
	return aws.Config{Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: d.cloud.HTTPClient(), Credentials: aws.AnonymousCredentials{}}
}

// run runs a command line.
func (d *drill) run(ctx context.Context, args ...string) answer {
	d.t.Helper()
	var out, errOut bytes.Buffer
	code := command.Run(ctx, claims().config(), command.Process{
		Out: &out, Err: &errOut, StdoutTTY: true, Program: "settle", Endpoint: "http://aws.local", User: "alice", HTTP: d.aws().HTTPClient,
	}, append(args, "--local"))
	return answer{out.String(), errOut.String(), code}
}

// must runs a command line of the recovery and returns its output, unless this drill skips the step.
func (d *drill) must(args ...string) string {
	d.t.Helper()
	if d.without != "" && strings.HasPrefix(strings.Join(args, " "), d.without) {
		return ""
	}
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == d.without })
	got := d.run(d.t.Context(), args...)
	if got.code != command.ExitDone {
		d.t.Fatalf("settle %s: exit code %d, %s", strings.Join(args, " "), got.code, got.err)
	}
	return got.out + got.err
}

// note sends a NOTE to each waiting claim. The claim forwards the NOTE to the tally.
func (d *drill) note(when string, from int) {
	d.t.Helper()
	for n := from; n < d.claims; n++ {
		d.send(fmt.Sprintf("claim/%d", n), fmt.Sprintf(`{"type": "NOTE", "what": "%s-%d"}`, when, n), fmt.Sprint(when, "-", n))
	}
}

func (d *drill) send(instance, body, id string) {
	d.t.Helper()
	_, err := sqs.NewFromConfig(d.aws()).SendMessage(d.t.Context(), &sqs.SendMessageInput{
		QueueUrl: aws.String(stack.Queue), MessageGroupId: &instance, MessageDeduplicationId: &id, MessageBody: &body,
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// load creates the workflows and the claims. A workflow waits for every tenth claim.
func (d *drill) load() {
	d.t.Helper()
	d.workflows()
	for n := range d.claims {
		d.send(fmt.Sprintf("claim/%d", n), fmt.Sprintf(`{"type": "OPEN", "what": "ref-%d"}`, n), fmt.Sprint("open-", n))
		if time.Sleep(drillLoad / time.Duration(d.claims)); n%10 == 0 {
			_, err := sfn.NewFromConfig(d.aws()).StartExecution(d.t.Context(), &sfn.StartExecutionInput{
				StateMachineArn: aws.String("arn:aws:states:us-east-1:000000000000:stateMachine:wait"), Name: aws.String(fmt.Sprint("wait-", n)),
				Input: aws.String(fmt.Sprintf(`{"instance": "claim/%d"}`, n)),
			})
			if err != nil {
				d.t.Fatal(err)
			}
		}
	}
	d.note("before", d.from)
	time.Sleep(time.Minute + 7*time.Millisecond)
	synctest.Wait()
}

// workflows creates two workflows. Claims start the first one, and the second one waits for claims.
func (d *drill) workflows() {
	d.t.Helper()
	for name, definition := range map[string]string{
		"nap": `{"StartAt": "Nap", "States": {"Nap": {"Type": "Wait", "Seconds": 600, "End": true}}}`,
		"wait": `{"StartAt": "Wait", "States": {"Wait": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "TimeoutSeconds": 864000, "End": true,
			"Parameters": {"QueueUrl": "http://aws.local/000000000000/settle.fifo", "MessageGroupId.$": "$.instance", "MessageDeduplicationId.$": "States.Hash($$.Task.Token, 'SHA-256')",
			"MessageBody": {"type": "settle.wait", "$task": {"token.$": "$$.Task.Token", "state.$": "$$.State.Name", "execution.$": "$$.Execution.Id",
				"enteredAt.$": "$$.State.EnteredTime", "timeoutSeconds": 864000}}}}}}`,
	} {
		_, err := sfn.NewFromConfig(d.aws()).CreateStateMachine(d.t.Context(), &sfn.CreateStateMachineInput{
			Name: &name, RoleArn: aws.String("arn:aws:iam::000000000000:role/any"), Definition: &definition,
		})
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

// backup writes a backup into a file, and returns the file's name.
func (d *drill) backup() string {
	d.t.Helper()
	file := filepath.Join(d.t.TempDir(), "settle.jsonl")
	got := d.run(d.t.Context(), "backup")
	if got.code != command.ExitDone || !strings.Contains(got.err, "complete") {
		d.t.Fatalf("backup: exit code %d, %s", got.code, got.err)
	}
	if err := os.WriteFile(file, []byte(got.out), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return file
}

// createTable creates an empty table in place of a lost one.
func (d *drill) createTable() {
	d.t.Helper()
	client, table := dynamodb.NewFromConfig(d.aws()), stack.Table
	if _, err := client.DeleteTable(d.t.Context(), &dynamodb.DeleteTableInput{TableName: &table}); err != nil {
		d.t.Fatal(err)
	}
	if err := dynamostore.CreateIndexedTable(d.t.Context(), client, table); err != nil {
		d.t.Fatal(err)
	}
}

// createQueue recreates the deleted FIFO queue.
func (d *drill) createQueue() {
	d.t.Helper()
	client, queue := sqs.NewFromConfig(d.aws()), stack.Queue
	attributes, err := client.GetQueueAttributes(d.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &queue, AttributeNames: []sqsName{"FifoQueue", "VisibilityTimeout", "MessageRetentionPeriod", "RedrivePolicy"}})
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := client.DeleteQueue(d.t.Context(), &sqs.DeleteQueueInput{QueueUrl: &queue}); err != nil {
		d.t.Fatal(err)
	}
	time.Sleep(time.Minute + time.Second) // SQS refuses the name for a minute.
	if _, err := client.CreateQueue(d.t.Context(), &sqs.CreateQueueInput{QueueName: &queue, Attributes: attributes.Attributes}); err != nil {
		d.t.Fatal(err)
	}
}

// deleteSchedules deletes all schedules, as AWS does when their group is deleted.
func (d *drill) deleteSchedules() {
	d.t.Helper()
	client, deleted := scheduler.NewFromConfig(d.aws()), 0
	for pages := scheduler.NewListSchedulesPaginator(client, &scheduler.ListSchedulesInput{}); pages.HasMorePages(); {
		page, err := pages.NextPage(d.t.Context())
		if err != nil {
			d.t.Fatal(err)
		}
		for _, schedule := range page.Schedules {
			if _, err := client.DeleteSchedule(d.t.Context(), &scheduler.DeleteScheduleInput{Name: schedule.Name}); err != nil {
				d.t.Fatal(err)
			}
			deleted++
		}
	}
	if deleted < d.claims/4 {
		d.t.Fatalf("got %d schedules, want more to lose", deleted)
	}
}

var withoutChild = regexp.MustCompile(`(claim/\d+) waits for its child errand/\S+, which is missing`)

// moveParents moves the claims whose child was lost before it started, so that they start another child.
func (d *drill) moveParents(rearmed string) {
	d.t.Helper()
	found := withoutChild.FindAllStringSubmatch(rearmed, -1)
	if len(found) == 0 && d.without == "" {
		d.t.Error("no claim has lost its child")
	}
	for _, claim := range found {
		d.must("move", claim[1], "minding", "--reason", "the start of its child was lost with the queue")
	}
}

// problems waits some hours and returns the differences between the stack and the model. `each` is how often the tally
// must have counted each note, by the first part of the note's name.
func (d *drill) problems(each map[string]int) (problems []string) {
	d.t.Helper()
	time.Sleep(drillEnd)
	synctest.Wait()
	ended := map[string]int{}
	counted := map[string]int{}
	for record, err := range dynamostore.New(dynamodb.NewFromConfig(d.aws()), stack.Table).List(d.t.Context(), dynamostore.Filter{}) {
		if err != nil {
			d.t.Fatal(err)
		}
		if ended[record.Instance.Machine+" "+strings.Join(record.State, " ")]++; record.Instance.Machine == "tally" {
			for _, what := range countedBy(d.t, record) {
				counted[what]++
			}
		}
		if record.Owes() || len(record.FailedEffects) > 0 {
			problems = append(problems, fmt.Sprintf("%s owes %v, failed %v", record.Instance, record.Outbox, record.FailedEffects))
		}
	}
	if ended["claim closed"] != d.claims {
		problems = append(problems, fmt.Sprintf("got the states %v, want %d claims closed", ended, d.claims))
	}
	for when, want := range each {
		for n := d.from; n < d.claims; n++ {
			if got := counted[fmt.Sprintf("%s-%d", when, n)]; got != want {
				problems = append(problems, fmt.Sprintf("the note %s-%d is counted %d times, want %d", when, n, got, want))
			}
		}
	}
	return problems
}

// unanswered returns the tasks that the claims have not answered.
func (d *drill) unanswered() (problems []string) {
	d.t.Helper()
	client := sfn.NewFromConfig(d.aws())
	for n := 0; n < d.claims; n += 10 {
		name := fmt.Sprint("wait-", n)
		end, err := client.DescribeExecution(d.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: aws.String("arn:aws:states:us-east-1:000000000000:execution:wait:" + name)})
		if err != nil || end.Status != "SUCCEEDED" {
			problems = append(problems, fmt.Sprintf("%s: got %v and %v, want it answered", name, end, err))
		}
	}
	return problems
}
