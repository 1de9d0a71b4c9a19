package statelesshost_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statelesshost"
)

// ledger is the data of an instance. It names the owner.
type ledger struct {
	Owner string   `json:"owner"`
	Trail []string `json:"trail,omitempty"`
	Sum   int      `json:"sum"`
}

// entry is the payload of an event. It names the owner too, so that an action can detect another instance's data.
type entry struct {
	Owner string `json:"owner"`
	N     int    `json:"n"`
}

var errCrossTalk = errors.New("an action received another instance's data")

// newLedgers returns a machine whose actions yield the processor, fire triggers, fail and panic.
func newLedgers() *statelesshost.Machine[ledger] {
	sm := statelesshost.NewStateMachine()
	note := func(ctx context.Context, text string) *ledger {
		l := statelesshost.Data[ledger](ctx)
		l.Trail = append(l.Trail, text)
		runtime.Gosched()
		return l
	}
	sm.Configure("open").Permit("BOOK", "booking").Permit("CLOSE", "closed").
		InternalTransition("LOOK", func(ctx context.Context, args ...any) error { note(ctx, "look"); return nil })
	sm.Configure("booking").SubstateOf("busy").
		OnEntryFrom("BOOK", func(ctx context.Context, args ...any) error {
			e := args[0].(entry)
			l := note(ctx, fmt.Sprint("book ", e.N))
			if l.Owner != e.Owner {
				return errCrossTalk
			}
			l.Sum += e.N
			switch {
			case e.N%7 == 0:
				return fmt.Errorf("%s refuses %d", l.Owner, e.N)
			case e.N%11 == 0:
				panic(l.Owner + " panics")
			}
			if err := statelesshost.SendTo(ctx, "audit/"+l.Owner, "BOOKED", e); err != nil {
				return err
			}
			if e.N%2 == 0 {
				if err := statelesshost.Fire(ctx, "HALVE", e.Owner); err != nil {
					return err
				}
			}
			return statelesshost.Fire(ctx, "REST", e.Owner)
		}).
		InternalTransition("HALVE", func(ctx context.Context, args ...any) error {
			l := note(ctx, "halve")
			if l.Owner != args[0] {
				return errCrossTalk
			}
			l.Sum /= 2
			return nil
		}).
		Permit("REST", "open")
	sm.Configure("busy").OnExit(func(ctx context.Context, args ...any) error {
		if l := note(ctx, "exit"); l.Owner != args[0] {
			return errCrossTalk
		}
		return nil
	})
	settled := []string{statechart.Settled}
	return statelesshost.Must(statelesshost.Config[ledger]{
		ID: "ledger", Version: 1, Machine: sm, Initial: "open",
		Data: func(s statechart.Start) ledger { return ledger{Owner: strings.TrimPrefix(s.Instance, "ledger/")} },
		States: []statelesshost.State[ledger]{
			{State: "open", Tags: settled, After: []statelesshost.After{{ID: "idle", Delay: time.Hour, Trigger: "CLOSE"}}},
			{State: "busy"}, {State: "booking"},
			{State: "closed", Final: true, Output: func(l ledger) any { return l.Sum }},
		},
		Events: map[string]statelesshost.Event{
			"BOOK": {Payload: statechart.PayloadOf[entry]()}, "LOOK": {}, "CLOSE": {}, "HALVE": {}, "REST": {},
		},
	})
}

// model is the expected state of a ledger, computed without the machine.
type model struct {
	ledger
	steps int
}

