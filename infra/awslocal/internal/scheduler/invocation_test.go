package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

func TestAt_fires_once_in_its_second(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedules/s", body(at(4*time.Second)))
	b.advance(3999 * time.Millisecond)
	b.wantFired()
	b.advance(time.Hour)
	b.wantFired("+4s " + hello)
	if got := b.ok("GET", "/schedules/s", ""); !strings.Contains(got, `"State":"ENABLED"`) {
		t.Errorf("got %s, want a schedule without ActionAfterCompletion to stay unchanged", got)
	}
}

func TestAt_in_the_past_fires_at_once(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedules/later", body(at(time.Hour)))
	for _, past := range []string{"2022-12-31T23:59:59", "1969-07-20T20:17:40"} {
		b.ok("POST", "/schedules/"+past[:4], body("at("+past+")", `Target.Input="<aws.scheduler.scheduled-time>"`))
	}
	b.wantFired(
		`+0s {"QueueUrl":"events.fifo","MessageBody":"2022-12-31T23:59:59Z","MessageGroupId":"g"}`,
		`+0s {"QueueUrl":"events.fifo","MessageBody":"1969-07-20T20:17:40Z","MessageGroupId":"g"}`)
}

func TestAt_is_read_in_its_time_zone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedules/s", body("at(2026-03-01T13:00:30)", `ScheduleExpressionTimezone="Europe/Paris"`))
	b.advance(time.Minute)
	b.wantFired("+30s " + hello)
}

func TestRate_keeps_its_interval_between_start_and_end(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		overrides []string
		want      []string
	}{
		"begins now":          {nil, []string{"+0s", "+2m0s", "+4m0s", "+6m0s"}},
		"begins at StartDate": {[]string{"StartDate=1772366430"}, []string{"+30s", "+2m30s", "+4m30s", "+6m30s"}},
		"ends at EndDate":     {[]string{"EndDate=1772366640"}, []string{"+0s", "+2m0s", "+4m0s"}},
		"ends before EndDate": {[]string{"EndDate=1772366639.9"}, []string{"+0s", "+2m0s"}},
		"disabled":            {[]string{`State="DISABLED"`}, nil},
		"window's first moment": {[]string{`FlexibleTimeWindow={"Mode":"FLEXIBLE","MaximumWindowInMinutes":5}`, "StartDate=1772366700"},
			[]string{"+5m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.ok("POST", "/schedules/s", body("rate(2 minutes)", test.overrides...))
			b.advance(7*time.Minute - time.Second)
			var want []string
			for _, at := range test.want {
				want = append(want, at+" "+hello)
			}
			b.wantFired(want...)
		})
	}
}

func TestRate_skips_missed_occurrences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedules/s", body("rate(1 minute)", `Target.Input="<aws.scheduler.scheduled-time>"`, "StartDate=1772366400"))
	b.now = b.now.Add(10*time.Minute + 30*time.Second) // the model was not advanced in the meantime
	b.advance(30 * time.Second)
	b.wantFired(
		`+0s {"QueueUrl":"events.fifo","MessageBody":"2026-03-01T12:00:00Z","MessageGroupId":"g"}`,
		`+10m30s {"QueueUrl":"events.fifo","MessageBody":"2026-03-01T12:10:00Z","MessageGroupId":"g"}`,
		`+11m0s {"QueueUrl":"events.fifo","MessageBody":"2026-03-01T12:11:00Z","MessageGroupId":"g"}`)
}

func TestActionAfterCompletion_deletes_after_the_last_invocation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedules/once", body(at(4*time.Second), `ActionAfterCompletion="DELETE"`))
	b.ok("POST", "/schedules/rate", body("rate(1 minute)", `ActionAfterCompletion="DELETE"`, "EndDate=1772366490"))
	b.ok("POST", "/schedules/endless", body("rate(1 day)", `ActionAfterCompletion="DELETE"`))
	b.advance(3 * time.Second)
	b.ok("GET", "/schedules/once", "")
	b.advance(time.Second)
	b.refused("GET", "/schedules/once", "", "ResourceNotFoundException", 404, "Schedule once does not exist.")
	b.ok("GET", "/schedules/rate", "")
	b.advance(time.Minute)
	b.refused("GET", "/schedules/rate", "", "ResourceNotFoundException", 404, "Schedule rate does not exist.")
	b.ok("GET", "/schedules/endless", "")
	b.wantFired("+0s "+hello, "+0s "+hello, "+4s "+hello, "+1m0s "+hello)
}

