package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/machines/signup"
)

// If this environment variable is set, the test program runs as settle, so that tests can kill it.
const actAsSettle = "SETTLE_TEST_ACT_AS_SETTLE"

// actOnTerminal is the variable's value for a process whose command reads standard input.
const actOnTerminal = "terminal"

// actOnLamps is the variable's value for a process that uses the machine lamp.
const actOnLamps = "lamps"

// devKills is how often TestDevGoesOnAfterKills kills settle dev. make kills sets it.
const devKills = "SETTLE_TEST_DEV_KILLS"

func TestMain(m *testing.M) {
	switch os.Getenv(actAsSettle) {
	case "":
		forgetSettings()
	case actOnTerminal: // The process ends with the terminal.
		main()
	case actOnLamps:
		go endWithTest()
		command.Main(lamps())
	default:
		go endWithTest()
		main()
	}
	os.Exit(m.Run())
}

// endWithTest ends the process when the test ends, even if the test crashes.
func endWithTest() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(command.ExitFailed)
}

// forgetSettings removes the environment variables that this program and the SDK read, because the developer may have
// set them for another stack.
func forgetSettings() {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		own := strings.HasPrefix(name, "SETTLE_") && !strings.HasPrefix(name, "SETTLE_TEST_")
		if own || strings.HasPrefix(name, "AWS_") || name == "COLUMNS" || name == "NO_COLOR" || name == "TERM" || name == "BASH_ENV" || strings.HasPrefix(name, "LC_") {
			_ = os.Unsetenv(name) // Unsetenv cannot fail for a listed name.
		}
	}
}

// errBadRequest is wrapped when the gateway will never accept a request.
var errBadRequest = errors.New("bad request")

// mortal runs settle dev. It kills the process and restarts it on the same data folder.
type mortal struct {
	dir string

	mu sync.Mutex
	// gateway is the current address of the gateway. It is empty while settle dev is down.
	gateway string
	// codes are the mailed codes by address, without duplicates.
	codes map[string][]string
	// output is the output of all runs.
	output bytes.Buffer
}

// mailLine matches the log line of a mail, with its address and its code.
var mailLine = regexp.MustCompile(`a mail would be sent now .*\bto=(\S+) .*\bcode=(\d+)`)

// live runs settle dev, lets it serve for some time, and kills it. It is an error if the process ends by itself.
func (m *mortal) live(program string, served <-chan time.Time, ready func()) error {
	command := exec.Command(program, "dev", "--data", m.dir, "--aws-port", "0", "--http-port", "0", "--job-pick-up-timeout", "1s")
	command.Env = append(os.Environ(), actAsSettle+"=1")
	if _, err := command.StdinPipe(); err != nil {
		return err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		return err
	}
	var end error
	ended := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			m.note(lines.Text(), ready)
		}
		end = command.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return fmt.Errorf("it ended by itself: %w", end)
	case <-served:
	}
	err = command.Process.Kill()
	<-ended
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gateway = ""
	return err
}

func (m *mortal) note(line string, ready func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.output.WriteString(line + "\n")
	if rest, ok := strings.CutPrefix(line, "  gateway  "); ok {
		m.gateway, _, _ = strings.Cut(rest, " ")
		ready()
	}
	if mail := mailLine.FindStringSubmatch(line); mail != nil && !slices.Contains(m.codes[mail[1]], mail[2]) {
		m.codes[mail[1]] = append(m.codes[mail[1]], mail[2])
	}
}

// mailed waits for the mail to the instance's user and returns the code that the instance expects. It compares codes
// with the stored hash: a mail may be printed after the instance has reached the next state, and a kill may cause a
// second mail.
func (m *mortal) mailed(ctx context.Context, instance, address string) (string, error) {
	answer, err := m.request(ctx, http.MethodGet, "/instances/"+instance, "", http.StatusOK)
	if err != nil {
		return "", err
	}
	var shown struct{ Context signup.Context }
	if err := json.Unmarshal(answer, &shown); err != nil {
		return "", err
	}
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		m.mu.Lock()
		codes := m.codes[address]
		m.mu.Unlock()
		for _, code := range codes {
			mac := hmac.New(sha256.New, nil) // The machines inside dev use no key.
			mac.Write([]byte(instance + "\n" + code))
			if hex.EncodeToString(mac.Sum(nil)) == shown.Context.CodeHash {
				return code, nil
			}
		}
	}
	return "", fmt.Errorf("%s: no mail with the expected code: %w", instance, ctx.Err())
}

