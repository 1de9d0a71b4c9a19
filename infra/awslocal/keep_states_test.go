package awslocal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra/awslocal"
)

// The test kills and restarts the Cloud flowLives times. A life is one run of the Cloud. In each life but the last two,
// its clients start up to flowsALife executions and as many schedules. In the last life, the clock is beyond all waits
// and timeouts.
const (
	flowLives  = 6
	flowsALife = 10
	flowLeap   = 40 * time.Second
)

// flowStates defines the executions. They have three branches: a task that fails once and is retried, a wait, and a
// task that gets no answer. Both queues are FIFO.
const flowStates = `"S": {"Type": "Parallel", "End": true, "Branches": [
	{"StartAt": "Ask", "States": {"Ask": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
		"Parameters": {"QueueUrl": "tasks.fifo", "MessageGroupId.$": "$.group", "MessageDeduplicationId.$": "States.UUID()",
			"MessageBody": {"token.$": "$$.Task.Token", "try.$": "$$.State.RetryCount", "name.$": "$$.Execution.Name"}},
		"Retry": [{"ErrorEquals": ["Again"], "IntervalSeconds": 1, "MaxAttempts": 1}], "End": true}}},
	{"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "SecondsPath": "$.wait", "Next": "Waited"},
		"Waited": {"Type": "Pass", "Result": "waited", "End": true}}},
	{"StartAt": "Mute", "States": {"Mute": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
		"Parameters": {"QueueUrl": "mute.fifo", "MessageGroupId.$": "$.group", "MessageDeduplicationId.$": "States.UUID()", "MessageBody.$": "$$.Execution.Name"},
		"TimeoutSeconds": 20, "Catch": [{"ErrorEquals": ["States.Timeout"], "Next": "Unheard"}], "End": true},
		"Unheard": {"Type": "Pass", "Result": "unheard", "End": true}}}]}`

// flows records what the clients know about executions and schedules.
type flows struct {
	witness

	machine   string
	begun     []string                   // names of executions and schedules that were requested
	ahead     map[string]time.Duration   // due time of each schedule, relative to beginning
	known     map[string]bool            // names whose execution and schedule were accepted
	arrived   map[string]map[string]bool // MessageIds of the messages of schedules, by message body
	tasks     map[string]map[string]bool // MessageIds of the messages of tasks, by execution name
	sent      map[string]bool            // tokens passed to SendTaskSuccess or SendTaskFailure
	beginning time.Time
}

// waitOf returns how many seconds the named execution waits. staysOf reports whether the schedule of the same name
// remains after it has fired.
func waitOf(name string) int   { return int(name[len(name)-1]-'0') * 5 }
func staysOf(name string) bool { return waitOf(name)%3 == 0 }

// begin starts an execution and creates a schedule with the same name. Both may exist already, if an earlier Cloud
// accepted them but was killed before it answered.
func (f *flows) begin(ctx context.Context, c child, name string) error {
	wait := waitOf(name)
	input := fmt.Sprintf(`{"group": "g%d", "wait": %d}`, wait%3, wait)
	_, err := c.states.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: &f.machine, Name: &name, Input: &input})
	// A repeated start fails with ExecutionAlreadyExists if the execution has ended.
	if exists := new(types.ExecutionAlreadyExists); err != nil && !errors.As(err, &exists) {
		return err
	}
	target := &schedulertypes.Target{
		Arn: aws.String("arn:aws:sqs:us-east-1:000000000000:fired"), RoleArn: aws.String(anyRole), Input: aws.String("standard " + name),
	}
	if wait%2 == 0 {
		target.Arn, target.Input = aws.String("arn:aws:sqs:us-east-1:000000000000:fired.fifo"), aws.String("FIFO "+name)
		target.SqsParameters = &schedulertypes.SqsParameters{MessageGroupId: &name}
	}
	after := schedulertypes.ActionAfterCompletionDelete
	if staysOf(name) {
		after = schedulertypes.ActionAfterCompletionNone
	}
	due := f.beginning.Add(f.ahead[name]).UTC()
	_, err = c.scheduler.CreateSchedule(ctx, &scheduler.CreateScheduleInput{
		Name: &name, ClientToken: &name, Target: target, ScheduleExpression: aws.String(due.Format("at(2006-01-02T15:04:05)")),
		FlexibleTimeWindow: &schedulertypes.FlexibleTimeWindow{Mode: schedulertypes.FlexibleTimeWindowModeOff}, ActionAfterCompletion: after,
	})
	return err
}

