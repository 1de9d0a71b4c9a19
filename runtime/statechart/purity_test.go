package statechart_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// once returns a chart that runs the action on GO.
func once[C any](t *testing.T, action func(*C)) *statechart.Chart[C] {
	t.Helper()
	chart, err := statechart.Compile(onceDef(action))
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

func onceDef[C any](action func(*C)) statechart.Definition[C] {
	return statechart.Definition[C]{ID: "c", Version: 1, Initial: "a", Payloads: statechart.Payloads{"GO": statechart.NoPayload()},
		States: []statechart.State[C]{{ID: "a", Tags: settled, On: []statechart.Transition[C]{{Event: "GO",
			Actions: []statechart.Action[C]{statechart.Assign("change", func(c *C, _ Event) { action(c) })}}}}}}
}

// spoils steps a chart with an action that changes the context. The snapshot before the step must stay unchanged, and
// the next snapshot must have the change.
func spoils[C any](t *testing.T, context C, action func(*C)) {
	t.Helper()
	chart := once(t, action)
	start, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	start.Next.Context = context
	before := text(t, start.Next)
	step, err := chart.Step(start.Next, Event{Type: "GO"})
	if err != nil {
		t.Fatal(err)
	}
	if after := text(t, start.Next); after != before {
		t.Errorf("the step changed its snapshot from %s to %s", before, after)
	}
	if reflect.DeepEqual(step.Next.Context, start.Next.Context) {
		t.Errorf("the step lost the change: %s", text(t, step.Next))
	}
	again, err := chart.Step(start.Next, Event{Type: "GO"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the step repeated", text(t, again), text(t, step))
}

type leaf struct {
	Numbers []int
	At      *time.Time
}

type tree struct {
	Name   string
	Leaf   leaf
	Next   *tree
	ByName map[string]*leaf
	Rows   [2][]int
	Any    any
	Sealed sealed
}

// sealed marshals its unexported field itself.
type sealed struct{ n int }

func (s sealed) MarshalJSON() ([]byte, error) { return []byte(fmt.Sprint(s.n)), nil }

func aTree() tree {
	at := epoch
	return tree{Name: "a", Sealed: sealed{1}, Leaf: leaf{Numbers: []int{1, 2, 3}[:2], At: &at},
		Next: &tree{Leaf: leaf{Numbers: []int{4}}}, ByName: map[string]*leaf{"x": {Numbers: []int{5}}},
		Rows: [2][]int{{6}, {7}}, Any: map[string]any{"list": []any{"y"}}}
}

func TestStepDoesNotChangeTheContextOfItsSnapshot(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*tree){
		func(c *tree) { c.Name = "b" },
		func(c *tree) { c.Leaf.Numbers[0] = 9 },
		func(c *tree) { c.Leaf.Numbers = append(c.Leaf.Numbers, 9) },
		func(c *tree) { *c.Leaf.At = c.Leaf.At.Add(time.Hour) },
		func(c *tree) { c.Next.Leaf.Numbers[0] = 9 },
		func(c *tree) { c.Next.Next = &tree{} },
		func(c *tree) { c.ByName["x"].Numbers[0] = 9 },
		func(c *tree) { c.ByName["y"] = &leaf{} },
		func(c *tree) { delete(c.ByName, "x") },
		func(c *tree) { c.Rows[1][0] = 9 },
		func(c *tree) { c.Any.(map[string]any)["list"].([]any)[0] = "z" },
		func(c *tree) { c.Sealed.n = 9 },
	} {
		spoils(t, aTree(), change)
	}
	spoils(t, [][]int{{1}}, func(c *[][]int) { (*c)[0][0] = 2 })
	spoils(t, []int{1}, func(c *[]int) { (*c)[0] = 2 })
	spoils(t, map[string]int{"a": 1}, func(c *map[string]int) { (*c)["a"] = 2 })
	spoils(t, &leaf{Numbers: []int{1}}, func(c **leaf) { (*c).Numbers[0] = 2 })
	spoils(t, [1]leaf{{Numbers: []int{1}}}, func(c *[1]leaf) { c[0].Numbers[0] = 2 })
	spoils[any](t, []any{1}, func(c *any) { (*c).([]any)[0] = 2 })
	spoils(t, 1, func(c *int) { *c = 2 })
}

func TestCopyKeepsEmptyAndNilDistinct(t *testing.T) {
	t.Parallel()
	chart := once(t, func(c *tree) { c.Name = "b" })
	start, _ := chart.Start(statechart.Start{})
	start.Next.Context = tree{Leaf: leaf{Numbers: []int{}}, ByName: map[string]*leaf{"nil": nil}}
	step, err := chart.Step(start.Next, Event{Type: "GO"})
	if err != nil {
		t.Fatal(err)
	}
	want := tree{Name: "b", Leaf: leaf{Numbers: []int{}}, ByName: map[string]*leaf{"nil": nil}}
	if !reflect.DeepEqual(step.Next.Context, want) {
		t.Errorf("got %+v, want %+v", step.Next.Context, want)
	}
}

// hidden cannot be copied by reflection, so it needs its method Clone.
type hidden struct{ numbers []int }

func (h hidden) Clone() hidden                { return hidden{slices.Clone(h.numbers)} }
func (h hidden) MarshalJSON() ([]byte, error) { return []byte(textOf(h.numbers)), nil }
func (h hidden) String() string               { return textOf(h.numbers) }
func textOf(numbers []int) string             { return strings.ReplaceAll(fmt.Sprint(numbers), " ", ",") }

// hiddenToo has Clone with a pointer receiver.
type hiddenToo struct{ names map[string]int }

func (h *hiddenToo) Clone() hiddenToo            { return hiddenToo{maps.Clone(h.names)} }
func (h hiddenToo) MarshalJSON() ([]byte, error) { return []byte(fmt.Sprint(len(h.names))), nil }

func TestContextsOwnCloneIsPreferred(t *testing.T) {
	t.Parallel()
	spoils(t, hidden{numbers: []int{1}}, func(c *hidden) { c.numbers[0] = 2 })
	spoils(t, hiddenToo{names: map[string]int{}}, func(c *hiddenToo) { c.names["a"] = 1 })
}

// refusesContext expects the finding that the chart's context cannot be copied.
func refusesContext[C any](t *testing.T, problem string) {
	t.Helper()
	_, err := statechart.Compile(onceDef(func(*C) {}))
	var definition *statechart.DefinitionError
	if !errors.As(err, &definition) {
		t.Fatalf("got %v, want a finding", err)
	}
	equal(t, "finding", definition.Findings[0], statechart.Finding{Problem: problem, Fix: "give the context type a method Clone() that returns a copy"})
}

func TestContextThatCannotBeCopiedIsRejected(t *testing.T) {
	t.Parallel()
	type unexported struct {
		A []int
		b []int // the type of A again, but unexported
	}
	type nested struct{ Deep map[string][]unexported }
	type pointer struct{ next *pointer }
	type channel struct{ C chan int }
	type function struct{ F []func() }
	refusesContext[unexported](t, "has a context whose unexported field statechart_test.unexported.b cannot be copied")
	refusesContext[nested](t, "has a context whose unexported field statechart_test.unexported.b cannot be copied")
	refusesContext[pointer](t, "has a context whose unexported field statechart_test.pointer.next cannot be copied")
	refusesContext[channel](t, "has a context with a chan int, which cannot be stored")
	refusesContext[function](t, "has a context with a func(), which cannot be stored")
	_, _ = unexported{}.b, pointer{}.next
}

func TestSameInputGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	def := regions([]On{{Event: "GO", Target: ".r2.b"}}, []On{{Event: "B", Target: "b"}}, []On{{Event: "B", Target: "b"}})
	for i := range def.States[0].States {
		region := &def.States[0].States[i]
		region.After = []After{{Delay: minutes(1)}, {Delay: minutes(2)}}
		region.States = append(region.States, S{ID: "h" + region.ID, Type: statechart.DeepHistory})
		region.On = append(region.On, On{Event: "H", Target: ".h" + region.ID})
	}
	events := []string{"B", "LEAVE", "BACK", "H", "GO", "B", "H"}
	replay := func() string {
		r := begin(t, def)
		all := text(t, r.step)
		for _, event := range events {
			all += text(t, r.send(event).step)
		}
		return all
	}
	first := replay()
	for range 50 {
		if again := replay(); again != first {
			t.Fatalf("the same input gave\n%s\nand\n%s", first, again)
		}
	}
}

func TestStepsOfOneSnapshotAreIndependent(t *testing.T) {
	t.Parallel()
	// Two steps of one snapshot must not append to a shared array.
	r := begin(t, Def{Initial: "a", After: []After{{Delay: minutes(1)}, {Delay: minutes(2)}, {Delay: minutes(3)}}, States: []S{
		{ID: "a", On: []On{{Event: "B", Target: "b"}, {Event: "C", Target: "c"}}},
		{ID: "b", After: []After{{Delay: minutes(4)}}}, {ID: "c", After: []After{{Delay: minutes(5)}}}}})
	base := r.step.Next
	b, _ := r.chart.Step(base, Event{Type: "B", At: epoch})
	wrote := text(t, b)
	if _, err := r.chart.Step(base, Event{Type: "C", At: epoch}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.chart.Step(base, Event{Type: statechart.TimerEvent, Timer: base.Timers[0].ID}); err != nil {
		t.Fatal(err)
	}
	equal(t, "the first step", text(t, b), wrote)
}

// ring is a context that can contain itself.
type ring struct {
	Next *ring `json:"next"`
}

func TestCyclicContextIsAnError(t *testing.T) {
	t.Parallel()
	chart := once(t, func(c *ring) { c.Next = c })
	start, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	start.Next.Context.Next = &ring{}
	start.Next.Context.Next.Next = start.Next.Context.Next
	_, err = chart.Step(start.Next, Event{Type: "GO"})
	if err == nil || !strings.Contains(err.Error(), "does it contain itself?") {
		t.Errorf("got %v, want an error that names the depth", err)
	}
}

func TestCloneOfAContextIsIndependent(t *testing.T) {
	t.Parallel()
	chart := once(t, func(*tree) {})
	original := aTree()
	written := text(t, original)
	cloned := chart.CloneContext(original)
	equal(t, "clone", text(t, cloned), written)
	cloned.Next.Leaf.Numbers[0], cloned.ByName["x"].Numbers[0], cloned.Rows[1][0] = 9, 9, 9
	equal(t, "original", text(t, original), written)
	flat := once(t, func(*count) {})
	equal(t, "flat", flat.CloneContext(count{7}), count{7})
}
