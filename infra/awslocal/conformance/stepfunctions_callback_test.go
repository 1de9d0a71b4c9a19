package conformance_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

func sqsWaitSuccess(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	x := w.execute(t, `"S": `+q.task(inGroup("g"), `, "ResultPath": "$.r", "Next": "T"`)+`, "T": {"Type": "Pass", "Parameters": {"r.$": "$.r.ok", "a.$": "$.a"}, "End": true}`, `{"a": 1}`)
	tokens, inputs := q.tokens(1)
	want(t, "groups", []string{"g"}, slices.Collect(maps.Keys(tokens)))
	want(t, "input", anyJSON(t, `{"a": 1}`), anyJSON(t, inputs["g"]))
	w.pass(24 * time.Hour)
	x.wantRunning()
	must(t, "SendTaskSuccess", w.success(t, tokens["g"], `{"ok": 1.5}`))
	x.wantSuccess(`{"a": 1, "r": 1.5}`)
	wantBodies(t, q.receive())
}

func sqsWaitFailure(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	uncaught := w.execute(t, `"S": `+q.task(inGroup("g"), `, "Catch": [{"ErrorEquals": ["Yes"], "Next": "C"}]`+ends)+`, "C": {"Type": "Succeed"}`, `{}`)
	must(t, "SendTaskFailure", w.failure(t, q.token(), "Nope", "because"))
	uncaught.wantEnd(types.ExecutionStatusFailed, "Nope", "because")
	caught := w.execute(t, `"S": `+q.task(inGroup("g"), `, "Catch": [{"ErrorEquals": ["Nope"], "ResultPath": "$.err", "Next": "C"}], "Next": "D"`)+`,
		"C": {"Type": "Pass", "Result": "C", "ResultPath": "$.via", "End": true}, "D": {"Type": "Pass", "End": true}`, `{"a": 1}`)
	must(t, "SendTaskFailure", w.failure(t, q.token(), "Nope", "because"))
	caught.wantSuccess(`{"a": 1, "via": "C", "err": {"Error": "Nope", "Cause": "because"}}`)
}

func sqsWaitRetry(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	x := w.execute(t, `"S": `+q.task(inGroup("g"), `, "Retry": [{"ErrorEquals": ["Again"], "IntervalSeconds": 1, "BackoffRate": 2, "MaxAttempts": 2}]`+ends), `{"a": 1}`)
	before, last := []string{}, q.token()
	for _, interval := range []time.Duration{time.Second, 2 * time.Second} {
		failed := time.Now()
		must(t, "SendTaskFailure", w.failure(t, last, "Again", ""))
		w.wantOver(t, last)
		before, last = append(before, last), q.token()
		w.wantAt(t, "the next message", time.Now(), failed.Add(interval))
	}
	for _, token := range before {
		if token == last {
			t.Error("a retry has the token of a try before")
		}
		w.wantOver(t, token)
	}
	x.wantRunning()
	must(t, "SendTaskSuccess", w.success(t, last, `"done"`))
	x.wantSuccess(`"done"`)

	x = w.execute(t, `"S": `+q.task(inGroup("g"), `, "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "MaxAttempts": 1}]`+ends), `{}`)
	must(t, "SendTaskFailure", w.failure(t, q.token(), "First", ""))
	must(t, "SendTaskFailure", w.failure(t, q.token(), "Last", "enough"))
	x.wantEnd(types.ExecutionStatusFailed, "Last", "enough")
}

func heartbeatKeepsAlive(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	x := w.execute(t, `"S": `+q.task(inGroup("g"), `, "HeartbeatSeconds": 2`+ends), `{}`)
	token := q.token()
	for range 4 {
		time.Sleep(time.Second)
		must(t, "SendTaskHeartbeat", w.heartbeat(t, token))
	}
	x.wantRunning()
	must(t, "SendTaskSuccess", w.success(t, token, `"alive"`))
	x.wantSuccess(`"alive"`)
}

