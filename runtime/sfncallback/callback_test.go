package sfncallback_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sfncallback"
)

// fixture is an execution that waits in the state "Wait".
type fixture struct {
	t        *testing.T
	cloud    *awslocal.Cloud
	client   *sfn.Client // without faults
	callback *sfncallback.Callback
	token    instances.Token
	// calls lists the operations that the callback called. `faults` maps the number of a call to its fault.
	calls  []string
	faults map[int]awslocal.Fault
}

// inWorkflow runs a test in virtual time with an execution that waits for a minute.
func inWorkflow(t *testing.T, faults map[int]awslocal.Fault, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{t: t, faults: faults}
		f.cloud = awslocal.New(awslocal.Config{Fault: func(call awslocal.Call) awslocal.Fault {
			if call.Client != "callback" {
				return awslocal.Fault{}
			}
			f.calls = append(f.calls, call.Operation)
			return f.faults[len(f.calls)]
		}})
		config := aws.Config{
			Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: f.cloud.HTTPClient(),
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		}
		f.client = sfn.NewFromConfig(config)
		queues := sqs.NewFromConfig(config)
		queue, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("q")})
		if err != nil {
			t.Fatal(err)
		}
		machine, err := f.client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
			Name: aws.String("m"), RoleArn: aws.String("arn:aws:iam::000000000000:role/any"),
			Definition: aws.String(`{"StartAt": "Before", "States": {"Before": {"Type": "Pass", "Next": "Wait"}, "Wait": {"Type": "Task", "TimeoutSeconds": 60, "HeartbeatSeconds": 20,
				"Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "Parameters": {"QueueUrl": "` + *queue.QueueUrl + `", "MessageBody": {"token.$": "$$.Task.Token"}},
				"Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Go on"}], "Next": "Go on"}, "Go on": {"Type": "Wait", "Seconds": 600, "End": true}}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		execution, err := f.client.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn})
		if err != nil {
			t.Fatal(err)
		}
		received, err := queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl})
		if err != nil {
			t.Fatal(err)
		}
		var body struct{ Token string }
		if err := json.Unmarshal([]byte(*received.Messages[0].Body), &body); err != nil {
			t.Fatal(err)
		}
		f.token = instances.Token{Name: "Wait", Value: instances.Secret(body.Token), Execution: *execution.ExecutionArn}
		config.HTTPClient = f.cloud.Client("callback")
		f.callback = sfncallback.New(sfn.NewFromConfig(config))
		test(f)
	})
}

var (
	success = instances.Answer{Output: json.RawMessage(`{"outcome":"delivered"}`)}
	failure = instances.Answer{Error: "Parcel.Lost", Cause: "nobody knows"}
)

// ended returns how the task ended, according to the history.
func (f *fixture) ended() string {
	f.t.Helper()
	history, err := f.client.GetExecutionHistory(f.t.Context(), &sfn.GetExecutionHistoryInput{ExecutionArn: &f.token.Execution})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, event := range history.Events {
		switch {
		case event.TaskSucceededEventDetails != nil:
			return *event.TaskSucceededEventDetails.Output
		case event.TaskFailedEventDetails != nil:
			return *event.TaskFailedEventDetails.Error + ": " + *event.TaskFailedEventDetails.Cause
		case event.TaskTimedOutEventDetails != nil:
			return "timed out"
		}
	}
	return "waits"
}

func (f *fixture) want(err error, expired bool, ended string, calls ...string) {
	f.t.Helper()
	if got := errors.Is(err, durable.ErrExpired); got != expired || err != nil && !expired {
		f.t.Errorf("want expired %v and no other error, got %v", expired, err)
	}
	if got := f.ended(); got != ended {
		f.t.Errorf("want the task to end with %s, got %s", ended, got)
	}
	if !slices.Equal(f.calls, calls) {
		f.t.Errorf("want the calls %v, got %v", calls, f.calls)
	}
}

func (f *fixture) answer(answer instances.Answer, repeat bool) error {
	return f.callback.Answer(f.t.Context(), f.token, answer, repeat)
}

func TestATaskIsAnswered(t *testing.T) {
	t.Parallel()
	inWorkflow(t, nil, func(f *fixture) {
		f.want(f.answer(success, false), false, `{"outcome":"delivered"}`, "SendTaskSuccess")
	})
	inWorkflow(t, nil, func(f *fixture) {
		f.want(f.answer(failure, false), false, "Parcel.Lost: nobody knows", "SendTaskFailure")
	})
}

// TestARepeatIsDistinguishedFromAnExpiry also shows that Answer reads the history only if the task is over.
func TestARepeatIsDistinguishedFromAnExpiry(t *testing.T) {
	t.Parallel()
	const send, fail, history = "SendTaskSuccess", "SendTaskFailure", "GetExecutionHistory"
	lost, throttled, before := awslocal.Fault{AnswerLost: true}, awslocal.Fault{Throttled: true}, awslocal.Fault{RequestLost: true}
	for name, c := range map[string]struct {
		faults  map[int]awslocal.Fault
		earlier *instances.Answer // an answer given before
		late    bool              // the task has timed out
		unknown bool              // the token has no execution
		gone    bool              // the execution no longer exists
		answer  instances.Answer  // default: success
		repeat  bool
		expired bool
		ended   string
		calls   []string
	}{
		"expired":                        {late: true, expired: true, ended: "timed out", calls: []string{send, history}},
		"expired, possibly a repeat":     {late: true, repeat: true, expired: true, ended: "timed out", calls: []string{send, history}},
		"a repeat":                       {earlier: &success, repeat: true, ended: `{"outcome":"delivered"}`, calls: []string{send, history}},
		"another caller failed the task": {earlier: &failure, repeat: true, expired: true, ended: "Parcel.Lost: nobody knows", calls: []string{send, history}},
		"another caller gave another output": {earlier: &instances.Answer{Output: json.RawMessage(`{"outcome":"lost"}`)}, repeat: true, expired: true,
			ended: `{"outcome":"lost"}`, calls: []string{send, history}},
		"a repeat with its keys in another order": {answer: instances.Answer{Output: json.RawMessage(`{"tags":[],"outcome":"delivered"}`)}, repeat: true,
			earlier: &instances.Answer{Output: json.RawMessage(`{"outcome": "delivered", "tags": []}`)}, ended: `{"outcome": "delivered", "tags": []}`, calls: []string{send, history}},
		"a repeat of a failure": {answer: failure, earlier: &failure, repeat: true, ended: "Parcel.Lost: nobody knows", calls: []string{fail, history}},
		"another caller gave another error": {answer: failure, earlier: &instances.Answer{Error: "Parcel.Late", Cause: "snow"}, repeat: true, expired: true,
			ended: "Parcel.Late: snow", calls: []string{fail, history}},
		"expired, and the execution is deleted":  {late: true, gone: true, ended: "timed out", calls: []string{send, history}},
		"another caller gave the same answer":    {earlier: &success, ended: `{"outcome":"delivered"}`, calls: []string{send, history}},
		"the answer is lost":                     {faults: map[int]awslocal.Fault{1: lost}, ended: `{"outcome":"delivered"}`, calls: []string{send, send, history}},
		"the request is lost":                    {faults: map[int]awslocal.Fault{1: before}, ended: `{"outcome":"delivered"}`, calls: []string{send, send}},
		"throttled, so without effect":           {faults: map[int]awslocal.Fault{1: throttled}, late: true, expired: true, ended: "timed out", calls: []string{send, send, history}},
		"the network delivers the call twice":    {faults: map[int]awslocal.Fault{1: {Duplicated: true}}, ended: `{"outcome":"delivered"}`, calls: []string{send, history}},
		"the history is throttled too":           {faults: map[int]awslocal.Fault{1: lost, 3: throttled}, ended: `{"outcome":"delivered"}`, calls: []string{send, send, history, history}},
		"a repeat for a token without execution": {earlier: &success, unknown: true, repeat: true, ended: `{"outcome":"delivered"}`, calls: []string{send}},
		"expired, for a token without execution": {late: true, unknown: true, expired: true, ended: "timed out", calls: []string{send}},
		"throttled twice, then accepted":         {faults: map[int]awslocal.Fault{1: throttled, 2: throttled}, ended: `{"outcome":"delivered"}`, calls: []string{send, send, send}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorkflow(t, c.faults, func(f *fixture) {
				if c.earlier != nil {
					if err := sfncallback.New(f.client).Answer(f.t.Context(), f.token, *c.earlier, false); err != nil {
						f.t.Fatal(err)
					}
				}
				if c.late {
					time.Sleep(2 * time.Minute)
				}
				execution := f.token.Execution
				switch {
				case c.unknown:
					f.token.Execution = ""
				case c.gone:
					f.token.Execution += "-gone"
				}
				answer := c.answer
				if answer.Output == nil && answer.Error == "" {
					answer = success
				}
				err := f.answer(answer, c.repeat)
				f.token.Execution = execution
				f.want(err, c.expired, c.ended, c.calls...)
			})
		})
	}
}

// TestAnUndecidedAnswerIsAnError: the next delivery retries an answer that may not have arrived.
func TestAnUndecidedAnswerIsAnError(t *testing.T) {
	t.Parallel()
	lost := awslocal.Fault{RequestLost: true}
	inWorkflow(t, map[int]awslocal.Fault{1: lost, 2: lost, 3: lost}, func(f *fixture) {
		err := f.answer(success, false)
		if err == nil || errors.Is(err, durable.ErrExpired) || errors.Is(err, durable.ErrRefused) || errors.Is(err, durable.ErrDenied) {
			f.t.Errorf("want an error other than ErrExpired, ErrRefused and ErrDenied, got %v", err)
		}
		if text := fmt.Sprint(err); strings.Contains(text, f.token.Value.Reveal()) {
			f.t.Errorf("want no token in %s", text)
		}
		if got := f.ended(); got != "waits" || len(f.calls) != 3 {
			f.t.Errorf("want three calls and a task that waits, got %d and %s", len(f.calls), got)
		}
	})
}

func TestAHeartbeatFailsWhenTheTaskNoLongerWaits(t *testing.T) {
	t.Parallel()
	inWorkflow(t, nil, func(f *fixture) {
		for range 4 {
			time.Sleep(14 * time.Second)
			if err := f.callback.Heartbeat(f.t.Context(), f.token); err != nil {
				f.t.Fatal(err)
			}
		}
		time.Sleep(21 * time.Second)
		if err := f.callback.Heartbeat(f.t.Context(), f.token); !errors.Is(err, durable.ErrExpired) {
			f.t.Errorf("want ErrExpired without a heartbeat for 21 of 20 seconds, got %v", err)
		}
		f.token.Value = "no token"
		if err := f.callback.Heartbeat(f.t.Context(), f.token); !errors.Is(err, durable.ErrExpired) {
			f.t.Errorf("want ErrExpired for an invalid token, got %v", err)
		}
	})
}

// A producer's event names a running execution, but has a token that Step Functions never issued. The history never
// shows the token, so the history must not decide.
func TestAnAnswerToAnInvalidTokenExpiresAtOnce(t *testing.T) {
	t.Parallel()
	for _, repeat := range []bool{false, true} {
		inWorkflow(t, nil, func(f *fixture) {
			f.token.Value = "no token"
			f.want(f.answer(success, repeat), true, "waits", "SendTaskSuccess")
		})
	}
}

// The task has timed out. The producer's event names another execution, which still runs and whose history never shows
// the token. Answer returns ErrDenied, because the loop must retry the answer for a limited time only.
func TestAnAnswerIsDeniedWhileAnotherExecutionRuns(t *testing.T) {
	t.Parallel()
	inWorkflow(t, nil, func(f *fixture) {
		time.Sleep(2 * time.Minute)
		described, err := f.client.DescribeExecution(f.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &f.token.Execution})
		if err != nil {
			f.t.Fatal(err)
		}
		other, err := f.client.StartExecution(f.t.Context(), &sfn.StartExecutionInput{StateMachineArn: described.StateMachineArn})
		if err != nil {
			f.t.Fatal(err)
		}
		f.token.Execution = *other.ExecutionArn
		for _, repeat := range []bool{false, true} {
			err := f.answer(success, repeat)
			if !errors.Is(err, durable.ErrDenied) || errors.Is(err, durable.ErrRefused) || errors.Is(err, durable.ErrExpired) {
				f.t.Errorf("repeat %v: want ErrDenied and neither ErrRefused nor ErrExpired, got %v", repeat, err)
			}
			if !strings.Contains(fmt.Sprint(err), "the execution's history does not show how the task ended") {
				f.t.Errorf("repeat %v: want the reason in the error, got %v", repeat, err)
			}
		}
	})
}
