package main

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
)

// TestWatchEndsAtTheNextReadOnceItsOutputIsClosed counts the AWS calls after the reader has gone, because each call
// costs money.
func TestWatchEndsAtTheNextReadOnceItsOutputIsClosed(t *testing.T) {
	t.Parallel()
	for _, watched := range []string{"work/1", "--machine work", "--machine work --every 1m"} {
		withWork(t, &work{}, func(u user) {
			u.must("send", "--local", "work/1", "START", "--wait", "rested")
			gone, looks := time.Now().Add(90*time.Second), 0
			process := u.faultily(func(string, string) error {
				if time.Now().After(gone) {
					looks++
				}
				return nil
			}, nil)
			process.StdoutClosed = func() bool { return time.Now().After(gone) }
			ctx, stop := context.WithTimeout(u.t.Context(), 10*time.Minute)
			defer stop()
			got := u.runUntil(ctx, process, strings.Fields("watch --local "+watched)...)
			if late := time.Since(gone); got.code != command.ExitUnread || looks != 0 || late > 30*time.Second || strings.Contains(got.err, "settle: ") {
				u.t.Errorf("watch %s: expected exit code 141, no error and no read after the output is closed, got %+v after %d looks and %v", watched, got, looks, late)
			}
		})
	}
}

// TestWatchInAPipeEndsWithItsReader closes the pipe of a real process that has nothing more to write.
func TestWatchInAPipeEndsWithItsReader(t *testing.T) {
	t.Parallel()
	dev := quietDev(t)
	onTerminal(t, dev.aws, "", "send", "--local", "signup/1", "SIGN_UP", "email=ada@example.com", "name=Ada", "--wait", "settled", "--timeout", "1h")
	for _, watched := range []string{"signup/1", "--machine signup"} {
		process := asSettle(t, "pipe", dev.aws, strings.Fields("watch --local -o text "+watched)...)
		if _, err := process.StdinPipe(); err != nil { // The process ends with its input. See TestMain.
			t.Fatal(err)
		}
		out, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		process.Stderr = &said
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "signup") {
			t.Fatalf("expected the states of the instances, got %v and %q", err, line)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- process.Wait() }()
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != command.ExitUnread || strings.Contains(said.String(), "settle: ") {
				t.Errorf("watch %s: expected exit code 141 and no error, got %v and %q", watched, err, said.String())
			}
		case <-timeUp(t):
			t.Fatalf("watch %s: expected it to end with its reader", watched)
		}
	}
}
