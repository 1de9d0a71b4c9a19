package statecharttest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// demanding is a fake testing.TB for Require. It records messages and cleanup functions.
type demanding struct {
	testing.TB
	failed   bool
	errors   []string
	logs     []string
	cleanups []func()
}

func (d *demanding) Helper()          {}
func (d *demanding) Cleanup(f func()) { d.cleanups = append(d.cleanups, f) }
func (d *demanding) Failed() bool     { return d.failed }
func (d *demanding) Log(args ...any)  { d.logs = append(d.logs, fmt.Sprint(args...)) }
func (d *demanding) Errorf(format string, args ...any) {
	d.errors = append(d.errors, fmt.Sprintf(format, args...))
}

// require returns the failure message of Require.
func require(c *statecharttest.Coverage, allowed ...statecharttest.AllowedMiss) string {
	d := &demanding{}
	c.Require(d, allowed...)
	for _, f := range d.cleanups {
		f()
	}
	return strings.Join(d.errors, "\n")
}

type (
	doorState = statechart.State[int]
	doorOn    = statechart.Transition[int]
)

// door returns a chart with difficult names: a history state, transitions of the chart itself, guards, and transitions
// that differ only in their order.
func door() *statechart.Chart[int] {
	often := statechart.When("often", func(c int, _ statechart.Event) bool { return c >= 2 })
	count := statechart.Assign("count", func(c *int, _ statechart.Event) { *c++ })
	broken := statechart.TryAssign("broken", func(*int, statechart.Event) error { return errors.New("out of order") })
	no := statechart.NoPayload()
	return statechart.Must(statechart.Definition[int]{
		ID: "door", Version: 3, Initial: "closed",
		Payloads: statechart.Payloads{"OPEN": no, "CLOSE": no, "KNOCK": no, "KICK": no, "FIRE": no},
		On: []doorOn{
			{Event: "FIRE", Target: ".open.locked_open"},
			{Event: "KNOCK"},
		},
		States: []doorState{
			{ID: "closed", Tags: []string{statechart.Settled}, On: []doorOn{
				{Event: "OPEN", Target: "open.last"},
				{Event: "KNOCK", Guard: often, Target: "open"},
				{Event: "KNOCK", Guard: often, Target: "open"},
				{Event: "KNOCK", Actions: []statechart.Action[int]{count}},
				{Event: "KICK", Target: "open", Actions: []statechart.Action[int]{broken}},
			}},
			{ID: "open", Initial: "ajar", On: []doorOn{{Event: "CLOSE", Target: "closed"}}, States: []doorState{
				{ID: "last", Type: statechart.ShallowHistory},
				{ID: "ajar", Tags: []string{statechart.Settled}},
				{ID: "locked_open", Tags: []string{statechart.Settled}},
			}},
		},
	})
}

// play sends the events to a door.
func play(t statecharttest.TB, coverage *statecharttest.Coverage, events ...string) {
	t.Helper()
	p := statecharttest.Play(t, door(), statecharttest.Config{Coverage: coverage})
	for _, event := range events {
		p.Send(event, nil)
	}
}

