package statelesshost_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statelesshost"
)

func TestANestedTransitionFailsTheStep(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(sm *stateless.StateMachine){
		"in an entry action": func(sm *stateless.StateMachine) {
			sm.Configure("b").OnEntry(func(ctx context.Context, _ ...any) error { return sm.FireCtx(ctx, "ON") })
		},
		"in an entry action that ignores the error": func(sm *stateless.StateMachine) {
			sm.Configure("b").OnEntry(func(ctx context.Context, _ ...any) error { _ = sm.FireCtx(ctx, "ON"); return nil })
		},
		"in an exit action": func(sm *stateless.StateMachine) {
			sm.Configure("a").OnExit(func(ctx context.Context, _ ...any) error { return sm.FireCtx(ctx, "ASIDE") })
		},
		"in a callback of the machine": func(sm *stateless.StateMachine) {
			sm.OnTransitioned(func(ctx context.Context, tr stateless.Transition) {
				if tr.Destination == "b" {
					_ = sm.FireCtx(ctx, "ON")
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sm := statelesshost.NewStateMachine()
			sm.Configure("a").Permit("GO", "b").Permit("ASIDE", "c")
			sm.Configure("b").Permit("ON", "c")
			configure(sm)
			instance := start(t, host(t, sm, states{settledState("a"), settledState("b"), settledState("c")}))
			_, _, handled, err := instance.Apply(statechart.Event{Type: "GO", At: epoch})
			const want = `chart m, state "a", event "GO": trigger GO: a trigger was fired during a transition: fire it with statelesshost.Fire, ` +
				"which waits until the transition ends (a machine from Config.Build may also use FiringQueued mode)"
			if handled || err == nil || err.Error() != want {
				t.Errorf("handled %v, error %v", handled, err)
			}
			equal(t, "state", instance.State(), []string{"a"})
		})
	}
}

// The inner transition enters the substate b. The outer transition is a reentry of the superstate a. The host observes
// the inner one first. This order does not reveal the error, because a reentry can also begin in b.
func TestATransitionDuringAReentryFailsTheStep(t *testing.T) {
	t.Parallel()
	sm := statelesshost.NewStateMachine()
	sm.Configure("a").PermitReentry("GO").Permit("IN", "b").
		OnEntry(func(ctx context.Context, _ ...any) error { return sm.FireCtx(ctx, "IN") })
	sm.Configure("b").SubstateOf("a")
	instance := start(t, host(t, sm, states{settledState("a"), settledState("b")}))
	_, _, handled, err := instance.Apply(statechart.Event{Type: "GO", At: epoch})
	if handled || err == nil || !strings.Contains(err.Error(), "during a transition") {
		t.Errorf("handled %v, error %v", handled, err)
	}
}

func TestAFailedStepChangesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act  do
		want string
	}{
		"an error":             {func(context.Context, ...any) error { return errors.New("no") }, `chart m, state "a", event "GO": trigger GO: no`},
		"a panic":              {func(context.Context, ...any) error { panic("oh") }, `chart m, state "a", event "GO": trigger GO: panic: a value of the type string`},
		"an error later":       {func(ctx context.Context, _ ...any) error { return statelesshost.Fire(ctx, "FAIL") }, `chart m, state "b", event "GO": trigger FAIL: too late`},
		"an unhandled trigger": {func(ctx context.Context, _ ...any) error { return statelesshost.Fire(ctx, "GHOST") }, `chart m, state "b", event "GO": trigger GHOST: stateless: No valid leaving transitions are permitted from state 'b' for trigger 'GHOST', consider ignoring the trigger`},
		"an unsettled state":   {func(ctx context.Context, _ ...any) error { return statelesshost.Fire(ctx, "ON") }, `the chart is stalled: machine m would be in c after event "GO", which is not settled, with no trigger left to fire`},
		"a state not listed":   {func(ctx context.Context, _ ...any) error { return statelesshost.Fire(ctx, "AWAY") }, `chart m, state "b", event "GO": trigger AWAY: the machine is in the state away, which Config.States does not list: every state is stored and shown under its name`},
		"an invalid instance":  {func(ctx context.Context, _ ...any) error { return statelesshost.SendTo(ctx, "nobody", "E", nil) }, `chart m, state "a", event "GO": trigger GO: not the name of an instance: expected machine/id such as signup/42, got "nobody"`},
		"an event too large": {func(ctx context.Context, _ ...any) error {
			return statelesshost.Emit(ctx, "E", map[string]string{"x": strings.Repeat("x", instances.EventBytesMax)})
		}, `chart m, state "a", event "GO": trigger GO: event "E" has 262163 bytes, the limit is 262144 (instances.EventBytesMax)`},
		"too many effects": {func(ctx context.Context, _ ...any) (err error) {
			for range statechart.EffectsMax + 1 {
				err = errors.Join(err, statelesshost.Log(ctx, "line"))
			}
			return err
		}, `chart m, state "a", event "GO": trigger GO: limit exceeded: more than 256 effects in one macrostep (EffectsMax)`},
		"an undeclared event": {func(ctx context.Context, _ ...any) error {
			return statelesshost.SendAfter(ctx, "", "GHOST", time.Minute, nil)
		}, `chart m, state "a", event "GO": trigger GO: sending event "GHOST": undeclared event type: chart m has no event "GHOST"; it declares GO, NEXT`},
		"an answer of neither kind": {func(ctx context.Context, _ ...any) error {
			return statelesshost.Resolve(ctx, statelesshost.Answer{Name: "n"})
		}, `chart m, state "a", event "GO": trigger GO: answering "n": expected an outcome or an error, got neither`},
		"data of another type": {func(ctx context.Context, _ ...any) error {
			statelesshost.Data[ledger](ctx)
			return nil
		}, `chart m, state "a", event "GO": trigger GO: expected the data of the machine, a *statelesshost_test.notes, got asked for a *statelesshost_test.ledger`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sm := statelesshost.NewStateMachine()
			sm.Configure("a").Permit("GO", "b").InternalTransition("NEXT", func(ctx context.Context, _ ...any) error {
				note(ctx, "before")
				return statelesshost.SendAfter(ctx, "later", "GO", time.Hour, nil)
			}).OnExit(func(ctx context.Context, _ ...any) error {
				note(ctx, "before")
				statelesshost.Data[notes](ctx).Lines[0] = "changed"
				return errors.Join(statelesshost.Cancel(ctx, "later"), statelesshost.SendTo(ctx, "other/1", "E", nil))
			})
			sm.Configure("b").OnEntry(c.act).Permit("ON", "c").
				PermitDynamic("AWAY", func(context.Context, ...any) (stateless.State, error) { return "away", nil }).
				InternalTransition("FAIL", func(context.Context, ...any) error { return errors.New("too late") })
			instance := start(t, host(t, sm, states{settledState("a"), settledState("b"), {State: "c"}}))
			apply(t, instance, statechart.Event{Type: "NEXT"})
			before := snapshotOf(t, instance)
			_, effects, handled, err := instance.Apply(statechart.Event{Type: "GO", At: epoch})
			if got, _, _ := strings.Cut(fmt.Sprint(err), "\n"); got != c.want {
				t.Errorf("error:\n got %v\nwant %v", got, c.want)
			}
			if handled || effects != nil {
				t.Errorf("handled %v, effects %v", handled, effects)
			}
			equal(t, "snapshot", snapshotOf(t, instance), before)
			var failed *statechart.StepError
			if !errors.As(err, &failed) && !errors.Is(err, statechart.ErrStalled) {
				t.Errorf("the loop would count %v as its own error", err)
			}
			var panicked *statechart.PanicError
			if errors.As(err, &panicked) != strings.Contains(c.want, "panic: ") || panicked != nil && len(panicked.Stack) == 0 {
				t.Errorf("the panic %+v of %v", panicked, err)
			}
		})
	}
}

