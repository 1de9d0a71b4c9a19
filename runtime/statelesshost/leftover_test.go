package statelesshost_test

import (
	"context"
	"encoding/json"
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
