package gateway_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/settle-run/settle/runtime/gateway"
)

// unsigned returns an API Gateway request without a signature.
func unsigned(path, body string, isBase64 bool) events.APIGatewayV2HTTPRequest {
	event := events.APIGatewayV2HTTPRequest{RawPath: path, Body: body, IsBase64Encoded: isBase64}
	event.RequestContext.HTTP.Method = http.MethodPost
	event.Headers = map[string]string{"content-type": "application/json", "x-github-event": "workflow_job"}
	return event
}

// TestUnsignedRequestsAreNotParsed sends bodies that are neither JSON nor Base64. A parser would refuse them with
// another status. Read fails the test if the gateway calls it.
func TestUnsignedRequestsAreNotParsed(t *testing.T) {
	t.Parallel()
	const most = gateway.WebhookBytesMax
	largest := base64.StdEncoding.EncodedLen(most)
	for name, test := range map[string]struct {
		path, body string
		isBase64   bool
		status     int
		want       string
	}{
		"the largest body":           {"/webhooks/signed", strings.Repeat("{", most), false, http.StatusUnauthorized, `"code":"signature"`},
		"the largest body in Base64": {"/webhooks/signed", strings.Repeat("e3t7", most/3), true, http.StatusUnauthorized, `"code":"signature"`},
		"one byte more":              {"/webhooks/signed", strings.Repeat("{", most+1), false, http.StatusRequestEntityTooLarge, "at most 6291456 bytes, got 6291457"},
		"too large, and not Base64":  {"/webhooks/signed", strings.Repeat("%", largest+4), true, http.StatusRequestEntityTooLarge, "at most 6291456 bytes, got 6291459"},
		"not Base64":                 {"/webhooks/signed", "%%%%", true, http.StatusBadRequest, "expected Base64"},
		"an unknown webhook":         {"/webhooks/unknown", strings.Repeat("%", largest), true, http.StatusNotFound, `"code":"no_route"`},
		"an unknown callback":        {"/webhooks/lookup/42/3630/key", strings.Repeat("%", largest), true, http.StatusNotFound, `"code":"unknown_callback"`},
		"an event, too large":        {eventsPath, strings.Repeat("%", largest), true, http.StatusRequestEntityTooLarge, "at most 1040384 bytes, got 6291456"},
	} {
		w := newWorld(t, gateway.Config{Webhooks: map[string]gateway.Webhook{"signed": {
			Verify: gateway.HMAC("X-Hub-Signature-256", "sha256=", gateway.Secrets{Current: []byte(webhookSecret)}),
			Read: func(http.Header, []byte) (gateway.WebhookEvent, error) {
				t.Errorf("%s: expected an unsigned body not to be parsed", name)
				return gateway.WebhookEvent{}, nil
			},
		}}})
		answer := invoke(t, w, unsigned(test.path, test.body, test.isBase64))
		if answer.StatusCode != test.status || !strings.Contains(answer.Body, test.want) {
			t.Errorf("%s: expected %d with %s, got %d %.300s", name, test.status, test.want, answer.StatusCode, answer.Body)
		}
		if log := w.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=INFO") || len(log) > 200 || len(w.queue.sent) != 0 {
			t.Errorf("%s: expected one short line of level INFO and nothing in the queue, got %.500s and %v", name, log, w.queue.sent)
		}
	}
}

// TestASignedBodyInBase64IsQueued checks that the gateway verifies the decoded body.
func TestASignedBodyInBase64IsQueued(t *testing.T) {
	t.Parallel()
	const body = `{"action":"queued","workflow_job":{"id":2,"run_id":1,"status":"queued"}}`
	w := newWorld(t, gateway.Config{Webhooks: github(webhookSecret)})
	event := unsigned("/webhooks/github", base64.StdEncoding.EncodeToString([]byte(body)), true)
	event.Headers["x-hub-signature-256"] = sign(webhookSecret, []byte(body))
	if answer := invoke(t, w, event); answer.StatusCode != http.StatusAccepted || len(w.queue.sent) != 1 {
		t.Errorf("expected 202 and one event, got %d %s and %v", answer.StatusCode, answer.Body, w.queue.sent)
	}
}
