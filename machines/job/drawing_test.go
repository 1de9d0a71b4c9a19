package job_test

import (
	"flag"
	"testing"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/statechart/chartsvg"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

var update = flag.Bool("update", false, "write chart.svg")

func TestTheDrawingShowsTheChart(t *testing.T) {
	t.Parallel()
	statecharttest.CheckDiagram(t, "chart.svg", chartsvg.Draw(job.New(newLauncher(t), job.Config{}).Outline(), chartsvg.Options{}), *update)
}
