package xstatejson

import (
	"fmt"
	"strings"
)

// Problem is an error in a document, or a feature of a chart without an XState form.
type Problem struct {
	// Path is the location: in a document, states.a.on.E[0].guard; in a chart, the path of a state. Empty means the
	// whole document or chart.
	Path string
	// Text describes the expected and the actual value.
	Text string
}

// Error is returned by Read and Write. It holds all problems.
type Error struct {
	// What names the operation: "reading an XState machine".
	What     string
	Problems []Problem
}

// Error lists the problems, one per line.
func (e *Error) Error() string {
	var b strings.Builder
	problems := "problems"
	if len(e.Problems) == 1 {
		problems = "problem"
	}
	fmt.Fprintf(&b, "%s: %d %s:", e.What, len(e.Problems), problems)
	for _, p := range e.Problems {
		b.WriteString("\n  " + prefix(p.Path) + p.Text)
	}
	return b.String()
}
