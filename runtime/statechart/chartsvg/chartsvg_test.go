package chartsvg

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
)

// check draws a chart. It fails the test if the drawing has flaws or the SVG is not XML.
func check(t *testing.T, name string, chart *outline.Chart) *drawing {
	t.Helper()
	d := layout(chart)
	if found := flaws(d); len(found) > 0 {
		t.Errorf("%s, %d states, %d edges:\n%s", name, len(d.nodes), len(d.edges), brief(found))
	}
	for decoder := xml.NewDecoder(bytes.NewReader(d.write(Options{}))); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return d
		} else if err != nil {
			t.Errorf("%s: expected XML, got %v", name, err)
			return d
		}
	}
}

func TestShippedChartsHaveNoFlaws(t *testing.T) {
	t.Parallel()
	for _, m := range machines.All(machines.Services{}, machines.Settings{}) {
		d := check(t, m.ID(), m.Outline())
		if n := crossings(d); n > 2 {
			t.Errorf("%s: expected at most 2 crossings, got %d", m.ID(), n)
		}
		if first, again := Draw(m.Outline(), Options{}), Draw(m.Outline(), Options{}); !bytes.Equal(first, again) {
			t.Errorf("%s: expected the same bytes for the same chart", m.ID())
		}
		if d.width > 1200 {
			t.Errorf("%s: expected a width of at most 1200 pixels, got %.0f", m.ID(), d.width)
		}
	}
}

func TestRandomChartsHaveNoFlaws(t *testing.T) {
	t.Parallel()
	crossed, edges, combs := 0, 0, 0
	for seed := range uint64(1000) {
		chart := randomChart(seed, 4)
		d := check(t, fmt.Sprintf("seed %d", seed), chart)
		crossed += crossings(d)
		edges += len(d.edges)
		if takeComb(newGraph(chart)) != nil {
			combs++
		}
	}
	if combs < 100 {
		t.Errorf("expected at least 100 charts with a comb, got %d", combs)
	}
	if crossed > edges {
		t.Errorf("expected at most one crossing for each edge on average, got %d for %d edges", crossed, edges)
	}
}

func TestExtremeChartsHaveNoFlaws(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64)
	on := func(event string, targets ...string) []outline.Transition {
		return []outline.Transition{{Event: event, Targets: targets, Guard: &outline.Guard{Name: event}, Doc: event}}
	}
	wide := outline.State{ID: "wide", Initial: "s0"}
	for i := range 200 {
		wide.States = append(wide.States, outline.State{ID: fmt.Sprintf("s%d", i), On: on("NEXT", fmt.Sprintf("s%d", (i*7+1)%200))})
	}
	nested := denseChart(150, 3) // It has too many edges for several rounds of layout.
	nested.Root.States = []outline.State{{ID: "outer", Initial: "s0", States: nested.Root.States}, {ID: "other"}}
	nested.Root.States[0].States[7].On = on("LEAVE", "other")
	deep := outline.State{ID: "s8", On: on("UP", "s0")}
	for i := 7; i >= 0; i-- {
		deep = outline.State{ID: fmt.Sprintf("s%d", i), Initial: deep.ID, States: []outline.State{deep}}
	}
	for name, root := range map[string]outline.State{
		"empty": {}, "atomic root": {ID: "chart", On: on("E", "")},
		"long names": {ID: long, Initial: long, States: []outline.State{{ID: long, On: on(long, long+"y")}, {ID: long + "y"}}},
		"non-ASCII":  {ID: "Grüße", Initial: "日本語", States: []outline.State{{ID: "日本語", On: on("ход", "é\u0301🙂")}, {ID: "é\u0301🙂"}}},
		"markup": {ID: `<&>"'`, Doc: `<b>&"'`, Initial: `<a>`, States: []outline.State{
			{ID: `<a>`, Doc: "]]>", Tags: []string{`"<`}, On: on(`"&'<>`+"\x00\x1b\xff", "b")}, {ID: "b"}}},
		"200 states": wide, "200 states with 3 transitions each": denseChart(200, 3).Root, "a large container that an edge leaves": nested.Root,
		"8 levels":    {ID: "deep", Initial: "s0", States: []outline.State{deep}},
		"to the root": {ID: "chart", Initial: "a", On: on("AGAIN", ""), States: []outline.State{{ID: "a", On: on("RESTART", "")}}},
		"unknown":     {ID: "chart", Initial: "gone", States: []outline.State{{ID: "a", On: on("E", "gone")}}},
	} {
		check(t, name, &outline.Chart{Root: root})
	}
}

