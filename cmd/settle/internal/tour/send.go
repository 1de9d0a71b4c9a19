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
	"regexp"
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
	mac := hmac.New(sha256.New, []byte(p.config.Secret))
	mac.Write(body)
	header := http.Header{"X-Github-Event": {"workflow_job"}, "X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}
	shown := fmt.Sprintf(`{"action": %q, "workflow_job": {"id": %d, ...}}`, action, hook["id"])
	p.request(http.MethodPost, "/webhooks/github", shown, header, body, http.StatusAccepted)
	p.await(instance, state)
}

// event sends an event to an instance over HTTP.
func (p *player) event(instance, typ string, payload map[string]any) {
	event := map[string]any{"type": typ}
	maps.Copy(event, payload)
	p.request(http.MethodPost, "/instances/"+instance+"/events", oneLine(event), http.Header{}, p.json(event), http.StatusAccepted)
}

// callBack posts to a callback address.
func (p *player) callBack(address string, body map[string]any, want int) {
	path := strings.TrimPrefix(address, p.stack.HTTPURL())
	p.request(http.MethodPost, path, fmt.Sprintf(`{"success": %v, ...}`, body["success"]), http.Header{}, p.json(body), want)
}

// callbackKey matches the key at the end of a callback address. The group matches the part that may be shown.
var callbackKey = regexp.MustCompile(`(/[\w-]{6})[\w-]{26,}$`)

// shortened returns an address without most of its callback key, because the key authorizes a callback.
func shortened(address string) string { return callbackKey.ReplaceAllString(address, "$1...") }

// answerBytesMax is how much of a response is read.
const answerBytesMax = 64 << 10

// request makes a request. It prints the request and the response's status before any transition that the request
// causes. It prints `text` instead of the body.
func (p *player) request(method, path, text string, header http.Header, body []byte, want int) (answer []byte) {
	var code int
	var status string
	shown := shortened(path)
	p.lead(func() string {
		request, err := http.NewRequestWithContext(p.ctx, method, p.stack.HTTPURL()+path, bytes.NewReader(body))
		p.check(err)
		header.Set("Content-Type", "application/json")
		request.Header = header
		got, err := p.stack.HTTPClient().Do(request)
		p.check(err, method+" "+shown)
		code, status = got.StatusCode, got.Status
		defer got.Body.Close()
		answer, err = io.ReadAll(io.LimitReader(got.Body, answerBytesMax))
		p.check(err, "reading the answer of "+method+" "+shown)
		mark := p.config.Style.State
		if code >= http.StatusBadRequest {
			mark = p.config.Style.Warning
		}
		return strings.TrimSuffix(p.config.Style.Bold(method+" "+shown)+" "+text, " ") + "  " + mark(status)
	})
	if code != want {
		p.check(fmt.Errorf("%s %s: expected %d, got %s: %s", method, shown, want, status, bytes.TrimSpace(answer)))
	}
	return answer
}

// json returns a value as JSON.
func (p *player) json(value any) []byte {
	text, err := json.Marshal(value)
	p.check(err)
	return text
}

// objectCreated builds the event that EventBridge sends for a new file. Like functions/objects, it queues the resulting
// event for the machine upload. Calls with the same sequencer in one round have the same deduplication ID.
func (p *player) objectCreated(kind, month, etag, sequencer, note string) {
	sequencer = fmt.Sprintf("%02x%s", p.round-1, sequencer)
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
