package statecharttest

import (
	"errors"
	"io/fs"
	"os"
)

// CheckDiagram fails the test unless the file has the given content. The content is a diagram of the chart, such as the
// result of chartsvg.Draw or Chart.Mermaid. With update, CheckDiagram writes the file instead.
func CheckDiagram(t TB, path string, diagram []byte, update bool) {
	t.Helper()
	shown, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the diagram of the chart: %v", err)
	}
	if err == nil && string(shown) == string(diagram) {
		return
	}
	if !update {
		t.Fatalf("%s does not show the present chart: run the test with -update", path)
	}
	if err := os.WriteFile(path, diagram, 0o600); err != nil {
		t.Fatalf("the diagram of the chart: %v", err)
	}
}
