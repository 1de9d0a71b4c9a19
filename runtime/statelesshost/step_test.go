package statelesshost_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statelesshost"
)

type (
	states = []statelesshost.State[notes]
	events = map[string]statelesshost.Event
	do     = func(context.Context, ...any) error
)

// notes is data that a shallow copy would share.
type notes struct {
	Lines []string       `json:"lines,omitempty"`
	Count map[string]int `json:"count,omitempty"`
}

func note(ctx context.Context, line string) {
	n := statelesshost.Data[notes](ctx)
	n.Lines = append(n.Lines, line)
	if n.Count == nil {
		n.Count = map[string]int{}
	}
	n.Count[line]++
}

// noting returns an action that adds a note.
func noting(line string) do {
	return func(ctx context.Context, _ ...any) error { note(ctx, line); return nil }
}

func settledState(name string) statelesshost.State[notes] {
	return statelesshost.State[notes]{State: name, Tags: []string{statechart.Settled}}
}

// host hosts a machine that accepts the events GO and NEXT.
func host(t *testing.T, sm *stateless.StateMachine, list states) durable.Machine {
	t.Helper()
	machine, err := statelesshost.New(statelesshost.Config[notes]{
		ID: "m", Version: 1, Machine: sm, Initial: "a", States: list, Events: events{"GO": {}, "NEXT": {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

// lines returns the notes in the snapshot of an instance.
func lines(t *testing.T, instance durable.Instance) string {
	t.Helper()
	_, rest, _ := strings.Cut(snapshotOf(t, instance), `"lines":[`)
	found, _, _ := strings.Cut(rest, "]")
	return strings.ReplaceAll(found, `"`, "")
}

func TestFiredTriggersWaitForTheTransitionAndKeepTheirOrder(t *testing.T) {
	t.Parallel()
	sm := statelesshost.NewStateMachine()
	sm.Configure("a").OnExit(func(ctx context.Context, _ ...any) error {
		note(ctx, "exit a")
		return statelesshost.Fire(ctx, "FIRST", "of a")
	}).Permit("GO", "b")
	sm.Configure("b").
		OnEntry(func(ctx context.Context, _ ...any) error {
			note(ctx, "enter b")
			return errors.Join(statelesshost.Fire(ctx, "SECOND"), statelesshost.Fire(ctx, "THIRD"))
		}).
		OnEntry(noting("second entry of b")).
		InternalTransition("FIRST", func(ctx context.Context, args ...any) error { note(ctx, "first "+args[0].(string)); return nil }).
		InternalTransition("SECOND", func(ctx context.Context, _ ...any) error {
			note(ctx, "second")
			return statelesshost.Fire(ctx, "LAST")
		}).
		Permit("THIRD", "c")
	sm.Configure("c").OnEntry(noting("enter c")).Permit("LAST", "d")
	sm.Configure("d").OnEntry(noting("enter d"))
	machine := host(t, sm, states{settledState("a"), {State: "b"}, {State: "c"}, settledState("d")})
	instance := start(t, machine)
	apply(t, instance, statechart.Event{Type: "GO"})
	equal(t, "state", instance.State(), []string{"d"})
	equal(t, "order", lines(t, instance), "exit a,enter b,second entry of b,first of a,second,enter c,enter d")
}

func TestAStoppedInstanceAcceptsNoEvents(t *testing.T) {
	t.Parallel()
	machine := newLedgers()
	started, _, err := machine.Start(statechart.Start{Instance: "ledger/x", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	instance := &live{started}
	apply(t, instance, statechart.Event{Type: "BOOK", Payload: entry{"x", 5}})
	next, effects, stopped, err := instance.Stop(epoch)
	instance.Instance = next
	if !stopped || len(effects) != 0 || err != nil {
		t.Errorf("stopped %v, effects %v, error %v", stopped, effects, err)
	}
	snapshot := snapshotOf(t, instance)
	if want := `"status":"stopped","value":"open"`; !strings.Contains(snapshot, want) || !strings.Contains(snapshot, `"steps":3`) {
		t.Errorf("want %s after 3 steps, got %s", want, snapshot)
	}
	restored, err := machine.Restore([]byte(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	_, _, handled, err := restored.Apply(statechart.Event{Type: "BOOK", Payload: entry{"x", 5}})
	_, _, again, stopErr := restored.Stop(epoch)
	if handled || again || err != nil || stopErr != nil || len(restored.Children()) != 0 {
		t.Errorf("handled %v, stopped again %v, errors %v and %v, children %v", handled, again, err, stopErr, restored.Children())
	}
	if input, err := machine.DecodeInput([]byte(`{"n": 1}`)); !errors.Is(err, statechart.ErrPayload) || machine.TakesInput() {
		t.Errorf("accepted the input %v with the error %v", input, err)
	}
}

func TestAnInstanceMayBeStoppedBeforeItStarts(t *testing.T) {
	t.Parallel()
	machine := newLedgers()
	stopped, err := machine.Stopped()
	if err != nil {
		t.Fatal(err)
	}
	snapshot := snapshotOf(t, stopped)
	if want := `"status":"stopped","value":"open"`; !strings.Contains(snapshot, want) || !strings.Contains(snapshot, `"steps":1`) {
		t.Errorf("want %s after 1 step, got %s", want, snapshot)
	}
	if restored, err := machine.Restore([]byte(snapshot)); err != nil || snapshotOf(t, restored) != snapshot {
		t.Errorf("restored %s with the error %v", snapshotOf(t, restored), err)
	}
}

func TestAnEventThatNoStateHandlesIsIgnored(t *testing.T) {
	t.Parallel()
	sm, asked := statelesshost.NewStateMachine(), false
	sm.OnUnhandledTrigger(func(context.Context, stateless.State, stateless.Trigger, []string) error {
		asked = true
		return nil
	})
	sm.Configure("a").Permit("GO", "b", func(ctx context.Context, _ ...any) bool {
		note(ctx, "a guard that changes data")
		return false
	}).InternalTransition("NEXT", func(ctx context.Context, _ ...any) error { return statelesshost.Fire(ctx, "GHOST") })
	sm.Configure("b")
	instance := start(t, host(t, sm, states{settledState("a"), settledState("b")}))
	before := snapshotOf(t, instance)
	_, effects, handled, err := instance.Apply(statechart.Event{Type: "GO", At: epoch})
	if effects != nil || handled || err != nil || asked {
		t.Errorf("effects %v, handled %v, error %v, OnUnhandledTrigger called %v", effects, handled, err, asked)
	}
	equal(t, "snapshot", snapshotOf(t, instance), before)

	// OnUnhandledTrigger decides about a trigger that the machine itself fired.
	apply(t, instance, statechart.Event{Type: "NEXT"})
	equal(t, "OnUnhandledTrigger called", asked, true)
}

func TestADoneInstanceAcceptsNoEvents(t *testing.T) {
	t.Parallel()
	machine := newLedgers()
	started, _, err := machine.Start(statechart.Start{Instance: "ledger/x", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	instance := &live{started}
	apply(t, instance, statechart.Event{Type: "BOOK", Payload: entry{"x", 5}})
	effects := apply(t, instance, statechart.Event{Type: "CLOSE"})
	equal(t, "effects", len(effects), 0)
	const want = `{"machine":"ledger","version":1,"status":"done","value":"closed","context":{"owner":"x","trail":["book 5","exit"],"sum":5},"tags":[],"steps":3,"output":5}`
	equal(t, "snapshot", snapshotOf(t, instance), want)
	restored, err := machine.Restore([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	_, _, handled, err := restored.Apply(statechart.Event{Type: "BOOK", Payload: entry{"x", 5}})
	if handled || err != nil || restored.NextEvents() != nil || restored.Status() != statechart.Done {
		t.Errorf("handled %v, error %v, next %v, status %s", handled, err, restored.NextEvents(), restored.Status())
	}
	equal(t, "snapshot after it", snapshotOf(t, restored), want)
}

func TestBuildIsCalledForEachStep(t *testing.T) {
	t.Parallel()
	var only *stateless.StateMachine
	made := 0
	machine, err := statelesshost.New(statelesshost.Config[notes]{
		ID: "m", Version: 1, Initial: "a", States: states{settledState("a"), settledState("b")}, Events: events{"GO": {}, "NEXT": {}},
		Build: func(state stateless.State, _ *notes) *stateless.StateMachine {
			made++
			sm := stateless.NewStateMachineWithMode(state, stateless.FiringImmediate)
			sm.Configure("a").Permit("GO", "b").PermitReentry("NEXT").OnEntry(func(context.Context, ...any) error { return sm.Fire("GO") })
			sm.Configure("b").PermitReentry("NEXT").PermitReentry("GO")
			if made > 4 { // New calls Build three times, and the first step once.
				if only == nil {
					only = sm
				}
				return only
			}
			return sm
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	instance := start(t, machine)
	if _, _, _, err := instance.Apply(statechart.Event{Type: "NEXT", At: epoch}); err == nil || !strings.Contains(err.Error(), "during a transition") {
		t.Errorf("a trigger within a transition in FiringImmediate mode: %v", err)
	}
	made = 4
	apply(t, instance, statechart.Event{Type: "GO"})
	if _, _, _, err := instance.Apply(statechart.Event{Type: "NEXT", At: epoch}); err == nil || !strings.Contains(err.Error(), "Config.Build returned the same machine twice") {
		t.Errorf("the same machine twice: %v", err)
	}
}

func TestNextEventsExcludeEventsWithAFalseGuard(t *testing.T) {
	t.Parallel()
	sm := statelesshost.NewStateMachine()
	sm.Configure("a").
		Permit("YES", "b", func(ctx context.Context, _ ...any) bool { note(ctx, "asked"); return true }).
		Permit("NO", "b", func(context.Context, ...any) bool { return false }).
		Permit("LARGE", "b", func(_ context.Context, args ...any) bool { return args[0].(entry).N > 100 }).
		Permit("OWNED", "b", func(_ context.Context, args ...any) bool { return args[0].(entry).Owner == "" }).
		Permit("PICKY", "b", func(_ context.Context, args ...any) bool { return args[0].(string) == "x" }).
		Ignore("IGNORED")
	sm.Configure("b").Permit("ELSEWHERE", "a")
	payload := statechart.PayloadOf[entry]()
	machine, err := statelesshost.New(statelesshost.Config[notes]{
		ID: "m", Version: 1, Machine: sm, Initial: "a", States: states{settledState("a"), settledState("b")},
		Events: events{
			"yes": {Trigger: "YES"}, "NO": {}, "LARGE": {Payload: payload}, "OWNED": {Payload: payload}, "ELSEWHERE": {}, "IGNORED": {},
			"PICKY": {Payload: payload, Args: func(payload any) []any { return []any{payload.(entry).Owner[1:]} }},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	instance := start(t, machine)
	before := snapshotOf(t, instance)
	equal(t, "next events", instance.NextEvents(), []string{"IGNORED", "OWNED", "PICKY", "yes"})
	equal(t, "snapshot", snapshotOf(t, instance), before)
	equal(t, "events", machine.Events(), []string{"ELSEWHERE", "IGNORED", "LARGE", "NO", "OWNED", "PICKY", "yes"})
}

func TestAStatelessMachineHasNoServices(t *testing.T) {
	t.Parallel()
	instance := start(t, hostPhone())
	_, err := instance.Prepare(statechart.Invocation{ID: "mail"}, statechart.Call{})
	if instance.Invocations() != nil || !instance.Settled() || err == nil || !strings.Contains(err.Error(), `machine phone has no services, got asked for "mail"`) {
		t.Errorf("invocations %v, settled %v, error %v", instance.Invocations(), instance.Settled(), err)
	}
	equal(t, "snapshot", snapshotOf(t, instance.WithAttempt("1.0", 1, time.Time{})), snapshotOf(t, instance))
	machines, err := durable.NewMachines(hostPhone(), hostParcel())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "machines", slices.Sorted(slices.Values(machines.IDs())), []string{"parcel", "phone"})
}
