package statelesshost

import (
	"cmp"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
)

// graph is a machine's graph. This package parses it from the diagram in the DOT language, because stateless has no
// other way to list transitions. If a version of stateless changes the form of its diagram, the graph has states but no
// edges.
type graph struct {
	states []graphState
	edges  []edge
	// Each pair in initial is a superstate and its initial substate.
	initial [][2]int
	// unknown lists the machine's states that Config.States does not list.
	unknown []string
}

type graphState struct {
	name           string
	path           []int
	settled, final bool
	after          []string
}

// edge is an arrow from one state to another.
type edge struct {
	from, to int
	label    string
}

var (
	graphNode = regexp.MustCompile(`^\t+("[^"]*"|[^\s"]+) \[label="`)
	graphEdge = regexp.MustCompile(`^\t("[^"]*"|[^\s"]+) -> ("[^"]*"|[^\s"]+) \[label=(.*)\];$`)
	// A function literal has a meaningless name, such as func1.
	unnamedAction = regexp.MustCompile(` / (?:func)?\d+(?:, (?:func)?\d+)*`)
	unnamedGuard  = regexp.MustCompile(`\[(?:func)?\d+\]`)

	graphCell = regexp.MustCompile(`<TR><TD(?: ALIGN="LEFT")?>(?:<B>(\w+)</B>|(.*?))</TD></TR>`)
)

// readGraph parses the result of StateMachine.ToGraph.
func readGraph[T any](m *Machine[T], dot string) *graph {
	g := &graph{}
	byText := map[string]int{}
	for k := range m.states {
		state := &m.states[k]
		shown := graphState{name: state.Name, path: state.path, settled: state.settled, final: state.Final}
		for _, after := range state.After {
			shown.after = append(shown.after, fmt.Sprintf("after %s, %s", after.ID, m.triggerName(fmt.Sprint(after.Trigger))))
		}
		g.states = append(g.states, shown)
		byText[fmt.Sprint(state.value)] = k
	}
	find := func(quoted string) (int, bool) {
		name := unquote(quoted)
		k, ok := byText[name]
		if !ok && !slices.Contains(g.unknown, name) {
			g.unknown = append(g.unknown, name)
		}
		return k, ok
	}
	for line := range strings.Lines(dot) {
		line = strings.TrimSuffix(line, "\n")
		found := graphEdge.FindStringSubmatch(line)
		if found == nil {
			// A node with the shape point is not a state, but the start of an initial transition.
			if node := graphNode.FindStringSubmatch(line); node != nil && !isCluster(node[1]) && !strings.Contains(line, "shape=point") {
				find(node[1])
			}
			continue
		}
		to, known := find(found[2])
		if !known {
			continue
		}
		if isCluster(found[1]) {
			super := strings.TrimSuffix(strings.TrimPrefix(unquote(found[1]), "cluster_"), "-init")
			if from, ok := byText[super]; ok && found[3] == `""` {
				g.initial = append(g.initial, [2]int{from, to})
				continue
			}
		}
		if from, known := find(found[1]); known {
			g.readLabel(m.triggerName, from, to, found[3])
		}
	}
	slices.Sort(g.unknown)
	slices.SortStableFunc(g.edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.label, b.label))
	})
	return g
}

// readLabel parses the table with which stateless labels the arrow between two states.
func (g *graph) readLabel(name func(string) string, from, to int, label string) {
	section := ""
	for _, cell := range graphCell.FindAllStringSubmatch(label, -1) {
		if cell[1] != "" {
			section = cell[1]
			continue
		}
		text := name(html.UnescapeString(html.UnescapeString(cell[2])))
		text = unnamedGuard.ReplaceAllString(unnamedAction.ReplaceAllString(text, ""), "[guard]")
		switch section {
		case "Ignored":
			continue
		case "Reentry":
			text += " (reentry)"
		case "Internal":
			text += " (internal)"
		}
		g.edges = append(g.edges, edge{from, to, text})
	}
}

