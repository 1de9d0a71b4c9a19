package durable_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// desk is a machine in several versions. Version 2 renames the state `open` to `ready`, replaces `charging` and its
// service with `paying`, and drops `helped`. Only version 1 declares the event "past".
func (w *world) desk(version int, migrations ...statechart.Migration) durable.Machine {
	p := payloads()
	open, charging := "open", chartState{ID: "charging",
		Invoke: []invoke{{Service: w.service("charge"), Retry: statechart.RetryPolicy{Attempts: 9, Interval: time.Minute}, OnDone: []on{{Target: "finished"}}, OnError: []on{{Target: "finished"}}}},
		After:  []after{{ID: "limit", Delay: time.Hour, Target: "finished", Actions: do{noted("limit of v1")}}}}
	if version > 1 {
		open, charging = "ready", chartState{ID: "paying", Tags: settled,
			After: []after{{ID: "limit", Delay: time.Hour, Target: "ready", Actions: do{noted("limit of v2")}}}}
		delete(p, "past")
	}
	keep := statechart.Assign("keep", func(b *basket, i item) { b.Log = append(b.Log, fmt.Sprintf("v%d %s", version, i.Item)) })
	kept := []on{{Event: "add", Actions: do{keep}}, {Event: "tell", Actions: do{keep, tell}}, {Event: "finish", Target: "finished"}}
	states := []chartState{
		{ID: open, Tags: settled, On: append(kept, on{Event: "wait", Target: "timed"}, on{Event: "charge", Target: charging.ID})},
		{ID: "timed", Tags: settled, On: kept, After: []after{{Delay: time.Hour, Target: open, Actions: do{noted("hour over")}}}},
		charging,
		{ID: "finished", Type: statechart.Final},
	}
	if version == 1 {
		states[0].On = append(states[0].On, on{Event: "ship", Target: "helped"})
		states = append(states, chartState{ID: "helped", Tags: settled, On: kept, Children: []statechart.Child[basket]{{Machine: "order"}}})
	}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "desk", Version: version, Initial: open, Payloads: p, States: states, Migrations: migrations,
	}), durable.MachineConfig{})
}

var (
	deskFrom1 = statechart.Migration{From: 1, Changes: []statechart.Change{
		statechart.RenameState("open", "ready"), statechart.MoveState("helped", "ready"), statechart.RenameState("charging", "paying"),
		statechart.Rewrite("drop the service", func(s *statechart.Stored) error { s.Services = nil; return nil }),
	}}
	deskFrom2 = statechart.Migration{From: 2}
)

// host makes later processes host the given machines and the machine order.
func (w *world) host(t *testing.T, machines ...durable.Machine) {
	t.Helper()
	hosted, err := durable.NewMachines(append(machines, w.order())...)
	if err != nil {
		t.Fatal(err)
	}
	w.machines, w.calls = hosted, nil
}

// atDesks runs a test in a world that hosts version 1 of desk and has no desk stored.
func atDesks(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.desk(1))
		test(t, w)
		w.wantSound(t)
	})
}

func (w *world) wantVersion(t *testing.T, id string, want int) {
	t.Helper()
	var stored struct{ Version int }
	decode(t, w.load(id).Snapshot, &stored)
	if stored.Version != want {
		t.Errorf("%s was stored by version %d, want %d", id, stored.Version, want)
	}
}

func TestInstancesFinishOnTheVersionThatTheyBeganOn(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		w.post("desk/1", event("add", "a"))
		w.run(t)
		w.host(t, w.desk(2, deskFrom1), w.desk(1))
		w.post("desk/1", event("add", "b"), event("wait", ""))
		w.post("desk/2", event("add", "c"), event("past", ""))
		w.run(t)
		w.wantLog(t, "desk/1", "v1 a", "v1 b", "hour over")
		w.wantVersion(t, "desk/1", 1)
		w.wantState(t, "desk/1", "open")
		w.wantLog(t, "desk/2", "v2 c")
		w.wantVersion(t, "desk/2", 2)
		w.wantParked(t, [2]string{"past", `chart desk has no event "past"`})
		w.post("desk/1", event("past", ""), event("finish", ""))
		w.run(t)
		if r := w.load("desk/1"); r.Status != statechart.Done || r.Ignored != 1 {
			t.Errorf("desk/1 is %s and has ignored %d events, want done and 1", r.Status, r.Ignored)
		}
	})
}

