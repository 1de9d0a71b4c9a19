package states_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// The reference interprets generated machines without the model. One recursive function computes in advance when
// everything ends. It shares no code with the model.

// plan is a generated flow. Its steps lead only to later steps.
type plan struct{ steps []planned }

// planned is a generated state.
type planned struct {
	name string
	kind string // Pass, Choice, Wait, Task, Parallel, Map, Fail or Succeed
	next int    // a step of the plan; -1 ends the flow

	add     int // Pass: added to n; Choice: compared with n
	other   int // Choice: the next step if n is not less
	seconds int // Wait: the duration
	lambda  bool
	timeout int // Task: in seconds; zero means none
	retry   []plannedRetry
	catch   []plannedCatch
	flows   []plan
	atOnce  int // Map: the maximum number of concurrent iterations
}

type plannedRetry struct {
	errors            []string
	interval, most    int
	backOff, maxDelay float64
}

type plannedCatch struct {
	errors []string
	next   int
}

// outcome is the result of a task, and the time after which the task returns it.
type outcome struct {
	after  time.Duration
	failed string // the name of the error; empty if it succeeds
	never  bool
}

// outcomeOf determines the outcome of a task from its parameters.
func outcomeOf(seed uint64, state string, retries, n int, mayHang bool) outcome {
	h := seed
	for _, c := range fmt.Sprintf("%s/%d/%d", state, retries, n) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 29
	o := outcome{after: time.Duration(1+h/10%4999) * time.Millisecond}
	switch h % 10 {
	case 0, 1:
		o.failed = "E1"
	case 2, 3:
		o.failed = "E2"
	case 4:
		o.never = mayHang
	}
	return o
}

// reference computes the expected result of a plan.
type reference struct{ seed uint64 }

// value is the data of a flow: the members of an object.
type value = map[string]any

// result is the end of a state or flow, and its time.
type result struct {
	at    time.Duration
	value value
	error string // the error's name; empty if it succeeds
}

func with(v value, name string, member any) value {
	v = maps.Clone(v)
	v[name] = member
	return v
}

func (r reference) flow(p plan, in value, at time.Duration) result {
	for i := 0; ; {
		step := p.steps[i]
		done, next := r.step(step, in, at)
		if done.error != "" || next < 0 {
			return done
		}
		in, at, i = done.value, done.at, next
	}
}

func (r reference) step(s planned, in value, at time.Duration) (result, int) {
	n := in["n"].(int)
	switch s.kind {
	case "Pass":
		return result{at: at, value: with(in, "n", n+s.add)}, s.next
	case "Choice":
		if n < s.add {
			return result{at: at, value: in}, s.next
		}
		return result{at: at, value: in}, s.other
	case "Wait":
		return result{at: at + time.Duration(s.seconds)*time.Second, value: in}, s.next
	case "Fail":
		return result{at: at, error: "Failed"}, -1
	case "Succeed":
		return result{at: at, value: in}, -1
	}
	used := make([]int, len(s.retry))
	for retries := 0; ; retries++ {
		done := r.attempt(s, in, at, retries)
		if done.error == "" {
			return done, s.next
		}
		again := slices.IndexFunc(s.retry, func(p plannedRetry) bool { return covers(p.errors, done.error) })
		if again >= 0 && used[again] < s.retry[again].most {
			p := s.retry[again]
			delay := float64(p.interval) * math.Pow(p.backOff, float64(used[again]))
			if p.maxDelay > 0 {
				delay = math.Min(delay, p.maxDelay)
			}
			at = done.at + time.Duration(math.Round(delay*1000))*time.Millisecond
			used[again]++
			continue
		}
		for _, c := range s.catch {
			if covers(c.errors, done.error) {
				return result{at: done.at, value: with(in, "e", done.error)}, c.next
			}
		}
		return done, -1
	}
}

// covers reports whether a list of names matches an error of a generated task.
func covers(names []string, name string) bool {
	return slices.Contains(names, name) || slices.Contains(names, "States.ALL") ||
		(slices.Contains(names, "States.TaskFailed") && name != "States.Timeout")
}

func (r reference) attempt(s planned, in value, at time.Duration, retries int) result {
	switch s.kind {
	case "Task":
		o := outcomeOf(r.seed, s.name, retries, in["n"].(int), s.timeout > 0)
		if limit := time.Duration(s.timeout) * time.Second; s.timeout > 0 && (o.never || o.after >= limit) {
			return result{at: at + limit, error: "States.Timeout"}
		}
		if o.failed != "" {
			return result{at: at + o.after, error: o.failed}
		}
		return result{at: at + o.after, value: with(in, "t", in["n"])}
	case "Parallel":
		all := make([]result, len(s.flows))
		for i, p := range s.flows {
			all[i] = r.flow(p, in, at)
		}
		return joined(in, all)
	}
	return r.mapped(s, in, at)
}

// joined returns the result of a Parallel state. The state ends with its last branch, or with the first branch that
// fails.
func joined(in value, all []result) result {
	end := result{value: in}
	var outputs []any
	for _, one := range all {
		switch {
		case one.error != "" && (end.error == "" || one.at < end.at):
			end = result{at: one.at, error: one.error}
		case end.error == "":
			end.at = max(end.at, one.at)
			outputs = append(outputs, one.value)
		}
	}
	if end.error == "" {
		end.value = with(in, "r", outputs)
	}
	return end
}

