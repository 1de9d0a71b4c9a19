package host_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/awslocal"
)

var startRuns = flag.Int("start.runs", 3, "how often the start of each function is measured; with 30 and more the median must be fast enough, with fewer the fastest of up to 30, next to the bare handler's")

const (
	// executableBytesMax is how large a function's executable may be.
	executableBytesMax = 12_000_000
	// startMax is how long a function may take from exec to its first call for an event, on the median.
	startMax = 10 * time.Millisecond
	// startRatioMax is how many times as long as a bare handler a function may take where the machine is too busy for startMax.
	startRatioMax = 5
	// startRunsMin is from how many runs on a median counts.
	startRunsMin = 30
)

// functions are the executables that are deployed, each with the package that it is made of.
var functions = []string{"consumer", "gateway", "delay", "executions", "tokentask", "objects"}

// buildFlags returns the flags of make functions.
func buildFlags(t *testing.T) []string {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(makefile)) {
		if flags, ok := strings.CutPrefix(line, "FUNCTION_FLAGS := "); ok {
			const space = "\x00" // one that the Makefile has escaped
			split := strings.Fields(strings.ReplaceAll(flags, `\ `, space))
			for i := range split {
				split[i] = strings.ReplaceAll(split[i], space, " ")
			}
			return split
		}
	}
	t.Fatal("expected a line of the Makefile to begin with FUNCTION_FLAGS := ")
	return nil
}

// build builds a package as make functions does.
func build(t *testing.T, arch, path string) (executable string) {
	t.Helper()
	executable = filepath.Join(t.TempDir(), "bootstrap")
	command := exec.CommandContext(t.Context(), "go", append(append([]string{"build"}, buildFlags(t)...), "-o", executable, path)...)
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building %s for %s: %v\n%s", path, arch, err, out)
	}
	return executable
}

func TestExecutablesAreSmall(t *testing.T) {
	t.Parallel()
	table := "\n| function | arm64 | amd64 |\n|---|---|---|\n"
	for _, function := range functions {
		table += "| " + function
		for _, arch := range []string{"arm64", "amd64"} {
			info, err := os.Stat(build(t, arch, "../"+function))
			if err != nil {
				t.Fatal(err)
			}
			table += fmt.Sprintf(" | %.2f MB", float64(info.Size())/1e6)
			if info.Size() > executableBytesMax {
				t.Errorf("%s for %s has %d bytes, want at most %d", function, arch, info.Size(), executableBytesMax)
			}
		}
		table += " |\n"
	}
	t.Log(table)
}

// TestFunctionsStartFast starts each function as Lambda does, in turns, and a bare handler with them.
//
//nolint:paralleltest // It measures.
func TestFunctionsStartFast(t *testing.T) {
	arch := strings.TrimSpace(output(t, "go", "env", "GOARCH"))
	paths := map[string]string{"bare": build(t, arch, "./testdata/bare")}
	for _, function := range functions {
		paths[function] = build(t, arch, "../"+function)
	}
	names := append([]string{"bare"}, functions...)
	took := map[string][]time.Duration{}
	for range *startRuns {
		for _, name := range names {
			took[name] = append(took[name], start(t, paths[name]))
		}
	}
	table := fmt.Sprintf("\n| from exec to the first call for an event, %d runs | median | fastest | slowest |\n|---|---|---|---|\n", *startRuns)
	fastest := startMax
	if *startRuns < startRunsMin {
		fastest = max(startMax, startRatioMax*slices.Min(took["bare"]))
	}
	for _, name := range names {
		times := took[name]
		for len(times) < startRunsMin && slices.Min(times) > fastest {
			times = append(times, start(t, paths[name])) // The machine was busy, or the function is slow.
		}
		slices.Sort(times)
		median := times[len(times)/2]
		table += fmt.Sprintf("| %s | %.1f ms | %.1f ms | %.1f ms |\n", name, milliseconds(median), milliseconds(times[0]), milliseconds(times[len(times)-1]))
		if *startRuns >= startRunsMin && median > startMax || times[0] > fastest {
			t.Errorf("%s starts in %v (the fastest of %d in %v), want at most %v (%v)", name, median, len(times), times[0], startMax, fastest)
		}
	}
	t.Log(table)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// start starts the executable once, with all that a function may need, and returns how long that took.
func start(t *testing.T, path string) time.Duration {
	t.Helper()
	took := make(chan time.Duration, 1)
	bootstrap, err := awslocal.NewBootstrap(awslocal.BootstrapConfig{
		Path: path, Logs: io.Discard, Env: environment, OnInit: func(d time.Duration) { took <- d },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer bootstrap.Close()
	// What the function answers does not matter: it has started when it asks for the event.
	_, _ = bootstrap.Start().Invoke(context.WithoutCancel(t.Context()), []byte(`{}`))
	select {
	case d := <-took:
		return d
	case <-time.After(10 * time.Second):
		t.Fatalf("%s has not asked for an event within 10 s", path)
		return 0
	}
}

// environment has what each function requires, and nothing that listens.
var environment = []string{
	"AWS_ENDPOINT_URL=http://127.0.0.1:1",
	"SETTLE_TABLE=settle",
	"SETTLE_TABLE_INDEX=on",
	"SETTLE_QUEUE_URL=http://127.0.0.1:1/000000000000/events.fifo",
	"SETTLE_DEAD_LETTER_QUEUE_URL=http://127.0.0.1:1/000000000000/dead.fifo",
	"SETTLE_DELAY_QUEUE_URL=http://127.0.0.1:1/000000000000/delays",
	"SETTLE_DELAY_QUEUE_ARN=arn:aws:sqs:eu-central-1:000000000000:delays",
	"SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN=arn:aws:sqs:eu-central-1:000000000000:lost-delays",
	"SETTLE_SCHEDULER_ROLE_ARN=arn:aws:iam::000000000000:role/scheduler",
	"SETTLE_SIGNUP_CODE_KEY=0123456789abcdef0123456789abcdef",
}
