package states_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/settle-run/settle/infra/awslocal/internal/states"
)

// planner draws plans.
type planner struct {
	t     *rapid.T
	names int
}

// plan draws a flow. No branch fails at the instant it starts, so that no two branches fail at the same time with
// different errors.
func (p *planner) plan(depth int) plan {
	n := rapid.IntRange(1, 5).Draw(p.t, "steps")
	kinds := []string{"Pass", "Choice", "Wait", "Task", "Task", "Task"}
	if depth < 2 {
		kinds = append(kinds, "Parallel", "Map")
	}
	var flow plan
	for i := range n {
		kind := rapid.SampledFrom(kinds).Draw(p.t, "kind")
		last := i == n-1
		if last && (kind == "Choice" || rapid.IntRange(0, 4).Draw(p.t, "ends") == 0) {
			kind = "Succeed"
			if depth == 0 && rapid.Bool().Draw(p.t, "fails") {
				kind = "Fail"
			}
		}
		p.names++
		s := planned{name: fmt.Sprintf("s%d", p.names), kind: kind, next: -1}
		if !last {
			s.next = i + 1
		}
		p.fields(&s, i, n, depth)
		flow.steps = append(flow.steps, s)
	}
	return flow
}

func (p *planner) fields(s *planned, i, n, depth int) {
	later := func() int { return rapid.IntRange(i+1, n-1).Draw(p.t, "later") }
	switch s.kind {
	case "Pass":
		s.add = rapid.IntRange(-2, 3).Draw(p.t, "add")
		return
	case "Choice":
		s.add, s.other = rapid.IntRange(-1, 5).Draw(p.t, "than"), later()
		return
	case "Wait":
		s.seconds = rapid.IntRange(0, 3).Draw(p.t, "seconds")
		return
	case "Succeed", "Fail":
		return
	case "Task":
		s.lambda = rapid.Bool().Draw(p.t, "lambda")
		s.timeout = rapid.IntRange(0, 4).Draw(p.t, "timeout")
	case "Parallel":
		for range rapid.IntRange(1, 3).Draw(p.t, "branches") {
			s.flows = append(s.flows, p.plan(depth+1))
		}
	case "Map":
		s.atOnce = rapid.IntRange(0, 2).Draw(p.t, "atOnce")
		s.flows = []plan{p.plan(depth + 1)}
	}
	names := []string{"E1", "E2", "States.Timeout", "States.TaskFailed"}
	for range rapid.IntRange(0, 2).Draw(p.t, "retriers") {
		s.retry = append(s.retry, plannedRetry{
			errors:   []string{rapid.SampledFrom(names).Draw(p.t, "name")},
			interval: rapid.IntRange(1, 3).Draw(p.t, "interval"), most: rapid.IntRange(0, 3).Draw(p.t, "most"),
			backOff: float64(rapid.IntRange(4, 10).Draw(p.t, "backOff")) / 4, maxDelay: rapid.SampledFrom([]float64{0, 4}).Draw(p.t, "maxDelay"),
		})
	}
	if i < n-1 {
		for range rapid.IntRange(0, 2).Draw(p.t, "catchers") {
			s.catch = append(s.catch, plannedCatch{errors: []string{rapid.SampledFrom(names).Draw(p.t, "name")}, next: later()})
		}
		if rapid.Bool().Draw(p.t, "catchesAll") {
			s.catch = append(s.catch, plannedCatch{errors: []string{"States.ALL"}, next: later()})
		}
	}
}

// callbackAt is the answer to a task and the time of the answer.
type callbackAt struct {
	at   time.Time
	give func()
}

// play runs an execution of a definition to its end. The seed determines the outcomes of its tasks.
func play(w *world, definition, input string, seed uint64) string {
	w.t.Helper()
	var due []callbackAt
	sent, held := 0, 0
	asked := func(o outcome, give func()) {
		if !o.never {
			due = append(due, callbackAt{w.now.Add(o.after), give})
		}
	}
	collect := func() {
		for ; sent < len(w.sent); sent++ {
			if w.sent[sent]["QueueUrl"] != "q" {
				continue
			}
			b := readBody(w.t, w.sent[sent]["MessageBody"].(string))
			o := outcomeOf(seed, b.State, b.Retry, b.N, b.Hang)
			asked(o, func() {
				if o.failed != "" {
					_, _ = w.try("SendTaskFailure", in{"taskToken": b.Token, "error": o.failed}) // its task may have been aborted
				} else {
					_, _ = w.try("SendTaskSuccess", in{"taskToken": b.Token, "output": fmt.Sprint(b.N)})
				}
			})
		}
		for ; held < len(w.held); held++ {
			task := w.held[held]
			b := readBody(w.t, string(task.Input))
			o := outcomeOf(seed, b.State, b.Retry, b.N, b.Hang)
			asked(o, func() {
				var failure *states.Failure
				if o.failed != "" {
					failure = &states.Failure{Error: o.failed}
				}
				w.m.Finish(w.now, task.ID, json.RawMessage(fmt.Sprint(b.N)), failure)
				w.step()
			})
		}
	}
	arn := w.run(definition, input)
	for collect(); ; collect() {
		next, ok := w.m.Next()
		first := -1
		for i, c := range due {
			if first < 0 || c.at.Before(due[first].at) {
				first = i
			}
		}
		switch {
		case first >= 0 && (!ok || due[first].at.Before(next)):
			c := due[first]
			due = slices.Delete(due, first, first+1)
			w.now = c.at
			c.give()
		case ok:
			w.now = next
			w.m.Advance(next)
			w.step()
		default:
			return arn
		}
	}
}

