package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestAnOperatorStopsAnInstance(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"stop", "terminate"} {
		withMachines(t, relay(), func(u user) {
			u.must("send", "--local", "relay/1", "KNOW", "what=x-7", "--wait", "settled")
			before := u.items()
			dry := u.must(kind, "--local", "--alias", "x-7", "--dry-run")
			contains(u.t, dry, kind+" of relay/1: dry run, nothing was changed\n", "effect    release the alias x-7\n", `change    status: "active" → "stopped"`, `change    timers: {"1.0":{`, "state     open, stopped\n")
			if after := u.items(); !maps.Equal(before, after) {
				u.t.Errorf("%s --dry-run changed\n%v\nto\n%v", kind, before, after)
			}
			contains(u.t, u.must(kind, "--local", "relay/1", "--reason", "a test"), kind+" of relay/1: done, revision ")
			time.Sleep(2 * time.Hour)
			contains(u.t, u.must("get", "--local", "relay/1"), "status    stopped\n", "settle."+kind, "by local user alice: a test\n")
			u.must("send", "--local", "relay/2", "KNOW", "what=x-7", "--wait", "settled")
			contains(u.t, u.must("get", "--local", "--alias", "x-7"), "relay/2\n")
			again := u.run(kind, "--local", "relay/1")
			contains(u.t, again.err, "the instance has ended: it is stopped in [open]")
			if again.code != command.ExitRefused {
				u.t.Errorf("%s again: expected exit code %d, got %d", kind, command.ExitRefused, again.code)
			}
		})
	}
}

// The stack of these tests has one lane, so the consumer ends each move without changing the lane.
func TestAnOperatorMovesInstancesToALane(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		for _, name := range []string{"signup/1", "signup/2"} {
			u.must("send", "--local", name, "SIGN_UP", "email=ada@example.com", "name=Ada", "--wait", "settled")
		}
		contains(u.t, u.must("lane", "--local", "signup/1", "bulk", "--reason", "an import"), "lane of signup/1: done, revision ")
		contains(u.t, u.must("get", "--local", "signup/1"), "settle.lane", "by local user alice: an import\n")
		u.must("bulk", "lane", "--local", "bulk", "--machine", "signup", "--yes", "--journal", u.t.TempDir()+"/journal")
		contains(u.t, u.must("get", "--local", "signup/2"), "settle.lane", "by local user alice: (bulk ")
		time.Sleep(time.Hour)
		for _, name := range []string{"signup/1", "signup/2"} {
			if shown := u.must("get", "--local", name); strings.Contains(shown, "moving to") {
				u.t.Errorf("the move has not ended:\n%s", shown)
			}
		}
		if wrong := u.run("lane", "--local", "signup/1", "Not a lane"); wrong.code != command.ExitUsage {
			u.t.Errorf("an invalid name: exit code %d, want %d: %s", wrong.code, command.ExitUsage, wrong.err)
		}
	})
}

