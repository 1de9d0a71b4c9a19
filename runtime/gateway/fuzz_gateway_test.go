package gateway_test

import (
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/instances"
)

// FuzzGateway plants these canaries. In a request, PAYLOAD stands for payloadCanary. In a path, ADDRESS stands for the
// address of a callback.
const (
	payloadCanary  = "canary-payload-7f3a"
	callbackSecret = "canary-callback-key-0123456789"
)

var callbacks = enrich.Callbacks{Base: "https://api.example.com", Key: []byte(callbackSecret)}

// waiting returns the record of signup/42 with an empty outbox, so that callbacks are not early.
func waiting(t *testing.T) map[instances.ID]instances.Record {
	t.Helper()
	var stored table
	stored.put(t, "42", 2)
	for id, record := range stored.records {
		record.Outbox = nil
		stored.records[id] = record
	}
	return stored.records
}

// newFuzzWorld returns a gateway with signup/42. That instance waits for a third party's job 7 and holds a task token.
func newFuzzWorld(t *testing.T, hosted *durable.Machines, records map[instances.ID]instances.Record) *world {
	t.Helper()
	w := &world{table: table{records: records}}
	w.table.claim("acme/7", "42")
	handler, err := gateway.New(hosted, &w.queue, &w.table, gateway.Config{
		Webhooks: github(webhookSecret), Now: func() time.Time { return epoch },
		Logger:    slog.New(slog.NewJSONHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Callbacks: map[string]gateway.Callback{enrich.ProviderName: {Machine: "signup", Verify: callbacks.Verify, Read: readAcme}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Handler = handler
	return w
}

// signed returns a value for X-Hub-Signature-256. `kind` selects one of these: no value, the correct signature, the
// signature of another body, a signature with another secret, or `text` itself.
func signed(kind uint8, text string, body []byte) string {
	switch kind % 5 {
	case 1:
		return sign(webhookSecret, body)
	case 2:
		return sign(webhookSecret, append([]byte{' '}, body...))
	case 3:
		return sign("another secret", body)
	case 4:
		return text
	default:
		return ""
	}
}

// fuzzedJob is the body of a webhook.
const fuzzedJob = `{"action":"queued","workflow_job":{"id":2,"run_id":1,"status":"queued","name":"PAYLOAD","labels":["PAYLOAD"]},"repository":{"full_name":"PAYLOAD"}}`

// gatewaySeeds are the seed inputs of FuzzGateway.
var gatewaySeeds = []struct {
	method, path, query, header, value, signature string
	kind, form                                    uint8
	body                                          string
}{
	{"POST", "/instances/signup/42/events", "", "Idempotency-Key", "PAYLOAD", "", 0, 0, `{"type":"VERIFY","code":1,"note":"PAYLOAD"}`},
	{"POST", "/instances/signup/42/events", "", "Content-Type", "application/json", "", 0, 0, `{"type":"VERIFY","code":666,"note":"PAYLOAD"}`},
	{"POST", "/instances/signup/42/events", "", "Content-Encoding", "PAYLOAD", "", 0, 0, `{"type":"RESEND"}`},
	{"POST", "/instances/signup/42/events", "", "Content-Type", "application/x+json; a=PAYLOAD", "", 0, 2, `{"type":"RESEND","$id":"PAYLOAD"}`},
	{"POST", "/instances/signup/42/events", "", "Idempotency-Key", `"a\"b"`, "", 0, 1, `eyJ0eXBlIjoiUkVTRU5EIn0=`},
	{"POST", "/instances/signup/42/events", "a=PAYLOAD", "Idempotency-Key", "\xff", "", 0, 0, `{"type":"RESEND","$task":{"token":"PAYLOAD"}}`},
	{"POST", "/instances/signup/42/events", "", "", "", "", 0, 0, `{"type":"settle.timer","timer":"PAYLOAD"}`},
	{"POST", "/instances/signup/42/events", "", "", "", "", 0, 0, `{"type":"CHECKED","code":"PAYLOAD"}`},
	{"POST", "/instances/signup/a%2Fb/events", "", "Traceparent", "PAYLOAD", "", 0, 3, `["PAYLOAD"`},
	{"GET", "/instances/signup/42", "x=PAYLOAD", "If-None-Match", `W/"PAYLOAD", *`, "", 0, 0, ""},
	{"HEAD", "/instances/signup/42", "", "Authorization", "Bearer PAYLOAD", "", 0, 0, ""},
	{"GET", "/instances/signup/43", "", "", "", "", 0, 0, "PAYLOAD"},
	{"GET", "/instances/unknown/%00", "", "", "", "", 0, 2, ""},
	{"GET", "/aliases/acme/7", "", "", "", "", 0, 0, ""},
	{"GET", "/aliases/", "", "", "", "", 0, 0, ""},
	{"GET", "/machines", "", "", "", "", 0, 4, ""},
	{"GET", "/healthz", "", "Cookie", "PAYLOAD", "", 0, 0, ""},
	{"DELETE", "/machines/../machines", "", "", "", "", 0, 0, ""},
	{"OPTIONS", "*", "%zz", "Host", "PAYLOAD", "", 0, 0, ""},
	{"BAD METHOD", "//", "", "", "", "", 0, 0, ""},
	{"POST", "/webhooks/github", "", "X-GitHub-Event", "workflow_job", "", 1, 8, fuzzedJob},
	{"POST", "/webhooks/github", "", "X-GitHub-Event", "workflow_job", "", 1, 8, strings.Replace(fuzzedJob, `"run_id":1`, `"run_id":"PAYLOAD"`, 1)},
	{"POST", "/webhooks/github", "", "Content-Type", "application/x-www-form-urlencoded", "", 1, 8, "payload=%7B%22PAYLOAD"},
	{"POST", "/webhooks/github", "", "X-GitHub-Event", "PAYLOAD", "", 1, 8, fuzzedJob},
	{"POST", "/webhooks/github", "", "X-GitHub-Delivery", "PAYLOAD", "", 2, 8, fuzzedJob},
	{"POST", "/webhooks/github", "", "X-GitHub-Event", "ping", "", 3, 8, fuzzedJob},
	{"POST", "/webhooks/github", "", "X-GitHub-Event", "ping", "sha256=PAYLOAD", 4, 8, fuzzedJob},
	{"POST", "ADDRESS", "", "", "", "", 0, 0, `{"job":"7","code":1,"PAYLOAD":"PAYLOAD"}`},
	{"POST", "ADDRESS", "", "", "", "", 0, 0, `{"job":"7","code":666}`},
	{"POST", "ADDRESS", "", "", "", "", 0, 0, `{"job":"8","code":1}`},
	{"POST", "ADDRESSx", "", "", "", "", 0, 0, `{"job":"7","code":1}`},
	{"GET", "ADDRESS", "", "", "", "", 0, 0, ""},
	{"POST", "ADDRESS/more", "", "", "", "", 0, 0, `{"job":"7","code":1}`},
	{"POST", "/webhooks/enricher/42/-1/", "", "", "", "", 0, 0, `{"job":"7"}`},
}

// FuzzGateway sends arbitrary requests to the gateway, in the forms of an HTTP API and of a function URL. No answer may
// be a 5xx. Neither the log nor an answer may contain a token, a secret or a key. The log must not contain anything
// from bodies, headers or queries.
func FuzzGateway(f *testing.F) {
	for _, seed := range gatewaySeeds {
		f.Add(seed.method, seed.path, seed.query, seed.header, seed.value, seed.signature, seed.kind, seed.form, seed.body)
	}
	var compiling sync.Once
	var hosted *durable.Machines
	var records map[instances.ID]instances.Record
	f.Fuzz(func(t *testing.T, method, path, query, header, value, signature string, kind, form uint8, body string) {
		compiling.Do(func() { hosted, records = machines(t), waiting(t) })
		w := newFuzzWorld(t, hosted, records)
		address := strings.TrimPrefix(callbacks.Address("signup/42", epoch.Add(time.Minute)), callbacks.Base)
		key := address[strings.LastIndexByte(address, '/')+1:]
		plant := func(text string) string { return strings.ReplaceAll(text, "PAYLOAD", payloadCanary) }
		event := requestOf(form, method, strings.ReplaceAll(path, "ADDRESS", address), plant(query), plant(body))
		text := []byte(event.Body)
		if event.IsBase64Encoded {
			if decoded, err := base64.StdEncoding.DecodeString(event.Body); err == nil {
				text = decoded
			}
		}
		if given := signed(kind, plant(signature), text); given != "" {
			event.Headers["x-hub-signature-256"] = given
		}
		if header != "" {
			event.Headers[header] = plant(value)
		}
		answer := invoke(t, w, event)
		checkFuzzed(t, w, answer, !strings.Contains(path, "ADDRESS"), key)
		if strings.Contains(w.log.String(), strings.TrimPrefix(sign(webhookSecret, text), "sha256=")) {
			t.Fatalf("the log has a signature: %s", w.log.String())
		}
	})
}

// requestOf builds the Lambda event of a request. The bits of `form` select a Base64 body, a function URL instead of an
// HTTP API, a stage, and GitHub's headers.
func requestOf(form uint8, method, path, query, body string) events.APIGatewayV2HTTPRequest {
	event := events.APIGatewayV2HTTPRequest{Version: "2.0", RawPath: path, RawQueryString: query, Headers: map[string]string{}, Body: body}
	event.RequestContext.HTTP.Method, event.RequestContext.HTTP.SourceIP, event.RequestContext.Stage = method, "192.0.2.1", "$default"
	event.IsBase64Encoded = form&1 != 0
	if form&2 != 0 {
		event.RequestContext.DomainName = "id.lambda-url.eu-central-1.on.aws"
	}
	if form&4 != 0 {
		event.RequestContext.Stage, event.RawPath = "prod", "/prod"+path
	}
	if form&8 != 0 {
		event.Headers["x-github-event"], event.Headers["x-github-delivery"] = "workflow_job", "72d3162e"
	}
	return event
}

// checkFuzzed checks the rules of FuzzGateway. The key of a callback may appear in an answer only if the request itself
// contained it (keyHidden false).
func checkFuzzed(t *testing.T, w *world, answer events.APIGatewayV2HTTPResponse, keyHidden bool, key string) {
	t.Helper()
	if answer.StatusCode < http.StatusOK || answer.StatusCode >= http.StatusInternalServerError {
		t.Fatalf("got %d %s; the log: %s", answer.StatusCode, answer.Body, w.log.String())
	}
	if answer.Body != "" && !json.Valid([]byte(answer.Body)) {
		t.Fatalf("expected JSON, got %q", answer.Body)
	}
	shown, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{taskToken, webhookSecret, callbackSecret, key} {
		if strings.Contains(w.log.String(), secret) || strings.Contains(string(shown), secret) && (keyHidden || secret != key) {
			t.Fatalf("the secret %s is shown: the answer is %s, the log %s", secret, shown, w.log.String())
		}
	}
	if strings.Contains(w.log.String(), payloadCanary) {
		t.Fatalf("the log shows data of the request: %s", w.log.String())
	}
	for line := range strings.Lines(w.log.String()) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("expected lines of JSON in the log, got %q", line)
		}
	}
	fits := func(m durable.Message) bool {
		return sqsDeduplicationID.MatchString(m.DeduplicationID) && utf8.Valid(m.Body) && len(m.To.String()) <= 128
	}
	if len(w.queue.sent) > 1 || slices.ContainsFunc(w.queue.sent, func(m durable.Message) bool { return !fits(m) }) {
		t.Fatalf("expected at most one event, fit for SQS, got %+v", w.queue.sent)
	}
}
