package gateway_test

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/settle-run/settle/runtime/gateway"
)

// sqsDeduplicationID matches a valid MessageDeduplicationId.
var sqsDeduplicationID = regexp.MustCompile("^[!-~]{1,128}$")

func TestRequestsWithoutIDNeverShareADeduplicationID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	for range 100 {
		post(w, eventsPath, `{"type":"RESEND"}`, nil)
	}
	if got := len(w.queue.sent); got != 100 {
		t.Fatalf("expected 100 events in the queue, got %d", got)
	}
	for _, message := range w.queue.sent {
		if !sqsDeduplicationID.MatchString(message.DeduplicationID) || string(message.Body) != `{"type":"RESEND"}` {
			t.Fatalf("got %q under %q", message.Body, message.DeduplicationID)
		}
	}
}

const (
	placeCode  = `{"type":"VERIFY","code":1}`
	otherEvent = `{"type":"RESEND"}`
)

func TestSameKeyWithTheSameEventIsTheSameMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	key := http.Header{"Idempotency-Key": {"k"}}
	first := post(w, eventsPath, placeCode, key)
	for _, same := range []string{placeCode, `{ "code": 1.0,  "type": "VERIFY" }`, `{"type":"\u0056ERIFY","code":1e0,"$id":"k"}`} {
		if again := post(w, eventsPath, same, key); again.Code != http.StatusAccepted || again.Body.String() != first.Body.String() {
			t.Errorf("%s: expected the same answer as the first request, got %d %s", same, again.Code, again.Body)
		}
	}
	if len(w.queue.sent) != 1 {
		t.Errorf("expected one message, got %v", w.queue.sent)
	}
	// When SQS has forgotten the message, it accepts the event again. The instance recognises it by its $id.
	w.queue.forget()
	if again := post(w, eventsPath, placeCode, key); again.Code != http.StatusAccepted || len(w.queue.sent) != 2 {
		t.Errorf("after five minutes: expected 202 and a second message, got %d and %v", again.Code, w.queue.sent)
	}
}

func TestSameKeyWithAnotherEventIsRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	key := http.Header{"Idempotency-Key": {"k"}}
	post(w, eventsPath, placeCode, key)
	for range 2 {
		for _, other := range []string{otherEvent, `{"type":"RESEND","$id":"k"}`, `{"type":"VERIFY","code":2}`, `{"type":"VERIFY","code":1,"more":null}`} {
			answer := post(w, eventsPath, other, key)
			want := `"code":"id_reused","detail":"event ID used before with another body: \"k\" to signup/42; nothing was queued: `
			if answer.Code != http.StatusConflict || !strings.Contains(answer.Body.String(), want) {
				t.Errorf("%s: expected 409 with %s, got %d %s", other, want, answer.Code, answer.Body)
			}
		}
		if len(w.queue.sent) != 1 {
			t.Errorf("expected nothing in the queue, got %v", w.queue.sent)
		}
		w.queue.forget()
	}
	if answer := post(w, "/instances/signup/43/events", otherEvent, key); answer.Code != http.StatusAccepted {
		t.Errorf("to another instance: expected 202, got %d %s", answer.Code, answer.Body)
	}
}

// An event that the machine rejects does not reserve its key.
func TestRejectedEventReservesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	key := http.Header{"Idempotency-Key": {"k"}}
	if answer := post(w, eventsPath, `{"type":"VERIFY"}`, key); answer.Code != http.StatusBadRequest {
		t.Errorf("expected 400, got %d %s", answer.Code, answer.Body)
	}
	if answer := post(w, eventsPath, placeCode, key); answer.Code != http.StatusAccepted {
		t.Errorf("expected 202, got %d %s", answer.Code, answer.Body)
	}
}

// A gateway that fails between the reservation and the queue answers 503. The client's retry is queued.
func TestReservedKeyWithoutAQueuedEventCanBeRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	key := http.Header{"Idempotency-Key": {"k"}}
	w.queue.down = errors.New("throttled")
	if answer := post(w, eventsPath, placeCode, key); answer.Code != http.StatusServiceUnavailable {
		t.Errorf("expected 503, got %d %s", answer.Code, answer.Body)
	}
	w.queue.down = nil
	if answer := post(w, eventsPath, placeCode, key); answer.Code != http.StatusAccepted || len(w.queue.sent) != 1 {
		t.Errorf("expected 202 and one message, got %d %s and %v", answer.Code, answer.Body, w.queue.sent)
	}
}

// If the key cannot be reserved, nothing is queued. Requests without a key do not need the table.
func TestKeyThatCannotBeReservedIs503(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{Webhooks: github(webhookSecret)})
	w.table.down = errors.New("throttled")
	answer := post(w, eventsPath, placeCode, http.Header{"Idempotency-Key": {"k"}})
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" || len(w.queue.sent) != 0 ||
		!strings.Contains(answer.Body.String(), `"code":"store"`) {
		t.Errorf("expected 503 with Retry-After and nothing queued, got %d %v %s and %v", answer.Code, answer.Header(), answer.Body, w.queue.sent)
	}
	if answer := post(w, eventsPath, placeCode, nil); answer.Code != http.StatusAccepted {
		t.Errorf("without a key: expected 202, got %d %s", answer.Code, answer.Body)
	}
	if answer := post(w, "/webhooks/github", fuzzedJob, webhookHeader([]byte(fuzzedJob))); answer.Code != http.StatusAccepted {
		t.Errorf("a webhook: expected 202, got %d %s", answer.Code, answer.Body)
	}
}

// Two different events arrive at once under one key: one is accepted, the other rejected.
func TestOneOfTwoConcurrentEventsUnderOneKeyWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	bodies := []string{placeCode, otherEvent}
	codes := make([]int, 20)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() {
			codes[i] = post(w, eventsPath, bodies[i%2], http.Header{"Idempotency-Key": {"k"}}).Code
		})
	}
	all.Wait()
	winner := 0
	if codes[1] == http.StatusAccepted {
		winner = 1
	}
	for i, code := range codes {
		want := http.StatusConflict
		if i%2 == winner {
			want = http.StatusAccepted
		}
		if code != want {
			t.Errorf("request %d with %s: expected %d, got %d", i, bodies[i%2], want, code)
		}
	}
	if len(w.queue.sent) != 1 || !strings.HasPrefix(string(w.queue.sent[0].Body), strings.TrimSuffix(bodies[winner], "}")) {
		t.Errorf("expected only %s, got %v", bodies[winner], w.queue.sent)
	}
}
