package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/load"
)

// benchRole is the role of the workflows. The local AWS accepts any role.
const benchRole = "arn:aws:iam::000000000000:role/any"

// measured is a part of the report of settle bench.
type measured struct {
	Events          int
	Instances       int
	Ignored         int `json:"ignored_events"`
	Writes          int
	EventsPerWrite  float64      `json:"events_per_write"`
	SendRequests    int          `json:"send_requests"`
	EnqueueToCommit load.Summary `json:"enqueue_to_commit"`
	SenderLag       load.Summary `json:"sender_lag"`
	WriteUnits      float64      `json:"write_units_per_write"`
	Computed        struct {
		Turns   int     `json:"turns_max"`
		Dollars float64 `json:"usd_per_million_events"`
	}
}

// active returns the names of the active instances that start with the prefix.
func (u user) active(prefix string) (found []string) {
	u.t.Helper()
	var list struct{ Instances []struct{ Instance string } }
	if err := json.Unmarshal([]byte(u.must("list", "--local", "--status", "active", "--limit", "1000", "-o", "json")), &list); err != nil {
		u.t.Fatal(err)
	}
	for _, one := range list.Instances {
		if strings.HasPrefix(one.Instance, prefix) {
			found = append(found, one.Instance)
		}
	}
	return found
}

func TestBenchCountsAddUp(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		var report struct {
			Region string
			Paced  measured
			One    measured `json:"one_instance"`
			Many   measured `json:"many_instances"`
		}
		got := u.run("bench", "--local", "--events", "60", "--instances", "6", "--rate", "100", "-o", "json")
		if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != command.ExitDone || report.Region != "local" {
			u.t.Fatalf("expected a report, got %+v, %v", got, err)
		}
		for _, c := range []struct {
			measured
			instances, requests int
		}{{report.Paced, 60, 60}, {report.One, 1, 6}, {report.Many, 6, 6}} {
			// A sign-up ignores every SIGN_UP after the first. Each turn writes once.
			turns := c.Writes
			if c.Events != 60 || c.Instances != c.instances || c.Ignored != 60-c.instances || c.SendRequests != c.requests ||
				turns < c.instances || turns > 60 || c.Computed.Turns < turns || c.WriteUnits < 1 || c.Computed.Dollars <= 0 {
				u.t.Errorf("expected 60 events to %d instances in %d requests, got %+v", c.instances, c.requests, c.measured)
			}
		}
		if l := report.Paced.EnqueueToCommit; l.Samples != 60 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.Max || l.P50 < 0 || report.Paced.SenderLag.Samples != 60 {
			u.t.Errorf("expected a sample for each event, got %+v", report.Paced)
		}
		if left := u.active("signup/"); len(left) > 0 {
			u.t.Errorf("expected the benchmark to end its instances, got %v", left)
		}
	})
}

// In virtual time, commits take no time, so the measured latency is only the sender's delay.
func TestBenchMeasuresFromTheScheduledTime(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		process := u.faultily(func(operation, _ string) error {
			if operation == "SendMessage" {
				time.Sleep(3 * time.Second)
			}
			return nil
		}, nil)
		got := u.runAs(process, "bench", "--local", "--events", "300", "--instances", "1", "--rate", "1000", "-o", "text")
		contains(u.t, got.out, "p50 3000 ms, p90 5744 ms, p99 5744 ms, longest 5744 ms; lag of the sender: p99 2744 ms\nThe sender did not keep its schedule, and sent 98.6 events a second.")
	})
}

func TestBenchReportsClocksThatDiffer(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		for ahead, want := range map[time.Duration]string{
			-5 * time.Second: "p50 5000 ms, p90 5000 ms, p99 5000 ms, longest 5000 ms; lag of the sender: p99 0 ms\nThe clock of SQS is at least 5000 ms ahead of this machine's, so the times are too long",
			5 * time.Second:  "The clock of SQS is at least 4999 ms behind this machine's, so the times are too short",
		} {
			process := command.Process{StdoutTTY: true, Now: func() time.Time { return time.Now().UTC().Add(ahead) }}
			contains(u.t, u.runAs(process, "bench", "--local", "--events", "10", "--instances", "1").out, want)
		}
	})
}

