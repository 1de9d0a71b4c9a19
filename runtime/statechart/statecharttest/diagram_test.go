package statecharttest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

func TestCheckDiagram(t *testing.T) {
	t.Parallel()
	path, diagram := filepath.Join(t.TempDir(), "chart.svg"), []byte("<svg></svg>\n")
	fails := func() {
		t.Helper()
		got := failure(t, func(t statecharttest.TB) { statecharttest.CheckDiagram(t, path, diagram, false) })
		if !strings.Contains(got, "run the test with -update") {
			t.Errorf("expected a failure that says how to update the file, got %q", got)
		}
	}
	fails() // The file does not exist.
	if err := os.WriteFile(path, []byte("<svg/>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails()
	statecharttest.CheckDiagram(t, path, diagram, true)
	statecharttest.CheckDiagram(t, path, diagram, false)
	if got, err := os.ReadFile(path); err != nil || string(got) != string(diagram) {
		t.Errorf("expected %q, got %q, %v", diagram, got, err)
	}
}
