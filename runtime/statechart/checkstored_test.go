package statechart_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// unstored returns the problems that Compile finds in a chart with the context C.
func unstored[C any](t *testing.T) []string {
	t.Helper()
	_, err := statechart.Compile(onceDef(func(*C) {}))
	var definition *statechart.DefinitionError
	if err != nil && !errors.As(err, &definition) {
		t.Fatalf("got %v, want a *DefinitionError", err)
	}
	var problems []string
	if definition != nil {
		for _, finding := range definition.Findings {
			problems = append(problems, finding.Problem)
		}
	}
	return problems
}

type (
	lossy    struct{ n int }
	selfMade struct{ n int }
	// pointerMade marshals itself only if it is addressable.
	pointerMade struct{ N, n int }
	texted      struct{ n int }
	ownClone    struct{ n int }
	Open        struct{ A, B int }
	closed      struct{ A, C int }
)

func (s selfMade) MarshalJSON() ([]byte, error)     { return []byte(fmt.Sprint(s.n)), nil }
func (p *pointerMade) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `{"N":%d}`, p.n), nil }
func (t texted) MarshalText() ([]byte, error)       { return []byte(fmt.Sprint(t.n)), nil }
func (o ownClone) Clone() ownClone                  { return ownClone{o.n} }

func TestUnstoredContextFieldsAreFound(t *testing.T) {
	t.Parallel()
	lost := func(fields ...string) []string {
		var problems []string
		for _, field := range fields {
			problems = append(problems, "has a context whose field "+field+" is not stored")
		}
		return problems
	}
	type unexported struct {
		A int
		b int
	}
	type dashed struct {
		A int `json:"-"`
		B int `json:"-,"` //nolint:staticcheck // The key is "-".
		C int `json:"c,omitempty"`
	}
	type nested struct {
		A *lossy
		B map[string][]ownClone
		C [1]unexported
		D []*nested
	}
	type twice struct{ A, B lossy }
	type tagged struct {
		A int `json:"B"`
		B int
	}
	type embedding struct {
		Open
		closed
		N int
	}
	type shadowing struct {
		closed
		A int
	}
	type named struct {
		Open   `json:"open"`
		closed `json:"closed"`
	}
	type unreadable struct{ *closed }
	type skipped struct {
		Open `json:"-"`
		_    int
	}
	type stored struct {
		At   time.Time
		Due  *time.Time
		Self selfMade
		Ptr  pointerMade
		Text map[string]texted
		Any  any
	}
	type mapped struct{ M map[string]pointerMade }
	_, _, _ = unexported{}.b, lossy{}.n, pointerMade{}.N
	for _, c := range []struct{ got, want []string }{
		{unstored[lossy](t), lost("statechart_test.lossy.n")},
		{unstored[unexported](t), lost("statechart_test.unexported.b")},
		{unstored[dashed](t), lost("statechart_test.dashed.A")},
		{unstored[nested](t), lost("statechart_test.lossy.n", "statechart_test.ownClone.n", "statechart_test.unexported.b")},
		{unstored[twice](t), lost("statechart_test.lossy.n")},
		{unstored[ownClone](t), lost("statechart_test.ownClone.n")},
		{unstored[tagged](t), lost("statechart_test.tagged.B")},
		{unstored[embedding](t), lost("statechart_test.Open.A", "statechart_test.closed.A")},
		{unstored[shadowing](t), lost("statechart_test.closed.A")},
		{unstored[named](t), nil},
		{unstored[unreadable](t)[1:], lost("statechart_test.unreadable.closed")}, // [1:] skips the finding that the context cannot be copied.
		{unstored[skipped](t), lost("statechart_test.skipped.Open")},
		{unstored[stored](t), nil},
		{unstored[mapped](t), lost("statechart_test.pointerMade.n")},
		{unstored[map[string]int](t), nil},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("got %q\nwant %q", c.got, c.want)
		}
	}
}

func TestFindingOfAnUnstoredFieldNamesTheFix(t *testing.T) {
	t.Parallel()
	_, err := statechart.Compile(onceDef(func(*lossy) {}))
	equal(t, "message", fmt.Sprint(err), `chart "c": 1 finding:
  the chart has a context whose field statechart_test.lossy.n is not stored: export it with a unique JSON name, or add MarshalJSON and UnmarshalJSON to statechart_test.lossy`)
}

func TestContextIsMarshalledWithPointerMethods(t *testing.T) {
	t.Parallel()
	chart := once(t, func(p *pointerMade) { p.n = 7 })
	start, _ := chart.Start(statechart.Start{})
	step, err := chart.Step(start.Next, Event{Type: "GO"})
	if err != nil {
		t.Fatal(err)
	}
	restored, err := chart.Restore([]byte(text(t, step.Next)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "restored context", restored.Context.N, 7)
}

// Itself embeds itself. encoding/json writes its fields once.
type Itself struct {
	*Itself
	A int
}

func TestStructThatEmbedsItselfIsStored(t *testing.T) {
	t.Parallel()
	equal(t, "problems", len(unstored[Itself](t)), 0)
}
