package durable_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// backup returns the stored records of these instances.
func (w *world) backup(ids ...string) (records []instances.Record) {
	for _, id := range ids {
		records = append(records, w.load(id))
	}
	return records
}

// restore overwrites stored records with a backup, as an operator does.
func (w *world) restore(records []instances.Record) {
	for _, record := range records {
		w.store(record)
	}
}

// rearm rearms stored instances and sends each an event, so that a consumer drains its outbox.
func (w *world) rearm(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		stored := w.load(id)
		record, err := durable.Rearm(w.machines, stored, time.Now(), "")
		if err != nil {
			t.Fatalf("rearming %s: %v", id, err)
		}
		if record.Revision != stored.Revision+1 {
			t.Errorf("%s has revision %d once it is rearmed, want %d", id, record.Revision, stored.Revision+1)
		}
		w.wake(record)
	}
}

// greeting returns an event that makes an order send the text to order/2.
func greeting(text string) string {
	return fmt.Sprintf(`{"type": "tell", "item": %q, "to": "order/2"}`, text)
}

// Without rearming, the restored sender would reuse the IDs of the sends that it made after the backup. The receiver
// would skip them as duplicates.
func TestTheSendsOfARestoredInstanceAreAppliedOnceItIsRearmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", greeting("one"))
		w.run(t)
		backup := w.backup("order/1")
		w.post("order/1", greeting("two"))
		w.run(t)
		w.post("order/1", greeting("three"))
		w.run(t)
		want := []string{"one", "two", "three"}
		w.wantLog(t, "order/2", want...)
		for _, round := range []string{"first", "second"} { // The second round starts from the same backup.
			w.restore(backup)
			time.Sleep(time.Hour)
			w.rearm(t, "order/1")
			w.run(t)
			for _, text := range []string{"four", "five", "six"} {
				w.post("order/1", greeting(round+" "+text))
				w.run(t)
				want = append(want, round+" "+text)
			}
			w.wantLog(t, "order/2", want...)
		}
		w.wantParked(t)
		w.wantSound(t)
	})
}

func TestATimerThatFiredSinceTheBackupFiresAgainOnceItIsRearmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""))
		w.invoke()
		w.runFor(t, 10*time.Minute)
		backup := w.backup("order/1")
		w.run(t)
		w.wantState(t, "order/1", "idle")
		w.restore(backup)
		w.run(t)
		w.wantState(t, "order/1", "waiting") // No timer is left that would end the wait.
		w.rearm(t, "order/1")
		w.run(t)
		w.wantState(t, "order/1", "idle")
		w.wantLog(t, "order/1", "hour over")
		w.wantSound(t)
	})
}

// A timer that is still scheduled is scheduled a second time. It fires once, on time.
func TestATimerThatIsRearmedBeforeItFiresDoesSoOnceAndOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""))
		w.invoke()
		w.runFor(t, 10*time.Minute)
		w.rearm(t, "order/1")
		w.runFor(t, 49*time.Minute)
		w.wantState(t, "order/1", "waiting")
		w.run(t)
		w.wantLog(t, "order/1", "hour over")
		w.wantSound(t)
	})
}

// A child ends after its parent's backup, and the child's message is acknowledged. Then the parent is restored from the
// backup.
func TestAChildThatHasEndedTellsItsRestoredParentAgainOnceItIsRearmed(t *testing.T) {
	t.Parallel()
	for _, kind := range slices.Concat(endings, []instances.OperationKind{byItself}) {
		inFamily(t, func(t *testing.T, w *world) {
			w.post(boss1, ship)
			w.run(t)
			van, want := w.van(t), `back "parcel board ok"`
			backup := w.backup(boss1)
			if w.endVan(t, kind); kind != byItself {
				want = "lost courier: " + van + " was stopped"
			}
			w.run(t)
			w.wantState(t, boss1, "idle")
			for range 2 {
				w.restore(backup)
				w.run(t)
				w.wantState(t, boss1, "shipping")
				w.rearm(t, boss1, van)
				w.run(t)
				w.wantState(t, boss1, "idle")
				w.wantLog(t, boss1, want)
			}
			w.wantParked(t)
		})
	}
}