// beginAll repeats the starts that the Cloud did not answer in earlier lives. It also repeats one answered start of the
// previous life. That repetition must change nothing. In all but the last two lives, beginAll also starts new
// executions.
func (f *flows) beginAll(ctx context.Context, c child, life int, random *rand.Rand) {
	f.mu.Lock()
	if life < flowLives-1 {
		for i := range flowsALife {
			name := fmt.Sprintf("%d-%d", life, i)
			f.begun = append(f.begun, name)
			f.ahead[name] = time.Duration(life)*flowLeap + time.Duration(random.IntN(int(2*flowLeap)))
		}
	}
	again := fmt.Sprintf("%d-0", life-1)
	names := slices.DeleteFunc(slices.Clone(f.begun), func(name string) bool { return f.known[name] && name != again })
	f.mu.Unlock()
	for _, name := range names {
		if err := f.begin(ctx, c, name); err != nil {
			f.ended(ctx, err)
			return
		}
		f.mu.Lock()
		f.known[name] = true
		f.mu.Unlock()
	}
}

// answer consumes the messages of tasks. It fails the first attempt of each task and completes the retry.
func (f *flows) answer(ctx context.Context, c child) {
	f.consume(ctx, c.queue("tasks.fifo"), func(m sqstypes.Message) error {
		var task struct {
			Token, Name string
			Try         int
		}
		if err := json.Unmarshal([]byte(*m.Body), &task); err != nil {
			panic(err)
		}
		f.mu.Lock()
		note(f.tasks, task.Name, *m.MessageId)
		again := f.sent[task.Token]
		f.sent[task.Token] = true
		f.mu.Unlock()
		var err error
		if task.Try == 0 {
			_, err = c.states.SendTaskFailure(ctx, &sfn.SendTaskFailureInput{TaskToken: &task.Token, Error: aws.String("Again")})
		} else {
			_, err = c.states.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: &task.Token, Output: aws.String(`"` + task.Name + `"`)})
		}
		if over := new(types.TaskTimedOut); again && errors.As(err, &over) {
			return nil // the first call took effect, but a kill lost its answer
		}
		return err
	})
}

// note adds an ID under a key.
func note(ids map[string]map[string]bool, key, id string) {
	if ids[key] == nil {
		ids[key] = map[string]bool{}
	}
	ids[key][id] = true
}

// arrive records the messages that schedules have sent to a queue.
func (f *flows) arrive(ctx context.Context, q queue) {
	f.consume(ctx, q, func(m sqstypes.Message) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		note(f.arrived, *m.Body, *m.MessageId)
		return nil
	})
}

// consume passes the messages of a queue to a function and deletes them.
func (f *flows) consume(ctx context.Context, q queue, handle func(sqstypes.Message) error) {
	for ctx.Err() == nil {
		messages, err := q.tryReceive(ctx, upTo(10), waiting(1))
		for _, m := range messages {
			if err == nil {
				err = handle(m)
			}
			if err == nil {
				err = q.tryDelete(m)
			}
		}
		if err != nil {
			f.ended(ctx, err)
			return
		}
	}
}

// status returns the status and the output of an execution.
func (f *flows) status(c child, name string) string {
	arn := strings.Replace(f.machine, ":stateMachine:", ":execution:", 1) + ":" + name
	out, err := c.states.DescribeExecution(c.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &arn})
	if err != nil {
		return err.Error()
	}
	return string(out.Status) + " " + aws.ToString(out.Output)
}

