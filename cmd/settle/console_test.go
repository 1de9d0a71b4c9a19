package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/settle-run/settle/cmd/settle/command"
)

// get returns the body of a page.
func get(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: got status %d and %v", address, answer.StatusCode, err)
	}
	return string(text)
}

// followed opens the stream of a page, reads its first message, and leaves the stream open.
func followed(t *testing.T, address string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			return
		}
	}
	t.Fatalf("expected a message of %s", address)
}

func TestDevAndConsoleServePagesAndStopWithOpenStreams(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	go func() {
		for range d.screen.lines { // dev waits until its output is read.
		}
	}()
	if code, said := d.settle(t, "send", "--local", "signup/42", "SIGN_UP", "email=ada@example.com", "name=Ada", "--wait", "settled"); code != command.ExitDone {
		t.Fatalf("got exit code %d and %s", code, said)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, ended := newScreen(t.Context()), make(chan int, 1)
	var errOut syncBuffer
	go func() {
		ended <- command.Run(ctx, settle(), command.Process{Out: out, Err: &errOut, Program: "settle", Endpoint: d.aws}, []string{"console", "--local", "--port", "0"})
		_ = out.Close() // A pipe's Close returns no error.
	}()
	said := strings.Join(out.await(t, "The console is at"), " ")
	_, said, _ = strings.Cut(said, "The console is at ")
	address, _, _ := strings.Cut(said, ". ")

	for _, base := range []string{d.gateway + "/console/", address} {
		contains(t, get(t, base), "signup", "unverified.awaiting_verification")
		contains(t, get(t, base+"instances/signup/42"), "ada@example.com", "<svg")
		contains(t, get(t, base+"parked"), "No parked events.")
		followed(t, base+"live/machines/signup")
	}
	contains(t, get(t, address), "table settle")
	const form = "instances/signup/42/events/VERIFY"
	contains(t, get(t, d.gateway+"/console/"+form), `value="send"`, "settle dev")
	contains(t, get(t, d.gateway+"/console/instances/signup/42/operate/stop"), "Dry run", "local user alice")
	if page := get(t, address+"instances/signup/42"); strings.Contains(page, form) || strings.Contains(page, "/operate/") {
		t.Error("expected no forms without --write")
	}
	stop()
	if code := <-ended; code != command.ExitDone {
		t.Errorf("expected exit code 0, got %d and %s", code, errOut.String())
	}
	d.end(t)
}
