package schedule_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/schedule"
)

const queueARN = "arn:aws:sqs:us-east-1:000000000000:"

// given returns the messages in the queue with the given name.
func (f *fixture) given(name string) []string {
	f.t.Helper()
	output, err := f.client.ReceiveMessage(f.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &name, MaxNumberOfMessages: 10})
	if err != nil {
		f.t.Fatal(err)
	}
	var bodies []string
	for _, message := range output.Messages {
		bodies = append(bodies, *message.Body)
	}
	return bodies
}

// TestATimerThatSchedulerCannotDeliverIsKept deletes the delay queue. EventBridge Scheduler gives up after a day and
// sends the timer to the dead-letter queue. The test then moves it to the delay queue.
func TestATimerThatSchedulerCannotDeliverIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		_, client := f.withTimers()
		for _, name := range []string{"lost", "other"} {
			if _, err := f.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(name)}); err != nil {
				t.Fatal(err)
			}
		}
		timers, err := schedule.NewTimers(f.delays, client, schedule.SchedulerConfig{QueueARN: queueARN + "gone", RoleARN: role, DeadLetterQueueARN: queueARN + "lost"})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Hour)
		message := durable.Message{To: ada, Body: []byte(`{"type":"settle.timer","timer":"3.0","n":1.50}`), DeduplicationID: "signup/ada@1/3.0"}
		if err := timers.Schedule(t.Context(), at, message); err != nil {
			t.Fatal(err)
		}
		time.Sleep(26 * time.Hour)
		synctest.Wait()
		if got := schedules(t, client); got != 0 {
			t.Errorf("want no schedule left, got %d", got)
		}
		kept := f.given("lost")
		if len(kept) != 1 || len(f.given("other")) != 0 {
			t.Fatalf("want the timer kept in one queue, got %q", kept)
		}
		if read, err := schedule.Read(kept[0]); err != nil || cmp.Diff(message, read) != "" {
			t.Errorf("read %+v and %v, want %+v", read, err, message)
		}
		if _, err := f.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &f.url, MessageBody: &kept[0]}); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		f.poll(time.Minute)
		if diff := cmp.Diff([]sent{{now, message}}, f.sent); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// An operator returns a dead letter to the delay queue before its timer is due. The dead letter waits there like the
// timer's own message.
func TestAnEarlyDeadLetterWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		at := time.Now().Add(20 * time.Minute)
		letter := `{"QueueUrl":"delays","MessageBody":"{\"at\":\"` + at.Format(time.RFC3339) + `\",\"to\":\"signup/ada\",\"body\":{},\"deduplication_id\":\"d\"}"}`
		if _, err := f.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &f.url, MessageBody: &letter}); err != nil {
			t.Fatal(err)
		}
		f.poll(time.Hour)
		if diff := cmp.Diff([]sent{{at, durable.Message{To: ada, Body: []byte(`{}`), DeduplicationID: "d"}}}, f.sent); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

func TestAForeignDeadLetterIsRefused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"MessageBody":"hello"}`, `{"MessageBody":"{}"}`, `{"MessageBody":"{\"MessageBody\":\"{}\"}"}`, `{"MessageBody":7}`} {
		if _, err := schedule.Read(body); !errors.Is(err, schedule.ErrNotDelayed) {
			t.Errorf("%s: got %v, want ErrNotDelayed", body, err)
		}
	}
}

func TestADeadLetterQueueIsOptional(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		timers, client := f.withTimers()
		if err := timers.Schedule(t.Context(), time.Now().Add(time.Hour), durable.Message{To: ada, Body: []byte(`{}`), DeduplicationID: "d"}); err != nil {
			t.Fatal(err)
		}
		listed, err := client.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{})
		if err != nil || len(listed.Schedules) != 1 {
			t.Fatalf("want one schedule, got %+v and %v", listed, err)
		}
		made, err := client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: listed.Schedules[0].Name})
		if err != nil || made.Target.DeadLetterConfig != nil {
			t.Errorf("got %+v and %v, want no dead-letter queue", made.Target.DeadLetterConfig, err)
		}
	})
}
