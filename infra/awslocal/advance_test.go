package awslocal_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
)

// Without a poller, the rest of the queue's messages would expire unprocessed before the clock reaches the target.
func TestAdvance_ends_with_the_last_poller_of_a_queue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, clock := virtual()
		q := addQueue(t, cloud, "queue", nil)
		slow := newWork(clock)
		slow.takes = 5 * time.Second
		ctx, stop := context.WithCancel(t.Context())
		var polling sync.WaitGroup
		polling.Go(func() {
			if err := cloud.Poll(ctx, awslocal.EventSource{Queue: q.name, Timeout: 30 * time.Second}, func() awslocal.Invoker { return slow }); err != nil {
				t.Errorf("Poll: %v", err)
			}
		})
		q.sendDelayed("a", 60)
		q.sendDelayed("b", 120)
		synctest.Wait()
		time.AfterFunc(time.Second, stop) // The function is processing "a" at this time.
		done, err := cloud.Advance(t.Context(), time.Hour)
		polling.Wait()
		wantMessage(t, err, "queue lost its last poller")
		if passed := done.To.Sub(done.From); passed > 3*time.Minute {
			t.Errorf("want the clock to stay at the last work, got %v", passed)
		}
		if _, err := cloud.Advance(t.Context(), time.Second); err != nil {
			t.Errorf("want a later call to succeed, got %v", err)
		}
	})
}

func TestAdvance_ends_with_EndAdvances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, q, _ := working(t, 25*time.Second)
		q.sendDelayed("a", 60)
		synctest.Wait()
		stopping := errors.New("stopping")
		time.AfterFunc(time.Second, func() { cloud.EndAdvances(stopping) })
		before := time.Now()
		if _, err := cloud.Advance(t.Context(), time.Hour); !errors.Is(err, stopping) || time.Since(before) != time.Second {
			t.Errorf("want the error at once, got %v after %v", err, time.Since(before))
		}
		if _, err := cloud.Advance(t.Context(), time.Hour); !errors.Is(err, stopping) {
			t.Errorf("want a later call to fail too, got %v", err)
		}
	})
}

// A clock that is already ahead keeps its lead over the real clock. If the work takes long, a short advance therefore
// ends after its target, and also performs the work that became due in the meantime.
func TestAdvance_performs_the_work_of_an_overshoot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, clock := virtual()
		q := addQueue(t, cloud, "queue", nil)
		advance(t, cloud, 96*time.Hour)
		slow := newWork(clock)
		slow.takes = 8 * time.Second
		slow.poll(t, q)
		q.sendDelayed("a", 1)
		q.sendDelayed("b", 6)
		synctest.Wait()
		before := time.Now()
		done := advance(t, cloud, 2*time.Second)
		slow.want(t, map[string]time.Duration{"a": time.Second, "b": 8 * time.Second})
		if passed := time.Since(before); passed != 16*time.Second || done.To.Sub(done.From) != passed {
			t.Errorf("want the clock to run on for both messages, got %v in %v", done.To.Sub(done.From), passed)
		}
	})
}

// A client that waits for a message with a long poll counts as a poller.
func TestAdvance_stops_for_a_waiting_receive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, clock := virtual()
		q := addQueue(t, cloud, "queue", nil)
		q.sendDelayed("a", 60)
		began := clock.Now()
		var receiving sync.WaitGroup
		receiving.Go(func() {
			out, err := q.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &q.url, WaitTimeSeconds: 20})
			if err != nil || len(out.Messages) != 1 {
				t.Errorf("want the message, got %v and %v", out, err)
			}
		})
		synctest.Wait()
		done := advance(t, cloud, time.Hour)
		receiving.Wait()
		if done.Steps != 1 || done.To.Sub(began) != time.Hour {
			t.Errorf("want one step on the way to one hour, got %d steps and %v", done.Steps, done.To.Sub(began))
		}
	})
}

// A time.Duration holds the lead of the clock. It overflows after 292 years.
func TestAdvance_stays_within_200_years(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, clock := virtual()
		for range 20 {
			advance(t, cloud, awslocal.AdvanceMax)
		}
		_, err := cloud.Advance(t.Context(), time.Second)
		if !errors.Is(err, awslocal.ErrAdvance) {
			t.Errorf("want ErrAdvance, got %v", err)
		}
		wantMessage(t, err, "expected a clock at most 1752000h0m0s ahead of the real one, got 1752000h0m1s")
		if got := clock.Ahead(); got != awslocal.AheadMax {
			t.Errorf("want the clock to stay %v ahead, got %v", awslocal.AheadMax, got)
		}
	})
}

// invoked adapts a Go function to awslocal.Invoker.
type invoked func() ([]byte, error)

// Invoke implements awslocal.Invoker.
func (f invoked) Invoke(context.Context, []byte) ([]byte, error) { return f() }

