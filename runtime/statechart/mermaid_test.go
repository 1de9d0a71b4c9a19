package statechart_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

var update = flag.Bool("update", false, "rewrite the golden files of this package")

// diagrams returns charts that cover all features of a diagram, by the name of their golden file.
func diagrams(t *testing.T) map[string]*statechart.Chart[trace] {
	t.Helper()
	ends := []On{{Target: "over"}}
	return map[string]*statechart.Chart[trace]{
		"compound": compile(t, Def{ID: "demo", Version: 1, Initial: "wait",
			Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "B": statechart.NoPayload()},
			On:       []On{{Event: "B", Target: ".both"}, {Event: "GO", Actions: logs("count")}},
			States: []S{
				{ID: "wait", Tags: settled, Doc: "Waits; for #1:\nGO or <b>.", On: []On{
					{Event: "GO", Target: "both", Guard: statechart.And(yes, statechart.Not(no)), Actions: logs("one", "two")},
					{Event: "GO", Target: ""}}},
				{ID: "both", Type: statechart.Parallel, OnDone: []On{{Target: "call"}}, States: []S{
					{ID: "h", Type: statechart.DeepHistory},
					{ID: "left", Initial: "a_1", States: []S{{ID: "a_1", Tags: settled, On: []On{{Event: "GO", Target: "f"}}}, {ID: "f", Type: statechart.Final},
						{ID: "flat", Type: statechart.ShallowHistory}}},
					{ID: "right", Initial: "b", States: []S{{ID: "b", Tags: settled, On: []On{{Event: "GO", Target: "f"}}}, {ID: "f", Type: statechart.Final}}},
				}},
				{ID: "call", Invoke: []Invoke{service("", ends, []On{{Target: "both.h"}})}, After: []After{{Delay: time.Minute, Target: "state"}}},
				{ID: "state", Tags: settled, On: []On{{Event: "GO", Target: "#both.left.flat #both.right.f"}, {Event: "B", Target: "#demo"}}, Always: []On{{Guard: no, Target: `say"hi"`}}},
				{ID: `say"hi"`, Tags: settled},
				{ID: "over", Type: statechart.Final},
			}}),
		"parallel": compile(t, Def{ID: "two-regions", Version: 1, Parallel: true,
			Payloads: statechart.Payloads{"GO": statechart.NoPayload()},
			On:       []On{{Event: "GO", Target: ".a.y", Guard: yes}, {Event: "GO", Actions: logs("again")}},
			States: []S{
				{ID: "a", Initial: "x", States: []S{{ID: "x", Tags: settled}, {ID: "y", Always: []On{{Target: "x"}}}}},
				{ID: "b", Tags: settled},
			}}),
	}
}

func TestMermaidDrawsTheChart(t *testing.T) {
	t.Parallel()
	for name, chart := range diagrams(t) {
		path, got := filepath.Join("testdata", name+".mmd"), chart.Mermaid()
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(golden) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, golden)
		}
	}
}

func TestMermaidIdentifiersAreUnique(t *testing.T) {
	t.Parallel()
	ids := []string{"a-b", "a_b", "a_db", "a_ub", "a__b", "a+b", "a_x2b_b", "class", "Class", "class_", "note", "default", "_root", "_", "-"}
	def := Def{Initial: "a-b"}
	for _, id := range ids {
		def.States = append(def.States, S{ID: id})
		def.On = append(def.On, On{Event: "GO", Target: "." + id, Guard: yes})
	}
	def.States = append(def.States, S{ID: "a", Initial: "b", States: []S{{ID: "b"}}})
	def.On = append(def.On, On{Event: "GO", Target: ".a"})
	chart := compile(t, traced(def))
	names := map[string]string{}
	for line := range strings.Lines(chart.Mermaid()) {
		label, name, ok := strings.Cut(strings.TrimSpace(line), `" as `)
		if !ok {
			continue
		}
		if other, taken := names[name]; taken {
			t.Errorf("%s and %s are both %s", other, label, name)
		}
		names[name] = label
	}
	equal(t, "identifiers", len(names), len(ids)+2)
}

func TestMermaidMarksTheCurrentStates(t *testing.T) {
	t.Parallel()
	chart := diagrams(t)["compound"]
	plain := chart.Mermaid()
	for _, c := range []struct {
		state []string
		want  string
	}{
		{[]string{"both.right.b", "both.left.a_1"}, "  class both__left__a_u1,both__right__b current\n"},
		{[]string{"state"}, "  class state_ current\n"},
		{[]string{`say"hi"`, "gone"}, "  class say_x22_hi_x22_ current\n"},
		{[]string{"gone", ""}, ""},
		{nil, ""},
	} {
		added, ok := strings.CutPrefix(chart.Mermaid(c.state...), plain)
		if c.want != "" {
			c.want = "  classDef current fill:#fce8b2,stroke:#b06000,stroke-width:3px\n" + c.want
		}
		if !ok || added != c.want {
			t.Errorf("%q: expected the diagram and %q, got %q after it", c.state, c.want, added)
		}
	}
}
