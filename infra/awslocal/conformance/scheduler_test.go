package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
)

// schedulerBehaviours lists the behaviours of EventBridge Scheduler with SQS as its target.
var schedulerBehaviours = []behaviour{
	{name: "at_sqs_fifo", test: atSQSFIFO, connection: true, promise: "A schedule of at() sends its Input to a FIFO queue at its time, with the MessageGroupId of its target, templated or universal."},
	{name: "dead_letter", test: deadLetter, promise: "If the target cannot be reached within the retries of RetryPolicy, the standard queue of DeadLetterConfig receives the request as the body, and the error in attributes. A FIFO queue there fails with ValidationException."},
	{name: "delete_after_completion", test: deleteAfterCompletion, promise: "A schedule of at() fires once. With ActionAfterCompletion=DELETE it is then deleted, otherwise it stays."},
	{name: "delete_before_fire", test: deleteBeforeFire, promise: "A deleted schedule does not fire. Deleting it again fails with ResourceNotFoundException."},
	{name: "errors", test: schedulerErrors, promise: "A name in use fails with ConflictException. An invalid expression fails with ValidationException and creates no schedule. A missing schedule or group fails with ResourceNotFoundException."},
	{name: "update_group_list", test: updateGroupList, promise: "Schedules belong to groups, are deleted with them, and are listed by NamePrefix, page by page. UpdateSchedule replaces the whole definition, including its time."},
}

// instant adds a duration to the current time and truncates the result to a whole second.
func instant(after time.Duration) time.Time { return time.Now().Add(after).Truncate(time.Second) }

// arn returns the ARN of the queue.
func (q queue) arn() *string {
	q.t.Helper()
	return aws.String(q.attributes("QueueArn")["QueueArn"])
}

// target returns a templated target that sends input to the queue. The message has a group unless group is empty.
func (q queue) target(group, input string) *types.Target {
	q.t.Helper()
	target := &types.Target{Arn: q.arn(), RoleArn: aws.String(anyRole), Input: &input}
	if group != "" {
		target.SqsParameters = &types.SqsParameters{MessageGroupId: &group}
	}
	return target
}

const anyRole = "arn:aws:iam::123456789012:role/any"

// schedule returns the input of CreateSchedule for a schedule that fires once.
func schedule(name string, due time.Time, target *types.Target) *scheduler.CreateScheduleInput {
	return &scheduler.CreateScheduleInput{
		Name: &name, Target: target, ScheduleExpression: aws.String(due.UTC().Format("at(2006-01-02T15:04:05)")),
		FlexibleTimeWindow: &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
	}
}

func (w *world) createSchedule(t *testing.T, in *scheduler.CreateScheduleInput) {
	t.Helper()
	out, err := w.scheduler.CreateSchedule(t.Context(), in)
	must(t, "CreateSchedule "+*in.Name, err)
	suffix := ":schedule/" + aws.ToString(in.GroupName) + "/" + *in.Name
	if in.GroupName == nil {
		suffix = ":schedule/default/" + *in.Name
	}
	if !strings.HasSuffix(*out.ScheduleArn, suffix) {
		t.Fatalf("ScheduleArn: got %s, want one that ends with %s", *out.ScheduleArn, suffix)
	}
}

func (w *world) getSchedule(ctx context.Context, group, name string) (*scheduler.GetScheduleOutput, error) {
	return w.scheduler.GetSchedule(ctx, &scheduler.GetScheduleInput{GroupName: &group, Name: &name})
}

// deleteSchedule deletes a schedule of the default group. Each call has its own input, into which the SDK writes a new
// ClientToken.
func (w *world) deleteSchedule(ctx context.Context, name string) error {
	_, err := w.scheduler.DeleteSchedule(ctx, &scheduler.DeleteScheduleInput{Name: &name})
	return err
}

// wantNoSchedule fails unless err says that the schedule or group does not exist.
func wantNoSchedule(t *testing.T, what string, err error) {
	t.Helper()
	wantAs(t, what, err, new(*types.ResourceNotFoundException))
}

