package host_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// throttling throttles the first call of each AWS operation that the functions make while `on` is true.
type throttling struct {
	on    atomic.Bool
	mu    sync.Mutex
	calls map[string]int
}

func (f *throttling) fault(call awslocal.Call) awslocal.Fault {
	// ChangeMessageVisibilityBatch is never throttled. If it failed, the delivery would reappear only after half a
	// minute.
	if call.Client == testClient || call.Operation == "ChangeMessageVisibilityBatch" || !f.on.Load() {
		return awslocal.Fault{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	operation := call.Service + "." + call.Operation
	f.calls[operation]++
	return awslocal.Fault{Throttled: f.calls[operation] == 1}
}

// TestNoSecretIsExposedByFailures plays failures with canaries in their data. Services fail and panic, actions, guards
// and payloads panic, and AWS throttles calls. The log may contain the value of a panic only if payloads are logged.
func TestNoSecretIsExposedByFailures(t *testing.T) {
	t.Parallel()
	for _, payloads := range []string{"off", "on"} {
		t.Run("payloads "+payloads, func(t *testing.T) {
			t.Parallel()
			playFailures(t, payloads)
		})
	}
}

func playFailures(t *testing.T, payloads string) {
	t.Helper()
	faults := &throttling{calls: map[string]int{}}
	w := newWorldOf(t, awslocal.Config{Fault: faults.fault}, till, till, map[string]string{
		host.LogPayloads: payloads, host.LogLevel: "debug", samples.GitHubWebhookSecret: webhookSecret, "AWS_MAX_ATTEMPTS": "1",
		samples.EnrichCallbackBase: "https://canary-base.example.com", samples.EnrichCallbackKey: callbackKey, samples.EnrichCallbackKeyPrevious: previousCallbackKey,
	})
	faults.on.Store(true)
	w.playThrottled()
	stop := w.poll()
	const card, task = `"card":"canary-payload"`, `"$task":{"token":"canary-token-AAAAKgAAAAIAAAAA","name":"wait","timeoutSeconds":600}`
	for body, to := range map[string]string{
		`{"type":"CRASH",` + card + `,` + task + `}`: "till/5", `{"type":"WRONG",` + card + `}`: "till/6", `{"type":"PAY",` + card + `,"note":"panic"}`: "till/7",
		`{"type":"PAY","card":["canary-payload"]}`: "till/8", `{"type":"REFUSE",` + card + `}`: "till/9", `{"type":"PAY",` + card + `,` + task + `}`: "till/1",
	} {
		w.send(to, body)
	}
	w.playCallback(payloads == "on")
	w.until("till/1", func(r instances.Record) bool { return r.Status == statechart.Done && !r.Owes() })
	w.until("till/1", func(instances.Record) bool { return len(w.logged("event parked")) >= 4 })
	w.playQueues()
	stop()
	w.checkSecrets(payloads == "on")
	w.checkPanics(payloads == "on")

	for message, want := range map[string]int{
		"event parked": 4, "delivery failed, will retry": 5, "service failed, will retry": 2, "service failed permanently": 1, "request failed": 2,
		"message failed, will be redelivered": 2,
	} {
		if got := len(w.logged(message)); got < want {
			t.Errorf("got %d log lines %q, want at least %d: the case did not occur", got, message, want)
		}
	}
	if !strings.Contains(w.logs.String(), "throttl") {
		t.Error("the log has no throttled call: the case did not occur")
	}
}

// checkPanics checks that the log has a stack for each panic of an action, guard, service or payload. The log must also
// have the value of the panic if payloads are logged, and only then.
func (w *world) checkPanics(valuesShown bool) {
	w.t.Helper()
	for message, want := range map[string]struct {
		value string
		code  []string
	}{
		"delivery failed, will retry": {"canary-payload", []string{"action crash: panic: a value of the type *errors.errorString", "guard wrong: panic: a value of the type host_test.pay"}},
		"service failed, will retry":  {"no price for canary-payload", []string{"panic: a value of the type string"}},
		"event parked":                {"canary-payload", []string{"panic: a value of the type host_test.pay"}},
	} {
		for _, code := range want.code {
			found, wrong := false, false
			for _, line := range w.logged(message) {
				if !strings.Contains(fmt.Sprint(line["error"], line["reason"]), code) {
					continue
				}
				value, shown := line["panic"].(string)
				found = true
				wrong = wrong || !strings.Contains(fmt.Sprint(line["stack"]), "till_test.go:") || shown != valuesShown || shown && !strings.Contains(value, want.value)
			}
			if !found || wrong {
				w.t.Errorf("got no log line %q for %s with its stack (with its value: %v)", message, code, valuesShown)
			}
		}
	}
}

// playThrottled calls the gateway and the tokentask function while calls to the queue and the table are throttled.
func (w *world) playThrottled() {
	w.t.Helper()
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPost, "/instances/till/2/events", `{"type":"PAY","card":"canary-payload"}`, http.StatusServiceUnavailable},
		{http.MethodGet, "/instances/till/2", "", http.StatusServiceUnavailable},
		{http.MethodGet, "/aliases/enricher/none", "", http.StatusNotFound},
	} {
		status, answer := w.request(c.method, c.path, map[string]string{"content-type": "application/json", "authorization": "canary-authorization"}, c.body)
		if status != c.status {
			w.t.Errorf("%s %s: got %d %s, want %d", c.method, c.path, status, answer, c.status)
		}
	}
	task := w.start("tokentask", host.TokenTask(w.machines))
	for _, event := range []string{
		`{"type":"PAY","card":"canary-payload","$task":{"token":"canary-token","name":"wait"}}`,
		`{"type":"PAY","card":"canary-payload","note":"panic","$task":{"token":"canary-token","name":"wait"}}`,
	} {
		for range 2 {
			_, _ = task.Invoke(w.t.Context(), fmt.Appendf(nil, `{"instance":"till/3","event":%s}`, event)) // The recorded answers include its error.
		}
	}
}

