package schedule_test

import (
	"context"
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

const role = "arn:aws:iam::000000000000:role/any"

// withTimers returns timers over the fixture's delay queue and EventBridge Scheduler, and a client that lists the
// schedules.
func (f *fixture) withTimers() (*schedule.Timers, *scheduler.Client) {
	f.t.Helper()
	client := scheduler.New(scheduler.Options{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: f.cloud.HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	timers, err := schedule.NewTimers(f.delays, client, schedule.SchedulerConfig{QueueARN: "arn:aws:sqs:us-east-1:000000000000:delays", RoleARN: role})
	if err != nil {
		f.t.Fatal(err)
	}
	return timers, client
}

func schedules(t *testing.T, client *scheduler.Client) int {
	t.Helper()
	listed, err := client.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{})
	if err != nil {
		t.Fatal(err)
	}
	return len(listed.Schedules)
}

// TestTimersFireOnTimeAfterAnyDelay checks that the timers send each message once, at most a second late.
func TestTimersFireOnTimeAfterAnyDelay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		after     time.Duration
		late      time.Duration
		schedules int
		hops      string // in seconds, through the delay queue
	}{
		{-time.Hour, 0, 0, "0"},
		{2 * time.Second, 0, 0, "2"},
		{15 * time.Minute, 0, 0, "900"},
		{15*time.Minute + time.Nanosecond, time.Second - time.Nanosecond, 1, "181"},
		{90*time.Minute + 400*time.Millisecond, 600 * time.Millisecond, 1, "181"},
		{365 * 24 * time.Hour, 0, 1, "180"},
	} {
		t.Run(test.after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				timers, client := f.withTimers()
				start := time.Now()
				message := durable.Message{To: ada, Body: []byte(`{"type":"settle.timer","timer":"3.0"}`), DeduplicationID: "signup/ada@1/3.0"}
				for range 2 { // The second call creates no second schedule.
					if err := timers.Schedule(t.Context(), start.Add(test.after), message); err != nil {
						t.Fatal(err)
					}
					if test.schedules == 0 {
						break
					}
				}
				if got := schedules(t, client); got != test.schedules {
					t.Errorf("want %d schedules, got %d", test.schedules, got)
				}
				f.poll(test.after + 24*2*time.Hour)
				want := []sent{{start.Add(max(test.after, 0) + test.late), message}}
				if diff := cmp.Diff(want, f.sent); diff != "" {
					t.Errorf("sent (-want +got):\n%s", diff)
				}
				// The schedule's own message does not count: it has no delay.
				if got := strings.Join(f.hops, " "); got != test.hops {
					t.Errorf("travelled in hops of %s s, want %s", got, test.hops)
				}
				if got := schedules(t, client); got != 0 {
					t.Errorf("want no schedule left, got %d", got)
				}
			})
		})
	}
}

func TestACancelledTimerDoesNotFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		timers, client := f.withTimers()
		message := durable.Message{To: ada, Body: []byte(`{"type":"settle.timer","timer":"3.0"}`), DeduplicationID: "signup/ada@1/3.0"}
		if err := timers.Schedule(t.Context(), time.Now().Add(time.Hour), message); err != nil {
			t.Fatal(err)
		}
		for range 2 { // The second call finds no schedule, which is not an error.
			if err := timers.Cancel(t.Context(), message.DeduplicationID); err != nil {
				t.Fatal(err)
			}
		}
		if got := schedules(t, client); got != 0 {
			t.Errorf("want no schedule left, got %d", got)
		}
		f.poll(2 * time.Hour)
		if len(f.sent) != 0 {
			t.Errorf("want nothing sent, got %v", f.sent)
		}
	})
}

