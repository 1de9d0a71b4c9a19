package gateway_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/settle-run/settle/runtime/gateway"
)

// checkAnswer checks what the API promises for every request. The answer must be JSON that repeats its status, and must
// not be a 5xx. The queue must contain exactly the accepted events, each valid for SQS and for its machine.
func checkAnswer(t *testing.T, w *world, answer *httptest.ResponseRecorder, eventID string) {
	t.Helper()
	if answer.Code >= http.StatusInternalServerError {
		t.Fatalf("got %d %s; the log: %s", answer.Code, answer.Body, w.log.String())
	}
	var body struct {
		Status json.RawMessage `json:"status"`
		Code   string          `json:"code"`
		Detail string          `json:"detail"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil {
		t.Fatalf("expected JSON, got %q: %v", answer.Body, err)
	}
	if answer.Code >= http.StatusBadRequest && (body.Code == "" || body.Detail == "") {
		t.Fatalf("expected a problem with code and detail, got %s", answer.Body)
	}
	if accepted := answer.Code == http.StatusAccepted; accepted != (len(w.queue.sent) == 1) {
		t.Fatalf("got status %d, but the queue has %d events", answer.Code, len(w.queue.sent))
	}
	for _, message := range w.queue.sent {
		event, err := machines(t).Accept(message.To, message.Body)
		if err != nil {
			t.Fatalf("queued %q, which its machine rejects: %v", message.Body, err)
		}
		if eventID != "" && event.ID != eventID {
			t.Fatalf("expected the event ID %q, got %q in %q", eventID, event.ID, message.Body)
		}
		if !sqsDeduplicationID.MatchString(message.DeduplicationID) || !utf8.Valid(message.Body) || len(message.To.String()) > 128 {
			t.Fatalf("SQS rejects %q in group %q with deduplication ID %q", message.Body, message.To, message.DeduplicationID)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("signup", "42", "application/json", "", `{"type":"VERIFY","code":1}`)
	f.Add("signup", "a/b", "", "k", `{"type":"RESEND","$id":"k"} `)
	f.Add("job", "..", "text/plain", `"\""`, `{"type":"RESEND","$id":"\ud800"}`)
	f.Add("signup", "%", "application/x+json;a=b", "\u2028", "{\"type\":\"RESEND\",\"$id\":null,\"\uffff\":1}")
	f.Fuzz(func(t *testing.T, machine, id, contentType, key, body string) {
		w := newWorld(t, gateway.Config{})
		header := http.Header{"Content-Type": {contentType}}
		if key != "" {
			header.Set("Idempotency-Key", key)
		}
		path := "/instances/" + url.PathEscape(machine) + "/" + url.PathEscape(id) + "/events"
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header = header
		r.URL.Path, r.URL.RawPath = "/instances/"+machine+"/"+id+"/events", path
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, r)
		wanted := key
		if strings.HasPrefix(key, `"`) {
			wanted = "" // The scripts cover unquoting.
		}
		checkAnswer(t, w, answer, wanted)
	})
}

func FuzzWebhook(f *testing.F) {
	f.Add("workflow_job", "d-1", "application/json", true, `{"action":"queued","workflow_job":{"id":2,"run_id":1,"status":"queued"}}`)
	f.Add("workflow_job", "d-1", "application/x-www-form-urlencoded", true, `payload=%7B%22action%22%3A%22completed%22%7D`)
	f.Add("ping", "d-1", "", true, "")
	f.Add("workflow_job", "", "application/json", false, `{"workflow_job":{"labels":["\ufffe"]}}`)
	f.Fuzz(func(t *testing.T, event, delivery, contentType string, signed bool, body string) {
		w := newWorld(t, gateway.Config{Webhooks: github(webhookSecret)})
		header := http.Header{"X-Github-Event": {event}, "X-Github-Delivery": {delivery}, "Content-Type": {contentType}}
		if signed {
			header.Set("X-Hub-Signature-256", sign(webhookSecret, []byte(body)))
		} else {
			header.Set("X-Hub-Signature-256", body)
		}
		answer := post(w, "/webhooks/github", body, header)
		if !signed && answer.Code != http.StatusUnauthorized {
			t.Fatalf("expected 401 for an unsigned webhook, got %d %s", answer.Code, answer.Body)
		}
		sum := sha256.Sum256([]byte(body))
		checkAnswer(t, w, answer, "body/"+hex.EncodeToString(sum[:16])) // The ID ignores headers that the signature does not cover.
	})
}
