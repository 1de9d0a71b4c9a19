package awslocal_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/awslocal"
)

func newScheduler(cloud *awslocal.Cloud) *scheduler.Client {
	return scheduler.New(scheduler.Options{
		Region:       awslocal.Region,
		BaseEndpoint: aws.String("http://aws.local"),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:   cloud.HTTPClient(),
	})
}

const universalTarget = "arn:aws:scheduler:::aws-sdk:sqs:sendMessage"

// schedule returns a one-time schedule, so long from now, of the universal target that sends
// a body to group g of the queue.
func (q queue) schedule(name string, after time.Duration, body string) *scheduler.CreateScheduleInput {
	q.t.Helper()
	// What is substituted is text, which json.Marshal would escape.
	input := fmt.Sprintf(`{"QueueUrl": %q, "MessageBody": %q, "MessageGroupId": "g", "MessageDeduplicationId": %q}`, q.url, body, name)
	return &scheduler.CreateScheduleInput{
		Name: &name, ScheduleExpression: atExpression(after), FlexibleTimeWindow: &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
		Target: &types.Target{
			Arn: aws.String(universalTarget), RoleArn: aws.String("arn:aws:iam::000000000000:role/scheduler"), Input: &input,
		},
	}
}

func atExpression(after time.Duration) *string {
	return aws.String("at(" + time.Now().Add(after).UTC().Format("2006-01-02T15:04:05") + ")")
}

func create(t *testing.T, client *scheduler.Client, input *scheduler.CreateScheduleInput) string {
	t.Helper()
	out, err := client.CreateSchedule(t.Context(), input)
	if err != nil {
		t.Fatalf("CreateSchedule %s: %v", *input.Name, err)
	}
	return *out.ScheduleArn
}

// arrivals receives what comes within a time, or up to 20 s later, and returns when each body
// came.
func (q queue) arrivals(within time.Duration) map[string]time.Duration {
	q.t.Helper()
	began := time.Now()
	all := map[string]time.Duration{}
	for time.Since(began) < within {
		for _, message := range q.receive(upTo(10), waiting(20)) {
			all[*message.Body] += time.Since(began) // a second time would show
			q.delete(message)
		}
	}
	return all
}

func wantArrivals(t *testing.T, got, want map[string]time.Duration) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arrivals (-want +got):\n%s", diff)
	}
}

func TestScheduler_at_sqs_fifo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, map[string]string{"ContentBasedDeduplication": "true"})
		client := newScheduler(q.cloud)
		create(t, client, q.schedule("universal", 4*time.Second, "<aws.scheduler.schedule-arn> <aws.scheduler.attempt-number>"))
		templated := q.schedule("templated", 5*time.Second, "")
		templated.Target = &types.Target{
			Arn: aws.String("arn:aws:sqs:us-east-1:000000000000:" + q.name), RoleArn: templated.Target.RoleArn,
			Input: aws.String(`{"at": "<aws.scheduler.scheduled-time>"}`), SqsParameters: &types.SqsParameters{MessageGroupId: aws.String("g")},
		}
		create(t, client, templated)
		create(t, client, q.schedule("past", -time.Hour, "late"))
		wantArrivals(t, q.arrivals(time.Minute), map[string]time.Duration{
			"late": 0,
			"arn:aws:scheduler:us-east-1:000000000000:schedule/default/universal 1": 4 * time.Second,
			`{"at": "2000-01-01T00:00:05Z"}`:                                        5 * time.Second,
		})
	})
}

