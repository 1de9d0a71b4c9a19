package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

type (
	chartState = statechart.State[basket]
	on         = statechart.Transition[basket]
	do         = []statechart.Action[basket]
	invoke     = statechart.Invoke[basket]
	after      = statechart.After[basket]
)

// basket is the context of the charts here. Log lists the applied items in order.
type basket struct {
	Log  []string `json:"log"`
	Blob string   `json:"blob,omitempty"`
	Sum  float64  `json:"sum,omitempty"`
	Note note     `json:"note"`
}

// note panics when it is marshalled with Poisonous set.
type note struct{ Poisonous bool }

func (n note) MarshalJSON() ([]byte, error) {
	if n.Poisonous {
		panic("poisonous note")
	}
	return []byte("{}"), nil
}

// item is the payload of most events.
type item struct {
	Item  string `json:"item"`
	To    string `json:"to"`
	Bytes int    `json:"bytes"`
}

func (i item) Validate() error {
	switch i.Item {
	case "invalid":
		return errors.New("invalid item")
	case "explosive":
		panic("explosive item")
	}
	if rest, ok := strings.CutPrefix(i.Item, "quoted"); ok {
		return errors.New("an item that is quoted whole: " + rest)
	}
	return nil
}

func noted(text string) statechart.Action[basket] {
	return statechart.Assign("note "+text, func(b *basket, _ statechart.Event) { b.Log = append(b.Log, text) })
}

var (
	settled = []string{statechart.Settled}

	keep      = statechart.Assign("keep", func(b *basket, i item) { b.Log = append(b.Log, i.Item) })
	refuse    = statechart.TryAssign("refuse", func(*basket, item) error { return errors.New("refused") })
	crash     = statechart.Assign("crash", func(*basket, item) { panic("crashed") })
	grow      = statechart.Assign("grow", func(b *basket, i item) { b.Blob = strings.Repeat("x", i.Bytes) })
	spoil     = statechart.Assign("spoil", func(b *basket, _ item) { b.Sum = math.NaN() })
	poison    = statechart.Assign("poison", func(b *basket, _ item) { b.Note.Poisonous = true })
	tell      = statechart.SendTo("add", func(_ basket, e statechart.Event) (string, any) { return told(e) })
	answered  = statechart.Assign("answered", func(b *basket, answer string) { b.Log = append(b.Log, answer) })
	gaveUp    = statechart.Assign("gave up", func(b *basket, e statechart.ServiceError) { b.Log = append(b.Log, e.Service+": "+e.Message) })
	breakDown = statechart.TryAssign("break down", func(*basket, statechart.ServiceError) error { return errors.New("broken down") })
	devour    = statechart.Assign("devour", func(b *basket, answer string) { b.Blob = answer })
	show      = statechart.Emit("shown", func(b basket, _ statechart.Event) any { return map[string]int{"items": len(b.Log)} })
	exploding = statechart.When("exploding", func(basket, item) bool { panic("exploded") })
)

func told(e statechart.Event) (string, any) {
	i, _ := e.Payload.(item)
	return i.To, map[string]string{"item": i.Item}
}

// payloads declares the events of all charts here.
func payloads() statechart.Payloads {
	p := statechart.Payloads{}
	for _, typ := range strings.Fields("add refuse crash explode grow spoil poison tell wait cancel finish grind charge ship both limit hurry doom devour poll again past") {
		p[typ] = statechart.PayloadOf[item]()
	}
	return p
}

