package sfncallback_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/sfncallback"
)

const executionARN = "arn:aws:states:us-east-1:000000000000:execution:echo:settle-1"

// clerk is the forwarder's Step Functions client and its sender.
type clerk struct {
	described *sfn.DescribeExecutionOutput // nil if no such execution exists
	refuse    error                        // the error of Send
	looks     int
	sent      []string
}

func (c *clerk) DescribeExecution(context.Context, *sfn.DescribeExecutionInput, ...func(*sfn.Options)) (*sfn.DescribeExecutionOutput, error) {
	c.looks++
	if c.described == nil {
		return nil, &types.ExecutionDoesNotExist{}
	}
	return c.described, nil
}

func (c *clerk) Send(_ context.Context, m durable.Message) (string, error) {
	if c.refuse != nil {
		return "", c.refuse
	}
	_, end, _ := strings.Cut(string(m.Body), `"status":`)
	c.sent = append(c.sent, end)
	return "", nil
}

// forward forwards the end of an execution. `detail` adds keys to the event's detail.
func (c *clerk) forward(ctx context.Context, name, detail string) error {
	body := fmt.Sprintf(`{"detail-type":"Step Functions Execution Status Change","detail":{"executionArn":%q,"name":%q,%s}}`, executionARN, name, detail)
	return sfncallback.NewForwarder(c, c, slog.New(slog.DiscardHandler)).Forward(ctx, body)
}

// described returns the description of an execution that ended with the status.
func described(status types.ExecutionStatus, output, failure string) *sfn.DescribeExecutionOutput {
	out := &sfn.DescribeExecutionOutput{ExecutionArn: aws.String(executionARN), Name: aws.String("settle-1"), Status: status, Input: aws.String(own("settle-1", "x"))}
	if output != "" {
		out.Output = &output
	}
	if failure != "" {
		out.Error = &failure
	}
	return out
}

func TestMissingEventDataIsFetched(t *testing.T) {
	t.Parallel()
	input := fmt.Sprintf(`"input":%q`, own("settle-1", "x"))
	good, bad := described(types.ExecutionStatusSucceeded, `"whole"`, ""), described(types.ExecutionStatusFailed, "", "Whole")
	for name, c := range map[string]struct {
		detail    string
		described *sfn.DescribeExecutionOutput
		looks     int
		want      string
	}{
		"nothing":                {`"status":"SUCCEEDED","output":"1",` + input, good, 0, `"SUCCEEDED","output":1}}`},
		"nothing for a failure":  {`"status":"FAILED","error":"E","cause":"C",` + input, bad, 0, `"FAILED","error":"E","cause":"C"}}`},
		"nothing for a timeout":  {`"status":"TIMED_OUT",` + input, bad, 0, `"TIMED_OUT"}}`},
		"the input":              {`"status":"SUCCEEDED","output":"1","input":null`, good, 1, `"SUCCEEDED","output":"whole"}}`},
		"the input, by its flag": {`"status":"SUCCEEDED","output":"1","input":"","inputDetails":{"included":false}`, good, 1, `"SUCCEEDED","output":"whole"}}`},
		"the output":             {`"status":"SUCCEEDED","output":null,` + input, good, 1, `"SUCCEEDED","output":"whole"}}`},
		"the output, by its flag": {`"status":"SUCCEEDED","output":"","outputDetails":{"included":false},` + input, good, 1,
			`"SUCCEEDED","output":"whole"}}`},
		"the error":              {`"status":"FAILED","error":null,` + input, bad, 1, `"FAILED","error":"Whole"}}`},
		"the error, without one": {`"status":"FAILED",` + input, described(types.ExecutionStatusFailed, "", ""), 1, `"FAILED"}}`},
	} {
		clerk := &clerk{described: c.described}
		err := clerk.forward(t.Context(), "settle-1", c.detail)
		if got := strings.Join(clerk.sent, " "); err != nil || got != c.want || clerk.looks != c.looks {
			t.Errorf("%s: want %s after %d looks, got %s after %d, and %v", name, c.want, c.looks, got, clerk.looks, err)
		}
	}
}

func TestAnEndThatIsNotYetDescribedIsForwardedLater(t *testing.T) {
	t.Parallel()
	clerk := &clerk{described: described(types.ExecutionStatusRunning, "", "")}
	err := clerk.forward(t.Context(), "settle-1", `"status":"SUCCEEDED"`)
	if err == nil || errors.Is(err, sfncallback.ErrNotStatusChange) || !strings.HasSuffix(err.Error(), "is SUCCEEDED, but DescribeExecution says RUNNING") || len(clerk.sent) > 0 {
		t.Errorf("want an error that can be retried and nothing sent, got %v and %v", err, clerk.sent)
	}
}

func TestAnUnknownExecutionIsNotRetriedForever(t *testing.T) {
	t.Parallel()
	clerk := &clerk{}
	if err := clerk.forward(t.Context(), "settle-1", `"status":"SUCCEEDED"`); err != nil || len(clerk.sent) > 0 || clerk.looks != 1 {
		t.Errorf("want it left to polling after one DescribeExecution, got %v, %v and %d", err, clerk.sent, clerk.looks)
	}
}

// EventBridge's rule matches all executions of an account. The forwarder must skip most of them without a call.
func TestForeignExecutionsCostNoCall(t *testing.T) {
	t.Parallel()
	clerk := &clerk{described: described(types.ExecutionStatusSucceeded, "1", "")}
	for name, status := range map[string]string{"else-1": "SUCCEEDED", "settle-1": "RUNNING"} {
		if err := clerk.forward(t.Context(), name, fmt.Sprintf(`"status":%q`, status)); err != nil || clerk.looks != 0 || len(clerk.sent) > 0 {
			t.Errorf("%s, %s: want it skipped, got %v, %d calls of DescribeExecution and %v", name, status, err, clerk.looks, clerk.sent)
		}
	}
}

func TestAnEndThatCannotBeSentIsAnError(t *testing.T) {
	t.Parallel()
	clerk := &clerk{refuse: errors.New("throttled")}
	err := clerk.forward(t.Context(), "settle-1", fmt.Sprintf(`"status":"ABORTED","input":%q`, own("settle-1", "x")))
	if !errors.Is(err, clerk.refuse) || errors.Is(err, sfncallback.ErrNotStatusChange) {
		t.Errorf("want the error of sending, got %v", err)
	}
}