// The description names the instance. The name is valid for an ID of any length and alphabet.
func TestASchedulesDescriptionNamesTheInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		timers, client := f.withTimers()
		message := durable.Message{To: ada, Body: []byte(`{}`), DeduplicationID: strings.Repeat("ä/ ", 400)}
		if err := timers.Schedule(context.Background(), time.Now().Add(time.Hour), message); err != nil {
			t.Fatal(err)
		}
		listed, err := client.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: listed.Schedules[0].Name})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(*got.Description, "Settle: signup/ada, ") {
			t.Errorf("got the description %q", *got.Description)
		}
	})
}

func TestTimersNeedAQueueAndARole(t *testing.T) {
	t.Parallel()
	for _, config := range []schedule.SchedulerConfig{{}, {QueueARN: "arn:aws:sqs:us-east-1:000000000000:delays"}, {RoleARN: role}} {
		if _, err := schedule.NewTimers(nil, nil, config); err == nil {
			t.Errorf("%+v: want an error", config)
		}
	}
}

// TestATimerIsOnTimeIfItsScheduleIsLateAndFiresTwice delays EventBridge Scheduler by a minute, which its
// documentation allows, and delivers its message twice. Lead makes up for the delay, and the FIFO queue drops the
// second copy.
func TestATimerIsOnTimeIfItsScheduleIsLateAndFiresTwice(t *testing.T) {
	t.Parallel()
	for lateBy, late := range map[time.Duration]time.Duration{0: 0, 59 * time.Second: 0, 10 * time.Minute: 10*time.Minute - schedule.Lead} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			timers, client := f.withTimers()
			at := time.Now().Add(365 * 24 * time.Hour)
			message := durable.Message{To: ada, Body: []byte(`{"type":"settle.timer","timer":"3.0"}`), DeduplicationID: "signup/ada@1/3.0"}
			if err := timers.Schedule(t.Context(), at, message); err != nil {
				t.Fatal(err)
			}
			listed, err := client.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{})
			if err != nil || len(listed.Schedules) != 1 {
				t.Fatalf("want one schedule, got %v, %v", listed, err)
			}
			made, err := client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: listed.Schedules[0].Name})
			if err != nil {
				t.Fatal(err)
			}
			due, err := time.Parse("at(2006-01-02T15:04:05)", *made.ScheduleExpression)
			if err != nil {
				t.Fatal(err)
			}
			if err := timers.Cancel(t.Context(), message.DeduplicationID); err != nil { // The test fires it by hand.
				t.Fatal(err)
			}
			f.poll(time.Until(due.Add(lateBy)))
			for range 2 {
				if _, err := f.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &f.url, MessageBody: made.Target.Input}); err != nil {
					t.Fatal(err)
				}
			}
			f.poll(time.Hour)
			if len(f.sent) != 2 {
				t.Fatalf("late by %v: want both copies sent, got %d", lateBy, len(f.sent))
			}
			for _, sent := range f.sent {
				if after := sent.At.Sub(at); after < late || after > late+time.Second || sent.Message.DeduplicationID != message.DeduplicationID {
					t.Errorf("late by %v: want it sent %v late with the deduplication ID %s, got %v and %s", lateBy, late, message.DeduplicationID, after, sent.Message.DeduplicationID)
				}
			}
		})
	}
}

// The message reports the end of an execution whose output has the maximum length of Step Functions. With escaped
// characters, it would be six times as long.
func TestTheLongestOutputFitsIntoTheDelayQueue(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			timers, _ := f.withTimers()
			body := `{"type":"settle.execution.ended","end":{"output":"` + strings.Repeat("<", 255<<10) + `"}}`
			if err := timers.Schedule(t.Context(), time.Now().Add(after), durable.Message{To: ada, Body: []byte(body), DeduplicationID: "d"}); err != nil {
				t.Fatalf("in %v: %.200v", after, err)
			}
			f.poll(after + time.Minute)
			if len(f.sent) != 1 || string(f.sent[0].Message.Body) != body {
				t.Errorf("in %v: sent %d messages, want the one that was scheduled", after, len(f.sent))
			}
		})
	}
}
