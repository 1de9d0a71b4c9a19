package durable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

func TestHeartbeatsKeepATaskWaiting(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.waitFor("t1", "Delivery", 0, 30*time.Second)
		w.post(parcel1, `{"type":"hurry"}`)
		w.runFor(t, 10*time.Minute)
		w.wantAnswer(t, "t1", "waits")
		commits := w.counted("Commit")
		if beats := w.workflows["t1"].beats; beats < 20 || beats > 61 {
			t.Errorf("want a heartbeat every 10 to 30 seconds for 10 minutes, got %d", beats)
		}
		w.post(parcel1, `{"type":"finish","item":"ball"}`)
		w.run(t) // The run ends, because no heartbeat is scheduled now.
		w.wantAnswer(t, "t1", delivered)
		w.wantNoTokens(t)
		if commits > 2 {
			t.Errorf("want no write for a heartbeat, got %d commits of 2 events", commits)
		}
	})
}

// Step Functions is unavailable for longer than the loop retries an event.
func TestAFailedCheckOfATaskDelaysNoEvent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout, heartbeat time.Duration
		looksMin, looksMax int
	}{
		"timeout":    {timeout: 10 * time.Minute, looksMin: 10, looksMax: 13},
		"heartbeats": {heartbeat: time.Minute, looksMin: 290, looksMax: 310},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inParcelWorld(t, func(t *testing.T, w *world) {
				w.waitFor("t1", "Delivery", c.timeout, c.heartbeat)
				w.runFor(t, time.Second)
				w.hook = stuck("Heartbeat Delivery", 100*time.Minute)
				w.runFor(t, 90*time.Minute)
				w.wantParked(t)
				w.post(parcel1, `{"type":"hurry"}`)
				if failed := w.invoke(); len(failed) > 0 {
					t.Errorf("failed: %q", failed)
				}
				w.wantState(t, parcel1, "on_its_way")
				w.run(t)
				w.wantNoTokens(t)
				w.wantAnswer(t, "t1", "expired")
				if got := w.snapshotLog(t); !slices.Equal(got, []string{"gone: Delivery of execution of t1"}) {
					t.Errorf("want one token.expired, got the log %q", got)
				}
				if looks := w.counted("Heartbeat"); looks < c.looksMin || looks > c.looksMax {
					t.Errorf("polled %d times, want %d to %d", looks, c.looksMin, c.looksMax)
				}
			})
		})
	}
}

func TestATaskThatTimesOutIsToldToTheChart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout, heartbeat time.Duration
		lose               bool // set if heartbeats do not arrive
	}{
		"timeout":                 {timeout: time.Hour},
		"timeout with heartbeats": {timeout: time.Hour, heartbeat: time.Minute},
		"heartbeats lost":         {heartbeat: time.Minute, lose: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inParcelWorld(t, func(t *testing.T, w *world) {
				if c.lose {
					w.hook = func(call string) fault {
						if strings.HasPrefix(call, "Heartbeat") && time.Since(w.workflows["t1"].entered) < 2*time.Minute {
							return failBefore
						}
						return none
					}
				}
				w.waitFor("t1", "Delivery", c.timeout, c.heartbeat)
				w.post(parcel1, `{"type":"hurry"}`)
				w.run(t)
				w.wantAnswer(t, "t1", "expired")
				w.wantNoTokens(t)
				if got := w.snapshotLog(t); !slices.Equal(got, []string{"gone: Delivery of execution of t1"}) {
					t.Errorf("want one token.expired, got the log %q", got)
				}
				w.post(parcel1, `{"type":"finish","item":"ball"}`)
				w.run(t)
				w.wantAnswer(t, "t1", "expired")
			})
		})
	}
}

// A task waits longer than its announced timeout. The loop checks it one second after that timeout, and again later.
func TestATaskThatWaitsLongerThanItToldIsLookedAfterNowAndThen(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.waitFor("t1", "Delivery", time.Minute, 0)
		w.workflows["t1"].timeout = 85 * time.Second
		for _, step := range []struct {
			at    time.Duration
			beats int
		}{{61*time.Second - time.Millisecond, 0}, {61 * time.Second, 1}, {71 * time.Second, 2}, {81 * time.Second, 3}} {
			w.runFor(t, step.at-time.Since(began))
			if got := w.workflows["t1"].beats; got != step.beats {
				t.Errorf("after %v: want %d polls, got %d", step.at, step.beats, got)
			}
		}
		w.run(t)
		w.wantNoTokens(t)
		if got, took := w.snapshotLog(t), time.Since(began); len(got) != 1 || took != 91*time.Second {
			t.Errorf("want token.expired after 91 s, got the log %q after %v", got, took)
		}
	})
}

// expireTask lets a task wait for the instance, and then time out in Step Functions. The task announced no timeout.
func (w *world) expireTask(t *testing.T) {
	t.Helper()
	w.waitFor("t1", "HandOver", 0, 0)
	w.run(t)
	w.workflows["t1"].timeout = time.Nanosecond
	time.Sleep(time.Second)
}

// wantExpiry checks that the chart has received the expiry of expireTask once.
func (w *world) wantExpiry(t *testing.T) {
	t.Helper()
	w.wantNoTokens(t)
	if got := w.snapshotLog(t); !slices.Equal(got, []string{"gone: HandOver of execution of t1"}) {
		t.Errorf("want one token.expired, got the log %q", got)
	}
}

func TestAnAnswerThatComesTooLateIsToldToTheChart(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.expireTask(t)
		w.post(parcel1, `{"type":"hurry"}`)
		w.run(t)
		w.wantAnswer(t, "t1", "expired")
		w.wantExpiry(t)
	})
}

