// Command table runs the Go and Node benchmarks of this module. It prints one table with the cost of an event in each
// engine, and the requirements for Settle.
//
// Run it in the module's folder:
//
//	go run ./table [-rounds 5] [-time 300ms]
//
// Each round measures every case in every engine once, so that all engines see the same machine noise. The table shows
// medians of the rounds. The command fails if a benchmark fails. A missed requirement is printed but is not an error,
// because machines are noisy.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 5, "how often everything is measured")
	each := flag.Duration("time", 300*time.Millisecond, "how long one case is measured in one round")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, os.Stderr, *rounds, *each); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

// run writes the table to `out` and progress messages to `progress`.
func run(ctx context.Context, out, progress io.Writer, rounds int, each time.Duration) error {
	if rounds < 1 || each <= 0 {
		return fmt.Errorf("expected at least one round and a time above zero, got %d and %v", rounds, each)
	}
	dir, err := os.MkdirTemp("", "settle-benchmark-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "benchmark.test")
	if _, err := output(ctx, "go", "test", "-c", "-o", binary, "."); err != nil {
		return err
	}
	engines, err := versions(ctx)
	if err != nil {
		return err
	}

	var all measurements
	for round := range rounds {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, rounds)
		text, err := output(ctx, binary, "-test.run=^$", "-test.bench=^BenchmarkEvent$", "-test.benchmem", "-test.benchtime="+each.String())
		if err != nil {
			return err
		}
		if err := all.addGo(text); err != nil {
			return err
		}
		text, err = output(ctx, "node", "testdata/npm/cases.mjs", "measure", fmt.Sprint(each.Milliseconds()))
		if err != nil {
			return err
		}
		node, err := all.addNode(text)
		if err != nil {
			return err
		}
		if round == 0 {
			engines += ", " + node
		}
	}

	table, err := all.table(rounds)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s, %s/%s, %d CPUs, %s\n%s\nns and allocations of one event, medians of %d rounds\n\n%s%s",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), all.cpu, engines, rounds, table, all.noisy())
	return err
}

// versions returns the versions of the modules that the benchmarks use, except this module and Settle.
func versions(ctx context.Context) (string, error) {
	text, err := output(ctx, "go", "list", "-test", "-deps",
		"-f", "{{with .Module}}{{if not (or .Main .Replace)}}{{.Path}} {{.Version}}{{end}}{{end}}", ".")
	if err != nil {
		return "", err
	}
	modules := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(modules)
	return strings.Join(slices.Compact(modules), ", "), nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		// Benchmarks report failures on standard output.
		return "", fmt.Errorf("running %s: %w\n%s", filepath.Base(name), err, text)
	}
	return string(text), nil
}

// nodeReport is the output of cases.mjs.
type nodeReport struct {
	XState      string             `json:"xstate"`
	Node        string             `json:"node"`
	Nanoseconds map[string]float64 `json:"nanoseconds"`
}

func parseNode(text string) (nodeReport, error) {
	var report nodeReport
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return nodeReport{}, fmt.Errorf("reading the output of cases.mjs: %w", err)
	}
	return report, nil
}