func TestActionAfterCompletion_waits_for_the_retries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fail = failUntil(epochTest.Add(2500*time.Millisecond), b)
	b.ok("POST", "/schedules/once", body(at(0), `ActionAfterCompletion="DELETE"`))
	b.advance(2 * time.Second)
	b.ok("GET", "/schedules/once", "")
	b.advance(2 * time.Second) // the third attempt succeeds
	b.refused("GET", "/schedules/once", "", "ResourceNotFoundException", 404, "Schedule once does not exist.")
	b.wantFired("+0s "+hello, "+1s "+hello, "+3s "+hello)
}

func failUntil(end time.Time, b *bench) func(string) *wire.Error {
	return func(string) *wire.Error {
		if b.now.Before(end) {
			return wire.Errorf("ThrottlingException", "not yet")
		}
		return nil
	}
}

func TestDeleteSchedule_cancels_pending_invocations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedules/s", body(at(4*time.Second)))
	b.advance(3 * time.Second)
	b.ok("DELETE", "/schedules/s", "")
	b.refused("DELETE", "/schedules/s", "", "ResourceNotFoundException", 404, "Schedule s does not exist.")
	b.advance(time.Hour)
	b.wantFired()
}

func TestUpdateSchedule_replaces_the_whole_definition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedules/s", body(at(10*time.Second), `Description="d"`, `ActionAfterCompletion="DELETE"`))
	b.advance(time.Second)
	b.ok("PUT", "/schedules/s", body(at(20*time.Second), `Target.Input="later"`))
	b.advance(time.Hour)
	b.wantFired(`+20s {"QueueUrl":"events.fifo","MessageBody":"later","MessageGroupId":"g"}`)
	if got := b.ok("GET", "/schedules/s", ""); strings.Contains(got, "Description") || !strings.Contains(got, `"ActionAfterCompletion":"NONE"`) ||
		!strings.Contains(got, `"CreationDate":1772366400,`) || !strings.Contains(got, `"LastModificationDate":1772366401,`) {
		t.Errorf("got %s, want defaults for the members missing in the update", got)
	}
}

func TestUpdateSchedule_does_not_repeat_an_invocation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedules/once", body(at(time.Second)))
	b.ok("POST", "/schedules/rate", body("rate(1 minute)", `Target.Input="rate"`, "EndDate=1772366465"))
	b.advance(30 * time.Second)
	b.ok("PUT", "/schedules/once", body(at(time.Second), `Description="new"`))
	b.ok("PUT", "/schedules/rate", body("rate(1 minute)", `Target.Input="updated"`, "EndDate=1772366525"))
	b.advance(time.Hour)
	rate := `{"QueueUrl":"events.fifo","MessageBody":"%s","MessageGroupId":"g"}`
	b.wantFired("+0s "+fmt.Sprintf(rate, "rate"), "+1s "+hello, "+1m0s "+fmt.Sprintf(rate, "updated"), "+2m0s "+fmt.Sprintf(rate, "updated"))
}

func TestUpdateSchedule_enables_a_disabled_schedule(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedules/once", body(at(time.Second), `State="DISABLED"`))
	b.ok("POST", "/schedules/rate", body("rate(1 minute)", `Target.Input="rate"`, `State="DISABLED"`))
	b.advance(90 * time.Second)
	b.wantFired()
	b.ok("PUT", "/schedules/once", body(at(time.Second)))
	b.ok("PUT", "/schedules/rate", body("rate(1 minute)", `Target.Input="rate"`))
	b.advance(time.Minute)
	b.wantFired("+1m30s "+hello, `+2m0s {"QueueUrl":"events.fifo","MessageBody":"rate","MessageGroupId":"g"}`)
}

