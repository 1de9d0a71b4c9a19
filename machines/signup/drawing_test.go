package signup_test

import (
	"flag"
	"testing"

	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/statechart/chartsvg"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

var update = flag.Bool("update", false, "write chart.svg")

func TestTheDrawingShowsTheChart(t *testing.T) {
	t.Parallel()
	statecharttest.CheckDiagram(t, "chart.svg", chartsvg.Draw(signup.New(nil, nil, signup.Config{}).Outline(), chartsvg.Options{}), *update)
}
