package job_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/settle-run/settle/machines/job"
)

var update = flag.Bool("update", false, "write the diagram into README.md")

func TestTheReadmeShowsTheChart(t *testing.T) {
	t.Parallel()
	const path, begin, end = "README.md", "```mermaid\n", "```\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	shown, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("expected a diagram in %s", path)
	}
	drawn := strings.TrimSuffix(job.New(newLauncher(t), job.Config{}).Mermaid(), "\n") + "\n"
	if shown == drawn {
		return
	}
	if !*update {
		t.Fatalf("%s shows another chart: run go test ./machines/job -update", path)
	}
	if err := os.WriteFile(path, []byte(before+begin+drawn+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
