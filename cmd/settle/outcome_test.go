package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/cmd/settle/command"
)

func TestSendReportsWhyAnEventThatStartsNoInstanceWasParked(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		for i := range 12 { // more messages than a look receives at once
			id := fmt.Sprint("early-", i)
			u.put("signup/"+id, id, `{"type": "RESEND"}`)
		}
		begun := time.Now()
		got := u.run("send", "--local", "signup/80", "CANCEL", "--wait", "settled", "--timeout", "4s")
		const want = `settle: the event was parked: signup/80 does not exist, and an event of type "CANCEL" does not start one: expected SIGN_UP first; ` +
			"see settle dlq list --local --instance signup/80\n"
		if waited := time.Since(begun); got.code != command.ExitFailed || got.err != want || got.out != "" || waited > 2*time.Second {
			u.t.Errorf("expected exit code 1 within 2 s and %q, got %+v after %v", want, got, waited)
		}
		if left := u.parked(); len(left) != 13 {
			u.t.Errorf("expected all 13 messages to be visible at once, got %d", len(left))
		}
		if again := u.run("send", "--local", "signup/80", "CANCEL", "--wait", "settled"); again.err != want {
			u.t.Errorf("expected %q for a second event too, got %+v", want, again)
		}
	})
}

// forbidding denies an SQS operation as AWS does, and counts the calls.
type forbidding struct {
	aws.HTTPClient
	operation string
	asked     *int
}

// Do implements aws.HTTPClient.
func (c forbidding) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Amz-Target") != "AmazonSQS."+c.operation {
		return c.HTTPClient.Do(r)
	}
	*c.asked++
	const refusal = `{"__type": "com.amazon.coral.service#AccessDeniedException", "message": "User: arn:aws:iam::0:user/ada is not authorized"}`
	return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(refusal)), Request: r}, nil
}

func TestSendKeepsWaitingIfItMayNotReadTheDeadLetterQueue(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		asked := 0
		begun := time.Now()
		process := command.Process{StdoutTTY: true, HTTP: forbidding{u.stack.AWS().HTTPClient, "ReceiveMessage", &asked}}
		got := u.runAs(process, "send", "--local", "signup/80", "CANCEL", "--wait", "settled", "--timeout", "30s")
		if waited := time.Since(begun); got.code != command.ExitTimeUp || waited != 30*time.Second || asked != 1 {
			u.t.Errorf("expected exit code 5 after 30 s and one look, got %+v after %v and %d calls", got, waited, asked)
		}
		contains(u.t, got.err, "settle: timed out: waited 30s for settled; the event was sent, as message ", "the event may have been parked, see settle dlq list --local\n")
	})
}

// TestSendRetriesAFailedReadOfTheDeadLetterQueue makes the first read of the queue fail, including the SDK's retries.
// The second read succeeds.
func TestSendRetriesAFailedReadOfTheDeadLetterQueue(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		asked := 0
		process := u.faultily(func(operation, _ string) error {
			if operation != "ReceiveMessage" {
				return nil
			}
			if asked++; asked > 3 {
				return nil
			}
			return errors.New("connection reset by peer")
		}, nil)
		got := u.runAs(process, "send", "--local", "signup/80", "CANCEL", "--wait", "settled")
		if got.code != command.ExitFailed || !strings.Contains(got.err, "the event was parked: signup/80 does not exist") {
			u.t.Errorf("expected exit code 1 and the reason, got %+v", got)
		}
	})
}

// TestSendReportsMessagesThatItCouldNotReturn also checks that these messages reappear after 20 seconds.
func TestSendReportsMessagesThatItCouldNotReturn(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/79", "CANCEL")
		time.Sleep(time.Second)
		asked := 0
		process := command.Process{StdoutTTY: true, HTTP: forbidding{u.stack.AWS().HTTPClient, "ChangeMessageVisibilityBatch", &asked}}
		got := u.runAs(process, "send", "--local", "signup/80", "CANCEL", "--wait", "settled")
		if got.code != command.ExitFailed || asked != 1 {
			u.t.Errorf("expected exit code 1 and one call to return messages, got %+v and %d", got, asked)
		}
		contains(u.t, got.err, "returning messages to ", "where they reappear within 20s", "the event was parked: signup/80 does not exist")
		if empty := u.run("dlq", "redrive", "--local", "--all"); empty.out != "0 events sent to settle.fifo\n" || empty.err != "About 2 events are in flight: try again in a moment.\n" {
			u.t.Errorf("expected a note about messages in flight, got %+v", empty)
		}
		time.Sleep(20 * time.Second)
		if again := u.run("dlq", "redrive", "--local", "--all"); !strings.HasPrefix(again.out, "2 events sent to settle.fifo\n") || again.err != "" {
			u.t.Errorf("expected both messages to be visible again, got %+v", again)
		}
	})
}