func TestMissedIsInDocumentOrder(t *testing.T) {
	t.Parallel()
	var c statecharttest.Coverage
	play(t, &c, "KNOCK")
	want := []string{
		"state open", "state open.ajar", "state open.locked_open",
		"(chart) on FIRE -> open.locked_open",
		"(chart) on KNOCK",
		"closed on OPEN -> open.last",
		"closed on KNOCK [often] -> open",
		"closed on KNOCK [often] -> open #2",
		"closed on KICK -> open",
		"open on CLOSE -> closed",
	}
	if diff := cmp.Diff(want, c.Missed()); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
	report := "door version 3: 1 of 4 states, 1 of 8 transitions\n"
	for _, name := range want {
		report += "  missed " + name + "\n"
	}
	if diff := cmp.Diff(report, c.Report()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestPlayersOfOneChartShareACoverage(t *testing.T) {
	t.Parallel()
	var c statecharttest.Coverage
	play(t, &c, "KNOCK", "KNOCK", "KNOCK")
	play(t, &c, "OPEN", "KNOCK", "CLOSE")
	play(t, &c, "FIRE")
	want := []string{"closed on KNOCK [often] -> open #2", "closed on KICK -> open"}
	if diff := cmp.Diff(want, c.Missed()); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
}

func TestFailedStepCoversNothing(t *testing.T) {
	t.Parallel()
	settled := []string{statechart.Settled}
	broken := []statechart.Action[int]{statechart.TryAssign("broken", func(*int, statechart.Event) error { return errors.New("out of order") })}
	chart := statechart.Must(statechart.Definition[int]{
		ID: "lift", Version: 1, Initial: "down", Payloads: statechart.Payloads{"UP": statechart.NoPayload(), "RING": statechart.NoPayload()},
		States: []doorState{
			{ID: "down", Tags: settled, On: []doorOn{{Event: "UP", Target: "moving"}, {Event: "RING"}}},
			{ID: "moving", Always: []doorOn{{Target: "up", Actions: broken}}}, // The action fails after the first microstep is complete.
			{ID: "up", Tags: settled},
		},
	})
	var c statecharttest.Coverage
	p := statecharttest.Play(t, chart, statecharttest.Config{Coverage: &c})
	if err := p.Try(`{"type": "UP"}`); err == nil {
		t.Fatal("expected UP to fail")
	}
	p.Send("RING", nil) // The next step must not add the microsteps of the rolled-back step.
	want := []string{"state moving", "state up", "down on UP -> moving", "moving always -> up"}
	if diff := cmp.Diff(want, c.Missed()); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
}

func TestCoverageRejectsAnotherChart(t *testing.T) {
	t.Parallel()
	var c statecharttest.Coverage
	play(t, &c)
	got := failure(t, func(tb statecharttest.TB) {
		statecharttest.Play(tb, bench(t, nil), statecharttest.Config{Coverage: &c})
	})
	want := "starting bench/1: expected one chart for one Coverage, door version 3, got bench version 1 with other states or transitions"
	if got != want {
		t.Errorf("expected %q, got %q", want, got)
	}
}

func TestRequireFailsForMissesAndUselessAllowances(t *testing.T) {
	t.Parallel()
	kick := statecharttest.AllowedMiss{Name: "closed on KICK -> open", Reason: "the test has no door to break"}
	second := statecharttest.AllowedMiss{Name: "closed on KNOCK [often] -> open #2", Reason: "the first comes before it"}
	var c statecharttest.Coverage
	play(t, &c, "KNOCK", "KNOCK", "KNOCK")
	play(t, &c, "OPEN", "KNOCK", "CLOSE")
	play(t, &c, "FIRE")
	head := c.Report() + "expected full coverage, except allowed misses with a reason:\n  "
	for _, test := range []struct {
		name    string
		allowed []statecharttest.AllowedMiss
		want    string
	}{
		{"all reasons given", []statecharttest.AllowedMiss{kick, second}, ""},
		{"one missed", []statecharttest.AllowedMiss{second}, head + "not covered: closed on KICK -> open"},
		{"none allowed", nil, head + "not covered: closed on KNOCK [often] -> open #2\n  not covered: closed on KICK -> open"},
		{"covered", []statecharttest.AllowedMiss{kick, second, {Name: "state open", Reason: "hard to reach"}}, head + "allowed miss is covered: state open"},
		{"not of the chart", []statecharttest.AllowedMiss{kick, second, {Name: "state ajar", Reason: "hard to reach"}}, head + "allowed miss is not in this chart: state ajar"},
		{"no reason", []statecharttest.AllowedMiss{kick, {Name: second.Name}}, head + "allowed miss has no reason: " + second.Name},
		{"twice", []statecharttest.AllowedMiss{kick, second, second}, head + "allowed miss is listed twice: " + second.Name},
	} {
		if diff := cmp.Diff(test.want, require(&c, test.allowed...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestRequireFailsIfNothingWasPlayed(t *testing.T) {
	t.Parallel()
	want := "no chart was played\nexpected full coverage, except allowed misses with a reason:\n  no chart was played"
	if got := require(&statecharttest.Coverage{}); got != want {
		t.Errorf("expected %q, got %q", want, got)
	}
}

func TestRequireIgnoresTestsThatFailedOtherwise(t *testing.T) {
	t.Parallel()
	var c statecharttest.Coverage
	play(t, &c)
	d := &demanding{failed: true}
	c.Require(d)
	d.cleanups[0]()
	if want := []string{"coverage not checked, because the test failed otherwise: fix that first"}; d.errors != nil || !slices.Equal(d.logs, want) {
		t.Errorf("expected no error and the log %q, got %q and %q", want, d.errors, d.logs)
	}
	if got := require(&c); got == "" {
		t.Error("expected the same coverage not to do for a test that did not fail")
	}
}

// doors writes one script per event for a door, and returns their directory.
func doors(t *testing.T, events ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, event := range events {
		script := "start\n----\nstarts in closed\n\nsend " + event + "\n----\nstays in closed\n"
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRequireWaitsForAllScripts(t *testing.T) {
	t.Parallel()
	dir := doors(t, "KNOCK", "KNOCK")
	var c *statecharttest.Coverage
	var early string
	t.Run("scripts", func(t *testing.T) {
		c = statecharttest.RunScripts(t, dir, func(*statecharttest.Setup) *statechart.Chart[int] { return door() })
		early = require(c) // Parallel subtests have not run yet, so no script has been played.
	})
	if early != "" {
		t.Errorf("expected nothing to be demanded before all scripts were played, got %q", early)
	}
	if covered, all := c.Transitions(); covered != 1 || all != 8 {
		t.Errorf("expected 1 of 8 transitions to be covered, got %d of %d", covered, all)
	}
	if got := require(c); !strings.Contains(got, "not covered: closed on KICK -> open") {
		t.Errorf("expected the misses to fail the test, got %q", got)
	}
}

func TestCoverageCountsTimersAndServices(t *testing.T) {
	t.Parallel()
	calls := 0
	var c statecharttest.Coverage
	p := statecharttest.Play(t, bench(t, func(ctx context.Context, _ statechart.Call) error {
		if calls++; calls == 1 {
			return nil
		}
		return statecharttest.Sleep(ctx, time.Hour) // Two attempts of 20s with a pause of 30s take longer than the timer of 1m.
	}), statecharttest.Config{Coverage: &c})
	p.Send("work", map[string]int{"pieces": 2})
	p.Send("work", map[string]int{"pieces": 2})
	if diff := cmp.Diff([]string{"working on error of produce -> idle"}, c.Missed()); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
}
