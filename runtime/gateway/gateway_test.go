package gateway_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
)

// post sends a request and returns the response.
func post(handler http.Handler, path, body string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	if header != nil {
		r.Header = header
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	return answer
}

const eventsPath = "/instances/signup/42/events"

func TestInvalidConfigIsRejected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		machines *durable.Machines
		config   gateway.Config
		want     string
	}{
		"more than SQS accepts": {machines(t), gateway.Config{EventBytesMax: 1040385}, "EventBytesMax between 1 and 1040384, got 1040385"},
		"a negative limit":      {machines(t), gateway.Config{EventBytesMax: -1}, "EventBytesMax between 1 and 1040384, got -1"},
		"a callback without the machine": {machines(t), gateway.Config{Callbacks: map[string]gateway.Callback{"acme": {Machine: "x", Verify: verifyAcme, Read: readAcme}}},
			`Config.Callbacks["acme"]: unknown machine: expected one of job, signup, got "x"`},
		"a callback without a check": {machines(t), gateway.Config{Callbacks: map[string]gateway.Callback{"acme": {Machine: "signup", Read: readAcme}}},
			`Config.Callbacks["acme"]: expected both Verify and Read`},
		"a webhook without a check":           {machines(t), gateway.Config{Webhooks: map[string]gateway.Webhook{"acme": {}}}, `Config.Webhooks["acme"]: expected both Verify and Read`},
		"a base path with a slash at its end": {machines(t), gateway.Config{BasePath: "/settle/"}, `Config.BasePath: expected a path such as /settle, without a slash at its end, got "/settle/"`},
		"a base path without a slash":         {machines(t), gateway.Config{BasePath: "settle"}, `got "settle"`},
		"a base path like a path of the API":  {machines(t), gateway.Config{BasePath: "/machines"}, `got "/machines": choose another API mapping`},
		"a base path below a path of the API": {machines(t), gateway.Config{BasePath: "/webhooks/v1"}, `got "/webhooks/v1": choose another API mapping`},
	} {
		_, err := gateway.New(test.machines, &queue{}, &table{}, test.config)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: expected an error containing %q, got %v", name, test.want, err)
		}
	}
}

// Anybody can call the routes for webhooks and callbacks. A log line of level ERROR or a 5xx would raise an alarm.
func TestProbesOfThirdPartiesRingNoAlarm(t *testing.T) {
	t.Parallel()
	body := `{"action":"queued","workflow_job":{"id":2,"run_id":1,"status":"queued"}}`
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/webhooks/nope":              {http.StatusNotFound, `unknown webhook \"nope\"`},
		"/webhooks/nope/42/3630/key":  {http.StatusNotFound, "unknown_callback"},
		"/webhooks/github":            {http.StatusUnauthorized, "no secret is configured"},
		"/webhooks/github/42/3630/ab": {http.StatusNotFound, "unknown_callback"},
	} {
		w := newWorld(t, gateway.Config{Webhooks: github("")})
		answer := post(w, path, body, withHeader(webhookHeader([]byte(body)), "X-Hub-Signature-256", sign("", []byte(body))))
		wantAnswer(t, path, answer, want.status, want.text)
		if log := w.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=INFO") || len(w.queue.sent) != 0 {
			t.Errorf("%s: expected one line of level INFO and nothing in the queue, got %s and %v", path, log, w.queue.sent)
		}
	}
}

// A custom domain may serve the API below a path. Some proxies keep this path, and others remove it.
func TestTheAPIAcceptsPathsWithAndWithoutItsBasePath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{BasePath: "/team/settle"})
	for path, want := range map[string]int{
		eventsPath:                  http.StatusAccepted,
		"/team/settle" + eventsPath: http.StatusAccepted,
		"/team/settle/instances/signup/a%2Db/events": http.StatusAccepted,
		"/team/settler" + eventsPath:                 http.StatusNotFound,
		"/team/settle":                               http.StatusNotFound,
		"/team/settle/team/settle" + eventsPath:      http.StatusNotFound,
	} {
		if answer := post(w, path, `{"type": "RESEND"}`, nil); answer.Code != want {
			t.Errorf("%s: expected %d, got %d %s", path, want, answer.Code, answer.Body)
		}
	}
	document := httptest.NewRecorder()
	w.ServeHTTP(document, httptest.NewRequest(http.MethodGet, "/team/settle/openapi.json", http.NoBody))
	if !strings.Contains(document.Body.String(), `"servers":[{"url":"/team/settle"}]`) {
		t.Errorf("expected the base path as the server's URL, got %.200s", document.Body)
	}
}

func TestBodiesAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{Webhooks: github(webhookSecret)})
	event := func(bytes int) string {
		const head, tail = `{"type":"RESEND","note":"`, `"}`
		return head + strings.Repeat("n", bytes-len(head)-len(tail)) + tail
	}
	hook := strings.Repeat(" ", gateway.WebhookBytesMax)
	signed := map[string]http.Header{hook: webhookHeader([]byte(hook)), hook + " ": webhookHeader([]byte(hook + " "))}
	for name, test := range map[string]struct {
		path, body, key string
		want            int
	}{
		"the largest event":              {eventsPath, event(producer.EventBytesMax), "", http.StatusAccepted},
		"one byte more":                  {eventsPath, event(producer.EventBytesMax + 1), "", http.StatusRequestEntityTooLarge},
		"the largest event with an ID":   {eventsPath, event(producer.EventBytesMax - len(`,"$id":"7"`)), "7", http.StatusAccepted},
		"one byte more with an ID":       {eventsPath, event(producer.EventBytesMax - len(`,"$id":"7"`) + 1), "7", http.StatusRequestEntityTooLarge},
		"the largest webhook":            {"/webhooks/github", hook, "", http.StatusOK},
		"one byte more than the largest": {"/webhooks/github", hook + " ", "", http.StatusRequestEntityTooLarge},
	} {
		for _, length := range []string{"known", "unknown"} {
			r := httptest.NewRequest(http.MethodPost, test.path, strings.NewReader(test.body))
			if test.path != eventsPath {
				r.Header = withHeader(signed[test.body], "X-GitHub-Event", "ping")
			}
			if test.key != "" {
				r.Header.Set("Idempotency-Key", test.key)
			}
			if length == "unknown" {
				r.ContentLength = -1
			}
			answer := httptest.NewRecorder()
			w.ServeHTTP(answer, r)
			if answer.Code != test.want {
				t.Errorf("%s, length %s: expected %d, got %d %.300s", name, length, test.want, answer.Code, answer.Body)
			}
		}
	}
}

// brokenBody is a request body whose sender disconnects.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, http.ErrHandlerTimeout }

func TestTruncatedBodyIsAClientError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, eventsPath, brokenBody{}))
	if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), `"code":"unreadable"`) {
		t.Errorf("expected 400 unreadable, got %d %s", answer.Code, answer.Body)
	}
}

func TestEventThatIsNotUTF8IsRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	answer := post(w, eventsPath, "{\"type\":\"RESEND\",\"note\":\"\xff\"}", nil)
	want := `{"title":"Bad Request","status":400,"code":"not_an_event","detail":"not an event: expected JSON in UTF-8"}` + "\n"
	if answer.Code != http.StatusBadRequest || answer.Body.String() != want {
		t.Errorf("expected 400 %s, got %d %s", want, answer.Code, answer.Body)
	}
	if len(w.queue.sent) != 0 {
		t.Errorf("expected nothing in the queue, got %v", w.queue.sent)
	}
}

func TestEventIDsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	for length, want := range map[int]int{producer.EventIDBytesMax: http.StatusAccepted, producer.EventIDBytesMax + 1: http.StatusBadRequest} {
		id := strings.Repeat("i", length)
		for name, answer := range map[string]*httptest.ResponseRecorder{
			"header": post(w, eventsPath, `{"type":"RESEND"}`, http.Header{"Idempotency-Key": {id}}),
			"$id":    post(w, eventsPath, `{"type":"RESEND","$id":"`+id+`"}`, nil),
		} {
			if answer.Code != want {
				t.Errorf("%s of %d bytes: expected %d, got %d %s", name, length, want, answer.Code, answer.Body)
			}
		}
	}
	if answer := post(w, eventsPath, `{"type":"RESEND"}`, http.Header{"Idempotency-Key": {"\xff"}}); answer.Code != http.StatusBadRequest {
		t.Errorf("a key that is not UTF-8: expected 400, got %d %s", answer.Code, answer.Body)
	}
}

