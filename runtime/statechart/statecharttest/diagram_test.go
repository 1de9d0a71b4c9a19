package statecharttest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

const diagram = "stateDiagram-v2\n\t[*] --> only\n"

// fileWith writes the text to a file and returns its path.
func fileWith(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckDiagramAcceptsTheDiagramShown(t *testing.T) {
	t.Parallel()
	path := fileWith(t, "# One\n\n```mermaid\n"+diagram+"```\n\nThat is all.\n")
	statecharttest.CheckDiagram(t, path, diagram, false)
}

func TestCheckDiagramFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"another diagram": {"```mermaid\nstateDiagram-v2\n```\n", "shows another diagram"},
		"no diagram":      {"# One\n", "expected a diagram in"},
		"an open diagram": {"```mermaid\n" + diagram, "expected a diagram in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := fileWith(t, test.text)
			got := failure(t, func(t statecharttest.TB) { statecharttest.CheckDiagram(t, path, diagram, false) })
			if !strings.Contains(got, test.want) {
				t.Errorf("expected a failure that says %q, got %q", test.want, got)
			}
		})
	}
}

func TestCheckDiagramUpdatesOnlyTheDiagram(t *testing.T) {
	t.Parallel()
	path := fileWith(t, "# One\n\n```mermaid\nold\n```\n\nThat is all.\n")
	statecharttest.CheckDiagram(t, path, diagram, true)
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "# One\n\n```mermaid\n" + diagram + "```\n\nThat is all.\n"; string(got) != want {
		t.Errorf("expected %q, got %q", want, got)
	}
}
