package states_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/record/recordtest"
	"github.com/settle-run/settle/infra/awslocal/internal/states"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// begin is the start time of every world's clock.
var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	role       = "arn:aws:iam::000000000000:role/any"
	machineARN = "arn:aws:states:us-east-1:000000000000:stateMachine:"
	execARN    = "arn:aws:states:us-east-1:000000000000:execution:"
)

// world is a model with a clock, a queue and the functions of a test.
type world struct {
	t   tester
	m   *states.Model
	now time.Time
	// sent holds the inputs of sqs:sendMessage, in order.
	sent []map[string]any
	// functions answer invocations at once. Tasks of other functions stay unfinished.
	functions map[string]func(payload string) (string, *states.Failure)
	held      []states.Task
	// noQueue makes every send fail.
	noQueue bool
	// kept holds the model's records if the world restores the model at each step. Otherwise it is nil.
	kept recordtest.Kept
}

// tester is the part of *testing.T and *rapid.T that a world needs.
type tester interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newWorld(tb tester) *world {
	tb.Helper()
	return &world{t: tb, m: states.New(), now: begin, functions: make(map[string]func(string) (string, *states.Failure))}
}

// restoring makes the world replace its model at each step by a model restored from its records.
func (w *world) restoring() *world {
	w.kept = make(recordtest.Kept)
	w.m.Keep()
	return w
}

// step performs the pending tasks, and restores the model if the test has called `restoring`.
func (w *world) step() {
	w.t.Helper()
	w.restore()
	for tasks := w.m.TakeTasks(); len(tasks) > 0; tasks = w.m.TakeTasks() {
		for _, task := range tasks {
			w.perform(task)
		}
	}
	w.restore()
}

func (w *world) perform(task states.Task) {
	w.t.Helper()
	switch task.Service {
	case "sqs":
		if w.noQueue {
			w.m.Finish(w.now, task.ID, nil, &states.Failure{Error: "SQS.QueueDoesNotExistException", Cause: "no queue"})
			return
		}
		var input map[string]any
		if err := json.Unmarshal(task.Input, &input); err != nil {
			w.t.Fatalf("input of a send: %v", err)
		}
		w.sent = append(w.sent, input)
		w.m.Finish(w.now, task.ID, json.RawMessage(fmt.Sprintf(`{"MessageId":"m-%d"}`, len(w.sent))), nil)
	case "lambda":
		function, ok := w.functions[task.Function]
		if !ok {
			if !slices.ContainsFunc(w.held, func(h states.Task) bool { return h.ID == task.ID }) {
				w.held = append(w.held, task)
			}
			return
		}
		output, failure := function(string(task.Input))
		w.m.Finish(w.now, task.ID, json.RawMessage(output), failure)
	}
}

// restore takes the changed records and replaces the model by a new one, which it restores from all records.
func (w *world) restore() {
	w.t.Helper()
	if w.kept == nil {
		return
	}
	w.kept.Apply(w.m.TakeRecords())
	m := states.New()
	if err := m.Restore(w.kept.Each); err != nil {
		w.t.Fatalf("Restore: %v", err)
	}
	m.Keep()
	w.m = m
}

// try performs an operation. The input is JSON text or a value.
func (w *world) try(operation string, input any) (map[string]any, *wire.Error) {
	w.t.Helper()
	body, ok := input.(string)
	if !ok {
		encoded, err := json.Marshal(input)
		if err != nil {
			w.t.Fatal(err)
		}
		body = string(encoded)
	}
	answer, failed := w.m.Call(w.now, operation, []byte(body))
	w.step()
	if failed != nil {
		return nil, failed
	}
	decoder := json.NewDecoder(strings.NewReader(string(answer)))
	decoder.UseNumber()
	var out map[string]any
	if err := decoder.Decode(&out); err != nil {
		w.t.Fatalf("%s answers %s: %v", operation, answer, err)
	}
	return out, nil
}

func (w *world) call(operation string, input any) map[string]any {
	w.t.Helper()
	out, err := w.try(operation, input)
	if err != nil {
		w.t.Fatalf("%s: %v", operation, err)
	}
	return out
}

// wantError fails unless the operation fails with this code and a message that contains `part`.
func (w *world) wantError(operation string, input any, code, part string) {
	w.t.Helper()
	out, err := w.try(operation, input)
	if err == nil {
		w.t.Errorf("%s: got %v, want %s", operation, out, code)
	} else if err.Code != code || !strings.Contains(err.Message, part) {
		w.t.Errorf("%s: got %v, want %s: ...%s...", operation, err, code, part)
	}
}

