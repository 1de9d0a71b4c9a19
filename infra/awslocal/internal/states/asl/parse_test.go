package asl_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states/asl"
)

const (
	send  = `"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage", "End": true`
	sends = send + `, "Parameters": {"QueueUrl": "q", "MessageBody": "b"}`
	inner = `{"StartAt": "I", "States": {"I": {"Type": "Pass", "End": true}}}`
)

// findings returns the findings of a machine with one state that has these fields.
func findings(fields string) string {
	_, found := asl.Parse(`{"StartAt": "S", "States": {"S": {` + fields + `}}}`)
	if len(found) == 0 {
		return ""
	}
	return found.String()
}

func TestFindingsInStates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ fields, want string }{
		{`"Type": "Nope"`, "Field 'Type': expected Pass, Task, Choice, Wait, Succeed, Fail, Parallel or Map, got Nope at /States/S/Type"},
		{`"End": true`, "Field 'Type': it is required at /States/S/Type"},
		{`"Type": "Pass"`, "These fields are required: [Next] or [End] at /States/S"},
		{`"Type": "Pass", "End": false`, "These fields are required: [Next] or [End]"},
		{`"Type": "Pass", "End": true, "Next": "S"`, "cannot be combined with Next"},
		{`"Type": "Pass", "Next": "T"`, "MISSING_TRANSITION_TARGET: Missing 'Next' target: T at /States/S/Next"},
		{`"Type": "Pass", "End": true, "Wait": 1`, "Field 'Wait' is not supported here at /States/S/Wait"},
		{`"Type": "Pass", "End": true, "Assign": {}`, "awslocal does not support variables at /States/S/Assign"},
		{`"Type": "Pass", "End": true, "QueryLanguage": "JSONata"`, "awslocal does not support JSONata: write the state machine with JSONPath at /States/S/QueryLanguage"},
		{`"Type": "Pass", "End": true, "Output": "{% 1 %}"`, "awslocal does not support JSONata"},
		{`"Type": "Pass", "End": true, "InputPath": "a"`, "does not begin with '$' at /States/S/InputPath"},
		{`"Type": "Pass", "End": true, "InputPath": 1`, "expected a non-empty string"},
		{`"Type": "Pass", "End": true, "ResultPath": "$.a[*]"`, "not a Reference Path"},
		{`"Type": "Pass", "End": true, "ResultPath": "$$.a"`, "cannot write to the context object"},
		{`"Type": "Pass", "End": true, "Parameters": {"a.$": "x"}`, "The value for the field 'a.$' must be a valid JSONPath or a valid intrinsic function call: the path 'x' does not begin with '$' at /States/S/Parameters/a.$"},
		{`"Type": "Pass", "End": true, "Parameters": {"l": [{"a.$": "States.Nope()"}]}`, "unknown function 'States.Nope'"},
		{`"Type": "Pass", "End": true, "Parameters": {"a.$": 1}`, "must be a valid JSONPath"},
		{`"Type": "Pass", "End": true, "Parameters": {"a.$": "$", "a": 1}`, "have the same name"},
		{`"Type": "Pass", "End": true, "Parameters": []`, "expected a JSON object"},
		{`"Type": "Succeed", "End": true`, "Field 'End' is not supported here"},
		{`"Type": "Fail", "Error": "E", "ErrorPath": "$.e"`, "cannot be combined with ErrorPath"},
		{`"Type": "Wait", "End": true`, "exactly one of Seconds, SecondsPath, Timestamp and TimestampPath, got []"},
		{`"Type": "Wait", "End": true, "Seconds": 1, "Timestamp": "2026-01-02T03:04:05Z"`, "got [Seconds, Timestamp]"},
		{`"Type": "Wait", "End": true, "Seconds": -1`, "integer between 0 and 99999999, got -1"},
		{`"Type": "Wait", "End": true, "Timestamp": "tomorrow"`, "expected a timestamp"},
		{`"Type": "Choice"`, "at least one choice"},
		{`"Type": "Choice", "Choices": [{"Variable": "$", "IsNull": true}]`, "Field 'Next': it is required at /States/S/Choices[0]/Next"},
		{`"Type": "Choice", "Choices": [{"Next": "S"}]`, "exactly one comparison operator, And, Or or Not, got 0 at /States/S/Choices[0]"},
		{`"Type": "Choice", "Choices": [{"Variable": "$", "IsNull": true, "IsString": true, "Next": "S"}]`, "got 2"},
		{`"Type": "Choice", "Choices": [{"IsNull": true, "Next": "S"}]`, "expected a path at /States/S/Choices[0]/Variable"},
		{`"Type": "Choice", "Choices": [{"Variable": "$", "StringEquals": 1, "Next": "S"}]`, "expected a string at /States/S/Choices[0]/StringEquals"},
		{`"Type": "Choice", "Choices": [{"Variable": "$", "TimestampEquals": "x", "Next": "S"}]`, "expected a timestamp"},
		{`"Type": "Choice", "Choices": [{"Not": {"Variable": "$", "StringIs": 1}, "Next": "S"}]`, "Field 'StringIs' is not supported here at /States/S/Choices[0]/Not/StringIs"},
		{`"Type": "Choice", "Choices": [{"And": [], "Next": "S"}]`, "at least one condition"},
		{`"Type": "Choice", "Choices": [{"Condition": "{% true %}", "Next": "S"}]`, "awslocal does not support JSONata"},
		{`"Type": "Choice", "Default": "D", "Choices": [{"Variable": "$", "IsNull": true, "Next": "N"}]`, "Missing 'Default' target: D at /States/S/Default, MISSING_TRANSITION_TARGET: Missing 'Choices' target: N"},
		{`"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "End": true`, "NOT_SUPPORTED_BY_AWSLOCAL: awslocal does not support the resource arn:aws:states:::dynamodb:putItem"},
		{`"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.sync", "End": true`, "awslocal does not support the resource"},
		{`"Type": "Task", "End": true`, "Field 'Resource': it is required"},
		{send, "requires the field Parameters"},
		{send + `, "Parameters": {"QueueUrl": "q"}`, "The field \"MessageBody\" is required but was missing at /States/S/Parameters"},
		{send + `, "Parameters": {"QueueUrl.$": "$.q", "MessageBody": "b", "Colour": 1}`, "The field \"Colour\" is not supported here"},
		{`"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "End": true, "Parameters": {"FunctionName": "f", "InvocationType": "Event"}`, "supports only the InvocationType RequestResponse"},
		{sends + `, "TimeoutSeconds": 5, "HeartbeatSeconds": 5`, "smaller than TimeoutSeconds"},
		{sends + `, "TimeoutSeconds": 5, "TimeoutSecondsPath": "$.t"`, "cannot be combined with TimeoutSecondsPath"},
		{sends + `, "TimeoutSeconds": 0`, "integer between 1 and 99999999, got 0"},
		{sends + `, "Credentials": {}`, "awslocal has one account"},
		{sends + `, "Retry": [{}]`, "expected a non-empty array of error names at /States/S/Retry[0]/ErrorEquals"},
		{sends + `, "Retry": [{"ErrorEquals": ["States.ALL"]}, {"ErrorEquals": ["a"]}]`, "States.ALL must be alone and in the last element at /States/S/Retry[0]/ErrorEquals"},
		{sends + `, "Retry": [{"ErrorEquals": ["States.ALL", "a"]}]`, "must be alone"},
		{sends + `, "Retry": [{"ErrorEquals": ["a"], "BackoffRate": 0.5}]`, "at least 1.0, got 0.5"},
		{sends + `, "Retry": [{"ErrorEquals": ["a"], "IntervalSeconds": 0}]`, "between 1 and"},
		{sends + `, "Retry": [{"ErrorEquals": ["a"], "IntervalSeconds": 3, "MaxDelaySeconds": 3}]`, "greater than IntervalSeconds"},
		{sends + `, "Retry": [{"ErrorEquals": ["a"], "JitterStrategy": "FULL"}]`, "awslocal does not support the JitterStrategy FULL"},
		{sends + `, "Catch": [{"ErrorEquals": ["a"]}]`, "Field 'Next': it is required at /States/S/Catch[0]/Next"},
		{sends + `, "Catch": [{"ErrorEquals": ["a"], "Next": "X"}]`, "Missing 'Catch' target: X"},
		{`"Type": "Parallel", "End": true`, "at least one branch"},
		{`"Type": "Parallel", "End": true, "Branches": [` + inner + `, ` + inner + `]`, "DUPLICATE_STATE_NAME: Duplicate State name: I at /States/S/Branches[1]/States/I"},
		{`"Type": "Parallel", "End": true, "Branches": [{"StartAt": "I", "States": {"I": {"Type": "Pass", "Next": "S"}}}]`, "Missing 'Next' target: S at /States/S/Branches[0]/States/I/Next"},
		{`"Type": "Parallel", "End": true, "Branches": [{"StartAt": "X", "States": {"I": {"Type": "Pass", "End": true}}}]`, "Missing 'StartAt' target: X at /States/S/Branches[0]/StartAt"},
		{`"Type": "Map", "End": true`, "Field 'ItemProcessor': it is required"},
		{`"Type": "Map", "End": true, "Iterator": ` + inner + `, "ItemProcessor": ` + inner, "Field 'ItemProcessor' is not supported here"},
		{`"Type": "Map", "End": true, "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "I", "States": {"I": {"Type": "Pass", "End": true}}}`, "awslocal does not support distributed maps: write INLINE at /States/S/ItemProcessor/ProcessorConfig/Mode"},
		{`"Type": "Map", "End": true, "ItemReader": {}, "ItemProcessor": ` + inner, "awslocal does not support distributed maps at /States/S/ItemReader"},
		{`"Type": "Map", "End": true, "Parameters": {}, "ItemSelector": {}, "ItemProcessor": ` + inner, "cannot be combined with ItemSelector"},
	} {
		if got := findings(test.fields); !strings.Contains(got, test.want) {
			t.Errorf("%s:\n got %s\nwant %s", test.fields, got, test.want)
		}
	}
}

func TestFindingsInMachines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ definition, want string }{
		{`{`, "INVALID_JSON_DESCRIPTION"},
		{`[]`, "not a JSON object at /"},
		{`{}`, "Field 'StartAt': it is required at /StartAt, SCHEMA_VALIDATION_FAILED: Field 'States': it is required at /States"},
		{`{"StartAt": "A", "States": {}}`, "at least one state"},
		{`{"StartAt": "B", "States": {"A": {"Type": "Succeed"}}}`, "MISSING_TRANSITION_TARGET: Missing 'StartAt' target: B at /StartAt"},
		{`{"StartAt": "A", "States": {"A": {"Type": "Succeed"}, "B": {"Type": "Succeed"}}}`, "State \"B\" is not reachable. at /States/B"},
		{`{"StartAt": "A", "States": {"A": []}}`, "expected an object"},
		{`{"QueryLanguage": "JSONata", "StartAt": "A", "States": {"A": {"Type": "Succeed"}}}`, "NOT_SUPPORTED_BY_AWSLOCAL: awslocal does not support JSONata"},
		{`{"Version": "2.0", "StartAt": "A", "States": {"A": {"Type": "Succeed"}}}`, "expected version 1.0"},
		{`{"TimeoutSeconds": 0, "StartAt": "A", "States": {"A": {"Type": "Succeed"}}}`, "/TimeoutSeconds"},
		{`{"Colour": 1, "StartAt": "A", "States": {"A": {"Type": "Succeed"}}}`, "Field 'Colour' is not supported here at /Colour"},
	} {
		m, found := asl.Parse(test.definition)
		if got := found.String(); m != nil || !strings.Contains(got, test.want) {
			t.Errorf("%s:\n got %s\nwant %s", test.definition, got, test.want)
		}
	}
}

