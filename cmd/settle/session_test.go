package main

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/runtime/durable"
)

// user runs command lines against an in-process stack.
type user struct {
	t     *testing.T
	stack *stack.Stack
	// log is the log of the stack's functions.
	log *syncBuffer
	// config describes the command. If config has no machines, user runs the command of this module.
	config command.Config
}

// answer is the result of a command line.
type answer struct {
	out, err string
	code     int
}

// withStack runs the test in virtual time with a stack in process.
func withStack(t *testing.T, test func(user)) {
	t.Helper()
	withMachines(t, settle(), test)
}

// withMachines is withStack for the command and the machines of `config`.
func withMachines(t *testing.T, config command.Config, test func(user)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := &syncBuffer{}
		handler := console.NewHandler(log, console.Style{}, "")
		logger := slog.New(handler)
		hosted := func(url string) []durable.Machine {
			return config.Machines(command.Environment{Logger: logger, GatewayURL: url})
		}
		running, err := stack.Start(t.Context(), hosted, stack.Config{Logger: logger, Committed: handler.Committed})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := running.Close(); err != nil {
				t.Errorf("closing the stack: %v", err)
			}
		}()
		test(user{t: t, stack: running, log: log, config: config})
	})
}

// run runs a command line and waits until the stack is idle.
func (u user) run(args ...string) answer {
	u.t.Helper()
	return u.runWith("", args...)
}

func (u user) runWith(stdin string, args ...string) answer {
	u.t.Helper()
	return u.runAs(command.Process{In: strings.NewReader(stdin), StdoutTTY: true}, args...)
}

// runAs runs a command line as run does, but in the given process.
func (u user) runAs(process command.Process, args ...string) answer {
	u.t.Helper()
	return u.runUntil(u.t.Context(), process, args...)
}

// runUntil runs a command line as runAs does. The end of ctx stops the process.
func (u user) runUntil(ctx context.Context, process command.Process, args ...string) answer {
	u.t.Helper()
	var out, errOut bytes.Buffer
	process.Out, process.Err, process.Endpoint = &out, &errOut, "http://aws.local"
	process.Program, process.User = cmp.Or(process.Program, "settle"), cmp.Or(process.User, "alice")
	if process.Now == nil {
		process.Now = func() time.Time { return time.Now().UTC() }
	}
	if u.stack != nil && process.HTTP == nil {
		process.HTTP = u.stack.AWS().HTTPClient
	}
	config := u.config
	if config.Machines == nil {
		config = settle()
	}
	code := command.Run(ctx, config, process, args)
	if u.stack != nil {
		synctest.Wait()
	}
	return answer{out.String(), errOut.String(), code}
}

// must runs a command line and returns its output. The command must succeed and write nothing to standard error.
func (u user) must(args ...string) string {
	u.t.Helper()
	got := u.run(args...)
	if got.code != command.ExitDone || got.err != "" {
		u.t.Fatalf("settle %s: expected exit code 0, got %d and %q", strings.Join(args, " "), got.code, got.err)
	}
	return got.out
}

// mailedCode returns the code in the last mail.
func (u user) mailedCode() string {
	u.t.Helper()
	log := u.log.String()
	at := strings.LastIndex(log, "code=")
	if at < 0 {
		u.t.Fatalf("expected a mail with a code, got the log:\n%s", log)
	}
	code, _, _ := strings.Cut(log[at+len("code="):], "\n")
	return code
}

// machineIDs returns the IDs of the hosted machines.
func machineIDs(t *testing.T) []string {
	t.Helper()
	known, err := durable.NewMachines(hostedMachines(slog.New(slog.DiscardHandler), machines.Settings{})...)
	if err != nil {
		t.Fatal(err)
	}
	return known.IDs()
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("expected %q in:\n%s", part, text)
		}
	}
}

// syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// screen is a writer whose lines a test can wait for.
type screen struct {
	*io.PipeWriter
	lines chan string
}

// timeUp returns a channel that closes ten seconds before `go test` ends the test program, so that the test can still
// report its output. Any shorter limit would be too short for some machines.
func timeUp(t *testing.T) <-chan struct{} {
	t.Helper()
	deadline, ok := t.Deadline()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline.Add(-10*time.Second))
	t.Cleanup(cancel)
	return ctx.Done()
}

func newScreen(ctx context.Context) screen {
	r, w := io.Pipe()
	s := screen{PipeWriter: w, lines: make(chan string)}
	go func() {
		defer close(s.lines)
		var rest []byte
		for chunk := make([]byte, 4096); ; {
			n, err := r.Read(chunk)
			rest = append(rest, chunk[:n]...)
			for line, after, ok := bytes.Cut(rest, []byte("\n")); ok; line, after, ok = bytes.Cut(rest, []byte("\n")) {
				select {
				case s.lines <- string(line):
				case <-ctx.Done():
				}
				rest = after
			}
			if err != nil {
				return
			}
		}
	}()
	return s
}

// await returns the lines up to the first one that contains the text.
func (s screen) await(t *testing.T, text string) []string {
	t.Helper()
	var seen []string
	timeout := timeUp(t)
	for {
		select {
		case line, ok := <-s.lines:
			if seen = append(seen, line); ok && strings.Contains(line, text) {
				return seen
			}
			if !ok {
				t.Fatalf("expected a line with %q, got the end of:\n%s", text, strings.Join(seen, "\n"))
			}
		case <-timeout:
			t.Fatalf("expected a line with %q, got:\n%s", text, strings.Join(seen, "\n"))
		}
	}
}
