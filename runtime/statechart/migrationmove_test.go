package statechart_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// inTwoVersions starts the first chart, sends it the events, and restores the snapshot with the second chart.
func inTwoVersions(t *testing.T, first, second Def, events ...Event) (statechart.Snapshot[trace], error) {
	t.Helper()
	for version, def := range map[int]*Def{1: &first, 2: &second} {
		def.ID, def.Version = "m", version
		def.Payloads = statechart.Payloads{"go": statechart.NoPayload(), "back": statechart.NoPayload()}
	}
	if second.Migrations == nil {
		second.Migrations = []statechart.Migration{{From: 1}}
	}
	chart := compile(t, first)
	step, err := chart.Start(statechart.Start{Instance: "m/1", At: epoch})
	for _, event := range events {
		if err == nil {
			event.At = epoch
			step, err = chart.Step(step.Next, event)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, second).Restore([]byte(text(t, step.Next)))
}

func by(changes ...statechart.Change) []statechart.Migration {
	return []statechart.Migration{{From: 1, Changes: changes}}
}

// besideWork returns a chart with two regions. Region l has the given states. In region r, a service runs.
func besideWork(migrations []statechart.Migration, states ...S) Def {
	over := []On{{Target: "over"}}
	return Def{Parallel: true, Migrations: migrations, States: []S{
		{ID: "l", Initial: states[0].ID, On: []On{{Event: "go", Target: ".end"}}, States: append(states, S{ID: "end", Tags: settled})},
		{ID: "r", Initial: "busy", States: []S{{ID: "busy", Invoke: []Invoke{service("work", over, over)}}, {ID: "over", Tags: settled}}},
	}}
}

func TestMigratedInstanceWaitingForAMissingServiceIsRejected(t *testing.T) {
	t.Parallel()
	end := []On{{Target: "end"}}
	calling := func(id string, done ...On) S { return S{ID: id, Invoke: []Invoke{service("call", done, end)}} }
	inside := func(child S) S {
		return S{ID: "x", Initial: child.ID, Invoke: []Invoke{service("call", end, end)}, States: []S{child}}
	}
	rests := S{ID: "x", Tags: settled}
	dropped := statechart.Rewrite("drop", func(s *statechart.Stored) error {
		s.Services = s.Services[1:]
		return nil
	})
	for name, c := range map[string]struct {
		first, second Def
		events        []Event
		stuck         string
	}{
		"moved":              {besideWork(nil, calling("x", end...)), besideWork(by(statechart.MoveState("l.x", "l.n")), calling("n", end...)), nil, "l.n"},
		"was settled":        {besideWork(nil, rests), besideWork(nil, calling("x", end...)), nil, "l.x"},
		"dropped":            {besideWork(nil, calling("x", end...)), besideWork(by(dropped), calling("x", end...)), nil, "l.x"},
		"whatever guards":    {besideWork(nil, rests), besideWork(nil, calling("x", On{Target: "end", Guard: no}, end[0])), nil, "l.x"},
		"enters itself":      {besideWork(nil, rests), besideWork(nil, calling("x", On{Target: "x", Reenter: true})), nil, "l.x"},
		"of the state above": {besideWork(nil, rests), besideWork(by(statechart.MoveState("l.x", "l.x.a")), inside(S{ID: "a"})), nil, "l.x.a"},

		"as it was":                {besideWork(nil, calling("x", end...)), besideWork(nil, calling("x", end...)), nil, ""},
		"renamed":                  {besideWork(nil, calling("x", end...)), besideWork(by(statechart.RenameState("l.x", "l.n")), calling("n", end...)), nil, ""},
		"served from above":        {besideWork(nil, inside(S{ID: "a"})), besideWork(by(statechart.MoveState("l.x.a", "l.x.b")), inside(S{ID: "b"})), nil, ""},
		"ended without a way":      {besideWork(nil, calling("x", On{})), besideWork(nil, calling("x", On{})), []Event{{Type: "done.invoke.call", Invocation: "1.0"}}, ""},
		"may guard its way":        {besideWork(nil, rests), besideWork(nil, calling("x", On{Target: "end", Guard: no})), nil, ""},
		"moves of itself":          {besideWork(nil, rests), besideWork(nil, S{ID: "x", Always: []On{{Target: "end", Guard: no}}, Invoke: calling("x", end...).Invoke}), nil, ""},
		"another may take the end": {besideWork(nil, rests), besideWork(by(statechart.MoveState("l.x", "l.x.a")), inside(S{ID: "a", On: []On{{Event: "done.invoke.*", Actions: logs("it")}}})), nil, ""},
	} {
		s, err := inTwoVersions(t, c.first, c.second, c.events...)
		if c.stuck == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if len(s.Services) == 0 || s.Settled() {
				t.Errorf("%s: expected an unsettled instance with the service of the other region, got %v", name, s.Services)
			}
			continue
		}
		want := fmt.Sprintf(`unreadable snapshot of chart m: the state %s is not settled in this version and waits for its service "call", which is not running and which no migration can start; add MoveState(%[1]q, ...), or host version 1 too`, c.stuck)
		if !errors.Is(err, statechart.ErrUnreadable) || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", name, err, want)
		}
	}
}

