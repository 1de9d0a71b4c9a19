// Package webhook receives GitHub's workflow_job webhooks for the machine job.
package webhook

import (
	"errors"
	"fmt"
	"mime"
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

// answer is the answer to a webhook that queues no event.
type answer struct {
	// Status is "pong" or "ignored".
	Status string `json:"status"`
	// Event is GitHub's name of the webhook event.
	Event string `json:"event"`
}

// GitHub returns the webhook. Without a secret, it rejects every request.
func GitHub(secret []byte) gateway.Webhook {
	return gateway.Webhook{Verify: gateway.HMAC("X-Hub-Signature-256", "sha256=", secret), Read: read}
}

// read converts a workflow_job webhook to its event. The event's ID is GitHub's delivery ID. It is unique (GitHub REST API,
// "Repository webhooks": guid) and stays the same in a redelivery. GitHub never retries on its own (GitHub Docs, "Handling
// failed webhook deliveries").
func read(header http.Header, body []byte) (gateway.WebhookEvent, error) {
	event, delivery := header.Get("X-GitHub-Event"), header.Get("X-GitHub-Delivery")
	if event == "" || delivery == "" {
		return gateway.WebhookEvent{}, fmt.Errorf("expected the headers X-GitHub-Event and X-GitHub-Delivery, got %q and %q", event, delivery)
	}
	switch event {
	case "workflow_job":
	case "ping":
		return gateway.WebhookEvent{Answer: answer{Status: "pong", Event: event}}, nil
	default:
		return gateway.WebhookEvent{Answer: answer{Status: "ignored", Event: event}}, nil
	}
	payload, err := payloadOf(header, body)
	if err != nil {
		return gateway.WebhookEvent{}, err
	}
	instance, message, err := job.FromWebhook(payload)
	return gateway.WebhookEvent{To: instances.ID{Machine: "job", ID: instance}, Event: message, ID: delivery}, err
}

// payloadOf returns the JSON of a webhook. Depending on the webhook's content type, GitHub sends it as the body or as the
// form field payload.
func payloadOf(header http.Header, body []byte) ([]byte, error) {
	const jsonType, formType = "application/json", "application/x-www-form-urlencoded"
	switch name, _, _ := mime.ParseMediaType(header.Get("Content-Type")); name {
	case jsonType, "":
		return body, nil
	case formType:
	default:
		return nil, fmt.Errorf("expected the Content-Type %s or %s, got %q", jsonType, formType, name)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || !form.Has("payload") {
		return nil, errors.New("expected a form with the field payload")
	}
	return []byte(form.Get("payload")), nil
}