func TestAnEndlessStepFails(t *testing.T) {
	t.Parallel()
	const want = `the macrostep does not end: machine m took more than 1000 transitions on event "GO" (MicrostepsMax); check what its actions fire`
	sm := statelesshost.NewStateMachine()
	again := func(ctx context.Context, _ ...any) error { return statelesshost.Fire(ctx, "GO") }
	sm.Configure("a").InternalTransition("GO", again)
	shared := host(t, sm, states{settledState("a")})

	queued, err := statelesshost.New(statelesshost.Config[notes]{
		ID: "m", Version: 1, Initial: "a", States: states{settledState("a"), settledState("b")}, Events: events{"GO": {}},
		Build: func(state stateless.State, _ *notes) *stateless.StateMachine {
			sm := stateless.NewStateMachine(state)
			again := func(ctx context.Context, _ ...any) error { return sm.FireCtx(ctx, "GO") }
			sm.Configure("a").Permit("GO", "b").OnEntry(again)
			sm.Configure("b").Permit("GO", "a").OnEntry(again)
			return sm
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, machine := range map[string]durable.Machine{"the instance's queue": shared, "the machine's queue": queued} {
		instance := start(t, machine)
		_, _, _, err := instance.Apply(statechart.Event{Type: "GO", At: epoch})
		if !errors.Is(err, statechart.ErrEndless) || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
		equal(t, name, instance.State(), []string{"a"})
	}
}

// TestTheTransitionLimitIsExact takes MicrostepsMax transitions, and one more.
func TestTheTransitionLimitIsExact(t *testing.T) {
	t.Parallel()
	// `fired` counts the actions that have run. Each action fires GO again until `fired` reaches firedMax.
	fired, firedMax := 0, 0
	again := func(fire func() error) error {
		if fired++; fired < firedMax {
			return fire()
		}
		return nil
	}
	sm := statelesshost.NewStateMachine()
	sm.Configure("a").InternalTransition("GO", func(ctx context.Context, _ ...any) error {
		return again(func() error { return statelesshost.Fire(ctx, "GO") })
	})
	shared := host(t, sm, states{settledState("a")})
	queued, err := statelesshost.New(statelesshost.Config[notes]{
		ID: "m", Version: 1, Initial: "a", States: states{settledState("a")}, Events: events{"GO": {}},
		Build: func(state stateless.State, _ *notes) *stateless.StateMachine {
			sm := stateless.NewStateMachine(state)
			sm.Configure("a").PermitReentry("GO").OnEntry(func(ctx context.Context, _ ...any) error {
				return again(func() error { return sm.FireCtx(ctx, "GO") })
			})
			return sm
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, machine := range map[string]durable.Machine{"the instance's queue": shared, "the machine's queue": queued} {
		instance := start(t, machine)
		fired, firedMax = 0, statechart.MicrostepsMax
		apply(t, instance, statechart.Event{Type: "GO"})
		equal(t, name+", at the limit", fired, statechart.MicrostepsMax)
		fired, firedMax = 0, 10*statechart.MicrostepsMax
		if _, _, _, err := instance.Apply(statechart.Event{Type: "GO", At: epoch}); !errors.Is(err, statechart.ErrEndless) || fired > statechart.MicrostepsMax+1 {
			t.Errorf("%s, beyond the limit: %d transitions and %v", name, fired, err)
		}
	}
}
