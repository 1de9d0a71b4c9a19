package view

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// orders returns a machine whose last state, `shipped`, is a final state inside the state `open`. Since `open` has no
// transitions, the instance stays active in `shipped`. Neither state has a tag.
func orders(t *testing.T) durable.Machine {
	t.Helper()
	type state = statechart.State[map[string]int]
	return durable.Host(statechart.Must(statechart.Definition[map[string]int]{
		ID: "order", Version: 1, Initial: "open", Payloads: statechart.Payloads{"SHIP": statechart.NoPayload()},
		States: []state{{ID: "open", Initial: "packing", States: []state{
			{ID: "packing", Tags: []string{statechart.Settled}, On: []statechart.Transition[map[string]int]{{Event: "SHIP", Target: "shipped"}}},
			{ID: "shipped", Type: statechart.Final},
		}}},
	}), durable.MachineConfig{})
}

// TestSettledFollowsTheEngineNotTheTags uses instances whose tags suggest the opposite of the engine's result.
func TestSettledFollowsTheEngineNotTheTags(t *testing.T) {
	t.Parallel()
	machine := orders(t)
	instance, _, err := machine.Start(statechart.Start{Instance: "order/1", At: noon})
	if err != nil {
		t.Fatal(err)
	}
	if instance, _, _, err = instance.Apply(statechart.Event{Type: "SHIP", At: noon}); err != nil {
		t.Fatal(err)
	}
	snapshot, err := instance.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	shipped := instances.Record{
		Instance: instances.ID{Machine: "order", ID: "1"}, Revision: 2, State: instance.State(), Status: instance.Status(), Snapshot: snapshot,
		CreatedAt: noon, UpdatedAt: noon,
	}
	half := record() // The snapshot of this record is unreadable. The instance has the tag `settled`, but the state is not settled and no service runs.
	half.Snapshot = json.RawMessage(strings.Replace(strings.Replace(string(half.Snapshot), `"tags": ["slow"]`, `"tags": ["settled"]`, 1), `"services": {"9.2"`, `"none": {"9.2"`, 1))
	hosted, err := durable.NewMachines(machine, pipeline())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		machines *durable.Machines
		record   instances.Record
		want     bool
	}{
		"a final state without the tag": {hosted, shipped, true},
		"the tag, unreadable snapshot":  {hosted, half, true},
		"the tag, unknown machine":      {&durable.Machines{}, half, true},
		"no tag, unknown machine":       {&durable.Machines{}, shipped, false},
		"a running service":             {hosted, record(), false},
	} {
		shown, err := Of(c.machines, c.record)
		if err != nil {
			t.Fatal(err)
		}
		said := shown.Summary(console.Style{})
		if shown.Settled != c.want || strings.Contains(said, ", settled, ") != c.want || strings.Contains(said, ", not settled, ") == c.want {
			t.Errorf("%s: got settled %v and %q, want %v", name, shown.Settled, said, c.want)
		}
	}
}

func TestTheLaneIsShown(t *testing.T) {
	t.Parallel()
	hosted, err := durable.NewMachines(pipeline())
	if err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]instances.Record{
		"":                                 record(),
		"lane      bulk\n":                 func() instances.Record { r := record(); r.Lane = "bulk"; return r }(),
		"lane      main, moving to bulk\n": func() instances.Record { r := record(); r.Moving = &instances.LaneMove{Lane: "bulk"}; return r }(),
	} {
		shown, err := Of(hosted, r)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := shown.WriteText(&text, console.Style{}, noon); err != nil {
			t.Fatal(err)
		}
		if got := text.String(); !strings.Contains(got, want) || want == "" && strings.Contains(got, "lane ") {
			t.Errorf("expected %q in:\n%s", want, got)
		}
	}
}