func TestSendReportsAnIgnoredEvent(t *testing.T) {
	t.Parallel()
	withWork(t, &work{}, func(u user) {
		answered := func(want string, line ...string) {
			u.t.Helper()
			_, said, _ := strings.Cut(u.must(append([]string{"send", "--local"}, line...)...), "\n")
			if said != want {
				u.t.Errorf("%v: expected %q, got %q", line, want, said)
			}
		}
		answered("work/1 is in ready, settled, revision 1\n", "work/1", "START", "--wait", "settled")
		answered("work/2 is in idle, settled, revision 1 (the event was ignored)\n", "work/2", "FINISH", "--wait", "settled")
		answered("work/1 is in over, done, revision 2\n", "work/1", "FINISH", "--wait", "done")
		answered("work/1 is in over, done, revision 3 (the event was ignored)\n", "work/1", "FINISH", "--id", "f", "--wait", "done")
		time.Sleep(10 * time.Minute) // The queue's deduplication ends after five minutes. The instance knows the ID and stores nothing.
		answered("work/1 is in over, done, revision 3\n", "work/1", "FINISH", "--id", "f", "--wait", "done")

		over := u.run("send", "--local", "work/1", "START", "--wait", "rested")
		if want := "settle: waited for rested, but work/1 ended without it: it is done in over (the event was ignored)\n"; over.code != command.ExitFailed || over.err != want {
			u.t.Errorf("expected exit code 1 and %q, got %+v", want, over)
		}
		piped := u.runAs(command.Process{}, "send", "--local", "work/1", "START", "--wait", "done")
		contains(u.t, piped.out, `"ignored": true`)
		if piped = u.runAs(command.Process{}, "send", "--local", "work/3", "START", "--wait", "settled"); strings.Contains(piped.out, "ignored") {
			u.t.Errorf("expected no note about an applied event, got %s", piped.out)
		}
	})
}

func TestSendDoesNotReportAnotherIgnoredEvent(t *testing.T) {
	t.Parallel()
	withWork(t, &work{}, func(u user) {
		for _, line := range []string{"START --wait settled", "FINISH --id f --wait done"} {
			u.must(append([]string{"send", "--local", "work/1"}, strings.Fields(line)...)...)
		}
		time.Sleep(10 * time.Minute) // The queue's deduplication ends after five minutes. The instance knows the ID.
		for others, line := range map[int]string{1: "FINISH --id f --wait done", 30: "FINISH --wait done"} {
			sending := u.faultily(func(operation, _ string) error {
				for i := 0; operation == "SendMessage" && i < others; i++ { // after the command has read the instance, and before it sends
					u.put("work/1", fmt.Sprint("other-", others, "-", i), `{"type": "FINISH"}`)
				}
				time.Sleep(time.Second)
				return nil
			}, nil)
			got := u.runAs(sending, append([]string{"send", "--local", "work/1"}, strings.Fields(line)...)...)
			if got.code != command.ExitDone || !strings.Contains(got.out, "work/1 is in over, done, ") || strings.Contains(got.out, "ignored") {
				u.t.Errorf("%s beside %d others: expected no note, got %+v", line, others, got)
			}
		}
	})
}

func TestUnreadableInstanceIsShownWithTheProblem(t *testing.T) {
	t.Parallel()
	withStack(t, func(u user) {
		u.must("send", "--local", "signup/1", "SIGN_UP", "email=ada@example.com", "name=Ada")
		u.edit("signup/1", "value", &types.AttributeValueMemberS{Value: "gone"})
		const problem = `this build cannot read it: unreadable snapshot of chart signup: this version has no state "gone"; raise Version, and add RenameState("gone", ...) or MoveState("gone", ...), or host version 1 too`
		shown := u.must("get", "--local", "signup/1")
		contains(u.t, shown, "signup/1\n  problem   "+problem+"\n", "status    active: its events stay in the queue until a consumer can read it\n")
		if strings.Contains(shown, "nothing runs until") {
			u.t.Errorf("expected no claim that the instance is settled, got\n%s", shown)
		}
		var asJSON struct{ Problem string }
		unmarshal(u.t, []byte(u.must("get", "--local", "-o", "json", "signup/1")), &asJSON)
		if asJSON.Problem != problem {
			u.t.Errorf("expected the problem %q, got %q", problem, asJSON.Problem)
		}
		items := u.items()
		got := u.run("resume", "--local", "signup/1")
		if want := "settle: problem: " + problem + "; nothing was sent to signup/1\n"; got.code != command.ExitFailed || got.err != want || got.out != "" {
			u.t.Errorf("expected exit code 1 and %q, got %+v", want, got)
		}
		time.Sleep(time.Minute)
		if u.items()["signup/1"] != items["signup/1"] || strings.Contains(u.log.String(), "unreadable") {
			u.t.Errorf("expected no delivery, got %s", u.log.String())
		}
		waited := u.run("send", "--local", "signup/1", "RESEND", "--wait", "settled", "--timeout", "5s")
		contains(u.t, waited.err, "revision 1, not readable by this build, and the event has not been applied yet\n")
		if waited.code != command.ExitTimeUp {
			u.t.Errorf("expected exit code 5, got %+v", waited)
		}
	})
}
