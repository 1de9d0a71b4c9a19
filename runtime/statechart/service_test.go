package statechart_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

func callNothing(context.Context, trace, statechart.Call) (int, error) { return 0, nil }

// calling returns a chart with a state p that invokes a service and continues to ok or failed.
func calling() Def {
	return Def{Initial: "p", States: []S{
		{ID: "p", Invoke: []Invoke{service("",
			[]On{{Target: "ok", Actions: Do{statechart.Assign("keep", func(c *trace, n int) { c.N = n })}}},
			[]On{{Target: "failed", Actions: Do{statechart.Assign("blame", func(c *trace, e statechart.ServiceError) {
				c.Log = append(c.Log, e.Service+" "+e.Message)
				c.N = e.Attempts
			})}}})}},
		{ID: "ok", On: []On{{Event: "AGAIN", Target: "p"}}},
		{ID: "failed"},
	}}
}

func TestServiceRunsFromTheEndOfTheMacrostepToItsDoneEvent(t *testing.T) {
	t.Parallel()
	r := begin(t, calling())
	r.is("p", "+p")
	equal(t, "settled", r.step.Next.Settled(), false)
	equal(t, "services", len(r.step.Next.Services), 1)
	call := r.step.Next.Services[0]
	equal(t, "invocation", text(t, call), `{"ID":"p","Key":"1.0","State":"p","Service":"call","Attempt":0,"RetryAt":"0001-01-01T00:00:00Z"}`)
	r.apply(call.Done(7)).is("ok", "-p +ok")
	equal(t, "result", r.step.Next.Context.N, 7)
	equal(t, "settled", r.step.Next.Settled(), true)
	equal(t, "services", len(r.step.Next.Services), 0)
}

func TestFailedServiceLeadsToItsErrorEvent(t *testing.T) {
	t.Parallel()
	r := begin(t, calling())
	call := r.step.Next.Services[0]
	call.Attempt = 3
	r.apply(call.Failed(errors.New("no route"))).is("failed", "+p -p call no route +failed")
	equal(t, "attempts", r.step.Next.Context.N, 3)
	equal(t, "attempts of one never counted", statechart.Invocation{}.Failed(errors.New("x")).Payload.(statechart.ServiceError).Attempts, 1)
}

func TestResultAsJSONIsDecodedAsTheTypeOfTheService(t *testing.T) {
	t.Parallel()
	r := begin(t, calling())
	equal(t, "a result of the wrong type", errorText(r.chart.Step(r.step.Next, r.step.Next.Services[0].Done(json.RawMessage(`"7"`)))),
		"wrong payload: the result of service call of chart c: expected a whole number of 64 bits, got a string")
	r.apply(r.step.Next.Services[0].Done(json.RawMessage("7"))).is("ok", "+p -p +ok")
	equal(t, "result", r.step.Next.Context.N, 7)
}

func errorText(_ statechart.Step[trace], err error) string { return fmt.Sprint(err) }

func TestStaleResultIsIgnored(t *testing.T) {
	t.Parallel()
	r := begin(t, calling())
	first := r.step.Next.Services[0]
	r.apply(first.Done(1)).send("AGAIN")
	second := r.step.Next.Services[0]
	equal(t, "key of the second invocation", second.Key, "3.0")
	before := text(t, r.step.Next)
	r.apply(first.Done(2))
	equal(t, "handled", r.step.Handled, false)
	equal(t, "snapshot", text(t, r.step.Next), before)
	r.apply(second.Done(3))
	equal(t, "result", r.step.Next.Context.N, 3)
}

func TestServiceOfAStateLeftInTheSameMacrostepNeverStarts(t *testing.T) {
	t.Parallel()
	def := calling()
	def.States[0].Always = []On{{Guard: below(1), Target: "ok"}}
	r := begin(t, def)
	r.is("ok", "+p -p +ok")
	equal(t, "services", len(r.step.Next.Services), 0)
}

func TestServicesEndWithTheirState(t *testing.T) {
	t.Parallel()
	both := func(id string) S { return S{ID: id, Invoke: []Invoke{service(id, []On{{Target: "#out"}}, []On{{}})}} }
	keep := both("r3")
	keep.Invoke[0].OnDone = []On{{}}
	r := begin(t, Def{Initial: "o", States: []S{
		{ID: "o", Type: statechart.Parallel, States: []S{
			{ID: "q", Initial: "p", States: []S{{ID: "p", Type: statechart.Parallel, States: []S{both("r1"), both("r2")}}, {ID: "out"}}},
			keep}}}})
	equal(t, "services", len(r.step.Next.Services), 3)
	stale := r.step.Next.Services[1].Done(0)
	r.apply(r.step.Next.Services[0].Done(0)).is("o.q.out o.r3", "+o +q +p +r1 +r2 +r3 -r2 -r1 -p +out")
	equal(t, "services", len(r.step.Next.Services), 1)
	equal(t, "remaining service", r.step.Next.Services[0].ID, "r3")
	r.apply(stale)
	equal(t, "handled", r.step.Handled, false)
}

func TestEndOfAServiceGoesToItsOwnStateOnly(t *testing.T) {
	t.Parallel()
	end := func(word string) []On { return []On{{Target: "done", Actions: logs(word)}} }
	region := func(id string) S {
		return S{ID: id, Initial: "call", States: []S{{ID: "call", Invoke: []Invoke{service("", end("ok "+id), end("bad "+id))}}, {ID: "done"}}}
	}
	r := begin(t, Def{Parallel: true, States: []S{region("r1"), region("r2")}})
	r.apply(r.step.Next.Services[1].Failed(errors.New("x"))).is("r1.call r2.done", "+r1 +call +r2 +call -call bad r2 +done")
	r.apply(r.step.Next.Services[0].Done(0)).is("r1.done r2.done", "-call ok r1 +done")
}

