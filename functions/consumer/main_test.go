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
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/host/hosttest"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

func TestConsumerStoresSchedulesAndParks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud := awslocal.New(awslocal.Config{})
		config := aws.Config{
			Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(),
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		}
		queues, tables := sqs.NewFromConfig(config), dynamodb.NewFromConfig(config)
		create := func(name string, attributes map[string]string) string {
			output, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
			if err != nil {
				t.Fatal(err)
			}
			return *output.QueueUrl
		}
		fifo := map[string]string{"FifoQueue": "true"}
		settings := host.Settings{
			Table: "settle", TableIndex: true, QueueURL: create("settle.fifo", fifo), DeadLetterQueueURL: create("settle-dlq.fifo", fifo), DelayQueueURL: create("settle-delay", nil),
		}
		if err := dynamostore.CreateIndexedTable(t.Context(), tables, settings.Table); err != nil {
			t.Fatal(err)
		}
		queue := sqsqueue.New(queues, settings.QueueURL, "")
		job := instances.ID{Machine: "job", ID: "7"}
		for id, body := range map[string]string{"queued": `{"type":"queued","run_id":1,"job_id":7,"labels":["self-hosted"]}`, "bad": `{"type":"unheard of"}`} {
			if _, err := queue.Send(t.Context(), durable.Message{To: job, Body: []byte(body), DeduplicationID: id}); err != nil {
				t.Fatal(err)
			}
		}

		handler := newConsumer(t, config, settings)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := cloud.Poll(ctx, awslocal.EventSource{Queue: "settle.fifo", ReportBatchItemFailures: true}, func() awslocal.Invoker { return handler }); err != nil {
			t.Fatal(err)
		}

		record, err := dynamostore.New(tables, settings.Table).Load(t.Context(), job)
		if err != nil || len(record.State) != 1 || record.State[0] != "queued" || record.Owes() {
			t.Errorf("got %+v, %v, want the instance in state queued with an empty outbox", record, err)
		}
		page, err := dynamostore.New(tables, settings.Table).ListPage(t.Context(), dynamostore.Filter{Machine: "job", State: "queued"}, 10, "")
		if err != nil || len(page.Records) != 1 || page.Records[0].Instance != job {
			t.Errorf("got %+v, %v, want the index to return the instance", page.Records, err)
		}
		for url, what := range map[string]string{settings.DeadLetterQueueURL: "parked events", settings.DelayQueueURL: "timers"} {
			output, err := queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10})
			if err != nil || len(output.Messages) != 1 {
				t.Errorf("%s: got %v, %v, want one message", what, output, err)
			}
		}
	})
}

// newConsumer returns the function, restricted to its role.
func newConsumer(t *testing.T, config aws.Config, settings host.Settings) lambda.Handler {
	t.Helper()
	stack := infra.Stack{Name: "settle", Account: awslocal.Account, Region: awslocal.Region, Values: map[string]string{"Table": "settle"}}
	config = guard.Restrict(t, config, stack, "consumer")
	process := &host.Process{Env: host.NewEnv(hosttest.Environment()), Settings: settings, AWS: config, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil))}
	machines, err := samples.Machines(process)
	if err != nil {
		t.Fatal(err)
	}
	hosted, err := durable.NewMachines(machines...)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := host.Consumer(samples.Machines).Handler(process, hosted)
	if err != nil {
		t.Fatal(err)
	}
	return lambda.NewHandler(handler)
}
