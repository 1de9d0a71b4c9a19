package statecharttest

import (
	"os"
	"strings"
)

// CheckDiagram fails the test unless the first Mermaid diagram in a Markdown file equals the given diagram, such as the
// result of Chart.Mermaid. With update it writes the diagram instead.
func CheckDiagram(t TB, path, diagram string, update bool) {
	t.Helper()
	const begin, end = "```mermaid\n", "```\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("the diagram of the chart: %v", err)
	}
	before, rest, opened := strings.Cut(string(text), begin)
	shown, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("expected a diagram in %s, between %q and %q", path, begin, end)
	}
	diagram = strings.TrimSuffix(diagram, "\n") + "\n"
	if shown == diagram {
		return
	}
	if !update {
		t.Fatalf("%s shows another diagram: run the test with -update; expected\n%s", path, diagram)
	}
	if err := os.WriteFile(path, []byte(before+begin+diagram+end+after), 0o600); err != nil {
		t.Fatalf("the diagram of the chart: %v", err)
	}
}