// A restored parent starts a new child under a new name, even though it had started another child after the backup.
func TestARestoredParentStartsAnotherChildOnceItIsRearmed(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, event("add", "first"))
		w.run(t)
		backup := w.backup(boss1)
		w.post(boss1, ship)
		w.run(t)
		before := w.van(t)
		w.restore(backup)
		w.rearm(t, boss1)
		w.post(boss1, event("ship", "second"))
		w.run(t)
		if after := w.van(t); after == before {
			t.Errorf("the new child reuses the name %s", after)
		}
		w.wantLog(t, w.van(t), "second", "board ok")
		w.wantParked(t)
	})
}

func TestAnExecutionThatHasEndedSinceTheBackupIsAskedForOnceItIsRearmed(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post(printer1, event("ship", ""))
		w.invoke()
		w.runFor(t, time.Minute)
		backup := w.backup(printer1)
		w.ends(t, w.only(t), printed, 1)
		w.run(t)
		w.wantPrinted(t, 0, printedLog)
		w.restore(backup)
		w.rearm(t, printer1)
		w.run(t)
		w.wantPrinted(t, 0, printedLog)
	})
}

func TestAnAliasThatAnotherInstanceHasSinceTheBackupIsToldOnceItIsRearmed(t *testing.T) {
	t.Parallel()
	inCallerWorld(t, func(t *testing.T, w *world) {
		w.post("caller/1", event("add", "x-7"))
		w.run(t)
		backup := w.backup("caller/1")
		delete(w.aliases, "x-7")
		w.post("caller/2", event("add", "x-7"))
		w.run(t)
		w.restore(backup)
		w.rearm(t, "caller/1")
		w.run(t)
		w.wantLog(t, "caller/1", "taken: x-7")
		w.wantSound(t)
	})
}

// The chart receives token.expired, whatever time limits the task has.
func TestATaskThatIsOverSinceTheBackupExpiresOnceItIsRearmed(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][2]time.Duration{"timeout": {48 * time.Hour, 0}, "heartbeats": {0, time.Minute}, "none": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inParcelWorld(t, func(t *testing.T, w *world) {
				w.waitFor("t1", "Delivery", limits[0], limits[1])
				w.post(parcel1, `{"type":"hurry"}`)
				w.runFor(t, 10*time.Minute)
				backup := w.backup(parcel1)
				w.post(parcel1, `{"type":"finish","item":"ball"}`)
				w.runFor(t, 10*time.Minute)
				w.wantAnswer(t, "t1", delivered)
				w.restore(backup)
				w.rearm(t, parcel1)
				w.runFor(t, 10*time.Minute)
				if got := w.snapshotLog(t); !slices.Equal(got, []string{"gone: Delivery of execution of t1"}) {
					t.Errorf("the chart logged %q, want the expired task", got)
				}
			})
		})
	}
}

// The backup was made after the loop had sent the message that a task has expired, and before its delivery.
func TestAnExpiryThatWasToldSinceTheBackupIsToldAgainOnceItIsRearmed(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.expireTask(t)
		w.post(parcel1, `{"type":"hurry"}`)
		w.invoke()
		backup := w.backup(parcel1)
		w.run(t)
		w.restore(backup)
		w.rearm(t, parcel1)
		w.run(t)
		w.wantExpiry(t)
	})
}

func TestRearmingRaisesTheCountAboveAllThatWereUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""))
		w.invoke()
		stored := w.load("order/1")
		now := time.Date(2026, 11, 20, 9, 0, 0, 123_456_789, time.UTC)
		record, err := durable.Rearm(w.machines, stored, now, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := stepsOf(t, record), now.UnixMicro(); got != want {
			t.Errorf("the count of steps is %d, want %d", got, want)
		}
		again, err := durable.Rearm(w.machines, record, now, "") // The clock has not advanced.
		if err != nil {
			t.Fatal(err)
		}
		if got, want := stepsOf(t, again), now.UnixMicro()+1; got != want {
			t.Errorf("the count of steps is %d once it is rearmed again, want %d", got, want)
		}
		ids := map[string]bool{}
		for _, effect := range slices.Concat(stored.Outbox, again.Outbox) {
			ids[effect.ID] = true
		}
		if len(ids) != len(again.Outbox) {
			t.Errorf("effects share IDs: %+v", again.Outbox)
		}
		var head struct {
			Timers map[string]json.RawMessage
		}
		decode(t, again.Snapshot, &head)
		if _, kept := head.Timers["2.0"]; !kept || len(head.Timers) != 1 {
			t.Errorf("the timers are %v, want timer 2.0 alone", head.Timers)
		}
	})
}

func TestWhatCannotBeReadIsNotRearmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	record := instances.Record{Instance: instances.ID{Machine: "order", ID: "1"}, Revision: 3, Snapshot: json.RawMessage(`{"version": 7}`)}
	if _, err := durable.Rearm(w.machines, record, time.Unix(1, 0), ""); err == nil || !strings.Contains(err.Error(), "version 7") {
		t.Errorf("got %v, want that version 7 cannot be read", err)
	}
}

// Rearming keeps the stored version, so that consumers of an older build can still read the item. The consumer then
// migrates the instance and performs the effects of the migration.
func TestRearmingMigratesNothing(t *testing.T) {
	t.Parallel()
	atDesks(t, func(t *testing.T, w *world) {
		w.post("desk/1", event("ship", ""))
		w.run(t)
		w.host(t, w.desk(2, deskFrom1))
		record, err := durable.Rearm(w.machines, w.load("desk/1"), time.Now(), "")
		if err != nil {
			t.Fatal(err)
		}
		w.store(record)
		w.wantVersion(t, "desk/1", 1)
		w.rearm(t, "desk/1")
		w.run(t)
		w.wantVersion(t, "desk/1", 2)
		for name := range w.records {
			if r := w.load(name); r.Instance.Machine == "order" && r.Status != statechart.Stopped {
				t.Errorf("the child that version 2 does not have is %s, want stopped", r.Status)
			}
		}
	})
}

// An ended instance creates no IDs and waits for nothing.
func TestAnInstanceThatHasEndedStaysAsItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("finish", ""))
		w.run(t)
		stored := w.load("order/1")
		record, err := durable.Rearm(w.machines, stored, time.Now(), "")
		if err != nil || record.Revision != stored.Revision || stored.Status != statechart.Done {
			t.Errorf("got revision %d and %v, want %d", record.Revision, err, stored.Revision)
		}
	})
}

func stepsOf(t *testing.T, record instances.Record) int64 {
	t.Helper()
	var head struct{ Steps int64 }
	decode(t, record.Snapshot, &head)
	return head.Steps
}

// The backup was made while a send was denied. After the restore, the send is denied for ten minutes.
func TestADeniedEffectIsRetriedForAnHourOnceItsInstanceIsRearmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = refusing(durable.ErrDenied, "Send order/2")
		w.post("order/1", greeting("one"))
		w.runFor(t, time.Minute)
		backup := w.backup("order/1")
		if backup[0].DeniedSince.IsZero() {
			t.Fatal("the backup has no denied effect: the test proves nothing")
		}
		w.refuse = nil
		w.run(t)
		time.Sleep(3 * time.Hour)
		w.restore(backup)
		w.refuse = refusing(durable.ErrDenied, "Send order/2")
		w.rearm(t, "order/1")
		w.runFor(t, 10*time.Minute)
		w.refuse = nil
		w.run(t)
		if failed := w.load("order/1").FailedEffects; len(failed) > 0 {
			t.Errorf("want the send performed, got %+v", failed)
		}
		w.wantLog(t, "order/2", "one")
		w.wantSound(t)
	})
}

func TestRearmingALiveInstanceDoesNotMultiplyHeartbeats(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.waitFor("t1", "Delivery", 0, time.Hour)
		for range 3 {
			w.runFor(t, 50*time.Minute)
			w.rearm(t, parcel1)
		}
		w.runFor(t, 50*time.Minute)
		if chains := len(w.scheduled); chains != 1 {
			t.Errorf("want one firing to be scheduled, got %d", chains)
		}
		if beats := w.workflows["t1"].beats; beats > 14 { // Heartbeats are sent every 20 minutes for 200 minutes, and once for each rearming.
			t.Errorf("want no heartbeat for the past, got %d", beats)
		}
	})
}