func TestKeyInSeveralHeaderLinesIsOneKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	post(w, eventsPath, `{"type":"RESEND"}`, http.Header{"Idempotency-Key": {"a", "b"}})
	if got, want := string(w.queue.sent[0].Body), `{"type":"RESEND","$id":"a,b"}`; got != want {
		t.Errorf("expected %s, got %s", want, got)
	}
}

// brokenLoader is a Store whose Load panics. The panic's value contains the instance ID.
type brokenLoader struct{ table }

func (*brokenLoader) Load(_ context.Context, id instances.ID) (instances.Record, error) {
	panic("no such item: " + id.ID)
}

func TestPanicIsA500WithoutItsValue(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	handler, err := gateway.New(machines(t), &queue{}, &brokenLoader{}, gateway.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/instances/signup/PRIVATE", nil))
	want := `{"title":"Internal Server Error","status":500,"code":"internal","detail":"internal error: see the log"}` + "\n"
	if answer.Code != http.StatusInternalServerError || answer.Body.String() != want {
		t.Errorf("expected 500 %s, got %d %s", want, answer.Code, answer.Body)
	}
	if !strings.Contains(log.String(), "brokenLoader).Load") || strings.Contains(log.String(), "PRIVATE") {
		t.Errorf("expected the stack of the panic in the log without its value, got %s", &log)
	}
}

func TestTheReasonOfARefusalIsLoggedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	for _, details := range []bool{false, true} {
		w := newWorld(t, gateway.Config{LogDetails: details})
		w.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/signup", nil))
		if got := w.log.String(); !strings.Contains(got, "request refused") || strings.Contains(got, `got POST`) != details {
			t.Errorf("with LogDetails %t, got the log %s", details, got)
		}
	}
}

func TestUnreadableInstanceIsA500(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	w.table.put(t, "42", 7)
	id := instances.ID{Machine: "signup", ID: "42"}
	record := w.table.records[id]
	record.Snapshot = []byte(`{"version":"three"}`)
	w.table.records[id] = record
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/instances/signup/42", nil))
	if answer.Code != http.StatusInternalServerError || answer.Header().Get("ETag") != "" {
		t.Errorf("expected 500 without ETag, got %d %v %s", answer.Code, answer.Header(), answer.Body)
	}
}

func TestLogHasNeitherBodiesNorSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{Webhooks: github(webhookSecret)})
	w.table.put(t, "42", 7)
	const private = "PRIVATE"
	hook := `{"action":"queued","workflow_job":{"id":2,"run_id":1,"status":"queued","name":"` + private + `"}}`
	signed := webhookHeader([]byte(hook))
	post(w, eventsPath, `{"type":"RESEND","note":"`+private+`"}`, http.Header{"Idempotency-Key": {private}, "Authorization": {private}})
	post(w, eventsPath, `{"type":"`+private+`"}`, nil)
	post(w, eventsPath, `{"type":"VERIFY","code":"`+private+`"}`, nil)
	post(w, "/webhooks/github", hook, signed)
	post(w, "/webhooks/github", hook, withHeader(signed, "X-Hub-Signature-256", "sha256="+private))
	w.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/instances/signup/42", nil))
	log := w.log.String()
	for _, secret := range []string{private, webhookSecret, taskToken, signed.Get("X-Hub-Signature-256")} {
		if strings.Contains(log, secret) {
			t.Errorf("the log contains %q: %s", secret, log)
		}
	}
	if got := strings.Count(log, "event queued"); got != 2 {
		t.Errorf("expected two log lines of queued events, got %d: %s", got, log)
	}
}

func TestEveryAnswerForbidsSniffing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway.Config{})
	for _, path := range []string{"/healthz", "/nowhere"} {
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if got := answer.Header().Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: expected nosniff, got %q", path, got)
		}
	}
}
