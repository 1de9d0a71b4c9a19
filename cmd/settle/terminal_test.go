package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// onTerminal runs a command line as a process on a pseudo-terminal, and returns the text that appears there. `typed` is
// the input.
func onTerminal(t *testing.T, endpoint, typed string, args ...string) string {
	t.Helper()
	return seenOnTerminal(t, asSettle(t, actOnTerminal, endpoint, args...), typed)
}

func seenOnTerminal(t *testing.T, command *exec.Cmd, typed string) string {
	t.Helper()
	terminal, err := pty.StartWithSize(command, &pty.Winsize{Rows: 40, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if _, err := io.WriteString(terminal, typed); err != nil {
		t.Fatal(err)
	}
	seen, _ := io.ReadAll(terminal) // On Linux, a read at the end of a terminal fails (EIO).
	if err := command.Wait(); err != nil {
		t.Errorf("%v on a terminal: %v after %q", command.Args, err, seen)
	}
	return strings.ReplaceAll(string(seen), "\r\n", "\n")
}

// inPipe runs a command line as a process with its output in a pipe.
func inPipe(t *testing.T, endpoint string, args ...string) string {
	t.Helper()
	command := asSettle(t, "pipe", endpoint, args...)
	if _, err := command.StdinPipe(); err != nil { // The process ends with its input. See TestMain.
		t.Fatal(err)
	}
	out, err := command.Output()
	if err != nil {
		t.Errorf("settle %v in a pipe: %v after %q", args, err, out)
	}
	return string(out)
}

// asSettle returns a process that runs the command. See TestMain.
func asSettle(t *testing.T, how, endpoint string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, args...)
	command.Args[0] = "settle"
	command.Env = append(os.Environ(), actAsSettle+"="+how, "AWS_ENDPOINT_URL="+endpoint, "NO_COLOR=", "TERM=xterm")
	return command
}

// parkOne parks an event that does not start an instance.
func parkOne(t *testing.T, endpoint string) {
	t.Helper()
	parked := asSettle(t, actOnTerminal, endpoint, "send", "--local", "signup/none", "CANCEL", "--wait", "settled", "--timeout", "1h")
	if said, err := parked.CombinedOutput(); err == nil || !strings.Contains(string(said), "the event was parked: ") {
		t.Fatalf("expected an event to be parked, got %v and %q", err, said)
	}
}

func TestTerminalGetsColorAndTablesAndPipeGetsJSON(t *testing.T) {
	t.Parallel()
	dev := quietDev(t)
	sent := onTerminal(t, dev.aws, "", "send", "--local", "signup/42", "SIGN_UP", "email=ada@example.com", "name=Ada", "--wait", "settled", "--timeout", "1h")
	contains(t, sent, "sent SIGN_UP to signup/42 as message ", "\x1b[1msignup/42\x1b[0m is in \x1b[32munverified.awaiting_verification\x1b[0m, settled, revision ")

	for _, c := range []struct {
		line string
		seen []string
	}{
		{"list --local", []string{"\x1b[2mINSTANCE\x1b[0m   \x1b[2mSTATE\x1b[0m  ", "\x1b[1msignup/42\x1b[0m  \x1b[32munverified.awaiting_verification\x1b[0m  active"}},
		{"get --local signup/42", []string{"\x1b[1msignup/42\x1b[0m\n", "\x1b[2mstate\x1b[0m     \x1b[32munverified.awaiting_verification\x1b[0m\n"}},
		{"history --local signup/42", []string{"  SIGN_UP      new → \x1b[32munverified.registering\x1b[0m\n"}},
		{"graph", []string{"\x1b[1msignup\x1b[0m    1        CANCEL"}},
		{"check --local", []string{"\x1b[2mMACHINE\x1b[0m  \x1b[2mVERSION\x1b[0m"}},
		{"dlq list --local", []string{"No parked events.\n"}},
	} {
		contains(t, onTerminal(t, dev.aws, "", strings.Fields(c.line)...), c.seen...)
		piped := inPipe(t, dev.aws, strings.Fields(c.line)...)
		for line, decoder := 0, json.NewDecoder(strings.NewReader(piped)); line == 0 || decoder.More(); line++ {
			var value any
			if err := decoder.Decode(&value); err != nil {
				t.Errorf("%s: expected JSON in a pipe, got %v in %q", c.line, err, piped)
				break
			}
		}
		if strings.Contains(piped, "\x1b") {
			t.Errorf("%s: expected no color in a pipe, got %q", c.line, piped)
		}
	}
	plain := asSettle(t, actOnTerminal, dev.aws, "list", "--local")
	plain.Env = append(plain.Env, "NO_COLOR=1")
	progress := regexp.MustCompile("\r[^\r]*\x1b\\[K") // On a slow machine, the output contains progress.
	if seen := progress.ReplaceAllString(seenOnTerminal(t, plain, ""), ""); !strings.HasPrefix(seen, "INSTANCE   STATE  ") || strings.Contains(seen, "\x1b[") {
		t.Errorf("with NO_COLOR: expected a table without color, got %q", seen)
	}
	if empty := onTerminal(t, dev.aws, "", "dlq", "drop", "--local", "--all"); !strings.HasSuffix(empty, "No parked events.\n") || strings.Contains(empty, "[y/N]") {
		t.Errorf("expected no question about an empty queue, got %q", empty)
	}
	parkOne(t, dev.aws)
	dropped := onTerminal(t, dev.aws, "y\n", "dlq", "drop", "--local", "--all")
	if !strings.Contains(dropped, "Permanently drop all events in settle-dlq.fifo, about 1? [y/N] ") || !strings.HasSuffix(dropped, "1 event dropped\n") {
		t.Errorf("expected the question and the answer, got %q", dropped)
	}
}
