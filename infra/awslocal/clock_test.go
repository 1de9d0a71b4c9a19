package awslocal_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
)

// virtual returns a Cloud in memory with a virtual clock.
func virtual() (*awslocal.Cloud, *awslocal.Clock) {
	clock := awslocal.NewClock(nil)
	return awslocal.New(awslocal.Config{Clock: clock}), clock
}

// work is a function that records when, on the clock, it receives each body. Each invocation lasts `takes`.
type work struct {
	clock *awslocal.Clock
	began time.Time
	takes time.Duration
	then  func(body string) // called with each body, may be nil

	mu  sync.Mutex
	got map[string]time.Duration
}

func newWork(clock *awslocal.Clock) *work {
	return &work{clock: clock, began: clock.Now(), got: map[string]time.Duration{}}
}

// poll feeds the queue to the function until the test ends.
func (w *work) poll(t *testing.T, q queue) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var polling sync.WaitGroup
	polling.Go(func() {
		err := q.cloud.Poll(ctx, awslocal.EventSource{Queue: q.name, Timeout: 30 * time.Second}, func() awslocal.Invoker { return w })
		if err != nil {
			t.Errorf("Poll: %v", err)
		}
	})
	t.Cleanup(func() { stop(); polling.Wait() })
}

// working returns a Cloud with a virtual clock, a standard queue, and the queue's function. The function takes the
// given time for each message.
func working(t *testing.T, takes time.Duration) (*awslocal.Cloud, queue, *work) {
	t.Helper()
	cloud, clock := virtual()
	q := addQueue(t, cloud, "queue", nil)
	w := newWork(clock)
	w.takes = takes
	w.poll(t, q)
	return cloud, q, w
}

// Invoke implements awslocal.Invoker.
func (w *work) Invoke(_ context.Context, payload []byte) ([]byte, error) {
	var event events.SQSEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, err
	}
	for _, record := range event.Records {
		w.mu.Lock()
		w.got[record.Body] += w.clock.Now().Sub(w.began) // a duplicate would change the sum
		w.mu.Unlock()
		if w.then != nil {
			w.then(record.Body)
		}
	}
	time.Sleep(w.takes)
	return nil, nil
}

// sendDelayed sends a body to a standard queue.
func (q queue) sendDelayed(body string, seconds int32) {
	q.t.Helper()
	if _, err := q.client.SendMessage(q.t.Context(), &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body, DelaySeconds: seconds}); err != nil {
		q.t.Fatalf("SendMessage %s: %v", body, err)
	}
}

func (w *work) want(t *testing.T, want map[string]time.Duration) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(want, w.got); diff != "" {
		t.Errorf("the times of the bodies (-want +got):\n%s", diff)
	}
}

func advance(t *testing.T, cloud *awslocal.Cloud, d time.Duration) awslocal.Advanced {
	t.Helper()
	done, err := cloud.Advance(t.Context(), d)
	if err != nil {
		t.Fatalf("Advance: %v", err)
	}
	return done
}

// Whenever the function receives a message, it schedules one for the next day. One call of Advance covers three days.
func TestAdvance_performs_work_that_earlier_work_schedules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, clock := virtual()
		q := addFIFO(t, cloud, "queue.fifo", nil)
		schedules, days := newScheduler(cloud), newWork(clock)
		next := map[string]string{"start": "day 1", "day 1": "day 2", "day 2": "day 3", "day 3": "day 4"}
		days.then = func(body string) {
			if next[body] == "" {
				return
			}
			input := q.schedule(strings.ReplaceAll(next[body], " ", "-"), 0, next[body])
			at := "at(" + clock.Now().Add(24*time.Hour).UTC().Format("2006-01-02T15:04:05") + ")"
			input.ScheduleExpression = &at
			if _, err := schedules.CreateSchedule(t.Context(), input); err != nil {
				t.Errorf("CreateSchedule: %v", err)
			}
		}
		days.poll(t, q)
		synctest.Wait()
		q.send("g", "start")
		done := advance(t, cloud, 72*time.Hour)
		const day = 24 * time.Hour
		days.want(t, map[string]time.Duration{"start": 0, "day 1": day, "day 2": 2 * day, "day 3": 3 * day})
		if got := done.To.Sub(done.From); got != 3*day || done.Steps != 3 {
			t.Errorf("want 72h in 3 steps, got %v in %d", got, done.Steps)
		}
		if passed := time.Since(days.began); passed != 0 {
			t.Errorf("want no real time to pass, got %v", passed)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		days.want(t, map[string]time.Duration{"start": 0, "day 1": day, "day 2": 2 * day, "day 3": 3 * day, "day 4": 4 * day})
	})
}