// order is a machine with services, timers, sends and failures of many kinds.
func (w *world) order() durable.Machine {
	idle := []on{{Target: "idle", Actions: do{answered}}}
	failed := []on{{Target: "idle", Actions: do{gaveUp}}}
	retry := func(attempts int, interval time.Duration) statechart.RetryPolicy {
		return statechart.RetryPolicy{Attempts: attempts, Interval: interval}
	}
	side := func(name string) chartState {
		return chartState{ID: name, Initial: "busy", States: []chartState{
			{ID: "busy", Invoke: []invoke{{Service: w.service(name), Retry: retry(4, map[string]time.Duration{"left": 5 * time.Second, "right": 20 * time.Second}[name]),
				OnDone: []on{{Target: "ready", Actions: do{answered}}}, OnError: []on{{Target: "ready", Actions: do{gaveUp}}}}}},
			{ID: "ready", Type: statechart.Final},
		}}
	}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "order", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{
				{Event: "add", Actions: do{keep}}, {Event: "refuse", Actions: do{refuse}}, {Event: "crash", Actions: do{crash}},
				{Event: "explode", Guard: exploding}, {Event: "grow", Actions: do{grow}}, {Event: "spoil", Actions: do{spoil}},
				{Event: "poison", Actions: do{poison}}, {Event: "tell", Actions: do{keep, tell}}, {Event: "wait", Target: "waiting"},
				{Event: "finish", Target: "finished"}, {Event: "charge", Target: "charging"}, {Event: "ship", Target: "packing"},
				{Event: "both", Target: "both"}, {Event: "limit", Target: "limited"}, {Event: "hurry", Target: "hurrying"},
				{Event: "doom", Target: "doomed"}, {Event: "devour", Target: "devouring"}, {Event: "poll", Target: "polling"},
				{Event: "past", Target: "past"}, {Event: "grind", Target: "grinding"},
			}},
			{ID: "waiting", Tags: settled, Defer: []string{"refuse"}, On: []on{{Event: "add", Actions: do{keep}}, {Event: "cancel", Target: "idle", Actions: do{show}}, {Event: "again", Target: "waiting", Reenter: true, Actions: do{show}}},
				After: []after{{Delay: time.Hour, Target: "idle", Actions: do{noted("hour over")}}}},
			// One service, with retries.
			{ID: "charging", Invoke: []invoke{{Service: w.service("charge"), Timeout: 10 * time.Second, Retry: retry(3, 5*time.Second), OnDone: idle, OnError: failed}}},
			// Two services, one after the other.
			{ID: "packing", Invoke: []invoke{{Service: w.service("pack"), Retry: retry(2, 0), OnDone: []on{{Target: "posting", Actions: do{answered}}}, OnError: failed}}},
			{ID: "posting", Invoke: []invoke{{Service: w.service("post"), Retry: retry(2, 0), OnDone: idle, OnError: failed}}},
			// Two services in parallel.
			{ID: "both", Type: statechart.Parallel, States: []chartState{side("left"), side("right")}, OnDone: []on{{Target: "idle", Actions: do{noted("both ready")}}}},
			// A service with a time limit.
			{ID: "limited", Invoke: []invoke{{Service: w.service("slow"), Retry: retry(9, 4*time.Minute), OnDone: idle, OnError: failed}},
				After: []after{{Delay: 10 * time.Minute, Target: "idle", Actions: do{noted("never")}}, {Delay: 30 * time.Second, Target: "apologizing", Actions: do{noted("limit reached")}}}},
			{ID: "apologizing", Invoke: []invoke{{Service: w.service("apologize"), OnDone: idle, OnError: failed}}},
			// One attempt, no retry.
			{ID: "hurrying", Invoke: []invoke{{Service: w.service("hurry"), OnDone: []on{{Target: "rushing", Actions: do{answered}}}, OnError: failed}},
				After: []after{{Delay: 40 * time.Second, Target: "apologizing"}}},
			{ID: "rushing", Invoke: []invoke{{Service: w.service("rush"), OnDone: idle, OnError: failed}}},
			// The chart fails on the end of this service.
			{ID: "doomed", Invoke: []invoke{{Service: w.service("doom"), OnDone: idle, OnError: []on{{Target: "idle", Actions: do{breakDown}}}}}},
			// The result of the service is stored in the context.
			{ID: "devouring", Invoke: []invoke{{Service: w.service("first"), OnDone: []on{{Target: "digesting", Actions: do{answered}}}, OnError: failed}}},
			{ID: "digesting", Invoke: []invoke{{Service: w.service("second"), OnDone: []on{{Target: "idle", Actions: do{devour}}}, OnError: failed}}},
			// Many attempts.
			{ID: "polling", Invoke: []invoke{{Service: w.service("poll"), Retry: statechart.RetryPolicy{Attempts: 30, Rate: 1}, OnDone: idle, OnError: failed}}},
			// Many attempts of one service, then another service.
			{ID: "grinding", Invoke: []invoke{{Service: w.service("grind"), Retry: statechart.RetryPolicy{Attempts: 30, Rate: 1}, OnDone: []on{{Target: "charging"}}, OnError: failed}}},
			// A timer that is always due.
			{ID: "past", Invoke: []invoke{{Service: w.service("past"), OnDone: idle, OnError: failed}},
				After: []after{{ID: "past", At: func(basket, statechart.Event) time.Time { return time.Unix(0, 0) }, Target: "past", Reenter: true}}},
			{ID: "finished", Type: statechart.Final},
		},
	}), durable.MachineConfig{Retention: 24 * time.Hour})
}

// greeter is a machine whose instances send a greeting to order/2 when they start, and then wait. Only "add" starts an
// instance.
func (w *world) greeter() durable.Machine {
	greet := statechart.SendTo("add", func(basket, statechart.Event) (string, any) {
		return "order/2", map[string]string{"item": "greeting"}
	})
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "greeter", Version: 1, Initial: "idle", Payloads: payloads(),
		Context: func(s statechart.Start) basket {
			if strings.HasSuffix(s.Instance, "/unstartable") {
				panic("unstartable")
			}
			return basket{}
		},
		States: []chartState{
			{ID: "idle", Tags: settled, Entry: do{greet}, After: []after{{Delay: time.Hour, Target: "idle"}},
				On: []on{{Event: "add", Actions: do{keep}}, {Event: "refuse", Actions: do{refuse}}, {Event: "charge", Target: "charging"}}},
			{ID: "charging", Invoke: []invoke{{Service: w.service("charge"), Retry: statechart.RetryPolicy{Attempts: 3},
				OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{gaveUp}}}}}},
		},
	}), durable.MachineConfig{StartedBy: []string{"add", "refuse", "charge"}})
}

