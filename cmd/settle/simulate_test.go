package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/simulation"
	"github.com/settle-run/settle/runtime/producer"
)

// TestSimulateScripts runs and checks the scripts in testdata/simulate. `go test -rewrite` updates their output.
//
// The command "file NAME" writes its input to a file. "settle ARGUMENTS" runs a command line, and passes the input as
// standard input. An argument that names such a file is replaced by the file's path.
func TestSimulateScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/simulate/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("expected scripts in testdata/simulate, got %v, %v", scripts, err)
	}
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			datadriven.RunTest(t, script, func(t *testing.T, d *datadriven.TestData) string {
				t.Helper()
				if d.Cmd == "file" {
					if err := os.WriteFile(filepath.Join(folder, d.CmdArgs[0].Key), []byte(d.Input), 0o600); err != nil {
						t.Fatal(err)
					}
					return ""
				}
				var args []string
				for _, arg := range d.CmdArgs {
					text := arg.Key
					if len(arg.Vals) > 0 {
						text += "=" + arg.Vals[0]
					}
					if path := filepath.Join(folder, text); text != "" && exists(path) {
						text = path
					}
					args = append(args, text)
				}
				got := user{t: t}.runWith(d.Input, args...)
				if got.code == command.ExitDone && got.err == "" {
					return got.out
				}
				return fmt.Sprintf("%s%sexit code %d\n", got.out, strings.ReplaceAll(got.err, folder+string(filepath.Separator), ""), got.code)
			})
		})
	}
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// machineFile writes a machine with the given states.
func machineFile(t *testing.T, states string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.json")
	if err := os.WriteFile(path, []byte(`{"id":"m","initial":"a","states":`+states+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSimulateAnswersEachLineAsItArrives(t *testing.T) {
	t.Parallel()
	path := machineFile(t, `{"a":{"on":{"GO":"b"}},"b":{}}`)
	in, write := io.Pipe()
	out := newScreen(t.Context())
	var errOut syncBuffer
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- command.Run(ctx, settle(), command.Process{In: in, Out: out, Err: &errOut}, []string{"simulate", path})
	}()
	out.await(t, `"event":{"type":"xstate.init"},"handled":true,"value":"a"`)
	if _, err := io.WriteString(write, "{\"type\":\"GO\"}\n"); err != nil {
		t.Fatal(err)
	}
	out.await(t, `"event":{"type":"GO"},"handled":true,"value":"b"`)
	stop() // This is Ctrl-C while the command waits for a line.
	if code := <-ended; code != command.ExitDone || errOut.String() != "" {
		t.Errorf("expected exit code 0 after being stopped, got %d and %q", code, errOut.String())
	}
}

func TestSimulateLimitsLinesAndTimers(t *testing.T) {
	t.Parallel()
	path := machineFile(t, `{"a":{"after":{"0":"b"}},"b":{"after":{"0":"a"}}}`)
	long := fmt.Sprintf(`{"type":"GO","x":"%s"}`, strings.Repeat("x", producer.EventBytesMax-len(`{"type":"GO","x":""}`)))
	u := user{t: t}
	if got := u.runWith("\n"+long+"\r\n", "simulate", path); got.code != command.ExitDone || strings.Count(got.out, "\n") != 2 {
		t.Errorf("expected the longest line to be accepted, got exit code %d and %.200q", got.code, got.err)
	}
	for _, c := range []struct {
		name, in, want string
		lines, code    int
	}{
		{"longer line", "\n" + long + "     ", "line 2: event refused: expected a line of at most 1040384 bytes", 1, command.ExitRefused},
		{"endless timers", `{"$advance":1}`, "line 1: expected at most 10000 timers to fire in one advance of the clock (FiringsMax), got more; at 2000-01-01T00:00:00Z", 1 + simulation.FiringsMax, command.ExitFailed},
	} {
		got := u.runWith(c.in, "simulate", path)
		if got.code != c.code || got.err != "settle: standard input, "+c.want+"\n" || strings.Count(got.out, "\n") != c.lines {
			t.Errorf("%s: expected exit code %d, %q and %d lines, got %d, %q and %d lines", c.name, c.code, c.want, c.lines, got.code, got.err, strings.Count(got.out, "\n"))
		}
	}
}

// delays are flags of settle simulate, by machine, with values for the delays that the charts compute.
var delays = map[string][]string{
	"enrich":   {"--delay", "expiry=31m"},
	"pipeline": {"--delay", "backoff=5m", "--delay", "breach=5m", "--delay", "check=5m", "--delay", "evaluation=5m", "--delay", "warning=5m"},
}

func TestEveryMachineIsExportedToXStateAndSimulated(t *testing.T) {
	t.Parallel()
	u := user{t: t}
	for _, id := range machineIDs(t) {
		config := u.must("graph", id, "--format", "xstate")
		contains(t, config, `  "id": "`+id+`",`)
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		// If a chart computes a delay, the XState config has only the delay's name.
		simulate := func(what string) string { return u.must(append([]string{"simulate", what}, delays[id]...)...) }
		if fromFile, byID := simulate(path), simulate(id); fromFile != byID || !strings.Contains(byID, `"tags":["settled"]`) {
			t.Errorf("expected %s to start settled, from its file as by its ID, got\n%s%s", id, fromFile, byID)
		}
	}
}