func TestUniversalTarget_calls_SendMessage_with_its_Input(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	input := `{"QueueUrl":"http://sqs/000000000000/events.fifo","MessageBody":"<aws.scheduler.schedule-arn> <aws.scheduler.scheduled-time> ` +
		`<aws.scheduler.execution-id> <aws.scheduler.attempt-number>","MessageGroupId":"g","MessageDeduplicationId":"d"}`
	b.fail = failUntil(epochTest.Add(5*time.Second), b)
	b.ok("POST", "/schedules/s", body(at(4*time.Second), `Target.Arn="`+universalSQS+`"`, "Target.SqsParameters=null", "Target.Input="+string(wire.Encode(input))))
	b.advance(time.Minute)
	want := func(after, execution, attempt string) string {
		return "+" + after + ` {"QueueUrl":"http://sqs/000000000000/events.fifo","MessageBody":"` + scheduleARN("default/s") +
			" 2026-03-01T12:00:04Z " + execution + " " + attempt + `","MessageGroupId":"g","MessageDeduplicationId":"d"}`
	}
	b.wantFired(want("4s", "0000000000002001", "1"), want("5s", "0000000000002002", "2"))
}

func TestRetryPolicy_backs_off_and_then_sends_a_dead_letter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy, exhausted string
		attempts          []string
	}{
		"attempts": {`{"MaximumRetryAttempts":3}`, "MaximumRetryAttempts", []string{"+0s", "+1s", "+3s", "+7s"}},
		"none":     {`{"MaximumRetryAttempts":0}`, "MaximumRetryAttempts", []string{"+0s"}},
		"age":      {`{"MaximumEventAgeInSeconds":60}`, "MaximumEventAgeInSeconds", []string{"+0s", "+1s", "+3s", "+7s", "+15s", "+31s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.fail = func(request string) *wire.Error {
				if strings.Contains(request, "ERROR_CODE") {
					return nil
				}
				return &wire.Error{Code: "QueueDoesNotExist", QueryCode: "AWS.SimpleQueueService.NonExistentQueue", Message: "no such queue"}
			}
			b.ok("POST", "/schedules/s", body(at(0), "Target.RetryPolicy="+test.policy, `Target.DeadLetterConfig={"Arn":"`+deadARN+`"}`))
			b.advance(48 * time.Hour)
			if len(b.fired) != len(test.attempts)+1 {
				t.Fatalf("got %d firings, want %d and a dead letter: %q", len(b.fired), len(test.attempts), b.fired)
			}
			letter := b.fired[len(test.attempts)]
			for i, after := range test.attempts {
				if b.fired[i] != after+" "+hello {
					t.Errorf("attempt %d: got %s, want %s", i+1, b.fired[i], after)
				}
			}
			after, letter, _ := strings.Cut(letter, " ")
			if want := test.attempts[len(test.attempts)-1]; after != want {
				t.Errorf("dead letter at %s, want it after the last attempt at %s", after, want)
			}
			var sent sendMessage
			if err := json.Unmarshal([]byte(letter), &sent); err != nil {
				t.Fatal(err)
			}
			if sent.QueueUrl != "dead" || sent.MessageBody != hello || sent.MessageGroupId != "" {
				t.Errorf("got %+v, want the failed request, to the dead-letter queue", sent)
			}
			for attribute, want := range map[string]string{
				"ERROR_CODE": "AWS.SimpleQueueService.NonExistentQueue", "ERROR_MESSAGE": "no such queue",
				"EXECUTION_ID": fmt.Sprintf("0000000000002%03x", len(test.attempts)), "EXHAUSTED_RETRY_CONDITION": test.exhausted,
				"IS_PAYLOAD_TRUNCATED": "false", "RETRY_ATTEMPTS": fmt.Sprint(len(test.attempts) - 1), "SCHEDULED_TIME": "2026-03-01T12:00:00Z",
				"SCHEDULE_ARN": scheduleARN("default/s"), "TARGET_ARN": queueARN,
			} {
				if got := sent.MessageAttributes[attribute]; got != (messageAttribute{"String", want}) {
					t.Errorf("%s: got %+v, want the string %s", attribute, got, want)
				}
			}
		})
	}
}

