package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/functions/internal/shipped"
	"github.com/settle-run/settle/runtime/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// TestBootstrapStoresAnEvent runs the executable that is deployed, as Lambda does: configured
// by its environment alone, its AWS behind a socket.
func TestBootstrapStoresAnEvent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", path, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the consumer: %v\n%s", err, out)
	}
	cloud := awslocal.New(awslocal.Config{})
	server, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	config := aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String(server.URL()),
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
	url := create("events.fifo", map[string]string{"FifoQueue": "true", "VisibilityTimeout": "60"})
	bootstrap, err := awslocal.NewBootstrap(awslocal.BootstrapConfig{
		Path: path, FunctionName: "consumer", Logs: t.Output(),
		Env: []string{
			"AWS_ENDPOINT_URL=" + server.URL(),
			boot.Table + "=settle",
			boot.QueueURL + "=" + url,
			boot.DeadLetterQueueURL + "=" + create("dead.fifo", map[string]string{"FifoQueue": "true"}),
			boot.DelayQueueURL + "=" + create("delays", nil),
			shipped.SignupCodeKey + "=0123456789abcdef0123456789abcdef",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer bootstrap.Close()
	if err := dynamostore.CreateTable(t.Context(), tables, "settle"); err != nil {
		t.Fatal(err)
	}
	job := durable.InstanceID{Machine: "job", ID: "7"}
	if _, err := sqsqueue.New(queues, url, "").Send(t.Context(), durable.Message{
		To: job, Body: []byte(`{"type":"queued","run_id":1,"job_id":7}`), DeduplicationID: "queued",
	}); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failures := make(chan error, 1)
	polled := make(chan error, 1)
	go func() {
		polled <- cloud.Poll(ctx, awslocal.EventSource{
			Queue: "events.fifo", ReportBatchItemFailures: true, Timeout: time.Minute, OnFailure: func(err error) { failures <- err; cancel() },
		}, bootstrap.Start)
	}()
	store := dynamostore.New(tables, "settle")
	for {
		record, err := store.Load(t.Context(), job)
		if err == nil && len(record.State) == 1 && record.State[0] == "queued" && len(record.Outbox) == 0 {
			break
		}
		select {
		case err := <-failures:
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	cancel()
	if err := <-polled; err != nil {
		t.Error(err)
	}
}
