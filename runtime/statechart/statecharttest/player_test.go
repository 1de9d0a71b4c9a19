package statecharttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// recorder is a test that records its failure and stops there.
type recorder struct{}

type failed string

func (recorder) Helper() {}

func (recorder) Fatalf(format string, args ...any) { panic(failed(fmt.Sprintf(format, args...))) }

// failure returns the message with which f failed its test.
func failure(t *testing.T, f func(statecharttest.TB)) (message string) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			reason, ok := r.(failed)
			if !ok {
				panic(r)
			}
			message = string(reason)
		}
	}()
	f(recorder{})
	t.Fatal("expected the player to fail its test")
	return ""
}

// oneState returns a chart that runs the action on every "go".
func oneState[C any](do statechart.Action[C]) *statechart.Chart[C] {
	return statechart.Must(statechart.Definition[C]{
		ID: "one", Version: 1, Initial: "only", Payloads: statechart.Payloads{"go": statechart.NoPayload()},
		States: []statechart.State[C]{{
			ID: "only", Tags: []string{statechart.Settled},
			On: []statechart.Transition[C]{{Event: "go", Actions: []statechart.Action[C]{do}}},
		}},
	})
}

// forgetful is a context with a marshal method that loses a field.
type forgetful struct {
	Kept int `json:"kept"`
	Lost int `json:"lost"`
}

func (f forgetful) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `{"kept":%d}`, f.Kept), nil }

func TestContextThatDoesNotSurviveJSONFailsTheTest(t *testing.T) {
	t.Parallel()
	chart := oneState(statechart.Assign("lose", func(c *forgetful, _ statechart.Event) { c.Lost++ }))
	got := failure(t, func(t statecharttest.TB) { statecharttest.Play(t, chart, statecharttest.Config{}).Send("go", nil) })
	if want := "one/1: the context changed in a JSON round trip"; !strings.Contains(got, want) || !strings.Contains(got, "Lost") {
		t.Errorf("expected %q and the field, got %s", want, got)
	}
}

// shared is a context whose copies share data.
type shared struct {
	Counts []int `json:"counts"`
}

func (s shared) Clone() shared { return s }

func TestActionThatChangesTheSteppedSnapshotFailsTheTest(t *testing.T) {
	t.Parallel()
	chart := oneState(statechart.Assign("count", func(c *shared, _ statechart.Event) {
		if len(c.Counts) == 0 {
			c.Counts = []int{0}
			return
		}
		c.Counts[0]++
	}))
	got := failure(t, func(t statecharttest.TB) {
		p := statecharttest.Play(t, chart, statecharttest.Config{})
		p.Send("go", nil)
		p.Send("go", nil)
	})
	if want := `stepping one/1 on "go" changed the stepped snapshot`; !strings.Contains(got, want) {
		t.Errorf("expected %q, got %s", want, got)
	}
}

func TestNondeterministicActionFailsTheTest(t *testing.T) {
	t.Parallel()
	calls := 0
	chart := oneState(statechart.Assign("count", func(c *forgetful, _ statechart.Event) { calls++; c.Kept = calls }))
	got := failure(t, func(t statecharttest.TB) { statecharttest.Play(t, chart, statecharttest.Config{}).Send("go", nil) })
	if want := `stepping one/1 on "go" again from the same snapshot gave a different result`; !strings.Contains(got, want) {
		t.Errorf("expected %q, got %s", want, got)
	}
}

func TestTryReturnsRejectionsAndFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("out of ink")
	p := statecharttest.Play(t, oneState(statechart.TryAssign("write", func(*forgetful, statechart.Event) error { return broken })), statecharttest.Config{})
	for body, want := range map[string]error{
		`[]`:               statechart.ErrNotAnEvent,
		`{"type": "stop"}`: statechart.ErrUndeclared,
		`{"type": "go"}`:   broken,
	} {
		if err := p.Try(body); !errors.Is(err, want) {
			t.Errorf("%s: expected %v, got %v", body, want, err)
		}
	}
	got := failure(t, func(t statecharttest.TB) {
		statecharttest.Play(t, oneState(statechart.Raise[forgetful]("go")), statecharttest.Config{}).Send("stop", nil)
	})
	if want := `sending {"type":"stop"} to one/1: undeclared event type`; !strings.HasPrefix(got, want) {
		t.Errorf("expected %q, got %s", want, got)
	}
}

func TestEndlessTimersFailTheTest(t *testing.T) {
	t.Parallel()
	chart := statechart.Must(statechart.Definition[forgetful]{
		ID: "loop", Version: 1, Initial: "late",
		States: []statechart.State[forgetful]{{
			ID: "late", Tags: []string{statechart.Settled},
			After: []statechart.After[forgetful]{{
				ID: "past", Target: "late", Reenter: true,
				At: func(forgetful, statechart.Event) time.Time { return statecharttest.Epoch },
			}},
		}},
	})
	got := failure(t, func(t statecharttest.TB) { statecharttest.Play(t, chart, statecharttest.Config{}) })
	if want := "loop/1 took 2001 macrosteps without settling"; !strings.Contains(got, want) {
		t.Errorf("expected %q, got %s", want, got)
	}
}

