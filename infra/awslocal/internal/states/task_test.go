package states_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states"
)

func TestTokenIsSentAndReturnsAnOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(callback(`, "ResultPath": "$.r"`+end)), `{"a": 1}`)
	w.wantEnd(arn, "RUNNING")
	if w.sent[0]["QueueUrl"] != "q.fifo" || w.sent[0]["MessageGroupId"] != "g" {
		t.Errorf("sent %v", w.sent[0])
	}
	w.advance(time.Hour)
	w.wantEnd(arn, "RUNNING")
	w.call("SendTaskSuccess", in{"taskToken": w.token(0), "output": `{"ok": 1.0}`})
	w.wantEnd(arn, `SUCCEEDED {"a":1,"r":{"ok":1.0}}`)
	w.wantTypes(arn,
		"1 ExecutionStarted <0", "2 TaskStateEntered S <0", "3 TaskScheduled <2", "4 TaskStarted <3",
		"5 TaskSubmitted <4", "6 TaskSucceeded <5", "7 TaskStateExited S <6", "8 ExecutionSucceeded <7")
	scheduled := w.history(arn)[2]["taskScheduledEventDetails"].(map[string]any)
	if scheduled["resourceType"] != "sqs" || scheduled["resource"] != "sendMessage.waitForTaskToken" || scheduled["region"] != "us-east-1" ||
		!strings.Contains(scheduled["parameters"].(string), `"MessageBody":{"in":{"a":1},"token":"AAAA`) {
		t.Errorf("TaskScheduled: got %v", scheduled)
	}
	submitted := w.history(arn)[4]["taskSubmittedEventDetails"].(map[string]any)
	if submitted["output"] != `{"MessageId":"m-1"}` {
		t.Errorf("TaskSubmitted: got %v", submitted)
	}
}

func TestSendWithoutTokenEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	state := `{"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage", "Parameters": {"QueueUrl": "q", "MessageBody": "text", "DelaySeconds": 3},
		"ResultSelector": {"id.$": "$.MessageId"}, "Catch": [{"ErrorEquals": ["SQS.QueueDoesNotExistException"], "Next": "C"}], "End": true}`
	machine := `{"StartAt": "S", "States": {"S": ` + state + `, "C": {"Type": "Pass", "End": true}}}`
	w.wantEnd(w.run(machine, `{}`), `SUCCEEDED {"id":"m-1"}`)
	if text, err := json.Marshal(w.sent[0]); err != nil || string(text) != `{"DelaySeconds":3,"MessageBody":"text","QueueUrl":"q"}` {
		t.Errorf("sent %s, %v", text, err)
	}
	w.noQueue = true
	arn := w.run(machine, `{}`)
	w.wantEnd(arn, `SUCCEEDED {"Cause":"no queue","Error":"SQS.QueueDoesNotExistException"}`)
	w.wantTypes(arn,
		"1 ExecutionStarted <0", "2 TaskStateEntered S <0", "3 TaskScheduled <2", "4 TaskStarted <3", "5 TaskFailed <4",
		"6 TaskStateExited S <5", "7 PassStateEntered C <6", "8 PassStateExited C <7", "9 ExecutionSucceeded <8")
	arn = w.run(one(callback(end)), `{}`)
	w.wantEnd(arn, "FAILED SQS.QueueDoesNotExistException: no queue")
	if got := w.types(arn)[4]; got != "5 TaskSubmitFailed <4" {
		t.Errorf("got %s, want TaskSubmitFailed", got)
	}
}

func TestTaskFailureFailsOrIsCaught(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(callback(end)), `{}`)
	w.call("SendTaskFailure", in{"taskToken": w.token(0), "error": "Nope", "cause": "because"})
	w.wantEnd(arn, "FAILED Nope: because")
	arn = w.run(`{"StartAt": "S", "States": {"S": `+callback(`, "InputPath": "$.a", "Catch": [
			{"ErrorEquals": ["Other"], "Next": "Never"},
			{"ErrorEquals": ["Nope"], "ResultPath": "$.err", "Next": "C"},
			{"ErrorEquals": ["States.ALL"], "Next": "Never"}]`+end)+`,
		"C": {"Type": "Pass", "End": true}, "Never": {"Type": "Fail"}}}`, `{"a": {"b": 1}}`)
	w.call("SendTaskFailure", in{"taskToken": w.token(1), "error": "Nope", "cause": "because"})
	w.wantEnd(arn, `SUCCEEDED {"a":{"b":1},"err":{"Cause":"because","Error":"Nope"}}`)
}

