package awslocal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
)

// logs collects the output of a test's processes.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// functionAnswer is the answer of testdata/handler.
type functionAnswer struct {
	Value, Request, ARN, Trace string
	PID                        int
}

// order invokes testdata/handler.
func order(t *testing.T, function awslocal.Invoker, payload string) (functionAnswer, error) {
	t.Helper()
	text, err := function.Invoke(t.Context(), []byte(payload))
	var answer functionAnswer
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}

func mustOrder(t *testing.T, function awslocal.Invoker, payload string) functionAnswer {
	t.Helper()
	answer, err := order(t, function, payload)
	if err != nil {
		t.Fatalf("%s: %v", payload, err)
	}
	return answer
}

// wantFunctionError fails unless err is a FunctionError of the given type whose message contains `words`.
func wantFunctionError(t *testing.T, err error, typ, words string) {
	t.Helper()
	var failure *awslocal.FunctionError
	if !errors.As(err, &failure) || failure.Type != typ || !strings.Contains(failure.Message, words) {
		t.Errorf("got %v, want %s with %q", err, typ, words)
	}
}

// TestBootstrap builds testdata/handler once for all subtests.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", path, "./testdata/handler")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building testdata/handler: %v\n%s", err, out)
	}
	start := func(t *testing.T, config awslocal.BootstrapConfig) *awslocal.Bootstrap {
		t.Helper()
		config.Path = path
		if config.Timeout == 0 {
			config.Timeout = 15 * time.Minute // Lambda's maximum
		}
		b, err := awslocal.NewBootstrap(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		return b
	}
	for name, test := range map[string]func(*testing.T, *awslocal.Bootstrap){
		"passes a trace ID with each event":           testBootstrapTrace,
		"reports a panic and restarts":                testBootstrapPanic,
		"reports an exit and restarts":                testBootstrapExit,
		"kills the process at the timeout":            testBootstrapTimeout,
		"runs one process per environment":            testBootstrapEnvironments,
		"rejects an answer that is too long":          testBootstrapSize,
		"reports an error in the middle of an answer": testBootstrapTrailer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t, awslocal.BootstrapConfig{}))
		})
	}
	t.Run("sets the environment of Lambda", func(t *testing.T) {
		t.Parallel()
		var out logs
		b := start(t, awslocal.BootstrapConfig{
			FunctionName: "consumer", MemoryMB: 512, Logs: &out,
			Env: []string{"AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_REGION=eu-central-1"},
		})
		testBootstrapEnvironment(t, b.Start(), filepath.Dir(path))
		if err := b.Close(); err != nil { // Close waits for the remaining output.
			t.Fatal(err)
		}
		if got := out.String(); got != "starting\n" {
			t.Errorf("got the log %q, want the output of the process", got)
		}
	})
	t.Run("reports the start-up time", func(t *testing.T) {
		t.Parallel()
		var inits []time.Duration
		b := start(t, awslocal.BootstrapConfig{OnInit: func(d time.Duration) { inits = append(inits, d) }})
		function := b.Start()
		began := time.Now()
		mustOrder(t, function, `{"Do":"echo"}`)
		mustOrder(t, function, `{"Do":"echo"}`)
		if len(inits) != 1 || inits[0] <= 0 || inits[0] > time.Since(began) {
			t.Errorf("got %v, want one duration", inits)
		}
	})
	t.Run("reports why a process fails to start", func(t *testing.T) {
		t.Parallel()
		exits := start(t, awslocal.BootstrapConfig{Env: []string{"INIT=exit"}}).Start()
		for range 2 {
			_, err := order(t, exits, `{"Do":"echo"}`)
			wantFunctionError(t, err, "Runtime.ExitError", "Runtime exited with error: exit status 7")
		}
		_, err := order(t, start(t, awslocal.BootstrapConfig{Env: []string{"INIT=error"}}).Start(), `{"Do":"echo"}`)
		wantFunctionError(t, err, "Settings.Missing", "no table")
		_, err = start(t, awslocal.BootstrapConfig{Env: []string{"INIT=hang"}, Timeout: 50 * time.Millisecond}).Start().Invoke(t.Context(), nil)
		wantFunctionError(t, err, "Sandbox.Timedout", "Task timed out after 0.05 seconds")
	})
	t.Run("ends all processes and invocations on Close", func(t *testing.T) {
		t.Parallel()
		var out logs
		testBootstrapClose(t, start(t, awslocal.BootstrapConfig{Logs: &out}), &out)
	})
}

func testBootstrapTrace(t *testing.T, b *awslocal.Bootstrap) {
	t.Helper()
	function := b.Start()
	first, second := mustOrder(t, function, `{"Do":"echo"}`), mustOrder(t, function, `{"Do":"echo"}`)
	if !strings.HasPrefix(second.Trace, "Root=1-") || second.Trace == first.Trace {
		t.Errorf("got the trace IDs %q and %q, want two different ones", first.Trace, second.Trace)
	}
}

func testBootstrapPanic(t *testing.T, b *awslocal.Bootstrap) {
	t.Helper()
	function := b.Start()
	before := mustOrder(t, function, `{"Do":"echo"}`)
	_, err := order(t, function, `{"Do":"panic"}`)
	wantFunctionError(t, err, "string", "out of order")
	if after := mustOrder(t, function, `{"Do":"echo"}`); after.PID == before.PID {
		t.Error("the process survived its panic, want a new process")
	}
}

