package awslocal_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/infra/awslocal"
)

const anyRole = "arn:aws:iam::000000000000:role/any"

// workflows is the Step Functions service of a Cloud, accessed through the SDK, with a FIFO queue for its tasks.
type workflows struct {
	t      *testing.T
	client *sfn.Client
	queue  queue
}

// inWorkflows runs a test in virtual time with a new Cloud.
func inWorkflows(t *testing.T, test func(t *testing.T, w workflows)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, map[string]string{"VisibilityTimeout": "43200"})
		w := newWorkflows(t, q.cloud)
		w.queue = q
		test(t, w)
	})
}

func newWorkflows(t *testing.T, cloud *awslocal.Cloud) workflows {
	t.Helper()
	return workflows{t: t, client: sfn.New(sfn.Options{
		Region:       awslocal.Region,
		BaseEndpoint: aws.String("http://aws.local"),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:   cloud.HTTPClient(),
		Retryer:      aws.NopRetryer{},
	})}
}

// create creates a machine with these states. "S" is the first state.
func (w workflows) create(name, states string) string {
	w.t.Helper()
	out, err := w.client.CreateStateMachine(w.t.Context(), &sfn.CreateStateMachineInput{
		Name: &name, RoleArn: aws.String(anyRole), Definition: aws.String(`{"StartAt": "S", "States": {` + states + `}}`),
	})
	if err != nil {
		w.t.Fatalf("CreateStateMachine: %v", err)
	}
	return *out.StateMachineArn
}

func (w workflows) start(machine, name, input string) string {
	w.t.Helper()
	out, err := w.client.StartExecution(w.t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: &name, Input: &input})
	if err != nil {
		w.t.Fatalf("StartExecution: %v", err)
	}
	return *out.ExecutionArn
}

// wantEnd fails unless the execution has the status and the texts in `want`: its output, or its error and cause.
func (w workflows) wantEnd(execution string, status types.ExecutionStatus, want ...string) {
	w.t.Helper()
	out, err := w.client.DescribeExecution(w.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution})
	if err != nil {
		w.t.Fatalf("DescribeExecution: %v", err)
	}
	var got []string
	for _, part := range []*string{out.Output, out.Error, out.Cause} {
		if part != nil {
			got = append(got, *part)
		}
	}
	if out.Status != status || strings.Join(got, "|") != strings.Join(want, "|") {
		w.t.Fatalf("got %s %q, want %s %q", out.Status, got, status, want)
	}
}

// sleep lets virtual time pass, and waits until everything due has happened.
func (w workflows) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
