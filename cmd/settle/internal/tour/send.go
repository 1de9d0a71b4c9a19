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

// webhook delivers the webhook as GitHub does, signed, and waits until the job is in the state.
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
	text := fmt.Sprintf(`{"action": %q, "workflow_job": {"run_id": %d, "id": %d, ...}}`, action, hook.RunID, hook.ID)
	if err := p.post(ctx, "/webhooks/github", header, body, text); err != nil {
		return err
	}
	return p.seen.await(ctx, instance, "", state)
}

// event sends an event to an instance over HTTP.
func (p *player) event(ctx context.Context, machine, id, typ string, payload map[string]any) error {
	event := maps.Clone(payload)
	event["type"] = typ
	body, err := json.Marshal(event)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return p.post(ctx, "/instances/"+machine+"/"+id+"/events", header, body, oneLine(event))
}

// answerBytesMax is how much of an answer that nobody expected is read.
const answerBytesMax = 4 << 10

// post tells of a request, and makes it: told first, for its transitions may be printed before
// the answer is here.
func (p *player) post(ctx context.Context, path string, header http.Header, body []byte, text string) error {
	p.say("   %s %s", p.config.Style.Bold("POST "+path), text)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.stack.HTTPURL()+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = header
	answer, err := p.stack.HTTPClient().Do(request)
	if err != nil {
		return fmt.Errorf("posting to %s: %w", path, err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", path, err)
	}
	if answer.StatusCode != http.StatusAccepted {
		return fmt.Errorf("posting to %s: expected 202, got %d: %s", path, answer.StatusCode, strings.TrimSpace(string(got)))
	}
	return nil
}
