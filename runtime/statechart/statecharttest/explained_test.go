package statecharttest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// TestPanicIsExplainedInTests shows that a test prints the value and the location of a panic, which the error omits.
func TestPanicIsExplainedInTests(t *testing.T) {
	t.Parallel()
	chart := oneState(statechart.Update("crash", func(*struct{}) { panic(errors.New("no such desk")) }))
	got := failure(t, func(tb statecharttest.TB) {
		statecharttest.Play(tb, chart, statecharttest.Config{}).Send("go", nil)
	})
	first, where, _ := strings.Cut(got, "\n")
	if want := `action crash: panic: a value of the type *errors.errorString: no such desk`; !strings.HasSuffix(first, want) || !strings.Contains(where, "explained_test.go:") {
		t.Errorf("got %q and %q, want %s and this file", first, where, want)
	}
}
