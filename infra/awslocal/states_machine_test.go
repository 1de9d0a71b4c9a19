package awslocal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/infra/awslocal"
)

const passes = `"S": {"Type": "Pass", "End": true}`

func TestStates_unsupported_features_are_rejected_by_name(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		for definition, part := range map[string]string{
			`{"QueryLanguage": "JSONata", "StartAt": "S", "States": {` + passes + `}}`:                                              "JSONata",
			`{"StartAt": "S", "States": {"S": {"Type": "Pass", "QueryLanguage": "JSONata", "End": true}}}`:                          "JSONata",
			`{"StartAt": "S", "States": {"S": {"Type": "Task", "Resource": "arn:aws:states:::x:y", "End": true}}}`:                  "arn:aws:states:::x:y",
			`{"StartAt": "S", "States": {"S": {"Type": "Pass", "Parameters": {"a.$": "States.Nope()"}, "End": true}}}`:              "States.Nope",
			`{"StartAt": "S", "States": {"S": {"Type": "Pass", "Assign": {"a": 1}, "End": true}}}`:                                  "awslocal does not support variables",
			`{"StartAt": "S", "States": {"S": {"Type": "Map", "ItemReader": {}, "ItemProcessor": {"StartAt": "S", "States": {}}}}}`: "awslocal does not support distributed maps",
		} {
			_, err := w.client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{Name: aws.String("n"), RoleArn: aws.String(anyRole), Definition: &definition})
			wantCode(t, err, "InvalidDefinition")
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want an error that contains %s", definition, err, part)
			}
		}
		_, err := w.client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
			Name: aws.String("n"), RoleArn: aws.String(anyRole), Definition: aws.String(`{"StartAt": "S", "States": {` + passes + `}}`), Type: types.StateMachineTypeExpress,
		})
		wantCode(t, err, "StateMachineTypeNotSupported")
		_, err = w.client.ListActivities(t.Context(), &sfn.ListActivitiesInput{})
		wantCode(t, err, "UnknownOperationException")
	})
}

// invokes adapts a function to Invoker.
type invokes func(ctx context.Context, payload []byte) ([]byte, error)

func (i invokes) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return i(ctx, payload) }

func TestStatesLambdaInvoke(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		register(t, w, "doubles", func(_ context.Context, payload []byte) ([]byte, error) {
			var n int
			if err := json.Unmarshal(payload, &n); err != nil {
				return nil, &awslocal.FunctionError{Type: "NoNumber", Message: "it is none"}
			}
			return fmt.Append(nil, 2*n), nil
		})
		machine := w.create("m", `"S": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Parameters": {"FunctionName": "doubles", "Payload.$": "$"},
			"OutputPath": "$.Payload", "Catch": [{"ErrorEquals": ["NoNumber"], "Next": "C"}], "End": true}, "C": {"Type": "Pass", "Result": "caught", "End": true}`)
		good, bad := w.start(machine, "good", `21`), w.start(machine, "bad", `"x"`)
		w.sleep(time.Second)
		w.wantEnd(good, types.ExecutionStatusSucceeded, `42`)
		w.wantEnd(bad, types.ExecutionStatusSucceeded, `"caught"`)
	})
}

func register(t *testing.T, w workflows, name string, f invokes) {
	t.Helper()
	if err := w.queue.cloud.Register(name, awslocal.Function{Start: func() awslocal.Invoker { return f }}); err != nil {
		t.Fatal(err)
	}
}
