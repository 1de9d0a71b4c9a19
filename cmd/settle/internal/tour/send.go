package tour

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
)

// webhook sends a signed webhook as GitHub does, and waits until the job is in the state.
func (p *player) webhook(ctx context.Context, hook workflowJob, action, instance, state string) error {
	body, err := hook.webhook(action)
	if err != nil {
		return err
	}
	header := http.Header{
		"Content-Type":        {"application/json"},
		"X-Github-Event":      {"workflow_job"},
		"X-Github-Delivery":   {fmt.Sprintf("delivery-%d-%s", hook.ID, action)},
		"X-Hub-Signature-256": {signature(p.secret, body)},
	}
	text := fmt.Sprintf(`{"action": %q, "workflow_job": {"id": %d, ...}}`, action, hook.ID)
	if err := p.post(ctx, "/webhooks/github", "", header, body, text, http.StatusAccepted); err != nil {
		return err
	}
	return p.seen.await(ctx, instance, "", state)
}

// event sends an event to an instance over HTTP.
func (p *player) event(ctx context.Context, instance, typ string, payload map[string]any) error {
	event := maps.Clone(payload)
	if event == nil {
		event = map[string]any{}
	}
	event["type"] = typ
	body, err := json.Marshal(event)
	if err != nil {
		return err
	}
	return p.post(ctx, "/instances/"+instance+"/events", "", jsonHeader(), body, oneLine(event), http.StatusAccepted)
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// answerBytesMax is how much of a response is read.
const answerBytesMax = 64 << 10

// post makes a request and prints it. If shown is not empty, it replaces the path in the output.
func (p *player) post(ctx context.Context, path, shown string, header http.Header, body []byte, text string, want int) error {
	_, err := p.request(ctx, http.MethodPost, path, shown, header, body, text, want)
	return err
}

// request makes a request, and prints it with the response's status before any transition that it causes.
func (p *player) request(ctx context.Context, method, path, shown string, header http.Header, body []byte, text string, want int) ([]byte, error) {
	p.seen.hold()
	defer p.seen.release()
	request, err := http.NewRequestWithContext(ctx, method, p.stack.HTTPURL()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if shown == "" {
		shown = path
	}
	request.Header = header
	answer, err := p.stack.HTTPClient().Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, shown, err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s %s: %w", method, shown, err)
	}
	status := p.config.Style.State(answer.Status)
	if answer.StatusCode >= http.StatusBadRequest {
		status = p.config.Style.Warning(answer.Status)
	}
	line := p.config.Style.Bold(method + " " + shown)
	if text != "" {
		line += " " + text
	}
	p.say("   %s  %s", line, status)
	if answer.StatusCode != want {
		return nil, fmt.Errorf("%s %s: expected %d, got %s: %s", method, shown, want, answer.Status, strings.TrimSpace(string(got)))
	}
	return got, nil
}
