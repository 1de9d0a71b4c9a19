package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// reminded is the context of an invoice.
type reminded struct{ Reminders int }

// invoices returns a machine that calls `remind` one, two and three days after BILL.
func invoices(remind func(ctx context.Context, call statechart.Call) error) durable.Machine {
	type (
		on    = statechart.Transition[reminded]
		state = statechart.State[reminded]
	)
	settled := []string{statechart.Settled}
	service := statechart.ServiceFunc("remind", func(ctx context.Context, _ reminded, call statechart.Call) (struct{}, error) {
		return struct{}{}, remind(ctx, call)
	})
	count := []statechart.Action[reminded]{statechart.Update("count", func(c *reminded) { c.Reminders++ })}
	return durable.Host(statechart.Must(statechart.Definition[reminded]{
		ID: "invoice", Version: 1, Initial: "new", Payloads: statechart.Payloads{"BILL": statechart.NoPayload()},
		States: []state{
			{ID: "new", Tags: settled, On: []on{{Event: "BILL", Target: "unpaid"}}},
			{ID: "unpaid", Tags: settled, After: []statechart.After[reminded]{{ID: "day", Delay: 24 * time.Hour, Target: "reminding"}}},
			{ID: "reminding", Invoke: []statechart.Invoke[reminded]{{
				Service: service, Timeout: 20 * time.Second, Retry: statechart.RetryPolicy{Attempts: 3, Interval: 30 * time.Second},
				OnDone: []on{
					{Target: "unpaid", Actions: count, Guard: statechart.If("remindersLeft", func(c reminded) bool { return c.Reminders < 2 })},
					{Target: "lost", Actions: count},
				},
				OnError: []on{{Target: "failed"}},
			}}},
			{ID: "lost", Type: statechart.Final},
			{ID: "failed", Type: statechart.Final},
		},
	}), durable.MachineConfig{})
}

// startOnClock starts a stack with a virtual clock. The stack hosts the machine and writes its log to `log`.
func startOnClock(t *testing.T, machine durable.Machine, log io.Writer) (*Stack, *awslocal.Clock) {
	t.Helper()
	clock := awslocal.NewClock(nil)
	s, err := Start(t.Context(), func(string) []durable.Machine { return []durable.Machine{machine} },
		byRoles(t, Config{Clock: clock, Logger: slog.New(slog.NewTextHandler(log, nil))}))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // The pollers wait for messages.
	return s, clock
}

// wantHistory compares the transitions of an instance, with their times since `began`.
func wantHistory(t *testing.T, s *Stack, machine, id string, began time.Time, want ...string) {
	t.Helper()
	record, err := s.Load(t.Context(), instances.ID{Machine: machine, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, transition := range record.History {
		got = append(got, fmt.Sprintf("%v %s %v", transition.At.Sub(began), transition.Event, transition.To))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s/%s (-want +got):\n%s", machine, id, diff)
	}
}

// The second attempt of each reminder succeeds, half a minute after the first one.
func TestClockPassesThreeDaysOfTimersAndRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, clock := startOnClock(t, invoices(func(_ context.Context, call statechart.Call) error {
			time.Sleep(2 * time.Second)
			if call.Attempt == 1 {
				return errors.New("the mail server is busy")
			}
			return nil
		}), io.Discard)
		defer stop(t, s)
		began := clock.Now()
		time.Sleep(300 * time.Millisecond) // SQS and Scheduler count whole seconds, timers do not.
		send(t, s, "invoice/1", "1", `{"type": "BILL"}`)
		if _, err := s.cloud.Advance(t.Context(), 73*time.Hour); err != nil {
			t.Fatal(err)
		}
		wantHistory(t, s, "invoice", "1", began,
			"300ms BILL [unpaid]",
			"24h0m1s after day [reminding]", "24h0m31s done.invoke.reminding [unpaid]",
			"48h0m31s after day [reminding]", "48h1m1s done.invoke.reminding [unpaid]",
			"72h1m1s after day [reminding]", "72h1m31s done.invoke.reminding [lost]")
	})
}

// Three one-day timers in a row fire in one call of 72 hours, although the first starts at a fraction of a second.
func TestClockPassesAChainOfTimersExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, clock := startOnClock(t, invoices(func(context.Context, statechart.Call) error { return nil }), io.Discard)
		defer stop(t, s)
		began := clock.Now()
		time.Sleep(300 * time.Millisecond)
		send(t, s, "invoice/1", "1", `{"type": "BILL"}`)
		if _, err := s.cloud.Advance(t.Context(), 72*time.Hour); err != nil {
			t.Fatal(err)
		}
		wantHistory(t, s, "invoice", "1", began,
			"300ms BILL [unpaid]",
			"24h0m1s after day [reminding]", "24h0m1s done.invoke.reminding [unpaid]",
			"48h0m1s after day [reminding]", "48h0m1s done.invoke.reminding [unpaid]",
			"72h0m1s after day [reminding]", "72h0m1s done.invoke.reminding [lost]")
	})
}

