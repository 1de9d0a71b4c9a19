package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
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

// persons hosts three machines: a person starts a clerk, and the clerk starts a scribe. Each keeps a name. The person
// gets it from the event KNOW, the clerk and the scribe from their parents.
func persons() command.Config {
	type (
		state = statechart.State[count]
		on    = statechart.Transition[count]
		child = statechart.Child[count]
	)
	settled := []string{statechart.Settled}
	know := statechart.Assign("know", func(c *count, e count) { c.What = e.What })
	alias := statechart.Alias(func(_ count, e statechart.Event) string { return e.Payload.(count).What })
	pass := func(c count, _ statechart.Event) any { return c }
	born := func(s statechart.Start) count {
		c, _ := s.Input.(count)
		return c
	}
	host := func(id, below string) durable.Machine {
		running := state{ID: "running", Tags: settled}
		if below != "" {
			running.Children = []child{{ID: "below", Machine: below, Input: pass}}
		}
		definition := statechart.Definition[count]{
			ID: id, Version: 1, Initial: "running", Input: statechart.PayloadOf[count](), Context: born, States: []state{running},
		}
		if id == "person" {
			definition.Initial, definition.Input, definition.Context = "open", statechart.Payload{}, nil
			definition.Payloads = statechart.Payloads{"KNOW": statechart.PayloadOf[count](), "RUN": statechart.NoPayload()}
			definition.States = []state{{ID: "open", Tags: settled, On: []on{{Event: "KNOW", Actions: []statechart.Action[count]{know, alias}}, {Event: "RUN", Target: "running"}}}, running}
		}
		return durable.Host(statechart.Must(definition), durable.MachineConfig{})
	}
	return command.Config{Machines: func(command.Environment) []durable.Machine {
		return []durable.Machine{host("person", "clerk"), host("clerk", "scribe"), host("scribe", "")}
	}}
}