// The plain target cannot set a deduplication ID, so that a queue which needs one refuses its
// messages: they end in the dead-letter queue of the schedule.
func TestScheduler_plain_target_needs_content_based_deduplication(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		dead := addQueue(t, q.cloud, "dead", nil)
		input := q.schedule("s", time.Second, "")
		input.Target = &types.Target{
			Arn: aws.String("arn:aws:sqs:us-east-1:000000000000:" + q.name), RoleArn: input.Target.RoleArn,
			Input: aws.String("hello"), SqsParameters: &types.SqsParameters{MessageGroupId: aws.String("g")},
			DeadLetterConfig: &types.DeadLetterConfig{Arn: aws.String("arn:aws:sqs:us-east-1:000000000000:dead")},
			RetryPolicy:      &types.RetryPolicy{MaximumRetryAttempts: aws.Int32(2)},
		}
		create(t, newScheduler(q.cloud), input)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if messages := dead.receive(); len(messages) != 0 {
			t.Fatal("the dead letter came before the last retry")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		messages := dead.receive()
		if len(messages) != 1 {
			t.Fatalf("got %d dead letters, want 1", len(messages))
		}
		if got, want := *messages[0].Body, `{"QueueUrl":"queue.fifo","MessageBody":"hello","MessageGroupId":"g"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for name, want := range map[string]string{"ERROR_CODE": "InvalidParameterValue", "RETRY_ATTEMPTS": "2", "EXHAUSTED_RETRY_CONDITION": "MaximumRetryAttempts"} {
			if got := aws.ToString(messages[0].MessageAttributes[name].StringValue); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	})
}

func TestScheduler_delete_after_completion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		client := newScheduler(q.cloud)
		input := q.schedule("once", 4*time.Second, "hello")
		input.ActionAfterCompletion = types.ActionAfterCompletionDelete
		create(t, client, input)
		if _, err := client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: aws.String("once")}); err != nil {
			t.Fatalf("before it fires: %v", err)
		}
		wantArrivals(t, q.arrivals(10*time.Minute), map[string]time.Duration{"hello": 4 * time.Second})
		_, err := client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: aws.String("once")})
		var notFound *types.ResourceNotFoundException
		wantAs(t, err, &notFound)
	})
}

func TestScheduler_delete_before_fire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		client := newScheduler(q.cloud)
		create(t, client, q.schedule("s", 4*time.Second, "hello"))
		time.Sleep(3 * time.Second)
		// The SDK writes a ClientToken into the input: to call with it again is to repeat the call.
		first := &scheduler.DeleteScheduleInput{Name: aws.String("s")}
		for range 2 {
			if _, err := client.DeleteSchedule(t.Context(), first); err != nil {
				t.Fatal(err)
			}
		}
		_, err := client.DeleteSchedule(t.Context(), &scheduler.DeleteScheduleInput{Name: aws.String("s")})
		var notFound *types.ResourceNotFoundException
		wantAs(t, err, &notFound)
		wantArrivals(t, q.arrivals(time.Minute), map[string]time.Duration{})
	})
}

// What is due at the very instant of a call comes before it, whether or not a timer has gone
// off yet: here none does.
func TestScheduler_fires_before_a_call_of_the_same_instant(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	q := addFIFO(t, awslocal.New(awslocal.Config{Now: func() time.Time { return now }}), "queue.fifo", nil)
	client := newScheduler(q.cloud)
	input := q.schedule("s", 0, "hello")
	input.ScheduleExpression = aws.String("at(" + now.Add(time.Hour).UTC().Format("2006-01-02T15:04:05") + ")")
	create(t, client, input)
	now = now.Add(time.Hour)
	if _, err := client.DeleteSchedule(t.Context(), &scheduler.DeleteScheduleInput{Name: aws.String("s")}); err != nil {
		t.Fatal(err)
	}
	wantBodies(t, q.receive(), "hello")
}

func TestScheduler_errors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		client := newScheduler(q.cloud)
		create(t, client, q.schedule("s", time.Hour, "hello"))

		_, err := client.CreateSchedule(t.Context(), q.schedule("s", time.Hour, "hello"))
		var conflict *types.ConflictException
		wantAs(t, err, &conflict)
		if got, want := aws.ToString(conflict.Message), "Schedule s already exists."; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		bad := q.schedule("bad", time.Hour, "hello")
		bad.ScheduleExpression = aws.String("at(tomorrow)")
		_, err = client.CreateSchedule(t.Context(), bad)
		var invalid *types.ValidationException
		wantAs(t, err, &invalid)
		if got, want := aws.ToString(invalid.Message), "Invalid Schedule Expression at(tomorrow)."; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		_, err = client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: aws.String("bad")})
		var notFound *types.ResourceNotFoundException
		wantAs(t, err, &notFound)
		_, err = client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: aws.String("s"), GroupName: aws.String("none")})
		wantAs(t, err, &notFound)
	})
}

func TestScheduler_update_group_list(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		client := newScheduler(q.cloud)
		group, err := client.CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{
			Name: aws.String("timers"), Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"job-1", "job-2", "signup-1"} {
			input := q.schedule(name, time.Hour, name)
			input.GroupName = aws.String("timers")
			create(t, client, input)
		}
		create(t, client, q.schedule("job-3", time.Hour, "job-3"))
		due := time.Now().Add(time.Hour)

		var names []string
		pages := scheduler.NewListSchedulesPaginator(client, &scheduler.ListSchedulesInput{
			GroupName: aws.String("timers"), NamePrefix: aws.String("job-"), MaxResults: aws.Int32(1), State: types.ScheduleStateEnabled,
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Schedules {
				names = append(names, *s.Name)
			}
		}
		if diff := cmp.Diff([]string{"job-1", "job-2"}, names); diff != "" {
			t.Errorf("ListSchedules (-want +got):\n%s", diff)
		}

		later := q.schedule("job-1", 30*time.Second, "earlier")
		created := time.Now()
		time.Sleep(1500 * time.Millisecond)
		if _, err := client.UpdateSchedule(t.Context(), &scheduler.UpdateScheduleInput{
			Name: later.Name, GroupName: aws.String("timers"), ScheduleExpression: later.ScheduleExpression,
			FlexibleTimeWindow: later.FlexibleTimeWindow, Target: later.Target, Description: aws.String("moved"),
		}); err != nil {
			t.Fatal(err)
		}
		got, err := client.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: aws.String("job-1"), GroupName: aws.String("timers")})
		if err != nil {
			t.Fatal(err)
		}
		if *got.ScheduleExpression != *later.ScheduleExpression || *got.Description != "moved" || !got.CreationDate.Equal(created) ||
			!got.LastModificationDate.Equal(time.Now()) || *got.Arn != "arn:aws:scheduler:us-east-1:000000000000:schedule/timers/job-1" {
			t.Errorf("got %+v, want the update", got)
		}
		tags, err := client.ListTagsForResource(t.Context(), &scheduler.ListTagsForResourceInput{ResourceArn: group.ScheduleGroupArn})
		if err != nil || len(tags.Tags) != 1 || *tags.Tags[0].Value != "a" {
			t.Errorf("got the tags %+v, %v, want team=a", tags, err)
		}
		wantArrivals(t, q.arrivals(time.Minute), map[string]time.Duration{"earlier": 28500 * time.Millisecond})
		if _, err := client.DeleteScheduleGroup(t.Context(), &scheduler.DeleteScheduleGroupInput{Name: aws.String("timers")}); err != nil {
			t.Fatal(err)
		}
		want := map[string]time.Duration{"job-3": time.Until(due)} // and neither of the group's
		wantArrivals(t, q.arrivals(2*time.Hour), want)
	})
}
