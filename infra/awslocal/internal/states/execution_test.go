package states_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// one returns a machine with one state.
func one(state string) string {
	return `{"StartAt": "S", "States": {"S": ` + state + `}}`
}

// callback returns a Task state that sends its token to a queue. It appends `fields` to the state.
func callback(fields string) string {
	return `{"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
		"Parameters": {"QueueUrl": "q.fifo", "MessageGroupId": "g", "MessageBody": {"token.$": "$$.Task.Token", "in.$": "$"}}` + fields + `}`
}

const end = `, "End": true`

func TestPassChoiceWaitSucceedFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("order", `{"StartAt": "Add", "States": {
		"Add": {"Type": "Pass", "Result": {"n": 2}, "ResultPath": "$.added", "Next": "Wait"},
		"Wait": {"Type": "Wait", "SecondsPath": "$.wait", "Next": "Choose"},
		"Choose": {"Type": "Choice", "Choices": [{"Variable": "$.ok", "BooleanEquals": true, "Next": "Good"}], "Default": "Bad"},
		"Good": {"Type": "Succeed", "OutputPath": "$.added"},
		"Bad": {"Type": "Fail", "Error": "Custom", "CausePath": "States.Format('ok is {}', $.ok)"}}}`)
	good := w.start("order", "good", `{"ok": true, "wait": 5}`)
	bad := w.start("order", "bad", `{"ok": false, "wait": 7}`)
	w.wantEnd(good, "RUNNING")
	w.advance(5 * time.Second)
	w.wantEnd(good, `SUCCEEDED {"n":2}`)
	w.wantEnd(bad, "RUNNING")
	w.advance(time.Minute)
	w.wantEnd(bad, `FAILED Custom: ok is false`)
	w.wantTypes(good,
		"1 ExecutionStarted <0", "2 PassStateEntered Add <0", "3 PassStateExited Add <2",
		"4 WaitStateEntered Wait <3", "5 WaitStateExited Wait <4",
		"6 ChoiceStateEntered Choose <5", "7 ChoiceStateExited Choose <6",
		"8 SucceedStateEntered Good <7", "9 SucceedStateExited Good <8", "10 ExecutionSucceeded <9")
	w.wantTimes(bad, "WaitStateExited", 7)
	w.wantTimes(bad, "ExecutionFailed", 7)
}

