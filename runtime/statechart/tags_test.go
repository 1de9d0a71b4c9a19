package statechart_test

import (
	"slices"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestDescribeListsAllTags(t *testing.T) {
	t.Parallel()
	type state = statechart.State[struct{}]
	chart := statechart.Must(statechart.Definition[struct{}]{
		ID: "tagged", Version: 1, Initial: "on", Tags: []string{"ours"},
		Payloads: statechart.Payloads{"NEXT": statechart.NoPayload()},
		States: []state{
			{ID: "on", Tags: []string{"lit"}, Initial: "dim", States: []state{
				{ID: "dim", Tags: []string{statechart.Settled}, On: []statechart.Transition[struct{}]{{Event: "NEXT", Target: "bright"}}},
				{ID: "bright", Tags: []string{statechart.Settled, "dazzling"}, On: []statechart.Transition[struct{}]{{Event: "NEXT", Target: "#off"}}},
			}},
			{ID: "off", Type: statechart.Final},
		},
	})
	if want := []string{"dazzling", "lit", "ours", "settled"}; !slices.Equal(chart.Describe().Tags, want) {
		t.Errorf("expected %v, got %v", want, chart.Describe().Tags)
	}
}