func TestMoveStateDropsTimersAndChildrenOfLeftAncestors(t *testing.T) {
	t.Parallel()
	def := func(child string, migrations ...statechart.Migration) Def {
		return Def{Initial: "a", Migrations: migrations, States: []S{
			{ID: "a", Initial: child, After: []After{{ID: "limit", Delay: time.Hour, Target: "c"}}, Children: []statechart.Child[trace]{{Machine: "helper"}},
				States: []S{{ID: child, Tags: settled}, {ID: "e", Tags: settled}}},
			{ID: "c", Tags: settled, On: []On{{Event: "go", Target: "a"}, {Event: "back", Target: "a.e"}}},
		}}
	}
	for to, want := range map[string]string{"c": "[c] 0 timers 0 children", "a.e": "[a.e] 1 timers 1 children"} {
		s, err := inTwoVersions(t, def("b"), def("d", by(statechart.MoveState("a.b", to))...))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, to, fmt.Sprintf("%v %d timers %d children", s.State(), len(s.Timers), len(s.Children)), want)
	}
}

func TestMoveStateKeepsHistoryOfDeeperMovedStates(t *testing.T) {
	t.Parallel()
	def := func(kind statechart.Type, states []S, migrations ...statechart.Migration) Def {
		return Def{Initial: "a", Migrations: migrations, States: []S{
			{ID: "a", Initial: states[0].ID, On: []On{{Event: "go", Target: "z"}}, States: append(states, S{ID: "other", Tags: settled}, S{ID: "h", Type: kind})},
			{ID: "z", Tags: settled, On: []On{{Event: "back", Target: "a.h", Guard: no}, {Event: "back", Target: "a.other"}}},
		}}
	}
	within := func(id string) []S {
		return []S{{ID: id, Initial: "d", States: []S{{ID: "d", Tags: settled}}}}
	}
	for _, c := range []struct {
		kind         statechart.Type
		to, recorded string
	}{
		{statechart.ShallowHistory, "a.c.d", `["a.c"]`},
		{statechart.ShallowHistory, "a.b.d", `["a.b"]`},
		{statechart.DeepHistory, "a.c.d", `["a.c.d"]`},
		{statechart.DeepHistory, "a.b.d", `["a.b.d"]`},
	} {
		parent := strings.Split(c.to, ".")[1]
		s, err := inTwoVersions(t, def(c.kind, []S{{ID: "b", Tags: settled}}),
			def(c.kind, within(parent), by(statechart.MoveState("a.b", c.to))...), Event{Type: "go"})
		if err != nil {
			t.Error(err)
			continue
		}
		if got, want := text(t, s), `"historyValue":{"a.h":`+c.recorded+`}`; !strings.Contains(got, want) {
			t.Errorf("kind %d, %s: expected %s, got %s", c.kind, c.to, want, got)
		}
	}
}