// boot is a machine whose instances call a service before their first event, and retry it many times.
func (w *world) boot() durable.Machine {
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "boot", Version: 1, Initial: "booting", Payloads: payloads(),
		States: []chartState{
			{ID: "booting", Invoke: []invoke{{Service: w.service("boot"), Retry: statechart.RetryPolicy{Attempts: 30, Rate: 1},
				OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{breakDown}}}}}},
			{ID: "idle", Tags: settled, On: []on{{Event: "add", Actions: do{keep}}, {Event: "refuse", Actions: do{refuse}}, {Event: "grow", Actions: do{grow}}}},
		},
	}), durable.MachineConfig{})
}

// service returns a service that calls w.third, or returns "NAME ok" if w.third has no such service.
func (w *world) service(name string) statechart.Service[basket] {
	return statechart.ServiceFunc(name, func(ctx context.Context, _ basket, call statechart.Call) (string, error) {
		p, _ := ctx.Value(processKey{}).(*process)
		var third service
		err := p.call(ctx, "Serve", name, func() error {
			w.served, w.names = append(w.served, call), append(w.names, fmt.Sprintf("%s %d", name, call.Attempt))
			third = w.third[name]
			return nil
		})
		switch {
		case err != nil:
			return "", err
		case third != nil:
			return third(ctx, call)
		}
		return name + " ok", nil
	})
}

// calledFor returns the idempotency keys of a service's calls, in order.
func (w *world) calledFor(name string) (keys []string) {
	for i, served := range w.names {
		if strings.HasPrefix(served, name+" ") {
			keys = append(keys, w.served[i].Key)
		}
	}
	return keys
}

// logOf returns the log in the context of an instance.
func (w *world) logOf(t *testing.T, id string) []string {
	t.Helper()
	var snapshot struct{ Context struct{ Log []string } }
	if err := json.Unmarshal(w.load(id).Snapshot, &snapshot); err != nil {
		t.Fatalf("reading %s: %v", id, err)
	}
	return snapshot.Context.Log
}

// wantLog checks the log in the context of an instance.
func (w *world) wantLog(t *testing.T, id string, want ...string) {
	t.Helper()
	if got := w.logOf(t, id); !slices.Equal(got, want) {
		t.Errorf("the log of %s is %q, want %q", id, got, want)
	}
}

// wantState checks the active states of an instance.
func (w *world) wantState(t *testing.T, id string, want ...string) {
	t.Helper()
	if got := w.load(id).State; !slices.Equal(got, want) {
		t.Errorf("%s is in %q, want %q", id, got, want)
	}
}

// wantCalls checks the loop's calls since the last check.
func (w *world) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	if got := w.calls; !slices.Equal(got, want) {
		t.Errorf("the loop called\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	w.calls = nil
}

// wantServed checks the attempts of services, in order.
func (w *world) wantServed(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(w.names, want) {
		t.Errorf("services were called %q, want %q", w.names, want)
	}
}

// wantParked checks the parked events. For each event, want has a part of its body and a part of the reason.
func (w *world) wantParked(t *testing.T, want ...[2]string) {
	t.Helper()
	if len(w.parked) != len(want) {
		t.Errorf("%d events were parked, want %d: %+v", len(w.parked), len(want), w.parked)
		return
	}
	for i, p := range w.parked {
		if !strings.Contains(p.Body, want[i][0]) || !strings.Contains(p.Reason, want[i][1]) {
			t.Errorf("parked %q with the reason %q, want %q with the reason %q", p.Body, p.Reason, want[i][0], want[i][1])
		}
	}
}

// wantSound checks the invariants of a world at rest.
func (w *world) wantSound(t *testing.T) {
	t.Helper()
	for _, problem := range w.problems() {
		t.Error(problem)
	}
}

func (w *world) problems() (problems []string) {
	problems = slices.Concat(w.violations, w.asleep)
	if missing := w.unperformed(); len(missing) > 0 {
		problems = append(problems, fmt.Sprintf("committed but never performed: %q", missing))
	}
	for id := range w.records {
		if record := w.load(id); record.Owes() {
			problems = append(problems, fmt.Sprintf("the outbox of %s still holds %+v at rest", id, record.Outbox))
		}
	}
	return problems
}

// event returns the JSON form of an event with an item.
func event(typ, item string) string { return fmt.Sprintf(`{"type": %q, "item": %q}`, typ, item) }

// adds returns n events that add an item each.
func adds(n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, event("add", fmt.Sprint(i)))
	}
	return bodies
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}