// request repeats a request to the gateway until the response has the wanted status.
func (m *mortal) request(ctx context.Context, method, path, body string, want int) ([]byte, error) {
	last := fmt.Errorf("settle dev did not start")
	for {
		m.mu.Lock()
		gateway := m.gateway
		m.mu.Unlock()
		if gateway != "" {
			answer, err := tryRequest(ctx, method, gateway+path, body, want)
			if err == nil {
				return answer, nil
			}
			if last = err; errors.Is(err, errBadRequest) {
				return nil, fmt.Errorf("%s %s %s: %w", method, path, body, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s %s: %w", method, path, last)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func tryRequest(ctx context.Context, method, url, body string, want int) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != want {
		err = fmt.Errorf("expected %d, got %d: %s", want, response.StatusCode, answer)
		if response.StatusCode == http.StatusBadRequest {
			err = fmt.Errorf("%w: %w", errBadRequest, err)
		}
	}
	return answer, err
}

// step is an event for an instance, and the state to wait for before the next step.
type step struct {
	event string                            // the event as JSON; play adds an ID if the event has none, and sends nothing if this is empty
	state string                            // if empty, play does not wait
	holds func(context map[string]any) bool // nil means no further condition
}

// play runs the steps of an instance.
func (m *mortal) play(ctx context.Context, instance string, steps ...func() step) error {
	for i, next := range steps {
		s := next()
		if s.event != "" {
			// The ID makes a repeated request a duplicate.
			event := s.event
			if !strings.Contains(event, `"$id"`) {
				event = strings.Replace(event, "{", fmt.Sprintf(`{"$id": "%s-%d", `, strings.ReplaceAll(instance, "/", "-"), i), 1)
			}
			if _, err := m.request(ctx, http.MethodPost, "/instances/"+instance+"/events", event, http.StatusAccepted); err != nil {
				return err
			}
		}
		var shown struct {
			State   []string
			Context map[string]any
		}
		for s.state != "" && (len(shown.State) != 1 || shown.State[0] != s.state || s.holds != nil && !s.holds(shown.Context)) {
			answer, err := m.request(ctx, http.MethodGet, "/instances/"+instance, "", http.StatusOK)
			if err == nil {
				err = json.Unmarshal(answer, &shown)
			}
			if err != nil {
				return fmt.Errorf("%s: waiting for %s after step %d, it is in %v: %w", instance, s.state, i, shown.State, err)
			}
		}
	}
	return nil
}

// round plays the three scenes of the demo with its own instances.
func (m *mortal) round(ctx context.Context, number int) error {
	at := func(event, state string) func() step { return func() step { return step{event: event, state: state} } }
	ids := fmt.Sprintf(`"run_id": %d, "job_id": 1`, number)
	job := func(event, state string) func() step {
		return at(fmt.Sprintf(`{"type": %q, %s}`, event, ids), state)
	}
	if err := m.play(ctx, fmt.Sprintf("job/run-%d-job-2", number), at(fmt.Sprintf(`{"type": "queued", "run_id": %d, "job_id": 2, "labels": ["self-hosted"]}`, number), "")); err != nil {
		return err
	}
	// A second to pick up a queued job is too short on a busy machine, so this job starts in progress.
	if err := m.play(ctx, fmt.Sprintf("job/run-%d-job-1", number),
		job("in_progress", "in_progress"),
		at(fmt.Sprintf(`{"type": "completed", "conclusion": "success", %s}`, ids), "success")); err != nil {
		return err
	}
	const waiting = "unverified.awaiting_verification"
	address := fmt.Sprintf("ada-%d@example.com", number)
	counted := func(key string) func(map[string]any) bool {
		return func(context map[string]any) bool { return context[key] == 1.0 }
	}
	instance := fmt.Sprintf("signup/ada-%d", number)
	if err := m.play(ctx, instance,
		at(fmt.Sprintf(`{"type": "SIGN_UP", "email": %q, "name": "Ada"}`, address), waiting),
		func() step { return step{`{"type": "VERIFY", "code": "no"}`, waiting, counted("wrong_codes")} },
		func() step { return step{`{"type": "RESEND"}`, waiting, counted("resends")} }); err != nil {
		return err
	}
	code, err := m.mailed(ctx, instance, address)
	if err != nil {
		return err
	}
	if err := m.play(ctx, instance, at(fmt.Sprintf(`{"type": "VERIFY", "code": %q, "$id": "ada-%d-code"}`, code, number), "active")); err != nil {
		return err
	}
	return m.play(ctx, fmt.Sprintf("job/run-%d-job-2", number), func() step {
		return step{"", "not_picked_up", func(context map[string]any) bool { return context["launches"] == 3.0 }}
	})
}

func TestDevGoesOnAfterKills(t *testing.T) {
	t.Parallel()
	kills, err := strconv.Atoi(cmp.Or(os.Getenv(devKills), "5"))
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("%d kills, seed %d", kills, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	m := &mortal{dir: t.TempDir(), codes: map[string][]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		select {
		case <-timeUp(t): // The rounds end, and the test reports the output.
			cancel()
		case <-ctx.Done():
		}
	}()

	played := make(chan struct{}) // closed when the rounds are over
	killed := make(chan struct{}) // closed after the last kill
	var lives sync.WaitGroup
	lives.Go(func() {
		for life := range kills + 1 {
			served := make(chan time.Time)
			wait := time.Duration(20+random.IntN(400)) * time.Millisecond
			ready := func() { time.AfterFunc(wait, func() { close(served) }) }
			if life == kills {
				close(killed)
				ready = func() {}
				go func() { <-played; close(served) }()
			}
			if err := m.live(program, served, ready); err != nil {
				t.Errorf("life %d: %v", life, err)
				cancel()
			}
		}
	})
	rounds := 0
	for more := true; more; rounds++ {
		if err := m.round(ctx, rounds+1); err != nil {
			t.Error(err)
			break
		}
		select {
		case <-killed:
			more = false
		default:
		}
	}
	cancel()
	close(played)
	lives.Wait()
	t.Logf("played the demo %d times", rounds)
	if t.Failed() {
		t.Logf("what was printed:\n%s", m.output.String())
	}
}

func TestDevReportsADataFolderInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dev := startDev(t, "--data", dir)
	contains(t, strings.Join(dev.welcome, "\n"), "Ctrl-C stops; to continue later, run settle dev with --data "+dir+" again.")
	got := user{t: t}.run("dev", "--aws-port", "0", "--http-port", "0", "--data", dir)
	want := "settle: the data folder " + dir + " is in use by another process: stop that one, or choose another folder\n"
	if got.code != command.ExitFailed || got.err != want {
		t.Errorf("expected exit code 1 and %q, got %d and %q", want, got.code, got.err)
	}
	dev.stop()
	for range dev.screen.lines { // until the output ends
	}
	if code := <-dev.ended; code != command.ExitDone {
		t.Errorf("expected exit code 0 after being stopped, got %d", code)
	}
}
