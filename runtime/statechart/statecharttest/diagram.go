package statecharttest

import (
	"errors"
	"io/fs"
	"os"
)

// CheckDiagram fails the test unless the file has the given content: a diagram of the chart, such as the result of
// chartsvg.Draw or Chart.Mermaid. With update it writes the file instead. So a page that shows the file never shows an
// older chart.
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
