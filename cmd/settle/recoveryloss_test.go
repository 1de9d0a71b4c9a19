package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

type sqsName = types.QueueAttributeName

// claimMachines are the machines of the drill.
type claimMachines struct{}

func claims() claimMachines { return claimMachines{} }

func (m claimMachines) config() command.Config {
	return command.Config{Machines: func(command.Environment) []durable.Machine { return m.hosted("") }}
}

type claimContext struct{}

type tallyContext struct {
	Counted []string `json:"counted,omitempty"`
}

// hosted returns the machines: a claim has an alias, three timers, a child with a timer, and an execution.
func (claimMachines) hosted(string) []durable.Machine {
	type (
		state = statechart.State[claimContext]
		on    = statechart.Transition[claimContext]
		do    = []statechart.Action[claimContext]
		after = []statechart.After[claimContext]
	)
	settled := []string{statechart.Settled}
	forward := statechart.SendTo("COUNT", func(_ claimContext, e statechart.Event) (string, any) { return "tally/1", e.Payload })
	know := statechart.Alias(func(_ claimContext, e statechart.Event) string { return e.Payload.(count).What })
	nap := statechart.StartWorkflow[claimContext]("nap", "nap.ended", nil)
	claim := statechart.Must(statechart.Definition[claimContext]{
		ID: "claim", Version: 1, Initial: "new",
		Payloads: statechart.Payloads{"OPEN": statechart.PayloadOf[count](), "NOTE": statechart.PayloadOf[count](), "nap.ended": statechart.PayloadOf[statechart.ExecutionEnded]()},
		On:       []on{{Event: "NOTE", Actions: do{forward}}},
		States: []state{
			{ID: "new", Tags: settled, On: []on{{Event: "OPEN", Target: "waiting", Actions: do{know}}}},
			{ID: "waiting", Tags: settled, After: after{{Delay: 10 * time.Minute, Target: "held"}}},
			{ID: "held", Tags: settled, After: after{{Delay: 30 * time.Minute, Target: "minding"}}},
			{ID: "minding", Tags: settled, Children: []statechart.Child[claimContext]{{ID: "errand", Machine: "errand", OnDone: []on{{Target: "napping"}}, OnError: []on{{Target: "failed"}}}}},
			{ID: "napping", Tags: settled, Entry: do{nap}, On: []on{{Event: "nap.ended", Target: "last"}}},
			{ID: "last", Tags: settled, After: after{{Delay: 5 * time.Minute, Target: "closed"}}},
			{ID: "closed", Type: statechart.Final, Resolve: []statechart.Resolution[claimContext]{{Name: "Wait"}}},
			{ID: "failed", Type: statechart.Final},
		},
	})
	errand := statechart.Must(statechart.Definition[struct{}]{
		ID: "errand", Version: 1, Initial: "away",
		States: []statechart.State[struct{}]{{ID: "away", Tags: settled, After: []statechart.After[struct{}]{{Delay: 10 * time.Minute, Target: "back"}}}, {ID: "back", Type: statechart.Final}},
	})
	note := statechart.Assign("note", func(c *tallyContext, e count) { c.Counted = append(c.Counted, e.What) })
	tally := statechart.Must(statechart.Definition[tallyContext]{
		ID: "tally", Version: 1, Initial: "open", Payloads: statechart.Payloads{"COUNT": statechart.PayloadOf[count]()},
		States: []statechart.State[tallyContext]{{ID: "open", Tags: settled, On: []statechart.Transition[tallyContext]{{Event: "COUNT", Actions: []statechart.Action[tallyContext]{note}}}}},
	})
	return []durable.Machine{durable.Host(claim, durable.MachineConfig{}), durable.Host(errand, durable.MachineConfig{}), durable.Host(tally, durable.MachineConfig{})}
}

// countedBy returns the notes that a tally has counted.
func countedBy(t *testing.T, record instances.Record) []string {
	t.Helper()
	var snapshot struct{ Context tallyContext }
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		t.Fatal(err)
	}
	return snapshot.Context.Counted
}

// withDrill runs a complete drill. Without -short, it also runs a small drill for each step. Each small drill skips its
// step and must fail.
func withDrill(t *testing.T, steps []string, run func(*drill) []string) {
	t.Helper()
	claims, small := 200, 24
	if testing.Short() {
		claims, steps = 60, nil
	}
	for _, without := range append([]string{""}, steps...) {
		t.Run("without "+cmp.Or(without, "nothing"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &drill{t: t, folder: t.TempDir(), without: without, claims: claims}
				if without != "" {
					d.claims = small
				}
				d.from = d.claims / 2
				d.start()
				defer d.close()
				d.load()
				problems := run(d)
				if without == "" && len(problems) > 0 {
					t.Errorf("%d problems:\n%s", len(problems), strings.Join(problems[:min(len(problems), 10)], "\n"))
				}
				if without != "" && len(problems) == 0 {
					t.Errorf("the recovery works without %s: the drill proves nothing about it", without)
				}
			})
		})
	}
}

