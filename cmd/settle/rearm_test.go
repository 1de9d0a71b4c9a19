package main

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// relay is a machine that sends COUNT to work/1 for each PASS, and has a one-hour timer. RUN starts its child. FINISH
// ends the child.
func relay() command.Config {
	type none struct{}
	type (
		state = statechart.State[none]
		on    = statechart.Transition[none]
		do    = []statechart.Action[none]
	)
	settled := []string{statechart.Settled}
	pass := statechart.SendTo("COUNT", func(_ none, e statechart.Event) (string, any) { return "work/1", e.Payload })
	know := statechart.Alias(func(_ none, e statechart.Event) string { return e.Payload.(count).What })
	finish := statechart.SendToChild("errand", "FINISH", func(none, statechart.Event) any { return nil })
	relay := statechart.Must(statechart.Definition[none]{
		ID: "relay", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{"PASS": statechart.PayloadOf[count](), "KNOW": statechart.PayloadOf[count](), "END": statechart.NoPayload(), "RUN": statechart.NoPayload(), "FINISH": statechart.NoPayload()},
		States: []state{
			{ID: "open", Tags: settled, On: []on{{Event: "PASS", Actions: do{pass}}, {Event: "RUN", Target: "running"}, {Event: "KNOW", Actions: do{know}}, {Event: "END", Target: "ended"}},
				After: []statechart.After[none]{{Delay: time.Hour, Target: "rung"}}},
			{ID: "rung", Tags: settled, On: []on{{Event: "PASS", Actions: do{pass}}}},
			{ID: "ended", Type: statechart.Final},
			{ID: "running", Tags: settled, On: []on{{Event: "FINISH", Actions: do{finish}}},
				Children: []statechart.Child[none]{{ID: "errand", Machine: "errand", OnDone: []on{{Target: "open"}}}}},
		},
	})
	errand := statechart.Must(statechart.Definition[none]{
		ID: "errand", Version: 1, Initial: "away", Payloads: statechart.Payloads{"FINISH": statechart.NoPayload()},
		States: []state{{ID: "away", Tags: settled, On: []on{{Event: "FINISH", Target: "back"}}}, {ID: "back", Type: statechart.Final}},
	})
	return command.Config{Machines: func(command.Environment) []durable.Machine {
		return []durable.Machine{
			durable.Host(relay, durable.MachineConfig{}), durable.Host(errand, durable.MachineConfig{}), durable.Host((&work{}).chart(), durable.MachineConfig{}),
		}
	}}
}

// backup returns all items of the table.
func (u user) backup() []map[string]types.AttributeValue {
	u.t.Helper()
	name := stack.Table
	output, err := dynamodb.NewFromConfig(u.stack.AWS()).Scan(u.t.Context(), &dynamodb.ScanInput{TableName: &name})
	if err != nil {
		u.t.Fatal(err)
	}
	return output.Items
}

// item returns the item with the key.
func (u user) item(key string) map[string]types.AttributeValue {
	u.t.Helper()
	for _, item := range u.backup() {
		if item["instance"].(*types.AttributeValueMemberS).Value == key {
			return item
		}
	}
	u.t.Fatalf("there is no item %s", key)
	return nil
}

// restore writes back the items whose names begin with the prefix.
func (u user) restore(items []map[string]types.AttributeValue, prefix string) {
	u.t.Helper()
	name := stack.Table
	for _, item := range items {
		if !strings.HasPrefix(item["instance"].(*types.AttributeValueMemberS).Value, prefix) {
			continue
		}
		if _, err := dynamodb.NewFromConfig(u.stack.AWS()).PutItem(u.t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: item}); err != nil {
			u.t.Fatal(err)
		}
	}
}

