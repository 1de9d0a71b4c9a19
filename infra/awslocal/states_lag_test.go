package awslocal_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/settle-run/settle/infra/awslocal"
)

// TestFault_reads_of_an_execution_lag shows that a call with Fault.Lag returns an earlier state of the execution.
func TestFault_reads_of_an_execution_lag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lag time.Duration
		w := newWorkflows(t, awslocal.New(awslocal.Config{Fault: func(awslocal.Call) awslocal.Fault { return awslocal.Fault{Lag: lag} }}))
		machine := w.create("m", `"S": {"Type": "Wait", "Seconds": 60, "Next": "P"}, "P": {"Type": "Pass", "Result": {"a": 1}, "End": true}`)
		execution := w.start(machine, "x", `{}`)
		w.sleep(90 * time.Second)
		for _, c := range []struct {
			lag  time.Duration
			want string
		}{
			{0, "SUCCEEDED, 6 events, last ExecutionSucceeded 6"},
			{29 * time.Second, "SUCCEEDED, 6 events, last ExecutionSucceeded 6"},
			{31 * time.Second, "RUNNING, 2 events, last WaitStateEntered 2"},
			{time.Hour, "RUNNING, 1 events, last ExecutionStarted 1"},
		} {
			lag = c.lag
			described, err := w.client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution})
			if err != nil {
				t.Fatal(err)
			}
			history, err := w.client.GetExecutionHistory(t.Context(), &sfn.GetExecutionHistoryInput{ExecutionArn: &execution, ReverseOrder: true})
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s, %d events, last %s %d", described.Status, len(history.Events), history.Events[0].Type, history.Events[0].Id)
			if got != c.want || (described.StopDate == nil) != (described.Status == "RUNNING") || (described.Output == nil) != (described.Status == "RUNNING") {
				t.Errorf("lag %v: want %s, got %s", c.lag, c.want, got)
			}
		}
	})
}