func TestErrorsAreCaughtByTheirNames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		failure, names string
		caught         bool
	}{
		{"Custom", "Custom", true},
		{"Custom", "custom", false},
		{"Custom", "States.ALL", true},
		{"Custom", "States.TaskFailed", true},
		{"Custom", "States.Timeout", false},
		{"States.Timeout", "States.Timeout", true},
		{"States.Timeout", "States.ALL", true},
		{"States.Timeout", "States.TaskFailed", false},
		{"States.Timeout", "States.HeartbeatTimeout", false},
		{"States.HeartbeatTimeout", "States.HeartbeatTimeout", true},
		{"States.HeartbeatTimeout", "States.Timeout", true},
		{"States.HeartbeatTimeout", "States.TaskFailed", false},
		{"States.Runtime", "States.ALL", false},
		{"States.Runtime", "States.Runtime", false},
		{"States.Runtime", "States.TaskFailed", false},
		{"States.DataLimitExceeded", "States.ALL", false},
		{"States.DataLimitExceeded", "States.TaskFailed", false},
		{"States.DataLimitExceeded", "States.DataLimitExceeded", true},
	} {
		w := newWorld(t)
		arn := w.run(`{"StartAt": "S", "States": {"S": `+callback(`, "Catch": [{"ErrorEquals": ["`+test.names+`"], "Next": "C"}]`+end)+`,
			"C": {"Type": "Pass", "Result": "caught", "End": true}}}`, `{}`)
		w.call("SendTaskFailure", in{"taskToken": w.token(0), "error": test.failure})
		if got := w.ends(arn); strings.HasPrefix(got, "SUCCEEDED") != test.caught {
			t.Errorf("%s with a catcher of %s: got %s, want caught %t", test.failure, test.names, got, test.caught)
		}
	}
}

func TestRetriesAreOnTimeAndHaveNewTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(`{"StartAt": "S", "States": {"S": `+callback(`, "Retry": [
		{"ErrorEquals": ["Often"], "IntervalSeconds": 2, "BackoffRate": 3, "MaxAttempts": 4, "MaxDelaySeconds": 20, "JitterStrategy": "NONE"},
		{"ErrorEquals": ["Never"], "MaxAttempts": 0},
		{"ErrorEquals": ["States.ALL"], "BackoffRate": 1.5, "MaxAttempts": 2}], "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.e", "Next": "C"}]`+end)+`,
		"C": {"Type": "Pass", "End": true}}}`, `{}`)
	seen := map[string]bool{}
	failWith := func(name string, after time.Duration) {
		n := len(w.sent) - 1
		token := w.token(n)
		if seen[token] {
			t.Errorf("attempt %d got the token of an earlier attempt", n)
		}
		seen[token] = true
		w.call("SendTaskFailure", in{"taskToken": token, "error": name})
		w.advance(after - time.Millisecond)
		if len(w.sent) != n+1 {
			t.Errorf("attempt %d was made before %v", n+1, after)
		}
		w.advance(time.Millisecond)
		if len(w.sent) != n+2 {
			t.Fatalf("attempt %d was not made after %v", n+1, after)
		}
		w.wantError("SendTaskSuccess", in{"taskToken": token, "output": "1"}, "TaskTimedOut", "")
	}
	failWith("Often", 2*time.Second)
	failWith("Often", 6*time.Second)
	failWith("Other", time.Second)
	failWith("Often", 18*time.Second)
	failWith("Often", 20*time.Second) // 54 s without MaxDelaySeconds
	failWith("Other", 1500*time.Millisecond)
	w.call("SendTaskFailure", in{"taskToken": w.token(6), "error": "Often", "cause": "spent"})
	w.wantEnd(arn, `SUCCEEDED {"e":{"Cause":"spent","Error":"Often"}}`)
	w.wantTimes(arn, "TaskScheduled", 0, 2, 8, 9, 27, 47, 48.5)
	w.wantTimes(arn, "TaskStateEntered", 0)
}

func TestRetryCountIsInTheContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(`{"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Parameters": {"FunctionName": "f", "Payload": {"n.$": "$$.State.RetryCount"}},
		"OutputPath": "$.Payload", "Retry": [{"ErrorEquals": ["Again"]}], "End": true}`), `{}`)
	var counts []string
	for range 3 {
		task := w.held[len(w.held)-1]
		counts = append(counts, string(task.Input))
		w.m.Finish(w.now, task.ID, nil, &states.Failure{Error: "Again"})
		w.advance(10 * time.Second)
	}
	if got := strings.Join(counts, " "); got != `{"n":0} {"n":1} {"n":2}` {
		t.Errorf("RetryCount: got %s", got)
	}
	w.m.Finish(w.now, w.held[3].ID, json.RawMessage(`"done"`), nil)
	w.wantEnd(arn, `SUCCEEDED "done"`)
}

func TestHeartbeatsKeepATaskAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(callback(`, "HeartbeatSeconds": 2`+end)), `{}`)
	for range 4 {
		w.advance(time.Second)
		w.call("SendTaskHeartbeat", in{"taskToken": w.token(0)})
	}
	w.advance(1999 * time.Millisecond)
	w.call("SendTaskSuccess", in{"taskToken": w.token(0), "output": "1"})
	w.wantEnd(arn, "SUCCEEDED 1")
}

func TestMissedHeartbeatFailsTheTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(`{"StartAt": "S", "States": {"S": `+callback(`, "HeartbeatSecondsPath": "$.beat", "TimeoutSeconds": 100, "Catch": [{"ErrorEquals": ["States.HeartbeatTimeout"], "Next": "C"}]`+end)+`,
		"C": {"Type": "Pass", "End": true}}}`, `{"beat": 2}`)
	w.advance(1500 * time.Millisecond)
	w.call("SendTaskHeartbeat", in{"taskToken": w.token(0)})
	w.advance(time.Minute)
	w.wantEnd(arn, `SUCCEEDED {"Cause":"","Error":"States.HeartbeatTimeout"}`)
	w.wantTimes(arn, "TaskTimedOut", 3.5)
	w.wantError("SendTaskHeartbeat", in{"taskToken": w.token(0)}, "TaskTimedOut", "")
}

func TestHeartbeatsDoNotExtendTheTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(callback(`, "HeartbeatSeconds": 2, "TimeoutSecondsPath": "$.t"`+end)), `{"t": 5}`)
	for range 4 {
		w.advance(1250 * time.Millisecond)
		if _, err := w.try("SendTaskHeartbeat", in{"taskToken": w.token(0)}); err != nil && err.Code != "TaskTimedOut" {
			t.Error(err)
		}
	}
	w.wantEnd(arn, "FAILED States.Timeout")
	w.wantTimes(arn, "TaskTimedOut", 5)
	w.wantError("SendTaskSuccess", in{"taskToken": w.token(0), "output": "1"}, "TaskTimedOut", "")
}

func TestDueWorkIsPerformedBeforeACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(callback(`, "TimeoutSeconds": 2`+end)), `{}`)
	w.now = w.now.Add(2 * time.Second) // Advance is not called
	w.wantError("SendTaskSuccess", in{"taskToken": w.token(0), "output": "1"}, "TaskTimedOut", "")
	w.wantEnd(arn, "FAILED States.Timeout")
}

func TestTokenErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(callback(end)), `{}`)
	token := w.token(0)
	flipped := strings.Replace(token, token[100:101], map[bool]string{true: "B", false: "A"}[token[100] == 'A'], 1)
	for _, garbage := range []string{"garbage", token[:50], token + "A", flipped, strings.Repeat("A", len(token))} {
		w.wantError("SendTaskSuccess", in{"taskToken": garbage, "output": "1"}, "InvalidToken", "")
		w.wantError("SendTaskFailure", in{"taskToken": garbage}, "InvalidToken", "")
		w.wantError("SendTaskHeartbeat", in{"taskToken": garbage}, "InvalidToken", "")
	}
	for _, output := range []string{"", "{", "1 2", "nope"} {
		w.wantError("SendTaskSuccess", in{"taskToken": token, "output": output}, "InvalidOutput", "")
	}
	w.wantError("SendTaskSuccess", in{"taskToken": token}, "ValidationException", "output")
	w.wantEnd(arn, "RUNNING")
	w.call("SendTaskSuccess", in{"taskToken": token, "output": "1"})
	w.wantError("SendTaskSuccess", in{"taskToken": token, "output": "1"}, "TaskTimedOut", "")
	w.wantError("SendTaskFailure", in{"taskToken": token}, "TaskTimedOut", "")
	if other := newWorld(t); true {
		other.wantError("SendTaskSuccess", in{"taskToken": token, "output": "1"}, "InvalidToken", "") // `other` has issued no token
	}
	if len(token) < 200 || strings.ContainsAny(token, "+/=") {
		t.Errorf("token: want a long, URL-safe token, got %s", token)
	}
}

func TestLambdaIsInvokedAndAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const function = "arn:aws:lambda:us-east-1:000000000000:function:f"
	answer := func(payload string) (string, *states.Failure) { return `{"got":` + payload + `}`, nil }
	w.functions["f"], w.functions[function] = answer, answer
	w.wantEnd(w.run(one(`{"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Parameters": {"FunctionName": "f", "Payload.$": "$"}, "End": true}`), `{"a":1.0}`),
		`SUCCEEDED {"ExecutedVersion":"$LATEST","Payload":{"got":{"a":1.0}},"StatusCode":200}`)
	w.wantEnd(w.run(one(`{"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Parameters": {"FunctionName": "f"}, "OutputPath": "$.Payload", "End": true}`), `{"a":1}`),
		`SUCCEEDED {"got":{}}`)
	arn := w.run(one(`{"Type": "Task", "Resource": "`+function+`", "InputPath": "$.a", "End": true}`), `{"a":"b"}`)
	w.wantEnd(arn, `SUCCEEDED {"got":"b"}`)
	w.wantTypes(arn, "1 ExecutionStarted <0", "2 TaskStateEntered S <0", "3 LambdaFunctionScheduled <2", "4 LambdaFunctionStarted <3",
		"5 LambdaFunctionSucceeded <4", "6 TaskStateExited S <5", "7 ExecutionSucceeded <6")
	w.functions["f"] = func(string) (string, *states.Failure) {
		return "", &states.Failure{Error: "TypeError", Cause: `{"errorMessage":"x"}`}
	}
	w.wantEnd(w.run(one(`{"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Parameters": {"FunctionName": "f"}, "End": true}`), `{}`),
		`FAILED TypeError: {"errorMessage":"x"}`)
}

// waiting invokes the function f with its token.
const waiting = `{"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
	"Parameters": {"FunctionName": "f", "Payload": {"token.$": "$$.Task.Token"}}, "TimeoutSeconds": 10, "End": true}`

func tokenOf(t *testing.T, task states.Task) string {
	t.Helper()
	var payload struct{ Token string }
	if err := json.Unmarshal(task.Input, &payload); err != nil {
		t.Fatal(err)
	}
	return payload.Token
}

func TestLambdaWithTokenWaitsForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(waiting), `{}`)
	w.m.Finish(w.now, w.held[0].ID, json.RawMessage(`"started"`), nil)
	w.wantEnd(arn, "RUNNING")
	w.call("SendTaskSuccess", in{"taskToken": tokenOf(t, w.held[0]), "output": `"done"`})
	w.wantEnd(arn, `SUCCEEDED "done"`)
	w.wantTypes(arn, "1 ExecutionStarted <0", "2 TaskStateEntered S <0", "3 TaskScheduled <2", "4 TaskStarted <3",
		"5 TaskSubmitted <4", "6 TaskSucceeded <5", "7 TaskStateExited S <6", "8 ExecutionSucceeded <7")
}

func TestTokenMayReturnBeforeTheFunctionAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(waiting), `{}`)
	w.call("SendTaskSuccess", in{"taskToken": tokenOf(t, w.held[0]), "output": `"done"`})
	w.m.Finish(w.now, w.held[0].ID, nil, &states.Failure{Error: "Late"})
	w.wantEnd(arn, `SUCCEEDED "done"`)
}

func TestAnswerOfATimedOutTaskIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(waiting), `{}`)
	w.advance(10 * time.Second)
	w.m.Finish(w.now, w.held[0].ID, json.RawMessage(`1`), nil)
	w.wantEnd(arn, "FAILED States.Timeout")
	w.m.Finish(w.now, 99, json.RawMessage(`1`), nil) // an unknown ID
}

func TestUnfinishedTasksAreReturnedAgainAfterRestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t).restoring()
	arn := w.run(one(waiting), `{}`)
	w.restore()
	again := w.m.TakeTasks()
	if len(again) != 1 || again[0].ID != w.held[0].ID || string(again[0].Input) != string(w.held[0].Input) || again[0].Execution != arn {
		t.Fatalf("got %v, want %v again", again, w.held)
	}
	w.m.Finish(w.now, again[0].ID, json.RawMessage(`1`), nil)
	w.restore()
	if tasks := w.m.TakeTasks(); len(tasks) != 0 {
		t.Errorf("after its answer: got %v, want no task", tasks)
	}
	w.call("SendTaskSuccess", in{"taskToken": tokenOf(t, again[0]), "output": `2`})
	w.wantEnd(arn, `SUCCEEDED 2`)
}

func TestTaskWithoutAnyHeartbeatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(callback(`, "HeartbeatSeconds": 2`+end)), `{}`)
	w.advance(time.Minute)
	w.wantEnd(arn, "FAILED States.HeartbeatTimeout")
	w.wantTimes(arn, "TaskTimedOut", 2)
}

func TestHeartbeatIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t).restoring()
	arn := w.run(one(callback(`, "HeartbeatSeconds": 2`+end)), `{}`)
	w.advance(time.Second)
	w.call("SendTaskHeartbeat", in{"taskToken": w.token(0)})
	w.advance(time.Minute)
	w.wantTimes(arn, "TaskTimedOut", 3)
}

func TestLateAnswerFindsItsTaskTimedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arn := w.run(one(`{"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Parameters": {"FunctionName": "f"}, "TimeoutSeconds": 5, "End": true}`), `{}`)
	w.now = w.now.Add(5 * time.Second) // Advance is not called
	w.m.Finish(w.now, w.held[0].ID, json.RawMessage(`1`), nil)
	w.wantEnd(arn, "FAILED States.Timeout")
}

func TestWorkDueAtTheSameTimeIsPerformedInStartOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("m", `{"TimeoutSeconds": 9, "StartAt": "W", "States": {"W": {"Type": "Wait", "SecondsPath": "$.s", "Next": "S"},
		"S": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage", "Parameters": {"QueueUrl": "q", "MessageBody.$": "$$.Execution.Name"}, "End": true}}}`)
	for _, name := range []string{"c", "a", "b", "d"} {
		w.start("m", name, `{"s": 3}`)
	}
	late := w.start("m", "late", `{"s": 9}`)
	w.advance(time.Minute)
	var order []string
	for _, message := range w.sent {
		order = append(order, message["MessageBody"].(string))
	}
	if got := strings.Join(order, " "); got != "c a b d" {
		t.Errorf("sent by %s, want c a b d", got)
	}
	w.wantTypes(late, "1 ExecutionStarted <0", "2 WaitStateEntered W <0", "3 ExecutionTimedOut <2") // the timeout precedes the simultaneous end of the wait
}

func TestPseudorandomNumbersSurviveARestore(t *testing.T) {
	t.Parallel()
	definition := one(`{"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage", "Retry": [{"ErrorEquals": ["States.IntrinsicFailure"]}], "End": true,
		"Parameters": {"QueueUrl": "q", "MessageBody.$": "States.UUID()", "MessageGroupId.$": "States.ArrayGetItem($, $$.State.RetryCount)", "MessageDeduplicationId.$": "States.MathRandom(0, States.ArrayGetItem($, $$.State.RetryCount))"}}`)
	var bodies []any
	for _, w := range []*world{newWorld(t), newWorld(t).restoring()} {
		w.run(definition, `[0, 1]`)
		w.advance(time.Minute)
		if len(w.sent) != 1 {
			t.Fatalf("sent %v, want one message", w.sent)
		}
		bodies = append(bodies, w.sent[0]["MessageBody"])
	}
	if bodies[0] != bodies[1] {
		t.Errorf("the UUID of a retry is %v, but %v after a restore", bodies[0], bodies[1])
	}
}