type body struct {
	State, Token string
	Retry, N     int
	Hang         bool
}

func readBody(tb tester, text string) body {
	tb.Helper()
	var b body
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		tb.Fatal(err)
	}
	return b
}

// referenceForm converts an output of the model to the form of the reference: caught errors are reduced to their
// names, and auxiliary members are removed.
func referenceForm(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = referenceForm(value[i])
		}
	case map[string]any:
		delete(value, "sum")
		if caught, ok := value["caught"].(map[string]any); ok {
			delete(value, "caught")
			value["e"] = caught["Error"]
		}
		if t, ok := value["t"].(map[string]any); ok {
			value["t"] = t["n"]
		}
		for _, name := range slices.Collect(maps.Keys(value)) {
			value[name] = referenceForm(value[name])
		}
	}
	return value
}

func drawMachine(t *rapid.T) (p plan, seconds int, list []any, seed uint64) {
	p = (&planner{t: t}).plan(0)
	seconds = rapid.SampledFrom([]int{0, 0, 0, 7, 30}).Draw(t, "machine's timeout")
	for range rapid.IntRange(0, 4).Draw(t, "items") {
		list = append(list, rapid.IntRange(0, 3).Draw(t, "item"))
	}
	if list == nil {
		list = []any{}
	}
	return p, seconds, list, rapid.Uint64().Draw(t, "seed")
}

func inputOf(list []any) string {
	text, err := json.Marshal(in{"n": 1, "list": list})
	if err != nil {
		panic(err) // plain data always marshals
	}
	return string(text)
}

// TestMachinesEndLikeTheReference runs random machines whose tasks succeed, fail and hang. It compares their results
// and end times with a naive interpreter of the same plan.
func TestMachinesEndLikeTheReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p, seconds, list, seed := drawMachine(rt)
		w := newWorld(rt)
		definition := p.definition(seconds)
		arn := play(w, definition, inputOf(list), seed)
		got := w.call("DescribeExecution", in{"executionArn": arn})
		end := reference{seed}.flow(p, value{"n": 1, "list": list}, 0)
		want := "SUCCEEDED"
		switch limit := time.Duration(seconds) * time.Second; {
		case seconds > 0 && end.at >= limit:
			want, end = "TIMED_OUT", result{at: limit}
		case end.error != "":
			want = "FAILED"
		}
		gotError, _ := got["error"].(string)
		stopped, err := got["stopDate"].(json.Number).Float64()
		if err != nil {
			rt.Fatal(err)
		}
		took := time.Duration((stopped-float64(begin.Unix()))*1000+0.5) * time.Millisecond
		if got["status"] != want || gotError != end.error || took != end.at {
			rt.Fatalf("got %v %s after %v, want %s %s after %v\n%s", got["status"], gotError, took, want, end.error, end.at, definition)
		}
		if want != "SUCCEEDED" {
			return
		}
		var output any
		if err := json.Unmarshal([]byte(got["output"].(string)), &output); err != nil {
			rt.Fatal(err)
		}
		wanted, err := json.Marshal(end.value)
		if err != nil {
			rt.Fatal(err)
		}
		var wantValue any
		if err := json.Unmarshal(wanted, &wantValue); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(wantValue, referenceForm(output)); diff != "" {
			rt.Fatalf("output (-want +got):\n%s\n%s", diff, definition)
		}
	})
}

// TestHistoryIsTheSameAfterRestores runs random machines twice: once without restores, and once with a restore after
// each call and each advance.
func TestHistoryIsTheSameAfterRestores(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p, seconds, list, seed := drawMachine(rt)
		plain, restored := newWorld(rt), newWorld(rt).restoring()
		definition := p.definition(seconds)
		arn := play(plain, definition, inputOf(list), seed)
		play(restored, definition, inputOf(list), seed)
		if diff := cmp.Diff(plain.history(arn), restored.history(arn)); diff != "" {
			rt.Fatalf("history (-plain +restored):\n%s\n%s", diff, definition)
		}
		if diff := cmp.Diff(plain.call("DescribeExecution", in{"executionArn": arn}), restored.call("DescribeExecution", in{"executionArn": arn})); diff != "" {
			rt.Fatalf("execution (-plain +restored):\n%s", diff)
		}
	})
}