func testBootstrapExit(t *testing.T, b *awslocal.Bootstrap) {
	t.Helper()
	function := b.Start()
	before := mustOrder(t, function, `{"Do":"echo"}`)
	_, err := order(t, function, `{"Do":"exit"}`)
	wantFunctionError(t, err, "Runtime.ExitError", "Error: Runtime exited with error: exit status 3")
	if after := mustOrder(t, function, `{"Do":"echo"}`); after.PID == before.PID {
		t.Error("got the same process, want a new one")
	}
	_, err = order(t, function, `{"Do":"leave"}`)
	wantFunctionError(t, err, "Runtime.ExitError", "Runtime exited without providing a reason")
}

func testBootstrapTimeout(t *testing.T, b *awslocal.Bootstrap) {
	t.Helper()
	function := b.Start()
	before := mustOrder(t, function, `{"Do":"echo"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := function.Invoke(ctx, []byte(`{"Do":"sleep"}`))
	wantFunctionError(t, err, "Sandbox.Timedout", "Task timed out after ")
	if _, err := os.Stat("/proc/self"); err == nil {
		if _, err := os.Stat(filepath.Join("/proc", jsonNumber(before.PID))); err == nil {
			t.Error("the process is still running after its timeout")
		}
	}
	if after := mustOrder(t, function, `{"Do":"echo"}`); after.PID == before.PID {
		t.Error("got the same process after the timeout, want a new one")
	}
}

func jsonNumber(n int) string {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func testBootstrapEnvironments(t *testing.T, b *awslocal.Bootstrap) {
	t.Helper()
	one, two := b.Start(), b.Start()
	if mustOrder(t, one, `{"Do":"echo"}`).PID == mustOrder(t, two, `{"Do":"echo"}`).PID {
		t.Error("two environments share a process, want one each")
	}
}

func testBootstrapEnvironment(t *testing.T, function awslocal.Invoker, root string) {
	t.Helper()
	got := strings.Split(mustOrder(t, function, `{"Do":"environ"}`).Value, "\n")
	for _, want := range []string{
		"AWS_LAMBDA_FUNCTION_NAME=consumer", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=512", "AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_REGION=eu-central-1", "AWS_ENDPOINT_URL=http://127.0.0.1:1", "LAMBDA_TASK_ROOT=" + root, "_HANDLER=bootstrap", "TZ=:UTC",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing from %q", want, got)
		}
	}
	var names []string
	for _, variable := range got {
		name, _, _ := strings.Cut(variable, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{ // The list has nothing from the test's own environment.
		"AWS_ACCESS_KEY_ID", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "AWS_LAMBDA_FUNCTION_NAME",
		"AWS_LAMBDA_FUNCTION_VERSION", "AWS_LAMBDA_INITIALIZATION_TYPE", "AWS_LAMBDA_LOG_GROUP_NAME", "AWS_LAMBDA_LOG_STREAM_NAME",
		"AWS_LAMBDA_RUNTIME_API", "AWS_REGION", "AWS_SECRET_ACCESS_KEY", "LAMBDA_RUNTIME_DIR", "LAMBDA_TASK_ROOT", "LANG", "PATH",
		"TZ", "_HANDLER", "_X_AMZN_TRACE_ID",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func testBootstrapSize(t *testing.T, b *awslocal.Bootstrap) {
	t.Helper()
	function := b.Start()
	_, err := order(t, function, `{"Do":"big"}`)
	wantFunctionError(t, err, "Function.ResponseSizeTooLarge", "6291556 bytes")
	mustOrder(t, function, `{"Do":"echo"}`)
}

func testBootstrapTrailer(t *testing.T, b *awslocal.Bootstrap) {
	t.Helper()
	_, err := order(t, b.Start(), `{"Do":"truncate"}`)
	wantFunctionError(t, err, "errorString", "the other half is missing")
}

func testBootstrapClose(t *testing.T, b *awslocal.Bootstrap, out *logs) {
	t.Helper()
	idle, busy := b.Start(), b.Start()
	mustOrder(t, idle, `{"Do":"echo"}`)
	ended := make(chan error, 1)
	go func() {
		_, err := order(t, busy, `{"Do":"sleep"}`)
		ended <- err
	}()
	for !strings.Contains(out.String(), "sleeping") {
		time.Sleep(time.Millisecond)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wantFunctionError(t, <-ended, "Runtime.ExitError", "Runtime exited with error: signal: killed")
	_, err := order(t, idle, `{"Do":"echo"}`)
	wantFunctionError(t, err, "Runtime.InvalidEntrypoint", "the Bootstrap is closed")
}

func TestBootstrap_rejects_invalid_configurations(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no executable"), 0o600); err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for words, config := range map[string]awslocal.BootstrapConfig{
		"BootstrapConfig.Path: expected an executable": {Path: plain},
		"no such file": {Path: plain + "x"},
		"BootstrapConfig.FunctionName: expected 1 to 64":  {Path: executable, FunctionName: "a b"},
		"BootstrapConfig.Timeout: expected at most 15m0s": {Path: executable, Timeout: time.Hour},
	} {
		if _, err := awslocal.NewBootstrap(config); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want %q", err, words)
		}
	}
}
