package main

import (
	"context"
	"errors"
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

// isSend reports whether a call sends the event with the ID.
func isSend(operation, body, id string) bool {
	return operation == "SendMessage" && strings.Contains(body, `\"$id\":\"`+id+`\"`)
}

// parkedIDs returns the IDs of the instance's parked events. All of them must be visible at once.
func (u user) parkedIDs(instance string) []string {
	u.t.Helper()
	var ids []string
	for _, event := range u.parked("--instance", instance) {
		ids = append(ids, event.EventID)
	}
	return ids
}

// checkRedriven checks what work/1 has counted and which of its events are still parked. Then it redrives the rest, and
// checks that each of the four events was counted once, in order.
func (u user) checkRedriven(counted, parked []string) {
	u.t.Helper()
	time.Sleep(time.Minute)
	if got := u.counted("work/1"); !slices.Equal(got, counted) {
		u.t.Errorf("expected work/1 to have counted %v, got %v", counted, got)
	}
	if got := u.parkedIDs("work/1"); !slices.Equal(got, parked) {
		u.t.Errorf("expected %v of work/1 to stay parked, got %v", parked, got)
	}
	time.Sleep(10 * time.Minute) // until the queue's deduplication period has ended
	u.must("dlq", "redrive", "--local", "--all")
	time.Sleep(time.Minute)
	if got, want := u.counted("work/1"), []string{"0", "2", "4", "6"}; !slices.Equal(got, want) {
		u.t.Errorf("expected each event to be counted once, in order, %v, got %v", want, got)
	}
	if got, want := u.counted("work/2"), []string{"1", "3"}; !slices.Equal(got, want) {
		u.t.Errorf("expected work/2 to have counted %v, got %v", want, got)
	}
}

// withParked parks four events of work/1 and two of work/2, repairs the chart, and runs the test.
func withParked(t *testing.T, test func(user)) {
	t.Helper()
	w := &work{}
	withWork(t, w, func(u user) {
		u.park(w, 0, 1, 2, 3, 4, 6)
		w.broken.Store(false)
		test(u)
	})
}

func TestRedriveStopsAnInstanceAtAnEventThatCannotBeSent(t *testing.T) {
	t.Parallel()
	withParked(t, func(u user) {
		got := u.runAs(u.faultily(func(operation, body string) error {
			if isSend(operation, body, "e2") {
				return errors.New("no route")
			}
			return nil
		}, nil), "dlq", "redrive", "--local", "--all")
		if got.code != command.ExitFailed || got.out != "3 events sent to settle.fifo\n" || !strings.Contains(got.err, "settle: sending message ") {
			u.t.Errorf("expected 3 events to be sent, and exit code 1 with the failed one, got %+v", got)
		}
		u.checkRedriven([]string{"0"}, []string{"e2", "e4", "e6"})
	})
}

func TestRedriveStopsAnInstanceAtAnEventThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	withParked(t, func(u user) {
		culprit, sent := "", false
		got := u.runAs(u.faultily(func(operation, body string) error {
			if operation == "DeleteMessage" && sent && culprit == "" {
				culprit = body
			}
			if operation == "DeleteMessage" && body == culprit {
				return errors.New("no route")
			}
			return nil
		}, func(operation, body string) error {
			sent = sent || isSend(operation, body, "e2")
			return nil
		}), "dlq", "redrive", "--local", "--all")
		contains(u.t, got.err, " was sent to http://aws.local/000000000000/settle.fifo, but is still parked: deleting message ")
		if got.code != command.ExitFailed {
			u.t.Errorf("expected exit code 1, got %+v", got)
		}
		u.checkRedriven([]string{"0", "2"}, []string{"e2", "e4", "e6"})
	})
}

func TestInterruptedRedriveFinishesTheCurrentEvent(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"SendMessage", "DeleteMessage"} {
		withParked(t, func(u user) {
			ctx, stop := context.WithCancel(u.t.Context())
			defer stop()
			sent := false
			got := u.runUntil(ctx, u.faultily(func(called, body string) error {
				sent = sent || isSend(called, body, "e2")
				if sent && called == operation {
					stop()
				}
				return nil
			}, nil), "dlq", "redrive", "--local", "--instance", "work/1")
			if got.code != command.ExitInterrupted || got.out != "2 events sent to settle.fifo\n" || got.err != "settle: interrupted\n" {
				u.t.Errorf("%s: expected 2 events to be sent and exit code 130, got %+v", operation, got)
			}
			u.checkRedriven([]string{"0", "2"}, []string{"e4", "e6"})
		})
	}
}

func TestRedriveDoesNotSendMessagesWhoseVisibilityTimeoutIsEnding(t *testing.T) {
	t.Parallel()
	for slept, want := range map[time.Duration]struct {
		parked []string
		said   string
	}{
		// 30 seconds after this sleep, e4 reappears. Another consumer could then receive e4 before the redrive deletes
		// it.
		270 * time.Second: {[]string{"e4", "e6"}, " was not sent: its visibility timeout is about to end, as after a sleep of this machine; run the command again"},
		// By the end of this sleep, e2 itself has reappeared, so deleting it fails.
		400 * time.Second: {[]string{"e2", "e4", "e6"}, ", but is still parked: "},
	} {
		withParked(t, func(u user) {
			got := u.runAs(u.faultily(func(operation, body string) error {
				if isSend(operation, body, "e2") {
					time.Sleep(slept)
				}
				return nil
			}, nil), "dlq", "redrive", "--local", "--instance", "work/1")
			contains(u.t, got.err, want.said)
			if got.code != command.ExitFailed || strings.Contains(got.err, "returning messages to ") {
				u.t.Errorf("after %v: expected exit code 1 and no error about messages that are visible already, got %+v", slept, got)
			}
			u.checkRedriven([]string{"0", "2"}, want.parked)
		})
	}
}

