package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// devRun is a running settle dev on free ports.
type devRun struct {
	screen screen
	stop   context.CancelFunc
	ended  chan int
	// aws and gateway are the addresses that dev printed.
	aws, gateway string
	welcome      []string
	config       command.Config
}

func startDev(t *testing.T, flags ...string) devRun {
	t.Helper()
	return startDevOf(t, settle(), flags...)
}

// startDevOf is startDev for another command.
func startDevOf(t *testing.T, config command.Config, flags ...string) devRun {
	t.Helper()
	return startDevIn(t, config, command.Process{}, flags...)
}

// startDevIn is startDevOf in a process with other settings.
func startDevIn(t *testing.T, config command.Config, process command.Process, flags ...string) devRun {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	d := devRun{screen: newScreen(t.Context()), stop: stop, ended: make(chan int, 1), config: config}
	var errOut syncBuffer
	process.Out, process.Err, process.Program, process.User = d.screen, &errOut, "settle", "alice"
	go func() {
		code := command.Run(ctx, config, process, append([]string{"dev", "--aws-port", "0", "--http-port", "0"}, flags...))
		d.ended <- code
		_ = d.screen.Close() // A pipe's Close returns no error.
	}()
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("standard error: %q", errOut.String())
		}
	})
	d.welcome = d.screen.await(t, "Each transition is printed below")
	for _, line := range d.welcome {
		switch fields := strings.Fields(line); {
		case strings.HasPrefix(line, "  AWS  "):
			d.aws = fields[1]
		case strings.HasPrefix(line, "  gateway  "):
			d.gateway = fields[1]
		}
	}
	return d
}

// end stops dev and waits until it has ended.
func (d devRun) end(t *testing.T) {
	t.Helper()
	d.stop()
	for range d.screen.lines { // until the output ends
	}
	if code := <-d.ended; code != command.ExitDone {
		t.Errorf("expected exit code 0 after being stopped, got %d", code)
	}
}

// settle runs a command line against dev, and returns the exit code and standard error.
func (d devRun) settle(t *testing.T, args ...string) (code int, errOut string) {
	t.Helper()
	var said bytes.Buffer
	code = command.Run(t.Context(), d.config, command.Process{Err: &said, StdoutTTY: true, Endpoint: d.aws}, args)
	return code, said.String()
}

func TestDevPrintsTheWarningsOfCharts(t *testing.T) {
	t.Parallel()
	type note struct{}
	chart := statechart.Must(statechart.Definition[note]{
		ID: "lamp", Version: 1, Initial: "off", Payloads: statechart.Payloads{"ON": statechart.NoPayload(), "DIM": statechart.NoPayload()},
		States: []statechart.State[note]{
			{ID: "off", Tags: []string{statechart.Settled}, On: []statechart.Transition[note]{{Event: "ON", Target: "on"}}},
			{ID: "on", Tags: []string{statechart.Settled}},
		},
	})
	dev := startDevOf(t, command.Config{Machines: func(command.Environment) []durable.Machine {
		return []durable.Machine{durable.Host(chart, durable.MachineConfig{})}
	}})
	dev.screen.await(t, `WRN the chart has a likely mistake machine=lamp state=on problem="is settled, and nothing can leave it`)
	dev.screen.await(t, `WRN the chart has a likely mistake machine=lamp state="the chart" problem="declares the event \"DIM\", which no state handles`)
	dev.end(t)
}

func TestDevServesPrintsAndStops(t *testing.T) {
	t.Parallel()
	dev := startDev(t, "--github-secret", "do-not-print-me")
	welcome := strings.Join(dev.welcome, "\n")
	contains(t, welcome,
		"AWS_ENDPOINT_URL="+dev.aws+" settle send --local signup/42 SIGN_UP email=ada@example.com name=Ada",
		"--queue-url "+dev.aws+"/000000000000/settle.fifo", "curl -i "+dev.gateway+"/instances/signup/44/events",
		"signed with the secret that was given", "machines "+strings.Join(machineIDs(t), ", ")+"\n")
	if strings.Contains(welcome, "do-not-print-me") {
		t.Errorf("expected the given secret not to be printed, got:\n%s", welcome)
	}

	if code, errOut := dev.settle(t, "send", "--local", "signup/42", "SIGN_UP", "email=ada@example.com", "name=Ada"); code != command.ExitDone {
		t.Fatalf("expected exit code 0 of send, got %d and %q", code, errOut)
	}
	dev.screen.await(t, "signup/42           SIGN_UP        new → unverified.registering  (revision 1)")
	dev.screen.await(t, "signup/42           done.invoke    unverified.registering → unverified.awaiting_verification  (revision 1)")

	dev.stop()
	dev.screen.await(t, "Stopping.")
	for range dev.screen.lines { // until the output ends
	}
	if code := <-dev.ended; code != command.ExitDone {
		t.Errorf("expected exit code 0 after being stopped, got %d", code)
	}
	for _, url := range []string{dev.aws, dev.gateway} {
		listener, err := net.Listen("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Errorf("expected the port of %s to be free again, got %v", url, err)
			continue
		}
		_ = listener.Close() // The listener only shows that the port is free.
	}
}

