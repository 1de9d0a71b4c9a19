package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
)

// parkedEvent is an event in the JSON of dlq list.
type parkedEvent struct {
	MessageID      string `json:"message_id"`
	Instance       string
	Event          string
	EventID        string `json:"event_id"`
	Reason         string
	SourceQueue    string `json:"source_queue"`
	SequenceNumber string `json:"sequence_number"`
	ReceiveCount   string `json:"receive_count"`
	Body           map[string]any
}

// tried is long enough for all attempts at an instance's events. Each failed attempt also raises the receive count of
// the later events, which lengthens their backoff.
const tried = 24 * time.Hour

// parked lists the dead-letter queue.
func (u user) parked(flags ...string) []parkedEvent {
	u.t.Helper()
	got := u.run(append([]string{"dlq", "list", "--local", "-o", "json"}, flags...)...)
	if got.code != command.ExitDone {
		u.t.Fatalf("dlq list %v: expected exit code 0, got %+v", flags, got)
	}
	var events []parkedEvent
	unmarshal(u.t, []byte(got.out), &events)
	return events
}

// park parks events of two instances alternately. The event with the ID e7 counts 7.
func (u user) park(w *work, numbers ...int) {
	u.t.Helper()
	w.broken.Store(false)
	for _, instance := range []string{"work/1", "work/2"} {
		u.must("send", "--local", instance, "START", "--id", "begin", "--wait", "rested")
	}
	w.broken.Store(true)
	for _, number := range numbers {
		u.must("send", "--local", fmt.Sprint("work/", 1+number%2), "COUNT", fmt.Sprint("what=", number), "--id", fmt.Sprint("e", number))
	}
	time.Sleep(tried)
}

// counted returns the entries that an instance has counted.
func (u user) counted(instance string) []string {
	u.t.Helper()
	var shown struct{ Context workContext }
	unmarshal(u.t, []byte(u.must("get", "--local", "-o", "json", instance)), &shown)
	return shown.Context.Counted
}

func TestParkedEventsAreListedShownAndReturned(t *testing.T) {
	t.Parallel()
	w := &work{}
	withWork(t, w, func(u user) {
		if got, want := u.must("dlq", "list", "--local"), "No parked events.\n"; got != want {
			u.t.Errorf("expected %q of an empty queue, got %q", want, got)
		}
		if got, want := u.must("dlq", "list", "--local", "--instance", "work/1"), "No parked events of work/1.\n"; got != want {
			u.t.Errorf("expected %q of an instance without any, got %q", want, got)
		}
		u.park(w, 0, 1, 2)
		u.put("work/2", "poison", `{"type": "COUNT", "what": 7, "$task": {"token": "do-not-print-me", "state": "Wait"}}`)
		u.put("work/2", "broken", `{"$task": {"token": "do-not-print-me`)
		time.Sleep(time.Minute)

		listed := u.parked()
		if again := u.parked(); len(listed) != 5 || !reflect.DeepEqual(again, listed) {
			u.t.Errorf("expected 5 events, and the same at once when listed again, got\n%+v\n%+v", listed, again)
		}
		var ofOne []string
		for _, event := range u.parked("--instance", "work/1") {
			ofOne = append(ofOne, event.EventID)
		}
		if want := []string{"e0", "e2"}; !slices.Equal(ofOne, want) {
			u.t.Errorf("expected %v of work/1, got %v", want, ofOne)
		}
		k := slices.IndexFunc(listed, func(e parkedEvent) bool { return e.EventID == "e1" })
		if e := listed[k]; e.Instance != "work/2" || e.Event != "COUNT" || !strings.Contains(e.Reason, "action note: panic: a value of the type string") ||
			e.SourceQueue != "arn:aws:sqs:us-east-1:000000000000:settle.fifo" || e.SequenceNumber == "" || e.ReceiveCount != "3" || e.Body != nil {
			u.t.Errorf("expected the attributes of e1, and no payload, got %+v", e)
		}
		var shown parkedEvent
		unmarshal(u.t, []byte(u.must("dlq", "show", "--local", "-o", "json", listed[k].MessageID)), &shown)
		if shown.Body["what"] != "1" || shown.Reason != listed[k].Reason {
			u.t.Errorf("expected the payload of e1, got %+v", shown)
		}
		contains(u.t, u.must("dlq", "list", "--local"), listed[k].MessageID+"  work/2    COUNT  24h01m ago  ", "action note: panic: a value of the type string")
		contains(u.t, u.must("dlq", "show", "--local", listed[k].MessageID), "work/2\n  event     COUNT\n  id        e1\n", `"what": "1"`)

		all := ""
		for _, event := range listed {
			all += u.must("dlq", "show", "--local", event.MessageID) + u.must("dlq", "show", "--local", "-o", "json", event.MessageID)
		}
		contains(u.t, all, `"token": "(hidden)"`, `"state": "Wait"`, "36 bytes, not JSON, hidden because they may contain a task token")
		if strings.Contains(all, "do-not-print-me") {
			u.t.Errorf("expected no token, got\n%s", all)
		}
		if missing := u.run("dlq", "show", "--local", "nope"); missing.code != command.ExitNotFound {
			u.t.Errorf("expected exit code 3 for an unknown message, got %+v", missing)
		}
		if limited := u.run("dlq", "list", "--local", "--limit", "2", "-o", "json"); strings.Count(limited.out, "message_id") != 2 {
			u.t.Errorf("expected 2 events, got %+v", limited)
		}
		if again := u.parked(); len(again) != 5 {
			u.t.Errorf("expected all messages to be visible, got %+v", again)
		}
	})
}

