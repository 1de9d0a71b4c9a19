package statechart_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/statechart"
)

type parcelOrder struct {
	Parcel string `json:"parcel"`
}

// shipping returns a chart that answers callers under the names packing, delivery and audit.
func shipping() statechart.Definition[parcelOrder] {
	return statechart.Definition[parcelOrder]{
		ID: "order", Version: 1, Initial: "placed",
		Payloads: statechart.Payloads{"pack": statechart.PayloadOf[parcelOrder](), "lose": statechart.NoPayload(), "hand_over": statechart.NoPayload()},
		States: []statechart.State[parcelOrder]{
			{ID: "placed", Tags: []string{statechart.Settled}, On: []statechart.Transition[parcelOrder]{
				{Event: "pack", Target: "packed", Actions: []statechart.Action[parcelOrder]{statechart.Assign("keep", func(o *parcelOrder, e parcelOrder) { *o = e })}},
				{Event: "lose", Target: "lost", Actions: []statechart.Action[parcelOrder]{
					statechart.Resolve(statechart.Resolution[parcelOrder]{Name: "audit", Outcome: "noted"}),
				}},
			}},
			{ID: "packed", Tags: []string{statechart.Settled, "shelf"},
				Resolve: []statechart.Resolution[parcelOrder]{{Name: "packing", Output: func(o parcelOrder, e statechart.Event) any { return o }}},
				On:      []statechart.Transition[parcelOrder]{{Event: "hand_over", Target: "delivered"}, {Event: "lose", Target: "lost"}}},
			{ID: "delivered", Type: statechart.Final,
				Resolve: []statechart.Resolution[parcelOrder]{{Name: "packing", Outcome: "packed"}, {Name: "delivery"}}},
			{ID: "lost", Type: statechart.Final, Resolve: []statechart.Resolution[parcelOrder]{
				{Name: "packing", Error: "Order.Lost", Cause: func(o parcelOrder, e statechart.Event) string { return "lost on " + e.Type }},
				{Name: "delivery", Error: "Order.Lost"},
			}},
		},
	}
}

// effectLines encodes effects as JSON lines.
func effectLines(t *testing.T, effects []statechart.Effect) (lines []string) {
	t.Helper()
	for _, e := range effects {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(text))
	}
	return lines
}

func TestEnteringAStateAnswersWaitingCallers(t *testing.T) {
	t.Parallel()
	chart := statechart.Must(shipping())
	at, err := chart.Start(statechart.Start{Instance: "order/1", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		event statechart.Event
		want  []string
	}{
		{statechart.Event{Type: "pack", Payload: parcelOrder{Parcel: "p-1"}}, []string{
			`{"id":"2.0","kind":"resolve","name":"packing","outcome":"packed","state":["packed"],"tags":["settled","shelf"],"output":{"parcel":"p-1"}}`,
		}},
		{statechart.Event{Type: "hand_over"}, []string{
			`{"id":"3.0","kind":"resolve","name":"packing","outcome":"packed","state":["delivered"]}`,
			`{"id":"3.1","kind":"resolve","name":"delivery","outcome":"delivered","state":["delivered"]}`,
		}},
	} {
		c.event.At = epoch
		next, err := chart.Step(at.Next, c.event)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, effectLines(t, next.Effects)); diff != "" {
			t.Errorf("%s: effects (-want +got):\n%s", c.event.Type, diff)
		}
		at = next
	}
}