func TestAnOperatorMovesAnInstance(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/1", "SIGN_UP", "email=ada@example.com", "name=Ada", "--wait", "settled")
		dry := u.must("move", "--local", "signup/1", "unverified.registering", "--set", "email=eve@example.com", "--dry-run", "-o", "json")
		var shown view.Operation
		if err := json.Unmarshal([]byte(dry), &shown); err != nil {
			u.t.Fatal(err)
		}
		if strings.Join(shown.Left, " ") != "unverified.awaiting_verification" || strings.Join(shown.Entered, " ") != "unverified.registering" || !shown.DryRun {
			u.t.Errorf("got %+v", shown)
		}
		contains(u.t, u.run("move", "--local", "signup/1", "unverified.registering", "--revision", "77").err, "expected signup/1 at revision 77, it is at revision ")
		u.must("move", "--local", "signup/1", "unverified.registering", "--set", "email=eve@example.com", "--reason", "wrong address")
		time.Sleep(time.Minute) // Meanwhile, a consumer runs the service of the new state.
		contains(u.t, u.must("get", "--local", "signup/1"), "state     unverified.awaiting_verification\n", `"email": "eve@example.com"`, "wrong address")
		for line, want := range map[string]string{
			"move --local signup/1":                                 "expected a state, --set or --patch, got none",
			"move --local signup/1 unverified.registerin":           `machine signup has no state "unverified.registerin": expected one of new, unverified, unverified.registering, `,
			"move --local signup/1 active --revision 0":             "--revision: expected at least 1, got 0",
			"move --local signup/1 --set colour=red":                "it would drop or change context.colour",
			"move --local signup/1 --patch [1]":                     "--patch: expected a JSON object",
			"move --local signup/9 active":                          "no instance signup/9",
			"move --local signup/1 --set email=x --patch {\"a\":1}": "it would drop or change context.a",
		} {
			got := u.run(strings.Fields(line)...)
			if got.code == command.ExitDone || !strings.Contains(got.err, want) {
				u.t.Errorf("%s: expected %q, got %+v", line, want, got)
			}
			if refused := strings.Contains(want, "context.") || strings.Contains(want, "more than"); refused != (got.code == command.ExitRefused) {
				u.t.Errorf("%s: got exit code %d", line, got.code)
			}
		}
	})
}

func TestAKeptInstanceHasNoTimeToExpire(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/1", "SIGN_UP", "email=ada@example.com", "name=Ada", "--wait", "settled")
		contains(u.t, u.must("keep", "--local", "signup/1", "--dry-run"), "  change    kept: false → true\n")
		u.must("keep", "--local", "signup/1", "--reason", "evidence")
		u.must("send", "--local", "signup/1", "CANCEL", "--wait", "done")
		if text := u.must("get", "--local", "signup/1"); strings.Contains(text, "expires") || !strings.Contains(text, "kept      until settle unkeep\n") {
			u.t.Errorf("got %s", text)
		}
		contains(u.t, u.must("unkeep", "--local", "signup/1"), "  change    kept: true → false\n")
		if text := u.must("get", "--local", "signup/1"); !strings.Contains(text, "expires") || strings.Contains(text, "kept") {
			u.t.Errorf("got %s", text)
		}
	})
}

func TestAnInstanceIsMovedByAlias(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		u.must("send", "--local", "relay/1", "KNOW", "what=x-7", "--wait", "settled")
		contains(u.t, u.must("move", "--local", "--alias", "x-7", "rung"), "move of relay/1: done, revision ", "state     rung, active\n")
		for line, want := range map[string]string{
			"move --local --alias x-8 open":         `no instance has the alias "x-8"`,
			"move --local --alias x-7 relay/1 open": "expected either an instance, such as signup/42, or --alias",
			"move --local --alias x-7":              "expected a state, --set or --patch, got none",
			"keep --local --alias x-7 relay/1":      "expected either an instance, such as signup/42, or --alias",
			"keep --local":                          "expected either an instance, such as signup/42, or --alias",
		} {
			if got := u.run(strings.Fields(line)...); got.code == command.ExitDone || !strings.Contains(got.err, want) {
				u.t.Errorf("%s: expected %q, got %+v", line, want, got)
			}
		}
	})
}

func TestAnEventIsSentByAlias(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		u.must("send", "--local", "relay/1", "KNOW", "what=x-7", "--wait", "settled")
		contains(u.t, u.must("send", "--local", "--alias", "x-7", "END", "--wait", "done"), "sent END to relay/1 as message ", "relay/1 is in ended, done")
		for line, want := range map[string]string{
			"send --local --alias x-8 END":        `no instance has the alias "x-8"`,
			"send --local --alias x-7 END what=a": "",
			"send --local relay/1":                "expected an instance and the type of an event",
		} {
			if got := u.run(strings.Fields(line)...); !strings.Contains(got.err, want) {
				u.t.Errorf("%s: expected %q, got %+v", line, want, got)
			}
		}
	})
}