func TestRedrivenEventsAreAppliedOnceInOrder(t *testing.T) {
	t.Parallel()
	w := &work{}
	withWork(t, w, func(u user) {
		numbers := make([]int, 50) // 25 of each instance: the queue offers ten at a time
		for i := range numbers {
			numbers[i] = i
		}
		u.park(w, numbers...)
		got := u.run("dlq", "list", "--local", "-o", "json")
		if shown := strings.Count(got.out, "message_id"); shown != 20 {
			u.t.Errorf("expected the first ten events of both instances, got %d", shown)
		}
		contains(u.t, got.err, "The queue has about 50 events, and offered 20: at most ten of an instance at a time")

		again := u.must("dlq", "redrive", "--local", "--instance", "work/1")
		contains(u.t, again, "events sent to settle.fifo\n")
		time.Sleep(tried)
		if got := u.counted("work/1"); len(got) != 0 {
			u.t.Errorf("while the chart is broken: expected nothing to be applied, got %v", got)
		}
		w.broken.Store(false)
		contains(u.t, u.must("dlq", "redrive", "--local", "--all"), "50 events sent to settle.fifo\n")
		time.Sleep(time.Minute)
		for k, instance := range []string{"work/1", "work/2"} {
			var want []string
			for i := k; i < 50; i += 2 {
				want = append(want, fmt.Sprint(i))
			}
			if got := u.counted(instance); !slices.Equal(got, want) {
				u.t.Errorf("%s: expected each event once, in order, got %v", instance, got)
			}
		}
		if left := u.parked(); len(left) != 0 {
			u.t.Errorf("expected no event to stay parked, got %+v", left)
		}
	})
}

func TestRedriveKeepsTheAttributesThatIdentifyDuplicates(t *testing.T) {
	t.Parallel()
	w := &work{}
	withWork(t, w, func(u user) {
		u.park(w, 0)
		// The event has no idempotency key, so a duplicate is recognised by its attributes alone.
		u.must("send", "--local", "work/1", "COUNT", "what=bare")
		time.Sleep(time.Hour)
		client := sqs.NewFromConfig(u.stack.AWS())
		received, err := client.ReceiveMessage(u.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String(stack.DeadLetterQueue), MaxNumberOfMessages: 10,
			VisibilityTimeout: 1, MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}})
		if err != nil || len(received.Messages) != 2 {
			u.t.Fatalf("expected two messages, got %v and %v", received, err)
		}
		for _, m := range received.Messages {
			_, err := client.SendMessage(u.t.Context(), &sqs.SendMessageInput{QueueUrl: aws.String(stack.DeadLetterQueue), MessageBody: m.Body,
				MessageGroupId: aws.String("work/1"), MessageDeduplicationId: aws.String("copy-of-" + *m.MessageId), MessageAttributes: m.MessageAttributes})
			if err != nil {
				u.t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		w.broken.Store(false)
		contains(u.t, u.must("dlq", "redrive", "--local", "--all"), "2 events sent to settle.fifo\n2 of them were parked again")
		contains(u.t, u.must("dlq", "redrive", "--local", "--all"), "2 events sent to settle.fifo\n")
		time.Sleep(time.Minute)
		if got, want := u.counted("work/1"), []string{"0", "bare"}; !slices.Equal(got, want) {
			u.t.Errorf("expected %v, got %v", want, got)
		}
	})
}

func TestRedriveSendsOnlyTheChosenEvents(t *testing.T) {
	t.Parallel()
	w := &work{}
	withWork(t, w, func(u user) {
		u.park(w, 0, 1, 2)
		w.broken.Store(false)
		listed := u.parked("--instance", "work/1")
		u.must("dlq", "redrive", "--local", listed[1].MessageID)
		time.Sleep(time.Minute)
		if got, want := u.counted("work/1"), []string{"2"}; !slices.Equal(got, want) {
			u.t.Errorf("expected %v, got %v", want, got)
		}
		got := u.run("dlq", "redrive", "--local", "-o", "json", listed[0].MessageID, listed[1].MessageID)
		contains(u.t, got.err, "settle: not found: the queue does not offer 1 of the 2 messages, "+listed[1].MessageID+": ")
		if got.code != command.ExitNotFound || !strings.Contains(got.out, `"redriven": 1`) {
			u.t.Errorf("expected one event to be redriven and exit code 3 for the other, got %+v", got)
		}
		for _, move := range [][]string{{"redrive"}, {"drop", "--yes"}} {
			got := u.run(slices.Concat([]string{"dlq"}, move, []string{"--local", "nope"})...)
			const want = "settle: not found: the queue does not offer message nope: it offers at most ten events of an instance at a time, and none that are in flight; see settle dlq list --local\n"
			if got.code != command.ExitNotFound || got.out != "" || got.err != want {
				u.t.Errorf("dlq %v: expected exit code 3 and only %q, got %+v", move, want, got)
			}
		}
		for _, flags := range []string{"", "--all --instance work/1", "--all x"} {
			if got := u.run(append([]string{"dlq", "redrive", "--local"}, strings.Fields(flags)...)...); got.code != command.ExitUsage {
				u.t.Errorf("redrive %s: expected exit code 2, got %+v", flags, got)
			}
		}
		if left := u.parked(); len(left) != 1 || left[0].EventID != "e1" {
			u.t.Errorf("expected e1 to stay, got %+v", left)
		}
	})
}

