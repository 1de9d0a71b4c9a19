package simulate_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// report is the context of a chart that starts a workflow to write a report, and records how the workflow ends.
type report struct {
	Month string   `json:"month"`
	How   string   `json:"how"`
	Ends  []string `json:"ends"`
}

// reporting hosts the chart of report.
func reporting() durable.Machine {
	type on = statechart.Transition[report]
	type do = []statechart.Action[report]
	settled := []string{statechart.Settled}
	order := statechart.Assign("order", func(r *report, e report) { r.Month, r.How = e.Month, e.How })
	start := statechart.StartWorkflow("report", "report.ended", func(r report, _ statechart.Event) any {
		return map[string]string{"month": r.Month, "how": r.How}
	})
	note := statechart.Assign("note", func(r *report, e statechart.ExecutionEnded) {
		r.Ends = append(r.Ends, fmt.Sprintf("%s %s%s", e.Status, e.Output, e.Error))
	})
	return durable.Host(statechart.Must(statechart.Definition[report]{
		ID: "reporting", Version: 1, Initial: "idle",
		Payloads: statechart.Payloads{"order": statechart.PayloadOf[report](), "report.ended": statechart.PayloadOf[statechart.ExecutionEnded]()},
		States: []statechart.State[report]{
			{ID: "idle", Tags: settled, On: []on{{Event: "order", Target: "writing", Actions: do{order, start}}}},
			{ID: "writing", Tags: settled, On: []on{{Event: "report.ended", Target: "written", Actions: do{note}}}},
			{ID: "written", Tags: settled, On: []on{{Event: "report.ended", Actions: do{note}}}},
		},
	}), durable.MachineConfig{StartedBy: []string{"order"}})
}

const (
	reporting1 = "reporting/1"
	reportARN  = "arn:aws:states:" + awslocal.Region + ":" + awslocal.Account + ":stateMachine:report-writer"
	// writeReport ends after ten seconds, or only at its timeout of half an hour, depending on its input.
	writeReport = `{"StartAt": "How", "TimeoutSeconds": 1800, "States": {
		"How": {"Type": "Choice", "Choices": [{"Variable": "$.how", "StringEquals": "slow", "Next": "Slow"}], "Default": "Write"},
		"Slow": {"Type": "Wait", "Seconds": 86400, "Next": "Written"},
		"Write": {"Type": "Wait", "Seconds": 10, "Next": "Good?"},
		"Good?": {"Type": "Choice", "Choices": [{"Variable": "$.how", "StringEquals": "bad", "Next": "Bad"}, {"Variable": "$.how", "StringEquals": "mute", "Next": "Mute"}], "Default": "Written"},
		"Bad": {"Type": "Fail", "Error": "Report.Bad", "Cause": "nothing was sold"},
		"Mute": {"Type": "Fail"},
		"Written": {"Type": "Pass", "Parameters": {"report.$": "$.month"}, "End": true}}}`
)

// withReports returns the options of a world with the chart and its workflow.
func withReports(hit *faults) options {
	return options{faults: hit, more: []durable.Machine{reporting()}, workflows: map[string]string{"report": reportARN}}
}

