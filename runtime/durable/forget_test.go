package durable_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// forget erases an instance as an operator does, and returns the empty record.
func (w *world) forget(t *testing.T, id string) instances.Record {
	t.Helper()
	left, _, err := durable.Operate(w.machines, w.load(id), instances.Operation{Kind: instances.Forget, At: time.Now(), By: "operator", Reason: "request 7"})
	if err != nil {
		t.Fatal(err)
	}
	w.store(left)
	w.commit(left)
	return left
}

// The item of an ended instance contains data of Ada in every attribute that can contain it.
func TestAForgottenInstanceKeepsNoData(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "ada"), event("finish", ""))
		w.run(t)
		full := w.load("order/1")
		now := time.Now().UTC().Truncate(time.Millisecond)
		full.RecentEvents = append(full.RecentEvents, "ada-1#00000000")
		full.LastSends = map[string][]instances.LastSend{"q": {{Sender: "friend/ada@1", ID: "1.0"}}}
		full.History = append(full.History, instances.Transition{At: now, Event: "add", Reason: "ada"})
		full.FailedEffects = []instances.FailedEffect{{ID: "1.0", Kind: statechart.Send, Error: "ada", Data: json.RawMessage(`"ada"`)}}
		full.Tokens = []instances.Token{{Key: "ada", Name: "Queued", Expired: true}}
		full.Executions = []instances.Execution{{Name: "ada"}}
		full.Chains = []instances.Chain{{Origin: "ada", Hops: 9}}
		full.Aliases = []string{"ada"}
		full.Attempts = []instances.Attempt{{Queue: "ada"}}
		full.Error = &instances.Failure{Message: "ada"}
		full.Parent = &instances.Parent{Instance: "boss/1", Incarnation: 1, Child: "1.0"}
		full.Ignored, full.Skipped, full.DeniedSince = 7, 7, now
		w.store(full)

		left := w.forget(t, "order/1")
		machine, err := w.machines.Lookup("order")
		if err != nil {
			t.Fatal(err)
		}
		stopped, err := machine.Stopped()
		if err != nil {
			t.Fatal(err)
		}
		snapshot, err := stopped.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		want := instances.Record{
			Instance: full.Instance, Parent: full.Parent, CreatedAt: full.CreatedAt, Watermark: full.Watermark, Revision: full.Revision + 1,
			Snapshot: snapshot, State: []string{"idle"}, Status: statechart.Stopped, UpdatedAt: now, ExpireAt: now.Add(14 * 24 * time.Hour), Forgotten: true,
			History: []instances.Transition{{At: now, Event: "settle.forget", From: []string{"idle"}, To: []string{"idle"}, By: "operator", Reason: "request 7"}},
		}
		if diff := cmp.Diff(want, left); diff != "" {
			t.Errorf("the record has %s", diff)
		}
		if text := string(w.records["order/1"]); strings.Contains(text, "ada") {
			t.Errorf("the item still has the data: %s", text)
		}
		if _, instance, err := w.machines.Restore(left); err != nil || instance.Status() != statechart.Stopped || !instance.Settled() {
			t.Errorf("the record restores as %v, %v", instance, err)
		}
	})
}

// If the item were deleted and not replaced, each of these messages would start the instance anew or change it.
func TestALateMessageToAForgottenInstanceStartsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deliver("q", "order/1", [2]string{"5", event("add", "a")}, [2]string{"6", event("wait", "")}, [2]string{"7", event("cancel", "")}, [2]string{"8", event("finish", "")})
		left := w.forget(t, "order/1")
		place := func(number string) durable.Delivery {
			return durable.Delivery{MessageID: number, ReceiptHandle: number, Queue: "q", Group: "order/1", SequenceNumber: number, ReceiveCount: 1, SentAt: time.Now()}
		}
		redelivered, timer, redriven, late := place("5"), place("9"), place("10"), place("11")
		redelivered.Body, redriven.Body, late.Body = event("add", "a"), event("add", "parked"), event("tell", "late")
		redriven.ParkedFrom = instances.Place{Queue: "q", SequenceNumber: "3"}
		timer.Body = fmt.Sprintf(`{"type": "settle.timer", "timer": "2.0", "$incarnation": %d}`, left.CreatedAt.UnixMilli())
		for _, d := range []durable.Delivery{redelivered, timer, redriven, late} {
			w.calls = nil
			if failed := w.handle([]durable.Delivery{d}, functionTimeout); len(failed) > 0 {
				t.Errorf("%s fails", d.Body)
			}
			got := w.load("order/1")
			if string(got.Snapshot) != string(left.Snapshot) || got.Status != statechart.Stopped || !got.CreatedAt.Equal(left.CreatedAt) || !got.ExpireAt.Equal(left.ExpireAt) || got.Owes() {
				t.Errorf("%s changes the record to %+v", d.Body, got)
			}
			if n := w.counted("Send ") + w.counted("Schedule "); n > 0 {
				t.Errorf("%s leads to the calls %v", d.Body, w.calls)
			}
		}
		if got := w.load("order/1"); got.Ignored != 2 {
			t.Errorf("%d events were ignored, want 2", got.Ignored)
		}
		w.wantLog(t, "order/1")
		w.wantParked(t)
	})
}