// SQS forgets the first copy of the message that reports the expiry. Before the second copy, a producer may send more
// event IDs than the instance remembers.
func TestAnExpiryIsToldOnceHoweverLongTheOutboxIsStuck(t *testing.T) {
	t.Parallel()
	for _, between := range []int{0, 60} {
		inParcelWorld(t, func(t *testing.T, w *world) {
			w.expireTask(t)
			w.hook = stuck("ClearOutbox "+parcel1, 20*time.Minute)
			w.post(parcel1, `{"type":"hurry"}`)
			w.runFor(t, time.Minute)
			for i := range between {
				w.post(parcel1, fmt.Sprintf(`{"type": "hurry", "$id": "%d"}`, i))
			}
			w.run(t)
			w.wantExpiry(t)
		})
	}
}

// An older build sent the expiry without the key of the token. The item no longer has the token.
func TestAnExpiryOfAnOlderBuildIsTold(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.post(parcel1, `{"type":"hurry"}`)
		w.run(t)
		created := w.load(parcel1).CreatedAt.UnixMilli()
		w.post(parcel1, fmt.Sprintf(`{"type": "settle.token.expired", "$id": "parcel/1@%d/token.k1.expired", "name": "HandOver", "execution": "x", "$incarnation": %d}`, created, created))
		w.run(t)
		if got := w.snapshotLog(t); !slices.Equal(got, []string{"gone: HandOver of x"}) {
			t.Errorf("want one token.expired, got the log %q", got)
		}
	})
}

func TestAHeartbeatBelowThreeSecondsIsRefused(t *testing.T) {
	t.Parallel()
	for _, seconds := range []int{1, 2, 3} {
		inParcelWorld(t, func(t *testing.T, w *world) {
			w.waitFor("t1", "Delivery", 0, time.Duration(seconds)*time.Second)
			w.runFor(t, 30*time.Second)
			got := w.answers("t1")
			if refused := strings.Contains(got, "heartbeatSeconds of at least 3"); refused != (seconds < 3) || !refused && got != "waits" {
				t.Errorf("%d s: got %s", seconds, got)
			}
		})
	}
}

// Two events with different IDs announce one task. The instance has already answered the task when the second event
// arrives.
func TestATaskThatWasAnsweredIsNotToldExpiredToASecondEvent(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"with an ID": `"$id": "a", `, "without an ID": ``} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inParcelWorld(t, func(t *testing.T, w *world) {
				task := w.wait("t1", "HandOver", 10*time.Minute, time.Minute)
				w.post(parcel1, `{`+first+`"type": "hurry", "$task": `+task+`}`)
				w.runFor(t, time.Minute)
				w.post(parcel1, `{"$id": "b", "type": "settle.wait", "$task": `+task+`}`, `{"$id": "c", "type": "finish", "item": "ball", "$task": `+task+`}`)
				w.run(t)
				w.wantAnswer(t, "t1", handed)
				if log := w.snapshotLog(t); !slices.Equal(log, []string{"ball"}) || w.load(parcel1).Ignored > 0 || len(w.parked) > 0 {
					t.Errorf("want the second event applied and no expiry, got %q, %d ignored, %+v parked", log, w.load(parcel1).Ignored, w.parked)
				}
				w.wantNoTokens(t)
			})
		})
	}
}

// Once AWS no longer refuses the answer, an operator sends the task's event again under another ID.
func TestATaskWhoseAnswerFailedForGoodIsAnsweredToASecondEvent(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.refuse = func(call string) error {
			if strings.HasPrefix(call, "Answer") {
				return durable.ErrRefused
			}
			return nil
		}
		task := w.wait("t1", "HandOver", 0, 0)
		w.post(parcel1, `{"$id": "a", "type": "hurry", "$task": `+task+`}`)
		w.run(t)
		w.post(parcel1, `{"$id": "b", "type": "settle.wait", "$task": `+task+`}`)
		w.run(t)
		if failed := w.load(parcel1).FailedEffects; len(failed) != 1 {
			t.Errorf("want one failed effect for both failures of the same answer, got %+v", failed)
		}
		w.refuse = nil
		w.post(parcel1, `{"$id": "c", "type": "settle.wait", "$task": `+task+`}`)
		w.run(t)
		w.wantAnswer(t, "t1", handed)
		w.wantNoTokens(t)
	})
}

// The process dies once while it handles a heartbeat. The loop counts the try of the heartbeat's redelivery.
func TestARedeliveredHeartbeatLeavesNoCount(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.waitFor("t1", "Delivery", 0, time.Hour)
		w.hook = faults(map[string]fault{"Heartbeat Delivery #1": dieBefore})
		w.runFor(t, 30*time.Minute)
		if record := w.load(parcel1); markOf(record) != nil || w.workflows["t1"].beats == 0 {
			t.Errorf("want heartbeats and no count, got %d and %+v", w.workflows["t1"].beats, markOf(record))
		}
	})
}

// The event that answers a task and the task's heartbeat are in one batch.
func TestAnAnsweredTaskGetsNoHeartbeat(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.waitFor("t1", "Delivery", 0, 30*time.Second)
		w.post(parcel1, `{"type":"hurry"}`)
		w.runFor(t, 9*time.Second)
		w.post(parcel1, `{"type":"finish","item":"ball"}`)
		time.Sleep(time.Second)
		w.run(t)
		w.wantAnswer(t, "t1", delivered)
		if beats := w.workflows["t1"].beats; beats > 0 {
			t.Errorf("want no heartbeat, got %d", beats)
		}
	})
}
