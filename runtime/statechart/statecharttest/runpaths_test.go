package statecharttest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

func TestEveryMaximalPathIsASubtest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		simple bool
		want   []string
	}{
		{false, []string{"a_->_b_via_NEXT: a b", "a_->_c_via_SKIP: a c"}},
		{true, []string{"b_->_c_via_NEXT: a b c", "a_->_c_via_SKIP: a c"}},
	} {
		var order []string
		states := map[string][]string{}
		t.Run("paths", func(t *testing.T) {
			statecharttest.RunPaths(t, skip(), statecharttest.PathConfig[int]{Simple: c.simple}, func(t *testing.T, step statecharttest.PathStep[int]) {
				t.Helper()
				name := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
				if states[name] == nil {
					order = append(order, name)
				}
				states[name] = append(states[name], strings.Join(step.Snapshot.State(), "+"))
			})
		})
		var got []string
		for _, name := range order {
			got = append(got, name+": "+strings.Join(states[name], " "))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("simple %t: subtests (-want +got):\n%s", c.simple, diff)
		}
	}
}

func TestRunPathsFillsTheCoverage(t *testing.T) {
	t.Parallel()
	var c statecharttest.Coverage
	config := statecharttest.PathConfig[int]{Start: statecharttest.Config{Coverage: &c}}
	var between string
	statecharttest.RunPaths(t, skip(), config, func(_ *testing.T, step statecharttest.PathStep[int]) {
		if step.Via == "NEXT" {
			between = require(&c)
		}
	})
	if diff := cmp.Diff([]string{"b on NEXT -> c"}, c.Missed()); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
	if between != "" {
		t.Errorf("expected nothing to be demanded before a path was run to its end, got %q", between)
	}
	if require(&c) == "" {
		t.Error("expected transitions that no path takes to fail the test")
	}
}