type in map[string]any

func (w *world) create(name, definition string) {
	w.t.Helper()
	w.call("CreateStateMachine", in{"name": name, "definition": definition, "roleArn": role})
}

// start starts an execution of a machine and returns its ARN.
func (w *world) start(machine, name, input string) string {
	w.t.Helper()
	return w.call("StartExecution", in{"stateMachineArn": machineARN + machine, "name": name, "input": input})["executionArn"].(string)
}

// run creates a new machine and starts it.
func (w *world) run(definition, input string) string {
	w.t.Helper()
	name := fmt.Sprintf("m%d", len(w.call("ListStateMachines", in{"maxResults": 1000})["stateMachines"].([]any)))
	w.create(name, definition)
	return w.start(name, "x", input)
}

// advance lets time pass and performs each piece of work when it is due.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	until := w.now.Add(d)
	for {
		next, ok := w.m.Next()
		if !ok || next.After(until) {
			w.now = until
			return
		}
		w.now = next
		w.m.Advance(next)
		w.step()
	}
}

// ends returns the state of an execution, such as "SUCCEEDED {}", "RUNNING" or "FAILED error: cause".
func (w *world) ends(arn string) string {
	w.t.Helper()
	out := w.call("DescribeExecution", in{"executionArn": arn})
	text := out["status"].(string)
	if output, ok := out["output"]; ok {
		return text + " " + output.(string)
	}
	if name, ok := out["error"]; ok {
		text += " " + name.(string)
	}
	if cause, ok := out["cause"]; ok {
		text += ": " + cause.(string)
	}
	return text
}

func (w *world) wantEnd(arn, want string) {
	w.t.Helper()
	if got := w.ends(arn); got != want {
		w.t.Errorf("%s:\n got %s\nwant %s", arn, got, want)
	}
}

// history returns the events of an execution.
func (w *world) history(arn string) []map[string]any {
	w.t.Helper()
	var events []map[string]any
	input := in{"executionArn": arn, "maxResults": 1000}
	for {
		out := w.call("GetExecutionHistory", input)
		for _, event := range out["events"].([]any) {
			events = append(events, event.(map[string]any))
		}
		if out["nextToken"] == nil {
			return events
		}
		input["nextToken"] = out["nextToken"]
	}
}

// types returns one line for each event of the history. A line has the event's ID and type, the name of the state or
// iteration and, after the sign <, the ID of the previous event.
func (w *world) types(arn string) []string {
	w.t.Helper()
	var lines []string
	for _, event := range w.history(arn) {
		line := fmt.Sprintf("%v %v", event["id"], event["type"])
		for _, details := range event {
			if d, ok := details.(map[string]any); ok && d["name"] != nil {
				line += fmt.Sprintf(" %v", d["name"])
				if d["index"] != nil {
					line += fmt.Sprintf("[%v]", d["index"])
				}
			}
		}
		lines = append(lines, fmt.Sprintf("%s <%v", line, event["previousEventId"]))
	}
	return lines
}

func (w *world) wantTypes(arn string, want ...string) {
	w.t.Helper()
	if got := w.types(arn); !slices.Equal(got, want) {
		w.t.Errorf("history:\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// times returns the times of the events of a type, in seconds since the start.
func (w *world) times(arn, eventType string) []float64 {
	w.t.Helper()
	var times []float64
	for _, event := range w.history(arn) {
		if event["type"] == eventType {
			at, err := event["timestamp"].(json.Number).Float64()
			if err != nil {
				w.t.Fatal(err)
			}
			times = append(times, at-float64(begin.Unix()))
		}
	}
	return times
}

func (w *world) wantTimes(arn, eventType string, want ...float64) {
	w.t.Helper()
	got := w.times(arn, eventType)
	if len(got) != len(want) || !slices.EqualFunc(got, want, func(a, b float64) bool { return a-b < 0.0005 && b-a < 0.0005 }) {
		w.t.Errorf("%s: got at %v, want at %v", eventType, got, want)
	}
}

// token returns the token in the nth message sent, whose body is {"token": ...}.
func (w *world) token(n int) string {
	w.t.Helper()
	if n >= len(w.sent) {
		w.t.Fatalf("message %d was not sent, only %d", n, len(w.sent))
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(w.sent[n]["MessageBody"].(string)), &body); err != nil {
		w.t.Fatalf("message %d: %v", n, err)
	}
	return body["token"].(string)
}
