package simulate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// patient is the context of a chart that counts ticks. Its services and actions can fail in several ways.
type patient struct {
	Ticks int `json:"ticks"`
}

// illnesses are the services of the chart, by their event. Each has three attempts.
func illnesses(w **world) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"hang": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"kill": func(ctx context.Context) error { (*w).faults.kill(ctx); return ctx.Err() },
		"fail": func(context.Context) error { return errors.New("no") },
	}
}

// ward hosts the chart.
func ward(w **world) durable.Machine {
	type on = statechart.Transition[patient]
	type do = []statechart.Action[patient]
	settled := []string{statechart.Settled}
	tick := statechart.Update("tick", func(p *patient) { p.Ticks++ })
	crash := statechart.Update("crash", func(*patient) { panic("ill") })
	letter := statechart.SendTo("tick", func(patient, statechart.Event) (string, any) { return "ward/denied", nil })
	payloads := statechart.Payloads{"tick": statechart.NoPayload(), "crash": statechart.NoPayload(), "write": statechart.NoPayload()}
	well := statechart.State[patient]{ID: "well", Tags: settled, On: []on{
		{Event: "tick", Actions: do{tick}}, {Event: "crash", Actions: do{crash}}, {Event: "write", Actions: do{letter}},
	}}
	states := []statechart.State[patient]{}
	services := illnesses(w)
	for _, illness := range slices.Sorted(maps.Keys(services)) {
		payloads[illness] = statechart.NoPayload()
		well.On = append(well.On, on{Event: illness, Target: "ill_with_" + illness})
		states = append(states, statechart.State[patient]{ID: "ill_with_" + illness, Invoke: []statechart.Invoke[patient]{{
			Service: statechart.ServiceFunc(illness, func(ctx context.Context, _ patient, _ statechart.Call) (int, error) { return 0, services[illness](ctx) }),
			Timeout: 5 * time.Second, Retry: statechart.RetryPolicy{Attempts: 3, Interval: time.Second},
			OnDone: []on{{Target: "well"}}, OnError: []on{{Target: "well"}},
		}}})
	}
	return durable.Host(statechart.Must(statechart.Definition[patient]{
		ID: "ward", Version: 1, Initial: "well", Payloads: payloads, States: append(states, well),
	}), durable.MachineConfig{})
}

// latencies are the times from sending an event to the commit that contains it, by instance, in order.
type latencies map[string][]time.Duration

const (
	callLatency = 4 * time.Millisecond
	goods       = 5
	ticks       = 43
	sick        = "ward/sick"
	tickEvent   = `{"type": "tick"}`
)

func good(i int) string { return fmt.Sprintf("ward/good-%d", i) }

// commits records the times at which transitions are logged, right after they are stored.
type commits struct {
	mu sync.Mutex
	at map[string][]time.Time
}

func (c *commits) Write(text []byte) (int, error) {
	var one struct {
		Msg, Instance string
		Time          time.Time
	}
	if err := json.Unmarshal(bytes.TrimSpace(text), &one); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.Msg == "transition" {
		c.at[one.Instance] = append(c.at[one.Instance], one.Time)
	}
	return len(text), nil
}

// inWard runs a test in a world with the ward, where each call has a latency. The test receives the function `since`,
// which returns the latencies of the events that the test sent at the given times.
func inWard(t *testing.T, o options, test func(w *world, since func(sent map[string][]time.Time) latencies)) {
	t.Helper()
	var w *world
	c := &commits{at: map[string][]time.Time{}}
	o.more, o.log, o.faults = []durable.Machine{ward(&w)}, slog.NewJSONHandler(c, nil), &faults{latency: callLatency}
	o.refuse = func(operation, body string) string {
		if operation == "SendMessage" && strings.Contains(body, "ward/denied") {
			return "AccessDeniedException"
		}
		return ""
	}
	inWorld(t, o, func(in *world) {
		w = in
		test(w, func(sent map[string][]time.Time) latencies {
			found := latencies{}
			c.mu.Lock()
			defer c.mu.Unlock()
			for instance, times := range sent {
				if len(c.at[instance]) != len(times) {
					t.Errorf("want %d events of %s stored, got %d", len(times), instance, len(c.at[instance]))
					continue
				}
				for i, at := range times {
					found[instance] = append(found[instance], c.at[instance][i].Sub(at))
				}
			}
			return found
		})
	})
}

