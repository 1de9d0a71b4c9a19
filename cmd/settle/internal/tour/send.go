package tour

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// webhook sends a signed webhook as GitHub does, and waits until the job is in the state.
func (p *player) webhook(hook map[string]any, action, instance, state string) {
	hook["status"] = action
	body := p.json(map[string]any{
		"action": action, "workflow_job": hook,
		"repository": map[string]any{"full_name": "octo-org/web", "owner": map[string]any{"login": "octo-org"}},
	})
	mac := hmac.New(sha256.New, []byte(p.secret))
	mac.Write(body)
	header := http.Header{"X-Github-Event": {"workflow_job"}, "X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}
	const path = "/webhooks/github"
	shown := fmt.Sprintf(`{"action": %q, "workflow_job": {"id": %d, ...}}`, action, hook["id"])
	p.request(http.MethodPost, path, path, shown, header, body, http.StatusAccepted)
	p.await(instance, state)
}

// event sends an event to an instance over HTTP.
func (p *player) event(instance, typ string, payload map[string]any) {
	event := map[string]any{"type": typ}
	maps.Copy(event, payload)
	path := "/instances/" + instance + "/events"
	p.request(http.MethodPost, path, path, oneLine(event), http.Header{}, p.json(event), http.StatusAccepted)
}

// callBack posts to a callback address. Most of its key is not printed.
func (p *player) callBack(address string, body map[string]any, want int) {
	path := strings.TrimPrefix(address, p.stack.HTTPURL())
	p.request(http.MethodPost, path, shortened(path), fmt.Sprintf(`{"success": %v, ...}`, body["success"]), http.Header{}, p.json(body), want)
}

// keyShown is how much of a callback key is printed.
const keyShown = 12

// shortened returns a callback address without most of its key, because the key authorizes a callback.
func shortened(address string) string {
	key := address[strings.LastIndexByte(address, '/')+1:]
	if len(key) <= keyShown {
		return address
	}
	return strings.TrimSuffix(address, key) + key[:keyShown/2] + "..."
}

// answerBytesMax is how much of a response is read.
const answerBytesMax = 64 << 10

// request makes a request, and prints it with the response's status before any transition that it causes. The output
// shows shown in place of the path, and text in place of the body.
func (p *player) request(method, path, shown, text string, header http.Header, body []byte, want int) (answer []byte) {
	var got *http.Response
	p.lead(func() string {
		request, err := http.NewRequestWithContext(p.ctx, method, p.stack.HTTPURL()+path, bytes.NewReader(body))
		p.check(err)
		header.Set("Content-Type", "application/json")
		request.Header = header
		got, err = p.stack.HTTPClient().Do(request)
		p.check(err, method+" "+shown)
		defer got.Body.Close()
		answer, err = io.ReadAll(io.LimitReader(got.Body, answerBytesMax))
		p.check(err, "reading the answer of "+method+" "+shown)
		mark := p.config.Style.State
		if got.StatusCode >= http.StatusBadRequest {
			mark = p.config.Style.Warning
		}
		return strings.TrimSuffix(p.config.Style.Bold(method+" "+shown)+" "+text, " ") + "  " + mark(got.Status)
	})
	if got.StatusCode != want {
		p.check(fmt.Errorf("%s %s: expected %d, got %s: %s", method, shown, want, got.Status, bytes.TrimSpace(answer)))
	}
	return answer
}

// json returns a value as JSON.
func (p *player) json(value any) []byte {
	text, err := json.Marshal(value)
	p.check(err)
	return text
}

// newWorkflowJob returns the relevant part of a GitHub workflow job in its webhooks:
// https://docs.github.com/en/webhooks/webhook-events-and-payloads#workflow_job
func newWorkflowJob(runID, jobID int64, name string) map[string]any {
	return map[string]any{
		"id": jobID, "run_id": runID, "run_attempt": 1, "conclusion": nil, "workflow_name": "CI", "name": name,
		"labels": []string{"self-hosted", "linux"}, "runner_name": nil, "created_at": time.Now().UTC().Truncate(time.Second),
	}
}

// objectCreated builds EventBridge's event of a file and queues the event of the machine upload, as functions/objects
// does. Equal files have equal deduplication IDs.
func (p *player) objectCreated(kind, month, etag, sequencer, note string) {
	bucket, key := kind+"-uploads", kind+"_"+month+".csv"
	id, event, err := upload.FromObjectCreated(p.json(map[string]any{
		"detail-type": "Object Created", "source": "aws.s3", "time": time.Now().UTC().Truncate(time.Second),
		"detail": map[string]any{
			"bucket": map[string]any{"name": bucket},
			"object": map[string]any{"key": key, "size": 5, "etag": etag, "sequencer": sequencer},
		},
	}))
	p.check(err)
	p.lead(func() string {
		queue := sqsqueue.New(sqs.NewFromConfig(p.stack.AWS()), p.stack.QueueURL(), "")
		to := instances.ID{Machine: "upload", ID: id}
		_, err = queue.Send(p.ctx, durable.Message{To: to, Body: event, DeduplicationID: sequencer})
		p.check(err, "queueing the upload of "+key)
		line := fmt.Sprintf("%s s3://%s/%s  etag %s", p.config.Style.Bold("Object Created"), bucket, key, etag)
		if note != "" {
			line += "  " + p.config.Style.Dim("("+note+")")
		}
		return line
	})
}