// playCallback calls back several times at an address with the previous callback key, and once at a wrong address.
func (w *world) playCallback(payloadsShown bool) {
	w.t.Helper()
	w.send("enrich/1", `{"type":"ENRICH","subject":"canary-payload"}`)
	record := w.until("enrich/1", func(r instances.Record) bool {
		return len(r.State) == 1 && r.State[0] == "waiting" && !r.Owes()
	})
	var snapshot struct{ Context enrich.Context }
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		w.t.Fatal(err)
	}
	// This address predates the rotation of the key.
	address := enrich.Callbacks{Base: "https://canary-base.example.com", Key: []byte(previousCallbackKey)}.Address("enrich/1", snapshot.Context.Deadline)
	path, key := strings.TrimPrefix(address, "https://canary-base.example.com"), address[strings.LastIndexByte(address, '/')+1:]
	body := fmt.Sprintf(`{"jobId":%q,"success":true,"data":{"canary-payload":"canary-payload"}}`, snapshot.Context.JobID)
	for _, try := range []string{path, path, path, path, path + "x"} {
		w.request(http.MethodPost, try, map[string]string{"content-type": "application/json"}, body)
	}
	w.until("enrich/1", func(r instances.Record) bool { return len(r.State) == 1 && r.State[0] == "succeeded" })
	for where, text := range map[string]string{"the log": w.logs.String(), "the spans": w.spans.String(), "the answers": w.answers.String()} {
		if strings.Contains(text, key) && !(payloadsShown && where == "the log") { // The demo service logs the address, as a payload.
			w.t.Errorf("%s contains the key of a callback address", where)
		}
	}
}

// playQueues sends invalid messages and a report of an ended execution to the functions behind the standard queues.
func (w *world) playQueues() {
	w.t.Helper()
	const change = `{"detail-type":"Step Functions Execution Status Change","detail":{"executionArn":"arn:aws:states:us-east-1:000000000000:execution:m:settle-1","name":"settle-1",` +
		`"status":"FAILED","input":"{\"$settle\":{\"instance\":\"till/4\",\"execution\":\"settle-1\",\"incarnation\":1},\"canary-payload\":\"canary-payload\"}","error":"canary-payload","cause":"canary-payload"}}`
	ends := w.start("executions", host.Executions())
	for _, body := range []string{change, strings.Replace(change, `"FAILED"`, `"SUCCEEDED"`, 1), `canary-payload`, `{"detail-type":"canary-payload"}`} {
		batch, err := json.Marshal(map[string]any{"Records": []any{map[string]any{"messageId": "1", "body": body}}})
		if err != nil {
			w.t.Fatal(err)
		}
		_, _ = ends.Invoke(w.t.Context(), batch) // Errors are logged.
	}
	timers := w.start("delay", host.Delay())
	for _, body := range []string{
		`canary-payload`, `{"at":"2026-01-02T03:04:05Z","to":"till/4","body":"canary-payload","deduplication_id":"1"}`,
		`{"at":"canary-payload","to":"till/4","body":{"type":"PAY","card":"canary-payload"},"deduplication_id":"1"}`,
	} {
		if _, err := w.queues.SendMessage(w.t.Context(), &sqs.SendMessageInput{QueueUrl: aws.String(w.urls[delays]), MessageBody: &body}); err != nil {
			w.t.Fatal(err)
		}
		batch, err := json.Marshal(map[string]any{"Records": []any{map[string]any{"messageId": "1", "body": body}}})
		if err != nil {
			w.t.Fatal(err)
		}
		_, _ = timers.Invoke(w.t.Context(), batch)
	}
}
