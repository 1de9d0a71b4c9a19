package main

import (
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
)

func TestSendWaitsForTheResultOfTheEvent(t *testing.T) {
	t.Parallel()
	withWork(t, &work{toil: 10 * time.Second}, func(u user) {
		begun := time.Now()
		contains(u.t, u.must("send", "--local", "work/1", "START", "--wait", "settled"), "sent START to work/1 as message ", "work/1 is in ready, settled, revision ")
		if waited := time.Since(begun); waited < 10*time.Second || waited > 13*time.Second {
			u.t.Errorf("expected to wait 10 s for the work, got %v", waited)
		}
		// The instance is settled and has the tag `rested` before the event. send must still wait until the event is applied.
		for _, wait := range []string{"settled", "rested"} {
			begun = time.Now()
			contains(u.t, u.must("send", "--local", "work/1", "START", "--wait", wait), "work/1 is in ready, settled")
			if waited := time.Since(begun); waited < 10*time.Second {
				u.t.Errorf("--wait %s: expected to wait 10 s for this event's work, got %v", wait, waited)
			}
		}
		contains(u.t, u.must("send", "--local", "work/1", "FINISH", "--wait", "done"), "work/1 is in over, done, revision ")
	})
}

func TestSendWaitTimesOut(t *testing.T) {
	t.Parallel()
	withWork(t, &work{toil: 30 * time.Second}, func(u user) {
		begun := time.Now()
		got := u.run("send", "--local", "work/1", "START", "--wait", "rested", "--timeout", "5s")
		if waited := time.Since(begun); waited != 5*time.Second || got.code != command.ExitTimeUp || got.out != "" {
			u.t.Errorf("expected exit code 5 after 5 s, got %+v after %v", got, waited)
		}
		contains(u.t, got.err, "settle: timed out: waited 5s for rested; the event was sent, as message ",
			"; work/1 does not exist yet: the event may have been parked, see settle dlq list --local\n")
		time.Sleep(time.Minute)
		got = u.run("send", "--local", "work/1", "FINISH", "--wait", "rested")
		if want := "settle: waited for rested, but work/1 ended without it: it is done in over\n"; got.code != command.ExitFailed || got.err != want {
			u.t.Errorf("expected exit code 1 and %q, got %+v", want, got)
		}
		got = u.run("send", "--local", "work/1", "FINISH", "--wait", "settled", "--timeout", "0s")
		if want := "settle: usage: --timeout: expected more than zero, got 0s\n"; got.code != command.ExitUsage || got.err != want {
			u.t.Errorf("expected exit code 2 and %q, got %+v", want, got)
		}
	})
}

func TestSendReportsThatTheAwaitedEventWasParked(t *testing.T) {
	t.Parallel()
	w := &work{}
	withWork(t, w, func(u user) {
		u.must("send", "--local", "work/1", "START", "--wait", "rested")
		w.broken.Store(true)
		got := u.run("send", "--local", "work/1", "COUNT", "what=1", "--wait", "settled", "--timeout", "1h")
		contains(u.t, got.err, "settle: the event was parked: ", "action note: panic: a value of the type string", "settle dlq list --local --instance work/1\n")
		if got.code != command.ExitFailed || got.out != "" {
			u.t.Errorf("expected exit code 1, got %+v", got)
		}
		// The event that was parked earlier does not fail this wait.
		w.broken.Store(false)
		contains(u.t, u.must("send", "--local", "work/1", "COUNT", "what=2", "--wait", "settled"), "work/1 is in ready, settled")
	})
}

func TestSendDoesNotWaitForADuplicate(t *testing.T) {
	t.Parallel()
	withWork(t, &work{}, func(u user) {
		u.must("send", "--local", "work/1", "START", "--id", "once", "--wait", "rested")
		time.Sleep(10 * time.Minute) // The queue's deduplication ends after five minutes. The instance still knows the ID.
		begun := time.Now()
		u.must("send", "--local", "work/1", "START", "--id", "once", "--wait", "rested")
		if waited := time.Since(begun); waited > time.Second {
			u.t.Errorf("expected the duplicate to be recognised by its ID, got an answer after %v", waited)
		}
	})
}

func TestSendPrintsTheAwaitedInstanceAsJSON(t *testing.T) {
	t.Parallel()
	withWork(t, &work{}, func(u user) {
		got := u.runAs(command.Process{}, "send", "--local", "work/1", "START", "--wait", "settled")
		var sent struct {
			MessageID string `json:"message_id"`
			Instance  string
			Status    string
			State     []string
			Tags      []string
			Revision  int
		}
		unmarshal(u.t, []byte(got.out), &sent)
		if sent.MessageID == "" || sent.Instance != "work/1" || sent.Status != "active" || strings.Join(sent.State, " ") != "ready" || strings.Join(sent.Tags, " ") != "rested settled" || sent.Revision < 1 {
			u.t.Errorf("expected the state of work/1, got %+v of %s", sent, got.out)
		}
	})
}

func TestResumeSettlesAStuckInstance(t *testing.T) {
	t.Parallel()
	w := &work{toil: time.Second}
	withWork(t, w, func(u user) {
		w.broken.Store(true)
		u.must("send", "--local", "work/1", "START")
		time.Sleep(time.Hour)
		contains(u.t, u.must("get", "--local", "work/1"), "state     busy\n", "not settled")

		stuck := u.run("resume", "--local", "work/1", "--wait", "settled", "--timeout", "1h")
		contains(u.t, stuck.err, "settle: the event was parked: settling work/1: ", "action failIfBroken: panic: a value of the type string")
		if stuck.code != command.ExitFailed {
			u.t.Errorf("while the chart is broken: expected exit code 1, got %+v", stuck)
		}
		w.broken.Store(false)
		before := u.must("history", "--local", "work/1", "-o", "json")
		got := u.must("resume", "--local", "work/1", "--wait", "settled", "--timeout", "2m")
		contains(u.t, got, "sent resume to work/1 as message ", "work/1 is in idle, settled, revision ")
		after := u.must("history", "--local", "work/1", "-o", "json")
		added, ok := strings.CutPrefix(after, before)
		if !ok || strings.Count(added, "\n") != 1 || !strings.Contains(added, `"event":"error.invoke.busy","from":["busy"],"to":["idle"]`) {
			u.t.Errorf("expected only the end of the service after\n%s\ngot\n%s", before, after)
		}

		items := u.items()
		contains(u.t, u.must("resume", "--local", "work/1"), "nothing to resume\nwork/1 is in idle, settled")
		if u.items()["work/1"] != items["work/1"] {
			u.t.Errorf("expected resume not to change a settled instance, got\n%s\nafter\n%s", u.items()["work/1"], items["work/1"])
		}
		if missing := u.run("resume", "--local", "work/2"); missing.code != command.ExitNotFound {
			u.t.Errorf("expected exit code 3 for an instance that does not exist, got %+v", missing)
		}
	})
}
