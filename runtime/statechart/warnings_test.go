package statechart_test

import (
	"slices"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestWarningsNameDeadEndsAndUnhandledEvents(t *testing.T) {
	t.Parallel()
	deadEnd := func(path string) statechart.Finding {
		return statechart.Finding{State: path, Problem: "is settled, and nothing can leave it", Fix: "make it final, or add a transition"}
	}
	unhandled := statechart.Finding{Problem: `declares the event "NOISE", which no state handles`,
		Fix: "add a transition; to ignore the event on purpose, add one without target and actions to On of the chart"}
	noise := func(d *Def) { d.Payloads["NOISE"] = statechart.NoPayload() }
	for _, c := range []struct {
		name   string
		change func(d *Def, wait, next *S)
		want   []statechart.Finding
	}{
		{"dead end", nil, []statechart.Finding{deadEnd("next")}},
		{"nested dead end", func(_ *Def, _, next *S) { *next = S{ID: "next", Initial: "a", States: children} }, []statechart.Finding{deadEnd("next.b")}},
		{"transition", func(_ *Def, _, next *S) { next.On = []On{{Event: "GO", Target: "wait"}} }, nil},
		{"transition of the chart", func(d *Def, _, _ *S) { d.On = []On{{Event: "GO", Target: ".wait"}} }, nil},
		{"timer", func(_ *Def, _, next *S) { next.After = []After{{Delay: 1, Target: "wait"}} }, nil},
		{"final", func(_ *Def, _, next *S) { *next = S{ID: "next", Type: statechart.Final} }, nil},
		{"region", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Type: statechart.Parallel, States: []S{{ID: "a", Tags: settled}, {ID: "b", Tags: settled, On: []On{{Event: "GO", Target: "#wait"}}}}}
		}, nil},
		{"unhandled event", func(d *Def, _, next *S) { noise(d); next.Type, next.Tags = statechart.Final, nil }, []statechart.Finding{unhandled}},
		{"event ignored on purpose", func(d *Def, _, next *S) {
			noise(d)
			next.Type, next.Tags, d.On = statechart.Final, nil, []On{{Event: "NOISE"}}
		}, nil},
	} {
		chart, err := statechart.Compile(flawed(c.change))
		if err != nil {
			t.Errorf("%s: expected a chart, got %v", c.name, err)
		} else if got := chart.Describe().Warnings; !slices.Equal(got, c.want) {
			t.Errorf("%s: expected the warnings %v, got %v", c.name, c.want, got)
		}
	}
}