// wantArrivals fails unless these messages arrive at the time `due`, and no other message arrives for a day, or for two
// seconds in real time. Each message is given as its group and body, separated by a space.
func (q queue) wantArrivals(due time.Time, all ...string) {
	q.t.Helper()
	var got []string
	for len(got) < len(all) {
		messages := q.receive(upTo(10), waiting(20))
		q.w.wantAt(q.t, fmt.Sprintf("the arrival of %q", bodies(messages)), time.Now(), due)
		for _, m := range messages {
			got = append(got, m.Attributes["MessageGroupId"]+" "+*m.Body)
		}
		q.delete(messages...)
	}
	want(q.t, "messages", all, got)
	q.w.pass(24 * time.Hour)
	wantBodies(q.t, q.receive(upTo(10)))
	q.wantCounts(0, 0, 0)
}

func atSQSFIFO(t *testing.T, w *world) {
	q := w.fifo(t, map[string]string{"ContentBasedDeduplication": "true"})
	first, second := instant(4*time.Second), instant(6*time.Second)
	w.createSchedule(t, schedule(w.name(), second, &types.Target{
		Arn: aws.String("arn:aws:scheduler:::aws-sdk:sqs:sendMessage"), RoleArn: aws.String(anyRole),
		Input: aws.String(fmt.Sprintf(`{"QueueUrl": %q, "MessageBody": "universal", "MessageGroupId": "b", "MessageDeduplicationId": "x"}`, q.url)),
	}))
	w.createSchedule(t, schedule(w.name(), first, q.target("a", `{"text": "<&> é 🙂", "n": 1.0}`)))
	messages := q.receive(upTo(10), waiting(20))
	w.wantAt(t, "the templated target", time.Now(), first)
	wantBodies(t, messages, `{"text": "<&> é 🙂", "n": 1.0}`)
	want(t, "MessageGroupId", "a", messages[0].Attributes["MessageGroupId"])
	q.delete(messages...)
	q.wantArrivals(second, "b universal")
}

// deadLetter uses the universal target, because AWS's guide shows a dead letter of this target.
func deadLetter(t *testing.T, w *world) {
	dead, due, name := w.queue(t, w.name(), nil), instant(4*time.Second), w.name()
	target := &types.Target{
		Arn: aws.String("arn:aws:scheduler:::aws-sdk:sqs:sendMessage"), RoleArn: aws.String(anyRole),
		Input:            aws.String(fmt.Sprintf(`{"QueueUrl": %q, "MessageBody": "lost"}`, dead.url+"-gone")),
		DeadLetterConfig: &types.DeadLetterConfig{Arn: dead.arn()}, RetryPolicy: &types.RetryPolicy{MaximumRetryAttempts: aws.Int32(0)},
	}
	w.createSchedule(t, schedule(name, due, target))
	messages := dead.receive(upTo(10), waiting(20))
	if len(messages) != 1 {
		t.Fatalf("want one dead letter, got %q", bodies(messages))
	}
	w.wantAt(t, "the dead letter", time.Now(), due)
	var request struct{ MessageBody, QueueUrl string }
	must(t, "the body", json.Unmarshal([]byte(*messages[0].Body), &request))
	want(t, "MessageBody and QueueUrl of the body", "lost "+dead.url+"-gone", request.MessageBody+" "+request.QueueUrl)
	attribute := func(name string) string { return aws.ToString(messages[0].MessageAttributes[name].StringValue) }
	for name, value := range map[string]string{
		"ERROR_CODE": "AWS.SimpleQueueService.NonExistentQueue", "RETRY_ATTEMPTS": "0", "IS_PAYLOAD_TRUNCATED": "false",
		"TARGET_ARN": *target.Arn, "SCHEDULED_TIME": due.UTC().Format(time.RFC3339),
	} {
		want(t, name, value, attribute(name))
	}
	if !strings.HasSuffix(attribute("SCHEDULE_ARN"), ":schedule/default/"+name) || attribute("ERROR_MESSAGE") == "" || attribute("EXECUTION_ID") == "" {
		t.Errorf("want the ARN of the schedule, a message and an ID, got %v", messages[0].MessageAttributes)
	}
	target.DeadLetterConfig = &types.DeadLetterConfig{Arn: w.fifo(t, nil).arn()}
	_, err := w.scheduler.CreateSchedule(t.Context(), schedule(w.name(), due, target))
	wantAs(t, "a FIFO queue for dead letters", err, new(*types.ValidationException))
}