func TestBenchPrintsThePriceBeforeItSends(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		said := &syncBuffer{}
		process := u.faultily(func(operation, _ string) error {
			if strings.HasPrefix(operation, "Send") || strings.HasPrefix(operation, "Create") {
				contains(u.t, said.String(), "sends 5 SIGN_UP events", "and to 5 instances", "starts 5 executions", "the cost is at most $0.01 at list prices")
			}
			return nil
		}, nil)
		process.Err, process.Endpoint = said, "http://aws.local"
		if code := command.Run(u.t.Context(), settle(), process, strings.Fields("bench --local --events 5 --step-functions "+benchRole)); code != command.ExitDone {
			u.t.Errorf("expected exit code 0, got %d and %s", code, said.String())
		}
		synctest.Wait()
	})
}

// resources returns the workflows and queues of benchmarks.
func (u user) resources() (found []string) {
	u.t.Helper()
	machines, err := sfn.NewFromConfig(u.stack.AWS()).ListStateMachines(u.t.Context(), &sfn.ListStateMachinesInput{})
	if err != nil {
		u.t.Fatal(err)
	}
	for _, machine := range machines.StateMachines {
		found = append(found, aws.ToString(machine.Name))
	}
	queues, err := sqs.NewFromConfig(u.stack.AWS()).ListQueues(u.t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: aws.String("bench-")})
	if err != nil {
		u.t.Fatal(err)
	}
	return append(found, queues.QueueUrls...)
}

func TestBenchMeasuresWorkflowsAndDeletesThem(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		before := len(u.resources())
		got := u.run("bench", "--local", "--events", "5", "--step-functions", benchRole)
		contains(u.t, got.out, "STANDARD  ", "  4            101.20\n", "EXPRESS: the endpoint does not support it: State Machine Type EXPRESS is not supported by awslocal")
		if after := u.resources(); got.code != command.ExitDone || len(after) != before {
			u.t.Errorf("expected exit code 0 and no workflow or queue, got %+v and %v", got, after)
		}
	})
}

// Ctrl-C arrives before the nth call of an operation. The events in the queue must not start instances later.
func TestBenchCleansUpAfterCtrlC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		operation string
		nth       int
	}{{"SendMessage", 1}, {"SendMessage", 9}, {"SendMessageBatch", 1}, {"SendMessageBatch", 4}, {"GetItem", 2}, {"PutItem", 3}, {"CreateStateMachine", 1}, {"StartExecution", 3}, {"SendTaskSuccess", 2}, {"GetExecutionHistory", 1}, {"GetExecutionHistory", 30}} {
		withStack(t, func(u user) {
			before := len(u.resources())
			ctx, stop := context.WithCancel(u.t.Context())
			calls := 0
			var mu sync.Mutex
			process := u.faultily(func(operation, _ string) error {
				if operation == "ReceiveMessage" {
					time.Sleep(time.Second) // The first executions wait for their callbacks.
				}
				mu.Lock()
				defer mu.Unlock()
				if operation == c.operation {
					if calls++; calls == c.nth {
						stop()
					}
				}
				return nil
			}, nil)
			got := u.runUntil(ctx, process, "bench", "--local", "--events", "20", "--instances", "3", "--step-functions", benchRole)
			time.Sleep(time.Second)
			found := u.resources() // A workflow stays listed while it has executions that wait for callbacks.
			time.Sleep(time.Hour)
			if left := u.active("signup/"); got.code != command.ExitInterrupted || got.err == "" || len(left) > 0 || len(found) != before {
				u.t.Errorf("%+v: expected exit code 130 and nothing left, got %d, %s, %v and %v", c, got.code, got.err, left, found)
			}
		})
	}
}

