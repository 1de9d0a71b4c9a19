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

	"github.com/settle-run/settle/infra/awslocal"
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

// schedule returns a one-time schedule that is due after the given time. Its universal target sends body to group g of
// the queue.
func (q queue) schedule(name string, after time.Duration, body string) *scheduler.CreateScheduleInput {
	q.t.Helper()
	// The body may contain a context attribute, which the scheduler replaces as text. json.Marshal would escape the
	// angle brackets of the attribute.
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

// arrivals receives messages for the duration `within`, plus up to 20 s. It returns the arrival time of each body.
func (q queue) arrivals(within time.Duration) map[string]time.Duration {
	q.t.Helper()
	began := time.Now()
	all := map[string]time.Duration{}
	for time.Since(began) < within {
		for _, message := range q.receive(upTo(10), waiting(20)) {
			all[*message.Body] += time.Since(began) // a duplicate would change the sum
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

// The value of a context attribute is inserted as text, without escaping.
func TestScheduler_inserts_context_attributes_and_fires_overdue_schedules_at_once(t *testing.T) {
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

// A templated target cannot set a deduplication ID. A queue that requires one rejects its messages, so they go to the
// dead-letter queue of the schedule.
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
			t.Fatal("the dead letter arrived before the last retry")
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

// The SDK writes a ClientToken into the input, so a second call with the same input is a repetition.
func TestScheduler_repeated_call_returns_the_same_answer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newScheduler(newFIFO(t, nil).cloud)
		group := &scheduler.CreateScheduleGroupInput{Name: aws.String("timers"), Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}
		first, err := client.CreateScheduleGroup(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		again, err := client.CreateScheduleGroup(t.Context(), group)
		if err != nil || *again.ScheduleGroupArn != *first.ScheduleGroupArn {
			t.Errorf("got %+v, %v, want %s again", again, err, *first.ScheduleGroupArn)
		}
		tags, err := client.ListTagsForResource(t.Context(), &scheduler.ListTagsForResourceInput{ResourceArn: first.ScheduleGroupArn})
		if err != nil || len(tags.Tags) != 1 || *tags.Tags[0].Value != "a" {
			t.Errorf("got the tags %+v, %v, want team=a", tags, err)
		}
		deletion := &scheduler.DeleteScheduleGroupInput{Name: aws.String("timers")}
		for range 2 {
			if _, err := client.DeleteScheduleGroup(t.Context(), deletion); err != nil {
				t.Fatal(err)
			}
		}
		_, err = client.DeleteScheduleGroup(t.Context(), &scheduler.DeleteScheduleGroupInput{Name: aws.String("timers")})
		var notFound *types.ResourceNotFoundException
		wantAs(t, err, &notFound)
	})
}

// Schedules that are due at the time of a call fire before the call, even if no timer has fired yet. Here, no timer
// fires.
func TestScheduler_fires_before_a_call_at_the_same_time(t *testing.T) {
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
