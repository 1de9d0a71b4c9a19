package schedule_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/schedule"
)

// withScheduler returns timers over the fixture's delay queue and the given EventBridge Scheduler, and their log.
func (f *fixture) withScheduler(http aws.HTTPClient) (*schedule.Timers, *bytes.Buffer) {
	f.t.Helper()
	client := scheduler.New(scheduler.Options{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: http, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	var log bytes.Buffer
	timers, err := schedule.NewTimers(f.delays, client, schedule.SchedulerConfig{
		QueueARN: queueARN + "delays", RoleARN: role, Logger: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return timers, &log
}

// TestATimerThatSchedulerDeniesTravelsInHops uses a timer of 40 minutes, which EventBridge Scheduler denies or refuses.
func TestATimerThatSchedulerDeniesTravelsInHops(t *testing.T) {
	t.Parallel()
	for _, c := range []answer{
		{"AccessDeniedException", "no identity-based policy allows the scheduler:CreateSchedule action"},
		{"ResourceNotFoundException", "Schedule group x does not exist."},
		{"ServiceQuotaExceededException", "The maximum number of schedules has been reached."},
		{"ValidationException", "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."},
		{"ValidationException", "Invalid Schedule Expression"},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				timers, log := f.withScheduler(c)
				start := time.Now()
				message := durable.Message{To: ada, Body: []byte(`{"type":"settle.timer","timer":"3.0"}`), DeduplicationID: "signup/ada@1/3.0"}
				if err := timers.Schedule(t.Context(), start.Add(40*time.Minute), message); err != nil {
					t.Fatal(err)
				}
				var line struct{ Level, Instance, Error string }
				if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Level != "WARN" || line.Instance != "signup/ada" || !strings.Contains(line.Error, c.message) {
					t.Errorf("want one line of level WARN with the instance and the error, got %s (%v)", log, err)
				}
				f.poll(time.Hour)
				if diff := cmp.Diff([]sent{{start.Add(40 * time.Minute), message}}, f.sent); diff != "" {
					t.Errorf("sent (-want +got):\n%s", diff)
				}
				if got := strings.Join(f.hops, " "); got != "900 900 600" {
					t.Errorf("travelled in hops of %s s, want 900 900 600", got)
				}
			})
		})
	}
}

// TestATransientSchedulerErrorIsReturned: the caller must retry, because the response may have been lost.
func TestATransientSchedulerErrorIsReturned(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"ThrottlingException", "InternalServerException"} {
		f := newFixture(t)
		timers, log := f.withScheduler(answer{code, "later"})
		err := timers.Schedule(t.Context(), time.Now().Add(time.Hour), durable.Message{To: ada, Body: []byte(`{}`), DeduplicationID: "d"})
		if err == nil || errors.Is(err, durable.ErrDenied) || errors.Is(err, durable.ErrRefused) || len(f.hops) > 0 || log.Len() > 0 {
			t.Errorf("%s: got %v, hops %v and the log %q, want an error, no hops and no log", code, err, f.hops, log)
		}
	}
}

// TestTheDelayQueuesErrorIsReturnedIfBothFail shows that a denial by Scheduler does not make the effect fail
// permanently. The delay queue accepts the effect's message once the queue responds again.
func TestTheDelayQueuesErrorIsReturnedIfBothFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scheduler, queue string
		want             error
	}{
		{"AccessDeniedException", "RequestThrottled", nil},
		{"ValidationException", "AccessDeniedException", durable.ErrDenied},
		{"AccessDeniedException", "InvalidMessageContents", durable.ErrRefused},
	} {
		f := newFixture(t)
		f.client = sqs.New(sqs.Options{Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: answer{c.queue, "of SQS"},
			Retryer: aws.NopRetryer{}, Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")})
		timers, _ := f.withScheduler(answer{c.scheduler, "of Scheduler"})
		err := timers.Schedule(t.Context(), time.Now().Add(time.Hour), durable.Message{To: ada, Body: []byte(`{}`), DeduplicationID: "d"})
		isRefused, isDenied := errors.Is(err, durable.ErrRefused), errors.Is(err, durable.ErrDenied)
		if err == nil || isRefused != errors.Is(c.want, durable.ErrRefused) || isDenied != errors.Is(c.want, durable.ErrDenied) ||
			!strings.Contains(err.Error(), "of SQS") || !strings.Contains(err.Error(), "of Scheduler") {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

// TestCopiesOfADeniedTimerBecomeOneSchedule: SQS may deliver a hop twice, and each copy travels on its own (SQS
// Developer Guide, "Amazon SQS at-least-once delivery"). The copies end when Scheduler accepts timers again.
func TestCopiesOfADeniedTimerBecomeOneSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		start := time.Now()
		timers, _ := f.withScheduler(doer(func(r *http.Request) (*http.Response, error) {
			if time.Since(start) > time.Hour {
				return f.cloud.HTTPClient().Do(r)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			return answer{"AccessDeniedException", "no"}.Do(r)
		}))
		f.forwarder = schedule.NewForwarder(f.delays, timers, f)
		message := durable.Message{To: ada, Body: []byte(`{"type":"settle.timer","timer":"3.0"}`), DeduplicationID: "signup/ada@1/3.0"}
		for range 3 {
			if err := timers.Schedule(t.Context(), start.Add(5*time.Hour), message); err != nil {
				t.Fatal(err)
			}
		}
		f.poll(2 * time.Hour)
		if got := f.waiting(); got != "0 0" {
			t.Errorf("an hour after Scheduler accepts timers again, the delay queue has %s messages, want none", got)
		}
		f.poll(4 * time.Hour)
		if diff := cmp.Diff([]sent{{start.Add(5 * time.Hour), message}}, f.sent); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// TestEachDeniedScheduleLogsOneWarning also shows that Schedule logs no warning if Scheduler accepts the timer.
func TestEachDeniedScheduleLogsOneWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		calls := 0
		timers, log := f.withScheduler(doer(func(r *http.Request) (*http.Response, error) {
			if calls++; calls > 2 {
				return f.cloud.HTTPClient().Do(r)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			return answer{"AccessDeniedException", "no"}.Do(r)
		}))
		for i, want := range []int{1, 2, 2} {
			if err := timers.Schedule(t.Context(), time.Now().Add(time.Hour), durable.Message{To: ada, Body: []byte(`{}`), DeduplicationID: "d"}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(log.String(), "\n"); got != want {
				t.Errorf("call %d: got %d lines, want %d:\n%s", i, got, want, log)
			}
		}
	})
}

// TestBatchHopsWhileSchedulerHangs: a batch of ten early messages hops within the 30 seconds of the function.
func TestBatchHopsWhileSchedulerHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		timers, _ := f.withScheduler(doer(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		f.forwarder = schedule.NewForwarder(f.delays, timers, f)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for range 10 {
			body := `{"at": "2001-01-01T00:00:00Z", "to": "signup/ada", "body": {"type": "settle.timer"}, "deduplication_id": "d"}`
			if err := f.forwarder.Forward(ctx, body); err != nil {
				t.Fatal(err)
			}
		}
		if len(f.hops) != 10 || ctx.Err() != nil {
			t.Errorf("want ten hops in time, got %v and %v", f.hops, ctx.Err())
		}
	})
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }
