package tour

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// webhook sends a signed webhook as GitHub does, and waits until the job is in the state.
func (p *player) webhook(hook map[string]any, action, instance, state string) {
	hook["status"] = action
	body := p.json(map[string]any{
		"action": action, "workflow_job": hook,
		"repository": map[string]any{"full_name": "octo-org/web", "owner": map[string]any{"login": "octo-org"}},
	})
	header := http.Header{
		"Content-Type":        {"application/json"},
		"X-Github-Event":      {"workflow_job"},
		"X-Github-Delivery":   {fmt.Sprintf("delivery-%d-%s", hook["id"], action)},
		"X-Hub-Signature-256": {signature(p.secret, body)},
	}
	text := fmt.Sprintf(`{"action": %q, "workflow_job": {"id": %d, ...}}`, action, hook["id"])
	p.request(http.MethodPost, "/webhooks/github", "", header, body, text, http.StatusAccepted)
	p.await(instance, "", state)
}

// event sends an event to an instance over HTTP.
func (p *player) event(instance, typ string, payload map[string]any) {
	event := maps.Clone(payload)
	if event == nil {
		event = map[string]any{}
	}
	event["type"] = typ
	p.request(http.MethodPost, "/instances/"+instance+"/events", "", jsonHeader(), p.json(event), oneLine(event), http.StatusAccepted)
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// answerBytesMax is how much of a response is read.
const answerBytesMax = 64 << 10

// request makes a request, and prints it with the response's status before any transition that it
// causes. If shown is not empty, it replaces the path in the output.
func (p *player) request(method, path, shown string, header http.Header, body []byte, text string, want int) []byte {
	p.seen.hold()
	defer p.seen.release()
	request, err := http.NewRequestWithContext(p.ctx, method, p.stack.HTTPURL()+path, bytes.NewReader(body))
	p.check(err)
	shown = cmp.Or(shown, path)
	request.Header = header
	answer, err := p.stack.HTTPClient().Do(request)
	p.check(err, method+" "+shown)
	defer answer.Body.Close()
	got, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	p.check(err, "reading the answer of "+method+" "+shown)
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
		p.check(fmt.Errorf("%s %s: expected %d, got %s: %s", method, shown, want, answer.Status, strings.TrimSpace(string(got))))
	}
	return got
}

// newWorkflowJob returns the relevant part of a GitHub workflow job in its webhooks:
// https://docs.github.com/en/webhooks/webhook-events-and-payloads#workflow_job
func newWorkflowJob(runID, jobID int64, name string) map[string]any {
	return map[string]any{
		"id": jobID, "run_id": runID, "run_attempt": 1, "conclusion": nil, "workflow_name": "CI", "name": name,
		"labels": []string{"self-hosted", "linux"}, "runner_name": nil, "created_at": time.Now().UTC().Truncate(time.Second),
	}
}

// signature returns the value of X-Hub-Signature-256.
func signature(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