func TestAnswerHasTheStateAfterTheTransition(t *testing.T) {
	t.Parallel()
	chart := statechart.Must(shipping())
	at, err := chart.Start(statechart.Start{Instance: "order/1", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	next, err := chart.Step(at.Next, statechart.Event{Type: "lose", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"id":"2.0","kind":"resolve","name":"audit","outcome":"noted","state":["lost"]}`,
		`{"id":"2.1","kind":"resolve","message":"lost on lose","name":"packing","state":["lost"],"error":"Order.Lost"}`,
		`{"id":"2.2","kind":"resolve","name":"delivery","state":["lost"],"error":"Order.Lost"}`,
	}
	if diff := cmp.Diff(want, effectLines(t, next.Effects)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// TestLaterCallersAreAnsweredByActiveStates restores the snapshot for each caller, as a host does.
func TestLaterCallersAreAnsweredByActiveStates(t *testing.T) {
	t.Parallel()
	chart := statechart.Must(shipping())
	at, err := chart.Start(statechart.Start{Instance: "order/1", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	resolving := func(name string) string {
		t.Helper()
		text, err := at.Next.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		restored, err := chart.Restore(text)
		if err != nil {
			t.Fatal(err)
		}
		answer, ok, err := chart.Resolving(restored, name, statechart.Event{Type: "late", At: epoch})
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return "waits"
		}
		return fmt.Sprint(answer.Outcome, answer.Error, " ", answer.State, " ", string(answer.Output), answer.Message)
	}
	check := func(name, want string) {
		t.Helper()
		if got := resolving(name); got != want {
			t.Errorf("%s in %v: want %q, got %q", name, at.Next.State(), want, got)
		}
	}
	step := func(event statechart.Event) {
		t.Helper()
		event.At = epoch
		if at, err = chart.Step(at.Next, event); err != nil {
			t.Fatal(err)
		}
	}
	check("packing", "waits")
	step(statechart.Event{Type: "pack", Payload: parcelOrder{Parcel: "p-1"}})
	check("packing", `packed [packed] {"parcel":"p-1"}`)
	check("delivery", "waits")
	step(statechart.Event{Type: "lose"})
	check("packing", "Order.Lost [lost] lost on late")
	check("audit", "waits")
}

func TestResolvesListsTheAnsweredNames(t *testing.T) {
	t.Parallel()
	want := []string{"audit", "packing", "delivery"}
	if got := statechart.Must(shipping()).Describe().Resolves; !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestFailedAnswerFailsTheStep(t *testing.T) {
	t.Parallel()
	for name, output := range map[string]func(parcelOrder, statechart.Event) any{
		"no JSON": func(parcelOrder, statechart.Event) any { return make(chan int) },
		"a panic": func(parcelOrder, statechart.Event) any { panic("no") },
	} {
		def := shipping()
		def.States[1].Resolve[0].Output = output
		chart := statechart.Must(def)
		at, err := chart.Start(statechart.Start{Instance: "order/1", At: epoch})
		if err != nil {
			t.Fatal(err)
		}
		var failure *statechart.StepError
		next, err := chart.Step(at.Next, statechart.Event{Type: "pack", Payload: parcelOrder{}, At: epoch})
		if !errors.As(err, &failure) || failure.State != "packed" || failure.Code != "action resolve packing" {
			t.Errorf("%s: want a StepError of packed in the action that resolves packing, got %v", name, err)
		}
		if state := next.Next.State(); !slices.Equal(state, []string{"placed"}) {
			t.Errorf("%s: want an unchanged snapshot, got %v", name, state)
		}
		if _, _, err := chart.Resolving(packed(t, chart), "packing", statechart.Event{Type: "late"}); !errors.As(err, &failure) || failure.Event != "late" {
			t.Errorf("%s: want a StepError of the event late, got %v", name, err)
		}
	}
}

// packed returns a snapshot in the state packed.
func packed(t *testing.T, chart *statechart.Chart[parcelOrder]) statechart.Snapshot[parcelOrder] {
	t.Helper()
	snapshot, err := chart.Restore([]byte(`{"machine": "order", "version": 1, "status": "active", "value": "packed", "context": {"parcel": ""}, "tags": [], "steps": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func TestResolutionsAreChecked(t *testing.T) {
	t.Parallel()
	cause := func(parcelOrder, statechart.Event) string { return "" }
	output := func(parcelOrder, statechart.Event) any { return nil }
	for _, c := range []struct {
		resolution statechart.Resolution[parcelOrder]
		want       string
	}{
		{statechart.Resolution[parcelOrder]{Outcome: "x"}, "resolves no name"},
		{statechart.Resolution[parcelOrder]{Name: "n"}, `resolves "n" with neither an outcome nor an error`},
		{statechart.Resolution[parcelOrder]{Name: "n", Outcome: "x", Cause: cause}, `resolves "n" with a Cause but no Error`},
		{statechart.Resolution[parcelOrder]{Name: "n", Error: "x", Output: output}, `resolves "n" with an Output and an Error`},
	} {
		def := shipping()
		def.States[0].On[1].Actions = []statechart.Action[parcelOrder]{statechart.Resolve(c.resolution)}
		if _, err := statechart.Compile(def); err == nil || !strings.Contains(err.Error(), "on lose: "+c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}
