package statechart_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// The contexts of the three versions of a chart.
type (
	guestV1 struct {
		Name string `json:"name"`
	}
	guestV2 struct {
		First, Last string
	}
	guestV3 struct {
		Names []string `json:"names"`
	}
)

// words holds the names that differ between the versions.
type words struct{ job, busy, limit, later string }

// versioned returns a chart with one of everything that a snapshot stores.
func versioned[C any](t *testing.T, version int, w words, initial C, migrations ...statechart.Migration) *statechart.Chart[C] {
	t.Helper()
	type (
		state = statechart.State[C]
		on    = statechart.Transition[C]
		do    = []statechart.Action[C]
	)
	again := statechart.SendAfter("again", w.later, func(C, Event) (time.Duration, any) { return 3 * time.Hour, nil })
	call := statechart.ServiceFunc("call", func(context.Context, C, statechart.Call) (int, error) { return 1, nil })
	chart, err := statechart.Compile(statechart.Definition[C]{
		ID: "guest", Version: version, Initial: w.job, Migrations: migrations,
		Payloads: events("OUT", "IN", "GO", "CALL", w.later),
		Context:  func(statechart.Start) C { return initial },
		States: []state{
			{
				ID: w.job, Type: statechart.Parallel, On: []on{{Event: "OUT", Target: "out"}},
				Children: []statechart.Child[C]{{Machine: "helper"}}, Resolve: []statechart.Resolution[C]{{Name: "Task", Outcome: w.job}},
				States: []state{
					{ID: "back", Type: statechart.DeepHistory},
					{ID: "left", Initial: "a", After: []statechart.After[C]{{ID: w.limit, Delay: time.Hour, Target: "#out"}}, States: []state{
						{ID: "a", Tags: settled, On: []on{{Event: "GO", Target: "b", Actions: do{again}}}},
						{ID: "b", Tags: settled},
					}},
					{ID: "right", Initial: "idle", States: []state{
						{ID: "idle", Tags: settled, Defer: []string{w.later}, On: []on{{Event: "CALL", Target: w.busy}}},
						{ID: w.busy, Defer: []string{w.later}, Invoke: []statechart.Invoke[C]{{Service: call, OnDone: []on{{Target: "over"}}, OnError: []on{{Target: "over"}}}}},
						{ID: "over", Tags: settled, On: []on{{Event: w.later}}},
					}},
				},
			},
			{ID: "out", Tags: settled, On: []on{{Event: "IN", Target: w.job + ".back"}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// The words of each version, and the migrations between them.
var (
	wordsV1 = words{job: "work", busy: "busy", limit: "1h0m0s", later: "LATER"}
	wordsV2 = words{job: "job", busy: "busy", limit: "1h0m0s", later: "LATER"}
	wordsV3 = words{job: "job", busy: "calling", limit: "sla", later: "AFTERWARDS"}

	fromV1 = statechart.Migration{From: 1, Changes: []statechart.Change{
		statechart.RenameState("work", "job"),
		statechart.MigrateContext(func(old guestV1) guestV2 {
			first, last, _ := strings.Cut(old.Name, " ")
			return guestV2{first, last}
		}),
	}}
	fromV2 = statechart.Migration{From: 2, Changes: []statechart.Change{
		statechart.RenameState("job.right.busy", "job.right.calling"),
		statechart.RenameTimer("job.left", "1h0m0s", "sla"),
		statechart.RenameEvent("LATER", "AFTERWARDS"),
		statechart.MigrateContext(func(old guestV2) guestV3 { return guestV3{[]string{old.First, old.Last}} }),
	}}
)

// storedByV1 returns a snapshot of version 1 with a history value, timers, a running service, a child and deferred
// events.
func storedByV1(t *testing.T) []byte {
	t.Helper()
	chart := versioned(t, 1, wordsV1, guestV1{"Ada Byron"})
	step, err := chart.Start(statechart.Start{Instance: "guest/1", At: epoch})
	for _, typ := range []string{"GO", "OUT", "IN", "LATER", "CALL"} {
		if err == nil {
			step, err = chart.Step(step.Next, Event{Type: typ, ID: "p-" + typ, At: epoch})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return []byte(text(t, step.Next))
}

func TestMigrationsChainFromTheOldestVersion(t *testing.T) {
	t.Parallel()
	stored := storedByV1(t)
	equal(t, "stored", string(stored), `{"machine":"guest","version":1,"status":"active","value":{"work":{"left":"b","right":"busy"}},"context":{"name":"Ada Byron"},"tags":["settled"],`+
		`"historyValue":{"work.back":["work.left.b","work.right.idle"]},"timers":{"2.0":{"state":"","after":"LATER","at":"2026-01-02T06:04:05Z","event":{"type":"LATER"},"send":"again"},`+
		`"4.1":{"state":"work.left","after":"1h0m0s","at":"2026-01-02T04:04:05Z"}},"services":{"6.0":{"id":"work.right.busy","state":"work.right.busy","service":"call","attempt":0}},`+
		`"children":{"work":{"key":"4.2","machine":"helper","state":"work"}},"deferred":[{"id":"p-LATER","event":{"type":"LATER"}}],"steps":6}`)
	chart := versioned(t, 3, wordsV3, guestV3{}, fromV2, fromV1) // The migrations may be in any order.
	s, err := chart.Restore(stored)
	if err != nil {
		t.Fatal(err)
	}
	migrated := text(t, s)
	equal(t, "migrated", migrated, `{"machine":"guest","version":3,"status":"active","value":{"job":{"left":"b","right":"calling"}},"context":{"names":["Ada","Byron"]},"tags":["settled"],`+
		`"historyValue":{"job.back":["job.left.b","job.right.idle"]},"timers":{"2.0":{"state":"","after":"AFTERWARDS","at":"2026-01-02T06:04:05Z","event":{"type":"AFTERWARDS"},"send":"again"},`+
		`"4.1":{"state":"job.left","after":"sla","at":"2026-01-02T04:04:05Z"}},"services":{"6.0":{"id":"job.right.calling","state":"job.right.calling","service":"call","attempt":0}},`+
		`"children":{"job":{"key":"4.2","machine":"helper","state":"job"}},"deferred":[{"id":"p-LATER","event":{"type":"AFTERWARDS"}}],"steps":6}`)

	// The restored snapshot continues like a snapshot that version 3 stored.
	answer, ok, err := chart.Resolving(s, "Task", Event{})
	equal(t, "resolving", fmt.Sprint(answer.Outcome, " ", ok, " ", err), "job true <nil>")
	step, err := chart.Step(s, withTime(s.Services[0].Done(1)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "after the service", text(t, step.Next.State())+fmt.Sprint(len(step.Next.Deferred)), `["job.left.b","job.right.over"]0`)
	if step, err = chart.Step(step.Next, Event{Type: statechart.TimerEvent, Timer: "4.1", At: epoch.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	equal(t, "after the timer", text(t, step.Next.State())+string(step.Effects[0].Kind)+step.Effects[0].Child, `["out"]stop4.2`)

	// Two builds that run one migration each give the same result as one build that runs both.
	middle, err := versioned(t, 2, wordsV2, guestV2{}, fromV1).Restore(stored)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = chart.Restore([]byte(text(t, middle))); err != nil {
		t.Fatal(err)
	}
	equal(t, "in two builds", text(t, s), migrated)
	if s, err = chart.Restore([]byte(migrated)); err != nil {
		t.Fatal(err)
	}
	equal(t, "read again", text(t, s), migrated)
	equal(t, "as it was", string(stored), string(storedByV1(t)))
}

func withTime(event Event) Event {
	event.At = epoch
	return event
}

func TestDescribeReportsTheOldestVersion(t *testing.T) {
	t.Parallel()
	chart := versioned(t, 3, wordsV3, guestV3{}, fromV2)
	equal(t, "oldest version", chart.Describe().OldestVersion, 2)
	equal(t, "oldest version without migrations", turnstile().Describe().OldestVersion, turnstile().Version())
	_, err := chart.Restore(storedByV1(t))
	if want := `unreadable snapshot of chart guest: expected version 3 of machine "guest", got version 1 of "guest"; add a migration or host that version too`; !errors.Is(err, statechart.ErrUnreadable) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	equal(t, "in the definition", len(versioned(t, 3, wordsV3, guestV3{}, fromV2, fromV1).Definition().Migrations), 2)
}

// rewritten restores the snapshot of storedByV1 with a chart of version 2. The chart's migration has the changes of
// fromV1, and additional changes before and after them.
func rewritten(t *testing.T, before, after []statechart.Change) (statechart.Snapshot[guestV2], error) {
	t.Helper()
	changes := slices.Concat(before, fromV1.Changes, after)
	return versioned(t, 2, wordsV2, guestV2{}, statechart.Migration{From: 1, Changes: changes}).Restore(storedByV1(t))
}

func TestFailedMigrationNamesItsChange(t *testing.T) {
	t.Parallel()
	rewrite := func(fn func(*statechart.Stored)) statechart.Change {
		return statechart.Rewrite("mine", func(s *statechart.Stored) error { fn(s); return nil })
	}
	for _, c := range []struct {
		change  statechart.Change
		message string
	}{
		{statechart.Rewrite("mine", func(*statechart.Stored) error { return errors.New("no such guest") }), `migrating from version 1, mine: no such guest; fix the migration`},
		{rewrite(func(*statechart.Stored) { panic("no guest") }), `migrating from version 1, mine: panic: a value of the type string; fix the migration`},
		{statechart.MigrateContext(func(int) guestV2 { return guestV2{} }), `migrating from version 1, migrate the context: the old context: expected a whole number of 64 bits, got an object; fix the migration`},
		{statechart.RenameState("job.left", "job.right"), `migrating from version 1, rename state "job.left" to "job.right": expected no active state "job.right", got ["job.left.b" "job.right.busy"]; fix the migration`},
		{rewrite(func(s *statechart.Stored) { s.State = nil }), `the chart itself: expected 1 active children, got 0; add a Rewrite of State, or host version 1 too`},
		{rewrite(func(s *statechart.Stored) { s.State = []string{"gone"} }), `this version has no state "gone"; add RenameState("gone", ...) or MoveState("gone", ...), or host version 1 too`},
		{rewrite(func(s *statechart.Stored) { s.Context = []byte(`{"First":1}`) }), `context: expected a string under "First", got a number; add a MigrateContext, or host version 1 too`},
		{rewrite(func(s *statechart.Stored) { s.Timers[1].At = s.Timers[1].At.Add(time.Hour) }), `migrated from version 1: timer 4.1 of state "job.left": expected a stored timer, once, with its stored deadline: a migration cannot start a timer or change a deadline; fix the migration`},
		{rewrite(func(s *statechart.Stored) { s.Timers[1].ID = "4.9" }), `migrated from version 1: timer 4.9 of state "job.left": expected a stored timer, once, with its stored deadline: a migration cannot start a timer or change a deadline; fix the migration`},
		{rewrite(func(s *statechart.Stored) { s.Timers = append(s.Timers, s.Timers[1]) }), `migrated from version 1: timer 4.1 of state "job.left": expected a stored timer, once, with its stored deadline: a migration cannot start a timer or change a deadline; fix the migration`},
		{rewrite(func(s *statechart.Stored) { s.Services[0].Key = "6.1" }), `migrated from version 1: service "job.right.busy" under the key "6.1": expected a stored service, once: a migration cannot start one; fix the migration`},
		{rewrite(func(s *statechart.Stored) { s.Services = nil }), `the state job.left.b, job.right.busy is not settled in this version, and no service is running to move it on; add a MoveState to a settled state, or host version 1 too`},
		{rewrite(func(s *statechart.Stored) { s.Children[0].Machine = "other" }), `migrated from version 1: child "job" under the key "4.2": expected a stored child, once, with its stored machine: a migration cannot start one; fix the migration`},
		{rewrite(func(s *statechart.Stored) { s.Deferred[0].Event = []byte(`{"kind":"NEVER"}`) }), `deferred event 0: unexpected end of JSON input; fix the migration`},
		{statechart.RenameTimer("job.left", "1h0m0s", "sla"), `timer 4.1 belongs to "job.left" after "sla", which is not a timer of that state in this version; add RenameTimer("job.left", "sla", ...) or DropTimer("job.left", "sla"), or host version 1 too`},
		{statechart.RenameService("job.right.busy", "job.right.busy", "x"), `the stored service "call" has the ID "x", which no service of state "job.right.busy" has in this version; add RenameService("job.right.busy", "x", "job.right.busy") before any change to "x" if the service has another ID now, or host version 1 too`},
	} {
		_, err := rewritten(t, nil, []statechart.Change{c.change})
		if want := "unreadable snapshot of chart guest: " + c.message; !errors.Is(err, statechart.ErrUnreadable) || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	chart := versioned(t, 2, wordsV2, guestV2{}, fromV1)
	for _, damage := range []struct{ old, new, message string }{
		{`{"left":"b","right":"busy"}`, `7`, `version 1: value: state "work": expected a string or an object, got a number`},
		{`{"id":"p-LATER","event":{"type":"LATER"}}`, `{"event":7}`, `version 1: deferred event: expected an object, got a number`},
		{`"steps":6`, `"steps":"6"`, `expected a whole number of 64 bits under "steps", got a string`},
	} {
		_, err := chart.Restore([]byte(strings.Replace(string(storedByV1(t)), damage.old, damage.new, 1)))
		if want := "unreadable snapshot of chart guest: " + damage.message + "; repair it, or restore it from a backup"; err == nil || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", damage.new, err, want)
		}
	}
}

func TestMoveStateDropsTimersServicesAndChildren(t *testing.T) {
	t.Parallel()
	shown := func(before, after []statechart.Change) string {
		s, err := rewritten(t, before, after)
		if err != nil {
			t.Fatal(err)
		}
		var form struct {
			Value                      json.RawMessage
			HistoryValue               map[string][]string
			Timers, Services, Children map[string]json.RawMessage
		}
		if err := json.Unmarshal([]byte(text(t, s)), &form); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s %v timers %d services %d children %d", form.Value, form.HistoryValue, len(form.Timers), len(form.Services), len(form.Children))
	}
	move := func(from, to string) []statechart.Change { return []statechart.Change{statechart.MoveState(from, to)} }
	for name, c := range map[string]struct{ got, want string }{
		"as it is": {shown(nil, nil), `{"job":{"left":"b","right":"busy"}} map[job.back:[job.left.b job.right.idle]] timers 2 services 1 children 1`},
		"a service": {shown(nil, move("job.right.busy", "job.right.idle")),
			`{"job":{"left":"b","right":"idle"}} map[job.back:[job.left.b job.right.idle]] timers 2 services 0 children 1`},
		"history": {shown(nil, move("job.left.b", "job.left.a")),
			`{"job":{"left":"a","right":"busy"}} map[job.back:[job.left.a job.right.idle]] timers 2 services 1 children 1`},
		"everything": {shown(nil, move("job", "out")), `"out" map[] timers 1 services 0 children 0`},
		"below": {shown([]statechart.Change{
			statechart.Rewrite("flatten", func(s *statechart.Stored) error { s.State[0] = "work.left"; return nil }), statechart.MoveState("work.left", "work.left.a")}, nil),
			`{"job":{"left":"a","right":"busy"}} map[job.back:[job.left.a job.right.idle]] timers 2 services 1 children 1`},
		"no history": {shown(nil, []statechart.Change{statechart.ForgetHistory("job.back")}),
			`{"job":{"left":"b","right":"busy"}} map[] timers 2 services 1 children 1`},
		"the timer put down": {shown(nil, []statechart.Change{statechart.DropTimer("job.left", "1h0m0s")}),
			`{"job":{"left":"b","right":"busy"}} map[job.back:[job.left.b job.right.idle]] timers 1 services 1 children 1`},
		"there and back": {shown(nil, []statechart.Change{statechart.RenameChild("job", "x"), statechart.RenameChild("x", "job"),
			statechart.RenameService("job.right.busy", "job.right.busy", "x"), statechart.RenameService("job.right.busy", "x", "job.right.busy")}),
			`{"job":{"left":"b","right":"busy"}} map[job.back:[job.left.b job.right.idle]] timers 2 services 1 children 1`},
	} {
		equal(t, name, c.got, c.want)
	}
}

func TestStoppedAndDoneInstancesMigrateToo(t *testing.T) {
	t.Parallel()
	old := versioned(t, 1, wordsV1, guestV1{"Ada Byron"})
	step, err := old.Start(statechart.Start{Instance: "guest/1", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	if step, err = old.Stop(step.Next, epoch); err != nil {
		t.Fatal(err)
	}
	seen := statechart.Active
	look := statechart.Rewrite("look", func(s *statechart.Stored) error { seen = s.Status(); return nil })
	migration := statechart.Migration{From: 1, Changes: append([]statechart.Change{look}, fromV1.Changes...)}
	s, err := versioned(t, 2, wordsV2, guestV2{}, migration).Restore([]byte(text(t, step.Next)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "stopped", fmt.Sprint(seen, " ", s.Status, " ", s.State(), " ", s.Context), "stopped stopped [job.left.a job.right.idle] {Ada Byron}")

	final := func(version int, id string, migrations ...statechart.Migration) *statechart.Chart[nothing] {
		return statechart.Must(definition{ID: "f", Version: version, Initial: id, Migrations: migrations,
			States: []state{{ID: id, Type: statechart.Final, Output: func(nothing, Event) any { return "bye" }}}})
	}
	done, err := final(1, "end").Start(statechart.Start{Instance: "f/1", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := final(2, "over", statechart.Migration{From: 1, Changes: []statechart.Change{statechart.RenameState("end", "over")}}).Restore([]byte(text(t, done.Next)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "done", fmt.Sprint(ended.Status, ended.State(), string(ended.Output)), `done[over]"bye"`)
}

func TestMigrationWithoutChangesReadsFittingSnapshots(t *testing.T) {
	t.Parallel()
	stored := strings.Replace(text(t, full(t, everything(t), "CALL")), `"version":1`, `"version":3`, 1)
	def := everything(t).Definition()
	def.Version, def.Migrations = 4, []statechart.Migration{{From: 3}}
	s, err := compile(t, def).Restore([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "read", text(t, s), strings.Replace(stored, `"version":3`, `"version":4`, 1))
}

func TestMigrationChainsWithGapsAreRejected(t *testing.T) {
	t.Parallel()
	type m = statechart.Migration
	from := func(versions ...int) (migrations []m) {
		for _, version := range versions {
			migrations = append(migrations, m{From: version})
		}
		return migrations
	}
	with := func(changes ...statechart.Change) []m { return []m{{From: 2, Changes: changes}} }
	for _, c := range []struct {
		migrations []m
		findings   string
	}{
		{from(1, 2), ""},
		{from(2), ""},
		{from(0), "has a migration from version 0: count versions from 1"},
		{from(3), "has a migration from version 3, but is version 3 itself: raise Version above the versions that it migrates from"},
		{from(2, 4), "has a migration from version 4, but is version 3 itself: raise Version above the versions that it migrates from"},
		{from(2, 2), "has two migrations from version 2: put all changes into one"},
		{from(1), "has a migration from version 1, but none from version 2: add one, without Changes if the next version reads the same"},
		{with(statechart.Change{}), "has a migration from version 2 whose change 0 does nothing: make it with RenameState, MigrateContext or another constructor"},
		{with(statechart.MigrateContext[int, trace](nil)), "has a migration from version 2 whose change 0 does nothing: make it with RenameState, MigrateContext or another constructor"},
		{with(statechart.Rewrite("x", nil)), "has a migration from version 2 whose change 0 does nothing: make it with RenameState, MigrateContext or another constructor"},
		{with(statechart.RenameState("a", "")), `has an invalid change in the migration from version 2: rename state "a" to "": "" is not a state path: name two states by their paths, such as region.state`},
		{with(statechart.MoveState("a.", "b")), `has an invalid change in the migration from version 2: move from state "a." to "b": "a." is not a state path: name two states by their paths, such as region.state`},
		{with(statechart.RenameState("a", "a")), `has an invalid change in the migration from version 2: rename state "a" to "a": both paths are equal: name two states by their paths, such as region.state`},
		{with(statechart.MigrateContext(func(trace) int { return 1 })), "has migrations that end with the context type int, but its own is statechart_test.trace: let the last MigrateContext return the chart's context type"},
		{with(statechart.MigrateContext(func(trace) int { return 1 }), statechart.MigrateContext(func(int) trace { return trace{} })), ""},
	} {
		_, err := statechart.Compile(Def{ID: "c", Version: 3, Initial: "a", Migrations: c.migrations, States: []S{{ID: "a", Tags: settled}}})
		var refused *statechart.DefinitionError
		var got []string
		if errors.As(err, &refused) {
			for _, f := range refused.Findings {
				got = append(got, f.Problem+": "+f.Fix)
			}
		}
		equal(t, fmt.Sprint(len(c.migrations), " migrations"), strings.Join(got, "\n"), c.findings)
	}
}