func TestRearmedInstanceSendsUnderNewIDsAndItsTimersFire(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		u.must("send", "--local", "relay/1", "PASS", "what=a")
		u.must("send", "--local", "relay/1", "PASS", "what=b", "--wait", "settled")
		backup := u.backup()
		u.must("send", "--local", "relay/1", "PASS", "what=c")
		time.Sleep(2 * time.Hour)
		contains(u.t, u.must("get", "--local", "relay/1"), "state     rung\n")
		u.restore(backup, "relay/1")
		contains(u.t, u.must("rearm", "--local", "relay/1"), "MACHINE  REARMED  ALREADY  ENDED  FAILED  TIMERS  ALIASES  TASKS  EXECUTIONS\n"+
			"relay    1        0        0      0       1       0        0      0\n")
		for _, what := range []string{"d", "e"} {
			time.Sleep(time.Minute)
			u.must("send", "--local", "relay/1", "PASS", "what="+what)
		}
		time.Sleep(time.Minute)
		if got, want := strings.Join(u.counted("work/1"), " "), "a b c d e"; got != want {
			u.t.Errorf("work/1 has counted %q, want %q", got, want)
		}
		contains(u.t, u.must("get", "--local", "relay/1"), "state     rung\n")
	})
}

func TestRearmIncludesFinishedChildren(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		u.must("send", "--local", "relay/1", "RUN")
		time.Sleep(time.Minute)
		backup := u.backup()
		u.must("send", "--local", "relay/1", "FINISH")
		time.Sleep(time.Minute)
		contains(u.t, u.must("get", "--local", "relay/1"), "state     open\n")
		u.restore(backup, "relay/")
		contains(u.t, u.must("rearm", "--local", "relay/1"), "errand   1 ", "relay    1 ")
		time.Sleep(time.Minute)
		contains(u.t, u.must("get", "--local", "relay/1"), "state     open\n")
	})
}

func TestBulkRearmContinuesAfterEachInterruption(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		u.must("send", "--local", "relay/1", "RUN")
		u.must("send", "--local", "relay/2", "END")
		time.Sleep(time.Minute)
		backup := u.backup()
		u.must("send", "--local", "relay/1", "FINISH")
		time.Sleep(time.Hour)
		u.restore(backup, "relay/")
		args := []string{"bulk", "rearm", "--local", "--machine", "relay", "--older-than", "30m", "--yes", "--journal", filepath.Join(u.t.TempDir(), "journal")}
		var last answer
		budget := 1
		for ; budget < 50; budget++ {
			var calls atomic.Int64
			last = u.runAs(u.faultily(func(string, string) error {
				if calls.Add(1) > int64(budget) {
					return errors.New("the network is down")
				}
				return nil
			}, nil), args...)
			if last.code == command.ExitDone {
				break
			}
			contains(u.t, last.err, "the network is down")
		}
		contains(u.t, last.out, "1 instance: 1 changed, 0 skipped, 0 failed.\n")
		if budget < 5 {
			u.t.Errorf("expected at least 4 interruptions, got %d", budget-1)
		}
		time.Sleep(time.Minute)
		contains(u.t, u.must("get", "--local", "relay/1"), "state     open\n")
	})
}

// The instance ends after the backup, which releases its alias. The alias item is not restored.
func TestRearmRestoresAliases(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		u.must("send", "--local", "relay/1", "KNOW", "what=job-7", "--wait", "settled")
		backup := u.backup()
		u.must("send", "--local", "relay/1", "END")
		time.Sleep(time.Minute)
		u.restore(backup, "relay/")
		contains(u.t, u.must("rearm", "--local", "relay/1"), "relay    1        0        0      0       1       1 ")
		u.must("send", "--local", "relay/2", "KNOW", "what=job-7")
		time.Sleep(time.Minute)
		contains(u.t, u.must("get", "--local", "--alias", "job-7"), "relay/1\n")
		if _, released := u.item("alias/job-7")["released"]; released {
			u.t.Error("the alias is still released")
		}
	})
}

