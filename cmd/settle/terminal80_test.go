package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// typing is text that the test types after the text `seen` appears.
type typing struct{ seen, typed string }

// ctrlC is the character that the key Ctrl-C sends. The terminal converts it to SIGINT.
const ctrlC = "\x03"

// atTerminal runs a process on an 80 by 24 terminal. It returns the text that appears there and the exit code.
func atTerminal(t *testing.T, process *exec.Cmd, steps ...typing) (seen string, code int) {
	t.Helper()
	terminal, err := pty.StartWithSize(process, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	var screen syncBuffer
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(&screen, terminal) // On Linux, a read at the end of a terminal fails (EIO).
	}()
	timeout := timeUp(t)
	for _, step := range steps {
		for ended := false; !strings.Contains(screen.String(), step.seen); {
			if ended {
				t.Fatalf("%v: expected %q before its end, got %q", process.Args, step.seen, screen.String())
			}
			select {
			case <-over:
				ended = true // Look once more.
			case <-timeout:
				t.Fatalf("%v: expected %q, got %q", process.Args, step.seen, screen.String())
			case <-time.After(10 * time.Millisecond):
			}
		}
		if _, err := io.WriteString(terminal, step.typed); err != nil {
			t.Fatal(err)
		}
	}
	<-over
	var failed *exec.ExitError
	if err := process.Wait(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return strings.ReplaceAll(screen.String(), "\r\n", "\n"), process.ProcessState.ExitCode()
}

// widest returns the widest line.
func widest(text string) (line string, columns int) {
	for one := range strings.SplitSeq(strings.ReplaceAll(text, "\x1b[K", ""), "\n") {
		one = one[strings.LastIndexByte(one, '\r')+1:]
		if width := console.Width(one); width > columns {
			line, columns = one, width
		}
	}
	return line, columns
}

// quietDev starts a settle dev whose output is discarded.
func quietDev(t *testing.T, flags ...string) devRun {
	t.Helper()
	dev := startDev(t, flags...)
	over := make(chan struct{})
	go func() { // Unread output would block dev.
		defer close(over)
		for range dev.screen.lines {
		}
	}()
	t.Cleanup(func() {
		dev.stop()
		<-over
	})
	return dev
}

func TestTextFitsATerminalOf80Columns(t *testing.T) {
	t.Parallel()
	dev := quietDev(t, "--clock", "virtual")
	on := func(line string, steps ...typing) (string, int) {
		t.Helper()
		return atTerminal(t, asSettle(t, actOnTerminal, dev.aws, strings.Fields(line)...), steps...)
	}
	bulk := " --local --machine signup --journal " + filepath.Join(t.TempDir(), "journal")
	for _, line := range []string{
		"send --local signup/42 SIGN_UP email=ada@example.com name=Ada --wait settled --timeout 1h", "send --local job/run-1-job-2 queued run_id:=1 job_id:=2 labels:=[\"self-hosted\"]",
		"send --local signup/42 RESEND --wait settled --timeout 1h",
		"list --local", "history --local signup/42", "graph", "check --local", "migrate --local --dry-run", "resume --local signup/42", "dlq list --local",
		"dlq redrive --local --all", "dlq drop --local --all --yes", "--help", "dev --help", "dlq --help", "send --help", "watch --help", "completion bash",
		"send --local signup/43 SIGN_UP email=bob@example.com name=Bob --wait settled --timeout 1h", "move --local signup/43 unverified.registering --set email=eve@example.com --reason misspelt",
		"keep --local signup/43 --reason evidence", "bulk keep --older-than 1ms --dry-run" + bulk, "bulk unkeep --context name=Bob" + bulk, "unkeep --local signup/43",
		"stop --local signup/43 --dry-run", "terminate --local signup/43 --dry-run", "stop --local signup/43", "forget --local signup/43", "clock", "clock advance 1m", "bulk --help", "bulk stop --help", "bench --help",
	} {
		var steps []typing
		if strings.HasPrefix(line, "forget ") || strings.HasPrefix(line, "bulk unkeep ") {
			steps = []typing{{"[y/N] ", "y\n"}}
		}
		seen, code := on(line, steps...)
		if long, columns := widest(seen); columns > 80 && !strings.Contains(long, "settle ") && !strings.Contains(long, "COMPREPLY") || code != command.ExitDone || seen == "" {
			t.Errorf("%s: expected at most 80 columns and exit code 0, got %d in %q, and exit code %d", line, columns, long, code)
		}
	}
	// The event settle.unkeep makes its column so wide that the state after the arrow fits only further to the left.
	for _, line := range []string{"keep --local signup/42", "unkeep --local signup/42"} {
		on(line)
	}
	seen, _ := on("get --local signup/42")
	contains(t, seen, "settle.unkeep", "\n               → \x1b[32munverified.awaiting_verification\x1b[0m\n")
	before, rest, _ := strings.Cut(seen, "context")
	_, after, _ := strings.Cut(rest, "stored")
	if long, columns := widest(before + "\n" + after); columns > 80 {
		t.Errorf("get: expected at most 80 columns beside the context, got %q", long)
	}
	if list, _ := on("list --local"); !regexp.MustCompile(`\n    deadline, in 23h\d+m\n`).MatchString(list) {
		t.Errorf("list: expected the timer in a line of its own, got\n%s", list)
	}
	seen, code := on("watch --local --machine signup --every 100ms", typing{"read units now", ctrlC})
	long, columns := widest(seen)
	if columns > 80 || code != command.ExitDone || !strings.Contains(seen, "^C\nUsed ") || !strings.HasSuffix(seen, "s.\n") {
		t.Errorf("watch: expected at most 80 columns, a line of its own after ^C, and exit code 0, got %q in\n%q, and %d", long, seen, code)
	}
	seen, code = on("bench --local --events 5 --rate 100 --step-functions " + benchRole)
	if long, columns := widest(seen); columns > 80 || code != command.ExitDone {
		t.Errorf("bench: expected at most 80 columns and exit code 0, got %q in\n%s, and %d", long, seen, code)
	}
}

func TestCtrlCLeavesTheTerminalClean(t *testing.T) {
	t.Parallel()
	dev := quietDev(t)
	parkOne(t, dev.aws)
	for _, c := range []struct {
		line  string
		steps []typing
		end   string
		code  int
	}{
		{"watch --local signup/42", []typing{{"does not exist yet", ctrlC}}, "^C\n", command.ExitDone},
		{"dlq drop --local --all", []typing{{"[y/N] ", ctrlC}}, "[y/N] ^C\nsettle: interrupted\n", command.ExitInterrupted},
		{"send --local signup/7 SIGN_UP email=ada@example.com name=Ada --wait failed --timeout 1h", []typing{{"revision 1", ctrlC}}, ", revision 1\n", command.ExitInterrupted},
		{"simulate signup", []typing{{"xstate.init", ctrlC}}, "^C", command.ExitDone},
	} {
		seen, code := atTerminal(t, asSettle(t, actOnTerminal, dev.aws, strings.Fields(c.line)...), c.steps...)
		last := seen[strings.LastIndex(seen, "\x1b[K")+1:]
		if !strings.HasSuffix(seen, c.end) || code != c.code || strings.Contains(last, "waiting: ") {
			t.Errorf("%s: expected the end %q and exit code %d, got %q and %d", c.line, c.end, c.code, seen, code)
		}
	}
}

func TestDevOnATerminalIsFoldedAndStops(t *testing.T) {
	t.Parallel()
	seen, code := atTerminal(t, asSettle(t, actOnTerminal, "", "dev", "--aws-port", "0", "--http-port", "0"), typing{"Ctrl-C stops; nothing is kept.", ctrlC})
	if code != command.ExitDone || !strings.HasSuffix(seen, "^C\nStopping.\n") {
		t.Errorf("expected exit code 0 and a closing line, got %d and %q", code, seen)
	}
	head, _, _ := strings.Cut(seen, "Try it in another terminal:")
	if long, columns := widest(head); columns > 80 {
		t.Errorf("expected at most 80 columns above the commands to paste, got %q", long)
	}
}

func TestDumbTerminalGetsNoEscapeSequences(t *testing.T) {
	t.Parallel()
	dev := quietDev(t)
	for _, line := range []string{"send --local signup/42 SIGN_UP email=ada@example.com name=Ada --wait settled --timeout 1h", "list --local", "dlq list --local", "get --local signup/42"} {
		process := asSettle(t, actOnTerminal, dev.aws, strings.Fields(line)...)
		process.Env = append(process.Env, "TERM=dumb")
		if seen, code := atTerminal(t, process); code != command.ExitDone || strings.ContainsAny(seen, "\x1b\r") {
			t.Errorf("%s: expected exit code 0 and no escapes, got %d and %q", line, code, seen)
		}
	}
}

// withoutCredentials returns a process of settle list without AWS credentials.
func withoutCredentials(t *testing.T, environment ...string) *exec.Cmd {
	t.Helper()
	process := asSettle(t, actOnTerminal, "", "list")
	process.Env = append(append(process.Env, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_PROFILE=",
		"AWS_CONFIG_FILE="+t.TempDir()+"/none", "AWS_SHARED_CREDENTIALS_FILE="+t.TempDir()+"/none", "AWS_CONTAINER_CREDENTIALS_FULL_URI=",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=", "AWS_WEB_IDENTITY_TOKEN_FILE="), environment...)
	return process
}

// The metadata service of this test has no tokens. By default, the SDK would log warnings about that.
func TestSDKPrintsNoWarnings(t *testing.T) {
	t.Parallel()
	metadata := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(metadata.Close)
	process := withoutCredentials(t, "AWS_EC2_METADATA_DISABLED=false", "AWS_EC2_METADATA_SERVICE_ENDPOINT="+metadata.URL)
	seen, code := atTerminal(t, process)
	if code != command.ExitFailed || !strings.HasPrefix(seen, "settle: no AWS credentials found: ") || strings.Contains(seen, "SDK") || strings.Contains(seen, "WARN") {
		t.Errorf("expected exit code 1 and only the error, got %d and %q", code, seen)
	}
}

func TestMissingCredentialsAreReportedWithAdvice(t *testing.T) {
	t.Parallel()
	process := withoutCredentials(t, "AWS_EC2_METADATA_DISABLED=true")
	seen, code := atTerminal(t, process)
	const want = "settle: no AWS credentials found: set them up as for the aws CLI (AWS_PROFILE, AWS_ACCESS_KEY_ID, aws sso login), or use --local for the stack of settle dev: "
	if one := strings.ReplaceAll(seen, "\n", " "); code != command.ExitFailed || !strings.HasPrefix(one, want) {
		t.Errorf("expected exit code 1 and %q, got %d and %q", want, code, seen)
	}
	if long, columns := widest(seen); columns > 80 {
		t.Errorf("expected an error folded at spaces, got %q", long)
	}
}