// Each event calls a service that takes two seconds, so some instances start after Ctrl-C.
func TestBenchEndsInstancesThatStartAfterCtrlC(t *testing.T) {
	t.Parallel()
	withWork(t, &work{toil: 2 * time.Second}, func(u user) {
		ctx, stop := context.WithTimeout(u.t.Context(), time.Second)
		defer stop()
		got := u.runUntil(ctx, command.Process{}, "bench", "--local", "--events", "30", "--rate", "10")
		time.Sleep(time.Hour)
		if left := u.active("work/"); got.code != command.ExitInterrupted || strings.Contains(got.err, "left") || len(left) > 0 {
			u.t.Errorf("expected exit code 130 and no active instance, got %+v and %v", got, left)
		}
	})
}

func TestBenchCleansAKilledRun(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		for _, id := range []string{"bench-k3x9-paced-1", "bench-k3x9-one-0", "bench-k3x99-one-0", "42"} {
			u.must("send", "--local", "signup/"+id, "SIGN_UP", "email=ada@example.com", "name=Ada")
		}
		for _, want := range []string{"2 instances of bench-k3x9 ended.\n", "0 instances of bench-k3x9 ended.\n"} {
			if got := u.must("bench", "--local", "--clean", "bench-k3x9", "--machine", "signup"); got != want {
				u.t.Errorf("expected %q, got %q", want, got)
			}
		}
		if left := u.active("signup/"); len(left) != 2 {
			u.t.Errorf("expected the instances of others to stay, got %v", left)
		}
	})
}

// A consumer that does not host the machine leaves the events in the queue.
func TestBenchGivesUpIfNoInstanceChanges(t *testing.T) {
	t.Parallel()
	withMachines(t, persons(), func(u user) {
		u.config = settle()
		got := u.run("bench", "--local", "--events", "3")
		contains(u.t, got.err, "timed out: 3 instances of the run bench-", "did not change for 1m0s, such as signup/bench-", "see settle dlq list --local", "run settle bench --local --clean bench-")
		if got.code != command.ExitTimeUp {
			u.t.Errorf("expected exit code 5, got %+v", got)
		}
	})
}

func TestBenchRefusesWrongFlags(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--rate 0":                                    "--rate: expected 1 to 1000, got 0",
		"--events 10001":                              "--events: expected 1 to 10000, got 10001",
		"--instances=-1":                              "--instances: expected 1 to 10000, got -1",
		"--events 10000 --rate 1":                     "expected --events that take at most 1h0m0s at --rate, got 2h46m40s: send fewer events, or more a second",
		"--step-functions bench":                      `--step-functions: expected the ARN of a role, such as arn:aws:iam::123456789012:role/bench, got "bench"`,
		"--clean k3x9 --machine signup":               `--clean: expected the name of a run, such as bench-k3x9a2bq, got "k3x9"`,
		"--clean bench-k3x9":                          "expected --machine with --clean",
		`--event {"type":"SIGN_UP"}`:                  "expected --machine with --event",
		"--machine none":                              `unknown machine: expected one of enrich, job, pipeline, signup, upload, got "none"`,
		`--machine signup --event {"type":"CANCEL"}`:  "--event: expected an event that starts an instance of signup, got CANCEL",
		`--machine signup --event {"type":"SIGN_UP"}`: "expected a name of 1 to 200 bytes, got 0",
		`--machine signup --event {"type":"SIGN_UP","$id":"1","name":"Ada","email":"ada@example.com"}`: "--event: expected an event without $id",
	} {
		got := user{t: t}.run(append([]string{"bench", "--local"}, strings.Fields(line)...)...)
		if !strings.Contains(got.err, want) || got.code == command.ExitDone || got.code == command.ExitFailed {
			t.Errorf("%s: expected %q, got %+v", line, want, got)
		}
	}
	if got := (user{t: t}).run("bench"); got.code != command.ExitUsage || !strings.Contains(got.err, "expected --yes, because there is no terminal to ask for confirmation") {
		t.Errorf("expected a benchmark on AWS to need a confirmation, got %+v", got)
	}
}