// An instance starts a workflow that waits for 36 hours. Then a timer of the instance runs for a day.
func TestClockPassesTheWaitOfAWorkflowInStep(t *testing.T) {
	t.Parallel()
	type none struct{}
	type on = statechart.Transition[none]
	settled := []string{statechart.Settled}
	machine := durable.Host(statechart.Must(statechart.Definition[none]{
		ID: "sleeper", Version: 1, Initial: "awake",
		Payloads: statechart.Payloads{"SLEEP": statechart.NoPayload(), "nap.ended": statechart.PayloadOf[statechart.ExecutionEnded]()},
		States: []statechart.State[none]{
			{ID: "awake", Tags: settled, On: []on{{Event: "SLEEP", Target: "asleep", Actions: []statechart.Action[none]{statechart.StartWorkflow[none]("nap", "nap.ended", nil)}}}},
			{ID: "asleep", Tags: settled, On: []on{{Event: "nap.ended", Target: "rested"}}},
			{ID: "rested", Tags: settled, After: []statechart.After[none]{{ID: "day", Delay: 24 * time.Hour, Target: "tired"}}},
			{ID: "tired", Type: statechart.Final},
		},
	}), durable.MachineConfig{})
	synctest.Test(t, func(t *testing.T) {
		s, clock := startOnClock(t, machine, io.Discard)
		defer stop(t, s)
		_, err := sfn.NewFromConfig(s.AWS()).CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
			Name: aws.String("nap"), RoleArn: aws.String(s.RoleARN("any")), Definition: aws.String(`{"StartAt": "Nap", "States": {"Nap": {"Type": "Wait", "Seconds": 129600, "End": true}}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		began := clock.Now()
		send(t, s, "sleeper/1", "1", `{"type": "SLEEP"}`)
		if _, err := s.cloud.Advance(t.Context(), 72*time.Hour); err != nil {
			t.Fatal(err)
		}
		wantHistory(t, s, "sleeper", "1", began, "0s SLEEP [asleep]", "36h0m0s nap.ended [rested]", "60h0m0s after day [tired]")
	})
}

// The consumer starts a second service in an invocation only if its clock shows that the invocation has time left.
func TestServicesHaveTimeOnAnAdvancedClock(t *testing.T) {
	t.Parallel()
	type none struct{}
	type on = statechart.Transition[none]
	slow := statechart.ServiceFunc("slow", func(context.Context, none, statechart.Call) (struct{}, error) {
		time.Sleep(2 * time.Second)
		return struct{}{}, nil
	})
	invoke := func(next string) []statechart.Invoke[none] {
		return []statechart.Invoke[none]{{Service: slow, Timeout: 20 * time.Second, OnDone: []on{{Target: next}}, OnError: []on{{Target: "end"}}}}
	}
	machine := durable.Host(statechart.Must(statechart.Definition[none]{
		ID: "pair", Version: 1, Initial: "new", Payloads: statechart.Payloads{"GO": statechart.NoPayload()},
		States: []statechart.State[none]{
			{ID: "new", Tags: []string{statechart.Settled}, On: []on{{Event: "GO", Target: "one"}}},
			{ID: "one", Invoke: invoke("two")},
			{ID: "two", Invoke: invoke("end")},
			{ID: "end", Type: statechart.Final},
		},
	}), durable.MachineConfig{})
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, clock := startOnClock(t, machine, &log)
		defer stop(t, s)
		if _, err := s.cloud.Advance(t.Context(), 72*time.Hour); err != nil {
			t.Fatal(err)
		}
		began := clock.Now()
		send(t, s, "pair/1", "1", `{"type": "GO"}`)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		wantHistory(t, s, "pair", "1", began, "0s GO [one]", "2s done.invoke.one [two]", "4s done.invoke.two [end]")
		if strings.Contains(log.String(), "too little time") {
			t.Errorf("want one invocation for both services, got the log:\n%s", log.String())
		}
	})
}

func TestClockExcludesTheConsumersProcesses(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), hosted, Config{Clock: awslocal.NewClock(nil), Consumer: "bootstrap"})
	if err == nil {
		t.Error("expected an error, because processes would not see the clock")
	}
}

// The stack stops while an advance waits for a service. Later timers stay in the data folder.
func TestCloseEndsAnAdvance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, clock := startOnClock(t, invoices(func(context.Context, statechart.Call) error {
			time.Sleep(5 * time.Second)
			return nil
		}), io.Discard)
		began := clock.Now()
		send(t, s, "invoice/1", "1", `{"type": "BILL"}`)
		advanced := make(chan error, 1)
		go func() {
			_, err := s.cloud.Advance(t.Context(), 30*24*time.Hour)
			advanced <- err
		}()
		time.Sleep(2 * time.Second) // The service runs.
		stop(t, s)
		if err := <-advanced; err == nil || err.Error() != "settle dev is stopping" {
			t.Errorf("want the advance to fail because the stack stops, got %v", err)
		}
		if passed := clock.Now().Sub(began); passed > 25*time.Hour {
			t.Errorf("want the clock to stay at the service, got %v", passed)
		}
	})
}
