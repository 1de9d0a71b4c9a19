// Package webhook receives GitHub's workflow_job webhooks for the machine job.
package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/instances"
)

// Name is the name of the webhook in its address: POST /webhooks/github.
const Name = "github"

// SecretBytesMin is the minimum length of the secret. With one webhook in hand, an attacker can guess a short secret
// offline, and then forge events.
const SecretBytesMin = 16

// answer is the response body for a webhook that queues no event.
type answer struct {
	// Status is "pong" or "ignored".
	Status string `json:"status"`
	// Event is GitHub's name of the webhook event.
	Event string `json:"event"`
}

// GitHub returns the webhook. Without a secret, it rejects every request.
func GitHub(secrets gateway.Secrets) gateway.Webhook {
	return gateway.Webhook{Verify: gateway.HMAC("X-Hub-Signature-256", "sha256=", secrets), Read: read}
}

// read converts a workflow_job webhook to its event. The event has the gateway's default ID, a digest of the body,
// because the signature does not cover GitHub's delivery ID. A redelivery has the same body (GitHub Docs, "Redelivering
// webhooks"). Two deliveries with equal bodies report the same phase of the same job, so the second one is a duplicate.
func read(header http.Header, body []byte) (gateway.WebhookEvent, error) {
	switch event := header.Get("X-GitHub-Event"); event {
	case "workflow_job":
	case "":
		return gateway.WebhookEvent{}, errors.New("expected the header X-GitHub-Event, got none")
	case "ping":
		return gateway.WebhookEvent{Answer: answer{Status: "pong", Event: event}}, nil
	default:
		return gateway.WebhookEvent{Answer: answer{Status: "ignored", Event: event}}, nil
	}
	payload, err := payloadOf(body)
	if err != nil {
		return gateway.WebhookEvent{}, err
	}
	instance, message, err := job.FromWebhook(payload)
	return gateway.WebhookEvent{To: instances.ID{Machine: "job", ID: instance}, Event: message}, err
}

// payloadOf returns the JSON of a webhook. GitHub sends the JSON as the body. For a webhook with the content type
// application/x-www-form-urlencoded, GitHub sends it as the form field payload. payloadOf decides by the body, because
// the signature does not cover the header Content-Type.
func payloadOf(body []byte) ([]byte, error) {
	if !bytes.HasPrefix(body, []byte("payload=")) {
		return body, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, fmt.Errorf("reading the form: %w", err)
	}
	return []byte(form.Get("payload")), nil
}