func TestRetryPolicy_defaults_to_185_retries_within_a_day(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fail = func(string) *wire.Error { return wire.Errorf("ThrottlingException", "never") }
	b.ok("POST", "/schedules/s", body(at(0), `ActionAfterCompletion="DELETE"`))
	b.advance(48 * time.Hour)
	if len(b.fired) != 186 {
		t.Errorf("got %d attempts, want 186", len(b.fired))
	}
	b.refused("GET", "/schedules/s", "", "ResourceNotFoundException", 404, "Schedule s does not exist.")
	if len(b.model.invocations) != 0 {
		t.Errorf("%d invocations remain", len(b.model.invocations))
	}
}

func TestRetries_continue_after_the_schedule_is_deleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fail = failUntil(epochTest.Add(time.Second), b)
	b.ok("POST", "/schedules/s", body(at(0), `ActionAfterCompletion="DELETE"`))
	b.ok("DELETE", "/schedules/s", "")
	b.ok("POST", "/schedules/s", body(at(time.Hour), `Target.Input="another"`, `ActionAfterCompletion="DELETE"`))
	b.advance(time.Minute)
	b.ok("GET", "/schedules/s", "") // the end of the first schedule's invocation does not complete the second schedule
	b.wantFired("+0s "+hello, "+1s "+hello)
	b.advance(time.Hour)
	b.refused("GET", "/schedules/s", "", "ResourceNotFoundException", 404, "Schedule s does not exist.")
}

func TestActionAfterCompletion_does_not_delete_disabled_schedules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fail = failUntil(epochTest.Add(time.Second), b)
	b.ok("POST", "/schedules/s", body(at(0), `ActionAfterCompletion="DELETE"`))
	b.ok("PUT", "/schedules/s", body(at(0), `ActionAfterCompletion="DELETE"`, `State="DISABLED"`))
	b.advance(time.Minute)
	b.ok("GET", "/schedules/s", "")
}

func TestClientToken_makes_a_request_take_effect_once(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	create := body(at(time.Hour), `ClientToken="t1"`)
	first := b.ok("POST", "/schedules/s", create)
	if again := b.ok("POST", "/schedules/s", create); again != first {
		t.Errorf("again: got %s, want %s", again, first)
	}
	b.refused("POST", "/schedules/s", body(at(2*time.Hour), `ClientToken="t1"`), "ConflictException", 409, "ClientToken t1")
	b.refused("POST", "/schedules/s", body(at(time.Hour), `ClientToken="t2"`), "ConflictException", 409, "already exists")

	update := body(at(3*time.Hour), `ClientToken="t1"`)
	b.ok("PUT", "/schedules/s", update)
	b.ok("PUT", "/schedules/s", body(at(4*time.Hour), `ClientToken="t3"`))
	b.ok("PUT", "/schedules/s", update) // a late repetition does not undo the later update
	if got := b.ok("GET", "/schedules/s", ""); !strings.Contains(got, at(4*time.Hour)) {
		t.Errorf("got %s, want the later update", got)
	}
	b.ok("DELETE", "/schedules/s?clientToken=t1", "")
	b.ok("DELETE", "/schedules/s?clientToken=t1", "")
	b.refused("DELETE", "/schedules/s?clientToken=t4", "", "ResourceNotFoundException", 404, "Schedule s does not exist.")
	b.ok("POST", "/schedule-groups/g", `{"ClientToken":"t1"}`)
	b.ok("POST", "/schedule-groups/g", `{"ClientToken":"t1"}`)

	b.advance(tokenLifetime)
	b.refused("DELETE", "/schedules/s?clientToken=t1", "", "ResourceNotFoundException", 404, "Schedule s does not exist.")
	if n := b.model.tokens.answers.Len() + b.model.tokens.expiry.Len(); n != 0 {
		t.Errorf("%d expired tokens remain", n)
	}
}

func TestSchedules_of_the_same_second_fire_in_creation_order(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var want []string
	for i := range 20 {
		input := fmt.Sprint("m", i*7%20)
		b.ok("POST", "/schedules/s"+fmt.Sprint(i*7%20), body(at(time.Second), "Target.Input="+string(wire.Encode(input))))
		want = append(want, `+1s {"QueueUrl":"events.fifo","MessageBody":"`+input+`","MessageGroupId":"g"}`)
	}
	b.advance(time.Second)
	if !slices.Equal(b.fired, want) {
		t.Errorf("got  %q\nwant %q", b.fired, want)
	}
}
