package awslocal_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

func TestStatesSQSWaitSuccess(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		execution := w.run(`"S": `+w.task("g", `, "ResultPath": "$.r", "End": true`), `{"a":1}`)
		token := w.token()
		w.sleep(time.Hour)
		w.wantEnd(execution, types.ExecutionStatusRunning)
		w.success(token, `{"ok": 1.0}`)
		w.wantEnd(execution, types.ExecutionStatusSucceeded, `{"a":1,"r":{"ok":1.0}}`)
	})
}

func TestStatesSQSWaitFailure(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		uncaught := w.start(w.create("uncaught", `"S": `+w.task("g", `, "End": true`)), "x", `{}`)
		w.failure(w.token(), "Nope", "because")
		w.wantEnd(uncaught, types.ExecutionStatusFailed, "Nope", "because")
		caught := w.start(w.create("caught", `"S": `+w.task("g", `, "Catch": [{"ErrorEquals": ["Nope"], "ResultPath": "$.err", "Next": "C"}], "End": true`)+`,
			"C": {"Type": "Pass", "End": true}`), "x", `{"a":1}`)
		w.failure(w.token(), "Nope", "because")
		w.wantEnd(caught, types.ExecutionStatusSucceeded, `{"a":1,"err":{"Cause":"because","Error":"Nope"}}`)
	})
}

func TestStatesSQSWaitRetry(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		execution := w.run(`"S": `+w.task("g", `, "Retry": [{"ErrorEquals": ["Again"], "IntervalSeconds": 2, "BackoffRate": 3, "MaxAttempts": 2}], "End": true`), `{}`)
		first := w.token()
		w.failure(first, "Again", "")
		start := time.Now()
		second := w.token()
		wantElapsed(t, start, 2*time.Second)
		wantCode(t, w.trySuccess(first, `1`), "TaskTimedOut")
		w.failure(second, "Again", "")
		start = time.Now()
		third := w.token()
		wantElapsed(t, start, 6*time.Second)
		if first == second || second == third {
			t.Error("a retry has the token of the try before")
		}
		w.success(third, `"done"`)
		w.wantEnd(execution, types.ExecutionStatusSucceeded, `"done"`)
	})
}

func TestStatesHeartbeatKeepsAlive(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		execution := w.run(`"S": `+w.task("g", `, "HeartbeatSeconds": 2, "End": true`), `{}`)
		token := w.token()
		for range 4 {
			w.sleep(time.Second)
			if err := w.tryHeartbeat(token); err != nil {
				t.Fatalf("SendTaskHeartbeat: %v", err)
			}
		}
		w.success(token, `1`)
		w.wantEnd(execution, types.ExecutionStatusSucceeded, `1`)
	})
}

func TestStatesHeartbeatTimeout(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		execution := w.run(`"S": `+w.task("g", `, "HeartbeatSeconds": 2, "Catch": [{"ErrorEquals": ["States.HeartbeatTimeout"], "Next": "C"}], "End": true`)+`,
			"C": {"Type": "Pass", "Result": "missed", "End": true}`, `{}`)
		w.sleep(1999 * time.Millisecond)
		w.wantEnd(execution, types.ExecutionStatusRunning)
		w.sleep(time.Millisecond)
		w.wantEnd(execution, types.ExecutionStatusSucceeded, `"missed"`)
	})
}

func TestStatesTaskTimeout(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		execution := w.run(`"S": `+w.task("g", `, "TimeoutSeconds": 2, "End": true`), `{}`)
		token := w.token()
		w.sleep(2 * time.Second)
		w.wantEnd(execution, types.ExecutionStatusFailed, "States.Timeout")
		wantCode(t, w.trySuccess(token, `1`), "TaskTimedOut")
		wantCode(t, w.tryHeartbeat(token), "TaskTimedOut")
	})
}

func TestStatesTokenErrors(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		execution := w.run(`"S": `+w.task("g", `, "End": true`), `{}`)
		token := w.token()
		wantCode(t, w.trySuccess("garbage", `1`), "InvalidToken")
		wantCode(t, w.trySuccess(token+"A", `1`), "InvalidToken")
		wantCode(t, w.tryFailure("garbage", "E", "C"), "InvalidToken")
		wantCode(t, w.tryHeartbeat("garbage"), "InvalidToken")
		wantCode(t, w.trySuccess(token, `{`), "InvalidOutput")
		w.success(token, `1`)
		w.wantEnd(execution, types.ExecutionStatusSucceeded, `1`)
		wantCode(t, w.trySuccess(token, `1`), "TaskTimedOut")
		wantCode(t, w.tryFailure(token, "E", "C"), "TaskTimedOut")
		wantCode(t, w.tryHeartbeat(token), "TaskTimedOut")
	})
}
