package xstatejson

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a document, or that XState has no form for.
type Problem struct {
	// Path is where: in a document states.a.on.E[0].guard, in a chart the path of a state; empty
	// for the whole.
	Path string
	// Text says what was expected and what came.
	Text string
}

// Error is returned by Read and Write: all that is wrong.
type Error struct {
	// What says what was done: "reading an XState machine".
	What     string
	Problems []Problem
}

// Error lists the problems, a line each.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d problems:", e.What, len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + prefix(p.Path) + p.Text)
	}
	return b.String()
}