func TestRetryDelays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		r    asl.Retrier
		want []time.Duration
	}{
		{asl.Retrier{Interval: 1, BackoffRate: 2}, []time.Duration{1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}},
		{asl.Retrier{Interval: 3, BackoffRate: 1.5}, []time.Duration{3 * time.Second, 4500 * time.Millisecond, 6750 * time.Millisecond, 10125 * time.Millisecond}},
		{asl.Retrier{Interval: 3, BackoffRate: 1}, []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second}},
		{asl.Retrier{Interval: 3, BackoffRate: 10, MaxDelay: 60}, []time.Duration{3 * time.Second, 30 * time.Second, 60 * time.Second, 60 * time.Second}},
	} {
		for done, want := range test.want {
			if got := test.r.Delay(done); got != want {
				t.Errorf("%+v after %d retries: got %v, want %v", test.r, done, got, want)
			}
		}
	}
	if got := (asl.Retrier{Interval: 1, BackoffRate: 10}).Delay(1000); got <= 0 || got > 400*24*time.Hour {
		t.Errorf("the delay after 1000 retries: got %v, want a limited delay", got)
	}
}

// everything returns a definition with all states and most fields.
func everything(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile("testdata/everything.asl.json")
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func TestDefinitionWithAllFeaturesHasNoFindings(t *testing.T) {
	t.Parallel()
	m, found := asl.Parse(everything(t))
	if len(found) > 0 {
		t.Fatal(found)
	}
	if len(m.All) != 14 || m.Timeout != time.Hour {
		t.Errorf("got %d states and a timeout of %v, want 14 and an hour", len(m.All), m.Timeout)
	}
}
