package simulate_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// workflows returns a world's Step Functions client without faults.
func (w *world) workflows() *sfn.Client { return sfn.NewFromConfig(w.aws(w.cloud.HTTPClient(), true)) }

// startWorkflow creates the workflow of a file and starts an execution that waits for the instance. It adds the keys of
// `more` to the execution's input.
func (w *world) startWorkflow(file, name, instance string, more ...map[string]string) (execution string) {
	w.t.Helper()
	input := map[string]string{"instance": instance, "queue_url": w.queueURL}
	for _, keys := range more {
		maps.Copy(input, keys)
	}
	definition, err := os.ReadFile("../../infra/workflows/" + file)
	if err != nil {
		w.t.Fatal(err)
	}
	machine, err := w.workflows().CreateStateMachine(w.t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String(strings.TrimSuffix(file, ".asl.json")), RoleArn: aws.String(anyRole), Definition: aws.String(string(definition)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	started, err := w.workflows().StartExecution(w.t.Context(), &sfn.StartExecutionInput{
		StateMachineArn: machine.StateMachineArn, Name: &name,
		Input: aws.String(string(mustJSON(w.t, input))),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return *started.ExecutionArn
}

// ended waits until the execution has ended. It returns the names of its states, and its output or error.
func (w *world) ended(execution string) (path, end string) {
	w.t.Helper()
	var described *sfn.DescribeExecutionOutput
	for range 2000 {
		var err error
		if described, err = w.workflows().DescribeExecution(w.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution}); err != nil {
			w.t.Fatal(err)
		}
		if described.Status != types.ExecutionStatusRunning {
			break
		}
		time.Sleep(time.Minute)
	}
	pages := sfn.NewGetExecutionHistoryPaginator(w.workflows(), &sfn.GetExecutionHistoryInput{ExecutionArn: &execution})
	var states []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, event := range page.Events {
			if event.StateEnteredEventDetails != nil {
				states = append(states, *event.StateEnteredEventDetails.Name)
			}
		}
	}
	if described.Status == types.ExecutionStatusSucceeded {
		return strings.Join(states, " "), *described.Output
	}
	return strings.Join(states, " "), string(described.Status) + " " + aws.ToString(described.Error)
}

// TestAWorkflowWithOneWaitEndsInManyWays plays the possible lives of a job that a workflow waits for.
func TestAWorkflowWithOneWaitEndsInManyWays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play      func(w *world)
		path, end string
	}{
		"success": {func(w *world) {
			w.workflowJob(10, "in_progress", "")
			time.Sleep(5 * time.Hour)
			w.workflowJob(10, "completed", "success")
		}, "Queued PickedUp? InProgress Outcome Succeeded", `"outcome":"success"`},
		"failure": {func(w *world) {
			w.workflowJob(10, "in_progress", "")
			w.workflowJob(10, "completed", "failure")
		}, "Queued PickedUp? InProgress Outcome Failed", "FAILED Job.Failed"},
		"cancelled while it waits": {func(w *world) { w.workflowJob(10, "completed", "cancelled") },
			"Queued PickedUp? Outcome NotRun", `"outcome":"cancelled"`},
		"not picked up": {func(*world) {}, "Queued PickedUp? Outcome NotPickedUp", "FAILED Job.NotPickedUp"},
		"overdue": {func(w *world) { w.workflowJob(10, "in_progress", "") },
			"Queued PickedUp? InProgress Outcome Overdue", "FAILED Job.Overdue"},
		"action required": {func(w *world) { w.workflowJob(10, "completed", "action_required") },
			"Queued PickedUp? Outcome SomebodyMustAct", `"outcome":"action_required"`},
		"over before the workflow begins": {func(w *world) {
			w.workflowJob(10, "in_progress", "")
			w.workflowJob(10, "completed", "success")
			w.await(pickedUp, "success")
		}, "Queued PickedUp? Outcome Succeeded", `"outcome":"success"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, options{}, func(w *world) {
				w.workflowJob(10, "queued", "")
				w.await(pickedUp, "queued")
				late := strings.HasPrefix(name, "over before")
				if late {
					c.play(w)
				}
				execution := w.startWorkflow("job.asl.json", "run-1", pickedUp)
				time.Sleep(time.Second)
				if !late {
					c.play(w)
				}
				path, end := w.ended(execution)
				if path != c.path || !strings.Contains(end, c.end) {
					t.Errorf("want %s and %s, got %s and %s", c.path, c.end, path, end)
				}
				time.Sleep(time.Hour)
				if r := w.record(pickedUp); len(r.Tokens) > 0 || owing(r) > 0 || r.Error != nil {
					t.Errorf("want no tokens, no outbox and no error left, got %d, %d and %v", len(r.Tokens), owing(r), r.Error)
				}
			})
		})
	}
}

// TestABridgeSurvivesAFaultAtEveryCall plays a job with a workflow that waits for it twice. It repeats the job with
// each kind of fault at each AWS call of consumer and forwarder.
func TestABridgeSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	play := func(w *world) string {
		execution := w.startWorkflow("job.asl.json", "run-1", pickedUp)
		w.workflowJob(10, "queued", "")
		w.await(pickedUp, "queued")
		w.workflowJob(10, "in_progress", "")
		w.await(pickedUp, "in_progress")
		time.Sleep(time.Minute)
		w.workflowJob(10, "completed", "success")
		path, end := w.ended(execution)
		time.Sleep(time.Hour)
		r := w.record(pickedUp)
		return fmt.Sprint(path, " ", strings.Contains(end, `"outcome":"success"`), " ", r.State, len(r.Tokens), owing(r), r.Error, r.Ignored)
	}
	const want = "Queued PickedUp? InProgress Outcome Succeeded true [success] 0 0 <nil> 0"
	quiet := &faults{}
	inWorld(t, options{faults: quiet}, func(w *world) {
		if got := play(w); got != want {
			t.Errorf("without faults: want %s, got %s", want, got)
		}
	})
	calls := len(quiet.calls)
	if calls < 15 {
		t.Fatalf("only %d calls to AWS", calls)
	}
	for _, kind := range []fault{failBefore, loseAnswer, throttle, duplicate, freeze, dieBefore, dieAfter} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			for at := 1; at <= calls; at += stride() {
				hit := &faults{at: at, kind: kind}
				inWorld(t, options{faults: hit}, func(w *world) {
					if got := play(w); got != want {
						t.Errorf("call %d: want %s, got %s", at, want, got)
					}
				})
			}
		})
	}
}
