package statelesshost_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statelesshost"
)

// reminders is a machine whose actions schedule events for their own instance.
func reminders() *statelesshost.Machine[struct{}] {
	later := func(id string, delay time.Duration) func(context.Context, ...any) error {
		return func(ctx context.Context, _ ...any) error { return statelesshost.SendAfter(ctx, id, "PING", delay, nil) }
	}
	m := statelesshost.NewStateMachine()
	m.Configure("outer")
	m.Configure("inner").SubstateOf("outer").
		InternalTransition("SEND", later("", time.Hour)).
		InternalTransition("BACK", later("", -time.Minute)).
		InternalTransition("FORGET", func(ctx context.Context, _ ...any) error { return statelesshost.Cancel(ctx, "") }).
		Permit("END", "over")
	m.Configure("over")
	settled := []string{statechart.Settled, "open"}
	return statelesshost.Must(statelesshost.Config[struct{}]{
		ID: "reminders", Version: 1, Machine: m, Initial: "inner",
		Events: map[string]statelesshost.Event{"SEND": {}, "BACK": {}, "FORGET": {}, "END": {}, "PING": {}},
		States: []statelesshost.State[struct{}]{
			{State: "outer", Tags: settled}, {State: "inner", Tags: settled},
			{State: "over", Final: true},
		},
	})
}

func TestScheduledEventsEndWithTheInstance(t *testing.T) {
	t.Parallel()
	instance := start(t, reminders())
	apply(t, instance, statechart.Event{Type: "SEND"})
	apply(t, instance, statechart.Event{Type: "FORGET"})
	if timers := instance.Timers(); len(timers) != 1 || !timers[0].At.Equal(epoch.Add(time.Hour)) {
		t.Fatalf("cancelling an empty ID: want the event still scheduled in an hour, got %+v", timers)
	}
	_, _, _, err := instance.Apply(statechart.Event{Type: "BACK", At: epoch})
	if err == nil || !strings.Contains(err.Error(), "expected a delay of at least 0, got -1m0s") {
		t.Errorf("a negative delay: got %v", err)
	}
	apply(t, instance, statechart.Event{Type: "END"})
	if timers := instance.Timers(); len(timers) != 0 {
		t.Errorf("at the end: want no timers, got %+v", timers)
	}
}

func TestATagOfAStateAndItsSuperstateIsShownOnce(t *testing.T) {
	t.Parallel()
	var form struct{ Tags []string }
	if err := json.Unmarshal([]byte(snapshotOf(t, start(t, reminders()))), &form); err != nil {
		t.Fatal(err)
	}
	if want := []string{"open", statechart.Settled}; !reflect.DeepEqual(form.Tags, want) {
		t.Errorf("want %v, got %v", want, form.Tags)
	}
}

type level int

type named int

func (n named) String() string { return []string{"low", "high"}[n] }

// Without String, states would be stored as "0" and "1". Inserting a state would then change their meaning.
func TestStatesThatAreNumbersNeedNames(t *testing.T) {
	t.Parallel()
	host := func(states ...statelesshost.State[struct{}]) error {
		m := statelesshost.NewStateMachine()
		for k := range states {
			states[k].Tags = []string{statechart.Settled}
			m.Configure(states[k].State)
		}
		_, err := statelesshost.New(statelesshost.Config[struct{}]{ID: "m", Version: 1, Machine: m, Initial: states[0].State, States: states})
		return err
	}
	const problem = " without a name, and stored instances would be in another state once the numbers change: give the type a method String, use states that are strings, or set Name"
	const want = "chart \"m\": 2 findings:\n  state \"1\" is a number of the type statelesshost_test.level" + problem + "\n  state \"2\" is a number of the type uint8" + problem
	if err := host(statelesshost.State[struct{}]{State: level(1)}, statelesshost.State[struct{}]{State: uint8(2)}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := host(statelesshost.State[struct{}]{State: named(1)}, statelesshost.State[struct{}]{State: level(1), Name: "one"}, statelesshost.State[struct{}]{State: "2"}); err != nil {
		t.Errorf("names: %v", err)
	}
}

// An action that leaves work to a goroutine calls these functions too late: their effects would be lost.
func TestCallsAfterTheStepFail(t *testing.T) {
	t.Parallel()
	var kept context.Context
	m := statelesshost.NewStateMachine()
	keep := func(fails error) func(context.Context, ...any) error {
		return func(ctx context.Context, _ ...any) error { kept = ctx; return fails }
	}
	m.Configure("a").InternalTransition("GO", keep(nil)).InternalTransition("FAIL", keep(errors.New("planned")))
	instance := start(t, statelesshost.Must(statelesshost.Config[struct{}]{
		ID: "m", Version: 1, Machine: m, Initial: "a", Events: map[string]statelesshost.Event{"GO": {}, "FAIL": {}},
		States: []statelesshost.State[struct{}]{{State: "a", Tags: []string{statechart.Settled}}},
	}))
	for _, typ := range []string{"GO", "FAIL"} {
		if _, _, _, err := instance.Apply(statechart.Event{Type: typ, At: epoch}); (err == nil) != (typ == "GO") {
			t.Fatal(err)
		}
		_, now := statelesshost.Now(kept)
		for name, err := range map[string]error{
			"Fire": statelesshost.Fire(kept, "GO"), "SendTo": statelesshost.SendTo(kept, "x/1", "HI", nil), "Log": statelesshost.Log(kept, "line"),
			"SendAfter": statelesshost.SendAfter(kept, "", "GO", time.Hour, nil), "Cancel": statelesshost.Cancel(kept, "x"), "Now": now,
			"Emit": statelesshost.Emit(kept, "HI", nil), "Resolve": statelesshost.Resolve(kept, statelesshost.Answer{Name: "n", Outcome: "o"}),
			"FireCtx": m.FireCtx(kept, "GO"),
		} {
			if err == nil || !strings.Contains(err.Error(), "expected a call during the step, got one after its end") {
				t.Errorf("%s after %s: got the error %v", name, typ, err)
			}
		}
		statelesshost.Data[struct{}](kept) // does not panic
	}
}
