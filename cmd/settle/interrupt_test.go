package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
)

// silent returns an input that delivers no data, and a function that closes the input.
func silent() (*io.PipeReader, func()) {
	r, w := io.Pipe()
	return r, func() { _ = w.Close() } // A pipe's Close returns no error.
}

func TestCommandsWaitingForInputCanBeInterrupted(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/1", "SIGN_UP", "email=ada@example.com", "name=Ada")
		u.must("send", "--local", "signup/none", "CANCEL")
		before := u.items()
		for line, said := range map[string]string{
			"dlq drop --local --all":                            "Permanently drop all events in settle-dlq.fifo, about 1? [y/N] \nsettle: interrupted\n",
			"send --local signup/1 CHANGE_ADDRESS --json -":     "\nsettle: interrupted\n",
			"send --local signup/1 VERIFY code=1 --wait failed": "",
		} {
			ctx, stop := context.WithCancel(u.t.Context())
			in, closeIn := silent()
			ended := make(chan answer, 1)
			go func() {
				ended <- u.runUntil(ctx, command.Process{In: in, StdinTTY: true, StdoutTTY: true, StderrTTY: true, Plain: true}, strings.Fields(line)...)
			}()
			time.Sleep(5 * time.Second)
			stop()
			begun := time.Now()
			got := <-ended
			if waited := time.Since(begun); got.code != command.ExitInterrupted || waited > 0 || got.out != "" || said != "" && got.err != said {
				u.t.Errorf("%s: expected exit code 130 at once and %q, got %+v after %v", line, said, got, waited)
			}
			if said == "" {
				contains(u.t, got.err, "settle: interrupted while waiting for failed: the event was sent, as message ", "; signup/1 is in unverified.awaiting_verification")
			}
			closeIn()
			synctest.Wait()
		}
		if after := u.items(); strings.Contains(after["signup/1"], `"address_changes":{"Value":"1"}`) || len(after) != len(before) {
			u.t.Errorf("expected no event to be sent before its payload is complete, got %v", after)
		}
	})
}

func TestInterruptedReadsReportOnlyTheInterruption(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.populate()
		for _, line := range []string{
			"check", "export", "backup", "import import_test.go --dry-run", "list", "list --consistent", "migrate --dry-run", "get signup/1", "history signup/1", "resume signup/1", "dlq list", "dlq show x", "graph signup/1",
		} {
			ctx, stop := context.WithCancel(u.t.Context())
			stop()
			got := u.runUntil(ctx, command.Process{StdoutTTY: true}, append(strings.Fields(line), "--local")...)
			if got.code != command.ExitInterrupted || got.err != "settle: interrupted\n" || got.out != "" {
				u.t.Errorf("%s: expected exit code 130 and only the interruption, got %+v", line, got)
			}
		}
	})
}

func TestSignalCauseCountsAsInterruption(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		ctx, stop := context.WithCancelCause(u.t.Context())
		stop(io.ErrClosedPipe) // signal.NotifyContext also cancels with a cause: the signal.
		if got := u.runUntil(ctx, command.Process{}, "check", "--local"); got.code != command.ExitInterrupted || got.err != "settle: interrupted\n" {
			u.t.Errorf("expected exit code 130, got %+v", got)
		}
	})
}