func TestRearmReportsUnreadableItemsAndContinues(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.populate()
		u.edit("signup/3", "revision", &types.AttributeValueMemberS{Value: "four"})
		before := u.items()
		dry := u.run("rearm", "--local", "--all", "--dry-run")
		contains(u.t, dry.out, "MACHINE  TO REARM  ALREADY  ENDED  FAILED  TIMERS", "\nsignup   2         0        1      1       2 ")
		contains(u.t, dry.err, "settle: decoding signup/3 in table settle: ", "settle: 1 instance cannot be rearmed: repair the items, or restore them again\n")
		if after := u.items(); dry.code != command.ExitFailed || !maps.Equal(after, before) {
			u.t.Errorf("expected exit code 1 and no change, got %d and\n%v\nafter\n%v", dry.code, after, before)
		}

		got := u.run("rearm", "--local", "--all", "--yes")
		_, rest, _ := strings.Cut(got.err, "Stamp ")
		stamp, _, _ := strings.Cut(rest, ":")
		again := "settle rearm --local --all --resume " + stamp
		contains(u.t, got.err, "Stamp "+stamp+": if this run is interrupted, continue it with "+again+"\n",
			"settle: 1 instance is not rearmed: repair the items, or restore them again, then continue with "+again+"\n")
		contains(u.t, got.out, "\nsignup   2        0        1      1       2 ")
		if got.code != command.ExitFailed {
			u.t.Errorf("expected exit code 1, got %+v", got)
		}
		time.Sleep(time.Minute)
		contains(u.t, u.must("list", "--local", "--machine", "job"), "job/run-1-job-2") // The job is still in the index.

		u.edit("signup/3", "revision", &types.AttributeValueMemberN{Value: "1"})
		done := u.run("rearm", "--local", "--all", "--resume", stamp)
		contains(u.t, done.out, "\nsignup   1        2        1      0       1 ")
		if done.code != command.ExitDone {
			u.t.Errorf("expected exit code 0, got %+v", done)
		}
	})
}

// If a run stops after a commit but before the wake message, the next run sends the message, because the instance still
// has effects to perform.
func TestRearmContinuesAnInterruptedRun(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		u.must("send", "--local", "relay/1", "PASS", "what=a", "--wait", "settled")
		backup := u.backup()
		time.Sleep(2 * time.Hour)
		u.restore(backup, "relay/")
		denied := u.faultily(func(operation, _ string) error {
			if strings.HasSuffix(operation, "SendMessage") {
				return errors.New("the network is down")
			}
			return nil
		}, nil)
		failed := u.runAs(denied, "rearm", "--local", "--machine", "relay", "--yes", "-o", "json")
		_, stamp, ok := strings.Cut(strings.TrimSpace(failed.err), "; continue with settle rearm --local --machine relay --resume ")
		if failed.code != command.ExitFailed || !ok {
			u.t.Fatalf("expected exit code 1 and how to continue, got %+v", failed)
		}
		time.Sleep(time.Hour)
		contains(u.t, u.must("get", "--local", "relay/1"), "state     open\n")
		contains(u.t, u.run("rearm", "--local", "--machine", "relay", "--resume", stamp).out, "relay    0        1        0      0 ")
		time.Sleep(time.Minute)
		contains(u.t, u.must("get", "--local", "relay/1"), "state     rung\n")
	})
}

func TestRearmRefusesAWrongCommandLine(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		for line, want := range map[string]string{
			"":                                   "expected either an instance, such as signup/42, or --machine, or --all",
			"relay/1 --all":                      "expected either an instance, such as signup/42, or --machine, or --all",
			"--all":                              "expected --yes, because there is no terminal to ask for confirmation",
			"--all --resume 7":                   "--resume: expected the stamp that the interrupted run printed, no later than now, 946684800000000, got 7",
			"--all --resume 946684800000001":     "got 946684800000001",
			"relay/1 --resume 946684800000000":   "--resume: expected --machine or --all with it",
			"--machine relay --resume":           "--resume: expected int, got no value; see",
			"--machine relay --resume yesterday": "--resume: expected a valid 64 bit int but got \"yesterday\"",
		} {
			got := u.run(append([]string{"rearm", "--local"}, strings.Fields(line)...)...)
			if got.code != command.ExitUsage || !strings.Contains(got.err, want) {
				u.t.Errorf("rearm %s: expected exit code 2 and %q, got %+v", line, want, got)
			}
		}
		for line, want := range map[string]string{"relay/9": "no instance relay/9 in table settle", "--machine nobody --yes": `got "nobody"`} {
			got := u.run(append([]string{"rearm", "--local"}, strings.Fields(line)...)...)
			if got.code != command.ExitNotFound || !strings.Contains(got.err, want) {
				u.t.Errorf("rearm %s: expected exit code 3 and %q, got %+v", line, want, got)
			}
		}
		declined := u.runAs(command.Process{StdinTTY: true, In: strings.NewReader("n\n")}, "rearm", "--local", "--all")
		if want := "Rearm all instances in table settle? [y/N] settle: not confirmed, nothing was rearmed\n"; declined.err != want {
			u.t.Errorf("expected %q, got %+v", want, declined)
		}
	})
}
