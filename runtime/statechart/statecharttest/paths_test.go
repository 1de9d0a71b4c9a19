package statecharttest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// brief returns each path as the names of its steps: "a, NEXT b, NEXT c".
func brief[C any](paths []statecharttest.Path[C]) []string {
	var lines []string
	for _, path := range paths {
		var words []string
		for _, step := range path.Steps {
			words = append(words, strings.TrimSpace(step.Via+" "+strings.Join(step.Snapshot.State(), "+")))
		}
		lines = append(lines, strings.Join(words, ", "))
	}
	return lines
}

// skip returns the example chart from XState's documentation on path generation.
func skip() *statechart.Chart[int] {
	settled := []string{statechart.Settled}
	return statechart.Must(statechart.Definition[int]{
		ID: "skip", Version: 1, Initial: "a",
		Payloads: statechart.Payloads{"NEXT": statechart.NoPayload(), "SKIP": statechart.NoPayload()},
		States: []doorState{
			{ID: "a", Tags: settled, On: []doorOn{{Event: "NEXT", Target: "b"}, {Event: "SKIP", Target: "c"}}},
			{ID: "b", Tags: settled, On: []doorOn{{Event: "NEXT", Target: "c"}}},
			{ID: "c", Type: statechart.Final},
		},
	})
}

func TestPathsMatchXStatesDocumentation(t *testing.T) {
	t.Parallel()
	shortest, err := statecharttest.ShortestPaths(skip(), statecharttest.PathConfig[int]{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "a, NEXT b", "a, SKIP c"}, brief(shortest)); diff != "" {
		t.Errorf("shortest paths (-want +got):\n%s", diff)
	}
	simple, err := statecharttest.SimplePaths(skip(), statecharttest.PathConfig[int]{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "a, NEXT b", "a, NEXT b, NEXT c", "a, SKIP c"}, brief(simple)); diff != "" {
		t.Errorf("simple paths (-want +got):\n%s", diff)
	}
}

func TestEventsAreTriedInOrder(t *testing.T) {
	t.Parallel()
	simple, err := statecharttest.SimplePaths(skip(), statecharttest.PathConfig[int]{
		Events: []statecharttest.Event{{Type: "SKIP", Name: "skips"}},
		EventsIn: func(s statechart.Snapshot[int]) []statecharttest.Event {
			if s.Matches("a") {
				return []statecharttest.Event{{Type: "NEXT"}}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "a, skips c", "a, NEXT b"}, brief(simple)); diff != "" {
		t.Errorf("simple paths (-want +got):\n%s", diff)
	}
}

var twoPieces = []statecharttest.Event{{Type: "work", Payload: work{Pieces: 2}}, {Type: "rest"}}

func TestServicesEndInEveryWayAndTimersFire(t *testing.T) {
	t.Parallel()
	paths, err := statecharttest.ShortestPaths(bench(t, nil), statecharttest.PathConfig[workbench]{Events: twoPieces})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"idle",
		"idle, work working",
		"idle, work working, done.invoke.working idle",
		"idle, work working, error.invoke.working idle", // The context contains the error.
		"idle, work working, working after 1m0s too_slow",
		"idle, work working, error.invoke.working idle, work working",
		"idle, work working, error.invoke.working idle, work working, working after 1m0s too_slow",
	}
	if diff := cmp.Diff(want, brief(paths)); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}

	late := paths[6]
	var times []time.Duration
	for _, step := range late.Steps {
		times = append(times, step.Event.At.Sub(statecharttest.Epoch))
	}
	if diff := cmp.Diff([]time.Duration{0, 0, 0, 0, time.Minute}, times); diff != "" {
		t.Errorf("times of the steps (-want +got):\n%s", diff)
	}
	lines := "starts in idle\n" +
		"idle -> working via work\n" +
		"working -> idle via error.invoke.working\n" +
		"idle -> working via work\n" +
		"working -> too_slow via working after 1m0s\n"
	if diff := cmp.Diff(lines, late.String()); diff != "" {
		t.Errorf("the last path (-want +got):\n%s", diff)
	}
	if got := paths[2].Steps[2].Effects; len(got) != 1 || got[0].To != "store/1" {
		t.Errorf("expected the step to have the effect that it led to, got %v", got)
	}
	if got := late.Snapshot().Status; got != statechart.Done {
		t.Errorf("expected the path's snapshot to be done, got %s", got)
	}
}

