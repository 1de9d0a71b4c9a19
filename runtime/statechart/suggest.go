package statechart

import (
	"fmt"
	"slices"
	"strings"
)

// suggestionsMax is the maximum number of names that didYouMean suggests.
const suggestionsMax = 3

// The compiler suggests names only for the first suggestedFindingsMax findings, and only for a name of at most
// suggestedBytesMax bytes. Comparing a name with all names of a large chart is slow.
const (
	suggestedBytesMax    = 64
	suggestedFindingsMax = 16
)

// didYouMean returns a question to append to a problem: ` (did you mean "a" or "b"?)`. Without names it returns "".
func didYouMean(names ...string) string {
	if len(names) == 0 {
		return ""
	}
	quoted := make([]string, min(len(names), suggestionsMax))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%q", names[i])
	}
	return " (did you mean " + strings.Join(quoted, " or ") + "?)"
}

// closest returns the candidate that is most similar to the name. It returns none if every edit distance exceeds 2 or
// half the length of the shorter name. It ignores case. The first of equally similar candidates wins.
func closest(name string, candidates []string) []string {
	var best []string
	if len(name) > suggestedBytesMax {
		return nil
	}
	least := 3
	for _, candidate := range candidates {
		d := editDistance(strings.ToLower(name), strings.ToLower(candidate))
		if d < least && d <= min(len(name), len(candidate))/2 && candidate != name {
			best, least = []string{candidate}, d
		}
	}
	return best
}

// editDistance returns the Levenshtein distance of two texts in bytes. Texts whose lengths differ by more than 2 are
// never similar. For them, it returns only the difference of the lengths.
func editDistance(a, b string) int {
	if d := max(len(a)-len(b), len(b)-len(a)); d > 2 {
		return d
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		if slices.Min(row) > 2 {
			return 3
		}
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// similarEvent returns the didYouMean question for a misspelt event type or descriptor.
func (c *compiler) similarEvent(typ string, made eventTypes) string {
	if len(c.findings) >= suggestedFindingsMax {
		return ""
	}
	return didYouMean(closest(typ, slices.Concat(c.events.declared, made))...)
}

// similarPath returns the didYouMean question for a path that names no state. It offers the states with that ID, or
// else the most similar path.
func (c *compiler) similarPath(path string) string {
	if len(c.findings) >= suggestedFindingsMax {
		return ""
	}
	var paths, named []string
	for i := range c.chart.nodes[1:] {
		n := &c.chart.nodes[i+1]
		paths = append(paths, n.path)
		if strings.HasSuffix(n.path, "."+path) {
			named = append(named, n.path)
		}
	}
	if len(named) == 0 {
		named = closest(path, paths)
	}
	return didYouMean(named...)
}

// similarChild returns the didYouMean question for an Initial that names no child.
func (c *compiler) similarChild(n *node) string {
	var ids []string
	for _, i := range n.children {
		ids = append(ids, c.chart.nodes[i].def.ID)
	}
	return didYouMean(closest(n.def.Initial, ids)...)
}

// similarTarget returns the didYouMean question for a reference that names no state. It offers the states with that ID
// or path from anywhere in the chart, or else the state with the most similar ID or path.
func (c *compiler) similarTarget(n *node, reference string) string {
	wanted := strings.TrimPrefix(strings.TrimLeft(reference, "#."), c.chart.id+".")
	if wanted == "" || len(c.findings) >= suggestedFindingsMax {
		return ""
	}
	var named, spellings []string
	owners := map[string]int{}
	base := n.path
	if n.parent >= 0 && !strings.HasPrefix(reference, ".") {
		base = c.chart.nodes[n.parent].path
	}
	for i := range c.chart.nodes[1:] {
		state := &c.chart.nodes[i+1]
		if strings.HasSuffix("."+state.path, "."+wanted) {
			named = append(named, c.reference(n, state))
		}
		for _, spelling := range []string{state.def.ID, strings.TrimPrefix(state.path, base+"."), state.path} {
			if _, taken := owners[spelling]; !taken {
				owners[spelling], spellings = state.index, append(spellings, spelling)
			}
		}
	}
	if len(named) == 0 {
		for _, spelling := range closest(wanted, spellings) {
			named = append(named, c.reference(n, &c.chart.nodes[owners[spelling]]))
		}
	}
	return didYouMean(named...)
}

// reference returns the shortest target by which the state `n` can refer to the state `to`.
func (c *compiler) reference(n, to *node) string {
	for _, reference := range []string{to.def.ID, "." + to.def.ID, "#" + to.def.ID} {
		if i, problem := c.target(n, reference); problem == "" && i == to.index {
			return reference
		}
	}
	return "#" + to.path
}
