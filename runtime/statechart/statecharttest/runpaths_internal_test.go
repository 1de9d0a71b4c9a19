package statecharttest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/statechart"
)

// pathTest is a fake testing.TB for one path. It records the messages of the test.
type pathTest struct {
	testing.TB
	lines  []string
	failed bool
}

func (p *pathTest) Helper()      {}
func (p *pathTest) Failed() bool { return p.failed }
func (p *pathTest) Logf(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

func (p *pathTest) Errorf(format string, args ...any) {
	p.failed = true
	p.Logf(format, args...)
}

func (p *pathTest) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	runtime.Goexit()
}

// counter returns a chart whose context counts the event ADD with the given function.
func counter(count func(*int)) *statechart.Chart[int] {
	return statechart.Must(statechart.Definition[int]{
		ID: "counter", Version: 1, Initial: "counting", Payloads: statechart.Payloads{"ADD": statechart.NoPayload()},
		States: []statechart.State[int]{{
			ID: "counting", Tags: []string{statechart.Settled},
			On: []statechart.Transition[int]{{
				Event: "ADD", Guard: statechart.When("few", func(c int, _ statechart.Event) bool { return c < 3 }),
				Actions: []statechart.Action[int]{statechart.Assign("count", func(c *int, _ statechart.Event) { count(c) })},
			}},
		}},
	})
}

// run runs the longest path of the explored chart on the played chart.
func run(t *testing.T, explored, played *statechart.Chart[int], config PathConfig[int], check func(PathStep[int])) *pathTest {
	t.Helper()
	paths, err := ShortestPaths(explored, config)
	if err != nil {
		t.Fatal(err)
	}
	p := &pathTest{}
	done := make(chan struct{})
	go func() { // Fatalf ends the goroutine.
		defer close(done)
		runPath(p, played, config, paths[len(paths)-1], check)
	}()
	<-done
	return p
}

func add(c *int) { *c++ }

func TestInvariantIsCheckedAtEveryStep(t *testing.T) {
	t.Parallel()
	var steps []string
	config := PathConfig[int]{Invariant: func(s statechart.Snapshot[int]) error {
		if s.Context > 1 {
			return errors.New("expected at most 1")
		}
		return nil
	}}
	p := run(t, counter(add), counter(add), config, func(s PathStep[int]) {
		steps = append(steps, fmt.Sprint(s.Snapshot.Context, " of ", s))
	})
	wantSteps := []string{
		"0 of starts in counting", "1 of counting -> counting via ADD", "2 of counting -> counting via ADD",
	}
	if diff := cmp.Diff(wantSteps, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	want := []string{
		"counting -> counting via ADD: expected at most 1",
		"on this path:\nstarts in counting\ncounting -> counting via ADD\ncounting -> counting via ADD\n",
	}
	if diff := cmp.Diff(want, p.lines); diff != "" {
		t.Errorf("the path's test (-want +got):\n%s", diff)
	}
}

func TestValidPathPrintsNothing(t *testing.T) {
	t.Parallel()
	config := PathConfig[int]{Invariant: func(statechart.Snapshot[int]) error { return nil }}
	if p := run(t, counter(add), counter(add), config, func(PathStep[int]) {}); p.lines != nil {
		t.Errorf("expected nothing, got %v", p.lines)
	}
}

func TestPathWithADifferentResultFails(t *testing.T) {
	t.Parallel()
	p := run(t, counter(add), counter(func(c *int) { *c = 3 }), PathConfig[int]{}, func(PathStep[int]) {})
	want := []string{
		`counting -> counting via ADD: gave a different result when run: expected ["counting",1,null,null,null,null,null], got ["counting",3,null,null,null,null,null] in counting`,
		"on this path:\nstarts in counting\ncounting -> counting via ADD\n",
	}
	if diff := cmp.Diff(want, p.lines[:min(len(p.lines), 2)]); diff != "" {
		t.Errorf("the path's test (-want +got):\n%s", diff)
	}
}

func TestPathsRunWithThePlayersChecks(t *testing.T) {
	t.Parallel()
	calls := 0
	p := run(t, counter(add), counter(func(c *int) {
		if calls++; calls%2 == 1 {
			*c++
		}
	}), PathConfig[int]{}, func(PathStep[int]) {})
	if len(p.lines) == 0 || p.lines[0][:len("stepping counter/1")] != "stepping counter/1" {
		t.Errorf("expected the player to find that the step depends on more than its input, got %v", p.lines)
	}
}