func TestInvocationsWithoutAnIDAreDistinct(t *testing.T) {
	t.Parallel()
	other := service("", []On{{Target: "q"}}, []On{{}})
	other.Service.Name = "other"
	r := begin(t, Def{Initial: "p", States: []S{{ID: "p", Invoke: []Invoke{
		service("", []On{{Actions: logs("first")}}, []On{{}}), other}}, {ID: "q"}}})
	r.apply(r.step.Next.Services[0].Done(0)).is("p", "+p first")
	equal(t, "the other", r.step.Next.Services[0].ID, "p:1")
	r.apply(r.step.Next.Services[0].Done(0)).is("q", "-p +q")
}

func TestServiceIsFoundWithItsPolicies(t *testing.T) {
	t.Parallel()
	def := calling()
	def.States[0].Invoke[0].Timeout = time.Minute
	def.States[0].Invoke[0].Retry = statechart.RetryPolicy{Attempts: 4}
	def.States[0].Invoke[0].Service = statechart.ServiceFunc("call", func(_ context.Context, c trace, call statechart.Call) (int, error) {
		return c.N + call.Attempt, nil
	})
	r := begin(t, def)
	found, err := r.chart.Service(r.step.Next.Services[0])
	if err != nil {
		t.Fatal(err)
	}
	result, err := found.Service.Run(t.Context(), trace{N: 40}, statechart.Call{Attempt: 2})
	equal(t, "result", result, any(42))
	equal(t, "error", err, nil)
	equal(t, "timeout", found.Timeout, time.Minute)
	equal(t, "retry", found.Retry.Attempts, 4)
	_, err = r.chart.Service(statechart.Invocation{ID: "other"})
	equal(t, "error of an unknown one", err.Error(), `chart c has no invocation "other"`)
}

func TestRetryPolicyWaitsLongerUpToItsLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy  statechart.RetryPolicy
		attempt int
		wait    time.Duration
		again   bool
	}{
		{statechart.RetryPolicy{}, 1, 0, false},
		{statechart.RetryPolicy{Attempts: 1}, 1, 0, false},
		{statechart.RetryPolicy{Attempts: 3}, 1, time.Second, true},
		{statechart.RetryPolicy{Attempts: 3}, 2, 2 * time.Second, true},
		{statechart.RetryPolicy{Attempts: 3}, 3, 0, false},
		{statechart.RetryPolicy{Attempts: 9, Interval: 10 * time.Second, Rate: 1.5}, 3, 22500 * time.Millisecond, true},
		{statechart.RetryPolicy{Attempts: 9, Interval: time.Minute, Rate: 1}, 8, time.Minute, true},
		{statechart.RetryPolicy{Attempts: 9, IntervalMax: 5 * time.Second}, 8, 5 * time.Second, true},
		{statechart.RetryPolicy{Attempts: 9999}, 20, time.Hour, true},
		{statechart.RetryPolicy{Attempts: 9999}, 9000, time.Hour, true},
	} {
		wait, again := c.policy.Next(c.attempt)
		if wait != c.wait || again != c.again {
			t.Errorf("%+v after attempt %d: got %v, %v, want %v, %v", c.policy, c.attempt, wait, again, c.wait, c.again)
		}
	}
}

func TestPermanentMarksAnErrorAndKeepsIt(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such account")
	err := statechart.Permanent(cause)
	equal(t, "message", err.Error(), "no such account")
	equal(t, "cause", errors.Is(err, cause), true)
	equal(t, "permanent", statechart.IsPermanent(errors.Join(errors.New("calling"), err)), true)
	equal(t, "permanent of another", statechart.IsPermanent(cause), false)
	equal(t, "Permanent(nil)", statechart.Permanent(nil), nil)
	for want, err := range map[bool]error{true: err, false: cause} {
		equal(t, "permanent for the chart", statechart.Invocation{}.Failed(err).Payload.(statechart.ServiceError).Permanent, want)
	}
}

func TestServicesOfOneStateAreDistinct(t *testing.T) {
	t.Parallel()
	named := func(name string) Invoke {
		return Invoke{ID: name, Service: statechart.ServiceFunc(name, callNothing), OnDone: []On{{Actions: logs(name)}}, OnError: []On{{Target: "end"}}}
	}
	r := begin(t, Def{Initial: "p", States: []S{{ID: "p", Invoke: []Invoke{named("one"), named("two")}}, {ID: "end"}}})
	for k, name := range []string{"one", "two"} {
		found, err := r.chart.Service(r.step.Next.Services[k])
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "service", found.Service.Name, name)
	}
	r.apply(r.step.Next.Services[1].Done(1)).is("p", "+p two")
	equal(t, "left", r.step.Next.Services[0].ID, "one")
}

func TestServicesStartInDocumentOrder(t *testing.T) {
	t.Parallel()
	region := func(id, event string, then ...statechart.Action[trace]) S {
		return S{ID: "r" + id, Initial: "a" + id, States: []S{{ID: "a" + id, On: []On{{Event: event, Target: "c" + id, Actions: then}}},
			{ID: "c" + id, Invoke: []Invoke{service(id, []On{{Target: "a" + id}}, []On{{Target: "a" + id}})}}}}
	}
	r := begin(t, Def{Parallel: true, States: []S{region("1", "NEXT"), region("2", "GO", raise("NEXT"))}})
	r.send("GO")
	equal(t, "services", r.step.Next.Services[0].ID+" "+r.step.Next.Services[0].Key+", "+r.step.Next.Services[1].ID+" "+r.step.Next.Services[1].Key, "1 2.0, 2 2.1")
}
