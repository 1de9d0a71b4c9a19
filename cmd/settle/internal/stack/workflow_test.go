package stack

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// TestMachineStartsAWorkflowAndReceivesItsEnd hosts a machine that starts the state machine "nap".
func TestMachineStartsAWorkflowAndReceivesItsEnd(t *testing.T) {
	t.Parallel()
	type context struct{}
	settled := []string{statechart.Settled}
	start := statechart.StartWorkflow[context]("nap", "nap.ended", nil)
	machine := durable.Host(statechart.Must(statechart.Definition[context]{
		ID: "sleeper", Version: 1, Initial: "awake",
		Payloads: statechart.Payloads{"SLEEP": statechart.NoPayload(), "nap.ended": statechart.PayloadOf[statechart.ExecutionEnded]()},
		States: []statechart.State[context]{
			{ID: "awake", Tags: settled, On: []statechart.Transition[context]{{Event: "SLEEP", Target: "asleep", Actions: []statechart.Action[context]{start}}}},
			{ID: "asleep", Tags: settled, On: []statechart.Transition[context]{{Event: "nap.ended", Target: "rested"}}},
			{ID: "rested", Type: statechart.Final},
		},
	}), durable.MachineConfig{})
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(t.Context(), func(string) []durable.Machine { return []durable.Machine{machine} }, byRoles(t, Config{Logger: slog.New(slog.DiscardHandler)}))
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, s)
		_, err = sfn.NewFromConfig(s.AWS()).CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
			Name: aws.String("nap"), RoleArn: aws.String(s.RoleARN("any")), Definition: aws.String(`{"StartAt": "Nap", "States": {"Nap": {"Type": "Wait", "Seconds": 60, "End": true}}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		send(t, s, "sleeper/1", "1", `{"type": "SLEEP"}`)
		for _, step := range []struct {
			wait time.Duration
			want string
		}{{59 * time.Second, "asleep"}, {3 * time.Second, "rested"}} {
			time.Sleep(step.wait)
			synctest.Wait()
			record, err := s.Load(t.Context(), instances.ID{Machine: "sleeper", ID: "1"})
			if err != nil || len(record.State) != 1 || record.State[0] != step.want {
				t.Errorf("after %v more: want %s, got %v and %v", step.wait, step.want, record.State, err)
			}
		}
	})
}

// TestMessageThatIsNotAStatusChangeGoesToTheDeadLetterQueue also checks that later messages are forwarded.
func TestMessageThatIsNotAStatusChangeGoesToTheDeadLetterQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Config{})
		defer stop(t, s)
		client := sqs.NewFromConfig(s.AWS())
		const body = `{"detail-type":"Something Else"}`
		if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: aws.String(ExecutionsQueue), MessageBody: aws.String(body)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep((receivesMax + 1) * visibilityTimeout(functionTimeoutDefault))
		synctest.Wait()
		kept, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String(ExecutionsDeadLetterQueue)})
		if err != nil || len(kept.Messages) != 1 || *kept.Messages[0].Body != body {
			t.Errorf("want it in the dead-letter queue after %d receives, got %v and %v", receivesMax, kept, err)
		}
	})
}
