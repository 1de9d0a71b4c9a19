package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
)

// signUps starts instances of signup, each with a name.
func (u user) signUps(names ...string) {
	u.t.Helper()
	for i, name := range names {
		u.must("send", "--local", fmt.Sprintf("signup/%d", i), "SIGN_UP", "email="+name+"@example.com", "name="+name)
	}
	time.Sleep(time.Minute)
}

func TestBulkChangesTheInstancesThatMatch(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.signUps("ada", "bob", "eve", "ada")
		journal := filepath.Join(u.t.TempDir(), "journal")
		ada := []string{"--local", "--machine", "signup", "--context", "name = ada", "--journal", journal}
		contains(u.t, u.must(append([]string{"bulk", "stop", "--dry-run"}, ada...)...), "2 instances would be processed, in about 80ms. Listing them took ")
		if got := u.run(append([]string{"bulk", "stop"}, ada...)...); got.code != command.ExitUsage || !strings.Contains(got.err, "expected --yes") {
			u.t.Errorf("expected a question, got %+v", got)
		}
		contains(u.t, u.must(append([]string{"bulk", "stop", "--yes", "--reason", "a test"}, ada...)...), "2 instances: 2 changed, 0 skipped, 0 failed.\n")
		for id, want := range map[string]string{"signup/0": "stopped", "signup/1": "active", "signup/2": "active", "signup/3": "stopped"} {
			contains(u.t, u.must("get", "--local", id), "status    "+want)
		}
		contains(u.t, u.must("history", "--local", "signup/3"), "settle.stop", "by local user alice: a test (bulk ")

		// No instance is older than an hour. The chart's context has no key `colour`, so the second move fails for both
		// instances.
		contains(u.t, u.must("bulk", "move", "--local", "--machine", "signup", "--state", "unverified", "--older-than", "1h", "cancelled", "--yes", "--journal", journal), "0 instances: ")
		got := u.run("bulk", "move", "--local", "--machine", "signup", "--set", "colour=red", "--yes", "--journal", journal, "-o", "json")
		contains(u.t, got.out, `"instances": 2,`, `"failed": 2,`)
		contains(u.t, got.err, "settle: signup/1: move signup/1: the new context: ", "2 instances failed: the journal "+journal+" has the reasons")
		if text, err := os.ReadFile(journal); err != nil || got.code != command.ExitFailed || strings.Count(string(text), `"outcome":"failed"`) != 2 {
			u.t.Errorf("expected exit code 1 and two failures in the journal, got %d, %v and\n%s", got.code, err, text)
		}
		contains(u.t, u.must("bulk", "send", "--local", "--machine", "signup", "CANCEL", "--yes", "--journal", journal), "2 instances: 2 changed, 0 skipped, 0 failed.\n")
		time.Sleep(time.Minute)
		contains(u.t, u.must("get", "--local", "signup/1"), "status    done\n")
	})
}

// bulkSetUp starts instances of work for a bulk command: stuck instances for resume, kept instances for unkeep.
func (u user) bulkSetUp(w *work, action string, count int) {
	u.t.Helper()
	w.broken.Store(action == "resume")
	for i := range count {
		u.must("send", "--local", fmt.Sprintf("work/%d", i), "START")
	}
	time.Sleep(time.Hour)
	w.broken.Store(false)
	if action == "unkeep" {
		for i := range count {
			u.must("keep", "--local", fmt.Sprintf("work/%d", i))
		}
	}
}

func TestBulkCommandsChangeOnlyTheInstancesInTheState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ action, state, reason, want string }{
		{"terminate", "ready", "asked", "stopped[ready] false START done.invoke.busy settle.terminate"},
		{"keep", "ready", "asked", "active[ready] true START done.invoke.busy settle.keep"},
		{"unkeep", "ready", "asked", "active[ready] false START done.invoke.busy settle.keep settle.unkeep"},
		{"resume", "busy", "", "active[idle] false START error.invoke.busy"},
	} {
		w := &work{toil: time.Second}
		withWork(t, w, func(u user) {
			u.bulkSetUp(w, c.action, 2)
			u.must("send", "--local", "work/idle", "COUNT", "what=x")
			other := u.item("work/idle")
			args := []string{"bulk", c.action, "--local", "--machine", "work", "--state", c.state, "--yes", "--journal", filepath.Join(u.t.TempDir(), "journal")}
			if c.reason != "" {
				args = append(args, "--reason", c.reason)
			}
			contains(u.t, u.must(args...), "2 instances: 2 changed, 0 skipped, 0 failed.\n")
			time.Sleep(time.Minute)
			for _, id := range []string{"work/0", "work/1"} {
				record := u.record(id)
				got := fmt.Sprint(record.Status, record.State, " ", record.Kept)
				for _, transition := range record.History {
					got += " " + transition.Event
				}
				last := record.History[len(record.History)-1]
				if got != c.want || !strings.HasPrefix(last.Reason, c.reason) || c.reason != "" && last.By != "local user alice" {
					u.t.Errorf("bulk %s: expected %s for the reason %q, got %s, %+v", c.action, c.want, c.reason, got, last)
				}
			}
			if !reflect.DeepEqual(other, u.item("work/idle")) {
				u.t.Errorf("bulk %s changed an instance in another state: %+v", c.action, u.record("work/idle"))
			}
		})
	}
}

