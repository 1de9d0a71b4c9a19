package awslocal_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
)

// counted is a Lambda function that calls a Go function and returns an empty answer.
type counted func()

func (f counted) Invoke(context.Context, []byte) ([]byte, error) {
	f()
	return []byte("{}"), nil
}

// openWith opens a Cloud with a data folder and the function f.
func openWith(t *testing.T, dir string, f func()) (*awslocal.Cloud, *sfn.Client) {
	t.Helper()
	cloud, err := awslocal.Open(awslocal.Config{Data: dir, Functions: map[string]awslocal.Function{
		"f": {Start: func() awslocal.Invoker { return counted(f) }},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cloud, sfn.New(sfn.Options{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(), Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
}

// startTask starts an execution with the given name. Its task invokes the function after a wait of the given seconds.
func startTask(t *testing.T, client *sfn.Client, function, name, seconds string) (execution string) {
	t.Helper()
	machine, err := client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String("m-" + name), RoleArn: aws.String(anyRole),
		Definition: aws.String(`{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": ` + seconds + `, "Next": "T"},
			"T": {"Type": "Task", "End": true, "Resource": "arn:aws:states:::lambda:invoke", "Parameters": {"FunctionName": "` + function + `"}}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	started, err := client.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn, Name: &name})
	if err != nil {
		t.Fatal(err)
	}
	return *started.ExecutionArn
}

// TestKeep_functions_start_after_their_executions_are_on_disk reads the data folder's file while the function
// runs.
func TestKeep_functions_start_after_their_executions_are_on_disk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var kept, asked atomic.Int64
		cloud, client := openWith(t, dir, func() {
			asked.Add(1)
			files, _ := filepath.Glob(filepath.Join(dir, "*"))
			for _, file := range files {
				if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("the-execution-"+string('a'+rune(asked.Load()-1)))) {
					kept.Add(1)
					return
				}
			}
		})
		defer cloud.Close()
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			startTask(t, client, "f", "the-execution-"+name, "0")
			time.Sleep(time.Second)
		}
		if kept.Load() != 5 || asked.Load() != 5 {
			t.Errorf("of %d invocations, %d found their execution on disk, want 5 of 5", asked.Load(), kept.Load())
		}
	})
}

func TestKeep_closed_Cloud_does_nothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var invoked atomic.Int64
		cloud, client := openWith(t, dir, func() { invoked.Add(1) })
		startTask(t, client, "f", "x", "3600")
		q := addFIFO(t, cloud, "queue.fifo", nil)
		ended := make(chan time.Duration, 2)
		start := time.Now()
		go func() {
			_, err := q.client.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{QueueUrl: &q.url, WaitTimeSeconds: 20},
				func(o *sqs.Options) { o.Retryer = aws.NopRetryer{} })
			if err == nil {
				t.Error("want the long poll to fail when the Cloud is closed")
			}
			ended <- time.Since(start)
		}()
		go func() {
			if err := cloud.Poll(context.Background(), awslocal.EventSource{Queue: q.name}, func() awslocal.Invoker { return counted(func() {}) }); err == nil {
				t.Error("want Poll to fail when the Cloud is closed")
			}
			ended <- time.Since(start)
		}()
		synctest.Wait()
		if err := cloud.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if waited := <-ended; waited > time.Second {
				t.Errorf("a receive returned %v after Close, want at once", waited)
			}
		}
		time.Sleep(2 * time.Hour)
		if n := invoked.Load(); n != 0 {
			t.Errorf("the closed Cloud invoked a function %d times", n)
		}
		cloud, client = openWith(t, dir, func() { invoked.Add(1) })
		defer cloud.Close()
		time.Sleep(time.Second)
		if n := invoked.Load(); n != 1 {
			t.Errorf("the reopened Cloud invoked the function %d times, want 1", n)
		}
		if _, err := client.ListStateMachines(t.Context(), &sfn.ListStateMachinesInput{}); err != nil {
			t.Error(err)
		}
	})
}

func TestStates_versions_and_aliases_of_functions_are_rejected(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:lambda:us-east-1:000000000000:function:"
	for function, want := range map[string]string{
		"f": "", "f:$LATEST": "", arn + "f": "", arn + "f:$LATEST": "",
		"f:PROD": `":PROD"`, arn + "f:PROD": `":PROD"`, arn + "f:7": `":7"`, "g": "Function not found: g",
	} {
		synctest.Test(t, func(t *testing.T) {
			cloud, client := openWith(t, "", func() {})
			execution := startTask(t, client, function, "x", "0")
			time.Sleep(time.Second)
			described, err := client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution})
			if err != nil {
				t.Fatal(err)
			}
			if succeeded := described.Status == types.ExecutionStatusSucceeded; succeeded != (want == "") || !strings.Contains(aws.ToString(described.Cause), want) {
				t.Errorf("%s: got %s with %q, want a cause that contains %q", function, described.Status, aws.ToString(described.Cause), want)
			}
			_ = cloud.Close()
		})
	}
}
