package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/canonicaljson"
	"github.com/settle-run/settle/runtime/statechart"
)

// apply applies an event to signup/42, as a consumer does, with the sequence number of the message.
func (w *world) apply(t *testing.T, event statechart.Event, sequence string) {
	t.Helper()
	w.table.change("42", func(r *instances.Record) {
		instance, err := signup().Restore(r.Snapshot)
		if err != nil {
			t.Error(err)
			return
		}
		from := instance.State()
		next, _, handled, err := instance.Apply(event)
		if err != nil {
			t.Error(err)
			return
		}
		if r.Snapshot, err = next.Snapshot(); err != nil {
			t.Error(err)
		}
		r.State, r.Revision = next.State(), r.Revision+1
		r.Watermark = map[string]string{queueARN: sequence}
		r.History = append(r.History, instances.Transition{At: time.Now(), Event: event.Type, From: from, To: next.State(), Ignored: !handled})
	})
}

// TestWaitAnswersWithTheStateThatTheEventLedTo runs in virtual time. The function `after` of each case changes the
// instance 3 seconds after the request.
func TestWaitAnswersWithTheStateThatTheEventLedTo(t *testing.T) {
	t.Parallel()
	verify := statechart.Event{Type: "VERIFY", At: epoch, Payload: verify{Code: "1234"}}
	parked := func(failure *instances.Failure) func(*testing.T, *world) {
		return func(_ *testing.T, w *world) {
			w.table.change("42", func(r *instances.Record) {
				r.Error, r.Watermark = failure, map[string]string{queueARN: "1"}
			})
		}
	}
	for name, c := range map[string]struct {
		path   string
		after  func(*testing.T, *world)
		status int
		// waited is the virtual time that the request takes.
		waited time.Duration
		text   string
	}{
		"applied": {eventsPath + "?wait=settled&timeout=10s", func(t *testing.T, w *world) { t.Helper(); w.apply(t, verify, "1") }, http.StatusOK, 4 * time.Second,
			`{"message_id":"message-1","type":"VERIFY","event_ignored":false,"instance":"signup/42","machine":"signup","version":3,"status":"active","state":["active"]`},
		"applied, by alias": {"/aliases/acme/7/events?wait=settled", func(t *testing.T, w *world) { t.Helper(); w.apply(t, verify, "1") }, http.StatusOK, 4 * time.Second, `"state":["active"]`},
		"ignored": {eventsPath + "?wait=settled", func(t *testing.T, w *world) {
			t.Helper()
			w.table.change("42", func(r *instances.Record) {
				r.Watermark, r.Ignored = map[string]string{queueARN: "1"}, 3
				r.History = append(r.History, instances.Transition{At: time.Now(), Event: "VERIFY", Ignored: true})
			})
		}, http.StatusOK, 4 * time.Second, `"event_ignored":true,"instance":"signup/42"`},
		"an earlier event is applied":        {eventsPath + "?wait=settled&timeout=5s", func(t *testing.T, w *world) { t.Helper(); w.apply(t, statechart.Event{Type: "RESEND", At: epoch}, "0") }, http.StatusAccepted, 5 * time.Second, `{"message_id":"message-1","instance":"signup/42","type":"VERIFY"}`},
		"nothing happens, with a signature":  {eventsPath + "?X-Amz-Signature=0a&wait=settled&timeout=1s", nil, http.StatusAccepted, time.Second, `"message_id":"message-1"`},
		"nothing happens, without a timeout": {eventsPath + "?wait=settled", nil, http.StatusAccepted, gateway.WaitDefault, `"message_id":"message-1"`},
		"nothing happens, the longest wait":  {eventsPath + "?wait=settled&timeout=29s", nil, http.StatusAccepted, gateway.WaitMax, `"message_id":"message-1"`},
		"parked": {eventsPath + "?wait=settled", parked(&instances.Failure{At: epoch.Add(time.Hour), Event: "VERIFY", Message: "the secret 1234 is wrong"}), http.StatusConflict, 4 * time.Second,
			`"code":"parked","detail":"the event was parked: signup/42 will not apply VERIFY, message message-1; operators find the reason in the dead-letter queue"`},
		"the table fails after the event is queued": {eventsPath + "?wait=settled", func(_ *testing.T, w *world) { w.table.fail(errors.New("throttled")) }, http.StatusAccepted, 4 * time.Second, `"message_id":"message-1"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, gateway.Config{})
				w.table.put(t, "42", 7)
				w.table.claim("acme/7", "42")
				begun := time.Now()
				if c.after != nil {
					time.AfterFunc(3*time.Second, func() { c.after(t, w) })
				}
				answer := post(w, c.path, `{"type":"VERIFY","code":1234}`, nil)
				wantAnswer(t, name, answer, c.status, c.text)
				if waited := time.Since(begun); waited > c.waited {
					t.Errorf("expected a wait of at most %v, got %v", c.waited, waited)
				}
				if strings.Contains(answer.Body.String(), "secret") || strings.Contains(answer.Body.String(), taskToken) {
					t.Errorf("expected no secret in the answer, got %s", answer.Body)
				}
				time.Sleep(time.Minute) // c.after may still run.
			})
		})
	}
}

// TestWaitReadsSeldom counts the reads of waits that time out. The reads are the cost of a wait.
func TestWaitReadsSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Config{})
		w.table.put(t, "42", 7)
		for timeout, want := range map[string]int{"1s": 6, "10s": 12, "29s": 22} {
			w.table.loads = 0
			post(w, eventsPath+"?wait=settled&timeout="+timeout, `{"type":"RESEND"}`, nil)
			if w.table.loads != want {
				t.Errorf("a wait of %s: expected %d reads, got %d", timeout, want, w.table.loads)
			}
		}
		w.table.loads = 0
		post(w, eventsPath, `{"type":"RESEND"}`, nil)
		if w.table.loads != 0 {
			t.Errorf("without a wait: expected no read, got %d", w.table.loads)
		}
	})
}

// TestRetryOfAWaitFindsTheAppliedEvent sends the same event twice. The first wait ends before the instance applies the
// event. The second request finds that the instance has applied it.
func TestRetryOfAWaitFindsTheAppliedEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Config{})
		w.table.put(t, "42", 7)
		const path, body = eventsPath + "?wait=settled", `{"type":"VERIFY","code":1234}`
		header := http.Header{"Idempotency-Key": {"verify-1"}}
		wantAnswer(t, "the first request", post(w, path+"&timeout=1s", body, header), http.StatusAccepted, "message-1")
		w.apply(t, statechart.Event{Type: "VERIFY", At: epoch, Payload: verify{Code: "1234"}}, "1")
		w.queue.forget() // SQS no longer deduplicates, so the retry is a new message. The consumer skips it as a duplicate.
		digest, err := canonicaljson.EventDigest([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		w.table.change("42", func(r *instances.Record) { r.RecentEvents = []string{"verify-1#" + digest[:8]} })
		begun := time.Now()
		answer := post(w, path, body, header)
		wantAnswer(t, "the retry", answer, http.StatusOK, `"event_ignored":false`)
		var shown struct {
			State []string `json:"state"`
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &shown); err != nil || len(shown.State) != 1 || shown.State[0] != "active" || time.Since(begun) > 0 {
			t.Errorf("expected the state active at once, got %s after %v, %v", answer.Body, time.Since(begun), err)
		}
	})
}

// TestWaitEndsWithTheRequest sets a request deadline before the wait's timeout, as Lambda does.
func TestWaitEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Config{})
		w.table.put(t, "42", 7)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, eventsPath+"?wait=settled&timeout=10s", strings.NewReader(`{"type":"RESEND"}`))
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, r)
		wantAnswer(t, "a short request", answer, http.StatusAccepted, "message-1")
	})
}