// over reports whether all executions have ended, all schedules have fired, and all their messages have been
// received.
func (f *flows) over(c child) bool {
	if len(f.arrived) < len(f.begun) {
		return false
	}
	for _, name := range []string{"fired", "fired.fifo"} {
		left := c.queue(name).attributes("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
		if left["ApproximateNumberOfMessages"] != "0" || left["ApproximateNumberOfMessagesNotVisible"] != "0" {
			return false
		}
	}
	return !slices.ContainsFunc(f.begun, func(name string) bool { return strings.HasPrefix(f.status(c, name), "RUNNING") })
}

// check reports everything that did not end as expected.
func (f *flows) check(c child) {
	for _, name := range f.begun {
		if got, want := f.status(c, name), `SUCCEEDED ["`+name+`","waited","unheard"]`; got != want {
			f.complain("the execution %s: got %s, want %s", name, got, want)
		}
		if n := len(f.tasks[name]); n != 2 {
			f.complain("the execution %s has sent %d messages with tokens, want 2 (one attempt and one retry)", name, n)
		}
		if n := len(f.arrived["standard "+name]) + len(f.arrived["FIFO "+name]); n != 1 {
			f.complain("the schedule %s has fired %d times, want once", name, n)
		}
	}
	var left []string
	list, err := c.scheduler.ListSchedules(c.t.Context(), &scheduler.ListSchedulesInput{})
	if err != nil {
		f.complain("ListSchedules: %v", err)
		return
	}
	for _, s := range list.Schedules {
		left = append(left, *s.Name)
	}
	if stay := slices.DeleteFunc(slices.Clone(f.begun), func(name string) bool { return !staysOf(name) }); !slices.Equal(left, stay) {
		f.complain("the schedules %v remain, want %v after all have fired", left, stay)
	}
}

// live runs the Cloud and its clients for one life. It ends each life but the last by killing the Cloud. The last
// life ends when all executions and schedules are over.
func (f *flows) live(t *testing.T, dir string, life int, random *rand.Rand) {
	t.Helper()
	ahead := time.Duration(life) * flowLeap
	if life == flowLives {
		ahead += 2 * flowLeap // By now, everything is due.
	}
	c := startChild(t, dir, fmt.Sprintf("%s=%v", serveAhead, ahead))
	if life == 0 {
		f.create(c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	clients.Go(func() { f.beginAll(ctx, c, life, random) })
	for range 2 {
		clients.Go(func() { f.answer(ctx, c) })
	}
	for _, name := range []string{"fired", "fired.fifo"} {
		clients.Go(func() { f.arrive(ctx, c.queue(name)) })
	}
	switch life {
	case flowLives:
		f.await(t, func() bool { return f.over(c) })
	case flowLives - 1: // all starts must be accepted before the last life
		f.await(t, func() bool { return len(f.known) == len(f.begun) })
		c.kill()
	default:
		f.await(t, func() bool { return len(f.known) > life*flowsALife })
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		c.kill()
	}
	cancel()
	clients.Wait()
	if life == flowLives {
		f.check(c)
	}
}

func (f *flows) create(c child) {
	c.t.Helper()
	for _, name := range []string{"tasks.fifo", "mute.fifo", "fired.fifo"} {
		c.createFIFO(name, map[string]string{"ContentBasedDeduplication": "true"})
	}
	c.create("fired", nil)
	f.machine = workflows{t: c.t, client: c.states}.create("m", flowStates)
	f.beginning = time.Now()
}

func TestKeep_kills_lose_no_execution_and_schedules_fire_once(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	f := &flows{
		ahead: map[string]time.Duration{}, known: map[string]bool{}, sent: map[string]bool{},
		arrived: map[string]map[string]bool{}, tasks: map[string]map[string]bool{},
	}
	for life := range flowLives + 1 {
		f.live(t, dir, life, random)
		if len(f.wrong) > 0 {
			break
		}
	}
	for _, wrong := range f.wrong {
		t.Error(wrong)
	}
	t.Logf("%d executions, %d tokens used, %d schedules", len(f.begun), len(f.sent), len(f.arrived))
}

// A Cloud closes while the function of a task runs. A new Cloud that has the function in Config.Functions must invoke
// it again.
func TestKeep_functions_of_tasks_are_invoked_again(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		open := func(answer string, takes time.Duration) (*awslocal.Cloud, workflows) {
			f := invokes(func(ctx context.Context, _ []byte) ([]byte, error) {
				select {
				case <-time.After(takes):
				case <-ctx.Done():
				}
				return []byte(answer), nil
			})
			cloud, err := awslocal.Open(awslocal.Config{Data: dir, Functions: map[string]awslocal.Function{
				"f": {Timeout: time.Minute, Start: func() awslocal.Invoker { return f }},
			}})
			if err != nil {
				t.Fatal(err)
			}
			return cloud, newWorkflows(t, cloud)
		}
		before, w := open(`"before"`, time.Hour)
		execution := w.start(w.create("m", `"S": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "End": true,
			"Parameters": {"FunctionName": "f"}, "OutputPath": "$.Payload"}`), "x", `{}`)
		w.sleep(time.Second)
		if err := before.Close(); err != nil {
			t.Fatal(err)
		}
		after, w := open(`"after"`, time.Second)
		defer after.Close()
		w.wantEnd(execution, types.ExecutionStatusRunning)
		w.sleep(time.Second)
		w.wantEnd(execution, types.ExecutionStatusSucceeded, `"after"`)
		time.Sleep(time.Hour) // the invocation that the first Cloud started also ends in this hour
		w.wantEnd(execution, types.ExecutionStatusSucceeded, `"after"`)
	})
}

func TestConfig_functions_are_checked(t *testing.T) {
	t.Parallel()
	config := awslocal.Config{Data: t.TempDir(), Functions: map[string]awslocal.Function{"f": {}}}
	_, err := awslocal.Open(config)
	wantMessage(t, err, "registering the function f: expected a Start, got none")
}
