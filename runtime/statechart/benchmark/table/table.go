package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// bar is the requirement for Settle in one case.
type bar struct {
	name string
	// peer is the engine and the case to compare with.
	peer key
	// ratio is the maximum ratio of Settle's time to the peer's time. `goal` is the target ratio, or 0 for none.
	ratio, goal float64
	// noAllocs requires that an event allocates nothing.
	noAllocs bool
}

var bars = []bar{
	{name: "flat", peer: key{"flat", stateless}, ratio: 1.0 / 10, noAllocs: true},
	{name: "nested3", peer: key{"nested3", stateless}, ratio: 1.0 / 20, goal: 1.0 / 40, noAllocs: true},
	{name: "regions3", peer: key{"regions3", statekit}, ratio: 1.0 / 20},
	{name: "persist", peer: key{"persist", statekit}, ratio: 1.0 / 5},
	{name: "persist", peer: key{"persist", xstate}, ratio: 1.0 / 5},
	{name: "large1000", peer: key{"large10", settle}, ratio: 2},
}

// table returns the table in Markdown. It has a row for each other engine of each case, and a row for each requirement
// that compares Settle with itself.
func (m *measurements) table(rounds int) (string, error) {
	if err := m.complete(rounds); err != nil {
		return "", err
	}
	rows := [][]string{{"case", "settle ns", "allocs", "compared with", "ns", "allocs", "settle/it", "required", "met"}}
	for _, name := range m.cases() {
		var peers []key
		for _, k := range m.order {
			if k.name == name && k.engine != settle {
				peers = append(peers, k)
			}
		}
		for _, b := range bars {
			if b.name == name && !slices.Contains(peers, b.peer) {
				peers = append(peers, b.peer)
			}
		}
		for i, peer := range peers {
			rows = append(rows, m.row(name, peer, i == 0))
		}
	}
	return markdown(rows), nil
}

func (m *measurements) row(name string, peer key, first bool) []string {
	ours := key{name, settle}
	row := []string{"", "", ""}
	if first {
		row = []string{name, nanoseconds(median(m.nanoseconds[ours])), m.allocs(ours)}
	}
	shown := peer.engine
	if peer.name != name {
		shown = peer.engine + " in " + peer.name
	}
	measured := median(m.nanoseconds[ours]) / median(m.nanoseconds[peer])
	required, met := "", ""
	for _, b := range bars {
		if b.name == name && b.peer == peer {
			required, met = b.required(), b.met(measured, median(m.allocations[ours]))
		}
	}
	return append(row, shown, nanoseconds(median(m.nanoseconds[peer])), m.allocs(peer), ratio(measured), required, met)
}

func (m *measurements) allocs(k key) string {
	if len(m.allocations[k]) == 0 {
		return "?"
	}
	return fmt.Sprintf("%.0f", median(m.allocations[k]))
}

func (b bar) required() string {
	text := "<= " + ratio(b.ratio)
	if b.goal > 0 {
		text += " (goal " + ratio(b.goal) + ")"
	}
	if b.noAllocs {
		text += ", 0 allocs"
	}
	return text
}

func (b bar) met(measured, allocs float64) string {
	var missed []string
	if measured > b.ratio {
		missed = append(missed, "time")
	}
	if b.noAllocs && allocs > 0 {
		missed = append(missed, "allocs")
	}
	switch {
	case len(missed) > 0:
		return "NO: " + strings.Join(missed, ", ")
	case measured <= b.goal:
		return "yes, and the goal"
	default:
		return "yes"
	}
}

// ratio formats 0.05 as 1/20, and 1.5 as 1.5.
func ratio(r float64) string {
	if r >= 1 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", r), ".0")
	}
	return "1/" + strings.TrimSuffix(fmt.Sprintf("%.1f", 1/r), ".0")
}

func nanoseconds(ns float64) string {
	if ns < 100 {
		return fmt.Sprintf("%.1f", ns)
	}
	return fmt.Sprintf("%.0f", ns)
}

// markdown lays out a table. The first row is its head. Numeric columns are right-aligned.
func markdown(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for r, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if isFigure(rows[0][i]) {
				cell = pad + cell
			} else {
				cell += pad
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
		if r > 0 {
			continue
		}
		for i, width := range widths {
			rule := strings.Repeat("-", width+1)
			if isFigure(rows[0][i]) {
				b.WriteString("|" + rule + ":")
			} else {
				b.WriteString("|" + rule + "-")
			}
		}
		b.WriteString("|\n")
	}
	return b.String()
}

func isFigure(head string) bool {
	return slices.Contains([]string{"settle ns", "ns", "allocs", "settle/it"}, head)
}