func TestInstanceStartsWithItsConfig(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	p := statecharttest.Play(t, bench(t, nil), statecharttest.Config{Instance: "bench/7", At: at})
	p.Advance(time.Second)
	want := workbench{Instance: "bench/7", Started: at}
	if diff := cmp.Diff(want, p.Snapshot().Context); diff != "" || !p.Now().Equal(at.Add(time.Second)) {
		t.Errorf("at %v: context (-want +got):\n%s", p.Now(), diff)
	}
}

func TestServiceIsCalledWithItsCallAndPanicsAreFailures(t *testing.T) {
	t.Parallel()
	var calls []statechart.Call
	p := statecharttest.Play(t, bench(t, func(_ context.Context, call statechart.Call) error {
		calls = append(calls, call)
		panic("dropped")
	}), statecharttest.Config{})
	p.Send("work", map[string]int{"pieces": 2})
	want := []statechart.Call{{Instance: "bench/1", Key: "bench/1/2.1", Attempt: 1}, {Instance: "bench/1", Key: "bench/1/2.1", Attempt: 2}}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got, want := p.Snapshot().Context.Error, "panic: a value of the type string"; got != want {
		t.Errorf("expected the error %q, got %q", want, got)
	}
}

func TestEffectsReturnsEffectsOfTheLastCall(t *testing.T) {
	t.Parallel()
	p := statecharttest.Play(t, bench(t, nil), statecharttest.Config{})
	p.Send("work", map[string]int{"pieces": 2})
	want := []statechart.Effect{{ID: "3.0", Kind: statechart.Send, To: "store/1", Event: json.RawMessage(`{"pieces":2,"type":"delivered"}`)}}
	if diff := cmp.Diff(want, p.Effects()); diff != "" || !p.Handled() {
		t.Errorf("effects of work (-want +got):\n%s", diff)
	}
	p.Send("rest", nil)
	if got := p.Effects(); len(got) != 0 || p.Handled() {
		t.Errorf("expected rest to be ignored and to have no effects, got %v", got)
	}
}

// TestStoredJSONIsComparedByMeaning stores contexts whose JSON changes its spelling, and one whose JSON changes its
// meaning.
func TestStoredJSONIsComparedByMeaning(t *testing.T) {
	t.Parallel()
	type parcel struct {
		Label json.RawMessage `json:"label"`
		Bytes []byte          `json:"bytes"`
	}
	play := func(t statecharttest.TB, label json.RawMessage) {
		statecharttest.Play(t, statechart.Must(statechart.Definition[parcel]{
			ID: "parcel", Version: 1, Initial: "packed",
			Context: func(statechart.Start) parcel { return parcel{Label: label, Bytes: []byte(`{"a": 1}`)} },
			States:  []statechart.State[parcel]{{ID: "packed", Tags: []string{statechart.Settled}}},
		}), statecharttest.Config{})
	}
	for _, label := range []string{`{"a": 1, "b": [1.50, "<&>"]}`, " null", `{"n": 12345678901234567890}`} {
		play(t, json.RawMessage(label))
	}
	if got := failure(t, func(t statecharttest.TB) { play(t, nil) }); !strings.Contains(got, "the context changed in a JSON round trip") {
		t.Errorf("expected nil, which is stored as null, to be reported, got %q", got)
	}
}

func TestTimersFireInOrderOfTheirDeadlines(t *testing.T) {
	t.Parallel()
	type ran struct {
		Order []string `json:"order"`
	}
	region := func(id string, after time.Duration) statechart.State[ran] {
		log := statechart.Assign("log "+id, func(c *ran, e statechart.Event) {
			c.Order = append(c.Order, fmt.Sprintf("%s at %v", id, e.At.Sub(statecharttest.Epoch)))
		})
		return statechart.State[ran]{ID: id, Initial: "waits", States: []statechart.State[ran]{
			{ID: "waits", Tags: []string{statechart.Settled}, After: []statechart.After[ran]{{Delay: after, Target: "ran", Actions: []statechart.Action[ran]{log}}}},
			{ID: "ran", Type: statechart.Final},
		}}
	}
	p := statecharttest.Play(t, statechart.Must(statechart.Definition[ran]{
		ID: "race", Version: 1, Parallel: true,
		States: []statechart.State[ran]{region("a", 3*time.Second), region("b", time.Second), region("c", 3*time.Second), region("d", 5*time.Second)},
	}), statecharttest.Config{})
	p.Advance(4 * time.Second)
	want := []string{"b at 1s", "a at 3s", "c at 3s"}
	if diff := cmp.Diff(want, p.Snapshot().Context.Order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if got, want := p.State(), "a.ran, b.ran, c.ran, d.waits"; got != want {
		t.Errorf("expected %s, got %s", want, got)
	}
}

func TestSleepNeedsAPlayersContext(t *testing.T) {
	t.Parallel()
	want := "sleeping: expected the context of a service called by a statecharttest.Player"
	if err := statecharttest.Sleep(t.Context(), time.Second); err == nil || err.Error() != want {
		t.Errorf("expected %q, got %v", want, err)
	}
}

func TestOutcomesRejectUnknownWords(t *testing.T) {
	t.Parallel()
	want := `expected ok, fail, refuse, hang or a duration such as 20s, got "sometimes" in ok, sometimes`
	if _, err := statecharttest.NewOutcomes("ok", "sometimes"); err == nil || err.Error() != want {
		t.Errorf("expected %q, got %v", want, err)
	}
}