func TestAnInstanceMigratesWithItsNextCommitAndKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.post("desk/1", event("add", "a"), event("wait", ""))
		w.runFor(t, 10*time.Minute)
		w.host(t, w.desk(3, deskFrom2, deskFrom1))

		// A skipped delivery writes nothing.
		stored := string(w.records["desk/1"])
		w.post("desk/1", `{"type": "settle.timer", "timer": "9.9"}`)
		w.invoke()
		w.wantCalls(t, "Load desk/1")
		if got := string(w.records["desk/1"]); got != stored {
			t.Errorf("a skipped delivery stored %s", got)
		}

		w.post("desk/1", event("add", "b"))
		w.invoke()
		w.wantCalls(t, "Load desk/1", "Commit desk/1")
		w.wantVersion(t, "desk/1", 3)
		w.run(t)
		w.wantLog(t, "desk/1", "v1 a", "v3 b", "hour over")
		w.wantState(t, "desk/1", "ready")
		if last := w.load("desk/1").History[3]; !last.At.Equal(began.Add(time.Hour)) {
			t.Errorf("the timer has fired at %v, want an hour after %v", last.At, began)
		}
	})
}

func TestTheLowestVersionThatMigratesCarriesOn(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		w.post("desk/1", event("add", "a"))
		w.run(t)
		w.host(t, w.desk(2, deskFrom1), w.desk(4), w.desk(3, deskFrom1, deskFrom2))
		w.post("desk/1", event("add", "b"))
		w.post("desk/2", event("add", "c"))
		w.run(t)
		w.wantVersion(t, "desk/1", 2)
		w.wantVersion(t, "desk/2", 4)
	})
}

func TestARepeatThatTheNewVersionCannotDecodeIsSkipped(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		const past = `{"type": "past", "$id": "p-1"}`
		w.post("desk/1", past)
		w.run(t)
		w.host(t, w.desk(2, deskFrom1))
		w.post("desk/1", past, `{"type": "past", "$id": "p-2"}`, event("add", "a"))
		w.run(t)
		w.wantParked(t, [2]string{"p-2", `chart desk has no event "past"`})
		w.wantLog(t, "desk/1", "v2 a")
	})
}

func TestATimerThatWasServedInProcessFiresThroughTheQueueOnceItsStateIsSettled(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		w.third["charge"] = func(context.Context, statechart.Call) (string, error) { return "", errors.New("no till") }
		w.post("desk/1", event("charge", ""))
		w.invoke()
		w.wantState(t, "desk/1", "charging")
		w.wantVersion(t, "desk/1", 1)
		w.host(t, w.desk(2, deskFrom1))
		w.runFor(t, 24*time.Hour) // The redelivery finds its event already applied. No other event arrives.
		w.wantVersion(t, "desk/1", 2)
		w.wantLog(t, "desk/1", "limit of v2")
		w.wantState(t, "desk/1", "ready")
	})
}

// The migration requires no effect, but it settles the instance. This must be stored, although no other event arrives.
func TestAnInstanceThatAMigrationSettlesIsStoredSettled(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		w.third["charge"] = func(context.Context, statechart.Call) (string, error) { return "", errors.New("no till") }
		w.post("desk/1", event("charge", ""))
		w.invoke()
		w.wantState(t, "desk/1", "charging")
		changes := append(slices.Clone(deskFrom1.Changes), statechart.DropTimer("paying", "limit"))
		w.host(t, w.desk(2, statechart.Migration{From: 1, Changes: changes}))
		w.runFor(t, 24*time.Hour)
		w.wantVersion(t, "desk/1", 2)
		w.wantState(t, "desk/1", "paying")
	})
}

// In one run, the old version leaves an outbox behind.
func TestAChildThatAMigrationDropsIsStopped(t *testing.T) {
	t.Parallel()
	for _, first := range []fault{none, dieBefore} {
		atDesks(t, func(t *testing.T, w *world) {
			w.post("desk/1", event("ship", ""))
			w.run(t)
			children := w.stored("order")
			w.hook = faults(map[string]fault{"Send order/9 #1": first})
			w.post("desk/1", telling("order/9", "a"))
			w.invoke()
			w.host(t, w.desk(2, deskFrom1))
			w.post("desk/1", event("add", "b"))
			w.run(t)
			if len(children) != 1 || w.load(children[0]).Status != statechart.Stopped {
				t.Errorf("want one child, stopped, got %q, %s", children, w.load(children[0]).Status)
			}
			w.wantLog(t, "order/9", "a")
			w.wantState(t, "desk/1", "ready")
		})
	}
}

func TestAnOutboxThatTheOldVersionHasLeftIsDrainedByTheNew(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		w.hook = faults(map[string]fault{"Send order/9 #1": dieBefore})
		w.post("desk/1", `{"type": "tell", "item": "a", "to": "order/9"}`)
		w.invoke()
		if left := w.load("desk/1").Outbox; len(left) != 1 {
			t.Fatalf("want an outbox of one effect, got %+v", left)
		}
		w.host(t, w.desk(2, deskFrom1))
		w.run(t)
		w.wantLog(t, "order/9", "a")
		w.wantLog(t, "desk/1", "v1 a")
	})
}

