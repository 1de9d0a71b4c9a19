package host_test

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
)

var startRuns = flag.Int("start.runs", 9, "number of measured starts of each function")

const (
	// executableBytesMax is the size limit of a function's executable.
	executableBytesMax = 20_000_000
	// startRatioMax limits the CPU time that a function takes to start, as a multiple of the time that testdata/sdk
	// takes. A start lasts from exec to the first request for an event. testdata/sdk only creates the SDK's clients.
	startRatioMax = 1.7
)

// functions are the deployed executables, named after their packages.
var functions = []string{"consumer", "gateway", "delay", "executions", "tokentask", "objects"}

// buildFlags returns the go build flags that the target `functions` of the Makefile uses.
func buildFlags(t *testing.T) []string {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(makefile)) {
		if flags, ok := strings.CutPrefix(line, "FUNCTION_FLAGS := "); ok {
			const space = "\x00" // stands for an escaped space in the Makefile
			split := strings.Fields(strings.ReplaceAll(flags, `\ `, space))
			for i := range split {
				split[i] = strings.ReplaceAll(split[i], space, " ")
			}
			return split
		}
	}
	t.Fatal("expected a line of the Makefile that starts with FUNCTION_FLAGS := ")
	return nil
}

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
	if testing.Short() {
		t.Skip("compiles every function for two architectures: `make check` runs it")
	}
	table := "\n| function | arm64 | amd64 |\n|---|---|---|\n"
	for _, function := range functions {
		table += "| " + function
		for _, arch := range []string{"arm64", "amd64"} {
			info, err := os.Stat(build(t, arch, "../../functions/"+function))
			if err != nil {
				t.Fatal(err)
			}
			table += fmt.Sprintf(" | %.2f MB", float64(info.Size())/1e6)
			if info.Size() > executableBytesMax {
				t.Errorf("%s for %s is %d bytes, want at most %d", function, arch, info.Size(), executableBytesMax)
			}
		}
		table += " |\n"
	}
	t.Log(table)
}

// cost is the cost of a start, from exec to the first request for an event.
type cost struct{ wall, cpu time.Duration }

// TestFunctionsStartFast starts each function as Lambda does, in turn with a bare handler and a handler that only
// creates the SDK's clients. It compares their CPU times, which depend little on the load of the computer. It also
// prints the wall times.
//
//nolint:paralleltest // It measures.
func TestFunctionsStartFast(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles every function as `make functions` does: `make check` runs it")
	}
	arch := strings.TrimSpace(output(t, "go", "env", "GOARCH"))
	paths := map[string]string{"bare": build(t, arch, "./testdata/bare"), "sdk": build(t, arch, "./testdata/sdk")}
	for _, function := range functions {
		paths[function] = build(t, arch, "../../functions/"+function)
	}
	names := append([]string{"bare", "sdk"}, functions...)
	wall, cpu := map[string][]time.Duration{}, map[string][]time.Duration{}
	for range max(*startRuns, 1) {
		for _, name := range names {
			took := start(t, paths[name])
			wall[name], cpu[name] = append(wall[name], took.wall), append(cpu[name], took.cpu)
		}
	}
	table := fmt.Sprintf("\n| from exec to the first request for an event, median of %d runs | CPU time | times the bare handler | times the SDK | wall time | fastest | slowest |\n|---|---|---|---|---|---|---|\n", *startRuns)
	bare, sdk := median(cpu["bare"]), median(cpu["sdk"])
	for _, name := range names {
		ratio := float64(median(cpu[name])) / float64(sdk)
		table += fmt.Sprintf("| %s | %.1f ms | %.1f | %.2f | %.1f ms | %.1f ms | %.1f ms |\n", name, milliseconds(median(cpu[name])), float64(median(cpu[name]))/float64(bare), ratio,
			milliseconds(median(wall[name])), milliseconds(slices.Min(wall[name])), milliseconds(slices.Max(wall[name])))
		if ratio > startRatioMax {
			t.Errorf("%s starts with %.2f times the CPU time of a handler that only creates the SDK's clients, want at most %v", name, ratio, startRatioMax)
		}
	}
	t.Log(table)
}

// median returns the middle value, the larger one if there are two.
func median(of []time.Duration) time.Duration { return slices.Sorted(slices.Values(of))[len(of)/2] }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// start starts the executable with every variable that any function needs, and kills it at its first request for an
// event.
func start(t *testing.T, path string) cost {
	t.Helper()
	asked, over := make(chan time.Time, 1), make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/invocation/next") {
			select {
			case asked <- time.Now():
			default:
			}
		}
		<-over
	}))
	defer api.Close()
	defer close(over)
	process := exec.CommandContext(t.Context(), path)
	process.Env = append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(api.URL, "http://"), "AWS_LAMBDA_FUNCTION_NAME=function", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128",
		"AWS_REGION=" + awslocal.Region, "AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any", "_HANDLER=bootstrap",
	}, environment...)
	var said bytes.Buffer
	process.Stdout, process.Stderr = &said, &said
	began := time.Now()
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	select {
	case at := <-asked:
		_ = process.Process.Kill() // The process may have exited.
		<-ended                    //nolint:errcheck // It was killed.
		return cost{wall: at.Sub(began), cpu: process.ProcessState.UserTime() + process.ProcessState.SystemTime()}
	case err := <-ended:
		t.Fatalf("%s exited before it asked for an event: %v\n%s", path, err, said.String())
		return cost{}
	}
}

// environment has every required variable. No endpoint in it accepts connections.
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