// Delays, visibility timeouts, waits of executions and schedules are due one after another.
func TestAdvance_moves_all_services_in_step(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, clock := virtual()
		q := addQueue(t, cloud, "queue", map[string]string{"VisibilityTimeout": "60"})
		w := newWorkflows(t, cloud)
		execution := w.start(w.create("wait", `"S": {"Type": "Wait", "Seconds": 7200, "Next": "T"}, "T": {"Type": "Task", "End": true,
			"Resource": "arn:aws:states:::sqs:sendMessage", "Parameters": {"QueueUrl": "queue", "MessageBody": "waited"}}`), "1", `{}`)
		q.sendDelayed("taken", 0)
		if got := q.receive(); len(got) != 1 { // The message becomes visible again after a minute.
			t.Fatalf("want one message, got %v", got)
		}
		q.sendDelayed("delayed", 900)
		bodies := newWork(clock)
		bodies.poll(t, q)
		synctest.Wait()
		bodies.want(t, map[string]time.Duration{})
		w.wantEnd(execution, types.ExecutionStatusRunning)

		if done := advance(t, cloud, 24*time.Hour); done.Steps != 3 {
			t.Errorf("want 3 steps, got %d", done.Steps)
		}
		bodies.want(t, map[string]time.Duration{"taken": time.Minute, "delayed": 15 * time.Minute, "waited": 2 * time.Hour})
		if got := clock.Ahead(); got != 24*time.Hour {
			t.Errorf("want the clock to be 24h ahead, got %v", got)
		}
	})
}

// While a function works, the clock stands still for ten seconds. After that it runs.
func TestAdvance_waits_for_functions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, q, slow := working(t, 25*time.Second)
		q.sendDelayed("a", 60)
		q.sendDelayed("b", 70)
		synctest.Wait()
		before := time.Now()
		advance(t, cloud, time.Hour)
		// "b" is due ten seconds later. The clock stands still for ten seconds, then runs for ten more until "b" arrives.
		slow.want(t, map[string]time.Duration{"a": time.Minute, "b": 70 * time.Second})
		if got := time.Since(before); got != 45*time.Second {
			t.Errorf("want 20 s until b and 25 s for it, got %v", got)
		}
	})
}

func TestAdvance_ends_with_its_context_and_refuses_bad_calls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud, q, _ := working(t, 29*time.Second)
		q.sendDelayed("a", 60)
		synctest.Wait()
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		go func() {
			time.Sleep(time.Second / 2)
			if _, err := cloud.Advance(t.Context(), time.Hour); !errors.Is(err, awslocal.ErrAdvancing) {
				t.Errorf("want ErrAdvancing while the clock is advanced, got %v", err)
			}
		}()
		if done, err := cloud.Advance(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || done.To.Sub(done.From) != time.Minute {
			t.Errorf("want the clock to stay where the context ended, got %+v and %v", done, err)
		}
		for _, d := range []time.Duration{0, -time.Second, awslocal.AdvanceMax + 1} {
			if _, err := cloud.Advance(t.Context(), d); !errors.Is(err, awslocal.ErrAdvance) {
				t.Errorf("%v: want ErrAdvance, got %v", d, err)
			}
		}
		if _, err := awslocal.New(awslocal.Config{}).Advance(t.Context(), time.Hour); !errors.Is(err, awslocal.ErrRealClock) {
			t.Errorf("want ErrRealClock, got %v", err)
		}
	})
}

func TestClock_survives_in_the_data_folder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := awslocal.NewClock(nil)
	cloud, err := awslocal.Open(awslocal.Config{Data: dir, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	done := advance(t, cloud, 72*time.Hour)
	if err := cloud.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := awslocal.Open(awslocal.Config{Data: dir}); err == nil || !strings.Contains(err.Error(), "its clock was advanced and is 7") || !strings.Contains(err.Error(), "settle dev with --clock virtual") {
		t.Errorf("want the real clock to be refused, because time would run backwards, got %v", err)
	}
	again := awslocal.NewClock(nil)
	cloud, err = awslocal.Open(awslocal.Config{Data: dir, Clock: again})
	if err != nil {
		t.Fatal(err)
	}
	if now := again.Now(); now.Before(done.To) {
		t.Errorf("want the clock to continue from %v, got %v", done.To, now)
	}
	if err := cloud.Close(); err != nil {
		t.Fatal(err)
	}
}
