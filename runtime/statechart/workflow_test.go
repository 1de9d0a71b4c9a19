package statechart_test

import (
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

var printed = statechart.PayloadOf[statechart.ExecutionEnded]()

// printing returns a chart that starts a workflow with the input.
func printing(workflow string, payloads statechart.Payloads, input func(nothing, statechart.Event) any) (*statechart.Chart[nothing], error) {
	payloads["PRINT"] = statechart.NoPayload()
	return statechart.Compile(statechart.Definition[nothing]{
		ID: "printer", Version: 1, Initial: "idle", Payloads: payloads,
		States: []statechart.State[nothing]{{ID: "idle", Tags: settled, On: []statechart.Transition[nothing]{
			{Event: "PRINT", Actions: []statechart.Action[nothing]{statechart.StartWorkflow(workflow, "PRINTED", input)}},
		}}},
	})
}

func TestWorkflowIsAnEffectWithItsInput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		input func(nothing, statechart.Event) any
		want  string
	}{
		"none":         {nil, `{"id":"2.0","kind":"start","event":{"type":"PRINTED"},"input":{},"name":"print"}`},
		"an object":    {func(nothing, statechart.Event) any { return map[string]int{"pages": 2} }, `{"id":"2.0","kind":"start","event":{"type":"PRINTED"},"input":{"pages":2},"name":"print"}`},
		"a list":       {func(nothing, statechart.Event) any { return []int{2} }, `encoding the input of the workflow "print": expected a type that marshals to a JSON object, got []int`},
		"the host's":   {func(nothing, statechart.Event) any { return map[string]int{"$settle": 2} }, `the key "$settle" is reserved for the host`},
		"null":         {func(nothing, statechart.Event) any { return map[string]int(nil) }, `expected a type that marshals to a JSON object`},
		"not any JSON": {func(nothing, statechart.Event) any { return func() {} }, `unsupported type: func()`},
	} {
		chart, err := printing("print", statechart.Payloads{"PRINTED": printed}, c.input)
		if err != nil {
			t.Fatal(err)
		}
		started, err := chart.Start(statechart.Start{At: epoch})
		if err != nil {
			t.Fatal(err)
		}
		step, err := chart.Step(started.Next, statechart.Event{Type: "PRINT", At: epoch})
		got := strings.Join(effectLines(t, step.Effects), " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || err == nil && got != c.want {
			t.Errorf("%s: want %s, got %s", name, c.want, got)
		}
	}
}

func TestWorkflowWithAnUndeclaredEndIsRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		workflow string
		payloads statechart.Payloads
		want     string
	}{
		"undeclared":      {"print", statechart.Payloads{}, `state "idle" on PRINT: the workflow "print" ends with the undeclared event type "PRINTED"`},
		"another payload": {"print", statechart.Payloads{"PRINTED": statechart.NoPayload()}, `ends with "PRINTED", which is declared differently`},
		"internal":        {"print", statechart.Payloads{"PRINTED": statechart.InternalOf[statechart.ExecutionEnded]()}, `ends with "PRINTED", which is declared differently`},
		"no name":         {"", statechart.Payloads{"PRINTED": printed}, `starts the workflow "", whose name has 0 bytes, not 1 to 80`},
		"an ARN":          {"arn:aws", statechart.Payloads{"PRINTED": printed}, `starts the workflow "arn:aws", whose name contains ':'`},
	} {
		if _, err := printing(c.workflow, c.payloads, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %s, got %v", name, c.want, err)
		}
	}
}

func TestDescribeListsWorkflows(t *testing.T) {
	t.Parallel()
	chart, err := printing("print", statechart.Payloads{"PRINTED": printed}, nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "workflows", strings.Join(chart.Describe().Workflows, " "), "print")
	equal(t, "ends", strings.Join(chart.Describe().WorkflowEnds, " "), "PRINTED")
	equal(t, "graph", strings.Contains(chart.Mermaid(), "PRINT / start print"), true)
	equal(t, "workflows of another", len(turnstile().Describe().Workflows), 0)
}
