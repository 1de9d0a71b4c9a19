package main

import (
	"fmt"
	"strings"
	"testing"
)

// goOutput returns the output of one round of the Go benchmarks. Settle takes `ours` nanoseconds, and the other engines
// take 1000.
func goOutput(ours, allocs int) string {
	var b strings.Builder
	b.WriteString("goos: linux\ncpu: Some CPU\n")
	line := func(name, engine string, ns, allocs int) {
		fmt.Fprintf(&b, "BenchmarkEvent/%s/%s-2   \t  12345\t   %d.0 ns/op\t  64 B/op\t  %d allocs/op\n", name, engine, ns, allocs)
	}
	for _, name := range []string{"flat", "nested3", "regions3", "persist", "large10", "large1000"} {
		line(name, settle, ours, allocs)
		line(name, stateless, 1000, 3)
		line(name, statekit, 1000, 8)
	}
	b.WriteString("PASS\n")
	return b.String()
}

const nodeOutput = `{"xstate":"5.0.0","node":"v20.0.0","nanoseconds":{"flat":1000,"nested3":1000,"regions3":1000,"persist":1000,"large10":1000,"large1000":1000}}`

func TestTableShowsMediansAndWhatIsMet(t *testing.T) {
	t.Parallel()
	var m measurements
	for _, ours := range []int{30, 900, 20} {
		if err := m.addGo(goOutput(ours, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := m.addNode(nodeOutput); err != nil {
			t.Fatal(err)
		}
	}
	table, err := m.table(3)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| case      | settle ns | allocs | compared with  |   ns | allocs | settle/it | required                     | met |",
		"| flat      |      30.0 |      0 | stateless      | 1000 |      3 |    1/33.3 | <= 1/10, 0 allocs            | yes |",
		"| nested3   |      30.0 |      0 | stateless      | 1000 |      3 |    1/33.3 | <= 1/20 (goal 1/40), 0 allocs| yes |",
		"|           |           |        | xstate         | 1000 |      ? |    1/33.3 | <= 1/5                       | yes |",
		"|           |           |        | settle in large10 | 30.0 |      0 |         1 | <= 2                         | yes |",
	} {
		if !strings.Contains(squeeze(table), squeeze(want)) {
			t.Errorf("expected the line\n%s\nin\n%s", want, table)
		}
	}
	if got, want := m.noisy(), "noisy: flat/settle took between 20.0 and 900 ns\n"; !strings.HasPrefix(got, want) || strings.Contains(got, xstate) {
		t.Errorf("expected %q first, and nothing about measurements with equal rounds, got\n%s", want, got)
	}
}

// squeeze removes spaces.
func squeeze(text string) string { return strings.ReplaceAll(text, " ", "") }

func TestRequirements(t *testing.T) {
	t.Parallel()
	b := bar{ratio: 1.0 / 20, goal: 1.0 / 40, noAllocs: true}
	for _, test := range []struct {
		measured, allocs float64
		want             string
	}{
		{1.0 / 41, 0, "yes, and the goal"},
		{1.0 / 30, 0, "yes"},
		{1.0 / 41, 1, "NO: allocs"},
		{1.0 / 19, 0, "NO: time"},
		{1.0 / 19, 1, "NO: time, allocs"},
	} {
		if got := b.met(test.measured, test.allocs); got != test.want {
			t.Errorf("%v of the time and %v allocations: expected %q, got %q", test.measured, test.allocs, test.want, got)
		}
	}
	if got := (bar{ratio: 2}).met(1.5, 12); got != "yes" {
		t.Errorf("without a goal: expected yes, got %q", got)
	}
}

func TestMissingMeasurementsAreErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		goText, nodeText string
		rounds           int
		want             string
	}{
		"a line that reads otherwise": {strings.Replace(goOutput(1, 0), "ns/op", "s/op", 1), nodeOutput, 1, "expected the result of BenchmarkEvent"},
		"a case without Settle":       {strings.ReplaceAll(goOutput(1, 0), "flat/settle", "flat/fsm"), nodeOutput, 1, `expected settle to do the case "flat"`},
		"a required case":             {strings.ReplaceAll(goOutput(1, 0), "regions3/statekit", "regions3/fsm"), nodeOutput, 1, "nothing measured regions3/statekit"},
		"a round":                     {goOutput(1, 0), nodeOutput, 2, "expected 2 measurements of flat/settle, got 1"},
		"a case of Node":              {goOutput(1, 0), strings.Replace(nodeOutput, `"flat":1000,`, "", 1), 1, `does not measure the case "flat"`},
		"an extra case in Node":       {goOutput(1, 0), strings.Replace(nodeOutput, `"flat"`, `"round":1,"flat"`, 1), 1, "expected cases.mjs to measure 6 cases, got 7"},
		"no JSON":                     {goOutput(1, 0), "Error", 1, "reading the output of cases.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m measurements
			err := m.addGo(test.goText)
			if err == nil {
				_, err = m.addNode(test.nodeText)
			}
			if err == nil {
				_, err = m.table(test.rounds)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("expected an error that says %q, got %v", test.want, err)
			}
		})
	}
}
