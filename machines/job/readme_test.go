package job_test

import (
	"flag"
	"testing"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

var update = flag.Bool("update", false, "write the diagram into README.md")

func TestTheReadmeShowsTheChart(t *testing.T) {
	t.Parallel()
	statecharttest.CheckDiagram(t, "README.md", job.New(newLauncher(t), job.Config{}).Mermaid(), *update)
}
