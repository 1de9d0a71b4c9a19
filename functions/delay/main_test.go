package main

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/functions/internal/assemble"
	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/runtime/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/schedule"
)

func TestDelayBringsATimerOfHalfAnHourToTheFIFOQueue(t *testing.T) {
	t.Parallel()
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
		settings := boot.Settings{QueueURL: create("settle.fifo", map[string]string{"FifoQueue": "true"}), DelayQueueURL: create("settle-delay", nil)}
		role, err := guard.New(infra.Stack{Name: "settle", Account: awslocal.Account, Region: awslocal.Region}, "delay")
		if err != nil {
			t.Fatal(err)
		}
		own := config
		role.Attach(&own)
		t.Cleanup(func() {
			if denied := role.Denied(); len(denied) > 0 {
				t.Errorf("expected no call beyond the role of the function, got %v", denied)
			}
		})
		handler, err := assemble.Delay(&boot.Process{Settings: settings, AWS: own, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		message := durable.Message{To: durable.InstanceID{Machine: "job", ID: "7"}, Body: []byte(`{"type":"settle.timer","timer":"3.0"}`), DeduplicationID: "job/7@1/3.0"}
		if err := schedule.NewDelayQueue(client, settings.DelayQueueURL, time.Now).Schedule(t.Context(), time.Now().Add(30*time.Minute), message); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{30*time.Minute - time.Nanosecond, 0}, {time.Second, 1}} {
			ctx, cancel := context.WithTimeout(t.Context(), step.wait)
			if err := cloud.Poll(ctx, awslocal.EventSource{Queue: "settle-delay", ReportBatchItemFailures: true}, func() awslocal.Invoker { return lambda.NewHandler(handler) }); err != nil {
				t.Fatal(err)
			}
			cancel()
			output, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &settings.QueueURL})
			if err != nil || len(output.Messages) != step.want || step.want == 1 && *output.Messages[0].Body != string(message.Body) {
				t.Errorf("after %v more: got %v, %v, want %d messages", step.wait, output, err, step.want)
			}
		}
	})
}
