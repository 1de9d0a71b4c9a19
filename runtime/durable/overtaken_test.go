package durable_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// anonymous returns a task whose execution is unknown, so that no execution history can show its answer.
func (w *world) anonymous(token, name string) string {
	return strings.Replace(w.wait(token, name, 24*time.Hour, 0), fmt.Sprintf(`"execution": "execution of %s", `, token), "", 1)
}

// A process freezes after its commit, before it answers a task.
func TestAnAnswerThatAnotherProcessGaveIsNoExpiry(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.config.SlowAfter = time.Hour // A frozen process takes no lease.
		var answers atomic.Int32
		w.latency = func(id string) time.Duration {
			if id == "HandOver" && answers.Add(1) == 1 {
				return 7 * time.Minute
			}
			return 0
		}
		w.post(parcel1, fmt.Sprintf(`{"type": "hurry", "$task": %s}`, w.anonymous("t1", "HandOver")))
		w.mu.Lock()
		batch := w.receive(10)
		w.mu.Unlock()
		overtaken := make(chan []string)
		go func() { overtaken <- w.handle(batch, time.Hour) }()
		time.Sleep(6*time.Minute + time.Second)
		w.invoke()
		w.wantAnswer(t, "t1", handed)
		<-overtaken
		w.run(t)
		w.wantAnswer(t, "t1", handed)
		w.wantNoTokens(t)
		if got := w.snapshotLog(t); len(got) > 0 || answers.Load() != 2 {
			t.Errorf("after %d answers the chart logged %q, want 2 answers and no log", answers.Load(), got)
		}
	})
}

// A process waits for a long service. The answer to a task is stored, but the process has not given it yet.
func TestAnAnswerThatWaitsForTheNextCommitMayHaveBeenGiven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.SlowAfter = time.Hour // The process cannot take a lease.
		p := payloads()
		p[durable.TokenExpired] = statechart.PayloadOf[gone]()
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "route", Version: 1, Initial: "waiting", Payloads: p,
			On: []on{{Event: durable.TokenExpired, Actions: do{noted("expired")}}},
			States: []chartState{
				{ID: "waiting", Tags: settled, On: []on{{Event: "charge", Target: "first"}}},
				{ID: "first", Resolve: []resolution{{Name: "Outcome"}}, Invoke: []invoke{{Service: w.service("first"), OnDone: []on{{Target: "second"}}, OnError: []on{{Target: "waiting"}}}}},
				{ID: "second", Invoke: []invoke{{Service: w.service("second"), OnDone: []on{{Target: "third"}}, OnError: []on{{Target: "waiting"}}}}},
				{ID: "third", Invoke: []invoke{{Service: w.service("third"), OnDone: []on{{Target: "over"}}, OnError: []on{{Target: "waiting"}}}}},
				{ID: "over", Tags: settled},
			},
		}), durable.MachineConfig{}))
		w.third["first"], w.third["second"], w.third["third"] = lasting(0, ""), lasting(7*time.Minute, ""), lasting(0, "")
		w.post("route/1", fmt.Sprintf(`{"type": "settle.wait", "$task": %s}`, w.anonymous("t1", "Outcome")))
		w.runFor(t, time.Second)
		w.post("route/1", event("charge", ""))
		w.hook = faults(map[string]fault{"ClearOutbox route/1 #2": dieAfter})
		w.mu.Lock()
		batch := w.receive(10)
		w.mu.Unlock()
		overtaken := make(chan []string)
		go func() { overtaken <- w.handle(batch, time.Hour) }()
		time.Sleep(6*time.Minute + time.Second)
		// Meanwhile the message is visible again, and another process gives the answer, clears the outbox and dies.
		w.invoke()
		if told := w.answers("t1"); !strings.Contains(told, "first") {
			t.Errorf("the task received %s; calls %q", told, w.calls)
		}
		<-overtaken
		w.run(t)
		w.wantState(t, "route/1", "over")
		for _, step := range w.load("route/1").History {
			if step.Event == durable.TokenExpired {
				t.Errorf("the chart received token.expired, although the task received %s", w.answers("t1"))
			}
		}
	})
}

// One event leads to more attempts than AbandonedMax, each in a separate delivery.
func TestEachServiceHasItsOwnTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AbandonedMax = 3
		states := []chartState{{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "s1"}}}}
		for i := 1; i <= 4; i++ {
			name := fmt.Sprint("s", i)
			w.third[name] = failing(2, errors.New("busy"))
			states = append(states, chartState{ID: name, Invoke: []invoke{{Service: w.service(name), Retry: statechart.RetryPolicy{Attempts: 5, Interval: time.Second},
				OnDone: []on{{Target: fmt.Sprint("s", i+1)}}, OnError: []on{{Target: "idle"}}}}})
		}
		states = append(states, chartState{ID: "s5", Tags: settled})
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{ID: "row", Version: 1, Initial: "idle", Payloads: payloads(), States: states}), durable.MachineConfig{}))
		w.post("row/1", event("charge", ""))
		w.run(t)
		w.wantState(t, "row/1", "s5")
		w.wantParked(t)
	})
}
