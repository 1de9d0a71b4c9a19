package main

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/schedule"
)

const (
	schedulerRole = "arn:aws:iam::" + awslocal.Account + ":role/settle-SchedulerRole"
	delayed       = types.QueueAttributeNameApproximateNumberOfMessagesDelayed
)

func TestDelaySendsTimersToTheFIFOQueue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		after    time.Duration
		schedule bool // whether EventBridge Scheduler is configured
		hops     int  // messages in the delay queue after 20 minutes
	}{
		{"half an hour", 30 * time.Minute, true, 1},
		{"an hour, in hops", time.Hour, false, 1},
		{"an hour, by EventBridge Scheduler", time.Hour, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checkArrival(t, test.after, test.schedule, test.hops)
		})
	}
}

// checkArrival schedules a timer and checks that it arrives in the FIFO queue when due.
func checkArrival(t *testing.T, after time.Duration, isScheduled bool, hops int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := awslocal.New(awslocal.Config{})
		config := aws.Config{
			Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(),
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		}
		client := sqs.NewFromConfig(config)
		create := func(name string, attributes map[string]string) string {
			output, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
			if err != nil {
				t.Fatal(err)
			}
			return *output.QueueUrl
		}
		settings := host.Settings{QueueURL: create("settle.fifo", map[string]string{"FifoQueue": "true"}), DelayQueueURL: create("settle-delay", nil)}
		if isScheduled {
			settings.DelayQueueARN, settings.SchedulerRoleARN = "arn:aws:sqs:"+awslocal.Region+":"+awslocal.Account+":settle-delay", schedulerRole
			settings.ScheduleGroup = "settle"
			if _, err := scheduler.NewFromConfig(config).CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{Name: &settings.ScheduleGroup}); err != nil {
				t.Fatal(err)
			}
		}
		own := guard.Restrict(t, config, infra.Stack{Name: "settle", Account: awslocal.Account, Region: awslocal.Region}, "delay")
		handler, err := host.Delay().Handler(&host.Process{Settings: settings, AWS: own, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		message := durable.Message{To: instances.ID{Machine: "job", ID: "7"}, Body: []byte(`{"type":"settle.timer","timer":"3.0"}`), DeduplicationID: "job/7@1/3.0"}
		if err := schedule.NewDelayQueue(client, settings.DelayQueueURL, time.Now).Schedule(t.Context(), time.Now().Add(after), message); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{20 * time.Minute, 0}, {after - 20*time.Minute - time.Nanosecond, 0}, {time.Second, 1}} {
			ctx, cancel := context.WithTimeout(t.Context(), step.wait)
			if err := cloud.Poll(ctx, awslocal.EventSource{Queue: "settle-delay", ReportBatchItemFailures: true}, func() awslocal.Invoker { return lambda.NewHandler(handler) }); err != nil {
				t.Fatal(err)
			}
			cancel()
			output, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &settings.QueueURL})
			if err != nil || len(output.Messages) != step.want || step.want == 1 && *output.Messages[0].Body != string(message.Body) {
				t.Errorf("after %v more: got %v, %v, want %d messages", step.wait, output, err, step.want)
			}
			delays, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &settings.DelayQueueURL, AttributeNames: []types.QueueAttributeName{delayed}})
			if step.wait == 20*time.Minute && (err != nil || delays.Attributes[string(delayed)] != strconv.Itoa(hops)) {
				t.Errorf("after 20 minutes: got %v, %v, want %d messages in the delay queue", delays, err, hops)
			}
		}
	})
}
