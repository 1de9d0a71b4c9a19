package statechart_test

import (
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestAliasIsAnEffectWithItsName(t *testing.T) {
	t.Parallel()
	testAliasEffects(t, statechart.ClaimAlias)
}

func TestReleasedAliasIsAnEffectWithItsName(t *testing.T) {
	t.Parallel()
	testAliasEffects(t, statechart.ReleaseAlias)
}

// testAliasEffects checks the action whose effect has the given kind.
func testAliasEffects(t *testing.T, kind statechart.EffectKind) {
	t.Helper()
	type call struct {
		JobID string `json:"job_id"`
	}
	action := statechart.Alias[call]
	if kind == statechart.ReleaseAlias {
		action = statechart.Unalias[call]
	}
	chart := statechart.Must(statechart.Definition[call]{
		ID: "call", Version: 1, Initial: "a", Payloads: statechart.Payloads{"started": statechart.PayloadOf[call]()},
		States: []statechart.State[call]{{ID: "a", Tags: settled, On: []statechart.Transition[call]{{Event: "started", Actions: []statechart.Action[call]{
			statechart.Assign("keep", func(c *call, e call) { *c = e }),
			action(func(c call, _ statechart.Event) string { return c.JobID }),
		}}}}},
	})
	started, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	for alias, want := range map[string]string{
		"provider/7c":            `{"id":"2.0","kind":"` + string(kind) + `","name":"provider/7c"}`,
		"":                       "expected an alias of 1 to 256 bytes, got 0",
		strings.Repeat("x", 257): "expected an alias of 1 to 256 bytes, got 257",
		"a b":                    `got " " at byte 1`,
		"ä":                      `got "ä" at byte 0`,
	} {
		step, err := chart.Step(started.Next, statechart.Event{Type: "started", At: epoch, Payload: call{JobID: alias}})
		got := strings.Join(effectLines(t, step.Effects), " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || err == nil && got != want {
			t.Errorf("%q: want %s, got %s", alias, want, got)
		}
	}
}
