package simulate_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/statechart"
)

// snooze is the payload of SET: the delay.
type snooze struct {
	Seconds int64 `json:"seconds"`
}

// alarms hosts a machine whose instances wait for the requested delay, and count how often they rang.
func alarms() durable.Machine {
	type clock struct {
		Seconds int64 `json:"seconds"`
		Rang    int   `json:"rang"`
	}
	type on = statechart.Transition[clock]
	settled := []string{statechart.Settled}
	keep := statechart.Assign("keep", func(c *clock, e snooze) { c.Seconds = e.Seconds })
	ring := statechart.Update("ring", func(c *clock) { c.Rang++ })
	return durable.Host(statechart.Must(statechart.Definition[clock]{
		ID: "alarm", Version: 1, Initial: "idle", Payloads: statechart.Payloads{"SET": statechart.PayloadOf[snooze]()},
		States: []statechart.State[clock]{
			{ID: "idle", Tags: settled, On: []on{{Event: "SET", Target: "set", Actions: []statechart.Action[clock]{keep}}}},
			{ID: "set", Tags: settled, After: []statechart.After[clock]{{
				ID: "ring", DelayFunc: func(c clock, _ statechart.Event) time.Duration { return time.Duration(c.Seconds) * time.Second }, Target: "rung",
			}}},
			{ID: "rung", Tags: settled, Entry: []statechart.Action[clock]{ring}},
		},
	}), durable.MachineConfig{})
}

// TestTimersOfTwoSecondsAndOfAYearFireOnTimeOnce runs timers through consumer, EventBridge Scheduler, delay queue,
// forwarder and FIFO queue.
func TestTimersOfTwoSecondsAndOfAYearFireOnTimeOnce(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{
		"two seconds": 2 * time.Second, "a quarter of an hour": 15 * time.Minute, "an hour and a bit": time.Hour + time.Second, "a year": 365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, options{more: []durable.Machine{alarms()}}, func(w *world) {
				w.post("/instances/alarm/1/events", nil, fmt.Appendf(nil, `{"type": "SET", "seconds": %d}`, delay/time.Second), http.StatusAccepted)
				armed := w.await("alarm/1", "set").History[0].At
				time.Sleep(time.Until(armed.Add(delay)) - time.Millisecond)
				if record := w.record("alarm/1"); record.State[0] != "set" {
					t.Errorf("a millisecond early: want it to wait, got %v", record.State)
				}
				time.Sleep(time.Second + time.Millisecond)
				record := w.record("alarm/1")
				last := record.History[len(record.History)-1]
				if late := last.At.Sub(armed) - delay; record.State[0] != "rung" || late < 0 || late > time.Second {
					t.Errorf("want it rung at most a second late, got %v, %v late", record.State, late)
				}
				time.Sleep(24 * time.Hour)
				record = w.record("alarm/1")
				var snapshot struct{ Context struct{ Rang int } }
				if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
					w.t.Fatal(err)
				}
				if snapshot.Context.Rang != 1 || len(record.History) != 2 || record.Ignored != 0 || owing(record) > 0 || w.deadLetters() != "0" {
					t.Errorf("want one firing and nothing left, got %d: %+v", snapshot.Context.Rang, record)
				}
			})
		})
	}
}

// A message in the delay queue that is due in two hours returns to EventBridge Scheduler at its first hop, and arrives
// on time. TestMain checks that the function's role allows it to create the schedule, and that it does create one.
func TestEarlyMessageReturnsToScheduler(t *testing.T) {
	t.Parallel()
	inWorld(t, options{more: []durable.Machine{alarms()}}, func(w *world) {
		due := time.Now().Add(2 * time.Hour)
		delays := schedule.NewDelayQueue(w.queues(), w.delayURL, time.Now)
		message := durable.Message{To: instances.ID{Machine: "alarm", ID: "1"}, Body: []byte(`{"type": "SET", "seconds": 1}`), DeduplicationID: "early"}
		if err := delays.Schedule(w.t.Context(), due, message); err != nil {
			w.t.Fatal(err)
		}
		time.Sleep(time.Until(due) - time.Millisecond)
		if record := w.record("alarm/1"); record.Revision != 0 {
			t.Errorf("a millisecond early: expected no instance, got %+v", record)
		}
		if at := w.await("alarm/1", "rung").History[0].At; at.Sub(due) > time.Second {
			t.Errorf("expected the event at %v, it was applied at %v", due, at)
		}
	})
}