func TestStatesPassOnData(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, state, input, want string }{
		{"the input keeps its text", `{"Type": "Pass"` + end + `}`, `{"b": 1.0,  "a": [12345678901234567890]}`, `SUCCEEDED {"b": 1.0,  "a": [12345678901234567890]}`},
		{"InputPath", `{"Type": "Pass", "InputPath": "$.a"` + end + `}`, `{"a": {"b": 1}}`, `SUCCEEDED {"b":1}`},
		{"InputPath null", `{"Type": "Pass", "InputPath": null` + end + `}`, `{"a": 1}`, `SUCCEEDED {}`},
		{"OutputPath", `{"Type": "Pass", "OutputPath": "$.a"` + end + `}`, `{"a": 1.50}`, `SUCCEEDED 1.50`},
		{"OutputPath null", `{"Type": "Pass", "OutputPath": null` + end + `}`, `{"a": 1}`, `SUCCEEDED {}`},
		{"ResultPath null", `{"Type": "Pass", "Result": 1, "ResultPath": null` + end + `}`, `{"a":1}`, `SUCCEEDED {"a":1}`},
		{"Result null", `{"Type": "Pass", "Result": null` + end + `}`, `{"a":1}`, `SUCCEEDED null`},
		{"Parameters", `{"Type": "Pass", "Parameters": {"x.$": "$.a[0]", "y": [{"z.$": "$$.State.Name"}], "f.$": "States.MathAdd($.a[0], 1)", "l": "$.a"}, "ResultPath": "$.r"` + end + `}`,
			`{"a": [1]}`, `SUCCEEDED {"a":[1],"r":{"f":2,"l":"$.a","x":1,"y":[{"z":"S"}]}}`},
		{"wildcard", `{"Type": "Pass", "InputPath": "$.a[*].b"` + end + `}`, `{"a": [{"b": 1}, {"c": 2}, {"b": 3}]}`, `SUCCEEDED [1,3]`},
		{"context", `{"Type": "Pass", "Parameters": {"e.$": "$$.Execution.Name", "i.$": "$$.Execution.Input.a", "t.$": "$$.Execution.StartTime", "m.$": "$$.StateMachine.Name", "at.$": "$$.State.EnteredTime", "r.$": "$$.State.RetryCount"}` + end + `}`,
			`{"a": 7}`, `SUCCEEDED {"at":"2026-01-02T03:04:05.000Z","e":"x","i":7,"m":"m0","r":0,"t":"2026-01-02T03:04:05.000Z"}`},
		{"Succeed", `{"Type": "Succeed", "InputPath": "$.a", "OutputPath": "$.b"}`, `{"a": {"b": "c"}}`, `SUCCEEDED "c"`},
		{"Fail without fields", `{"Type": "Fail"}`, `{}`, `FAILED`},
		{"Fail with paths", `{"Type": "Fail", "ErrorPath": "$.e", "CausePath": "$.c"}`, `{"e": "E", "c": "C"}`, `FAILED E: C`},
		{"missing path", `{"Type": "Pass", "Parameters": {"x.$": "$.nope"}` + end + `}`, `{"a":1}`,
			`FAILED States.Runtime: An error occurred while executing the state 'S' (entered at the event id #2). The JSONPath '$.nope' specified for the field 'x.$' could not be found in the input '{"a":1}'`},
		{"ResultPath that does not fit", `{"Type": "Pass", "Result": 1, "ResultPath": "$.a.b"` + end + `}`, `{"a":1}`,
			`FAILED States.ResultPathMatchFailure: Unable to apply ReferencePath $.a.b to input {"a":1}`},
		{"function that fails", `{"Type": "Pass", "Parameters": {"x.$": "States.ArrayGetItem($.a, 5)"}` + end + `}`, `{"a":[]}`,
			`FAILED States.IntrinsicFailure: The function specified for the field 'x.$' had the following error: States.ArrayGetItem: the array has no element 5: its length is 0`},
		{"no choice", `{"Type": "Choice", "Choices": [{"Variable": "$.a", "NumericEquals": 2, "Next": "S"}]}`, `{"a":1}`,
			`FAILED States.NoChoiceMatched: State 'S' has no choice that matches its input, and no Default`},
		{"wait of zero seconds", `{"Type": "Wait", "Seconds": 0` + end + `}`, `{}`, `SUCCEEDED {}`},
		{"wait for the past", `{"Type": "Wait", "Timestamp": "2020-01-01T00:00:00Z"` + end + `}`, `{}`, `SUCCEEDED {}`},
		{"wait for a value that is not a number", `{"Type": "Wait", "SecondsPath": "$.s"` + end + `}`, `{"s":"x"}`,
			`FAILED States.Runtime: An error occurred while executing the state 'S' (entered at the event id #2). The SecondsPath parameter references an invalid value: expected an integer between 0 and 99999999, got "x"`},
	} {
		w := newWorld(t)
		if got := w.ends(w.run(one(test.state), test.input)); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

func TestWaitEndsAtItsTimestamp(t *testing.T) {
	t.Parallel()
	for _, state := range []string{
		`{"Type": "Wait", "Timestamp": "2026-01-02T03:04:15Z", "End": true}`,
		`{"Type": "Wait", "TimestampPath": "$.at", "End": true}`,
		`{"Type": "Wait", "Seconds": 10, "End": true}`,
	} {
		w := newWorld(t)
		arn := w.run(one(state), `{"at": "2026-01-02T04:04:15.000+01:00"}`)
		w.advance(time.Hour)
		w.wantTimes(arn, "WaitStateExited", 10)
	}
}

func TestStartIsIdempotentWhileItRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("m", one(`{"Type": "Wait", "Seconds": 10, "End": true}`))
	input := in{"stateMachineArn": machineARN + "m", "name": "x", "input": `{"a": 1}`}
	first := w.call("StartExecution", input)
	w.advance(time.Second)
	if again := w.call("StartExecution", input); again["executionArn"] != first["executionArn"] || again["startDate"] != first["startDate"] {
		t.Errorf("the same call returned %v, then %v", first, again)
	}
	w.wantError("StartExecution", in{"stateMachineArn": machineARN + "m", "name": "x", "input": `{}`}, "ExecutionAlreadyExists", execARN+"m:x")
	w.advance(time.Minute)
	w.wantError("StartExecution", input, "ExecutionAlreadyExists", execARN+"m:x")
	w.wantError("StartExecution", in{"stateMachineArn": machineARN + "n"}, "StateMachineDoesNotExist", machineARN+"n")
	w.wantError("StartExecution", in{"stateMachineArn": "n"}, "InvalidArn", "n")
	w.wantError("StartExecution", in{"stateMachineArn": machineARN + "m", "input": `{`}, "InvalidExecutionInput", "")
	w.wantError("StartExecution", in{"stateMachineArn": machineARN + "m", "name": "a b"}, "InvalidName", "a b")
	w.wantError("StartExecution", in{"stateMachineArn": machineARN + "m", "input": `"` + strings.Repeat("x", 256<<10) + `"`}, "InvalidExecutionInput", "262144")
	unnamed := w.call("StartExecution", in{"stateMachineArn": machineARN + "m"})["executionArn"].(string)
	if other := w.call("StartExecution", in{"stateMachineArn": machineARN + "m"})["executionArn"].(string); unnamed == other {
		t.Errorf("two executions without a name are both %s", other)
	}
}

func TestMachineTimesOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(`{"TimeoutSeconds": 3, "StartAt": "S", "States": {"S": `+callback(end)+`}}`, `{}`)
	w.advance(2 * time.Second)
	w.wantEnd(arn, "RUNNING")
	w.advance(time.Hour)
	w.wantEnd(arn, "TIMED_OUT")
	w.wantTimes(arn, "ExecutionTimedOut", 3)
	w.wantError("SendTaskSuccess", in{"taskToken": w.token(0), "output": "1"}, "TaskTimedOut", "")
	if next, ok := w.m.Next(); ok {
		t.Errorf("work is due at %v after the end", next)
	}
}

func TestStopAborts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(callback(end)), `{}`)
	w.advance(time.Second)
	first := w.call("StopExecution", in{"executionArn": arn, "error": "Why", "cause": "because"})
	w.wantEnd(arn, "ABORTED Why: because")
	w.wantError("SendTaskSuccess", in{"taskToken": w.token(0), "output": "1"}, "TaskTimedOut", "")
	w.wantError("SendTaskHeartbeat", in{"taskToken": w.token(0)}, "TaskTimedOut", "")
	w.advance(time.Second)
	if again := w.call("StopExecution", in{"executionArn": arn}); again["stopDate"] != first["stopDate"] {
		t.Errorf("stopped at %v, then at %v", first["stopDate"], again["stopDate"])
	}
	w.wantTimes(arn, "ExecutionAborted", 1)
	w.wantError("StopExecution", in{"executionArn": execARN + "m:none"}, "ExecutionDoesNotExist", "none")
}

func TestPayloadsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	half := strings.Repeat("x", 140_000)
	arn := w.run(one(`{"Type": "Pass", "Parameters": {"a.$": "$", "b.$": "$"}, "End": true}`), `"`+half+`"`)
	if got := w.ends(arn); !strings.HasPrefix(got, "FAILED States.DataLimitExceeded: ") {
		t.Errorf("got %.100s, want States.DataLimitExceeded", got)
	}
	for names, want := range map[string]string{"States.ALL": "FAILED States.DataLimitExceeded", "States.TaskFailed": "FAILED States.DataLimitExceeded", "States.DataLimitExceeded": `SUCCEEDED "caught"`} {
		arn := w.run(`{"StartAt": "S", "States": {"S": `+callback(`, "ResultSelector": {"a.$": "$", "b.$": "$"}, "Catch": [{"ErrorEquals": ["`+names+`"], "Next": "C"}]`+end)+`,
			"C": {"Type": "Pass", "Result": "caught", "End": true}}}`, `{}`)
		w.call("SendTaskSuccess", in{"taskToken": w.token(len(w.sent) - 1), "output": `"` + half + `"`})
		if got := w.ends(arn); !strings.HasPrefix(got, want) {
			t.Errorf("a catcher of %s: got %.100s, want %s", names, got, want)
		}
	}
}

func TestNestingIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(`{"StartAt": "A", "States": {"A": {"Type": "Pass", "Parameters": {"a.$": "$"}, "Next": "B"}, "B": {"Type": "Pass", "Next": "A"}}}`, `{"b": 1}`)
	if got := w.ends(arn); !strings.HasPrefix(got, "FAILED States.DataLimitExceeded") {
		t.Errorf("got %.100s, want States.DataLimitExceeded", got)
	}
	if n := len(w.times(arn, "PassStateEntered")); n != 1999 {
		t.Errorf("the execution entered %d states, want 1999, because the thousandth A exceeds the nesting limit", n)
	}
}

func TestHistoryIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(`{"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "B"}, "B": {"Type": "Pass", "Next": "A"}}}`, `{}`)
	if got := w.ends(arn); !strings.Contains(got, "maximum number of history events (25000)") {
		t.Errorf("got %s, want FAILED", got)
	}
	events := w.history(arn)
	if last := events[len(events)-1]; len(events) != 25000 || last["type"] != "ExecutionFailed" {
		t.Errorf("got %d events, the last a %v; want 25000 and ExecutionFailed", len(events), last["type"])
	}
}

func TestExecutionWithAFullHistoryFails(t *testing.T) {
	t.Parallel()
	// An iteration of a Pass state has 4 events, and the machine around it has 7. So 6,248 items fit.
	for items, want := range map[int]string{6_248: "SUCCEEDED", 6_249: "FAILED"} {
		w := newWorld(t)
		arn := w.run(one(`{"Type": "Map", "ResultPath": null, "End": true, "ItemProcessor": {"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}}`), `[`+strings.Repeat("1,", items-1)+`1]`)
		out := w.call("DescribeExecution", in{"executionArn": arn})
		if out["status"] != want || (out["output"] != nil) != (want == "SUCCEEDED") {
			t.Errorf("%d items: got %v, with an output %t; want %s", items, out["status"], out["output"] != nil, want)
		}
		if n := len(w.history(arn)); n > 25000 || (want == "FAILED" && n != 25000) {
			t.Errorf("%d items: got %d events", items, n)
		}
	}
}

func TestHistoryIsPaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(`{"Type": "Pass", "End": true}`), `{"a":1}`)
	var ids []string
	input := in{"executionArn": arn, "maxResults": 3, "reverseOrder": true}
	for {
		out := w.call("GetExecutionHistory", input)
		for _, event := range out["events"].([]any) {
			ids = append(ids, fmt.Sprint(event.(map[string]any)["id"]))
		}
		if input["nextToken"] = out["nextToken"]; input["nextToken"] == nil {
			break
		}
	}
	if got := strings.Join(ids, " "); got != "4 3 2 1" {
		t.Errorf("in reverse: got %s, want 4 3 2 1", got)
	}
	entered := w.history(arn)[1]["stateEnteredEventDetails"].(map[string]any)
	if entered["input"] != `{"a":1}` {
		t.Errorf("input of the state: got %v, want {\"a\":1}", entered["input"])
	}
	bare := w.call("GetExecutionHistory", in{"executionArn": arn, "includeExecutionData": false})
	if text := fmt.Sprint(bare); strings.Contains(text, "input") || strings.Contains(text, "output") {
		t.Errorf("without data: got %s", text)
	}
	w.wantError("GetExecutionHistory", in{"executionArn": arn, "nextToken": "9"}, "InvalidToken", "9")
	w.wantError("GetExecutionHistory", in{"executionArn": arn, "maxResults": 1001}, "ValidationException", "1000")
}

func TestExecutionsAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("m", one(`{"Type": "Wait", "SecondsPath": "$", "End": true}`))
	for i := range 7 {
		w.start("m", fmt.Sprintf("x%d", i), fmt.Sprint(10*(i%2)))
	}
	list := func(input in) string {
		input["stateMachineArn"] = machineARN + "m"
		var names []string
		for {
			out := w.call("ListExecutions", input)
			for _, x := range out["executions"].([]any) {
				names = append(names, x.(map[string]any)["name"].(string))
			}
			if input["nextToken"] = out["nextToken"]; input["nextToken"] == nil {
				return strings.Join(names, " ")
			}
			names = append(names, "|")
		}
	}
	for _, test := range []struct {
		input in
		want  string
	}{
		{in{}, "x6 x5 x4 x3 x2 x1 x0"},
		{in{"maxResults": 3}, "x6 x5 x4 | x3 x2 x1 | x0"},
		{in{"statusFilter": "RUNNING"}, "x5 x3 x1"},
		{in{"statusFilter": "SUCCEEDED", "maxResults": 2}, "x6 x4 | x2 x0"},
		{in{"statusFilter": "FAILED"}, ""},
	} {
		if got := list(test.input); got != test.want {
			t.Errorf("%v: got %s, want %s", test.input, got, test.want)
		}
	}
	w.advance(time.Minute)
	if got := list(in{"statusFilter": "RUNNING"}); got != "" {
		t.Errorf("RUNNING at the end: got %s", got)
	}
	w.wantError("ListExecutions", in{"stateMachineArn": machineARN + "m", "statusFilter": "DONE"}, "ValidationException", "DONE")
}
