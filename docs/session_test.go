package docs_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// ticksMax limits how often a test looks for output before it fails. A tick takes at least 50 ms, which leaves time for
// the timers on the pages. A tick also starts a process, so it takes longer on a busy machine.
const ticksMax = 2400

// The addresses of settle dev on the pages.
const (
	shownAWS     = "127.0.0.1:7389"
	shownGateway = "127.0.0.1:7388"
)

// session is a reader with one or two terminals. Commands print different text to a terminal and to a pipe.
type session struct {
	folder string
	env    []string
	shell  io.Writer
	output *bufio.Reader
	// end is a line that no command prints. The shell prints it after each command.
	end string
	// stays is the other terminal, with a command that keeps running.
	stays *terminal
	// aws and `gateway` are the addresses of the reader's settle dev.
	aws, gateway string
	// ids maps each ID on the page to the printed ID.
	ids map[string]string
	// settle is the path of a settle executable.
	settle string
}

// tick waits for 50 ms, and until a process has started and ended.
func (s *session) tick(t *testing.T) {
	t.Helper()
	time.Sleep(50 * time.Millisecond)
	if printed, err := exec.CommandContext(t.Context(), s.settle, "--help").CombinedOutput(); err != nil {
		t.Fatalf("settle --help: %v\n%s", err, printed)
	}
}

// untilDeadline returns a context that ends before the timeout of `go test`, so that a test can still report its position.
func untilDeadline(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	if deadline, ok := t.Deadline(); ok {
		return context.WithDeadline(t.Context(), deadline.Add(-time.Minute))
	}
	return context.WithCancel(t.Context())
}

// foreign lists prefixes of variables that a reader's shell does not have: settings of this machine's stacks, and
// variables that the program make sets.
var foreign = []string{"AWS_", "SETTLE_", "PATH=", "MAKE", "MFLAGS=", "GNUMAKEFLAGS="}

// newSession returns a reader in an empty folder, or in a clone.
func newSession(t *testing.T, clone bool) *session {
	t.Helper()
	home := t.TempDir()
	s := &session{folder: filepath.Join(home, "folder"), end: "end of command " + rand.Text(), aws: shownAWS, gateway: shownGateway, ids: map[string]string{}}
	bin := filepath.Join(home, "bin")
	for _, folder := range []string{s.folder, bin} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeStandIns(t, bin)
	path := bin
	ready := binaries(t) // A clone needs this call too: it fills the build cache before the pages compile in parallel.
	s.settle = filepath.Join(ready, "settle")
	if clone {
		copyRepository(t, s.folder)
	} else {
		path += string(filepath.ListSeparator) + ready
	}
	command := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc")
	for _, variable := range command.Environ() {
		if !slices.ContainsFunc(foreign, func(prefix string) bool { return strings.HasPrefix(variable, prefix) }) {
			s.env = append(s.env, variable)
		}
	}
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "PATH="+path+string(filepath.ListSeparator)+os.Getenv("PATH"), "GOBIN="+bin,
		"GOPROXY=off", "GOWORK=off", "GOFLAGS="+goFlags, "CGO_ENABLED=0", "SETTLE="+repository, "LC_ALL=C.UTF-8", "TZ=UTC", "TERM=xterm", "NO_COLOR=1", "AWS_PAGER=")
	command.Env, command.Dir = s.env, s.folder
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	screen, end, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = end, end
	if err := errors.Join(pty.Setsize(screen, &pty.Winsize{Rows: 50, Cols: 200}), command.Start(), end.Close()); err != nil {
		t.Fatal(err)
	}
	s.shell, s.output = stdin, bufio.NewReader(screen)
	t.Cleanup(func() {
		s.stop(t)
		_ = stdin.Close() // The shell then ends.
		_ = command.Wait()
		_ = screen.Close()
	})
	return s
}

// play handles a block by its mark.
func (s *session) play(t *testing.T, b block) {
	t.Helper()
	switch b.mark {
	case "run":
		commands := commandsOf(b)
		for i, c := range commands {
			if b.argument == "stays" && i == len(commands)-1 {
				s.start(t, b, c)
				continue
			}
			s.run(t, b, c)
		}
	case "printed":
		if s.stays == nil {
			t.Fatalf("%s:%d: expected a command that stays above, got none", b.page, b.line)
		}
		s.stays.await(t, s, b)
	case "file":
		s.write(t, b.argument, b.text)
	case "apply":
		path := filepath.Join(s.folder, b.argument)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed, err := apply(string(text), b.text)
		if err != nil {
			t.Fatalf("%s:%d: %v", b.page, b.line, err)
		}
		s.write(t, b.argument, changed)
	}
}