// The table is lost. A backup takes its place, and the queue has events that the consumer has not applied yet.
func TestRecoveryOfTheTable(t *testing.T) {
	t.Parallel()
	withDrill(t, []string{"import", "rearm"}, func(d *drill) []string {
		backup := d.backup()
		d.note("between", d.from)
		time.Sleep(15 * time.Minute)
		d.stop()
		d.note("waiting", d.from)
		d.createTable()
		d.must("import", backup, "--yes")
		d.must("rearm", "--all", "--yes")
		d.start()
		d.note("after", d.from)
		return append(d.problems(map[string]int{"before": 1, "between": 0, "waiting": 1, "after": 1}), d.unanswered()...)
	})
}

// The FIFO queue is lost. It holds events, fired timers, and the starts and ends of children and executions.
func TestRecoveryOfTheQueue(t *testing.T) {
	t.Parallel()
	withDrill(t, []string{"rearm", "--new-queue", "move"}, func(d *drill) []string {
		ofChildren, all := `{"S":"errand/`, ""
		d.blocked.Store(&ofChildren)
		d.note("between", d.from)
		time.Sleep(5 * time.Minute)
		d.note("later", 0) // These events clear the outboxes of claims whose children have not started.
		time.Sleep(time.Minute)
		d.blocked.Store(&all)
		time.Sleep(5 * time.Minute)
		d.stop()
		d.note("waiting", d.from)
		d.createQueue()
		rearmed := d.must("rearm", "--all", "--new-queue", "--yes")
		d.blocked.Store(nil)
		d.start()
		d.note("after", d.from)
		d.moveParents(rearmed)
		return append(d.problems(map[string]int{"before": 1, "between": 1, "later": 1, "waiting": 0, "after": 1}), d.unanswered()...)
	})
}

// The schedule group is lost, with all timers longer than fifteen minutes. The consumer keeps running.
func TestRecoveryOfTheScheduleGroup(t *testing.T) {
	t.Parallel()
	withDrill(t, []string{"rearm"}, func(d *drill) []string {
		d.deleteSchedules()
		d.note("between", d.from)
		time.Sleep(10 * time.Minute)
		d.must("rearm", "--all", "--yes")
		d.note("after", d.from)
		return append(d.problems(map[string]int{"before": 1, "between": 1, "after": 1}), d.unanswered()...)
	})
}

// recentEvents is how many event IDs an instance remembers (durable.Config.RecentEventsMax).
const recentEvents = 50

// The Region is lost. A new stack imports a backup of the lost Region, and the first import is interrupted. Tasks and
// executions are not recovered.
func TestRecoveryOfTheRegion(t *testing.T) {
	t.Parallel()
	withDrill(t, []string{"import", "rearm", "--new-queue"}, func(d *drill) []string {
		clearing := "#revision = :next"
		d.blocked.Store(&clearing) // The sends stay in the senders' outboxes after the receivers have applied them.
		d.note("torn", d.from)
		time.Sleep(time.Minute)
		for n := range recentEvents { // After these events, the tally no longer remembers the IDs of the earlier sends.
			d.send("tally/1", fmt.Sprintf(`{"type": "COUNT", "what": "more", "$id": "more-%d"}`, n), fmt.Sprint("more-", n))
		}
		time.Sleep(time.Minute)
		backup := d.backup()
		d.blocked.Store(nil)
		text, err := os.ReadFile(backup)
		if err == nil {
			err = os.WriteFile(backup, []byte(strings.ReplaceAll(string(text), ":us-east-1:", ":eu-west-1:")), 0o600)
		}
		if err != nil {
			d.t.Fatal(err)
		}
		d.note("between", d.from)
		time.Sleep(15 * time.Minute)
		d.close()
		d.folder = d.t.TempDir()
		d.start()
		d.workflows()
		d.stop()
		if d.without != "import" {
			ctx, interrupt := context.WithTimeout(d.t.Context(), time.Duration(d.claims)*2*time.Millisecond)
			defer interrupt()
			if cut := d.run(ctx, "import", backup, "--yes"); cut.code != command.ExitInterrupted || !strings.Contains(cut.err, "repeat the command") {
				d.t.Errorf("got %+v, want an interrupted import", cut)
			}
		}
		d.must("import", backup, "--yes")
		d.must("rearm", "--all", "--new-queue", "--yes")
		d.start()
		d.note("after", d.from)
		return d.problems(map[string]int{"before": 1, "torn": 1, "between": 0, "after": 1})
	})
}