// triggerName replaces the trigger at the start of the text with the event's type.
func (m *Machine[T]) triggerName(text string) string {
	for _, typ := range m.Events() {
		trigger := typ
		if t := m.config.Events[typ].Trigger; t != nil {
			trigger = fmt.Sprint(t)
		}
		if rest, ok := strings.CutPrefix(text, trigger); ok && (rest == "" || rest[0] == ' ') {
			return typ + rest
		}
	}
	return text
}

func isCluster(name string) bool { return strings.HasPrefix(unquote(name), "cluster_") }

func unquote(name string) string {
	if len(name) > 1 && name[0] == '"' {
		name = name[1 : len(name)-1]
	}
	return html.UnescapeString(name)
}

// mermaid returns the graph as a Mermaid state diagram, in the form of statechart.Chart.Mermaid. `current` names the
// current states.
func (g *graph) mermaid(initial int, current []string) string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	g.write(&b, nil, 1)
	at := g.states[initial].path
	fmt.Fprintf(&b, "  [*] --> %s\n", g.id(at[len(at)-1]))
	for _, e := range g.edges {
		fmt.Fprintf(&b, "  %s --> %s : %s\n", g.id(e.from), g.id(e.to), mermaidText.Replace(e.label))
	}
	b.WriteString("  classDef settled fill:#e6f4ea,stroke:#137333\n")
	class := func(name string, has func(graphState) bool) string {
		var ids []string
		for k := range g.states {
			if has(g.states[k]) {
				ids = append(ids, g.id(k))
			}
		}
		if len(ids) == 0 {
			return ""
		}
		return fmt.Sprintf("  class %s %s\n", strings.Join(ids, ","), name)
	}
	b.WriteString(class("settled", func(s graphState) bool { return s.settled }))
	if marked := class("current", func(s graphState) bool { return slices.Contains(current, s.name) }); marked != "" {
		b.WriteString("  classDef current fill:#fce8b2,stroke:#b06000,stroke-width:3px\n" + marked)
	}
	return b.String()
}

// write writes the substates of the last state in path, and their substates.
func (g *graph) write(b *strings.Builder, path []int, depth int) {
	indent := strings.Repeat("  ", depth)
	for k := range g.states {
		state := &g.states[k]
		if len(state.path) != len(path)+1 || !slices.Equal(state.path[:len(path)], path) {
			continue
		}
		fmt.Fprintf(b, "%sstate \"%s\" as %s\n", indent, strings.ReplaceAll(state.name, `"`, "#quot;"), g.id(k))
		if slices.ContainsFunc(g.states, func(s graphState) bool { return len(s.path) > depth && slices.Equal(s.path[:depth], state.path) }) {
			fmt.Fprintf(b, "%sstate %s {\n", indent, g.id(k))
			g.write(b, state.path, depth+1)
			for _, pair := range g.initial {
				if pair[0] == k {
					fmt.Fprintf(b, "%s  [*] --> %s\n", indent, g.id(pair[1]))
				}
			}
			fmt.Fprintf(b, "%s}\n", indent)
		}
		if state.final {
			fmt.Fprintf(b, "%s%s --> [*]\n", indent, g.id(k))
		}
		if len(state.after) > 0 {
			fmt.Fprintf(b, "%snote right of %s : %s\n", indent, g.id(k), mermaidText.Replace(strings.Join(state.after, ". ")))
		}
	}
}

var (
	mermaidText  = strings.NewReplacer("#", "#35;", ":", "#58;", ";", "#59;", "<", "#lt;", ">", "#gt;", "\n", " ")
	mermaidPlain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)
)

// id returns the identifier of a state. A plain name gets the suffix "_", so that it is not a Mermaid keyword. For any
// other name, the identifier is "_" and the state's index.
func (g *graph) id(k int) string {
	if name := g.states[k].name; mermaidPlain.MatchString(name) {
		return name + "_"
	}
	return fmt.Sprintf("_%d", k)
}