func (s *session) write(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(s.folder, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run types a command, and compares its output and exit code.
func (s *session) run(t *testing.T, b block, c command) {
	t.Helper()
	want := 0
	if code, ok := strings.CutPrefix(b.argument, "exits "); ok {
		want, _ = strconv.Atoi(code)
	}
	for ticks := 1; ; ticks++ {
		got, code, err := s.do(t, c.text)
		if err != nil {
			t.Fatalf("%s:%d: %s: %v, after\n%s", b.page, b.line, c.text, err, got)
		}
		lines := strings.Split(strings.TrimRight(got, "\n"), "\n")
		same := len(c.want) == 0 || matches(s.patterns(c.want), s.patterns(lines))
		switch {
		case same && code == want:
			s.learn(c.want, lines)
			return
		case b.argument == "again" && ticks < ticksMax:
			s.tick(t)
			continue
		}
		t.Fatalf("%s:%d: %s\nexit code %d, want %d, prints:\n%s\nwant:\n%s", b.page, b.line, c.text, code, want, s.shown(got), strings.Join(c.want, "\n"))
	}
}

// progress matches text that a terminal overwrites later.
var progress = regexp.MustCompile(`(\r[^\r\n]*)*\r\x1b\[K`)

// do types a command and returns its output.
func (s *session) do(t *testing.T, text string) (printed string, code int, err error) {
	t.Helper()
	text = s.typed(text)
	if _, err := fmt.Fprintf(s.shell, "{ %s\n} </dev/null; printf '\\n%s %%d\\n' $?\n", text, s.end); err != nil {
		return "", 0, err
	}
	type result struct {
		printed string
		code    int
		err     error
	}
	done := make(chan result, 1)
	go func() {
		var b strings.Builder
		for {
			line, err := s.output.ReadString('\n')
			line = strings.ReplaceAll(progress.ReplaceAllString(line, ""), "\r\n", "\n")
			if err != nil {
				done <- result{b.String(), 0, fmt.Errorf("the shell has ended: %w", err)}
				return
			}
			if rest, ok := strings.CutPrefix(line, s.end); ok {
				code, err := strconv.Atoi(strings.TrimSpace(rest))
				done <- result{strings.TrimSuffix(b.String(), "\n"), code, err}
				return
			}
			b.WriteString(line)
		}
	}()
	ctx, cancel := untilDeadline(t)
	defer cancel()
	select {
	case r := <-done:
		return r.printed, r.code, r.err
	case <-ctx.Done():
		return "", 0, ctx.Err()
	}
}

// terminal is a terminal with a command that keeps running.
type terminal struct {
	command *exec.Cmd
	ended   chan struct{} // closed when the command has ended
	log     string
	// seen is the length of the output that has been compared.
	seen int
}

// start starts a command that keeps running in its own terminal, and waits for its output.
func (s *session) start(t *testing.T, b block, c command) {
	t.Helper()
	s.stop(t)
	folder, _, err := s.do(t, "pwd")
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{log: filepath.Join(t.TempDir(), "terminal"), ended: make(chan struct{})}
	log, err := os.Create(x.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	text := devPattern.ReplaceAllString(c.text, "$1 dev --aws-port 0 --http-port 0$2") // Another test may have the ports.
	x.command = exec.Command("bash", "--noprofile", "--norc", "-c", text)
	x.command.Env, x.command.Dir = s.env, strings.TrimSpace(folder)
	x.command.Stdout, x.command.Stderr = log, log
	x.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its child processes end with it
	if err := x.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = x.command.Wait() // Wait fails, because stop kills the command.
		close(x.ended)
	}()
	s.stays = x
	s.readAddresses(t, b)
	if len(c.want) > 0 {
		b.text = strings.Join(c.want, "\n") + "\n"
		x.await(t, s, b)
	}
}

// devPattern finds the command that serves the stack: settle, or the command of a reader's module.
var devPattern = regexp.MustCompile(`(\S+) dev( |$)`)

var addresses = regexp.MustCompile(`(?s)  AWS      http://(\S+) .*  gateway  http://(\S+) .*Each transition is printed below`)

// readAddresses waits until settle dev prints its addresses.
func (s *session) readAddresses(t *testing.T, b block) {
	t.Helper()
	for running := true; running; {
		select {
		case <-s.stays.ended:
			running = false // Look once more: the last lines may be new.
		case <-time.After(50 * time.Millisecond):
		}
		text, err := os.ReadFile(s.stays.log)
		if err != nil {
			t.Fatal(err)
		}
		if found := addresses.FindStringSubmatch(string(text)); found != nil {
			s.aws, s.gateway = found[1], found[2]
			if _, _, err := s.do(t, "export AWS_ENDPOINT_URL=http://"+s.aws); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	text, _ := os.ReadFile(s.stays.log) // Without the file, the text is empty.
	t.Fatalf("%s:%d: expected settle dev to start, got:\n%s", b.page, b.line, text)
}

// await waits until the lines of the block are printed in order. Other lines may come in between.
func (x *terminal) await(t *testing.T, s *session, b block) {
	t.Helper()
	want := s.patterns(strings.Split(strings.TrimRight(b.text, "\n"), "\n"))
	var text []byte
	for range ticksMax {
		var err error
		if text, err = os.ReadFile(x.log); err != nil {
			t.Fatal(err)
		}
		left, seen := want, 0
		for line := range strings.Lines(string(text[x.seen:])) {
			for len(left) > 0 && (left[0] == "..." || left[0] == "") {
				left = left[1:]
			}
			if len(left) == 0 {
				break
			}
			seen += len(line)
			if s.pattern(line) == left[0] {
				left = left[1:]
			}
		}
		if len(left) == 0 {
			x.seen += seen
			return
		}
		s.tick(t)
	}
	t.Fatalf("%s:%d: the terminal prints:\n%s\nwant:\n%s", b.page, b.line, s.shown(string(text[x.seen:])), b.text)
}

// stop ends the running command and its child processes.
func (s *session) stop(t *testing.T) {
	t.Helper()
	if s.stays == nil {
		return
	}
	if err := syscall.Kill(-s.stays.command.Process.Pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("ending %s: %v", s.stays.command, err)
	}
	<-s.stays.ended
	s.stays = nil
}
