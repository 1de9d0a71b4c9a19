package main

import (
	"context"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

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
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// TestBootstrapStoresAnEvent runs the deployed executable as Lambda does: only the environment configures it, it calls
// AWS over a socket, and it has its role's permissions.
func TestBootstrapStoresAnEvent(t *testing.T) {
	t.Parallel()
	path := buildConsumer(t)
	cloud := awslocal.New(awslocal.Config{})
	roles, err := guard.NewRoles(infra.Stack{Name: "settle", Account: awslocal.Account, Region: awslocal.Region, Values: map[string]string{"Table": "settle"}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(roles.Handler(cloud))
	defer server.Close()
	config := aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String(server.URL),
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
	url := create("settle.fifo", map[string]string{"FifoQueue": "true", "VisibilityTimeout": "900"})
	bootstrap, err := awslocal.NewBootstrap(awslocal.BootstrapConfig{
		Path: path, FunctionName: "consumer", Logs: t.Output(),
		Env: []string{
			"AWS_ENDPOINT_URL=" + server.URL,
			"AWS_ACCESS_KEY_ID=consumer",
			host.Table + "=settle",
			host.QueueURL + "=" + url,
			host.DeadLetterQueueURL + "=" + create("settle-dlq.fifo", map[string]string{"FifoQueue": "true"}),
			host.DelayQueueURL + "=" + create("settle-delay", nil),
			samples.SignupCodeKey + "=0123456789abcdef0123456789abcdef",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer bootstrap.Close()
	if err := dynamostore.CreateTable(t.Context(), tables, "settle"); err != nil {
		t.Fatal(err)
	}
	job := instances.ID{Machine: "job", ID: "7"}
	if _, err := sqsqueue.New(queues, url, "").Send(t.Context(), durable.Message{
		To: job, Body: []byte(`{"type":"queued","run_id":1,"job_id":7,"labels":["self-hosted"]}`), DeduplicationID: "queued",
	}); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failures := make(chan error, 1)
	polled := make(chan error, 1)
	go func() {
		polled <- cloud.Poll(ctx, awslocal.EventSource{
			Queue: "settle.fifo", ReportBatchItemFailures: true, Timeout: 15 * time.Minute, OnFailure: func(err error) { failures <- err; cancel() },
		}, bootstrap.Start)
	}()
	awaitQueued(t, dynamostore.New(tables, "settle"), job, roles, failures)
	cancel()
	if err := <-polled; err != nil {
		t.Error(err)
	}
	if unused := guard.Unused(roles); slices.Contains(unused, "consumer: dynamodb:PutItem on ${Table.Arn}") {
		t.Errorf("expected the consumer to use its role, unused permissions: %v", unused)
	}
}

func buildConsumer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", path, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the consumer: %v\n%s", err, out)
	}
	return path
}

// awaitQueued waits until the stored instance is in the state `queued` and its effects are performed.
func awaitQueued(t *testing.T, store *dynamostore.Store, id instances.ID, roles *guard.Roles, failures <-chan error) {
	t.Helper()
	for {
		record, err := store.Load(t.Context(), id)
		if err == nil && len(record.State) == 1 && record.State[0] == "queued" && !record.Owes() {
			return
		}
		if err := roles.Denied(); err != nil {
			t.Fatalf("the consumer made calls that its role does not allow:\n%v", err)
		}
		select {
		case err := <-failures:
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
