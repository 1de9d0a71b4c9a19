package states_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states"
)

// BenchmarkExecution shows that the cost of an execution does not depend on the number of ended and waiting executions:
//
//	go test -run - -bench Execution ./infra/awslocal/internal/states
func BenchmarkExecution(b *testing.B) {
	for _, others := range []int{0, 1_000, 30_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			w := newWorld(b)
			w.create("m", one(callback(`, "HeartbeatSeconds": 9000000`+end)))
			for i := range others {
				cycle(b, w.m, w.now, fmt.Sprint("done", i), true)
				cycle(b, w.m, w.now, fmt.Sprint("waits", i), false)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				cycle(b, w.m, w.now, fmt.Sprint("x", i), true)
			}
		})
	}
}

// cycle starts an execution and lets the model send the message of its task. If `ends` is set, cycle then completes the
// task with the token.
func cycle(tb testing.TB, m *states.Model, now time.Time, name string, ends bool) {
	tb.Helper()
	call := func(operation string, input in) {
		body, err := json.Marshal(input)
		if err != nil {
			tb.Fatal(err)
		}
		if _, failed := m.Call(now, operation, body); failed != nil {
			tb.Fatal(failed)
		}
	}
	call("StartExecution", in{"stateMachineArn": machineARN + "m", "name": name})
	for _, task := range m.TakeTasks() {
		m.Finish(now, task.ID, json.RawMessage(`{}`), nil)
		if ends {
			var input struct{ MessageBody string }
			if err := json.Unmarshal(task.Input, &input); err != nil {
				tb.Fatal(err)
			}
			call("SendTaskSuccess", in{"taskToken": readBody(tb, input.MessageBody).Token, "output": "1"})
		}
	}
	call("DescribeExecution", in{"executionArn": execARN + "m:" + name})
	call("ListExecutions", in{"stateMachineArn": machineARN + "m", "statusFilter": "RUNNING", "maxResults": 1})
}
