package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// dunning is a command with a machine whose chain of three one-day timers ends in the state `lost`. The machine's
// service sends its clock's time to the channel `noted`.
func dunning(noted chan<- time.Time) command.Config {
	type none struct{}
	type on = statechart.Transition[none]
	settled := []string{statechart.Settled}
	day := func(target string) []statechart.After[none] {
		return []statechart.After[none]{{ID: "day", Delay: 24 * time.Hour, Target: target}}
	}
	return command.Config{Machines: func(environment command.Environment) []durable.Machine {
		note := statechart.ServiceFunc("note", func(context.Context, none, statechart.Call) (struct{}, error) {
			noted <- environment.Now()
			return struct{}{}, nil
		})
		return []durable.Machine{durable.Host(statechart.Must(statechart.Definition[none]{
			ID: "invoice", Version: 1, Initial: "new", Payloads: statechart.Payloads{"BILL": statechart.NoPayload()},
			States: []statechart.State[none]{
				{ID: "new", Tags: settled, On: []on{{Event: "BILL", Target: "billed"}}},
				{ID: "billed", Tags: settled, After: day("reminded")},
				{ID: "reminded", Tags: settled, After: day("warned")},
				{ID: "warned", Tags: settled, After: day("noting")},
				{ID: "noting", Invoke: []statechart.Invoke[none]{{Service: note, OnDone: []on{{Target: "lost"}}, OnError: []on{{Target: "lost"}}}}},
				{ID: "lost", Type: statechart.Final},
			},
		}), durable.MachineConfig{})}
	}}
}

// ask runs a command line against dev, and returns its output.
func (d devRun) ask(t *testing.T, args ...string) answer {
	t.Helper()
	var out, errOut bytes.Buffer
	code := command.Run(t.Context(), d.config, command.Process{Out: &out, Err: &errOut, Endpoint: d.aws, Program: "settle"}, args)
	return answer{out: out.String(), err: errOut.String(), code: code}
}

// mustAsk runs a command line that must succeed, and decodes its JSON.
func mustAsk[T any](t *testing.T, d devRun, args ...string) (value T) {
	t.Helper()
	return decoded[T](t, d.ask(t, args...))
}

// decoded returns the JSON that a command has printed.
func decoded[T any](t *testing.T, got answer) (value T) {
	t.Helper()
	if got.code != command.ExitDone {
		t.Fatalf("expected exit code 0, got %+v", got)
	}
	if err := json.Unmarshal([]byte(got.out), &value); err != nil {
		t.Fatalf("%v in %s", err, got.out)
	}
	return value
}

