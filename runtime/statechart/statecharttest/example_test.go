package statecharttest_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// turnstile returns a chart that lets one person pass per coin.
func turnstile() *statechart.Chart[struct{}] {
	type (
		on    = statechart.Transition[struct{}]
		after = statechart.After[struct{}]
	)
	settled := []string{statechart.Settled}
	return statechart.Must(statechart.Definition[struct{}]{
		ID: "turnstile", Version: 1, Initial: "locked",
		Payloads: statechart.Payloads{"COIN": statechart.NoPayload(), "PUSH": statechart.NoPayload(), "CLOSE": statechart.NoPayload()},
		States: []statechart.State[struct{}]{
			{ID: "locked", Tags: settled, On: []on{{Event: "COIN", Target: "unlocked"}, {Event: "CLOSE", Target: "closed"}}},
			{ID: "unlocked", Tags: settled,
				On:    []on{{Event: "PUSH", Target: "locked"}},
				After: []after{{ID: "patience", Delay: time.Minute, Target: "locked"}}},
			{ID: "closed", Type: statechart.Final},
		},
	})
}

// example replaces the *testing.T of a test.
type example struct{}

func (example) Helper()                           {}
func (example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// A Coverage lists the states and transitions that its players have missed. A test requires full coverage with Require.
func ExampleCoverage() {
	var coverage statecharttest.Coverage
	p := statecharttest.Play(example{}, turnstile(), statecharttest.Config{Coverage: &coverage})
	p.Send("COIN", nil)
	p.Send("PUSH", nil)
	fmt.Print(coverage.Report())
	// Output:
	// turnstile version 1: 2 of 3 states, 2 of 4 transitions
	//   missed state closed
	//   missed locked on CLOSE -> closed
	//   missed unlocked after patience -> locked
}

func ExampleShortestPaths() {
	paths, err := statecharttest.ShortestPaths(turnstile(), statecharttest.PathConfig[struct{}]{})
	if err != nil {
		panic(err)
	}
	for _, path := range paths {
		fmt.Println("to", strings.Join(path.Snapshot().State(), ", "))
		fmt.Print(path)
	}
	// Output:
	// to locked
	// starts in locked
	// to closed
	// starts in locked
	// locked -> closed via CLOSE
	// to unlocked
	// starts in locked
	// locked -> unlocked via COIN
}

func ExampleFinalPaths() {
	paths, err := statecharttest.FinalPaths(turnstile(), statecharttest.PathConfig[struct{}]{
		Events: []statecharttest.Event{{Type: "COIN"}, {Type: "PUSH"}},
	})
	fmt.Println(len(paths), "paths")
	fmt.Println(err)
	// Output:
	// 0 paths
	// final states of chart turnstile without a path: unreached: closed
}
