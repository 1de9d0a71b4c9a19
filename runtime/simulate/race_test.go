package simulate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// alarm is the context of the chart of alarmClock. Expired counts the reports that the task no longer waits.
type alarm struct {
	Expired int `json:"expired"`
}

// alarmClock answers the task "Wait" when the given time has passed since the instance started.
func alarmClock(after time.Duration) durable.Machine {
	settled := []string{statechart.Settled}
	return durable.Host(statechart.Must(statechart.Definition[alarm]{
		ID: "alarm", Version: 1, Initial: "set", Payloads: statechart.Payloads{durable.TokenExpired: statechart.NoPayload()},
		On: []statechart.Transition[alarm]{{Event: durable.TokenExpired, Actions: []statechart.Action[alarm]{
			statechart.Update("count", func(a *alarm) { a.Expired++ }),
		}}},
		States: []statechart.State[alarm]{
			{ID: "set", Tags: settled, After: []statechart.After[alarm]{{ID: "ring", Delay: after, Target: "rung"}}},
			{ID: "rung", Tags: settled, Resolve: []statechart.Resolution[alarm]{{Name: "Wait"}}},
		},
	}), durable.MachineConfig{})
}

// startWaiting starts an execution whose task waits up to a minute for the instance's answer.
func (w *world) startWaiting(instance string, withTimeout bool) (execution string) {
	w.t.Helper()
	timeoutKeys := ""
	if withTimeout {
		timeoutKeys = `, "enteredAt.$": "$$.State.EnteredTime", "timeoutSeconds": 60`
	}
	machine, err := w.workflows().CreateStateMachine(w.t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String("wait"), RoleArn: aws.String(anyRole), Definition: aws.String(`{"StartAt": "Wait", "States": {"Wait": {"Type": "Task", "TimeoutSeconds": 60, "End": true,
			"Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "Parameters": {"QueueUrl": "` + w.queueURL + `", "MessageGroupId": "` + instance + `",
			"MessageDeduplicationId.$": "States.Hash($$.Task.Token, 'SHA-256')", "MessageBody": {"type": "settle.wait", "$task": {"token.$": "$$.Task.Token",
			"state.$": "$$.State.Name", "execution.$": "$$.Execution.Id"` + timeoutKeys + `}}}}}}`),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	started, err := w.workflows().StartExecution(w.t.Context(), &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn})
	if err != nil {
		w.t.Fatal(err)
	}
	return *started.ExecutionArn
}

// TestAnAnswerNearTheTimeoutIsEitherGivenOrExpired makes a chart answer a task just before, at and just after the
// task's timeout of a minute. It repeats each case with every fault at every call. Either the task succeeds and the
// chart receives nothing, or the task times out and the chart receives one report of the timeout.
func TestAnAnswerNearTheTimeoutIsEitherGivenOrExpired(t *testing.T) {
	t.Parallel()
	for _, withTimeout := range []bool{true, false} {
		for _, after := range []time.Duration{59 * time.Second, 59999 * time.Millisecond, time.Minute, 60001 * time.Millisecond} {
			t.Run(fmt.Sprintf("after %v, timeout known %v", after, withTimeout), func(t *testing.T) {
				t.Parallel()
				play := func(hit *faults) {
					inWorld(t, options{faults: hit, more: []durable.Machine{alarmClock(after)}}, func(w *world) { w.raceTheTimeout(withTimeout) })
				}
				quiet := &faults{}
				play(quiet)
				for _, kind := range []fault{failBefore, loseAnswer, throttle, duplicate, freeze, dieBefore, dieAfter} {
					for at := 1; at <= len(quiet.calls); at += stride() {
						play(&faults{at: at, kind: kind})
					}
				}
			})
		}
	}
}

func (w *world) raceTheTimeout(withTimeout bool) {
	w.t.Helper()
	execution := w.startWaiting("alarm/1", withTimeout)
	time.Sleep(3 * time.Hour)
	end, err := w.workflows().DescribeExecution(w.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution})
	if err != nil {
		w.t.Fatal(err)
	}
	record := w.record("alarm/1")
	var snapshot struct{ Context alarm }
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		w.t.Fatal(err)
	}
	given := end.Status == "SUCCEEDED" && strings.Contains(aws.ToString(end.Output), `"outcome":"rung"`) && snapshot.Context.Expired == 0
	expired := aws.ToString(end.Error) == "States.Timeout" && snapshot.Context.Expired == 1
	fault := "no fault"
	if w.faults.at > 0 {
		fault = fmt.Sprintf("%v at call %d (%s)", w.faults.kind, w.faults.at, w.faults.hit())
	}
	if given == expired {
		w.t.Errorf("%s: the task is %s with %s %s, and the chart received its expiry %d times", fault, end.Status, aws.ToString(end.Error), aws.ToString(end.Output), snapshot.Context.Expired)
	}
	if len(record.Tokens)+owing(record) > 0 || record.State[0] != "rung" || w.deadLetters() != "0" {
		w.t.Errorf("%s: %s dead letters, and the instance is %+v", fault, w.deadLetters(), record)
	}
}