// An item that owes the answer to a task has no expiry. Once the answer is given, the item must expire by
// Config.RetentionMin, and not by the retention of the machine.
func TestAForgottenInstanceExpires(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{false, true} {
		inFamily(t, func(t *testing.T, w *world) {
			w.post(boss1, ship) // This machine keeps its instances forever.
			w.run(t)
			w.post(boss1, event("doom", ""))
			w.run(t)
			want := w.forget(t, boss1).ExpireAt
			if answers {
				time.Sleep(time.Hour)
				w.post(boss1, `{"type":"settle.wait","$task":`+w.wait("task", "Queued", 0, 0)+`}`)
				w.run(t)
				if got := w.answers("task"); !strings.Contains(got, durable.ErrorEnded) {
					t.Errorf("the task was answered %s", got)
				}
				want = w.load(boss1).UpdatedAt.Add(time.Minute) // The consumer's own RetentionMin counts from its last write.
			}
			if got := w.load(boss1); !got.ExpireAt.Equal(want) || !got.Forgotten {
				t.Errorf("the item expires at %v, want %v", got.ExpireAt, want)
			}
		})
	}
}

func TestAForgottenChildIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship)
		w.run(t)
		van := w.van(t)
		w.post(van, event("finish", ""))
		w.run(t)
		left := w.forget(t, van)
		parent, err := json.Marshal(left.Parent)
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{
			`{"type":"settle.start","$parent":` + string(parent) + `,"input":{"item":"ada"}}`,
			`{"type":"settle.stop","$parent":` + string(parent) + `}`,
			`{"type":"add","item":"ada","$parent":` + string(parent) + `}`,
		} {
			w.post(van, body)
			w.run(t)
			if got := w.load(van); string(got.Snapshot) != string(left.Snapshot) || !got.Forgotten || strings.Contains(string(w.records[van]), "ada") {
				t.Errorf("%s changes the record to %s", body, w.records[van])
			}
		}
		w.wantParked(t)
		w.wantState(t, boss1, "idle")
	})
}

// shy is data whose zero value has no JSON.
type shy struct{ Name string }

func (s shy) MarshalJSON() ([]byte, error) {
	if s.Name == "" {
		return nil, errors.New("expected a name")
	}
	return json.Marshal(map[string]string{"name": s.Name})
}

func TestAnInstanceInUseIsNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		forget := instances.Operation{Kind: instances.Forget}
		w.post("order/1", event("add", "a"))
		w.run(t)
		w.wantRefused(t, "order/1", forget, instances.ErrInUse, "active in [idle]")
		w.post("order/1", event("finish", ""))
		w.run(t)
		record := w.load("order/1")
		record.Kept = true
		w.store(record)
		w.wantRefused(t, "order/1", forget, instances.ErrInUse, "an operator keeps it")
		record.Kept, record.Outbox = false, []statechart.Effect{{ID: "9.0", Kind: statechart.LogMessage}}
		w.store(record)
		w.wantRefused(t, "order/1", forget, instances.ErrInUse, "not performed yet")
		record.Outbox, record.Snapshot = nil, json.RawMessage(`{"version":9}`) // No hosted version reads this snapshot.
		w.store(record)
		w.forget(t, "order/1")

		machines, err := durable.NewMachines(durable.Host(statechart.Must(statechart.Definition[shy]{
			ID: "order", Version: 1, Initial: "on", States: []statechart.State[shy]{{ID: "on", Tags: settled}},
			Context: func(statechart.Start) shy { return shy{"ada"} },
		}), durable.MachineConfig{}))
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		w.wantRefused(t, "order/1", forget, durable.ErrUnstorable, "accepts the JSON of its zero value")
	})
}
