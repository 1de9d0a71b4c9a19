package durable_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A deployment adds the machines of these tests. A message of the runtime reaches a process of the old build, which
// hosts only the machine `order`.

// throughOldBuild lets the old build receive the waiting messages for a while.
func (w *world) throughOldBuild(t *testing.T, d time.Duration) {
	t.Helper()
	sound := w.machines
	w.host(t)
	if d == 0 {
		w.invoke()
	} else {
		w.runFor(t, d)
	}
	w.machines = sound
}

func TestAFiringThatReachesTheOldBuildIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, clockOf(noted("rang")))
		w.post("clock/1", event("wait", ""))
		w.runFor(t, 30*time.Second)
		w.throughOldBuild(t, time.Minute)
		w.run(t)
		w.wantParked(t)
		w.wantLog(t, "clock/1", "rang")
	})
}

func TestAHeartbeatThatReachesTheOldBuildIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.parcel())
		w.waitFor("t1", "Delivery", 0, time.Hour)
		w.runFor(t, 10*time.Minute)
		w.throughOldBuild(t, 15*time.Minute)
		w.runFor(t, 5*time.Hour)
		w.wantAnswer(t, "t1", "waits")
		w.wantParked(t)
	})
}

func TestAnEndThatReachesTheOldBuildIsRetried(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship)
		w.run(t)
		w.post(boss1, event("finish", ""))
		w.invoke() // The parent forwards the event to the child.
		w.invoke() // The child ends and reports.
		w.throughOldBuild(t, 0)
		w.run(t)
		w.wantParked(t)
		w.wantState(t, boss1, "idle")
	})
}

func TestAStopThatReachesTheOldBuildIsRetried(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship)
		w.run(t)
		w.post(boss1, event("cancel", ""))
		w.invoke()
		w.throughOldBuild(t, 0)
		w.run(t)
		w.wantParked(t)
		w.wantFamily(t, "courier stopped, radio stopped")
	})
}

// During an earlier outage, consumers received the child's start message many times.
func TestAStartThatReachesTheOldBuildAfterAnOutageIsRetried(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship)
		w.invoke()
		w.messages[0].ReceiveCount = 15
		w.throughOldBuild(t, 0)
		w.run(t)
		w.wantState(t, boss1, "shipping")
	})
}

// A producer's event for a machine that no build hosts is parked.
func TestAnEventForAnUnknownMachineIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("ghost/1", event("add", "a"), `{"type": "settle.wait"}`)
		w.run(t)
		w.wantParked(t, [2]string{event("add", "a"), "unknown machine"}, [2]string{`{"type": "settle.wait"}`, "unknown machine"})
	})
}

// A message reports that a task has expired. Its first copy was applied, but the process died, and so the message was
// postponed. The second copy has another count of retries.
func TestAPostponedCopyOfAnExpiryIsSkipped(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.expireTask(t)
		w.post(parcel1, `{"type":"hurry"}`)
		w.invoke()
		expiry := w.messages[len(w.messages)-1].Body
		w.run(t)
		w.post(parcel1, strings.Replace(expiry, "{", `{"$retries": 1, `, 1))
		w.run(t)
		w.wantParked(t)
		w.wantExpiry(t)
	})
}
