package main

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
)

// misdirect points the only schedule at a queue that does not exist, and allows one delivery attempt. It returns the
// schedule's dead-letter queue.
func (u user) misdirect() string {
	u.t.Helper()
	client := scheduler.NewFromConfig(u.stack.AWS())
	listed, err := client.ListSchedules(u.t.Context(), &scheduler.ListSchedulesInput{})
	if err != nil || len(listed.Schedules) != 1 {
		u.t.Fatalf("expected one schedule, got %+v and %v", listed, err)
	}
	made, err := client.GetSchedule(u.t.Context(), &scheduler.GetScheduleInput{Name: listed.Schedules[0].Name})
	if err != nil {
		u.t.Fatal(err)
	}
	target := made.Target
	target.Arn, target.RetryPolicy = aws.String(*target.Arn+"-gone"), &types.RetryPolicy{MaximumRetryAttempts: aws.Int32(0)}
	_, err = client.UpdateSchedule(u.t.Context(), &scheduler.UpdateScheduleInput{
		Name: made.Name, ScheduleExpression: made.ScheduleExpression, FlexibleTimeWindow: made.FlexibleTimeWindow,
		ActionAfterCompletion: made.ActionAfterCompletion, Target: target,
	})
	if err != nil {
		u.t.Fatal(err)
	}
	if target.DeadLetterConfig == nil {
		return ""
	}
	return aws.ToString(target.DeadLetterConfig.Arn)
}

func TestTimerThatSchedulerCannotDeliverFiresAfterRedrive(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		const ofTimers = "--dead-letter-queue=" + stack.DelayDeadLetterQueue
		u.must("send", "--local", "signup/7", "SIGN_UP", "email=ada@example.com", "name=Ada", "--wait", "settled")
		if got, want := u.misdirect(), "arn:aws:sqs:us-east-1:000000000000:"+stack.DelayDeadLetterQueue; got != want {
			u.t.Errorf("expected the schedule to name %s for dead letters, got %q", want, got)
		}
		time.Sleep(24*time.Hour + time.Minute)
		contains(u.t, u.must("get", "--local", "signup/7"), "unverified")

		listed := u.parked(ofTimers)
		if len(listed) != 1 || listed[0].Instance != "signup/7" || listed[0].Event != "settle.timer" ||
			!strings.HasPrefix(listed[0].Reason, "EventBridge could not deliver it: AWS.SimpleQueueService.NonExistentQueue: The specified queue does not exist") {
			u.t.Fatalf("expected the timer of signup/7 with Scheduler's error, got %+v", listed)
		}
		contains(u.t, u.must("dlq", "list", "--local", ofTimers), "signup/7  settle.timer  4m")
		contains(u.t, u.must("dlq", "show", "--local", ofTimers, listed[0].MessageID), "signup/7\n  event     settle.timer\n", `"MessageBody"`)
		if got := u.parked(ofTimers, "--instance", "signup/8"); len(got) != 0 {
			u.t.Errorf("expected no timer of another instance, got %+v", got)
		}

		again := u.must("dlq", "redrive", "--local", ofTimers, "--queue", stack.DelayQueue, "--instance", "signup/7")
		if again != "1 event sent to settle-delay\n" {
			u.t.Errorf("expected one timer to be sent, got %q", again)
		}
		time.Sleep(time.Minute)
		contains(u.t, u.must("get", "--local", "signup/7"), "expired")
		if left := u.parked(ofTimers); len(left) != 0 {
			u.t.Errorf("expected an empty queue, got %+v", left)
		}
	})
}

// A dead letter of an EventBridge rule has the same attributes as one of EventBridge Scheduler, but no instance.
func TestUndeliveredEventOfARuleIsShown(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		attributes := map[string]string{"ERROR_CODE": "NO_PERMISSIONS", "ERROR_MESSAGE": "not authorized", "RULE_ARN": "arn:aws:events:us-east-1:000000000000:rule/ends"}
		u.putInto(stack.ExecutionsDeadLetterQueue, `{"source": "aws.states", "detail": {"status": "SUCCEEDED"}}`, attributes)
		listed := u.parked("--dead-letter-queue", stack.ExecutionsDeadLetterQueue)
		if len(listed) != 1 || listed[0].Instance != "" || listed[0].Reason != "EventBridge could not deliver it: NO_PERMISSIONS: not authorized" {
			u.t.Errorf("expected EventBridge's error, got %+v", listed)
		}
	})
}

// putInto puts a message with attributes into a standard queue.
func (u user) putInto(queue, body string, attributes map[string]string) {
	u.t.Helper()
	input := &sqs.SendMessageInput{QueueUrl: aws.String(queue), MessageBody: &body, MessageAttributes: map[string]sqstypes.MessageAttributeValue{}}
	for name, value := range attributes {
		input.MessageAttributes[name] = sqstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
	}
	if _, err := sqs.NewFromConfig(u.stack.AWS()).SendMessage(u.t.Context(), input); err != nil {
		u.t.Fatal(err)
	}
}