func TestOutcomesDetermineHowServicesEnd(t *testing.T) {
	t.Parallel()
	called := 0
	chart := bench(t, func(context.Context, statechart.Call) error { called++; return nil })
	paths, err := statecharttest.ShortestPaths(chart, statecharttest.PathConfig[workbench]{
		Events: twoPieces,
		Outcomes: func(i statechart.Invocation) []statecharttest.Outcome {
			if i.Service != "produce" {
				t.Errorf("asked for the outcomes of %q", i.Service)
			}
			return []statecharttest.Outcome{
				{Name: "jammed", Err: errors.New("jam")},
				{Name: "refused", Err: statechart.Permanent(errors.New("no"))},
				{Result: 7},
			}
		},
		StopWhen: func(s statechart.Snapshot[workbench]) bool { return s.Context.Error != "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"idle",
		"idle, work working",
		"idle, work working, error.invoke.working, jammed idle",
		"idle, work working, error.invoke.working, refused idle",
		"idle, work working, done.invoke.working idle",
		"idle, work working, working after 1m0s too_slow",
	}
	if diff := cmp.Diff(want, brief(paths)); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if called > 0 {
		t.Errorf("expected the service not to be called, it was %d times", called)
	}
	// The retry policy allows two attempts. A permanent error ends the service after the first.
	for i, want := range map[int]statechart.ServiceError{
		2: {Service: "produce", Message: "jam", Attempts: 2},
		3: {Service: "produce", Message: "no", Attempts: 1, Permanent: true},
	} {
		if diff := cmp.Diff(any(want), paths[i].Steps[2].Event.Payload); diff != "" {
			t.Errorf("path %d: payload (-want +got):\n%s", i, diff)
		}
	}
	if got := paths[4].Steps[2].Event.Payload; got != 7 {
		t.Errorf("expected the result 7, got %v", got)
	}
}

func TestServiceIsCalledAsOnAHost(t *testing.T) {
	t.Parallel()
	var calls []statechart.Call
	paths, err := statecharttest.ShortestPaths(bench(t, func(_ context.Context, call statechart.Call) error {
		calls = append(calls, call)
		panic("dropped")
	}), statecharttest.PathConfig[workbench]{
		Events:   twoPieces,
		Outcomes: func(statechart.Invocation) []statecharttest.Outcome { return []statecharttest.Outcome{{}} },
		StopWhen: func(s statechart.Snapshot[workbench]) bool { return s.Context.Error != "" },
		Start:    statecharttest.Config{Instance: "bench/7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]statechart.Call{{Instance: "bench/7", Key: "bench/7/2.1", Attempt: 1}}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got, want := paths[2].Snapshot().Context.Error, "panic: a value of the type string"; got != want {
		t.Errorf("expected the error %q, got %q", want, got)
	}
}

func TestByValueIgnoresTheContext(t *testing.T) {
	t.Parallel()
	paths, err := statecharttest.ShortestPaths(bench(t, nil), statecharttest.PathConfig[workbench]{
		Events: twoPieces, Identity: statecharttest.ByValue[workbench],
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"idle", "idle, work working", "idle, work working, working after 1m0s too_slow"}
	if diff := cmp.Diff(want, brief(paths)); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

// When the timer fires, the value and the context stay the same, but the set of pending timers differs.
func TestByContextDistinguishesPendingTimersAndServices(t *testing.T) {
	t.Parallel()
	type (
		after  = statechart.After[int]
		invoke = statechart.Invoke[int]
	)
	nothing := statechart.ServiceFunc("nothing", func(context.Context, int, statechart.Call) (int, error) { return 0, nil })
	chart := statechart.Must(statechart.Definition[int]{
		ID: "waits", Version: 1, Initial: "both",
		States: []doorState{
			{ID: "both",
				Invoke: []invoke{
					{ID: "first", Service: nothing, OnDone: []doorOn{{}}, OnError: []doorOn{{Target: "over"}}},
					{ID: "second", Service: nothing, OnDone: []doorOn{{Target: "idle", Guard: statechart.When("firstIsDone", func(int, statechart.Event) bool { return true })}, {}}, OnError: []doorOn{{Target: "over"}}},
				}},
			{ID: "idle", Tags: []string{statechart.Settled}, After: []after{{Delay: 2 * time.Second, Target: "over"}, {Delay: time.Second}}},
			{ID: "over", Type: statechart.Final},
		},
	})
	paths, err := statecharttest.ShortestPaths(chart, statecharttest.PathConfig[int]{
		Outcomes: func(statechart.Invocation) []statecharttest.Outcome { return []statecharttest.Outcome{{}} },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"both",
		"both, done.invoke.first both",
		"both, done.invoke.second idle",
		"both, done.invoke.second idle, idle after 1s idle",
		"both, done.invoke.second idle, idle after 1s idle, idle after 2s over",
	}
	if diff := cmp.Diff(want, brief(paths)); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestByContextDistinguishesHistory(t *testing.T) {
	t.Parallel()
	paths, err := statecharttest.ShortestPaths(door(), statecharttest.PathConfig[int]{
		Events: []statecharttest.Event{{Type: "FIRE"}, {Type: "CLOSE"}, {Type: "OPEN"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"closed",
		"closed, FIRE open.locked_open",
		"closed, OPEN open.ajar",
		"closed, FIRE open.locked_open, FIRE open.locked_open", // FIRE leaves and re-enters open, so history is recorded.
		"closed, FIRE open.locked_open, CLOSE closed",
		"closed, OPEN open.ajar, FIRE open.locked_open",
		"closed, OPEN open.ajar, CLOSE closed",
		"closed, OPEN open.ajar, CLOSE closed, OPEN open.ajar",
	}
	if diff := cmp.Diff(want, brief(paths)); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestExceedingALimitReturnsNoPaths(t *testing.T) {
	t.Parallel()
	knock := []statecharttest.Event{{Type: "KNOCK"}} // The door counts two knocks, and then opens.
	for _, c := range []struct {
		name   string
		config statecharttest.PathConfig[int]
		want   string
	}{
		{"paths", statecharttest.PathConfig[int]{Events: knock, PathsMax: 3}, "exploring chart door: too many paths: more than 3 (PathConfig.PathsMax)"},
		{"steps", statecharttest.PathConfig[int]{Events: knock, StepsMax: 2}, "exploring chart door: too many paths: one takes more than 2 steps (PathConfig.StepsMax)"},
		{"enough", statecharttest.PathConfig[int]{Events: knock, PathsMax: 4, StepsMax: 3}, ""},
	} {
		for name, find := range map[string]func(*statechart.Chart[int], statecharttest.PathConfig[int]) ([]statecharttest.Path[int], error){
			"shortest": statecharttest.ShortestPaths[int], "simple": statecharttest.SimplePaths[int],
		} {
			paths, err := find(door(), c.config)
			switch {
			case c.want == "" && (err != nil || len(paths) != 4):
				t.Errorf("%s, %s: expected 4 paths, got %d and %v", c.name, name, len(paths), err)
			case c.want != "" && (!errors.Is(err, statecharttest.ErrPathLimit) || !strings.HasPrefix(err.Error(), c.want) || paths != nil):
				t.Errorf("%s, %s: expected %q, got %d paths and %v", c.name, name, c.want, len(paths), err)
			}
		}
	}
}

func TestErrorContainsThePath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		events []statecharttest.Event
		want   string
	}{
		{[]statecharttest.Event{{Type: "KNOCK"}, {Type: "KICK"}}, `exploring chart door: KICK: chart door, state "closed", event "KICK": action broken: out of order`},
		{[]statecharttest.Event{{Type: "BELL"}}, `exploring chart door: trying the event "BELL", see PathConfig.Events: undeclared event type: chart door has no event "BELL"; it declares CLOSE, FIRE, KICK, KNOCK, OPEN`},
		{[]statecharttest.Event{{Type: "KNOCK", Payload: 3}}, `exploring chart door: trying the event "KNOCK", see PathConfig.Events: expected a payload that marshals to a JSON object, got 3`},
	} {
		paths, err := statecharttest.ShortestPaths(door(), statecharttest.PathConfig[int]{Events: c.events})
		if c.want += "; the path so far is\nstarts in closed\n"; err == nil || err.Error() != c.want || paths != nil {
			t.Errorf("expected %q, got %d paths and %v", c.want, len(paths), err)
		}
	}
}

// shop returns a chart with final states that are easy to miss. The chart leaves its nested final states as soon as it
// enters them. From trial.tried, it returns to a known state. The final state stolen is unreachable.
func shop() *statechart.Chart[int] {
	settled := []string{statechart.Settled}
	never := statechart.When("never", func(int, statechart.Event) bool { return false })
	return statechart.Must(statechart.Definition[int]{
		ID: "shop", Version: 1, Initial: "order",
		Payloads: statechart.Payloads{"PAY": statechart.NoPayload(), "STEAL": statechart.NoPayload(), "TRY": statechart.NoPayload()},
		States: []doorState{
			{ID: "order", Initial: "filling", OnDone: []doorOn{{Target: "paid"}}, States: []doorState{
				{ID: "filling", Tags: settled, On: []doorOn{
					{Event: "PAY", Target: "complete"},
					{Event: "TRY", Target: "#trial"},
					{Event: "STEAL", Target: "#stolen", Guard: never},
				}},
				{ID: "complete", Type: statechart.Final},
			}},
			{ID: "trial", Initial: "tried", OnDone: []doorOn{{Target: "order"}}, States: []doorState{{ID: "tried", Type: statechart.Final}}},
			{ID: "paid", Type: statechart.Final},
			{ID: "stolen", Type: statechart.Final},
		},
	})
}

func TestFinalPathsNameUnreachedStates(t *testing.T) {
	t.Parallel()
	paths, err := statecharttest.FinalPaths(shop(), statecharttest.PathConfig[int]{})
	want := []string{
		"order.filling, PAY paid",          // the path to order.complete
		"order.filling, TRY order.filling", // the path to trial.tried
		"order.filling, PAY paid",
	}
	if diff := cmp.Diff(want, brief(paths)); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	message := "final states of chart shop without a path: unreached: stolen"
	if !errors.Is(err, statecharttest.ErrUnreached) || err.Error() != message {
		t.Errorf("expected %q, got %v", message, err)
	}
	paths, err = statecharttest.FinalPaths(skip(), statecharttest.PathConfig[int]{})
	if got := brief(paths); err != nil || !slices.Equal(got, []string{"a, SKIP c"}) {
		t.Errorf("expected the shortest path to c, got %v and %v", got, err)
	}
}

func TestEventsAreTriedOnlyInSettledStates(t *testing.T) {
	t.Parallel()
	_, err := statecharttest.ShortestPaths(bench(t, nil), statecharttest.PathConfig[workbench]{
		EventsIn: func(s statechart.Snapshot[workbench]) []statecharttest.Event {
			if !s.Settled() {
				t.Errorf("asked for the events in %v", s.State())
			}
			return twoPieces
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestClockAdvancesAlongAPath(t *testing.T) {
	t.Parallel()
	note := []statechart.Action[int]{statechart.Assign("note", func(c *int, e statechart.Event) { *c = int(e.At.Sub(statecharttest.Epoch).Seconds()) })}
	settled := []string{statechart.Settled}
	chart := statechart.Must(statechart.Definition[int]{
		ID: "clock", Version: 1, Initial: "waits", Payloads: statechart.Payloads{"GO": statechart.NoPayload()},
		States: []doorState{
			{ID: "waits", Tags: settled, After: []statechart.After[int]{{Delay: time.Minute, Target: "waited"}}},
			{ID: "waited", Tags: settled, On: []doorOn{{Event: "GO", Target: "over", Actions: note}}},
			{ID: "over", Type: statechart.Final},
		},
	})
	statecharttest.RunPaths(t, chart, statecharttest.PathConfig[int]{}, func(t *testing.T, step statecharttest.PathStep[int]) {
		t.Helper()
		if got := step.Snapshot.Context; step.Via == "GO" && got != 60 {
			t.Errorf("expected GO to come after a minute, it came after %d seconds", got)
		}
	})
}
