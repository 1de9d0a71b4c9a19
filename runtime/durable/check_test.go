package durable_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/compat"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// unnamedItemError is the error for an item whose key is not machine/id.
type unnamedItemError struct{ error }

func (unnamedItemError) Key() string { return "no name" }

func TestACheckShowsTheKeyOfAnItemThatIsNoInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		check := compat.New(newWorld(t).machines)
		check.Add(instances.Record{}, fmt.Errorf("listing: %w", unnamedItemError{errors.New("no slash")}))
		if got := check.Rows()[0]; got.Example != "no name" || got.Error != "listing: no slash" || got.Break != 1 {
			t.Errorf("expected one break, for the item without a name, got %+v", got)
		}
	})
}

func TestACheckCountsAMigrationThatMakesTheSnapshotTooLargeAsABreak(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		w.post("desk/1", event("add", "a"))
		w.run(t)
		record := w.load("desk/1")
		grow := statechart.MigrateContext(func(b basket) basket {
			b.Log = append(b.Log, strings.Repeat("x", 256<<10))
			return b
		})
		rows := func(snapshotBytesMax int, changes ...statechart.Change) compat.Row {
			w.host(t, w.desk(2, statechart.Migration{From: 1, Changes: append(changes, deskFrom1.Changes...)}))
			check := compat.New(w.machines)
			if snapshotBytesMax > 0 {
				check.SnapshotBytesMax = snapshotBytesMax
			}
			check.Add(record, nil)
			return check.Rows()[0]
		}
		if got := rows(0); got.Migrate != 1 {
			t.Errorf("expected a small snapshot to migrate, got %+v", got)
		}
		if got := rows(512<<10, grow); got.Migrate != 1 {
			t.Errorf("expected the snapshot to migrate within a limit of 512 KiB, got %+v", got)
		}
		const want = "the limit is 262144 (Config.SnapshotBytesMax): let the migration keep less, or host version 1 too"
		if got := rows(0, grow); got.Break != 1 || !strings.HasPrefix(got.Error, "migrated from version 1 to 2, the snapshot would have 262") || !strings.HasSuffix(got.Error, want) {
			t.Errorf("expected a break because of %q, got %+v", want, got)
		}
	})
}

func TestACheckCountsInstancesThatAMigrationLeavesWithoutTimers(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		w.post("desk/1", event("add", "a"))
		w.post("desk/2", event("add", "a"))
		w.post("desk/3", event("wait", ""))
		w.runFor(t, time.Minute)
		migrate := statechart.Migration{From: 1, Changes: []statechart.Change{statechart.MoveState("open", "timed")}}
		w.host(t, w.desk(2, migrate))
		check := compat.New(w.machines)
		for _, id := range []string{"desk/1", "desk/2", "desk/3"} {
			check.Add(w.load(id), nil)
		}
		fired := w.load("desk/3") // Its timer may have fired without leaving the state.
		fired.Snapshot = regexp.MustCompile(`"timers":\{.*?\}\},`).ReplaceAll(fired.Snapshot, nil)
		check.Add(fired, nil)
		rows := check.Rows()
		if got := rows[0]; got.Migrate != 2 || got.Unstarted != 2 || got.UnstartedExample != "desk/1" || got.UnstartedState != "timed" {
			t.Errorf("expected two instances without the timer of timed, got %+v", got)
		}
		if got := rows[1]; got.Migrate != 2 || got.Unstarted != 0 {
			t.Errorf("expected the timer of desk/3 to continue, got %+v", got)
		}
		moved, _, err := durable.Operate(w.machines, w.load("desk/1"), instances.Operation{Kind: instances.Move, State: "timed", At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		w.wake(moved) // Moving the instance to `timed` starts the timer.
		w.post("desk/2", event("add", "b"))
		w.run(t)
		w.wantLog(t, "desk/1", "v1 a", "hour over")
		w.wantLog(t, "desk/2", "v1 a", "v2 b")
		w.wantState(t, "desk/2", "timed")
	})
}

func TestACheckCountsAContextWithAnUnknownKeyAsABreak(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		w.post("desk/1", event("add", "a"))
		w.run(t)
		record := w.load("desk/1")
		record.Snapshot = bytes.Replace(record.Snapshot, []byte(`"context":{`), []byte(`"context":{"coupon":"SAVE10",`), 1)
		check := compat.New(w.machines)
		check.Add(record, nil)
		const want = `unreadable snapshot of chart desk: context: unknown key "coupon"; deploy the build that stores this key, or raise Version and drop the key with MigrateContext`
		if got := check.Rows()[0]; got.Break != 1 || got.Error != want || check.Causes().Damaged != 0 {
			t.Errorf("expected one break, no damaged item and %q, got %+v", want, got)
		}
	})
}

