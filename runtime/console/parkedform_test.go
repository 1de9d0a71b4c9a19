package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/console"
	"github.com/settle-run/settle/runtime/deadletter"
)

// park puts an event into the dead-letter queue, as SQS does after too many receives, and returns the message's ID.
func (w *world) park(instance, body string) string {
	w.t.Helper()
	w.sent++
	sent, err := w.queues.SendMessage(w.t.Context(), &sqs.SendMessageInput{
		QueueUrl: &w.dead.URLs[0], MessageGroupId: &instance, MessageDeduplicationId: aws.String(fmt.Sprint(w.sent)), MessageBody: &body,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return *sent.MessageId
}

func TestFormsRedriveAndDropParkedEvents(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.send("order/1", place)
		call, cancel := w.park("order/1", `{"type": "CALL"}`), w.park("order/1", `{"type": "CANCEL"}`)
		contains(t, w.page("parked", 0), `href="/console/parked/`+call+`"`)
		contains(t, textOf(w.page("parked/"+call, 0)), "Redrive or drop this event?", "order/1 CALL", "No reason is recorded", `type "CALL"`)
		for _, c := range []struct{ id, do, next, left string }{{call, "redrive", "redriven", cancel}, {cancel, "drop", "dropped", ""}} {
			got := w.post("parked/"+c.id, with("do", c.do), nil)
			next, ok := strings.CutPrefix(got.Header().Get("Location"), "/console/")
			if got.Code != http.StatusSeeOther || !ok || !strings.Contains(next, c.next+"="+c.id) {
				t.Fatalf("%s: got %d to %q:\n%s", c.do, got.Code, next, textOf(got.Body.String()))
			}
			page := w.page(next, 0)
			contains(t, textOf(page), "Message "+c.id+" was")
			if left := strings.Contains(page, "/console/parked/"+c.left); left != (c.left != "") || strings.Contains(page, "/console/parked/"+c.id) {
				t.Errorf("after %s: got\n%s", c.do, textOf(page))
			}
			contains(t, textOf(w.page("parked/"+c.id, 404)), "The parked event is not there.")
		}
		w.applied("CALL")
		contains(t, textOf(w.page("instances/order/1", 0)), "work.waiting mood.busy", "calls 1", "Parked a test")
	})
}

func TestAQueueThatCannotBeReadDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	gone := func(c *console.Config) {
		queues := c.DeadLetters.(deadletter.Queues)
		queues.URLs = []string{strings.Replace(queues.URLs[0], "dead", "gone", 1), queues.URLs[0]}
		c.DeadLetters, c.Write.Parked = queues, queues
	}
	inWorld(t, gone, func(t *testing.T, w *world) {
		contains(t, textOf(w.page("parked", http.StatusBadGateway)), "gone.fifo")
		id := w.park("order/1", `{"type": "CALL"}`)
		contains(t, textOf(w.page("parked", 0)), "The store cannot be read.", "gone.fifo", "order/1 CALL")
		if got := w.post("parked/"+id, with("do", "drop"), nil); got.Code != http.StatusSeeOther {
			t.Errorf("got %d:\n%s", got.Code, textOf(got.Body.String()))
		}
	})
}

func TestFormsOfParkedEventsRefuseOtherValues(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		id := w.park("order/1", `{"type": "<script>alert(1)</script>", "token": "secret", "$task": {"token": "AQC-the-task-token"}}`)
		page := w.page("parked/"+id, 0)
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "AQC-the-task-token") {
			t.Errorf("the page has a script or a task token:\n%s", page)
		}
		token := tokenInPage.FindStringSubmatch(page)[1]
		for _, c := range []struct {
			path   string
			values url.Values
			status int
		}{
			{"parked/" + id, with("do", "keep"), 400},
			{"parked/" + id, with("do", "drop", "token", ""), 403},
			{"parked/other", with("do", "drop", "token", token), 404},
			{"parked/other", with("do", "redrive", "token", token), 404},
		} {
			if got := w.post(c.path, c.values, nil); got.Code != c.status {
				t.Errorf("%s, %v: got status %d, want %d", c.path, c.values, got.Code, c.status)
			}
		}
		w.page("parked/"+id, 0) // still there
	})
	inWorld(t, func(c *console.Config) { c.Write.Parked = nil }, func(t *testing.T, w *world) {
		id := w.park("order/1", `{"type": "CALL"}`)
		w.page("parked/"+id, 404)
		if regexp.MustCompile("Redrive").MatchString(w.page("parked", 0)) {
			t.Error("the page offers to redrive")
		}
		if got := w.post("parked/"+id, with("do", "drop", "token", ""), nil); got.Code != http.StatusForbidden {
			t.Errorf("got %d", got.Code)
		}
	})
}
