package statechart

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Mermaid returns a state diagram (https://mermaid.js.org/syntax/stateDiagram.html). Settled states have the class
// settled. States with the given paths have the class current.
func (c *chart) Mermaid(current ...string) string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	if doc := c.nodes[0].def.Doc; doc != "" {
		fmt.Fprintf(&b, "  accDescr: %s\n", strings.Join(strings.Fields(doc), " "))
	}
	if c.nodes[0].kind == parallel { // Mermaid allows regions only within a state.
		fmt.Fprintf(&b, "  state \"%s\" as %s\n  state %s {\n", c.id, mermaidRoot, mermaidRoot)
		c.writeStates(&b, 0, 2)
		b.WriteString("  }\n")
	} else {
		c.writeStates(&b, 0, 1)
	}
	for i := range c.nodes {
		n := &c.nodes[i]
		for k := range n.transitions {
			c.writeTransition(&b, &n.transitions[k])
		}
		for k := range n.always {
			c.writeTransition(&b, &n.always[k])
		}
	}
	var waiting []string
	for i := range c.nodes {
		if c.nodes[i].settled && c.nodes[i].kind == atomic {
			waiting = append(waiting, mermaidID(c.nodes[i].path))
		}
	}
	b.WriteString("  classDef settled fill:#e6f4ea,stroke:#137333\n")
	if len(waiting) > 0 {
		fmt.Fprintf(&b, "  class %s settled\n", strings.Join(waiting, ","))
	}
	var marked []string
	for i := 1; i < len(c.nodes); i++ {
		if slices.Contains(current, c.nodes[i].path) {
			marked = append(marked, mermaidID(c.nodes[i].path))
		}
	}
	if len(marked) > 0 {
		fmt.Fprintf(&b, "  classDef current fill:#fce8b2,stroke:#b06000,stroke-width:3px\n  class %s current\n", strings.Join(marked, ","))
	}
	return b.String()
}

// writeStates writes the children of a state and their descendants.
func (c *chart) writeStates(b *strings.Builder, state, depth int) {
	n := &c.nodes[state]
	indent := strings.Repeat("  ", depth)
	regions := 0
	for _, child := range n.children {
		node := &c.nodes[child]
		label := strings.ReplaceAll(node.def.ID, `"`, "#quot;")
		if node.kind == history {
			label = map[Type]string{ShallowHistory: "H", DeepHistory: "H*"}[node.def.Type]
		} else if n.kind == parallel {
			if regions > 0 {
				fmt.Fprintf(b, "%s--\n", indent)
			}
			regions++
		}
		fmt.Fprintf(b, "%sstate \"%s\" as %s\n", indent, label, mermaidID(node.path))
		if len(node.children) > 0 {
			fmt.Fprintf(b, "%sstate %s {\n", indent, mermaidID(node.path))
			c.writeStates(b, child, depth+1)
			fmt.Fprintf(b, "%s}\n", indent)
		}
		if node.kind == final {
			fmt.Fprintf(b, "%s%s --> [*]\n", indent, mermaidID(node.path))
		}
		if node.def.Doc != "" {
			fmt.Fprintf(b, "%snote right of %s : %s\n", indent, mermaidID(node.path), mermaidText(node.def.Doc))
		}
	}
	for _, child := range n.initial {
		if n.kind == compound {
			fmt.Fprintf(b, "%s[*] --> %s\n", indent, mermaidID(c.nodes[child].path))
		}
	}
}

func (c *chart) writeTransition(b *strings.Builder, t *transition) {
	label := strings.TrimPrefix(t.place, "on ")
	if t.guard.test != nil {
		label += " [" + t.guard.Name + "]"
	}
	for k, action := range t.actions {
		label += map[bool]string{true: " / ", false: ", "}[k == 0] + action.Name
	}
	targets := t.targets
	if len(targets) == 0 {
		targets = []int{t.source}
	}
	for _, target := range targets {
		from, to, text := mermaidID(c.nodes[t.source].path), mermaidID(c.nodes[target].path), mermaidText(label)
		if c.nodes[0].kind != parallel {
			// Mermaid draws no arrows from or to the diagram itself, which stands for the root. So an arrow from the
			// root begins at the start marker instead, and an arrow to the root ends at the root's initial state.
			if len(t.targets) == 0 && t.source == 0 {
				continue
			}
			if t.source == 0 {
				from, text = "[*]", "any state, "+text
			}
			if target == 0 {
				to = mermaidID(c.nodes[c.nodes[0].initial[0]].path)
			}
		}
		fmt.Fprintf(b, "  %s --> %s : %s\n", from, to, text)
	}
}

// mermaidRoot is the identifier of the chart itself. No path maps to it.
const mermaidRoot = "_root"

// mermaidWords are Mermaid's keywords in lower case. They are not valid identifiers.
var mermaidWords = []string{"accdescr", "acctitle", "class", "classdef", "click", "default", "href", "note", "scale", "state", "style"}

// mermaidID converts a path to an identifier. It keeps letters and digits and escapes everything else with '_', so that
// no two paths collide.
func mermaidID(path string) string {
	if path == "" {
		return mermaidRoot
	}
	if slices.Contains(mermaidWords, strings.ToLower(path)) {
		return path + "_"
	}
	var b strings.Builder
	for _, r := range path {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		case r == '.':
			b.WriteString("__")
		case r == '_':
			b.WriteString("_u")
		case r == '-':
			b.WriteString("_d")
		default:
			fmt.Fprintf(&b, "_x%x_", r)
		}
	}
	return b.String()
}

func mermaidText(text string) string {
	return strings.NewReplacer("#", "#35;", ":", "#58;", ";", "#59;", "<", "#lt;", ">", "#gt;", "\n", " ").Replace(text)
}