func TestLostResponseLeavesNoMessageHidden(t *testing.T) {
	t.Parallel()
	withParked(t, func(u user) {
		lost := 0
		got := u.runAs(u.faultily(nil, func(operation, _ string) error {
			if operation == "ReceiveMessage" && lost == 0 {
				lost++
				return errors.New("connection reset")
			}
			return nil
		}), "dlq", "list", "--local", "-o", "json")
		if shown := strings.Count(got.out, "message_id"); shown != 6 || got.err != "" {
			u.t.Errorf("expected 6 events, got %d and %q", shown, got.err)
		}
	})
}

func TestInterruptedDropStops(t *testing.T) {
	t.Parallel()
	withParked(t, func(u user) {
		ctx, stop := context.WithCancel(u.t.Context())
		defer stop()
		got := u.runUntil(ctx, u.faultily(func(operation, _ string) error {
			if operation == "DeleteMessage" {
				stop()
			}
			return nil
		}, nil), "dlq", "drop", "--local", "--instance", "work/1", "--yes")
		if got.code != command.ExitInterrupted || got.out != "1 event dropped\n" || got.err != "settle: interrupted\n" {
			u.t.Errorf("expected one event to be dropped and exit code 130, got %+v", got)
		}
		if left := u.parkedIDs("work/1"); !slices.Equal(left, []string{"e2", "e4", "e6"}) {
			u.t.Errorf("expected the others to be visible at once, got %v", left)
		}
	})
}

// seenBack is a writer that checks at each write whether all messages of the queue are visible.
type seenBack struct {
	u        user
	inFlight []string
}

func (s *seenBack) Write(text []byte) (int, error) {
	output, err := sqs.NewFromConfig(s.u.stack.AWS()).GetQueueAttributes(s.u.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(stack.DeadLetterQueue), AttributeNames: []types.QueueAttributeName{"ApproximateNumberOfMessagesNotVisible"}})
	if err != nil {
		return 0, err
	}
	s.inFlight = append(s.inFlight, output.Attributes["ApproximateNumberOfMessagesNotVisible"])
	return len(text), nil
}

func TestMessagesAreVisibleAgainBeforeOutputIsPrinted(t *testing.T) {
	t.Parallel()
	withParked(t, func(u user) {
		id := u.parked()[0].MessageID
		for _, line := range []string{"list", "show " + id, "redrive " + id, "drop --yes " + u.parked()[1].MessageID} {
			out := &seenBack{u: u}
			args := append([]string{"dlq"}, strings.Fields(line)...)
			code := command.Run(u.t.Context(), u.config, command.Process{Out: out, Endpoint: "http://aws.local", HTTP: u.stack.AWS().HTTPClient}, append(args, "--local"))
			if code != command.ExitDone || len(out.inFlight) == 0 || slices.ContainsFunc(out.inFlight, func(n string) bool { return n != "0" }) {
				u.t.Errorf("dlq %s: expected no message in flight when the answer is printed, got %v and exit code %d", line, out.inFlight, code)
			}
		}
	})
}

func TestRedriveRefusesAQueueOfTheOtherKind(t *testing.T) {
	t.Parallel()
	withParked(t, func(u user) {
		for flags, want := range map[string]string{
			"--queue " + stack.DeadLetterQueue: "settle: usage: --queue and --dead-letter-queue: expected a queue and its dead-letter queue, got settle-dlq.fifo for both; " +
				"they default to SETTLE_QUEUE_URL and SETTLE_DEAD_LETTER_QUEUE_URL\n",
			"--queue " + stack.DelayQueue:                       "settle: usage: --queue: expected a FIFO queue like the dead-letter queue settle-dlq.fifo, got settle-delay\n",
			"--dead-letter-queue " + stack.DelayDeadLetterQueue: "settle: usage: --queue: expected a standard queue like the dead-letter queue settle-delay-dlq, got settle.fifo\n",
		} {
			got := u.run(append([]string{"dlq", "redrive", "--local", "--all"}, strings.Fields(flags)...)...)
			if got.code != command.ExitUsage || got.err != want || got.out != "" {
				u.t.Errorf("redrive --all %s: expected exit code 2 and %q, got %+v", flags, want, got)
			}
		}
		if left := u.parked(); len(left) != 6 {
			u.t.Errorf("expected all events to stay parked, got %+v", left)
		}
	})
}

func TestRepeatedIDsAndCopiesAreFound(t *testing.T) {
	t.Parallel()
	withParked(t, func(u user) {
		ids := u.parked("--instance", "work/1")
		twice := u.must("dlq", "redrive", "--local", ids[0].MessageID, ids[0].MessageID)
		if want := "1 event sent to settle.fifo\n"; twice != want {
			u.t.Errorf("expected %q, got %q", want, twice)
		}
		missing := u.run("dlq", "drop", "--local", "--yes", "nope", ids[1].MessageID, ids[0].MessageID)
		contains(u.t, missing.err, "settle: not found: the queue does not offer 2 of the 3 messages, ", ids[0].MessageID, "nope")
		if missing.code != command.ExitNotFound || missing.out != "1 event dropped\n" || strings.Contains(missing.err, ids[1].MessageID) {
			u.t.Errorf("expected one event to be dropped, and the others to be named, got %+v", missing)
		}
		few := u.run("dlq", "list", "--local", "--limit", "2")
		if want := "The queue has about 4 events. These are the first 2: raise --limit for more.\n"; few.err != want {
			u.t.Errorf("expected %q, got %q", want, few.err)
		}
	})
}
