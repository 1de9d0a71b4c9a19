package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Names of the engines that the requirements mention, as in the benchmarks.
const (
	settle    = "settle"
	stateless = "stateless"
	statekit  = "statekit"
	xstate    = "xstate"
)

// key identifies the measurements of one engine in one case.
type key struct{ name, engine string }

func (k key) String() string { return k.name + "/" + k.engine }

// measurements holds the results of all rounds.
type measurements struct {
	cpu string
	// order lists each key once, in the order in which the benchmarks ran.
	order []key
	// nanoseconds and `allocations` have one entry per round. Allocations in Node are unknown.
	nanoseconds, allocations map[key][]float64
}

// benchmarkLine matches a result of package testing with -benchmem.
var benchmarkLine = regexp.MustCompile(`^BenchmarkEvent/(\w+)/(\w+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op\s+[\d.]+ B/op\s+(\d+) allocs/op$`)

// addGo adds the results of one run of the Go benchmarks.
func (m *measurements) addGo(text string) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if cpu, ok := strings.CutPrefix(line, "cpu: "); ok {
			m.cpu = cpu
		}
		if !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		found := benchmarkLine.FindStringSubmatch(line)
		if found == nil {
			return fmt.Errorf("expected the result of BenchmarkEvent/<case>/<engine>, got %q", line)
		}
		k := key{found[1], found[2]}
		ns, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			return err
		}
		allocs, err := strconv.ParseFloat(found[4], 64)
		if err != nil {
			return err
		}
		m.add(k, ns)
		m.allocations[k] = append(m.allocations[k], allocs)
	}
	return nil
}

// addNode adds the results of one run of the Node benchmarks. It returns the versions of XState and Node. Call it after
// addGo, which determines the order of the cases.
func (m *measurements) addNode(text string) (string, error) {
	report, err := parseNode(text)
	if err != nil {
		return "", err
	}
	for _, name := range m.cases() {
		ns, ok := report.Nanoseconds[name]
		if !ok {
			return "", fmt.Errorf("cases.mjs does not measure the case %q", name)
		}
		m.add(key{name, xstate}, ns)
	}
	if len(report.Nanoseconds) != len(m.cases()) {
		return "", fmt.Errorf("expected cases.mjs to measure %d cases, got %d", len(m.cases()), len(report.Nanoseconds))
	}
	return fmt.Sprintf("xstate v%s on Node %s", report.XState, report.Node), nil
}

func (m *measurements) add(k key, ns float64) {
	if m.nanoseconds == nil {
		m.nanoseconds, m.allocations = map[key][]float64{}, map[key][]float64{}
	}
	if len(m.nanoseconds[k]) == 0 {
		m.order = append(m.order, k)
	}
	m.nanoseconds[k] = append(m.nanoseconds[k], ns)
}

func (m *measurements) cases() []string {
	var names []string
	for _, k := range m.order {
		if !slices.Contains(names, k.name) {
			names = append(names, k.name)
		}
	}
	return names
}

// complete returns an error if a measurement is missing in some round.
func (m *measurements) complete(rounds int) error {
	for _, k := range m.order {
		if got := len(m.nanoseconds[k]); got != rounds {
			return fmt.Errorf("expected %d measurements of %v, got %d", rounds, k, got)
		}
	}
	for _, name := range m.cases() {
		if _, ok := m.nanoseconds[key{name, settle}]; !ok {
			return fmt.Errorf("expected settle to do the case %q, as every case", name)
		}
	}
	for _, b := range bars {
		for _, k := range []key{{b.name, settle}, b.peer} {
			if _, ok := m.nanoseconds[k]; !ok {
				return fmt.Errorf("nothing measured %v, which a requirement is about", k)
			}
		}
	}
	return nil
}

// noisyRatio is the ratio of the slowest to the fastest round above which a measurement counts as noisy.
const noisyRatio = 2

// noisy lists the noisy measurements as lines below the table.
func (m *measurements) noisy() string {
	var b strings.Builder
	for _, k := range m.order {
		if fastest, slowest := slices.Min(m.nanoseconds[k]), slices.Max(m.nanoseconds[k]); slowest > noisyRatio*fastest {
			fmt.Fprintf(&b, "noisy: %v took between %s and %s ns\n", k, nanoseconds(fastest), nanoseconds(slowest))
		}
	}
	return b.String()
}

func median(values []float64) float64 {
	ordered := slices.Sorted(slices.Values(values))
	half := len(ordered) / 2
	if len(ordered)%2 == 1 {
		return ordered[half]
	}
	return (ordered[half-1] + ordered[half]) / 2
}