// TestInstancesOnASharedMachineAreIsolated runs 20,000 instances on one machine. Many goroutines each step their
// instances in turn, and restore them from JSON before each event.
func TestInstancesOnASharedMachineAreIsolated(t *testing.T) {
	t.Parallel()
	const instances, workers, events = 20000, 50, 3
	machine := newLedgers()
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			if err := playLedgers(machine, w*instances/workers, instances/workers, events); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// playLedgers steps `count` instances in turn. Their numbers begin with `first`.
func playLedgers(machine durable.Machine, first, count, events int) error {
	stored := make([][]byte, count)
	models := make([]model, count)
	for k := range count {
		models[k] = model{ledger: ledger{Owner: fmt.Sprint(first + k)}, steps: 1}
		instance, _, err := machine.Start(statechart.Start{Instance: "ledger/" + models[k].Owner, At: epoch})
		if err != nil {
			return err
		}
		if stored[k], err = instance.Snapshot(); err != nil {
			return err
		}
	}
	for n := range events {
		for k := range count {
			next, err := models[k].book(machine, stored[k], (first+k)*events+n)
			if err != nil {
				return fmt.Errorf("instance %d, event %d: %w", first+k, n, err)
			}
			stored[k] = next
		}
	}
	return nil
}

// book sends one BOOK to a stored instance, and checks the result.
func (m *model) book(machine durable.Machine, stored []byte, n int) ([]byte, error) {
	instance, err := machine.Restore(stored)
	if err != nil {
		return nil, err
	}
	stepped, effects, handled, err := instance.Apply(statechart.Event{Type: "BOOK", At: epoch, Payload: entry{m.Owner, n}})
	instance = stepped
	wantErr, wantEffects := "", ""
	const head = `chart ledger, state "open", event "BOOK": trigger BOOK: `
	switch {
	case n%7 == 0:
		wantErr = head + fmt.Sprintf("%s refuses %d", m.Owner, n)
	case n%11 == 0:
		wantErr = head + "panic: a value of the type string"
	default:
		m.Sum += n
		m.Trail = append(m.Trail, fmt.Sprint("book ", n))
		if n%2 == 0 {
			m.Sum /= 2
			m.Trail = append(m.Trail, "halve")
		}
		m.Trail = append(m.Trail, "exit")
		m.steps++
		wantEffects = fmt.Sprintf("%d.0 send to audit/%s {\"n\":%d,\"owner\":%q,\"type\":\"BOOKED\"}\n%d.1 schedule 10:00:00", m.steps, m.Owner, n, m.Owner, m.steps)
	}
	if got := fmt.Sprint(err); wantErr != "" && got != wantErr || wantErr == "" && err != nil {
		return nil, fmt.Errorf("error:\n got %s\nwant %s", got, wantErr)
	}
	if handled != (wantErr == "") || effectLines(effects) != wantEffects {
		return nil, fmt.Errorf("handled %v, effects:\n%s\nwant:\n%s", handled, effectLines(effects), wantEffects)
	}
	next, err := instance.Snapshot()
	if err != nil {
		return nil, err
	}
	timer := fmt.Sprintf("%d.1", m.steps)
	if m.steps == 1 {
		timer = "1.0"
	}
	trail := ""
	if len(m.Trail) > 0 {
		trail = `,"trail":["` + strings.Join(m.Trail, `","`) + `"]`
	}
	want := fmt.Sprintf(`{"machine":"ledger","version":1,"status":"active","value":"open","context":{"owner":%q%s,"sum":%d},"tags":["settled"],`+
		`"timers":{%q:{"state":"open","after":"idle","at":"2026-11-20T10:00:00Z"}},"steps":%d}`, m.Owner, trail, m.Sum, timer, m.steps)
	if string(next) != want {
		return nil, fmt.Errorf("snapshot:\n got %s\nwant %s", next, want)
	}
	return next, nil
}

// TestFunctionsOutsideAStepFail covers the functions of a shared machine and of this package.
func TestFunctionsOutsideAStepFail(t *testing.T) {
	t.Parallel()
	const want = "expected the context.Context that the guard or action was called with, got one without an instance"
	sm := statelesshost.NewStateMachine()
	sm.Configure("a").Permit("GO", "b")
	ctx := t.Context()
	_, noState := sm.State(ctx)
	_, noTime := statelesshost.Now(ctx)
	for name, err := range map[string]error{
		"State": noState, "Now": noTime, "Fire of the machine": sm.Fire("GO"),
		"Fire": statelesshost.Fire(ctx, "GO"), "SendTo": statelesshost.SendTo(ctx, "a/b", "E", nil),
		"SendAfter": statelesshost.SendAfter(ctx, "", "E", 0, nil), "Cancel": statelesshost.Cancel(ctx, "x"),
		"Emit": statelesshost.Emit(ctx, "E", nil), "Log": statelesshost.Log(ctx, "line"),
		"Resolve": statelesshost.Resolve(ctx, statelesshost.Answer{Name: "n", Outcome: "o"}),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	defer func() {
		if r := recover(); fmt.Sprint(r) != want {
			t.Errorf("Data: %v", r)
		}
	}()
	statelesshost.Data[ledger](ctx)
}

// TestTwoHostsOfOneMachineAreIndependent hosts two versions on one machine.
func TestTwoHostsOfOneMachineAreIndependent(t *testing.T) {
	t.Parallel()
	sm := statelesshost.NewStateMachine()
	sm.Configure("a").Permit("GO", "b")
	sm.Configure("b").Permit("BACK", "a")
	host := func(version int) *statelesshost.Machine[struct{}] {
		settled := []string{statechart.Settled}
		return statelesshost.Must(statelesshost.Config[struct{}]{
			ID: "m", Version: version, Machine: sm, Initial: "a",
			States: []statelesshost.State[struct{}]{
				{State: "a", Tags: settled},
				{State: "b", Tags: settled, After: []statelesshost.After{{Delay: time.Duration(version) * time.Minute, Trigger: "BACK"}}},
			},
			Events: map[string]statelesshost.Event{"GO": {}},
		})
	}
	one, two := host(1), host(2)
	for _, c := range []struct {
		machine durable.Machine
		want    string
	}{{one, "2.0 schedule 09:01:00"}, {two, "2.0 schedule 09:02:00"}} {
		instance := start(t, c.machine)
		equal(t, "effects", effectLines(apply(t, instance, statechart.Event{Type: "GO"})), c.want)
		equal(t, "timers", len(instance.Timers()), 1)
	}
}