func TestAdvance_waits_for_the_functions_of_executions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, clock := virtual()
		began := clock.Now()
		var at time.Duration
		err := cloud.Register("f", awslocal.Function{Timeout: 30 * time.Second, Start: func() awslocal.Invoker {
			return invoked(func() ([]byte, error) {
				time.Sleep(5 * time.Second)
				at = clock.Now().Sub(began)
				return []byte(`{}`), nil
			})
		}})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorkflows(t, cloud)
		execution := w.start(w.create("m", `"S": {"Type": "Wait", "Seconds": 3600, "Next": "T"}, "T": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke",
			"Parameters": {"FunctionName": "f"}, "Next": "W"}, "W": {"Type": "Wait", "Seconds": 3600, "End": true}`), "1", `{}`)
		advance(t, cloud, 3*time.Hour)
		w.wantEnd(execution, types.ExecutionStatusSucceeded, `{"ExecutedVersion":"$LATEST","Payload":{},"StatusCode":200}`)
		if at != time.Hour {
			t.Errorf("want the function to work at 1h, got %v", at)
		}
	})
}

// The messages take the clock through all its phases: held, running after a long hold, and released.
func TestClock_never_runs_backwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, q, slow := working(t, 25*time.Second)
		synctest.Wait()
		q.sendDelayed("a", 60)
		q.sendDelayed("b", 65)
		var advancing sync.WaitGroup
		advancing.Go(func() { advance(t, cloud, 62*time.Second) })
		for last := slow.clock.Now(); time.Since(slow.began) < time.Minute; time.Sleep(100 * time.Millisecond) {
			now := slow.clock.Now()
			if now.Before(last) || now.Before(time.Now().Add(-10*time.Second)) {
				t.Fatalf("want at least %v, got %v at %v of the real clock", last, now, time.Now())
			}
			last = now
		}
		advancing.Wait()
	})
}

// A process is killed while Advance holds the clock. The next process's clock does not run backwards, and is at least
// as far ahead of the real clock as before the advance.
func TestClock_continues_after_a_kill_during_an_advance(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 96 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			dir, clock := t.TempDir(), awslocal.NewClock(nil)
			cloud, err := awslocal.Open(awslocal.Config{Data: dir, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := cloud.Close(); err != nil {
					t.Error(err)
				}
			})
			if ahead > 0 {
				advance(t, cloud, ahead)
			}
			q := addQueue(t, cloud, "queue", nil)
			slow := newWork(clock)
			slow.takes = 8 * time.Second
			slow.then = func(body string) {
				reached, killed := clock.Now(), t.TempDir()
				if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
					t.Error(err)
				}
				next := awslocal.NewClock(nil)
				again, err := awslocal.Open(awslocal.Config{Data: killed, Clock: next})
				if err != nil {
					t.Error(err)
					return
				}
				if now := next.Now(); now.Before(reached) || next.Ahead() < ahead {
					t.Errorf("%v, killed at %s: want at least %v and %v ahead, got %v and %v", ahead, body, reached, ahead, now, next.Ahead())
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			}
			slow.poll(t, q)
			synctest.Wait()
			for body, seconds := range map[string]int32{"a": 1, "b": 2, "c": 900} {
				q.sendDelayed(body, seconds)
			}
			advance(t, cloud, 15*time.Minute)
			slow.want(t, map[string]time.Duration{"a": time.Second, "b": 2 * time.Second, "c": 15 * time.Minute})
		})
	}
}

// arrivals is a function that records the longest delay, on the clock, between the sending and the receipt of a
// message.
type arrivals struct {
	clock *awslocal.Clock
	count atomic.Int64
	late  atomic.Int64
}

// Invoke implements awslocal.Invoker.
func (a *arrivals) Invoke(_ context.Context, payload []byte) ([]byte, error) {
	now := a.clock.Now()
	var event events.SQSEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, err
	}
	for _, record := range event.Records {
		sent, err := strconv.ParseInt(record.Attributes["SentTimestamp"], 10, 64)
		if err != nil {
			return nil, err
		}
		a.late.Store(max(a.late.Load(), int64(now.Sub(time.UnixMilli(sent)))))
		a.count.Add(1)
	}
	return nil, nil
}

// Clients send messages without a pause while the clock is advanced. The clock never passes a message that is not
// processed yet.
func TestAdvance_overtakes_no_message_that_arrives(t *testing.T) {
	t.Parallel()
	cloud, clock := virtual()
	q := addQueue(t, cloud, "queue", nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	late := &arrivals{clock: clock}
	running.Go(func() {
		if err := cloud.Poll(ctx, awslocal.EventSource{Queue: q.name, Timeout: 30 * time.Second, Concurrency: 1}, func() awslocal.Invoker { return late }); err != nil {
			t.Errorf("Poll: %v", err)
		}
	})
	q.sendDelayed("first", 0)
	for late.count.Load() == 0 { // Without a poller, messages do not count as work.
		runtime.Gosched()
	}
	sending := make(chan struct{})
	for range 4 {
		running.Go(func() {
			for {
				select {
				case <-sending:
					return
				default:
					q.sendDelayed("now", 0)
					clock.Now()
					runtime.Gosched()
				}
			}
		})
	}
	for late.count.Load() < 1000 {
		advance(t, cloud, time.Hour)
		runtime.Gosched()
	}
	close(sending)
	advance(t, cloud, time.Second)
	stop()
	if got := time.Duration(late.late.Load()); got > time.Minute {
		t.Errorf("want each of %d messages to be processed at once, got one after %v", late.count.Load(), got)
	}
}
