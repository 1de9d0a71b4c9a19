package states

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states/asl"
	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// callTask starts the task of a Task state. Each attempt has its own token.
func (r *run) callTask(f *flow) {
	s, m := f.state, r.m
	if s.Resource.Callback {
		f.Token = m.count(&m.counters.Token)
	}
	parameters, timeout, failure := r.taskInput(f)
	if failure == nil && parameters.tooLarge() {
		failure = tooLarge(s)
	}
	if failure != nil {
		r.fail(f, failure)
		return
	}
	f.Phase, f.Call = working, parameters
	f.Task = m.count(&m.counters.Task)
	if timeout > 0 {
		f.TimesOut = r.now.Add(time.Duration(timeout) * time.Second)
	}
	f.restartHeartbeat(r.now)
	m.tasks[f.Task] = f
	if f.Token != 0 {
		m.tokens[f.Token] = f
	}
	m.setAlarm(f)
	m.pending = append(m.pending, f.Task)
	r.taskScheduled(f, timeout)
}

// taskInput returns the parameters of a task and its timeout in seconds, zero if it has none.
func (r *run) taskInput(f *flow) (p payload, timeout int, failure *Failure) {
	s := f.state
	input, failure := s.InputPath.Apply(f.scope(f.Input.value), "InputPath")
	if failure != nil {
		return payload{}, 0, failure
	}
	parameters := input
	if s.Parameters != nil {
		if parameters, failure = s.Parameters.Fill(f.scope(input)); failure != nil {
			return payload{}, 0, failure
		}
	}
	if timeout, failure = positive(s.Timeout, f.scope(input)); failure != nil {
		return payload{}, 0, failure
	}
	if f.Heartbeat, failure = positive(s.Heartbeat, f.scope(input)); failure != nil {
		return payload{}, 0, failure
	}
	return newPayload(parameters), timeout, nil
}

// positive returns the seconds of a timeout, or zero if the state has none. A path must not select zero.
func positive(seconds asl.Number, scope asl.Scope) (int, *Failure) {
	n, failure := seconds.Value(scope)
	if failure == nil && seconds.Set && n == 0 {
		failure = asl.Runtime("The parameters TimeoutSecondsPath and HeartbeatSecondsPath must select a positive integer, not 0")
	}
	return n, failure
}

// restartHeartbeat restarts the heartbeat timer.
func (f *flow) restartHeartbeat(now time.Time) {
	if f.Heartbeat > 0 {
		f.HeartbeatBy = now.Add(time.Duration(f.Heartbeat) * time.Second)
	}
}

// taskScheduled records that a task has started. If the resource of the state is itself a Lambda function, the events
// have their own types.
func (r *run) taskScheduled(f *flow, timeout int) {
	resource := f.state.Resource
	var d details
	prefix := "Task"
	if resource.Function != "" {
		prefix = "LambdaFunction"
		d = details{"resource": resource.ARN, "input": f.Call.text}
	} else {
		d = details{"resourceType": resource.Service, "resource": resource.Name(), "region": wire.Region, "parameters": f.Call.text}
		if f.Heartbeat > 0 {
			d["heartbeatInSeconds"] = f.Heartbeat
		}
	}
	if timeout > 0 {
		d["timeoutInSeconds"] = timeout
	}
	r.chain(f, event{Type: prefix + "Scheduled", Details: d})
	r.taskEvent(f, "Started", details{})
}

// taskEvent records an event of a task, such as "Succeeded".
func (r *run) taskEvent(f *flow, what string, d details) {
	resource := f.state.Resource
	if resource.Function != "" {
		if what == "Started" {
			d = nil
		}
		r.chain(f, event{Type: "LambdaFunction" + what, Details: d})
		return
	}
	d["resourceType"], d["resource"] = resource.Service, resource.Name()
	r.chain(f, event{Type: "Task" + what, Details: d})
}

// taskEnded records that a task has failed or timed out, and fails the state.
func (r *run) taskEnded(f *flow, what string, failure *Failure) {
	r.taskEvent(f, what, failureDetails(failure))
	r.fail(f, failure)
}

// task returns the call that the caller must perform for a flow.
func (f *flow) task() Task {
	resource := f.state.Resource
	t := Task{ID: f.Task, Service: resource.Service, Action: resource.Action, Execution: f.x.ARN}
	parameters, _ := f.Call.value.(map[string]any)
	switch {
	case resource.Function != "":
		t.Function, t.Input = resource.Function, json.RawMessage(f.Call.text)
	case resource.Service == "lambda":
		t.Function = textOf(parameters["FunctionName"])
		t.Input = json.RawMessage("{}")
		if payload, ok := parameters["Payload"]; ok {
			t.Input = json.RawMessage(document.Encode(payload))
		}
	default:
		input := make(map[string]any, len(parameters))
		for name, value := range parameters {
			if name == "MessageBody" && value != nil {
				value = textOf(value)
			}
			input[name] = value
		}
		t.Input = json.RawMessage(document.Encode(input))
	}
	return t
}

// textOf returns a string unchanged and other values as JSON: a message body that is an object is sent as its JSON.
func textOf(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return document.Encode(value)
}

// finish accepts the result of a task's call.
func (r *run) finish(f *flow, output json.RawMessage, failure *Failure) {
	resource := f.state.Resource
	delete(r.m.tasks, f.Task)
	f.Task = 0
	var result payload
	if failure == nil {
		result, failure = taskResult(f, output)
	}
	switch {
	case failure != nil && resource.Callback:
		r.taskEnded(f, "SubmitFailed", failure)
	case failure != nil:
		r.taskEnded(f, "Failed", failure)
	case resource.Callback:
		r.taskEvent(f, "Submitted", details{"output": result.text})
	default:
		r.taskSucceeded(f, result)
	}
	r.settle()
}

// taskResult returns the result of a task from the output of its call. For lambda:invoke, the function's answer
// becomes the Payload.
func taskResult(f *flow, output json.RawMessage) (payload, *Failure) {
	result, err := readPayload(string(output))
	if err != nil {
		return payload{}, asl.Runtime("The output of the task is not JSON: %v", err)
	}
	if resource := f.state.Resource; resource.Service == "lambda" && resource.Function == "" {
		result = newPayload(map[string]any{"ExecutedVersion": "$LATEST", "Payload": result.value, "StatusCode": number(200)})
	}
	if result.tooLarge() {
		return payload{}, tooLarge(f.state)
	}
	return result, nil
}

func (r *run) taskSucceeded(f *flow, result payload) {
	r.taskEvent(f, "Succeeded", details{"output": result.text})
	r.m.clearWaits(f)
	s := f.state
	if s.ResultSelector == nil && s.ResultPath.All() {
		r.exit(f, s.Next, result) // This keeps the text of the result unchanged.
		return
	}
	r.succeed(f, result.value)
}
