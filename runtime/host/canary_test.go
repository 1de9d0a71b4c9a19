package host_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/instances"
)

// send queues an event without a trace.
func (w *world) send(to, body string) {
	w.t.Helper()
	sum := sha256.Sum256([]byte(to + body))
	_, err := w.queues.SendMessage(w.t.Context(), &sqs.SendMessageInput{
		QueueUrl: aws.String(w.urls[fifo]), MessageGroupId: &to, MessageBody: &body, MessageDeduplicationId: aws.String(hex.EncodeToString(sum[:])),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// secret matches every canary except those in payloads. It must match nothing in logs, metrics, spans and answers.
var secret = regexp.MustCompile(`(?i)canary-(token|webhook-secret|callback-key|code-key|aws|collector|authorization|key)`)

// checkSecrets looks for canaries in all output of the functions. Canaries of payloads may appear in answers, and in
// the log if payloads are logged.
func (w *world) checkSecrets(payloadsShown bool) {
	w.t.Helper()
	for where, text := range map[string]string{
		"the log": w.logs.String(), "the metrics": w.metrics.String(), "the spans": w.spans.String(), "the answers": w.answers.String(),
	} {
		if text == "" {
			w.t.Errorf("%s: expected some output, got none", where)
		}
		for line := range strings.Lines(text) {
			payload := strings.Contains(strings.ToLower(line), "canary") && where != "the answers" && (where != "the log" || !payloadsShown)
			if payload || secret.MatchString(line) {
				w.t.Errorf("%s contains a secret: %s", where, line)
			}
		}
	}
}

// The secrets are canaries in the environment. The previous ones are the former secrets of a rotation.
const (
	webhookSecret         = "canary-webhook-secret"
	previousWebhookSecret = "canary-previous-webhook-secret"
	callbackKey           = "canary-callback-key-0123456789abcdef"
	previousCallbackKey   = "canary-previous-callback-key-0123456789abcdef"
)

func sign(body string) string { return signBy(webhookSecret, body) }

func signBy(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// TestNoSecretIsExposed plants canaries in payloads, tokens, webhooks, callbacks and the environment. It sends them
// through the functions with all logging and tracing on, and looks for them in the output. Canaries in payloads may be
// logged only if payloads are logged.
func TestNoSecretIsExposed(t *testing.T) {
	t.Parallel()
	for _, payloads := range []string{"off", "on"} {
		t.Run("payloads "+payloads, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]string{
				host.LogPayloads: payloads, host.LogLevel: "debug", samples.GitHubWebhookSecret: webhookSecret, samples.GitHubWebhookSecretPrevious: previousWebhookSecret,
				samples.EnrichCallbackBase: "https://canary-base.example.com", samples.EnrichCallbackKey: callbackKey,
			})
			w.play()
			w.checkSecrets(payloads == "on")
			if shown := strings.Contains(w.logs.String(), "canary-payload"); shown != (payloads == "on") {
				t.Errorf("payloads are %s, but shown: %v", payloads, shown)
			}
			if len(w.logged("event applied")) < 6 || len(w.logged("event parked")) < 6 {
				t.Errorf("got %d events applied and %d parked: the scenes did not occur", len(w.logged("event applied")), len(w.logged("event parked")))
			}
		})
	}
}

// playGateway sends valid and invalid requests, each with a canary.
func (w *world) playGateway() {
	w.t.Helper()
	header := func(body, signature string) map[string]string {
		return map[string]string{
			"content-type": "application/json", "x-github-event": "workflow_job", "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
			"x-hub-signature-256": signature, "authorization": "Bearer canary-authorization",
		}
	}
	webhook, err := json.Marshal(map[string]any{
		"action": "queued", "workflow_job": map[string]any{"id": 9, "run_id": 1, "status": "queued", "name": "canary-payload-name", "labels": []string{"canary-payload-label"}},
		"repository": map[string]any{"full_name": "canary-payload/repository", "owner": map[string]any{"login": "canary-payload"}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range []struct {
		path    string
		headers map[string]string
		body    string
		status  int
	}{
		{"/webhooks/github", header("", sign(string(webhook))), string(webhook), http.StatusAccepted},
		{"/webhooks/github", header("", signBy(previousWebhookSecret, string(webhook))), string(webhook), http.StatusAccepted},
		{"/webhooks/github", header("", signBy("canary-older-webhook-secret", string(webhook))), string(webhook), http.StatusUnauthorized},
		{"/webhooks/github", header("", "sha256=canary"), string(webhook), http.StatusUnauthorized},
		{"/webhooks/github", header("", sign(`{"action":"canary-payload"`)), `{"action":"canary-payload"`, http.StatusBadRequest},
		{"/webhooks/enricher/1/4102444800/canary-key", nil, `{"job":"canary-payload"}`, 0},
		{"/instances/signup/1/events", nil, `{"type":"SIGN_UP","email":"canary-payload@example.com","name":"canary-payload"}`, http.StatusAccepted},
		{"/instances/signup/1/events", nil, `{"type":"SIGN_UP","email":"canary-payload","name":7}`, 0},
		{"/instances/signup/1/events", nil, `{"type":"canary-payload"`, 0},
	} {
		if c.headers == nil {
			c.headers = map[string]string{"content-type": "application/json"}
		}
		if status, answer := w.request(http.MethodPost, c.path, c.headers, c.body); status != c.status && c.status != 0 || status >= http.StatusInternalServerError {
			w.t.Errorf("%s: got %d %s, want %d", c.path, status, answer, c.status)
		}
	}
}

// play sends valid and invalid events, each with a canary.
func (w *world) play() {
	w.t.Helper()
	w.playGateway()
	stop := w.poll()
	w.until("signup/1", func(r instances.Record) bool { return r.Revision > 0 && !r.Owes() })
	const token = `"$task":{"token":"canary-token-AAAAKgAAAAIAAAAA","name":"InProgress","timeoutSeconds":600}`
	task := w.start("tokentask", host.TokenTask(w.machines))
	for _, event := range []string{`{"type":"settle.wait",` + token + `}`, `{"type":"settle.wait","$task":"canary-token"}`} {
		_, _ = task.Invoke(w.t.Context(), fmt.Appendf(nil, `{"instance":"job/9","event":%s}`, event)) // The function rejects the second one.
	}
	for _, c := range []struct{ to, body string }{
		{"job/9", `{"type":"in_progress","run_id":1,"job_id":9,"runner_name":"canary-payload",` + token + `}`},
		{"job/9", `{"type":"in_progress","run_id":"canary-payload","job_id":9}`},
		{"job/9", `{"type":"in_progress","run_id":1,"job_id":9,"$task":{"token":"canary-token","timeoutSeconds":"canary-token"}}`},
		{"job/9", `{"type":"in_progress","run_id":1,"job_id":9,"$task":["canary-token"]}`},
		{"job/9", `"canary-payload"`},
		{"job/9", `{"type":{"canary-payload":1}}`},
		{"job/9", `canary-payload`},
		{"signup/1", `{"type":"SIGN_UP","email":"canary-payload is no address","name":"canary-payload"}`},
		{"signup/1", `{"type":"VERIFY","code":"canary-payload"}`},
		{"signup/1", `{"type":"VERIFY","code":{"canary-payload":"canary-payload"}}`},
		{"signup/1", `{"type":"CHANGE_ADDRESS","email":"canary-payload@example.com"}`},
		{"enrich/1", `{"type":"ENRICH","subject":"canary-payload"}`},
		{"enrich/2", `{"type":"SUCCEEDED","data":{"canary-payload":"canary-payload"}}`},
		{"upload/2026-11", `{"type":"warehouse_uploaded","bucket":"canary-payload","key":"canary-payload"}`},
		{"job/9", `{"type":"completed","run_id":1,"job_id":9,"conclusion":"success","html_url":"canary-payload"}`},
	} {
		w.send(c.to, c.body)
	}
	w.until("job/9", func(r instances.Record) bool { return len(r.State) == 1 && r.State[0] == "success" })
	w.send("signup/1", `{"type":"CANCEL"}`)
	w.until("signup/1", func(r instances.Record) bool { return len(r.State) == 1 && r.State[0] == "cancelled" })
	w.until("enrich/1", func(r instances.Record) bool { return r.Revision > 0 })
	stop()
	if received, err := w.queues.ReceiveMessage(w.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: aws.String(w.urls[dead]), MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	}); err != nil || len(received.Messages) == 0 {
		w.t.Errorf("got %v, want parked events", err)
	}
}
