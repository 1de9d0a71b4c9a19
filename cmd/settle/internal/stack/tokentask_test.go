package stack

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// TestTaskWaitsThroughTheFunction makes an execution wait for an instance through TokenTask. A task for an unknown
// machine fails at once.
func TestTaskWaitsThroughTheFunction(t *testing.T) {
	t.Parallel()
	machine := durable.Host(statechart.Must(statechart.Definition[struct{}]{
		ID: "door", Version: 1, Initial: "shut", Payloads: statechart.Payloads{"KNOCK": statechart.NoPayload()},
		States: []statechart.State[struct{}]{
			{ID: "shut", Tags: []string{statechart.Settled}, After: []statechart.After[struct{}]{{Delay: time.Minute, Target: "open"}}},
			{ID: "open", Type: statechart.Final, Resolve: []statechart.Resolution[struct{}]{{Name: "Wait"}}},
		},
	}), durable.MachineConfig{})
	for instance, want := range map[string]string{"door/1": `"outcome":"open"`, "gate/1": "unknown machine"} {
		synctest.Test(t, func(t *testing.T) {
			s, err := Start(t.Context(), func(string) []durable.Machine { return []durable.Machine{machine} }, byRoles(t, Config{Logger: slog.New(slog.DiscardHandler)}))
			if err != nil {
				t.Fatal(err)
			}
			defer stop(t, s)
			if end := waitThrough(t.Context(), t, s, instance); !strings.Contains(end, want) {
				t.Errorf("want the execution that waits for %s to end with %s, got %s", instance, want, end)
			}
		})
	}
}

// waitThrough makes an execution wait for an instance. It returns the execution's result after two minutes.
func waitThrough(ctx context.Context, t *testing.T, s *Stack, instance string) string {
	t.Helper()
	client := sfn.NewFromConfig(s.AWS())
	made, err := client.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{
		Name: aws.String("wait"), RoleArn: aws.String(s.RoleARN("any")), Definition: aws.String(`{"StartAt": "Wait", "States": {"Wait": {"Type": "Task", "End": true,
			"Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "TimeoutSeconds": 600, "Parameters": {"FunctionName": "` + TokenTask + `",
			"Payload": {"instance": "` + instance + `", "event": {"type": "settle.wait", "$task": {"token.$": "$$.Task.Token", "state.$": "$$.State.Name"}}}}}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	started, err := client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: made.StateMachineArn})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Minute)
	end, err := client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: started.ExecutionArn})
	if err != nil {
		t.Fatal(err)
	}
	return string(end.Status) + " " + aws.ToString(end.Output) + aws.ToString(end.Cause)
}