func heartbeatTimeout(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	x := w.execute(t, `"S": `+q.task(inGroup("g"), `, "HeartbeatSeconds": 2, "Next": "D",
		"Catch": [{"ErrorEquals": ["States.HeartbeatTimeout"], "ResultPath": "$.err", "Next": "C"}]`)+`,
		"C": {"Type": "Pass", "InputPath": "$.err.Error", "End": true}, "D": {"Type": "Pass", "End": true}`, `{}`)
	token := q.token()
	time.Sleep(time.Second)
	must(t, "SendTaskHeartbeat", w.heartbeat(t, token))
	beat := time.Now()
	w.untilJustBefore(t, beat.Add(2*time.Second))
	x.wantRunning()
	w.until(beat.Add(2 * time.Second))
	x.wantSuccess(`"States.HeartbeatTimeout"`)
	w.wantOver(t, token)
}

func taskTimeout(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	began := time.Now()
	x := w.execute(t, `"S": `+q.task(inGroup("g"), `, "TimeoutSeconds": 2`+ends), `{}`)
	token := q.token()
	time.Sleep(time.Second)
	must(t, "SendTaskHeartbeat", w.heartbeat(t, token)) // a heartbeat does not extend the timeout
	w.untilJustBefore(t, began.Add(2*time.Second))
	x.wantRunning()
	w.until(began.Add(2 * time.Second))
	out := x.end()
	want(t, "the status", types.ExecutionStatusFailed, out.Status)
	want(t, "the error", "States.Timeout", *out.Error)
	w.wantOver(t, token)
	want(t, "the status", types.ExecutionStatusFailed, x.end().Status)
}

func tokenErrors(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	x := w.execute(t, `"S": `+q.task(inGroup("g"), ends), `{}`)
	token := q.token()
	for _, garbage := range []string{"garbage", token + "A", token[:len(token)-1], token[1:]} {
		wantAs(t, "SendTaskSuccess", w.success(t, garbage, `1`), new(*types.InvalidToken))
		wantAs(t, "SendTaskFailure", w.failure(t, garbage, "E", "C"), new(*types.InvalidToken))
		wantAs(t, "SendTaskHeartbeat", w.heartbeat(t, garbage), new(*types.InvalidToken))
	}
	for _, output := range []string{`{`, `{"a": 1} 2`, `done`, `'done'`} {
		wantAs(t, "the output "+output, w.success(t, token, output), new(*types.InvalidOutput))
	}
	x.wantRunning()
	must(t, "SendTaskSuccess", w.success(t, token, `1`))
	x.wantSuccess(`1`)
	w.wantOver(t, token)
	x.wantSuccess(`1`)
}

func parallelMap(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	one := func(state, group string) string {
		return `{"StartAt": "` + state + `", "States": {"` + state + `": ` + q.task(group, ends) + `}}`
	}
	x := w.execute(t, `"S": {"Type": "Parallel", "Branches": [`+one("A", inGroup("a"))+`, `+one("B", inGroup("b"))+`, `+one("C", inGroup("c"))+`], "ResultPath": "$.all", "Next": "M"},
		"M": {"Type": "Map", "ItemsPath": "$.items", "MaxConcurrency": 2, "ResultPath": "$.mapped",
			"ItemProcessor": `+one("I", `"MessageGroupId.$": "$.group"`)+`, "End": true}`,
		`{"items": [{"group": "x"}, {"group": "y"}, {"group": "z"}]}`)
	succeed := func(tokens map[string]string, groups ...string) {
		t.Helper()
		for _, group := range groups {
			must(t, "SendTaskSuccess of "+group, w.success(t, tokens[group], `"`+group+`!"`))
		}
	}
	tokens, _ := q.tokens(3)
	want(t, "branches", []string{"a", "b", "c"}, slices.Sorted(maps.Keys(tokens)))
	succeed(tokens, "c", "a")
	w.pass(time.Hour)
	x.wantRunning()
	wantBodies(t, q.receive(upTo(10)))
	succeed(tokens, "b")

	tokens, inputs := q.tokens(2)
	want(t, "iterations at once", []string{"x", "y"}, slices.Sorted(maps.Keys(tokens)))
	want(t, "the item", anyJSON(t, `{"group": "y"}`), anyJSON(t, inputs["y"]))
	w.pass(time.Hour)
	wantBodies(t, q.receive(upTo(10)))
	succeed(tokens, "y")
	third, _ := q.tokens(1)
	succeed(third, "z")
	x.wantRunning()
	succeed(tokens, "x")
	x.wantSuccess(`{"items": [{"group": "x"}, {"group": "y"}, {"group": "z"}], "all": ["a!", "b!", "c!"], "mapped": ["x!", "y!", "z!"]}`)
}