func TestASnapshotThatNoHostedVersionReadsIsNotTouched(t *testing.T) {
	t.Parallel()
	failing := statechart.Migration{From: 1, Changes: []statechart.Change{statechart.Rewrite("look up", func(*statechart.Stored) error { panic("no such desk") })}}
	for name, c := range map[string]struct {
		stored int
		hosted func(w *world) []durable.Machine
		reason string
	}{
		"newer": {3, func(w *world) []durable.Machine { return []durable.Machine{w.desk(1), w.desk(2)} },
			"unreadable snapshot of machine desk: stored by a newer version: expected at most version 2, the newest that this process hosts, got 3; deploy version 3 again"},
		"newer than the only one": {2, func(w *world) []durable.Machine { return []durable.Machine{w.desk(1)} },
			"unreadable snapshot of machine desk: stored by a newer version: expected at most version 1, the newest that this process hosts, got 2; deploy version 2 again"},
		"no migration": {1, func(w *world) []durable.Machine { return []durable.Machine{w.desk(3, deskFrom2), w.desk(2)} },
			"unreadable snapshot of machine desk: expected version 3 or 2, or a version that one of them migrates from, got version 1; add the migration, or host version 1 too"},
		"a migration that fails": {1, func(w *world) []durable.Machine { return []durable.Machine{w.desk(2, failing)} },
			"unreadable snapshot of chart desk: migrating from version 1, look up: panic: a value of the type string; fix the migration"},
		"a migration that leads nowhere": {1, func(w *world) []durable.Machine { return []durable.Machine{w.desk(2, statechart.Migration{From: 1})} },
			`unreadable snapshot of chart desk: this version has no state "open"; add RenameState("open", ...) or MoveState("open", ...), or host version 1 too`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var log bytes.Buffer
				w.config.Logger = slog.New(slog.NewJSONHandler(&log, nil))
				w.host(t, w.desk(c.stored))
				w.post("desk/1", event("add", "a"))
				w.run(t)
				before := string(w.records["desk/1"])
				w.host(t, c.hosted(w)...)
				w.post("desk/1", event("add", "b"))
				w.runFor(t, time.Hour)
				if got := string(w.records["desk/1"]); got != before {
					t.Errorf("stored %s, want %s", got, before)
				}
				if slices.ContainsFunc(w.calls, func(call string) bool { return call != "Load desk/1" && call != "Delay desk/1" }) || w.counted("Delay") < 3 {
					t.Errorf("the loop called %q, want only Load and Delay", w.calls)
				}
				reason, _ := json.Marshal("hydrating desk/1: " + c.reason)
				if !strings.Contains(log.String(), `"msg":"stored item is unreadable, nothing was changed","instance":"desk/1","message_id":"message-2","error":`+string(reason)) {
					t.Errorf("logged %s\nwant %s", log.String(), reason)
				}
				if lines, tries := strings.Count(log.String(), string(reason)), w.counted("Delay"); lines != tries {
					t.Errorf("want one log line per try, got %d lines for %d tries", lines, tries)
				}
				w.host(t, w.desk(c.stored))
				w.run(t)
				w.wantLog(t, "desk/1", fmt.Sprintf("v%d a", c.stored), fmt.Sprintf("v%d b", c.stored))
				w.wantParked(t)
				w.wantSound(t)
			})
		})
	}
}

func TestVersionsOfAMachineShareItsID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host(t, w.desk(1), w.desk(3), w.desk(2))
	if ids := w.machines.IDs(); !slices.Equal(ids, []string{"desk", "order"}) {
		t.Errorf("IDs() = %q", ids)
	}
	if machine, err := w.machines.Lookup("desk"); err != nil || machine.Version() != 3 {
		t.Errorf("Lookup(desk): version %d, %v, want 3", machine.Version(), err)
	}
	const twice = `two machines have the ID "desk" and the version 2: give each its own ID, or its own version`
	if _, err := durable.NewMachines(w.desk(2), w.desk(1), w.desk(2), w.order()); err == nil || err.Error() != twice {
		t.Errorf("one version twice: %v, want %s", err, twice)
	}
	const orphan = `machine "desk" has child instances of machine "order": it cannot be a child: unknown machine: expected one of desk, got "order": host both, or correct the name in its chart`
	if _, err := durable.NewMachines(w.desk(2), w.desk(1)); err == nil || err.Error() != orphan {
		t.Errorf("the child of an old version: %v, want %s", err, orphan)
	}
	desk := instances.ID{Machine: "desk", ID: "1"}
	for _, c := range []struct {
		body string
		want error
	}{{event("add", "a"), nil}, {event("past", "a"), nil}, {event("vanish", "a"), statechart.ErrUndeclared}, {`{"type": "past", "$x": 1}`, durable.ErrReserved}} {
		if event, err := w.machines.Accept(desk, []byte(c.body)); !errors.Is(err, c.want) || err == nil && event.Payload != (item{Item: "a"}) {
			t.Errorf("Accept(%s) = %+v, %v, want %v", c.body, event, err, c.want)
		}
	}
	if err := w.machines.AcceptTask(desk, []byte(`{"type": "past", "$task": {"token": "t", "name": "T"}}`)); err != nil {
		t.Errorf("AcceptTask of an event that only version 1 takes: %v", err)
	}
}