// deleteAfterCompletion uses a standard queue. Such a queue does not drop duplicates, so the test notices a schedule
// that fires twice.
func deleteAfterCompletion(t *testing.T, w *world) {
	q := w.queue(t, w.name(), nil)
	due := instant(4 * time.Second)
	gone, kept := schedule(w.name(), due, q.target("", "gone")), schedule(w.name(), due, q.target("", "kept"))
	gone.ActionAfterCompletion = types.ActionAfterCompletionDelete
	for _, in := range []*scheduler.CreateScheduleInput{gone, kept} {
		w.createSchedule(t, in)
		out, err := w.getSchedule(t.Context(), "default", *in.Name)
		must(t, "before it fires", err)
		want(t, "Input", *in.Target.Input, *out.Target.Input)
	}
	q.wantArrivals(due, " gone", " kept")
	_, err := w.getSchedule(t.Context(), "default", *gone.Name)
	wantNoSchedule(t, "the schedule to be deleted", err)
	_, err = w.getSchedule(t.Context(), "default", *kept.Name)
	must(t, "the other schedule", err)
}

func deleteBeforeFire(t *testing.T, w *world) {
	q := w.fifo(t, map[string]string{"ContentBasedDeduplication": "true"})
	due := instant(4 * time.Second)
	deleted := w.name()
	w.createSchedule(t, schedule(deleted, due, q.target("a", "deleted")))
	w.createSchedule(t, schedule(w.name(), due, q.target("a", "left")))
	time.Sleep(time.Second)
	must(t, "DeleteSchedule", w.deleteSchedule(t.Context(), deleted))
	wantNoSchedule(t, "DeleteSchedule again", w.deleteSchedule(t.Context(), deleted))
	_, err := w.getSchedule(t.Context(), "default", deleted)
	wantNoSchedule(t, "GetSchedule", err)
	q.wantArrivals(due, "a left")
}

func schedulerErrors(t *testing.T, w *world) {
	q := w.fifo(t, map[string]string{"ContentBasedDeduplication": "true"})
	taken, absent := w.name(), w.name()
	w.createSchedule(t, schedule(taken, instant(time.Hour), q.target("a", "first")))
	_, err := w.scheduler.CreateSchedule(t.Context(), schedule(taken, instant(2*time.Hour), q.target("a", "second")))
	wantAs(t, "the same name", err, new(*types.ConflictException))
	out, err := w.getSchedule(t.Context(), "default", taken)
	must(t, "GetSchedule", err)
	want(t, "Input", "first", *out.Target.Input)

	for _, expression := range []string{"at(tomorrow)", "at(2030-02-30T00:00:00)", "at(2030-01-01T00:00:00Z)", "at(2030-01-01T00:00:00.5)", "in(4 seconds)", "rate(0 minutes)", "rate(5)", "2030-01-01T00:00:00"} {
		bad := schedule(absent, instant(time.Hour), q.target("a", "x"))
		bad.ScheduleExpression = &expression
		_, err := w.scheduler.CreateSchedule(t.Context(), bad)
		wantAs(t, expression, err, new(*types.ValidationException))
	}
	_, err = w.getSchedule(t.Context(), "default", absent)
	wantNoSchedule(t, "GetSchedule", err)
	wantNoSchedule(t, "DeleteSchedule", w.deleteSchedule(t.Context(), absent))
	in := schedule(absent, instant(time.Hour), q.target("a", "x"))
	_, err = w.scheduler.UpdateSchedule(t.Context(), &scheduler.UpdateScheduleInput{
		Name: in.Name, ScheduleExpression: in.ScheduleExpression, FlexibleTimeWindow: in.FlexibleTimeWindow, Target: in.Target,
	})
	wantNoSchedule(t, "UpdateSchedule", err)
	in.GroupName = aws.String(w.name())
	_, err = w.scheduler.CreateSchedule(t.Context(), in)
	wantNoSchedule(t, "CreateSchedule in a group that is not there", err)
	_, err = w.getSchedule(t.Context(), *in.GroupName, taken)
	wantNoSchedule(t, "GetSchedule of a group that is not there", err)
	_, err = w.scheduler.GetScheduleGroup(t.Context(), &scheduler.GetScheduleGroupInput{Name: in.GroupName})
	wantNoSchedule(t, "GetScheduleGroup", err)
}

