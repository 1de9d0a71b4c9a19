package statechart_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type lampContext struct {
	Log []string `json:"log"`
}

func logged(text string) statechart.Action[lampContext] {
	return statechart.Assign("log "+text, func(c *lampContext, _ statechart.Event) { c.Log = append(c.Log, text) })
}

func TestSmoke(t *testing.T) {
	t.Parallel()
	type S = statechart.State[lampContext]
	type On = statechart.Transition[lampContext]
	chart := statechart.Must(statechart.Definition[lampContext]{
		ID: "lamp", Version: 1, Initial: "off",
		Payloads: statechart.Payloads{"toggle": statechart.NoPayload()},
		States: []S{
			{ID: "off", Tags: []string{"settled"}, Exit: []statechart.Action[lampContext]{logged("exit off")}, On: []On{{Event: "toggle", Target: "on"}}},
			{ID: "on", Initial: "dim", After: []statechart.After[lampContext]{{Delay: time.Minute, Target: "off"}}, States: []S{
				{ID: "dim", Tags: []string{"settled"}, On: []On{{Event: "toggle", Target: "bright"}}},
				{ID: "bright", Tags: []string{"settled"}},
			}, On: []On{{Event: "toggle", Target: "off", Actions: []statechart.Action[lampContext]{logged("off")}}}},
		},
	})
	step, err := chart.Start(statechart.Start{Instance: "lamp/1", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		step, err = chart.Step(step.Next, statechart.Event{Type: "toggle", At: epoch})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(step.Next)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := json.Marshal(step.Effects)
		t.Log(string(b), string(e))
		r, err := chart.Restore(b)
		if err != nil {
			t.Fatal(err)
		}
		b2, _ := json.Marshal(r)
		if string(b2) != string(b) {
			t.Fatal(string(b2))
		}
	}
}