// The network fails repeatedly, each time after a few calls of the command. The test then runs the command again to
// continue the run.
func TestAnInterruptedBulkRunProcessesEachInstanceOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action, argument string
		count            int
		// `once` is the entry that each history must contain exactly once.
		once string
	}{
		{"move", "unverified.registering", 30, "settle.move"},
		{"send", "RESEND", 30, "RESEND"},
		{"terminate", "", 8, "settle.terminate"},
		{"keep", "", 8, "settle.keep"},
		{"unkeep", "", 8, "settle.unkeep"},
		{"resume", "", 8, "error.invoke"},
	} {
		w, machine, config := &work{toil: time.Second}, "work", settle()
		if c.argument != "" {
			machine = "signup"
		} else {
			config = w.config()
		}
		withMachines(t, config, func(u user) {
			if machine == "work" {
				u.bulkSetUp(w, c.action, c.count)
			} else {
				u.signUps(strings.Fields(strings.Repeat("ada ", c.count))...)
			}
			args := append([]string{"bulk", c.action, "--local", "--machine", machine, "--yes", "--rate", "1000", "--journal", filepath.Join(u.t.TempDir(), "journal")}, strings.Fields(c.argument)...)
			interrupted := u.interrupt(c.count, args)
			if interrupted < 5 {
				u.t.Errorf("%s: expected at least 5 interruptions, got %d", c.action, interrupted)
			}
			for i := range c.count {
				id := fmt.Sprintf("%s/%d", machine, i)
				if text := u.must("history", "--local", id); strings.Count(text, c.once) != 1 {
					u.t.Errorf("%s: expected %s once, got\n%s", id, c.once, text)
				}
				if u.record(id).Owes() {
					u.t.Errorf("%s: expected no effects left, got %+v", id, u.record(id))
				}
			}
			u.t.Logf("%s: %d interruptions", c.action, interrupted)
		})
	}
}

// interrupt repeats a bulk command until the run is complete. It cuts the network after some calls of each process, and
// returns the number of interruptions.
func (u user) interrupt(count int, args []string) (interrupted int) {
	u.t.Helper()
	var last answer
	for budget := 10; interrupted < 100; interrupted++ {
		var calls atomic.Int64
		fail := func(string, string) error {
			if calls.Add(1) > int64(budget) {
				return errors.New("the network is down")
			}
			return nil
		}
		process := u.faultily(fail, nil)
		if interrupted%2 == 1 {
			process = u.faultily(nil, fail)
		}
		if last = u.runAs(process, args...); last.code == command.ExitDone {
			break
		}
		contains(u.t, last.err, "the network is down")
		budget += 2 // With a constant budget, each process could fail while it lists the instances.
		time.Sleep(time.Minute)
	}
	contains(u.t, last.out, fmt.Sprintf("%d instances: %d changed, 0 skipped, 0 failed.\n", count, count))
	time.Sleep(time.Hour)
	return interrupted
}

// The first process sends a write and dies. DynamoDB stores the write only after the next process has read the
// instance.
func TestABulkRunRecognisesALateWriteOfItsFormerProcess(t *testing.T) {
	t.Parallel()
	for _, action := range []struct{ kind, argument string }{{"move", "unverified.registering"}, {"stop", ""}} {
		withStack(t, func(u user) {
			u.signUps("ada")
			args := strings.Fields("bulk " + action.kind + " --local --machine signup --yes --journal " + filepath.Join(u.t.TempDir(), "journal") + " " + action.argument)
			var late string
			first := u.faultily(func(operation, body string) error {
				if operation != "PutItem" {
					return nil
				}
				late = body
				return errors.New("the process was killed")
			}, nil)
			if got := u.runAs(first, args...); got.code == command.ExitDone || late == "" {
				u.t.Fatalf("expected a write and a failure, got %+v", got)
			}
			time.Sleep(time.Second)
			second := u.faultily(func(operation, _ string) error {
				if operation != "PutItem" || late == "" {
					return nil
				}
				request, err := http.NewRequestWithContext(u.t.Context(), http.MethodPost, "http://aws.local", strings.NewReader(late))
				if err != nil {
					return err
				}
				request.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
				request.Header.Set("Content-Type", "application/x-amz-json-1.0")
				late = ""
				answer, err := u.stack.AWS().HTTPClient.Do(request)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					return errors.New("the late write: " + answer.Status)
				}
				return nil
			}, nil)
			second.User = "bob" // With an assumed role, each process may have a different session name.
			got := u.runAs(second, args...)
			contains(u.t, got.out, "1 instance: 1 changed, 0 skipped, 0 failed.\n")
			time.Sleep(time.Hour)
			if text := u.must("history", "--local", "signup/0"); late != "" || strings.Count(text, "settle."+action.kind) != 1 {
				u.t.Errorf("%s: expected one change, got\n%s", action.kind, text)
			}
		})
	}
}

