package statechart_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// inFlight returns a chart whose first state invokes the services and has children of the machines, with default IDs.
func inFlight(t *testing.T, version int, services, machines []string, changes ...statechart.Change) *statechart.Chart[trace] {
	t.Helper()
	next := []On{{Target: "next"}}
	start := S{ID: "pay", Initial: "calls", States: []S{{ID: "calls"}}}
	for _, name := range services {
		run := statechart.ServiceFunc(name, func(context.Context, trace, statechart.Call) (int, error) { return 0, nil })
		start.Invoke = append(start.Invoke, Invoke{Service: run, OnDone: next, OnError: next})
	}
	if len(services) == 0 {
		start.States[0].Tags = settled
	}
	for _, machine := range machines {
		start.Children = append(start.Children, statechart.Child[trace]{Machine: machine, OnDone: next, OnError: next})
	}
	def := Def{ID: "m", Version: version, Initial: "pay", States: []S{start, {ID: "next", Type: statechart.Final}}}
	if version > 1 {
		def.Migrations = by(changes...)
	}
	return compile(t, def)
}

func TestRunningServiceNeverBecomesAnother(t *testing.T) {
	t.Parallel()
	step, err := inFlight(t, 1, []string{"charge"}, nil).Start(statechart.Start{Instance: "m/1", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	step.Next.Services[0].Attempt, step.Next.Services[0].RetryAt = 3, epoch.Add(time.Hour)
	stored := []byte(text(t, step.Next))
	const (
		shifted = `the stored service "charge" has the ID "pay", which is the ID of the service "refund" of state "pay" in this version; `
		rename  = `add RenameService("pay", "pay", "pay:1") before any change to "pay" if the service has another ID now, ReplaceService("pay", "pay", "refund") if it continues as another service, or host version 1 too`
		kept    = `[{"ID":"%s","Key":"1.0","State":"pay","Service":"%s","Attempt":%d,"RetryAt":"%s"}]`
	)
	first, both, refund := []string{"charge"}, []string{"refund", "charge"}, []string{"refund"}
	for name, c := range map[string]struct {
		chart *statechart.Chart[trace]
		want  string
	}{
		"same":     {inFlight(t, 1, first, nil), fmt.Sprintf(kept, "pay", "charge", 3, "2026-01-02T04:04:05Z")},
		"shifted":  {inFlight(t, 1, both, nil), shifted + "raise Version, and " + rename},
		"migrated": {inFlight(t, 2, both, nil), shifted + rename},
		"gone": {inFlight(t, 2, refund, nil),
			shifted + `add RenameService("pay", "pay", ...) before any change to "pay" if the service has another ID now, ReplaceService("pay", "pay", "refund") if it continues as another service, or host version 1 too`},
		"renamed":  {inFlight(t, 2, both, nil, statechart.RenameService("pay", "pay", "pay:1")), fmt.Sprintf(kept, "pay:1", "charge", 3, "2026-01-02T04:04:05Z")},
		"replaced": {inFlight(t, 2, both, nil, statechart.ReplaceService("pay", "pay", "refund")), fmt.Sprintf(kept, "pay", "refund", 0, "0001-01-01T00:00:00Z")},
		"elsewhere": {inFlight(t, 2, first, nil, statechart.ReplaceService("next", "pay", "refund"), statechart.ReplaceService("pay", "pay:1", "refund")),
			fmt.Sprintf(kept, "pay", "charge", 3, "2026-01-02T04:04:05Z")},
	} {
		s, err := c.chart.Restore(stored)
		got := text(t, s.Services)
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "unreadable snapshot of chart m: ")
		}
		equal(t, name, got, c.want)
	}
}

