package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
)

// TestDevRunsTheDeployedConsumer builds functions/consumer. It checks that the consumer receives its settings and
// events, and checks the queue's visibility timeout.
func TestDevRunsTheDeployedConsumer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", path, "../../functions/consumer")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the consumer: %v\n%s", err, out)
	}
	dev := startDev(t, "--consumer", path, "--concurrency", "1", "--function-timeout", "15m",
		"--job-pick-up-timeout", "10ms", "--job-launches-max", "3", "--consumer-env", "SETTLE_JOB_LAUNCHES_MAX=1")
	send := func(arguments ...string) {
		t.Helper()
		if code, errOut := dev.settle(t, append([]string{"send", "--local"}, arguments...)...); code != command.ExitDone {
			t.Fatalf("expected exit code 0 of send, got %d and %q", code, errOut)
		}
	}
	send("job/run-1-job-2", "queued", "run_id:=1", "job_id:=2", `labels:=["self-hosted"]`)
	// The process logs JSON, as on Lambda. It launches one runner only.
	launched := strings.Join(dev.screen.await(t, `"from":["queued"],"to":["not_picked_up"]`), "\n")
	if launches := strings.Count(launched, `"msg":"demo: a runner would be launched now"`); launches != 1 {
		t.Errorf("expected 1 launch, got %d in:\n%s", launches, launched)
	}
	send("enrich/7", "ENRICH", "subject=https://example.com/company/7")
	dev.screen.await(t, dev.gateway+"/webhooks/enricher/7/")
	if got := visibilityTimeout(t, dev.aws); got != "1125" {
		t.Errorf("expected %s to hide messages for 1125 s, got %s", stack.Queue, got)
	}
	dev.stop()
	for range dev.screen.lines { // until the output ends
	}
	if code := <-dev.ended; code != command.ExitDone {
		t.Errorf("expected exit code 0 after being stopped, got %d", code)
	}
}

func TestDevContinuesWithAnotherFunctionTimeout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, step := range [][2]string{{"10s", "60"}, {"1m", "285"}} {
		flag, want := step[0], step[1]
		dev := startDev(t, "--data", dir, "--function-timeout", flag)
		if got := visibilityTimeout(t, dev.aws); got != want {
			t.Errorf("--function-timeout %s: expected %s to hide messages for %s s, got %s", flag, stack.Queue, want, got)
		}
		dev.stop()
		for range dev.screen.lines { // until the output ends
		}
		<-dev.ended
	}
}

func TestDevReportsAConsumerThatIsNotExecutable(t *testing.T) {
	t.Parallel()
	got := user{t: t}.run("dev", "--aws-port", "0", "--http-port", "0", "--consumer", "nowhere/bootstrap")
	if got.code != command.ExitFailed || strings.Count(got.err, "\n") != 1 {
		t.Errorf("expected exit code 1 and one line, got %d and %q", got.code, got.err)
	}
	contains(t, got.err, "running the consumer: ", "expected an executable", "nowhere/bootstrap")
}

// visibilityTimeout returns the visibility timeout of the FIFO queue, in seconds.
func visibilityTimeout(t *testing.T, endpoint string) string {
	t.Helper()
	config := aws.Config{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")}
	attribute := types.QueueAttributeNameVisibilityTimeout
	output, err := sqs.NewFromConfig(config).GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(stack.Queue), AttributeNames: []types.QueueAttributeName{attribute},
	})
	if err != nil {
		t.Fatal(err)
	}
	return output.Attributes[string(attribute)]
}