// live starts a person with the given name. The person starts a clerk, which starts a scribe. Then live puts the name
// into all other places of the stack.
func (u user) live(instance, name string) {
	u.t.Helper()
	u.must("send", "--local", "--id", "know-"+name, instance, "KNOW", "what="+name, "--wait", "settled")
	u.must("send", "--local", instance, "RUN", "--wait", "settled")
	u.put(instance, "wrong-"+name, fmt.Sprintf(`{"type": "KNOW", "$id": "wrong-%s", "what": ["%[1]s"]}`, name))
	u.putInto(stack.DelayDeadLetterQueue, fmt.Sprintf(`{"to": %q, "at": "2000-01-01T00:00:00Z", "deduplication_id": "x", "body": {"type": "settle.timer", "timer": %q}}`, instance, name), nil)
	input, err := json.Marshal(fmt.Sprintf(`{"$settle": {"instance": %q, "execution": "settle-x"}, "name": %q}`, instance, name))
	if err != nil {
		u.t.Fatal(err)
	}
	u.putInto(stack.ExecutionsDeadLetterQueue, fmt.Sprintf(`{"detail": {"name": "settle-x", "input": %s}}`, input), nil)
	id, err := instances.ParseID(instance)
	if err != nil {
		u.t.Fatal(err)
	}
	store := dynamostore.New(dynamodb.NewFromConfig(u.stack.AWS()), stack.Table)
	if err := store.KeepSends(u.t.Context(), id, "arn:q", []instances.LastSend{{Sender: "friend/" + name + "@1", ID: "1.0"}}, time.Now().Add(90*24*time.Hour)); err != nil {
		u.t.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// traces returns the items and parked messages that contain the text.
func (u user) traces(text string) (found []string) {
	u.t.Helper()
	items := u.items()
	for _, key := range slices.Sorted(maps.Keys(items)) {
		if strings.Contains(items[key], text) {
			found = append(found, key)
		}
	}
	for _, queue := range []string{stack.DeadLetterQueue, stack.DelayDeadLetterQueue, stack.ExecutionsDeadLetterQueue} {
		for _, m := range u.parked("--dead-letter-queue", queue) {
			if shown := u.must("dlq", "show", "--local", "--dead-letter-queue", queue, m.MessageID); strings.Contains(shown, text) {
				found = append(found, queue)
			}
		}
	}
	return found
}

// wantTraces checks how many items and parked messages contain the name. The items of the person, the clerk and the
// scribe count too.
func (u user) wantTraces(name string, want int) {
	u.t.Helper()
	if got := u.traces(name); len(got) != want {
		u.t.Errorf("expected %d traces of %s, got %v", want, name, got)
	}
}

func TestAForgottenInstanceLeavesOnlyEmptyItems(t *testing.T) {
	t.Parallel()
	withMachines(t, persons(), func(u user) {
		u.live("person/1", "ada")
		u.live("person/2", "bob")
		u.wantTraces("ada", 8) // three instances, alias, last send, and a message in each dead-letter queue
		active := u.run("forget", "--local", "person/1", "--yes")
		contains(u.t, active.err, "the instance is in use: expected an instance that has ended, got one that is active in [running]: end it first with settle stop --local person/1 or settle terminate --local person/1\n")
		if active.code != command.ExitRefused {
			u.t.Errorf("expected exit code %d, got %+v", command.ExitRefused, active)
		}
		u.must("stop", "--local", "person/1")
		time.Sleep(time.Minute)

		before := u.items()
		dry := u.must("forget", "--local", "person/1", "--dry-run")
		contains(u.t, dry, "forget of person/1: dry run, nothing was erased\n", "  child     scribe/clerk-person-1-", "  child     clerk/person-1-",
			"  erased    aliases: 1, event IDs: 1, sends: 1, parked messages: 3\n", "  expires   2000-01-15 ", " read units\n", "point-in-time recovery of the table (35 days)\n")
		if after := u.items(); !maps.Equal(before, after) || strings.Contains(dry, "ada") {
			u.t.Errorf("the dry run prints\n%s\nand changes the items to\n%v", dry, after)
		}
		u.wantTraces("ada", 8)
		if got := u.run("forget", "--local", "person/1"); got.code != command.ExitUsage || !strings.Contains(got.err, "expected --yes, because there is no terminal") {
			u.t.Errorf("expected a question, got %+v", got)
		}
		no := u.runAs(command.Process{In: strings.NewReader("n\n"), StdinTTY: true, StdoutTTY: true}, "forget", "--local", "person/1")
		contains(u.t, no.err, "Permanently erase person/1, 2 children, 3 other items and its parked messages? [y/N] ", "not confirmed, nothing was erased")
		u.wantTraces("ada", 8)

		done := u.must("forget", "--local", "person/1", "--yes", "--reason", "request 7")
		contains(u.t, done, "forget of person/1: done, revision ", "parked messages: 3\n")
		u.wantTraces("ada", 0)
		u.wantTraces("bob", 8)
		contains(u.t, u.must("get", "--local", "person/1"), "status    stopped\n", "settle.forget", "by local user alice: request 7\n")

		empty := u.items()
		contains(u.t, u.must("forget", "--local", "person/1", "--yes", "--reason", "again"), "aliases: 0, event IDs: 0, sends: 0, parked messages: 0\n")
		if again := u.items(); !maps.Equal(empty, again) {
			u.t.Errorf("the second run changes\n%v\nto\n%v", empty, again)
		}
		u.must("send", "--local", "person/1", "KNOW", "what=late")
		contains(u.t, u.must("get", "--local", "person/1"), "status    stopped\n", "ignored   1 so far")
		u.wantTraces("late", 0)

		time.Sleep(16 * 24 * time.Hour) // DynamoDB deletes an item some time after it expires.
		left := slices.Collect(maps.Keys(u.items()))
		if slices.ContainsFunc(left, func(key string) bool { return strings.Contains(key, "person/1") || strings.Contains(key, "person-1") }) {
			u.t.Errorf("expected only items of person/2, got %v", left)
		}
	})
}

func TestAChildInUsePreventsForgetting(t *testing.T) {
	t.Parallel()
	withMachines(t, persons(), func(u user) {
		u.live("person/1", "ada")
		u.must("stop", "--local", "person/1")
		time.Sleep(time.Minute)
		var dry view.Forgotten
		unmarshal(u.t, []byte(u.must("forget", "--local", "person/1", "--dry-run", "-o", "json")), &dry)
		for _, child := range dry.Children {
			u.must("keep", "--local", child)
		}
		before := u.items()
		got := u.run("forget", "--local", "person/1", "--yes")
		contains(u.t, got.err, "nothing of person/1 was erased: ")
		for _, child := range dry.Children {
			contains(u.t, got.err, "forget "+child+": the instance is in use: an operator keeps it: release it first with settle unkeep --local "+child)
		}
		if after := u.items(); got.code != command.ExitRefused || len(dry.Children) != 2 || !maps.Equal(before, after) {
			u.t.Errorf("expected no change of two children, got %+v, %v", got, dry.Children)
		}
		u.wantTraces("ada", 8)
		for line, want := range map[string]string{
			"forget --local person/9 --yes":                                 "no instance person/9 in table settle",
			"forget --local nobody/9 --yes":                                 "unknown machine",
			"forget --local person/1 --yes --dead-letter-queue settle.fifo": "expected a queue and its dead-letter queue, got settle.fifo for both",
		} {
			for _, child := range dry.Children {
				u.must("unkeep", "--local", child)
			}
			if got := u.run(strings.Fields(line)...); got.code == command.ExitDone || !strings.Contains(got.err, want) {
				u.t.Errorf("%s: expected %q, got %+v", line, want, got)
			}
		}
		u.wantTraces("ada", 8)
	})
}

// One AWS call of the command fails, either before or after it takes effect, and all later calls fail. Then the command
// runs again.
func TestAnInterruptedForgetIsCompletedByTheNextOne(t *testing.T) {
	t.Parallel()
	play := func(nth int64, after bool) (calls int64) {
		withMachines(t, persons(), func(u user) {
			u.live("person/1", "ada")
			u.must("stop", "--local", "person/1")
			time.Sleep(time.Minute)
			revision := u.revision("person/1")
			var called atomic.Int64
			down := errors.New("the network is down")
			process := u.faultily(func(string, string) error {
				if n := called.Add(1); nth > 0 && (n > nth || n == nth && !after) {
					return down
				}
				return nil
			}, func(string, string) error {
				if nth > 0 && called.Load() >= nth {
					return down
				}
				return nil
			})
			u.runAs(process, "forget", "--local", "person/1", "--yes")
			calls = called.Load()
			time.Sleep(10 * time.Minute) // The dead-letter queues hide received messages for five minutes.
			if got := u.run("forget", "--local", "person/1", "--yes"); got.code != command.ExitDone {
				u.t.Errorf("call %d, after %t: %+v", nth, after, got)
			}
			u.wantTraces("ada", 0)
			items := u.items()
			if got := u.revision("person/1"); len(items) != 3 || got != revision+1 {
				u.t.Errorf("call %d, after %t: revision %d became %d, and the items are %v", nth, after, revision, got, items)
			}
			for key, item := range items {
				if !strings.Contains(item, `"forgotten"`) || strings.Count(item, "settle.forget") != 1 {
					u.t.Errorf("call %d, after %t: %s is %s", nth, after, key, item)
				}
			}
		})
		return calls
	}
	calls := play(0, false)
	for nth := int64(1); nth <= calls; nth++ {
		for _, after := range []bool{false, true} {
			play(nth, after)
		}
	}
	t.Logf("%d calls", calls)
	if calls < 20 {
		t.Errorf("expected at least 20 calls, got %d", calls)
	}
}

// record returns the stored record of an instance.
func (u user) record(instance string) instances.Record {
	u.t.Helper()
	id, err := instances.ParseID(instance)
	if err != nil {
		u.t.Fatal(err)
	}
	record, err := dynamostore.New(dynamodb.NewFromConfig(u.stack.AWS()), stack.Table).Load(u.t.Context(), id)
	if err != nil {
		u.t.Fatal(err)
	}
	return record
}

// revision returns the stored revision of an instance.
func (u user) revision(instance string) int64 {
	u.t.Helper()
	return u.record(instance).Revision
}

func TestBulkForgetsEndedInstances(t *testing.T) {
	t.Parallel()
	withMachines(t, persons(), func(u user) {
		for i, name := range []string{"ada", "ada", "bob", "ada"} {
			u.live(fmt.Sprintf("person/%d", i), fmt.Sprintf("%s-%d", name, i))
		}
		for _, id := range []string{"0", "1", "2"} { // person/3 stays active.
			u.must("stop", "--local", "person/"+id)
		}
		time.Sleep(time.Minute)
		journal := filepath.Join(u.t.TempDir(), "journal")
		args := []string{"bulk", "forget", "--local", "--machine", "person", "--context", "what != bob-2", "--journal", journal}
		contains(u.t, u.must(append(args, "--dry-run")...), "2 instances would be processed")
		var writes atomic.Int64
		broken := u.faultily(func(operation, _ string) error {
			if operation == "PutItem" && writes.Add(1) > 2 {
				return errors.New("the network is down")
			}
			return nil
		}, nil)
		args = append(args, "--yes", "--reason", "request 7")
		if got := u.runAs(broken, args...); got.code == command.ExitDone {
			u.t.Errorf("expected a failure, got %+v", got)
		}
		time.Sleep(10 * time.Minute)
		contains(u.t, u.run(args...).out, "2 instances: 2 changed, 0 skipped, 0 failed.\nReading them took ", " read units.\nCopies may remain in:\n  messages in the queues (")
		u.wantTraces("ada-0", 0)
		u.wantTraces("ada-1", 0)
		u.wantTraces("bob-2", 8)
		u.wantTraces("ada-3", 8)
		contains(u.t, u.must("history", "--local", "person/0"), "settle.forget", "request 7 (bulk ")
		contains(u.t, u.must(args...), "0 instances: ")
	})
}

// The command holds the names and belongings of only one batch in memory. The filter of each scan names the instances.
func TestBulkForgetHoldsOneBatchInMemory(t *testing.T) {
	t.Parallel()
	withMachines(t, persons(), func(u user) {
		for i := range 5 {
			u.live(fmt.Sprintf("person/%d", i), "ada")
			u.must("stop", "--local", fmt.Sprintf("person/%d", i))
		}
		time.Sleep(time.Minute)
		batches := map[string]int{}
		counting := u.faultily(func(operation, body string) error {
			if persons := regexp.MustCompile(`"person/\d"`).FindAllString(body, -1); operation == "Scan" && len(persons) > 0 {
				slices.Sort(persons)
				batches[strings.Join(persons, " ")]++
			}
			return nil
		}, nil)
		got := u.runAs(counting, "bulk", "forget", "--local", "--machine", "person", "--batch", "2", "--yes", "--journal", filepath.Join(u.t.TempDir(), "journal"))
		contains(u.t, got.out, "5 instances: 5 changed, 0 skipped, 0 failed.\n")
		sizes, seen := []int{}, 0
		for names := range batches {
			size := len(strings.Fields(names))
			sizes, seen = append(sizes, size), seen+size
		}
		if slices.Sort(sizes); !slices.Equal(sizes, []int{1, 2, 2}) || seen != 5 {
			u.t.Errorf("expected scans for two, two and one instances, got %v", batches)
		}
		u.wantTraces("ada", 0)
	})
}

// The table on the page about security lists the same copies as the command.
func TestTheSecurityPageNamesTheCopies(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range view.Copies() {
		if row := fmt.Sprintf("| %s | %s |\n", c.Place, c.Kept); !strings.Contains(strings.ReplaceAll(string(text), "`", ""), row) {
			t.Errorf("expected the row %q in docs/security.md", row)
		}
	}
}