func TestEachStateAndTransitionIsAnElement(t *testing.T) {
	t.Parallel()
	for _, m := range machines.All(machines.Services{}, machines.Settings{}) {
		svg := string(Draw(m.Outline(), Options{}))
		for _, s := range m.Describe().States[1:] {
			if !strings.Contains(svg, fmt.Sprintf(` id="state:%[1]s" data-path="%[1]s"><title>%[1]s`, s.Path)) {
				t.Errorf("%s: expected an element with a title for the state %s", m.ID(), s.Path)
			}
		}
	}
	svg := string(Draw(signupLike(), Options{}))
	for _, want := range []string{
		`id="edge:a&gt;b" data-from="a" data-to="b"><title>a → b`, `data-event="GO"`, `data-event="after 1m"`, `data-event="done.invoke.a"`,
		`data-event="error.invoke.a"`, `> [ready]</tspan>`, `>⚙ mail</text>`, ">defer LATER</text>", ">#tag</text>", "STAY", " / count</tspan>",
		"class=\"state final failed\"", "class=\"state atomic settled\"", "any state",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("expected %q in\n%s", want, svg)
		}
	}
	if bare := string(Draw(signupLike(), Options{Bare: true})); strings.Contains(bare, "<style>") {
		t.Error("expected no style sheet")
	}
}

// baselines returns the y of the texts in a drawing, by text.
func baselines(svg []byte) map[string]float64 {
	found := map[string]float64{}
	for _, m := range regexp.MustCompile(`<text x="[^"]*" y="([^"]*)"[^>]*>([^<]*)</text>`).FindAllStringSubmatch(string(svg), -1) {
		found[m[2]], _ = strconv.ParseFloat(m[1], 64)
	}
	return found
}

func TestAGuardIsNearerToItsEventThanToOthers(t *testing.T) {
	t.Parallel()
	on := func(event string, target ...string) outline.Transition {
		return outline.Transition{Event: event, Targets: target, Guard: &outline.Guard{Name: event + "_with_a_long_guard"}}
	}
	for name, target := range map[string]string{"an edge": "b", "a loop": "a"} {
		y := baselines(Draw(&outline.Chart{Root: outline.State{ID: "chart", Initial: "a", States: []outline.State{
			{ID: "a", On: []outline.Transition{on("ONE", target), on("TWO", target)}}, {ID: "b"},
		}}}, Options{}))
		if before, after := y["[ONE_with_a_long_guard]"]-y["ONE"], y["TWO"]-y["[ONE_with_a_long_guard]"]; before < lineHeight || after < 1.4*before {
			t.Errorf("%s: expected the guard near to its event, got %v pixels below it and %v above the next event", name, before, after)
		}
	}
}

func TestExitsOfAStateAreInTheOrderOfEvaluation(t *testing.T) {
	t.Parallel()
	for _, m := range machines.All(machines.Services{}, machines.Settings{}) {
		if m.ID() != "upload" && m.ID() != "pipeline" {
			continue
		}
		d := layout(m.Outline())
		for _, e := range d.edges {
			for _, o := range d.edges {
				if e.precedes(o) && e.ground() == o.ground() && e.labelBox.X > o.labelBox.X {
					t.Errorf("%s: expected %s to the left of %s, which is evaluated later", m.ID(), e.name(), o.name())
				}
			}
		}
	}
}

func TestTheDrawingNamesWhatAColorOrAPlaceAloneWouldSay(t *testing.T) {
	t.Parallel()
	chart := &outline.Chart{Root: outline.State{ID: "chart", Initial: "a", States: []outline.State{
		{ID: "a", On: []outline.Transition{{Event: "GO", Targets: []string{"b.left.l2", "b.right.r2"}}, {Event: "FAIL", Targets: []string{"lost"}}}},
		{ID: "b", Type: int(statechart.Parallel), States: []outline.State{
			{ID: "left", Initial: "l1", On: []outline.Transition{{Event: "SKIP", Targets: []string{"b.left.l2"}}},
				States: []outline.State{{ID: "l1"}, {ID: "l2"}, {ID: "last", Type: int(statechart.ShallowHistory)}}},
			{ID: "right", Initial: "r1", States: []outline.State{{ID: "r1"}, {ID: "r2"}, {ID: "history", Type: int(statechart.DeepHistory)}}},
		}},
		{ID: "lost", Type: int(statechart.Final), Tags: []string{failedTag}},
	}}}
	check(t, "chart", chart)
	svg := string(Draw(chart, Options{}))
	for what, want := range map[string]string{
		"a cross on a failure":                            `<tspan class="error">✗ </tspan><tspan class="name">lost</tspan>`,
		"the other target on the first arrow":             `>and → r2</text>`,
		"the other target on the second arrow":            `>and → l2</text>`,
		"the name of a history state":                     `>H last</text>`,
		"no name of a history state that has no other ID": `>H*</text>`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("expected %s, %q, in\n%s", what, want, svg)
		}
	}
	for region, want := range map[string]int{"left": 2, "right": 1} { // The second one is the line below the header.
		_, group, _ := strings.Cut(svg, `id="state:b.`+region+`"`)
		group, _, _ = strings.Cut(group, "</g>")
		if got := strings.Count(group, `class="border"`); got != want {
			t.Errorf("expected %d borders of the region %s, got %d", want, region, got)
		}
	}
}