// The function `steadily` sends one event to each good instance every 700 ms, all at the same instant. At every seventh
// instant, it also sends the bad event, if any, to the sick instance. If bad.apart is set, the bad event comes 50 ms
// later. Otherwise, it is in one batch with the good events. The function returns the latencies of the good events.
func steadily(t *testing.T, batchSize int, bad trouble) (found latencies) {
	t.Helper()
	mixed := 0
	m := &meter{batch: func(bodies []string) {
		if slices.Contains(bodies, tickEvent) && slices.Contains(bodies, bad.event) {
			mixed++
		}
	}}
	inWard(t, options{meter: m, source: func(s *awslocal.EventSource) { s.BatchSize, s.Concurrency = batchSize, 50 }}, func(w *world, since func(map[string][]time.Time) latencies) {
		sent := map[string][]time.Time{}
		for tick := range ticks {
			var batch []raw
			isBad := bad.event != "" && tick%7 == 0
			if isBad && !bad.apart {
				batch = append(batch, raw{group: sick, body: bad.event})
			}
			for i := range goods {
				batch = append(batch, raw{group: good(i), body: tickEvent})
				sent[good(i)] = append(sent[good(i)], time.Now())
			}
			w.sendRaw(batch...)
			time.Sleep(50 * time.Millisecond)
			if isBad && bad.apart {
				w.sendRaw(raw{group: sick, body: bad.event})
			}
			time.Sleep(650 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		found = since(sent)
	})
	if want := bad.event != "" && !bad.apart && batchSize > goods; (mixed > 0) != want {
		t.Errorf("want the bad event in one batch with good ones: %v, got it in %d batches", want, mixed)
	}
	return found
}

// trouble is an event that makes an instance fail.
type trouble struct {
	event string
	// apart is set if the trouble lasts, or ends the process. In a batch with other events, the bad event would delay
	// them, as TestTroubleDelaysItsBatchWithinLimits shows.
	apart bool
}

var troubles = map[string]trouble{
	"a service that hangs":         {`{"type": "hang"}`, true},
	"a service that kills":         {`{"type": "kill"}`, true},
	"a service that fails":         {`{"type": "fail"}`, false},
	"an action that panics":        {`{"type": "crash"}`, false},
	"an effect that is denied":     {`{"type": "write"}`, false},
	"messages that are no events":  {`{"type": "tick"`, false},
	"events that are not declared": {`{"type": "vanish"}`, false},
}

// TestAFailingInstanceDelaysNoOther runs good instances with and without the bad instance, and compares their latencies
// event by event. The latencies are identical to the nanosecond: each event is stored after its own read and write.
func TestAFailingInstanceDelaysNoOther(t *testing.T) {
	t.Parallel()
	quiet := latencies{}
	for i := range goods {
		quiet[good(i)] = slices.Repeat([]time.Duration{2 * callLatency}, ticks)
	}
	for _, batchSize := range []int{1, 10} {
		cases := maps.Clone(troubles)
		cases["nothing bad"] = trouble{}
		for name, bad := range cases {
			t.Run(fmt.Sprintf("batches of %d, %s", batchSize, name), func(t *testing.T) {
				t.Parallel()
				if got := steadily(t, batchSize, bad); !reflect.DeepEqual(got, quiet) {
					t.Errorf("want the latencies of a run without trouble,\n%v\ngot\n%v", quiet, got)
				}
			})
		}
	}
}

// TestTroubleDelaysItsBatchWithinLimits sends a bad event and good ones in one batch, and then another good event to
// each good instance. The first good event of an instance is not delayed if it is stored before the bad event ends. The
// second one waits until the first one is acknowledged.
func TestTroubleDelaysItsBatchWithinLimits(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for _, c := range []struct {
		name, bad string
		late      bool
		// `first` and `next` are the maximum latencies of the first and the next event of a good instance.
		first, next time.Duration
	}{
		{"nothing bad", "", false, 2 * callLatency, 2 * callLatency},
		{"a service that hangs", `{"type": "hang"}`, false, 2 * callLatency, second},
		{"a service that hangs, acknowledged with the batch", `{"type": "hang"}`, true, 2 * callLatency, 5 * second},
		{"a service that fails", `{"type": "fail"}`, false, 2 * callLatency, 2 * callLatency},
		{"an action that panics", `{"type": "crash"}`, false, 2 * callLatency, 2 * callLatency},
		{"an event that is no event", `{"type": "tick"`, false, 2 * callLatency, 2 * callLatency},
		{"an effect that is denied", `{"type": "write"}`, false, 2 * callLatency, 2 * callLatency},
		// The process dies before anything is stored. The messages become visible after the visibility timeout of 60 s.
		// They may share a batch with the killing event again, until that event has used up its attempts.
		{"a service that kills", `{"type": "kill"}`, false, 4*60*second + 2*callLatency, 4*60*second + 2*callLatency},
		{"a service that kills, in batches of one", `{"type": "kill"}`, false, 2 * callLatency, 2 * callLatency},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := options{acknowledgesLate: c.late}
			if strings.HasSuffix(c.name, "batches of one") {
				o.source = func(s *awslocal.EventSource) { s.BatchSize, s.Concurrency = 1, 50 }
			}
			inWard(t, o, func(w *world, since func(map[string][]time.Time) latencies) {
				batch := []raw{}
				if c.bad != "" {
					batch = append(batch, raw{group: sick, body: c.bad})
				}
				sent := map[string][]time.Time{}
				for range 2 {
					for i := range goods {
						batch = append(batch, raw{group: good(i), body: tickEvent})
						sent[good(i)] = append(sent[good(i)], time.Now())
					}
					w.sendRaw(batch...)
					batch = nil
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(3 * time.Hour) // a denied effect is retried for an hour
				for instance, took := range since(sent) {
					if took[0] > c.first || took[1] > c.next {
						t.Errorf("%s: want at most %v and %v from sending to storing, got %v", instance, c.first, c.next, took)
					}
				}
				if got := w.unacknowledged(); got != 0 {
					t.Errorf("want all messages handled, got %d left", got)
				}
			})
		})
	}
}
