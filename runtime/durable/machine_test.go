package durable_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/foreign"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestNoMachineIsAnotherInterpretersChart(t *testing.T) {
	t.Parallel()
	chart, err := statechart.Compile(statechart.Definition[struct{}]{Foreign: &foreign.Document{}, ID: "alien", Version: 1, Initial: "a", States: []statechart.State[struct{}]{{ID: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `machine "alien" is another interpreter's, and its states need not settle: compile it with statechart.Compile`
	if _, err := durable.NewMachines(durable.Host(chart, durable.MachineConfig{})); err == nil || err.Error() != want {
		t.Errorf("NewMachines: %v, want %s", err, want)
	}
}

func TestStartedByNamesOnlyEventsOfTheChart(t *testing.T) {
	t.Parallel()
	chart := statechart.Must(statechart.Definition[struct{}]{
		ID: "loan", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{"REQUEST": statechart.NoPayload(), "COLLECT": statechart.NoPayload(), "TICK": statechart.Internal()},
		States: []statechart.State[struct{}]{{ID: "open", Tags: []string{statechart.Settled}, On: []statechart.Transition[struct{}]{
			{Event: "REQUEST"}, {Event: "COLLECT"}, {Event: "TICK"}}}},
	})
	for _, typ := range []string{"REQEUST", "TICK", "request", "*", ""} {
		want := `machine "loan": expected StartedBy to name events that its chart accepts from outside (COLLECT, REQUEST) or settle.wait, got "` + typ + `": correct the name, or declare the event in Payloads`
		if _, err := durable.NewMachines(durable.Host(chart, durable.MachineConfig{StartedBy: []string{"REQUEST", typ}})); err == nil || err.Error() != want {
			t.Errorf("StartedBy %q: expected %s, got %v", typ, want, err)
		}
	}
	for _, types := range [][]string{nil, {}, {"REQUEST"}, {"REQUEST", "COLLECT", durable.WaitEvent}} {
		if _, err := durable.NewMachines(durable.Host(chart, durable.MachineConfig{StartedBy: types})); err != nil {
			t.Errorf("StartedBy %q: expected no error, got %v", types, err)
		}
	}
}

func TestMachinesAreFoundByTheirID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if ids := w.machines.IDs(); !slices.Equal(ids, []string{"boot", "greeter", "order"}) {
		t.Errorf("IDs() = %q", ids)
	}
	if machine, err := w.machines.Lookup("order"); err != nil || machine.ID() != "order" || machine.Version() != 1 || machine.Retention() != 24*time.Hour {
		t.Errorf("Lookup(order) = %v, %v", machine, err)
	}
	if _, err := w.machines.Lookup("ghost"); !errors.Is(err, durable.ErrUnknownMachine) {
		t.Errorf("Lookup(ghost): %v", err)
	}
	if _, err := durable.NewMachines(w.boot(), w.order(), w.boot()); err == nil || !strings.Contains(err.Error(), `two machines have the ID "boot"`) {
		t.Errorf("two machines of one ID: %v", err)
	}
}

func TestAMachineHidesTheTypeOfItsContext(t *testing.T) {
	t.Parallel()
	machine, err := newWorld(t).machines.Lookup("greeter")
	if err != nil {
		t.Fatal(err)
	}
	if events := machine.Events(); len(events) != 22 || events[0] != "add" {
		t.Errorf("Events() = %q", events)
	}
	instance, effects, err := machine.Start(statechart.Start{Instance: "greeter/1", At: time.Unix(0, 0)})
	if err != nil || len(effects) != 2 {
		t.Fatalf("Start: %d effects, %v", len(effects), err)
	}
	if next := instance.NextEvents(); !slices.Equal(next, []string{"add", "charge", "refuse"}) {
		t.Errorf("NextEvents() = %q", next)
	}
	if graph := machine.Mermaid(); !strings.Contains(graph, "stateDiagram") || !strings.Contains(graph, "charging") {
		t.Errorf("Mermaid() = %s", graph)
	}
	snapshot, err := instance.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := machine.Restore(snapshot)
	if err != nil || !restored.Settled() || restored.Status() != statechart.Active || len(restored.Timers()) != 1 {
		t.Errorf("Restore(%s) = %+v, %v", snapshot, restored, err)
	}
	if same, err := restored.WithAttempt("9.9", 1, time.Time{}).Snapshot(); err != nil || string(same) != string(snapshot) {
		t.Errorf("WithAttempt of an unknown key changes the snapshot to %s, want %s, %v", same, snapshot, err)
	}
}

func TestAcceptRefusesWhatProducersMayNotSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	order := instances.ID{Machine: "order", ID: "1"}
	for _, c := range []struct {
		to   instances.ID
		body string
		want error
	}{
		{order, `{"type": "add", "item": "a", "$id": "p-1"}`, nil},
		{instances.ID{Machine: "ghost", ID: "1"}, `{"type": "add"}`, durable.ErrUnknownMachine},
		{order, `[]`, statechart.ErrNotAnEvent},
		{order, `{"type": "vanish"}`, statechart.ErrUndeclared},
		{order, `{"type": "add", "item": 1}`, statechart.ErrPayload},
		{order, `{"type": "add", "item": "explosive"}`, statechart.ErrPayload},
		{order, `{"type": "settle.timer", "timer": "1.0"}`, durable.ErrReserved},
		{order, `{"type": "add", "$task": {}}`, durable.ErrReserved},
		{order, `{"type": "add", "$incarnation": 1}`, durable.ErrReserved},
	} {
		event, err := w.machines.Accept(c.to, []byte(c.body))
		if !errors.Is(err, c.want) {
			t.Errorf("Accept(%s) = %v, want %v", c.body, err, c.want)
		}
		if c.want == nil && (event.Type != "add" || event.ID != "p-1" || event.Payload != item{Item: "a"}) {
			t.Errorf("Accept(%s) = %+v", c.body, event)
		}
	}
}

func TestAConfigWithoutSenseIsRefused(t *testing.T) {
	t.Parallel()
	for _, config := range []durable.Config{
		{AttemptsMax: -1}, {AbandonedMax: -1}, {ServicesMax: -1}, {ConflictsMax: -1}, {SnapshotBytesMax: -1}, {HistoryMax: -1}, {RecentEventsMax: -1},
		{DeadlineMargin: -1}, {Lease: -1}, {Backoff: statechart.RetryPolicy{Interval: -1}}, {Backoff: statechart.RetryPolicy{IntervalMax: -1}},
	} {
		if loop, err := durable.New(nil, durable.Ports{}, config); err == nil {
			t.Errorf("New(%+v) = %v, want an error", config, loop)
		}
	}
	if _, err := durable.New(nil, durable.Ports{}, durable.Config{}); err != nil {
		t.Errorf("New with the zero Config: %v", err)
	}
}

func TestAServiceCannotReachTheInstanceThroughItsContext(t *testing.T) {
	t.Parallel()
	type labels map[string]string
	type on = statechart.Transition[labels]
	scribble := statechart.ServiceFunc("scribble", func(_ context.Context, l labels, _ statechart.Call) (struct{}, error) {
		l["kept"] = "scribbled over"
		return struct{}{}, nil
	})
	machine := durable.Host(statechart.Must(statechart.Definition[labels]{
		ID: "scribbler", Version: 1, Initial: "calling",
		Context: func(statechart.Start) labels { return labels{"kept": "as it was"} },
		States: []statechart.State[labels]{
			{ID: "calling", Invoke: []statechart.Invoke[labels]{{Service: scribble, OnDone: []on{{Target: "over"}}, OnError: []on{{Target: "over"}}}}},
			{ID: "over", Type: statechart.Final},
		},
	}), durable.MachineConfig{})
	instance, _, err := machine.Start(statechart.Start{Instance: "scribbler/1"})
	if err != nil {
		t.Fatal(err)
	}
	work, err := instance.Prepare(instance.Invocations()[0], statechart.Call{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := work.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	snapshot, err := instance.Snapshot()
	if err != nil || !strings.Contains(string(snapshot), `"context":{"kept":"as it was"}`) {
		t.Errorf("after the service: %s, %v", snapshot, err)
	}
}