// createReportWriter creates the state machine of the workflow.
func (w *world) createReportWriter() {
	w.t.Helper()
	_, err := w.workflows().CreateStateMachine(w.t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String("report-writer"), RoleArn: aws.String(anyRole), Definition: aws.String(writeReport),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// reports returns the ARNs of the executions of the workflow.
func (w *world) reports() (arns []string) {
	w.t.Helper()
	listed, err := w.workflows().ListExecutions(w.t.Context(), &sfn.ListExecutionsInput{StateMachineArn: aws.String(reportARN)})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, execution := range listed.Executions {
		arns = append(arns, *execution.ExecutionArn)
	}
	return arns
}

// reported summarizes an instance: its state, the ends that its chart received, and anything left to do.
func (w *world) reported() string {
	w.t.Helper()
	r := w.record(reporting1)
	var snapshot struct {
		Context report `json:"context"`
	}
	if err := json.Unmarshal(r.Snapshot, &snapshot); err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("%v %v, left: %d executions, %d effects, %v, ignored %d, parked %s",
		r.State, snapshot.Context.Ends, len(r.Executions), owing(r), r.Error, r.Ignored, w.deadLetters())
}

// written returns the summary of an instance whose chart has received one end of the workflow.
func written(end string) string {
	return "[written] [" + end + "], left: 0 executions, 0 effects, <nil>, ignored 0, parked 0"
}

// TestAChartReceivesTheEndOfItsWorkflow plays each way in which an execution can end.
func TestAChartReceivesTheEndOfItsWorkflow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how, end string
		absent   bool
	}{
		"succeeded":   {how: "well", end: `SUCCEEDED {"report":"2026-11"}`},
		"failed":      {how: "bad", end: "FAILED Report.Bad"},
		"said no why": {how: "mute", end: "FAILED "}, // the event lacks the error, so the function calls Step Functions
		"timed out":   {how: "slow", end: "TIMED_OUT "},
		"aborted":     {how: "slow", end: "ABORTED Nobody.Cares"},
		"not started": {how: "well", end: "NOT_STARTED StateMachineDoesNotExist", absent: true},
	} {
		for delivery, fault := range map[string]awslocal.StatusChangeFault{"once": {}, "never": {Lost: true}, "twice": {Duplicated: true}, "late": {Late: 14 * time.Minute}} {
			t.Run(name+", event "+delivery, func(t *testing.T) {
				t.Parallel()
				o := withReports(nil)
				o.statusFault = func(awslocal.StatusChange) awslocal.StatusChangeFault { return fault }
				inWorld(t, o, func(w *world) {
					if !c.absent {
						w.createReportWriter()
					}
					w.send(reporting1, `{"type": "order", "month": "2026-11", "how": "`+c.how+`"}`)
					time.Sleep(time.Minute)
					if name == "aborted" {
						_, err := w.workflows().StopExecution(w.t.Context(), &sfn.StopExecutionInput{ExecutionArn: aws.String(w.reports()[0]), Error: aws.String("Nobody.Cares")})
						if err != nil {
							w.t.Fatal(err)
						}
					}
					time.Sleep(3 * time.Hour)
					if got, want := w.reported(), written(c.end); got != want {
						t.Errorf("want %s, got %s", want, got)
					}
				})
			})
		}
	}
}

// TestAWorkflowsEndArrivesAtOnceUnlessItsEventIsLost measures the time until the chart has received the end.
func TestAWorkflowsEndArrivesAtOnceUnlessItsEventIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault awslocal.StatusChangeFault
		want  time.Duration
	}{"delivered": {want: 10 * time.Second}, "lost": {awslocal.StatusChangeFault{Lost: true}, 15 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := withReports(nil)
			o.statusFault = func(awslocal.StatusChange) awslocal.StatusChangeFault { return c.fault }
			inWorld(t, o, func(w *world) {
				w.createReportWriter()
				began := time.Now()
				w.send(reporting1, `{"type": "order", "month": "2026-11", "how": "well"}`)
				for len(w.record(reporting1).State) == 0 || w.record(reporting1).State[0] != "written" {
					time.Sleep(time.Second)
				}
				if took := time.Since(began).Truncate(time.Second); took < c.want || took > c.want+5*time.Second {
					t.Errorf("want %v, got %v", c.want, took)
				}
			})
		})
	}
}

// TestAWorkflowStartsOnceAndEndsOnceWithAnyFault orders a report with each kind of fault at each AWS call of the
// functions.
func TestAWorkflowStartsOnceAndEndsOnceWithAnyFault(t *testing.T) {
	t.Parallel()
	play := func(w *world, how string) string {
		w.createReportWriter()
		w.send(reporting1, `{"type": "order", "month": "2026-11", "how": "`+how+`"}`)
		time.Sleep(3 * time.Hour)
		return fmt.Sprint(len(w.reports()), " ", w.reported())
	}
	for how, end := range map[string]string{"well": `SUCCEEDED {"report":"2026-11"}`, "slow": "TIMED_OUT "} {
		want := "1 " + written(end)
		quiet := &faults{}
		inWorld(t, withReports(quiet), func(w *world) {
			if got := play(w, how); got != want {
				t.Errorf("without faults: want %s, got %s", want, got)
			}
		})
		calls := len(quiet.calls)
		if calls < 10 {
			t.Fatalf("only %d calls to AWS: %v", calls, quiet.calls)
		}
		for _, kind := range []fault{failBefore, loseAnswer, throttle, duplicate, freeze, dieBefore, dieAfter} {
			t.Run(fmt.Sprint(how, " ", kind), func(t *testing.T) {
				t.Parallel()
				for at := 1; at <= calls; at += stride() {
					hit := &faults{at: at, kind: kind}
					inWorld(t, withReports(hit), func(w *world) {
						if got := play(w, how); got != want {
							t.Errorf("call %d, %s: want %s, got %s", at, cmp.Or(hit.hit(), "none"), want, got)
						}
					})
				}
			})
		}
	}
}