// listSchedules lists the schedules whose names start with the prefix, with two per page. It filters by group unless
// `group` is nil.
func (w *world) listSchedules(t *testing.T, group *string, prefix string) (names []string) {
	t.Helper()
	pages := scheduler.NewListSchedulesPaginator(w.scheduler, &scheduler.ListSchedulesInput{
		GroupName: group, NamePrefix: &prefix, MaxResults: aws.Int32(2),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		must(t, "ListSchedules", err)
		if len(page.Schedules) > 2 {
			t.Fatalf("ListSchedules: got %d schedules, want at most 2 a page", len(page.Schedules))
		}
		for _, s := range page.Schedules {
			names = append(names, *s.GroupName+"/"+*s.Name)
		}
	}
	return names
}

func updateGroupList(t *testing.T, w *world) {
	q := w.queue(t, w.name(), nil)
	group, prefix := w.name(), w.name()
	_, err := w.scheduler.CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{Name: &group})
	must(t, "CreateScheduleGroup", err)
	_, err = w.scheduler.CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{Name: &group})
	wantAs(t, "the same group", err, new(*types.ConflictException))
	got, err := w.scheduler.GetScheduleGroup(t.Context(), &scheduler.GetScheduleGroupInput{Name: &group})
	must(t, "GetScheduleGroup", err)
	want(t, "State", types.ScheduleGroupStateActive, got.State)

	old := instant(8 * time.Second)
	for _, name := range []string{"job-1", "job-2", "job-3", "signup-1"} {
		in := schedule(prefix+name, old, q.target("", name))
		in.GroupName, in.Description = &group, aws.String("a timer")
		w.createSchedule(t, in)
	}
	w.createSchedule(t, schedule(prefix+"job-9", old, q.target("", "job-9")))
	inGroup := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, group+"/"+prefix+name)
		}
		return all
	}
	want(t, "ListSchedules", inGroup("job-1", "job-2", "job-3"), w.listSchedules(t, &group, prefix+"job-"))
	want(t, "ListSchedules of all groups", slices.Sorted(slices.Values(append(inGroup("job-1", "job-2", "job-3"), "default/"+prefix+"job-9"))),
		slices.Sorted(slices.Values(w.listSchedules(t, nil, prefix+"job-"))))

	earlier := instant(4 * time.Second)
	in := schedule(prefix+"job-1", earlier, q.target("", "earlier"))
	_, err = w.scheduler.UpdateSchedule(t.Context(), &scheduler.UpdateScheduleInput{
		Name: in.Name, GroupName: &group, ScheduleExpression: in.ScheduleExpression, FlexibleTimeWindow: in.FlexibleTimeWindow, Target: in.Target,
	})
	must(t, "UpdateSchedule", err)
	updated, err := w.getSchedule(t.Context(), group, *in.Name)
	must(t, "GetSchedule", err)
	want(t, "the update", []string{*in.ScheduleExpression, "earlier", ""},
		[]string{*updated.ScheduleExpression, *updated.Target.Input, aws.ToString(updated.Description)})
	messages := q.receive(upTo(10), waiting(20))
	w.wantAt(t, "the earlier time", time.Now(), earlier)
	wantBodies(t, messages, "earlier")
	q.delete(messages...)

	_, err = w.scheduler.DeleteScheduleGroup(t.Context(), &scheduler.DeleteScheduleGroupInput{Name: &group})
	must(t, "DeleteScheduleGroup", err)
	_, err = w.getSchedule(t.Context(), group, prefix+"job-2")
	wantNoSchedule(t, "a schedule of the group", err)
	q.wantArrivals(old, " job-9")
}
