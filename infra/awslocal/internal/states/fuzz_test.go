package states_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states"
)

// FuzzDefinition checks that no definition, input or task result makes the model panic, and that every answer is
// JSON.
func FuzzDefinition(f *testing.F) {
	everything, err := os.ReadFile("asl/testdata/everything.asl.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(everything), `{"in": {"a": [1, 2, 3]}, "one": 1, "at": "2026-01-02T04:04:05Z", "beat": 5, "group": "g", "error": {"Error": "E"}}`, `{"outcome": "done"}`)
	f.Add(one(callback(`, "TimeoutSeconds": 9, "Retry": [{"ErrorEquals": ["States.ALL"]}]`+end)), `[]`, `1e999`)
	f.Add(one(`{"Type": "Choice", "Choices": [{"Variable": "$.a[?(@.b)]", "NumericEqualsPath": "$..b", "Next": "S"}]}`), `{"a": {"b": 1e400}}`, `1`)
	f.Fuzz(func(t *testing.T, definition, input, output string) {
		m := states.New()
		now := begin
		call := func(operation string, in in) bool {
			body, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			answer, failed := m.Call(now, operation, body)
			if failed == nil && !json.Valid(answer) {
				t.Errorf("%s answers %s, which is not JSON", operation, answer)
			}
			return failed == nil
		}
		if !call("CreateStateMachine", in{"name": "m", "definition": definition, "roleArn": role}) {
			return
		}
		call("StartExecution", in{"stateMachineArn": machineARN + "m", "name": "x", "input": input})
		for range 10 {
			for i, task := range m.TakeTasks() {
				var failure *states.Failure
				if i%3 == 2 {
					failure = &states.Failure{Error: output}
				}
				m.Finish(now, task.ID, json.RawMessage(output), failure)
			}
			if next, ok := m.Next(); ok {
				now = next
			}
			m.Advance(now)
		}
		call("GetExecutionHistory", in{"executionArn": execARN + "m:x"})
		call("DescribeExecution", in{"executionArn": execARN + "m:x"})
		now = now.Add(time.Hour)
		call("StopExecution", in{"executionArn": execARN + "m:x"})
	})
}