// A web page must not reach dev by binding its own name to 127.0.0.1. A container may, if the user allows its name.
func TestDevRejectsOtherHosts(t *testing.T) {
	t.Parallel()
	dev := startDev(t, "--allow-host", "host.docker.internal", "--allow-host", "laptop.lan")
	for _, url := range []string{dev.aws + "/schedules", dev.aws + awslocal.ClockPath, dev.gateway + "/machines"} {
		for host, want := range map[string]int{
			"localhost": http.StatusOK, "[::1]:7388": http.StatusOK, "host.docker.internal:7388": http.StatusOK, "laptop.lan": http.StatusOK, "evil.example:7388": http.StatusForbidden,
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != want || strings.Contains(string(text), "--allow-host evil.example") != (want != http.StatusOK) {
				t.Errorf("%s with the host %s: expected %d, and the flag in a refusal, got %d %s and %v", url, host, want, answer.StatusCode, text, err)
			}
		}
	}
	dev.end(t)
}

func TestDevAppliesTheTimingFlags(t *testing.T) {
	t.Parallel()
	dev := startDev(t, "--job-pick-up-timeout", "10ms", "--job-launches-max", "1")
	contains(t, strings.Join(dev.welcome, "\n"), "signed with the secret ")
	if code, _ := dev.settle(t, "send", "--local", "job/run-1-job-2", "queued", "run_id:=1", "job_id:=2", `labels:=["self-hosted"]`); code != command.ExitDone {
		t.Fatalf("expected exit code 0 of send, got %d", code)
	}
	dev.screen.await(t, "queued → not_picked_up")
	dev.stop()
	for range dev.screen.lines { // until the output ends
	}
}

func TestCallbackAddressHasTheFreePortOfDev(t *testing.T) {
	t.Parallel()
	dev := startDev(t)
	if code, errOut := dev.settle(t, "send", "--local", "enrich/7", "ENRICH", "subject=https://example.com/company/7"); code != command.ExitDone {
		t.Fatalf("expected exit code 0 of send, got %d and %q", code, errOut)
	}
	dev.screen.await(t, "callback="+dev.gateway+"/webhooks/enricher/7/")
	dev.screen.await(t, "submitting → waiting")
	dev.stop()
	for range dev.screen.lines { // until the output ends
	}
}

func TestDevReportsAPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"--aws-port", port, "--http-port", "0"}, {"--aws-port", "0", "--http-port", port}} {
		got := user{t: t}.run(append([]string{"dev"}, flags...)...)
		if got.code != command.ExitFailed || got.out != "" || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%v: expected exit code 1 and one line, got %d, %q and %q", flags, got.code, got.err, got.out)
		}
		contains(t, got.err, "127.0.0.1:"+port, "address already in use", "choose other ports with --aws-port and --http-port")
	}
}

func TestDemoEndsWithZero(t *testing.T) {
	t.Parallel()
	config, out := settle(), ""
	config.Commands[0].Run = playTour("") // Servers on ports would run in real time. The demo would then wait for its timers.
	synctest.Test(t, func(t *testing.T) { out = user{t: t, config: config}.must("demo") })
	contains(t, out, "in_progress → success", "queued → not_picked_up", "provisioning → active",
		"waiting → succeeded", "409 Conflict", "sla.meeting → met", "sla.breaching → breached",
		"open.sales.processing → processed", "All 11 ended as expected", "status         S     \"done\"")
	// Each launch is printed twice: when it happens, and in the history.
	if launches := strings.Count(out, "launching → queued"); launches != 2*(1+3) {
		t.Errorf("expected 1 launch for the first job and 3 for the second, each printed twice, got %d", launches)
	}
}