func TestACheckCountsDeferredEventsThatTheLoopWouldPark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		host := func(note statechart.Payload) {
			w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
				ID: "kiosk", Version: 1, Initial: "shut", Payloads: statechart.Payloads{"note": note, "open": statechart.NoPayload(), "close": statechart.NoPayload(), "hint": statechart.Internal()},
				States: []chartState{
					{ID: "shut", Tags: settled, Defer: []string{"note", "hint"}, On: []on{{Event: "open", Target: "open"}, {Event: "close", Target: "closed"}},
						Entry: do{statechart.SendAfter("soon", "hint", func(basket, statechart.Event) (time.Duration, any) { return time.Second, nil })}},
					{ID: "open", Tags: settled, On: []on{{Event: "note", Actions: do{noted("note")}}, {Event: "hint"}}},
					{ID: "closed", Type: statechart.Final},
				},
			}), durable.MachineConfig{}))
		}
		host(statechart.PayloadOf[struct{ Text string }]())
		w.post("kiosk/1", `{"type": "note", "text": "a"}`)
		w.post("kiosk/2", `{"type": "note", "text": "a"}`, event("close", ""))
		w.runFor(t, time.Minute)
		check := func(name string) compat.Row {
			check := compat.New(w.machines)
			check.Add(w.load(name), nil)
			return check.Rows()[0]
		}
		if got := check("kiosk/1"); got.Fit != 1 || got.Park != 0 {
			t.Errorf("expected the same build to decode the deferred events, got %+v", got)
		}
		host(statechart.PayloadOf[struct{ Text []string }]())
		if got := check("kiosk/2"); got.Fit != 1 || got.Park != 0 || got.Status != statechart.Done {
			t.Errorf("expected an ended instance to park nothing, got %+v", got)
		}
		if got := check("kiosk/1"); got.Fit != 1 || got.Park != 1 || got.ParkExample != "kiosk/1" || !strings.Contains(got.ParkError, `expected an array under "Text", got a string`) {
			t.Errorf("expected a deferred event that the other build would park, got %+v", got)
		}
		w.post("kiosk/1", event("open", ""))
		w.run(t)
		if len(w.parked) != 1 {
			t.Errorf("expected the loop to park the deferred event, got %v", w.parked)
		}
	})
}

func TestACheckCountsWhatFitsMigratesAndBreaks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.desk(1))
		w.post("desk/1", event("add", "a"))
		w.post("desk/2", event("add", "a"))
		w.post("desk/3", event("finish", ""))
		w.post("desk/4", event("ship", ""))
		w.run(t)
		stored := map[string]instances.Record{}
		for id := range w.records {
			stored[id] = w.load(id)
		}
		waits := stored["desk/2"]
		waits.Executions = []instances.Execution{{Workflow: "print", Event: "printed"}}
		w.host(t, w.desk(2, deskFrom1))
		check := compat.New(w.machines)
		for _, id := range []string{"desk/1", "desk/3", "desk/4", w.stored("order")[0]} {
			check.Add(stored[id], nil)
		}
		check.Add(waits, nil)
		check.Add(waits, nil)
		check.Add(instances.Record{Instance: instances.ID{Machine: "ghost", ID: "1"}, Snapshot: json.RawMessage(`{"version":4}`)}, nil)
		check.Add(instances.Record{Instance: instances.ID{Machine: "desk", ID: "9"}}, errors.New("attribute missing"))
		rows, err := json.Marshal(check.Rows())
		if err != nil {
			t.Fatal(err)
		}
		const want = `[{"machine":"desk","version":0,"status":"","state":[],"fit":0,"migrate":0,"break":1,"unstarted":0,"park":0,"example":"desk/9","error":"attribute missing"},` +
			`{"machine":"desk","version":1,"status":"active","state":["helped"],"fit":0,"migrate":1,"break":0,"unstarted":0,"park":0},` +
			`{"machine":"desk","version":1,"status":"active","state":["open"],"fit":0,"migrate":1,"break":2,"unstarted":0,"park":0,"example":"desk/2",` +
			`"error":"it waits for the end of the workflow \"print\" as the event \"printed\", which version 2 does not declare: declare it, or host version 1 too"},` +
			`{"machine":"desk","version":1,"status":"done","state":["finished"],"fit":0,"migrate":1,"break":0,"unstarted":0,"park":0},` +
			`{"machine":"ghost","version":4,"status":"","state":[],"fit":0,"migrate":0,"break":1,"unstarted":0,"park":0,"example":"ghost/1","error":"unknown machine: expected one of desk, order, got \"ghost\""},` +
			`{"machine":"order","version":1,"status":"active","state":["idle"],"fit":1,"migrate":0,"break":0,"unstarted":0,"park":0}]`
		if string(rows) != want {
			t.Errorf("got\n%s\nwant\n%s", rows, want)
		}
		if checked, broken := check.Counts(); checked != 8 || broken != 4 {
			t.Errorf("%d checked, %d broken, want 8 and 4", checked, broken)
		}
		w.wantSound(t)
	})
}