// mapped returns the result of a Map state. The state starts an iteration whenever fewer than the maximum are running.
func (r reference) mapped(s planned, in value, at time.Duration) result {
	items := in["list"].([]any)
	outputs := make([]any, len(items))
	type running struct {
		index int
		result
	}
	var now []running
	for begun := 0; begun < len(items) || len(now) > 0; {
		if begun < len(items) && (s.atOnce == 0 || len(now) < s.atOnce) {
			now = append(now, running{begun, r.flow(s.flows[0], value{"n": items[begun], "list": in["list"]}, at)})
			begun++
			continue
		}
		first := 0
		for i := range now {
			if now[i].at < now[first].at {
				first = i
			}
		}
		at = now[first].at
		if now[first].error != "" {
			return result{at: at, error: now[first].error}
		}
		outputs[now[first].index] = now[first].value
		now = slices.Delete(now, first, first+1)
	}
	return result{at: at, value: with(in, "r", outputs)}
}

// states returns the states of a plan in the Amazon States Language.
func (p plan) states() map[string]any {
	states := make(map[string]any)
	to := func(state map[string]any, next int) {
		if next < 0 {
			state["End"] = true
		} else {
			state["Next"] = p.steps[next].name
		}
	}
	for _, s := range p.steps {
		state := map[string]any{"Type": s.kind}
		switch s.kind {
		case "Pass":
			state["Parameters"] = in{"x.$": fmt.Sprintf("States.MathAdd($.n, %d)", s.add)}
			state["ResultPath"] = "$.sum"
			states[s.name] = state
			state["Next"] = s.name + "'"
			state = map[string]any{"Type": "Pass", "InputPath": "$.sum.x", "ResultPath": "$.n"}
			drop := map[string]any{"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage", "ResultPath": nil,
				"Parameters": in{"QueueUrl": "log", "MessageBody.$": "States.Format('{}', $.n)"}}
			to(drop, s.next)
			state["Next"] = s.name + "''"
			states[s.name+"''"] = drop
			states[s.name+"'"] = state
			continue
		case "Choice":
			state["Choices"] = []in{{"Variable": "$.n", "NumericLessThan": s.add, "Next": p.steps[s.next].name}}
			state["Default"] = p.steps[s.other].name
		case "Wait":
			state["Seconds"] = s.seconds
		case "Fail":
			state["Error"] = "Failed"
		case "Task":
			s.task(state)
		case "Parallel":
			var branches []in
			for _, flow := range s.flows {
				branches = append(branches, in{"StartAt": flow.steps[0].name, "States": flow.states()})
			}
			state["Branches"], state["ResultPath"] = branches, "$.r"
		case "Map":
			state["ItemsPath"], state["MaxConcurrency"], state["ResultPath"] = "$.list", s.atOnce, "$.r"
			state["ItemSelector"] = in{"n.$": "$$.Map.Item.Value", "list.$": "$.list"}
			state["ItemProcessor"] = in{"StartAt": s.flows[0].steps[0].name, "States": s.flows[0].states()}
		}
		if s.kind != "Choice" && s.kind != "Fail" && s.kind != "Succeed" {
			to(state, s.next)
		}
		for _, r := range s.retry {
			retry := in{"ErrorEquals": r.errors, "IntervalSeconds": r.interval, "MaxAttempts": r.most, "BackoffRate": r.backOff}
			if r.maxDelay > 0 {
				retry["MaxDelaySeconds"] = r.maxDelay
			}
			list, _ := state["Retry"].([]in)
			state["Retry"] = append(list, retry)
		}
		for _, c := range s.catch {
			list, _ := state["Catch"].([]in)
			state["Catch"] = append(list, in{"ErrorEquals": c.errors, "ResultPath": "$.caught", "Next": p.steps[c.next].name})
		}
		states[s.name] = state
	}
	return states
}

// task adds the fields of a Task. The parameters identify the attempt. They contain the task token, unless a Lambda
// function performs the task.
func (s planned) task(state map[string]any) {
	body := in{"state.$": "$$.State.Name", "retry.$": "$$.State.RetryCount", "n.$": "$.n", "hang": s.timeout > 0}
	if s.timeout > 0 {
		state["TimeoutSeconds"] = s.timeout
	}
	state["ResultPath"] = "$.t"
	if s.lambda {
		state["Resource"] = "arn:aws:states:::lambda:invoke"
		state["Parameters"] = in{"FunctionName": "f", "Payload": body}
		state["ResultSelector"] = in{"n.$": "$.Payload"}
		return
	}
	body["token.$"] = "$$.Task.Token"
	state["Resource"] = "arn:aws:states:::sqs:sendMessage.waitForTaskToken"
	state["Parameters"] = in{"QueueUrl": "q", "MessageBody": body}
	state["ResultSelector"] = in{"n.$": "$"}
}

// definition returns the machine of a plan with this timeout in seconds. Zero means no timeout.
func (p plan) definition(seconds int) string {
	machine := in{"StartAt": p.steps[0].name, "States": p.states()}
	if seconds > 0 {
		machine["TimeoutSeconds"] = seconds
	}
	text, err := json.Marshal(machine)
	if err != nil {
		panic(err) // plans are plain data
	}
	return string(text)
}