func TestDevPassesThreeDaysInOneCommand(t *testing.T) {
	t.Parallel()
	noted := make(chan time.Time, 1)
	dev := startDevOf(t, dunning(noted), "--clock", "virtual")
	contains(t, strings.Join(dev.welcome, "\n"), "  clock    virtual, now at 20", "settle clock advance 72h")
	workflows := sfn.NewFromConfig(aws.Config{Region: awslocal.Region, BaseEndpoint: &dev.aws, Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")})
	execution := startNap(t, workflows, "172800") // two days

	before := mustAsk[awslocal.ClockState](t, dev, "clock")
	if before.Clock != "virtual" || before.AheadSeconds != 0 || before.Now.IsZero() || before.From != nil || before.Steps != nil {
		t.Errorf("expected a virtual clock at the real time, got %+v", before)
	}
	if got := dev.ask(t, "send", "--local", "invoice/1", "BILL"); got.code != command.ExitDone {
		t.Fatalf("expected exit code 0 of send, got %+v", got)
	}
	dev.screen.await(t, "new → billed  (revision 1)")
	wantNap(t, workflows, execution, types.ExecutionStatusRunning)

	advanced := make(chan answer, 1)
	go func() { advanced <- dev.ask(t, "clock", "advance", "73h") }()
	// The lines show the date of the virtual clock. dev waits until the test reads them.
	dev.screen.await(t, "billed → reminded")
	dev.screen.await(t, "reminded → warned")
	ended := dev.screen.await(t, "noting → lost")
	after := decoded[awslocal.ClockState](t, <-advanced)
	if passed := after.Now.Sub(before.Now); passed < 73*time.Hour || after.From == nil || after.From.Before(before.Now) || *after.Steps < 3 {
		t.Errorf("expected three days and an hour to pass, with work at three times at least, got %+v after %+v", after, before)
	}
	if last := ended[len(ended)-1]; !strings.HasPrefix(last, before.Now.Add(72*time.Hour).Local().Format("01-02 ")) && !strings.HasPrefix(last, before.Now.Add(73*time.Hour).Local().Format("01-02 ")) {
		t.Errorf("expected the date in three days in front of the line, got %q", last)
	}
	wantNap(t, workflows, execution, types.ExecutionStatusSucceeded)

	var times []time.Time
	for line := range strings.Lines(dev.ask(t, "history", "--local", "invoice/1").out) {
		var transition struct{ At time.Time }
		if err := json.Unmarshal([]byte(line), &transition); err != nil {
			t.Fatal(err)
		}
		times = append(times, transition.At)
	}
	if len(times) != 5 || times[0].Before(before.Now.Truncate(time.Millisecond)) {
		t.Fatalf("expected BILL, three timers and the end of the service, got %v", times)
	}
	for k, at := range times[1:4] {
		if since := at.Sub(times[k]); since < 24*time.Hour || since > 25*time.Hour {
			t.Errorf("expected each timer to fire a day after the one before, got %v in %v", since, times)
		}
	}
	if at := <-noted; at.Before(times[3]) || at.After(after.Now) {
		t.Errorf("expected the service to read the clock of dev, got %v, with the history %v", at, times)
	}
	// Other commands compute ages with the clock of dev.
	shown := dev.ask(t, "get", "--local", "invoice/1", "-o", "text")
	if since := line(t, shown.out, "  since "); !regexp.MustCompile(`\((59m\d\ds|\dh\d\dm) ago\)`).MatchString(since) {
		t.Errorf("expected an age of an hour, got %s", since)
	}
	contains(t, dev.ask(t, "clock", "advance", "90m", "-o", "text").out, "The clock is at 20", " ahead of the real time. ")
	contains(t, dev.ask(t, "clock", "-o", "text").out, " (virtual, 74h")
	dev.end(t)
}

// startNap starts an execution of one Wait state.
func startNap(t *testing.T, client *sfn.Client, seconds string) string {
	t.Helper()
	made, err := client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String("nap"), RoleArn: aws.String("arn:aws:iam::000000000000:role/any"),
		Definition: aws.String(`{"StartAt": "Nap", "States": {"Nap": {"Type": "Wait", "Seconds": ` + seconds + `, "End": true}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	started, err := client.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: made.StateMachineArn})
	if err != nil {
		t.Fatal(err)
	}
	return *started.ExecutionArn
}

func wantNap(t *testing.T, client *sfn.Client, execution string, want types.ExecutionStatus) {
	t.Helper()
	found, err := client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution})
	if err != nil {
		t.Fatal(err)
	}
	if found.Status != want {
		t.Errorf("expected the execution to be %s, got %s", want, found.Status)
	}
}

func TestClockOfARealDevCannotBeAdvanced(t *testing.T) {
	t.Parallel()
	dev := startDev(t)
	if strings.Contains(strings.Join(dev.welcome, "\n"), "clock advance") {
		t.Errorf("expected no clock command, got %v", dev.welcome)
	}
	if got := mustAsk[awslocal.ClockState](t, dev, "clock"); got.Clock != "real" || got.Now.IsZero() {
		t.Errorf("expected the real time, got %+v", got)
	}
	contains(t, dev.ask(t, "clock", "-o", "text").out, " (the real time)\n")
	got := dev.ask(t, "clock", "advance", "72h")
	want := "settle: " + dev.aws + ": the clock is real, so it cannot be advanced; start settle dev with --clock virtual\n"
	if got.code != command.ExitFailed || got.err != want || got.out != "" {
		t.Errorf("expected exit code 1 and %q, got %+v", want, got)
	}
	dev.end(t)
}

// withClock runs the test as withMachines does, but with a stack that has a virtual clock.
func withClock(t *testing.T, config command.Config, test func(user)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hosted := func(string) []durable.Machine {
			return config.Machines(command.Environment{Logger: slog.New(slog.DiscardHandler)})
		}
		running, err := stack.Start(t.Context(), hosted, stack.Config{Clock: awslocal.NewClock(nil), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := running.Close(); err != nil {
				t.Errorf("closing the stack: %v", err)
			}
		}()
		synctest.Wait() // The pollers wait for messages.
		test(user{t: t, stack: running, config: config})
	})
}

func TestClockCommandsPrintTheTime(t *testing.T) {
	t.Parallel()
	withClock(t, settle(), func(u user) {
		for _, step := range []struct{ command, want string }{
			{"clock", "2000-01-01 00:00:00 UTC (virtual, 0s ahead of the real time)\n"},
			{"send --local signup/42 SIGN_UP email=ada@example.com name=Ada", ""},
			{"clock advance 23h59m", "The clock is at 2000-01-01 23:59:00 UTC, 23h59m0s ahead of the real time. Work was due at 1 time on the way.\n"},
			{"get --local signup/42", "  timers    deadline of unverified: 2000-01-02 00:00:00 UTC (in 1m00s)\n"},
			{"clock advance 60s", "The clock is at 2000-01-02 00:00:00 UTC, 24h0m0s ahead of the real time. Work was due at 1 time on the way.\n"},
			{"get --local signup/42", "  since     2000-01-02 00:00:00 UTC (0s ago)\n"},
			{"clock advance 1s", "The clock is at 2000-01-02 00:00:01 UTC, 24h0m1s ahead of the real time. No work was due.\n"},
			{"clock show", "2000-01-02 00:00:01 UTC (virtual, 24h0m1s ahead of the real time)\n"},
		} {
			contains(u.t, u.must(strings.Fields(step.command)...), step.want)
		}
		// The sign-up is kept for 15 days. TTL then deletes it within a minute.
		u.must("clock", "advance", "361h")
		if got := u.run("get", "--local", "signup/42"); got.code != command.ExitNotFound {
			u.t.Errorf("expected TTL to delete the instance, got %+v", got)
		}
	})
}

func TestAdvanceShowsTheTimeThatTheClockHasReached(t *testing.T) {
	t.Parallel()
	withClock(t, (&work{toil: 5 * time.Second}).config(), func(u user) {
		u.must("clock", "advance", "72h")
		u.must("send", "--local", "work/1", "START")
		got := u.runAs(command.Process{StdoutTTY: true, StderrTTY: true, Columns: 80}, "clock", "advance", "1h")
		contains(u.t, got.out, "The clock is at 2000-01-04 01:00:05 UTC, ")
		if !regexp.MustCompile(`\radvancing the clock, now at 2000-01-04 00:00:0[34] UTC, 4s\x1b`).MatchString(got.err) {
			u.t.Errorf("expected the time after four seconds, got %q", got.err)
		}
	})
}

func TestClockCommandsRefuseOtherEndpoints(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for endpoint, want := range map[string]answer{
		"https://sqs.eu-central-1.amazonaws.com": {code: command.ExitUsage, err: "settle: usage: the time of AWS cannot be advanced: unset AWS_ENDPOINT_URL, or set it to the AWS endpoint of settle dev --clock virtual, got https://sqs.eu-central-1.amazonaws.com\n"},
		other.URL:                                {code: command.ExitFailed, err: "settle: " + other.URL + " has no clock that settle could show or advance: it answered 404 Not Found; expected the AWS endpoint of settle dev in AWS_ENDPOINT_URL\n"},
		"http://127.0.0.1:1":                     {code: command.ExitFailed, err: "settle: cannot connect to http://127.0.0.1:1: start it with settle dev --clock virtual; only its clock can be advanced, not the time of AWS\n"},
	} {
		if got := (devRun{aws: endpoint, config: settle()}).ask(t, "clock", "advance", "72h"); got != want {
			t.Errorf("expected %+v, got %+v", want, got)
		}
	}
}

func TestClockContinuesInTheDataFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dev := startDev(t, "--data", dir, "--clock", "virtual")
	contains(t, strings.Join(dev.welcome, "\n"), "to continue later, run settle dev with --data "+dir+" --clock virtual again.")
	first := mustAsk[awslocal.ClockState](t, dev, "clock", "advance", "72h")
	dev.end(t)
	got := user{t: t}.run("dev", "--aws-port", "0", "--http-port", "0", "--data", dir)
	if got.code != command.ExitFailed || got.out != "" {
		t.Errorf("expected exit code 1, because time would run backwards, got %+v", got)
	}
	contains(t, got.err, dir, "its clock was advanced and is 7", "run settle dev with --clock virtual")
	dev = startDev(t, "--data", dir, "--clock", "virtual")
	if again := mustAsk[awslocal.ClockState](t, dev, "clock"); again.Now.Before(first.Now) {
		t.Errorf("expected the clock to continue from %v, got %v", first.Now, again.Now)
	}
	dev.end(t)
}