func TestAJournalBelongsToOneRun(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.signUps("ada", "bob")
		journal := filepath.Join(u.t.TempDir(), "journal")
		var commits atomic.Int64
		broken := u.faultily(func(operation, _ string) error {
			if operation == "PutItem" {
				commits.Add(1)
			}
			if commits.Load() > 1 {
				return errors.New("the network is down")
			}
			return nil
		}, nil)
		if got := u.runAs(broken, "bulk", "stop", "--local", "--machine", "signup", "--yes", "--journal", journal, "--rate", "1"); got.code == command.ExitDone {
			u.t.Errorf("expected a failure, got %+v", got)
		}
		other := u.run("bulk", "terminate", "--local", "--machine", "signup", "--yes", "--journal", journal)
		contains(u.t, other.err, " is the journal of the run settle bulk stop --local --machine signup --table settle: repeat that command to continue it, or choose another --journal")
		if err := os.WriteFile(journal, []byte("shopping list\n"), 0o600); err != nil {
			u.t.Fatal(err)
		}
		contains(u.t, u.run("bulk", "stop", "--local", "--machine", "signup", "--yes", "--journal", journal).err, "expected a journal of bulk, got another file")
		if text, err := os.ReadFile(journal); string(text) != "shopping list\n" {
			u.t.Errorf("the file was changed to %q, %v", text, err)
		}
	})
}

func TestConditionsOnTheContext(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.signUps("ada")
		for condition, want := range map[string]string{
			"name=ada": "1 instance ", "name != ada": "0 instances", "resends = 0": "1 instance ", "resends<1": "1 instance ", "resends >= 1": "0 instances",
			"resends < text": "0 instances", "name > aaa": "1 instance ", "name.first = ada": "0 instances", "missing = null": "1 instance ", `name = "ada"`: "1 instance ",
		} {
			if got := u.run("bulk", "keep", "--local", "--machine", "signup", "--dry-run", "--context", condition); !strings.HasPrefix(got.out, want) {
				u.t.Errorf("%s: expected %q, got %+v", condition, want, got)
			}
		}
		contains(u.t, u.run("bulk", "keep", "--local", "--machine", "signup", "--dry-run", "--context", "name").err, "--context: expected 'path op value'")
		contains(u.t, u.run("bulk", "keep", "--local", "--dry-run").err, "expected --machine")
		contains(u.t, u.run("bulk", "send", "--local", "--machine", "signup", "CANCEL", "type=x").err, `must not have the key "type"`)
	})
}

// A wrong state or event would fail for every instance, so the command refuses it before listing the instances.
func TestBulkCommandsRefuseAChangeThatNoInstanceCanMake(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.signUps("ada")
		for _, c := range []struct {
			line, err string
			code      int
		}{
			{"move registering", `machine signup has no state "registering": expected one of new, unverified, `, command.ExitNotFound},
			{"send NOPE", `chart signup has no event "NOPE"; it declares CANCEL, `, command.ExitRefused},
			{"send VERIFY", `wrong payload: event "VERIFY" of chart signup: expected a code of 1 to 128 bytes, got 0`, command.ExitRefused},
		} {
			got := u.run(strings.Fields("bulk " + c.line + " --local --machine signup --dry-run")...)
			if got.code != c.code || got.out != "" || !strings.Contains(got.err, c.err) {
				u.t.Errorf("%s: expected exit code %d and %q, got %+v", c.line, c.code, c.err, got)
			}
		}
	})
}

func TestBulkCommandsCountOnlyTheInstancesThatTheyCanChange(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.signUps("ada", "bob")
		u.must("keep", "--local", "signup/1")
		for action, want := range map[string]string{"resume": "0 instances", "keep": "1 instance ", "unkeep": "1 instance ", "stop": "2 instances"} {
			if got := u.must("bulk", action, "--local", "--machine", "signup", "--dry-run"); !strings.HasPrefix(got, want) {
				u.t.Errorf("%s: expected %q, got %q", action, want, got)
			}
		}
	})
}

// These commands write no history entry, so the reason would be lost.
func TestBulkCommandsWithoutAnEntryInTheHistoryRefuseAReason(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"send CANCEL", "resume", "rearm"} {
		got := user{t: t}.run(append([]string{"bulk"}, strings.Fields(line+" --machine signup --reason text")...)...)
		if got.code != command.ExitUsage || !strings.Contains(got.err, "unknown flag --reason") {
			t.Errorf("%s: expected exit code 2 and the flag to be unknown, got %+v", line, got)
		}
	}
}