// Each operation fails once at each AWS call, before or after the call takes effect. All later calls fail too, as if
// the process had died. Then the command runs again. The result is the same as without a failure.
func TestAnInterruptedOperationIsCompletedByTheNextOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, argument string
		isKept         bool
	}{
		{kind: "stop"}, {kind: "terminate"}, {kind: "move", argument: "running"}, {kind: "keep"}, {kind: "unkeep", isKept: true},
	} {
		withMachines(t, relay(), func(u user) {
			// `do` changes an instance with a process that fails after some calls. It returns whether the process failed, and
			// the final state.
			do := func(calls int, after bool) (failed bool, end string) {
				id := fmt.Sprintf("relay/%d-%v", calls, after)
				u.must("send", "--local", id, "KNOW", "what=alias-"+id, "--wait", "settled")
				if c.isKept {
					u.must("keep", "--local", id)
				}
				args := append([]string{c.kind, "--local", id}, strings.Fields(c.argument)...)
				if c.kind == "move" {
					args = append(args, "--revision", fmt.Sprint(u.revision(id)))
				}
				called := 0
				fail := func(string, string) error {
					if called++; called > calls {
						return errors.New("the network is down")
					}
					return nil
				}
				process := u.faultily(fail, nil)
				if after {
					process = u.faultily(nil, fail)
				}
				failed = u.runAs(process, args...).code != command.ExitDone
				if failed {
					again := u.run(args...)
					if again.code != command.ExitDone && c.kind == "move" { // The first command has stored the move.
						contains(u.t, again.err, "if settle history --local "+id+" shows this change, an earlier command has made it; ")
					}
				}
				time.Sleep(time.Second)
				record := u.record(id)
				if record.Status == statechart.Stopped { // The alias of the stopped instance is free.
					u.must("send", "--local", id+"-next", "KNOW", "what=alias-"+id, "--wait", "settled")
					contains(u.t, u.must("get", "--local", "--alias", "alias-"+id), id+"-next\n")
				}
				var events []string
				for _, transition := range record.History {
					events = append(events, transition.Event)
				}
				if strings.HasSuffix(c.kind, "keep") {
					events = slices.Compact(events) // The repeated command adds another entry.
				}
				return failed, fmt.Sprint(record.Status, record.State, record.Kept, record.Owes(), len(record.Aliases), len(record.FailedEffects), events)
			}
			_, want := do(100, false)
			for _, after := range []bool{false, true} {
				for calls := 0; ; calls++ {
					failed, end := do(calls, after)
					if end != want {
						u.t.Errorf("%s, failure after %d calls (%v): expected the end %s, got %s", c.kind, calls, after, want, end)
					}
					if !failed {
						u.t.Logf("%s: %d calls, end %s", c.kind, calls, want)
						break
					}
				}
			}
		})
	}
}

// fill gives an instance so much history that the item has no room for 50 more bytes.
func (u user) fill(instance string) {
	store, record := dynamostore.New(dynamodb.NewFromConfig(u.stack.AWS()), stack.Table), u.record(instance)
	for bytes := 1 << 18; bytes >= 50; bytes /= 2 {
		next := record
		next.Revision++
		next.History = append(slices.Clip(record.History), instances.Transition{Event: "filler", Reason: strings.Repeat("x", bytes)})
		if err := store.Commit(u.t.Context(), next); err == nil {
			record = next
		} else if !errors.Is(err, durable.ErrUnstorable) {
			u.t.Fatal(err)
		}
	}
}

// The item is full. The end of the instance fits only if the command drops the earlier history.
func TestAnInstanceWithAFullItemCanBeEnded(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"stop", "terminate"} {
		withMachines(t, relay(), func(u user) {
			u.must("send", "--local", "relay/1", "KNOW", "what=x-7", "--wait", "settled")
			u.fill("relay/1")
			contains(u.t, u.must(kind, "--local", "relay/1", "--reason", "full"), kind+" of relay/1: done, revision ")
			shown := u.must("get", "--local", "relay/1")
			contains(u.t, shown, "status    stopped\n", "settle."+kind)
			if strings.Contains(shown, "filler") {
				u.t.Errorf("%s kept the earlier history: %s", kind, shown)
			}
		})
	}
}
