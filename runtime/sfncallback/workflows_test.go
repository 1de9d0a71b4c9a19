package sfncallback_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sfncallback"
	"github.com/settle-run/settle/runtime/statechart"
)

const stateMachine = "arn:aws:states:us-east-1:000000000000:stateMachine:"

// desk is a local Step Functions with the state machine "echo". The machine returns its input's "text" after a minute,
// and fails if the input has no "text". The forwarder receives the status changes of its executions.
type desk struct {
	t         *testing.T
	client    *sfn.Client
	queues    *sqs.Client
	workflows *sfncallback.Workflows
	// faults apply to the next calls of workflows. `refuser` fails calls before they reach Step Functions.
	faults  []awslocal.Fault
	refuser *refuser
	// sent lists the messages that the forwarder sent.
	sent []string
}

func (d *desk) Send(_ context.Context, m durable.Message) (string, error) {
	d.sent = append(d.sent, fmt.Sprint(m.To, " ", m.DeduplicationID, " ", string(m.Body)))
	return "", nil
}

func atDesk(t *testing.T, test func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t}
		cloud := awslocal.New(awslocal.Config{StatusChanges: "changes", Fault: func(call awslocal.Call) awslocal.Fault {
			if call.Client != "workflows" {
				return awslocal.Fault{}
			}
			if len(d.faults) == 0 {
				return awslocal.Fault{}
			}
			fault := d.faults[0]
			d.faults = d.faults[1:]
			return fault
		}})
		config := aws.Config{
			Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(),
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		}
		d.client, d.queues = sfn.NewFromConfig(config), sqs.NewFromConfig(config)
		if _, err := d.queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("changes")}); err != nil {
			t.Fatal(err)
		}
		_, err := d.client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
			Name: aws.String("echo"), RoleArn: aws.String("arn:aws:iam::000000000000:role/any"),
			Definition: aws.String(`{"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 60, "Next": "Echo"}, "Echo": {"Type": "Pass", "InputPath": "$.text", "End": true}}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		d.refuser = &refuser{codes: map[string]string{}, next: cloud.Client("workflows")}
		config.HTTPClient = d.refuser
		d.workflows, err = sfncallback.NewWorkflows(sfn.NewFromConfig(config), map[string]string{"echo": stateMachine + "echo", "gone": stateMachine + "gone"})
		if err != nil {
			t.Fatal(err)
		}
		test(d)
	})
}

func (d *desk) start(workflow, name, input string) (arn string, err error) {
	return d.workflows.Start(d.t.Context(), instances.Execution{Name: name, Workflow: workflow}, []byte(input))
}

// forward passes the pending events to the forwarder.
func (d *desk) forward() {
	d.t.Helper()
	forwarder := sfncallback.NewForwarder(d.client, d, slog.New(slog.NewTextHandler(io.Discard, nil)))
	for {
		out, err := d.queues.ReceiveMessage(d.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String("changes"), MaxNumberOfMessages: 10})
		if err != nil {
			d.t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return
		}
		for _, m := range out.Messages {
			if err := forwarder.Forward(d.t.Context(), *m.Body); err != nil {
				d.t.Error(err)
			}
		}
	}
}

func TestAnExecutionIsStartedOnceUnderItsName(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		const want = "arn:aws:states:us-east-1:000000000000:execution:echo:settle-1"
		for i, input := range []string{`{"text":1}`, `{"text":1}`, `{"text":2}`, `{"text":1}`} {
			if i == 3 {
				time.Sleep(2 * time.Minute) // The first execution has ended by then.
			}
			if arn, err := d.start("echo", "settle-1", input); err != nil || arn != want {
				d.t.Errorf("start %d: want %s, got %s and %v", i, want, arn, err)
			}
		}
		listed, err := d.client.ListExecutions(d.t.Context(), &sfn.ListExecutionsInput{StateMachineArn: aws.String(stateMachine + "echo")})
		if err != nil || len(listed.Executions) != 1 {
			d.t.Errorf("want one execution, got %v and %v", listed, err)
		}
	})
}

func TestAStartIsRetriedAndCountsAsStarted(t *testing.T) {
	t.Parallel()
	lost, before, throttled := awslocal.Fault{AnswerLost: true}, awslocal.Fault{RequestLost: true}, awslocal.Fault{Throttled: true}
	for name, c := range map[string]struct {
		faults []awslocal.Fault
		fails  bool // the next delivery retries the start
	}{
		"the answer is lost":         {faults: []awslocal.Fault{lost}},
		"the request is lost":        {faults: []awslocal.Fault{before}},
		"throttled twice":            {faults: []awslocal.Fault{throttled, throttled}},
		"each answer is lost":        {faults: []awslocal.Fault{lost, lost, lost}, fails: true},
		"throttled three times":      {faults: []awslocal.Fault{throttled, throttled, throttled}, fails: true},
		"the request is always lost": {faults: []awslocal.Fault{before, before, before}, fails: true},
	} {
		atDesk(t, func(d *desk) {
			d.faults = c.faults
			_, err := d.start("echo", "settle-1", `{"text":1}`)
			if refused := new(durable.RefusedError); (err != nil) != c.fails || errors.As(err, &refused) {
				d.t.Errorf("%s: want an error %v, and one that can be retried, got %v", name, c.fails, err)
			}
			if calls := d.refuser.calls; calls != min(len(c.faults)+1, 3) {
				d.t.Errorf("%s: want a call for each fault, one more, and three at most, got %d", name, calls)
			}
			if _, err := d.start("echo", "settle-1", `{"text":1}`); err != nil {
				d.t.Errorf("%s: want the next start to find it, got %v", name, err)
			}
		})
	}
}

// The first call starts the execution and loses its answer. The second call is denied, and DescribeExecution does not
// find the execution yet. So Start must not report the refusal. It returns another error, and the loop calls Start
// again.
func TestAStartWithALostAnswerIsNotRefused(t *testing.T) {
	t.Parallel()
	for _, look := range []string{"ExecutionDoesNotExist", "AccessDeniedException", ""} {
		for name, c := range map[string]struct {
			fault   awslocal.Fault
			refused bool
		}{
			"the answer is lost":  {awslocal.Fault{AnswerLost: true}, false},
			"the request is lost": {awslocal.Fault{RequestLost: true}, false}, // Start cannot know that the call started nothing.
			"throttled":           {awslocal.Fault{Throttled: true}, true},
		} {
			atDesk(t, func(d *desk) {
				d.faults = []awslocal.Fault{c.fault}
				d.refuser.codes["StartExecution #2"], d.refuser.codes["DescribeExecution"] = "AccessDeniedException", look
				arn, err := d.start("echo", "settle-1", `{"text":1}`)
				refused := new(durable.RefusedError)
				switch {
				case look == "" && c.fault.AnswerLost:
					if want := "arn:aws:states:us-east-1:000000000000:execution:echo:settle-1"; arn != want || err != nil {
						d.t.Errorf("%s: want %s, got %s and %v", name, want, arn, err)
					}
				case err == nil || errors.As(err, &refused) != c.refused:
					d.t.Errorf("%s, then denied, and %q for the look-up: want an error, refused %v, got %v", name, look, c.refused, err)
				}
				listed, err := d.client.ListExecutions(d.t.Context(), &sfn.ListExecutionsInput{StateMachineArn: aws.String(stateMachine + "echo")})
				if err != nil || (len(listed.Executions) == 1) != c.fault.AnswerLost {
					d.t.Errorf("%s: want an execution %v, got %v and %v", name, c.fault.AnswerLost, listed, err)
				}
			})
		}
	}
}

// refusing is a client whose calls fail: StartExecution fails with `code`, and DescribeExecution with `look`. If `look`
// is empty, the execution runs.
type refusing struct{ code, look string }

func (r refusing) StartExecution(context.Context, *sfn.StartExecutionInput, ...func(*sfn.Options)) (*sfn.StartExecutionOutput, error) {
	return nil, &smithy.GenericAPIError{Code: r.code}
}

func (r refusing) DescribeExecution(_ context.Context, input *sfn.DescribeExecutionInput, _ ...func(*sfn.Options)) (*sfn.DescribeExecutionOutput, error) {
	switch r.look {
	case "":
		return &sfn.DescribeExecutionOutput{ExecutionArn: input.ExecutionArn, Status: types.ExecutionStatusRunning}, nil
	case "ExecutionDoesNotExist":
		return nil, &types.ExecutionDoesNotExist{}
	default:
		return nil, &smithy.GenericAPIError{Code: r.look}
	}
}

// startRefused starts an execution of the state machine "echo" through the client.
func startRefused(t *testing.T, client refusing, machine string) (arn string, err error) {
	t.Helper()
	workflows, err := sfncallback.NewWorkflows(client, map[string]string{"echo": stateMachine + machine})
	if err != nil {
		t.Fatal(err)
	}
	return workflows.Start(t.Context(), instances.Execution{Name: "settle-1", Workflow: "echo"}, []byte(`{}`))
}

func TestAPermanentStartErrorIsRefused(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		for want, start := range map[string]func() (string, error){
			"Settle.UnknownWorkflow":   func() (string, error) { return d.start("other", "settle-1", `{}`) },
			"StateMachineDoesNotExist": func() (string, error) { return d.start("gone", "settle-1", `{}`) },
			"InvalidName":              func() (string, error) { return d.start("echo", "settle 1", `{}`) },
			"InvalidExecutionInput":    func() (string, error) { return d.start("echo", "settle-1", `{`) },
		} {
			_, err := start()
			if refused := new(durable.RefusedError); !errors.As(err, &refused) || refused.Code != want {
				d.t.Errorf("want a RefusedError with %s, got %v", want, err)
			}
		}
	})
	for code, want := range map[string]bool{"AccessDeniedException": true, "InvalidArn": true, "StateMachineDeleting": true, "ExecutionLimitExceeded": false, "ThrottlingException": false, "InternalServerError": false, "ExpiredTokenException": false} {
		synctest.Test(t, func(t *testing.T) {
			_, err := startRefused(t, refusing{code, "ExecutionDoesNotExist"}, "echo")
			if refused := new(durable.RefusedError); err == nil || errors.As(err, &refused) != want {
				t.Errorf("%s: want refused %v, got %v", code, want, err)
			}
		})
	}
}

// TestAStartedExecutionIsNotRefused starts an execution that an earlier start may have started. Step Functions refuses
// this start, because the state machine is being deleted or the permission is gone.
func TestAStartedExecutionIsNotRefused(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:states:us-east-1:000000000000:execution:echo:settle-1"
	for look, c := range map[string]struct {
		arn, refused string
		started      bool
	}{
		"":                      {arn, "", true},
		"ExecutionDoesNotExist": {arn, "StateMachineDeleting", false}, // DescribeExecution may lag.
		"AccessDeniedException": {arn, "StateMachineDeleting", false},
		"ThrottlingException":   {"", "", false},
	} {
		got, err := startRefused(t, refusing{"StateMachineDeleting", look}, "echo")
		refused := &durable.RefusedError{}
		errors.As(err, &refused)
		if got != c.arn || refused.Code != c.refused || (err == nil) != c.started {
			t.Errorf("%q: want %q and the refusal %q, got %q and %v", look, c.arn, c.refused, got, err)
		}
	}
}

func TestAnExistingExecutionsARNHasNoVersion(t *testing.T) {
	t.Parallel()
	for _, machine := range []string{"echo", "echo:7", "echo:live"} {
		const want = "arn:aws:states:us-east-1:000000000000:execution:echo:settle-1"
		if got, err := startRefused(t, refusing{code: "StateMachineDeleting"}, machine); got != want || err != nil {
			t.Errorf("%s: want %s, got %s and %v", machine, want, got, err)
		}
	}
}

func TestAWorkflowIsAStateMachine(t *testing.T) {
	t.Parallel()
	for _, arn := range []string{
		"", "report", "arn:aws:states:eu-central-1:123456789012:stateMachine", "urn:aws:states:eu-central-1:123456789012:stateMachine:report",
		"arn:aws:sqs:eu-central-1:123456789012:stateMachine:report", "arn:aws:states:eu-central-1:123456789012:execution:report:1",
	} {
		_, err := sfncallback.NewWorkflows(nil, map[string]string{"report": arn})
		if err == nil || !strings.Contains(err.Error(), `workflow "report": expected the ARN of a state machine`) || !strings.HasSuffix(err.Error(), fmt.Sprintf("got %q", arn)) {
			t.Errorf("want %q to be refused, got %v", arn, err)
		}
	}
	for _, arn := range []string{"arn:aws:states:eu-central-1:123456789012:stateMachine:report", "arn:aws-cn:states:cn-north-1:123456789012:stateMachine:report:live"} {
		if _, err := sfncallback.NewWorkflows(nil, map[string]string{"report": arn}); err != nil {
			t.Errorf("want %s to be accepted, got %v", arn, err)
		}
	}
}

func TestTheEndOfAnExecutionIsDescribed(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		good, err := d.start("echo", "settle-good", `{"text":"hello"}`)
		if err != nil {
			d.t.Fatal(err)
		}
		bad, err := d.start("echo", "settle-bad", `{}`)
		if err != nil {
			d.t.Fatal(err)
		}
		if end, err := d.workflows.Describe(d.t.Context(), good); end != nil || err != nil {
			d.t.Errorf("expected no end while it runs, got %+v and %v", end, err)
		}
		time.Sleep(time.Minute)
		end, err := d.workflows.Describe(d.t.Context(), good)
		if err != nil || end == nil || end.Status != statechart.ExecutionSucceeded || string(end.Output) != `"hello"` || end.Error != "" {
			d.t.Errorf(`want SUCCEEDED with "hello", got %+v and %v`, end, err)
		}
		end, err = d.workflows.Describe(d.t.Context(), bad)
		if err != nil || end == nil || end.Status != statechart.ExecutionFailed || end.Error != "States.Runtime" || end.Cause == "" || len(end.Output) > 0 {
			d.t.Errorf("want FAILED with States.Runtime, got %+v and %v", end, err)
		}
		for _, arn := range []string{good + "x", "no ARN"} {
			if _, err := d.workflows.Describe(d.t.Context(), arn); !errors.Is(err, durable.ErrNoExecution) {
				d.t.Errorf("%s: want ErrNoExecution, got %v", arn, err)
			}
		}
	})
}

// own returns the input of an execution that an instance started under the name.
func own(name, text string) string {
	return fmt.Sprintf(`{"$settle":{"instance":"month/11","execution":%q,"incarnation":7},"text":%q}`, name, text)
}

func TestAnEndIsSentToItsInstance(t *testing.T) {
	t.Parallel()
	const told = `month/11 settle-1.ended {"type":"settle.execution.ended","$incarnation":7,"end":{"workflow":"","name":"settle-1",` +
		`"execution":"arn:aws:states:us-east-1:000000000000:execution:echo:settle-1","status":`
	for name, c := range map[string]struct {
		execution, input string
		want             []string
	}{
		"its own":                  {"settle-1", own("settle-1", "hi"), []string{told + `"SUCCEEDED","output":"hi"}}`}},
		"too long for EventBridge": {"settle-1", own("settle-1", strings.Repeat("x", 250<<10)), []string{told + `"SUCCEEDED","output":"` + strings.Repeat("x", 250<<10) + `"}}`}},
		"a copy of an input":       {"settle-2", own("settle-1", "hi"), nil},
		"another's":                {"settle-1", `{"text":"hi"}`, nil},
		"another's name":           {"else-1", own("else-1", "hi"), nil},
		"no object":                {"settle-1", `[1]`, nil},
	} {
		atDesk(t, func(d *desk) {
			if _, err := d.start("echo", c.execution, c.input); err != nil {
				d.t.Fatal(err)
			}
			d.forward() // The execution still runs.
			if len(d.sent) > 0 {
				d.t.Errorf("%s: want nothing while it runs, got %v", name, d.sent)
			}
			time.Sleep(time.Minute)
			d.forward()
			if strings.Join(d.sent, "\n") != strings.Join(c.want, "\n") {
				d.t.Errorf("%s: want %.300s, got %.300s", name, c.want, d.sent)
			}
		})
	}
}

func TestAForeignMessageIsLeftToTheQueue(t *testing.T) {
	t.Parallel()
	forwarder := sfncallback.NewForwarder(nil, nil, slog.New(slog.DiscardHandler))
	for _, body := range []string{``, `{}`, `{"detail-type":"Object Created","detail":{"executionArn":"x"}}`, `{"detail-type":"Step Functions Execution Status Change","detail":{}}`} {
		if err := forwarder.Forward(t.Context(), body); !errors.Is(err, sfncallback.ErrNotStatusChange) {
			t.Errorf("%s: want ErrNotStatusChange, got %v", body, err)
		}
	}
}

// The instance was imported from another Region. The consumer's role does not permit reading that execution.
func TestAnExecutionOfAnotherRegionDoesNotExist(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		d.refuser.codes["DescribeExecution"] = "AccessDeniedException"
		for execution, want := range map[string]error{
			"arn:aws:states:eu-west-1:000000000000:execution:echo:one": durable.ErrNoExecution,
			"arn:aws:states:us-east-1:111122223333:execution:echo:one": durable.ErrNoExecution,
			"arn:aws:states:us-east-1:000000000000:execution:echo:one": durable.ErrDenied,
		} {
			if _, err := d.workflows.Describe(d.t.Context(), execution); !errors.Is(err, want) {
				d.t.Errorf("%s: got %v, want %v", execution, err, want)
			}
		}
	})
}