func TestTheMessagesOfShiftedServicesLeadToAMigration(t *testing.T) {
	t.Parallel()
	step, err := inFlight(t, 1, []string{"reserve", "risk", "mail"}, nil).Start(statechart.Start{Instance: "m/1", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	stored := []byte(text(t, step.Next))
	type change struct{ state, from, to string }
	for _, deployed := range [][]string{{"score", "reserve", "risk", "mail"}, {"reserve", "score", "risk", "mail"}, {"score", "stamp", "reserve", "risk", "mail"}} {
		var changes []change
		for {
			var made []statechart.Change
			for _, c := range changes {
				made = append(made, statechart.RenameService(c.state, c.from, c.to))
			}
			_, err := inFlight(t, 2, deployed, nil, made...).Restore(stored)
			if err == nil {
				break
			}
			advice := regexp.MustCompile(`add RenameService\("(.*?)", "(.*?)", "(.*?)"\) before any change to "(.*?)" if`).FindStringSubmatch(err.Error())
			if advice == nil || len(changes) > len(deployed) {
				t.Fatalf("%v: expected a few changes to suffice, got %v after %v", deployed, err, changes)
			}
			at := slices.IndexFunc(changes, func(c change) bool { return c.to == advice[4] })
			if at < 0 {
				at = len(changes)
			}
			changes = slices.Insert(changes, at, change{advice[1], advice[2], advice[3]})
		}
	}
}

func TestRunningChildNeverBecomesAnother(t *testing.T) {
	t.Parallel()
	step, err := inFlight(t, 1, nil, []string{"courier"}).Start(statechart.Start{Instance: "m/1", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	stored := []byte(text(t, step.Next))
	both := []string{"printer", "courier"}
	const want = `unreadable snapshot of chart m: child "pay" of machine "courier" is not a child of the active state "pay" in this version; ` +
		`raise Version, and add RenameChild("pay", "pay:1") before any change to "pay" if the child has another ID now, or host version 1 too`
	if _, err := inFlight(t, 1, nil, both).Restore(stored); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	s, err := inFlight(t, 2, nil, both, statechart.RenameChild("pay", "pay:1")).Restore(stored)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "renamed", text(t, s.Children), `[{"ID":"pay:1","Key":"1.0","Machine":"courier","State":"pay"}]`)
}

func TestEqualServicesAndChildrenNeedIDs(t *testing.T) {
	t.Parallel()
	two := []On{{Target: "next"}}
	def := Def{ID: "m", Version: 1, Initial: "pay", States: []S{
		{ID: "pay", Initial: "calls", States: []S{{ID: "calls"}}, Invoke: []Invoke{service("", two, two), service("", two, two), service("own", two, two)},
			Children: []statechart.Child[trace]{{Machine: "courier"}, {Machine: "courier"}, {Machine: "courier", ID: "own"}, {Machine: "printer"}}},
		{ID: "next", Type: statechart.Final},
	}}
	_, err := statechart.Compile(def)
	var refused *statechart.DefinitionError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want findings", err)
	}
	const fix = `set ID for each: a default ID changes when a later version adds a %s before it`
	equal(t, "findings", fmt.Sprint(refused.Findings), fmt.Sprint([]statechart.Finding{
		{State: "pay", Problem: `invokes the service "call" 2 times without an ID`, Fix: fmt.Sprintf(fix, "service")},
		{State: "pay", Problem: `has 2 children of the machine "courier" without an ID`, Fix: fmt.Sprintf(fix, "child")}}))
	def.States[0].Invoke[1].ID, def.States[0].Children[0].ID = "second", "first"
	compile(t, def)
}

// TestMigrationThatAnErrorNamesReadsTheSnapshot changes the shape of a chart and follows the advice in the error.
func TestMigrationThatAnErrorNamesReadsTheSnapshot(t *testing.T) {
	t.Parallel()
	open := S{ID: "open", Tags: settled, On: []On{{Event: "go", Target: "next"}}}
	next := S{ID: "next", Tags: settled, On: []On{{Event: "back", Target: "open"}}}
	inner := S{ID: "open", Initial: "a", On: open.On, States: []S{{ID: "a", Initial: "b", States: []S{{ID: "b", Tags: settled}}}}}
	final := S{ID: "open", Type: statechart.Final}
	leave := []On{{Event: "go"}}
	chart := func(version int, states []S, changes ...statechart.Change) *statechart.Chart[trace] {
		def := Def{ID: "m", Version: version, Initial: states[0].ID, Payloads: events("go", "back"), States: states}
		if len(states) == 2 && len(states[0].On)+len(states[1].On) == 2 && states[0].On[0].Target == "" {
			def.Initial, def.Parallel = "", true
		}
		if version > 1 {
			def.Migrations = by(changes...)
		}
		return compile(t, def)
	}
	regions := statechart.Rewrite("regions", func(s *statechart.Stored) error { s.State = []string{"next", "open"}; return nil })
	for name, c := range map[string]struct {
		first, second []S
		problem       string
		change        statechart.Change
		want          string
	}{
		"atomic to compound": {[]S{open, next}, []S{inner, next}, `state "open": expected 1 active children, got 0; raise Version, and add MoveState("open", "open.a.b"), or host version 1 too`,
			statechart.MoveState("open", "open.a.b"), "[open.a.b]"},
		"compound to atomic": {[]S{inner, next}, []S{open, next}, `state "open": expected 0 active children, got 1; raise Version, and add MoveState("open.a", "open"), or host version 1 too`,
			statechart.MoveState("open.a", "open"), "[open]"},
		"atomic to final": {[]S{open, next}, []S{final}, `the instance is active, but its state open is final in this version; raise Version, and add a MoveState to a state that is not final, or host version 1 too`,
			statechart.Change{}, ""},
		"parallel root": {[]S{open, next}, []S{{ID: "open", Tags: settled, On: leave}, {ID: "next", Tags: settled, On: leave}},
			`the chart itself: expected 2 active children, got 1; raise Version, and add a Rewrite of State, or host version 1 too`, regions, "[open next]"},
		"removed": {[]S{open, next}, []S{{ID: "next", Tags: settled}},
			`this version has no state "open"; raise Version, and add RenameState("open", ...) or MoveState("open", ...), or host version 1 too`, statechart.MoveState("open", "next"), "[next]"},
	} {
		step, err := chart(1, c.first).Start(statechart.Start{At: epoch})
		if err != nil {
			t.Fatal(err)
		}
		stored := []byte(text(t, step.Next))
		if _, err := chart(1, c.second).Restore(stored); err == nil || err.Error() != "unreadable snapshot of chart m: "+c.problem {
			t.Errorf("%s: got %v\nwant %s", name, err, c.problem)
		}
		if c.want == "" {
			continue
		}
		s, err := chart(2, c.second, c.change).Restore(stored)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		equal(t, name, fmt.Sprint(s.State()), c.want)
	}
}
