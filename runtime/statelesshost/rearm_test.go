package statelesshost_test

import (
	"encoding/json"
	"testing"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// The snapshot of a stateless machine has the form of a chart's snapshot, so rearming works the same way.
func TestAnInstanceIsRearmed(t *testing.T) {
	t.Parallel()
	machine := newNested(t)
	instance := start(t, machine)
	apply(t, instance, statechart.Event{Type: "GO"})
	machines, err := durable.NewMachines(machine)
	if err != nil {
		t.Fatal(err)
	}
	record := instances.Record{
		Instance: instances.ID{Machine: "m", ID: "1"}, Revision: 2, Status: statechart.Active, Snapshot: json.RawMessage(snapshotOf(t, instance)),
	}
	rearmed, err := durable.Rearm(machines, record, epoch, "")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "outbox", effectLines(rearmed.Outbox), "rearm.1795165200000000.0 schedule 10:00:00\nrearm.1795165200000000.1 schedule 09:01:00")
	restored, err := machine.Restore(rearmed.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "timers", timersOf(restored), timersOf(instance))
	effects := apply(t, &live{restored}, statechart.Event{Type: "SELF"})
	equal(t, "effects", effectLines(effects), "1795165200000001.0 schedule 09:01:00")
}
