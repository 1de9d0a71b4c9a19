package statelesshost_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statelesshost"
)

// newNested returns a machine with a superstate, its initial substate, timers on both, and every kind of transition.
func newNested(t *testing.T) durable.Machine {
	t.Helper()
	sm := statelesshost.NewStateMachine()
	sm.Configure("a").Permit("GO", "outer")
	sm.Configure("outer").InitialTransition("inner").PermitReentry("AGAIN").
		PermitDynamic("JUMP", func(context.Context, ...any) (stateless.State, error) { return "a", nil })
	sm.Configure("inner").SubstateOf("outer").Permit("NEXT", "other").PermitReentry("SELF")
	sm.Configure("other").SubstateOf("outer").Ignore("GO")
	settled := []string{statechart.Settled}
	timer := func(d time.Duration) []statelesshost.After {
		return []statelesshost.After{{Delay: d, Trigger: "NEXT"}}
	}
	machine, err := statelesshost.New(statelesshost.Config[notes]{
		ID: "m", Version: 1, Machine: sm, Initial: "a",
		States: states{
			{State: "inner", Tags: []string{"innermost", statechart.Settled}, After: timer(time.Minute)},
			{State: "outer", Tags: []string{"whole"}, After: timer(time.Hour)},
			{State: "other", Tags: settled}, {State: "a", Tags: settled},
		},
		Events: events{"GO": {}, "NEXT": {}, "AGAIN": {}, "SELF": {}, "JUMP": {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

func timersOf(instance durable.Instance) string {
	var all []string
	for _, timer := range instance.Timers() {
		all = append(all, timer.ID+" "+timer.State+" "+timer.After+" "+timer.At.Format("15:04:05"))
	}
	return strings.Join(all, ", ")
}

func TestTimersEndWithTheirState(t *testing.T) {
	t.Parallel()
	machine := newNested(t)
	instance := start(t, machine)
	for _, c := range []struct{ event, state, timers, effects string }{
		{"GO", "inner", "2.0 outer 1h0m0s 10:00:00, 2.1 inner 1m0s 09:01:00", "2.0 schedule 10:00:00\n2.1 schedule 09:01:00"},
		{"SELF", "inner", "2.0 outer 1h0m0s 10:00:00, 3.0 inner 1m0s 09:01:01", "3.0 schedule 09:01:01"},
		{"AGAIN", "inner", "4.0 outer 1h0m0s 10:00:02, 4.1 inner 1m0s 09:01:02", "4.0 schedule 10:00:02\n4.1 schedule 09:01:02"},
		{"NEXT", "other", "4.0 outer 1h0m0s 10:00:02", ""},
		{"GO", "other", "4.0 outer 1h0m0s 10:00:02", ""},
		{"JUMP", "a", "", ""},
	} {
		event := statechart.Event{Type: c.event, At: epoch}
		if steps := strings.Count("SELF AGAIN", c.event); steps > 0 {
			event.At = epoch.Add(map[string]time.Duration{"SELF": time.Second, "AGAIN": 2 * time.Second}[c.event])
		}
		effects := apply(t, instance, event)
		equal(t, "state after "+c.event, instance.State(), []string{c.state})
		equal(t, "timers after "+c.event, timersOf(instance), c.timers)
		equal(t, "effects of "+c.event, effectLines(effects), c.effects)
		restored, err := machine.Restore([]byte(snapshotOf(t, instance)))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "timers restored after "+c.event, timersOf(restored), c.timers)
		instance = &live{restored}
	}
}

func TestATimerFiresOnceAndAStaleTimerNever(t *testing.T) {
	t.Parallel()
	instance := start(t, newNested(t))
	apply(t, instance, statechart.Event{Type: "GO"})
	fire := func(id string) (handled bool) {
		t.Helper()
		next, _, handled, err := instance.Apply(statechart.Event{Type: statechart.TimerEvent, Timer: id, At: epoch.Add(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		instance.Instance = next
		return handled
	}
	equal(t, "the timer is handled", fire("2.1"), true)
	equal(t, "state", instance.State(), []string{"other"})
	equal(t, "a second firing is handled", fire("2.1"), false)
	// The other timer is still active, but no state handles its trigger now. It fires anyway and ends.
	equal(t, "the superstate's timer is handled", fire("2.0"), true)
	equal(t, "state", instance.State(), []string{"other"})
	equal(t, "timers", timersOf(instance), "")
}

func TestScheduledEventsArriveUnlessTheyAreCancelled(t *testing.T) {
	t.Parallel()
	sm := statelesshost.NewStateMachine()
	sm.Configure("a").
		InternalTransition("GO", func(ctx context.Context, _ ...any) error {
			now, err := statelesshost.Now(ctx)
			return errors.Join(err,
				statelesshost.SendAfter(ctx, "first", "BOOK", time.Minute, entry{Owner: now.Format("15:04"), N: 1}),
				statelesshost.SendAfter(ctx, "second", "BOOK", time.Hour, entry{Owner: "o", N: 2}),
				statelesshost.SendAfter(ctx, "third", "BOOK", time.Hour, entry{Owner: "o", N: 3}),
				statelesshost.Cancel(ctx, "third"), statelesshost.Cancel(ctx, ""),
				statelesshost.Emit(ctx, "SHOWN", nil), statelesshost.Log(ctx, "a line"))
		}).
		InternalTransition("BOOK", func(ctx context.Context, args ...any) error {
			note(ctx, args[0].(entry).Owner)
			return statelesshost.Cancel(ctx, "second")
		})
	machine, err := statelesshost.New(statelesshost.Config[notes]{
		ID: "m", Version: 1, Machine: sm, Initial: "a", States: states{settledState("a")},
		Events: events{"GO": {}, "BOOK": {Payload: statechart.PayloadOf[entry]()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	instance := start(t, machine)
	effects := apply(t, instance, statechart.Event{Type: "GO"})
	equal(t, "effects", effectLines(effects), "2.0 schedule 09:01:00\n2.1 schedule 10:00:00\n2.3 emit {\"type\":\"SHOWN\"}\n2.4 log a line")
	restored, err := machine.Restore([]byte(snapshotOf(t, instance)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "timers", restored.Timers(), instance.Timers())
	again := &live{restored}
	apply(t, again, statechart.Event{Type: statechart.TimerEvent, Timer: "2.0", At: epoch.Add(time.Minute)})
	equal(t, "notes", lines(t, again), "09:00")
	equal(t, "timers", timersOf(again), "")
}

// newAnswering returns a machine with answers in its states and in an action.
func newAnswering(t *testing.T) durable.Machine {
	t.Helper()
	sm := statelesshost.NewStateMachine()
	sm.Configure("a").Permit("GO", "b").InternalTransition("NEXT", func(ctx context.Context, _ ...any) error {
		return statelesshost.Resolve(ctx, statelesshost.Answer{Name: "audit", Outcome: "noted", Output: entry{N: 1}})
	})
	sm.Configure("b").OnEntry(noting("entered")).Permit("NEXT", "c")
	sm.Configure("c")
	machine, err := statelesshost.New(statelesshost.Config[notes]{
		ID: "m", Version: 1, Machine: sm, Initial: "a", Events: events{"GO": {}, "NEXT": {}},
		States: states{
			settledState("a"),
			{State: "b", Tags: []string{"t", statechart.Settled}, Resolve: []statechart.Resolution[notes]{
				{Name: "packing", Output: func(n notes, _ statechart.Event) any { return n.Lines }}}},
			{State: "c", Final: true, Resolve: []statechart.Resolution[notes]{
				{Name: "packing", Error: "Order.Lost", Cause: func(_ notes, e statechart.Event) string { return "lost on " + e.Type }},
				{Name: "broken", Output: func(notes, statechart.Event) any { return func() {} }},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

func TestStatesAndActionsAnswerWaitingTasks(t *testing.T) {
	t.Parallel()
	instance := start(t, newAnswering(t))
	if _, ok, err := instance.Resolving("packing", statechart.Event{}); ok || err != nil {
		t.Errorf("want no answer yet, got %v, %v", ok, err)
	}
	equal(t, "an action's", effectLines(apply(t, instance, statechart.Event{Type: "NEXT"})),
		`2.0 resolve audit {"owner":"","n":1} outcome=noted state=[a] tags=[settled]`)
	equal(t, "a state's", effectLines(apply(t, instance, statechart.Event{Type: "GO"})),
		`3.0 resolve packing ["entered"] outcome=b state=[b] tags=[settled t]`)
	late, ok, err := instance.Resolving("packing", statechart.Event{Type: "GO"})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	equal(t, "a late task", effectLine(late), ` resolve packing ["entered"] outcome=b state=[b] tags=[settled t]`)

	before := snapshotOf(t, instance)
	_, _, _, err = instance.Apply(statechart.Event{Type: "NEXT", At: epoch})
	if err == nil || !strings.Contains(err.Error(), `answering "broken": encoding the output: json: unsupported type: func()`) {
		t.Errorf("an answer without a JSON form: got %v", err)
	}
	equal(t, "snapshot", snapshotOf(t, instance), before)

	done, err := newAnswering(t).Restore([]byte(`{"machine":"m","version":1,"status":"done","value":"c","context":{},"tags":[],"steps":4}`))
	if err != nil {
		t.Fatal(err)
	}
	late, ok, err = done.Resolving("packing", statechart.Event{Type: "LATE"})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	equal(t, "a task after the end", effectLine(late), " resolve packing error=Order.Lost cause=lost on LATE state=[c] tags=[]")
	var failed *statechart.StepError
	if _, ok, err = done.Resolving("broken", statechart.Event{Type: "LATE"}); ok || !errors.As(err, &failed) || failed.Code != "trigger resolve broken" {
		t.Errorf("an answer without a JSON form: got %v, %v", ok, err)
	}
}

func TestRestoreRefusesInvalidSnapshots(t *testing.T) {
	t.Parallel()
	machine := newNested(t)
	const rest = `"context":{},"tags":["settled"],"steps":2}`
	for snapshot, want := range map[string]string{
		`{`: "unexpected end of JSON input",
		`{"machine":"m","version":2,"status":"active","value":"a",` + rest:                                                                `expected version 1 of machine "m", got version 2 of "m"`,
		`{"machine":"m","version":1,"status":"active","value":"gone",` + rest:                                                             `this version has no state "gone"; host the old version too`,
		`{"machine":"m","version":1,"status":"active","value":{"a":"b"},` + rest:                                                          `expected a string under "value", got an object; repair it, or restore it from a backup`,
		`{"machine":"m","version":1,"status":"active","value":"outer",` + rest:                                                            `the state "outer" is not settled in this version; host the old version too`,
		`{"machine":"m","version":1,"status":"done","value":"a",` + rest:                                                                  `the status "done" does not fit the state "a" and its 0 timers`,
		`{"machine":"m","version":1,"status":"active","value":"a","context":{},"tags":[],"steps":0}`:                                      `expected a step count of at least 1, got 0`,
		`{"machine":"m","version":1,"status":"active","value":"a","timers":{"2.0":{"state":"inner","after":"1m0s"}},` + rest:              `timer 2.0 belongs to "inner" after "1m0s", which is not a timer of an active state in this version`,
		`{"machine":"m","version":1,"status":"active","value":"inner","timers":{"2.0":{"state":"inner","after":"5m0s"}},` + rest:          `timer 2.0 belongs to "inner" after "5m0s", which is not a timer of an active state in this version`,
		`{"machine":"m","version":1,"status":"active","value":"inner","timers":{"3.0":{"state":"inner","after":"1m0s"}},` + rest:          `expected the ID of a timer that one of 2 steps derived, such as 1.0, got "3.0"`,
		`{"machine":"m","version":1,"status":"active","value":"a","timers":{"2.0":{"state":"","after":"X","event":{"type":"X"}}},` + rest: `timer 2.0: this version cannot decode its event "X"`,
		`{"machine":"m","version":1,"status":"active","value":"a","later":1,"context":{"lines":[],"coupon":1},"tags":[],"steps":2}`:       `context: unknown key "coupon"; deploy the build that stores this key, or add the key to the type of the data`,
		`{"machine":"m","version":1,"status":"active","value":"a","context":{"lines":1},"tags":[],"steps":2}`:                             `expected an array under "context.lines", got a number; repair it, or restore it from a backup`,
	} {
		if restored, err := machine.Restore([]byte(snapshot)); !errors.Is(err, statechart.ErrUnreadable) || !strings.Contains(err.Error(), want) || restored != nil {
			t.Errorf("%s:\n got %v\nwant %s", snapshot, err, want)
		}
	}
}

func TestNewReportsAllFindings(t *testing.T) {
	t.Parallel()
	type hidden struct{ secret int }
	_ = hidden{secret: 1}
	_, err := statelesshost.New(statelesshost.Config[hidden]{
		ID: "a/b", Initial: "a", StartedBy: []string{"GHOST"},
		States: []statelesshost.State[hidden]{
			{State: "a"}, {State: "a"}, {State: "b", Name: "x.y", Output: func(hidden) any { return nil }},
			{State: "c", Final: true, Tags: []string{statechart.Settled}},
			{State: "d", Final: true, After: []statelesshost.After{{ID: "t", Trigger: "T"}, {ID: "t", Delay: -1}}},
			{State: "e", Resolve: []statechart.Resolution[hidden]{{}}},
		},
		Events: map[string]statelesshost.Event{"settle.x": {}, "IN": {Payload: statechart.Internal()}},
	})
	const want = `chart "a/b": 17 findings:
  the chart declares the event "IN" as internal: fire its trigger with Fire, which needs no declaration
  the chart is started by "GHOST", which is not in Events: declare it, or remove it from StartedBy
  the chart has the ID "a/b": use ASCII letters, digits, '-' and '_'
  the chart has the version 0: count versions from 1
  the chart declares the event type "settle.x": use a name without '*' and spaces that does not begin with settle., done.state., done.invoke., error.invoke., done.child., error.child., error.execution
  the chart has a context whose field statelesshost_test.hidden.secret is not stored: export it with a unique JSON name, or add MarshalJSON and UnmarshalJSON to statelesshost_test.hidden
`
	if err == nil || !strings.HasPrefix(err.Error(), strings.Replace(want, "17", strings.Fields(err.Error())[2], 1)) {
		t.Errorf("got %v", err)
	}
	for _, finding := range []string{
		`state "a" is listed twice: list it once`,
		`state "a" is listed twice, or has the same name as another state: list it once, or set Name`,
		`state "x.y" has an invalid name: set Name to one without '.', '#', '/' and spaces`,
		`state "x.y" has an Output but is not final: set Final, or remove Output`,
		`state "c" is final and settled: remove one of the two: an instance that has ended waits for nothing`,
		`state "d" is final and has timers: remove After`,
		`state "d" has the timer "t" without a trigger or with a negative delay: set Trigger, and a Delay of at least 0`,
		`state "d" has two timers "t": change the ID of one`,
		`state "e" answers "" without a name, with a cause but no error, or with an output beside an error: set Name, and either Output or Error and Cause`,
		`state "a" is the initial state but not settled, so no event could reach it: tag it statechart.Settled`,
		`the chart has both Machine and Build, or neither: set one of them`,
	} {
		if err != nil && !strings.Contains(err.Error(), finding) {
			t.Errorf("expected the finding\n%s\nin %v", finding, err)
		}
	}
}

func TestNewChecksTheMachinesStates(t *testing.T) {
	t.Parallel()
	config := statelesshost.Config[notes]{ID: "m", Version: 1, Initial: "a", States: states{settledState("a"), settledState("b")}, Events: events{"GO": {}}}
	for want, change := range map[string]func(*statelesshost.Config[notes]){
		"cannot report its state: expected the state a, got z": func(c *statelesshost.Config[notes]) { c.Machine = stateless.NewStateMachine("z") },
		`state "b" cannot be checked: panic: no b`: func(c *statelesshost.Config[notes]) {
			c.Build = func(state stateless.State, _ *notes) *stateless.StateMachine {
				if state == "b" {
					panic("no b")
				}
				return stateless.NewStateMachine(state)
			}
		},
		"has a machine with the state c, which States does not list": func(c *statelesshost.Config[notes]) {
			c.Machine = statelesshost.NewStateMachine()
			c.Machine.Configure("a").Permit("GO", "c")
		},
		"has the initial state z, which is not in States": func(c *statelesshost.Config[notes]) {
			c.Machine, c.Initial = statelesshost.NewStateMachine(), "z"
		},
	} {
		c := config
		change(&c)
		if _, err := statelesshost.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAMachineDescribesItsStates(t *testing.T) {
	t.Parallel()
	machine := newNested(t)
	d := machine.Describe()
	equal(t, "states", d.States, []statechart.StateInfo{
		{}, {Path: "inner", Settled: true, Atomic: true}, {Path: "outer"}, {Path: "other", Settled: true, Atomic: true}, {Path: "a", Settled: true, Atomic: true},
	})
	equal(t, "tags", d.Tags, []string{"innermost", "settled", "whole"})
	equal(t, "events with payloads", len(d.Payloads), len(machine.Events()))
	added, ok := strings.CutPrefix(machine.Mermaid("inner"), machine.Mermaid())
	equal(t, "mark of the current state", ok && strings.HasSuffix(added, "  class inner_ current\n"), true)
}

func TestTheDiagramShowsStatesTransitionsAndTimers(t *testing.T) {
	t.Parallel()
	equal(t, "diagram", newNested(t).Mermaid(), `stateDiagram-v2
  state "outer" as outer_
  state outer_ {
    state "inner" as inner_
    note right of inner_ : after 1m0s, NEXT
    state "other" as other_
    [*] --> inner_
  }
  note right of outer_ : after 1h0m0s, NEXT
  state "a" as a_
  [*] --> a_
  inner_ --> inner_ : SELF (reentry)
  inner_ --> other_ : NEXT
  outer_ --> outer_ : AGAIN (reentry)
  a_ --> outer_ : GO
  classDef settled fill:#e6f4ea,stroke:#137333
  class inner_,other_,a_ settled
`)
	equal(t, "diagram of numbers and of guards", hostParcel().Mermaid(), `stateDiagram-v2
  state "packed" as packed_
  state "underway" as underway_
  state "refused" as refused_
  state "returned" as returned_
  returned_ --> [*]
  state "delivered" as delivered_
  delivered_ --> [*]
  [*] --> packed_
  packed_ --> underway_ : SCAN
  underway_ --> underway_ : SCAN (internal)
  underway_ --> refused_ : HAND_OVER [guard]
  underway_ --> delivered_ : HAND_OVER [guard]
  refused_ --> underway_ : SCAN
  refused_ --> returned_ : 2
  classDef settled fill:#e6f4ea,stroke:#137333
  class packed_,underway_,refused_ settled
`)
	sm := statelesshost.NewStateMachine()
	sm.Configure("on <&> hold; 1").Permit(`a "b" -> c`, "z", isOpen)
	machine, err := statelesshost.New(statelesshost.Config[notes]{
		ID: "m", Version: 1, Machine: sm, Initial: "z",
		States: states{{State: "on <&> hold; 1", Name: `on-"hold"`}, settledState("z")},
		Events: events{"GO": {Trigger: `a "b" -> c`}},
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "diagram of odd names", machine.Mermaid(), `stateDiagram-v2
  state "on-#quot;hold#quot;" as _0
  state "z" as z_
  [*] --> z_
  _0 --> z_ : GO [isOpen]
  classDef settled fill:#e6f4ea,stroke:#137333
  class z_ settled
`)
}

func isOpen(context.Context, ...any) bool { return true }