// signupLike returns a chart with each kind of transition.
func signupLike() *outline.Chart {
	one := func(target string) []outline.Transition { return []outline.Transition{{Targets: []string{target}}} }
	return &outline.Chart{Root: outline.State{ID: "chart", Initial: "a", On: []outline.Transition{{Event: "STOP", Targets: []string{"c"}}}, States: []outline.State{
		{ID: "a", Tags: []string{"tag"}, Defer: []string{"LATER"},
			On: []outline.Transition{
				{Event: "GO", Targets: []string{"b"}, Guard: &outline.Guard{Name: "ready"}},
				{Event: "STAY", Actions: []outline.Action{{Name: "count"}}},
			},
			Invoke: []outline.Invoke{{Service: "mail", OnDone: one("b"), OnError: one("c")}},
			After:  []outline.After{{ID: "1m", Transition: one("b")[0]}}},
		{ID: "b", Tags: []string{statechart.Settled}, Always: one("c")},
		{ID: "c", Type: int(statechart.Final), Tags: []string{failedTag}},
	}}}
}

func TestAnInstancesPathIsMarked(t *testing.T) {
	t.Parallel()
	var pipeline *statechart.Outline
	for _, m := range machines.All(machines.Services{}, machines.Settings{}) {
		if m.ID() == "pipeline" {
			pipeline = m.Outline()
		}
	}
	step := func(event, from, to string) Step { return Step{event, strings.Fields(from), strings.Fields(to)} }
	for _, c := range []struct {
		step Step
		want string
	}{
		{step("START", "run.new sla.off", "run.active.evaluating sla.watching.on_time"), "run.new>run.active sla.off>sla.watching"},
		{step("START", "run.new sla.off", "run.active.evaluating sla.none"), "run.new>run.active sla.off>sla.none"},
		{step("done.invoke.run.active.evaluating", "run.active.evaluating", "run.active.triggering"), "run.active.evaluating>run.active.triggering"},
		{step("after check", "run.active.job_running", "run.job_timed_out"), "run.active.job_running>run.job_timed_out"},
		{step("CANCEL", "run.active.not_ready", "run.cancelled"), "run.active>run.cancelled"},
		// When one region ends, the other one ends too.
		{step("done.invoke.run.active.checking", "run.active.checking sla.watching.on_time", "run.succeeded sla.meeting"),
			"run.active.checking>run.succeeded sla.watching.on_time>sla.meeting"},
		{step("UNKNOWN", "run.new", "run.new"), ""},
		{step("START", "run.gone", "run.gone"), ""},
	} {
		var got []string
		for _, taken := range NewPaths(pipeline).Of(c.step) {
			got = append(got, taken.From+">"+taken.To)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: expected the edges %q, got %q", c.step, c.want, got)
		}
	}
	svg := string(Draw(pipeline, Options{Active: []string{"run.new"},
		Path: []Step{step("START", "run.new", "run.active.evaluating")}}))
	for _, want := range []string{`class="state atomic active visited settled" id="state:run.new"`, `taken" id="edge:run.new&gt;run.active"`, "Active: run.new."} {
		if !strings.Contains(svg, want) {
			t.Errorf("expected %q in the drawing", want)
		}
	}
}

func TestAPathGoesOnThroughTheStatesThatAStepEnters(t *testing.T) {
	t.Parallel()
	on := func(event, target string) []outline.Transition {
		return []outline.Transition{{Event: event, Targets: []string{target}}}
	}
	paths := NewPaths(&outline.Chart{Internal: []string{"READY"}, Root: outline.State{ID: "root", Initial: "a", States: []outline.State{
		{ID: "a", On: on("GO", "b")},
		{ID: "b", Initial: "inner", States: []outline.State{{ID: "inner", Always: on("", "c")}}},
		{ID: "c", On: on("READY", "d")}, {ID: "d", On: on("STOP", "e")}, {ID: "e"},
	}}})
	for to, want := range map[string]string{"c": "a>b b.inner>c", "d": "a>b b.inner>c c>d", "e": ""} {
		var got []string
		for _, taken := range paths.Of(Step{"GO", []string{"a"}, []string{to}}) {
			got = append(got, taken.From+">"+taken.To)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("from a to %s: expected %q, got %q", to, want, got)
		}
	}
}

func BenchmarkDraw(b *testing.B) {
	draw := func(name string, chart *outline.Chart) {
		b.Run(fmt.Sprintf("%s, %d states, %d edges", name, len(newGraph(chart).nodes)-1, len(newGraph(chart).edges)), func(b *testing.B) {
			for b.Loop() {
				Draw(chart, Options{})
			}
		})
	}
	for _, m := range machines.All(machines.Services{}, machines.Settings{}) {
		draw(m.ID(), m.Outline())
	}
	var chart *outline.Chart
	for seed := uint64(0); chart == nil || len(newGraph(chart).nodes) != 51; seed++ { // the root and 50 states
		chart = randomChart(seed, 5)
	}
	draw("random", chart)
	draw("dense", denseChart(50, 2))
	draw("denser", denseChart(50, 3))
	draw("dense", denseChart(400, 3))
}
