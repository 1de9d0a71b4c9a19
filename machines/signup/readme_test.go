package signup_test

import (
	"flag"
	"testing"

	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

var update = flag.Bool("update", false, "write the diagram into README.md")

func TestTheReadmeShowsTheChart(t *testing.T) {
	t.Parallel()
	statecharttest.CheckDiagram(t, "README.md", signup.New(nil, nil, signup.Config{}).Mermaid(), *update)
}
