package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/durable"
)

// WebhookMachine is the machine that receives GitHub's webhooks as events.
const WebhookMachine = "job"

// webhookView is the response body for a webhook that queues no event.
type webhookView struct {
	// Status is "pong" or "ignored".
	Status string `json:"status"`
	// Event is GitHub's name of the webhook event.
	Event string `json:"event"`
}

// postGitHub queues an event for a workflow_job webhook. The event's ID is GitHub's delivery ID, which stays the same
// if GitHub redelivers.
//
// It does not reserve the ID, so that an outage of the table does not reject webhooks. Every webhook event has a unique GUID
// (GitHub REST API, "Repository webhooks": guid), and GitHub never retries on its own (GitHub Docs, "Handling failed
// webhook deliveries").
func (a *api) postGitHub(r *http.Request) (reply, error) {
	body, err := a.signedBody(r)
	if err != nil {
		return reply{}, err
	}
	event, delivery := r.Header.Get("X-GitHub-Event"), r.Header.Get("X-GitHub-Delivery")
	if event == "" || delivery == "" {
		return reply{}, fmt.Errorf("%w: expected the headers X-GitHub-Event and X-GitHub-Delivery, got %q and %q", errWebhook, event, delivery)
	}
	switch event {
	case "workflow_job":
	case "ping":
		return reply{status: http.StatusOK, body: webhookView{Status: "pong", Event: event}}, nil
	default:
		return reply{status: http.StatusOK, body: webhookView{Status: "ignored", Event: event}}, nil
	}
	payload, err := webhookPayload(r.Header, body)
	if err != nil {
		return reply{}, err
	}
	instance, message, err := job.FromWebhook(payload)
	if err != nil {
		return reply{}, err
	}
	id, err := durable.ParseInstanceID(WebhookMachine + "/" + instance)
	if err != nil {
		return reply{}, err
	}
	m, err := a.prepare(id, message, delivery)
	if err != nil {
		return reply{}, err
	}
	return a.enqueue(r.Context(), m)
}

// signedBody reads the body and verifies its signature. Do not use any other part of the request before that.
func (a *api) signedBody(r *http.Request) ([]byte, error) {
	if a.config.GitHubSecret == "" {
		return nil, errUnsigned
	}
	signature, err := parseSignature(r.Header.Get("X-Hub-Signature-256"))
	if err != nil {
		return nil, err
	}
	body, err := readBody(r, WebhookBytesMax)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, []byte(a.config.GitHubSecret))
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), signature) {
		return nil, fmt.Errorf("%w: X-Hub-Signature-256 does not match the body: use the same secret here and at GitHub, and check that no proxy changes the body", errSignature)
	}
	return body, nil
}

// parseSignature parses the header X-Hub-Signature-256: "sha256=" and the HMAC in hexadecimal.
func parseSignature(header string) ([]byte, error) {
	if header == "" {
		return nil, fmt.Errorf("%w: expected the header X-Hub-Signature-256, got none: set a secret for the webhook at GitHub", errSignature)
	}
	digits, ok := strings.CutPrefix(header, "sha256=")
	signature, err := hex.DecodeString(digits)
	if !ok || err != nil || len(signature) != sha256.Size {
		return nil, fmt.Errorf("%w: expected sha256= and %d hexadecimal digits in X-Hub-Signature-256", errSignature, hex.EncodedLen(sha256.Size))
	}
	return signature, nil
}

// webhookPayload returns the JSON of a webhook. Depending on the webhook's content type, GitHub sends it as the body or
// as the form field payload.
func webhookPayload(header http.Header, body []byte) ([]byte, error) {
	const jsonType, formType = "application/json", "application/x-www-form-urlencoded"
	name, err := mediaType(header, jsonType, formType)
	if err != nil || name == jsonType {
		return body, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || !form.Has("payload") {
		return nil, fmt.Errorf("%w: expected a form with the field payload", errWebhook)
	}
	return []byte(form.Get("payload")), nil
}
