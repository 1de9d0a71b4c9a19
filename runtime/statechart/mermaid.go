package statechart

import (
	"fmt"
	"strings"
)

// Mermaid returns the chart as a Mermaid state diagram
// (https://mermaid.js.org/syntax/stateDiagram.html): settled states carry the class settled.
func (c *Chart[C]) Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	c.writeStates(&b, 0, 1)
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
	return b.String()
}

// writeStates writes the children of a state, nested as they are.
func (c *Chart[C]) writeStates(b *strings.Builder, state, depth int) {
	n := &c.nodes[state]
	indent := strings.Repeat("  ", depth)
	for k, child := range n.children {
		node := &c.nodes[child]
		if n.kind == parallel && k > 0 {
			fmt.Fprintf(b, "%s--\n", indent)
		}
		label := node.def.ID
		if node.kind == history {
			label = "H"
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

func (c *Chart[C]) writeTransition(b *strings.Builder, t *transition[C]) {
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
		if t.source == 0 {
			// Mermaid has no arrow from the diagram itself; its start stands for it.
			fmt.Fprintf(b, "  [*] --> %s : any state, %s\n", mermaidID(c.nodes[target].path), mermaidText(label))
			continue
		}
		fmt.Fprintf(b, "  %s --> %s : %s\n", mermaidID(c.nodes[t.source].path), mermaidID(c.nodes[target].path), mermaidText(label))
	}
}

// mermaidID makes a path an identifier: letters, digits and '_' stay, '-' and '.' become "_"
// doubled and tripled so that no two paths meet.
func mermaidID(path string) string {
	if path == "" {
		return "[*]"
	}
	return strings.NewReplacer("_", "_u", "-", "_d", ".", "__").Replace(path)
}

func mermaidText(text string) string {
	return strings.NewReplacer(":", "#58;", ";", "#59;", "\n", " ").Replace(text)
}