func TestDropAsksAndThenDeletes(t *testing.T) {
	t.Parallel()
	w := &work{}
	withWork(t, w, func(u user) {
		u.park(w, 0, 1, 2)
		got := u.run("dlq", "drop", "--local", "--all")
		if want := "settle: usage: expected --yes, because there is no terminal to ask for confirmation\n"; got.code != command.ExitUsage || got.err != want {
			u.t.Errorf("expected exit code 2 and %q, got %+v", want, got)
		}
		declined := u.runAs(command.Process{StdoutTTY: true, StdinTTY: true, In: strings.NewReader("n\n")}, "dlq", "drop", "--local", "--all")
		if want := "Permanently drop all events in settle-dlq.fifo, about 3? [y/N] settle: not confirmed, nothing was dropped\n"; declined.err != want || declined.code != command.ExitFailed {
			u.t.Errorf("expected exit code 1 and %q, got %+v", want, declined)
		}
		for _, answer := range []string{"\n", "n\n", "y\n"} {
			dropped := answer == "y\n"
			before := len(u.parked())
			got := u.runAs(command.Process{StdoutTTY: true, StdinTTY: true, In: strings.NewReader(answer)}, "dlq", "drop", "--local", "--instance", "work/2")
			contains(u.t, got.err, "Permanently drop all events of work/2 in settle-dlq.fifo? [y/N] ")
			if left := u.parked("--instance", "work/2"); (got.code == command.ExitDone) != dropped || (len(left) == 0) != dropped {
				u.t.Errorf("answered %q, of %d: expected them to be dropped: %t, got %+v and %+v", answer, before, dropped, got, left)
			}
		}
		contains(u.t, u.must("dlq", "drop", "--local", "--yes", u.parked()[0].MessageID), "1 event dropped\n")
		contains(u.t, u.must("dlq", "drop", "--local", "--yes", "--all"), "1 event dropped\n")
		if left := u.parked(); len(left) != 0 {
			u.t.Errorf("expected an empty queue, got %+v", left)
		}
		// If the queue is empty, drop does not ask.
		for line, want := range map[string]answer{
			"--all":             {out: "No parked events.\n"},
			"--instance work/1": {out: "No parked events of work/1.\n"},
			"--all -o json":     {out: "{\n  \"dropped\": 0\n}\n"},
			"nope": {code: command.ExitNotFound, err: "settle: not found: the queue does not offer message nope: it offers at most ten events of an instance at a time, " +
				"and none that are in flight; see settle dlq list --local\n"},
		} {
			got := u.runAs(command.Process{StdoutTTY: true, StdinTTY: true, In: strings.NewReader("y\n")}, append([]string{"dlq", "drop", "--local"}, strings.Fields(line)...)...)
			if got != want {
				u.t.Errorf("drop %s of an empty queue: expected %+v, got %+v", line, want, got)
			}
		}
	})
}

func TestDeadLettersOfTheDelayQueueAreRedriven(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "job/run-1-job-2", "queued", "run_id:=1", "job_id:=2", `labels:=["self-hosted"]`)
		client := sqs.NewFromConfig(u.stack.AWS())
		delayed, err := client.ReceiveMessage(u.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String(stack.DelayQueue), WaitTimeSeconds: 1})
		if err != nil || len(delayed.Messages) != 0 {
			u.t.Fatalf("expected the timer to be hidden, got %v and %v", delayed, err)
		}
		_, err = client.SendMessage(u.t.Context(), &sqs.SendMessageInput{QueueUrl: aws.String(stack.DelayDeadLetterQueue), MessageBody: aws.String("no timer")})
		if err != nil {
			u.t.Fatal(err)
		}
		listed := u.parked("--dead-letter-queue", stack.DelayDeadLetterQueue)
		if len(listed) != 1 || listed[0].Instance != "" || listed[0].Reason != "" {
			u.t.Errorf("expected a timer without a reason, got %+v", listed)
		}
		contains(u.t, u.must("dlq", "redrive", "--local", "--all", "--dead-letter-queue", stack.DelayDeadLetterQueue, "--queue", stack.DelayQueue),
			"1 event sent to settle-delay\n")
	})
}
