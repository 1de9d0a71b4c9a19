package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/functions/internal/shipped"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/runtime/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

type tillContext struct {
	Card  string         `json:"card"`
	Count map[string]int `json:"count,omitempty"`
}

// pay is a payload whose own check panics where it is told to.
type pay struct {
	Card string `json:"card"`
	Note string `json:"note,omitempty"`
}

// Validate refuses a payment without a card.
func (p pay) Validate() error {
	var none []int
	switch {
	case p.Note == "panic":
		return fmt.Errorf("got %d", none[len(p.Card)])
	case p.Card == "":
		return errors.New("expected a card")
	}
	return nil
}

// till is a machine in which everything goes wrong that can: its service fails, panics, and succeeds; its actions and guards panic.
func till(p *Process) ([]durable.Machine, error) {
	type on = statechart.Transition[tillContext]
	hosted, err := shipped.Machines(p)
	if err != nil {
		return nil, err
	}
	charge := statechart.ServiceFunc("charge", func(_ context.Context, c tillContext, call statechart.Call) (pay, error) {
		var none []int
		switch call.Attempt {
		case 1:
			return pay{}, errors.New("no answer")
		case 2:
			return pay{}, fmt.Errorf("got %d", none[len(c.Card)])
		default:
			return pay{Card: c.Card}, nil
		}
	})
	refuse := statechart.ServiceFunc("refuse", func(context.Context, tillContext, statechart.Call) (pay, error) {
		return pay{}, statechart.Permanent(errors.New("refused"))
	})
	settled := []string{statechart.Settled}
	keep := statechart.Assign("keep", func(c *tillContext, e pay) { c.Card = e.Card })
	remind := statechart.SendAfter("remind", "REMIND", func(c tillContext, _ statechart.Event) (time.Duration, any) { return time.Second, pay{Card: c.Card} })
	crash := statechart.Assign("crash", func(c *tillContext, e pay) { c.Count[e.Card]++ })
	wrong := statechart.When("wrong", func(c tillContext, e pay) bool { return e.Card[len(e.Card)+len(c.Card)] == 'x' })
	chart, err := statechart.Compile(statechart.Definition[tillContext]{
		ID: "till", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{
			"PAY": statechart.PayloadOf[pay](), "CRASH": statechart.PayloadOf[pay](), "WRONG": statechart.PayloadOf[pay](), "REMIND": statechart.PayloadOf[pay](),
			"REFUSE": statechart.PayloadOf[pay](),
		},
		States: []statechart.State[tillContext]{
			{ID: "open", Tags: settled, On: []on{
				{Event: "PAY", Target: "paying", Actions: []statechart.Action[tillContext]{keep}},
				{Event: "CRASH", Actions: []statechart.Action[tillContext]{crash}}, {Event: "WRONG", Target: "paid", Guard: wrong}, {Event: "REFUSE", Target: "refusing"},
			}},
			{ID: "paying", Invoke: []statechart.Invoke[tillContext]{{
				Service: charge, Retry: statechart.RetryPolicy{Attempts: 3, Interval: time.Second, Rate: 1}, OnError: []on{{Target: "open"}},
				OnDone: []on{{Target: "paid", Actions: []statechart.Action[tillContext]{remind}}},
			}}},
			{ID: "refusing", Invoke: []statechart.Invoke[tillContext]{{Service: refuse, OnDone: []on{{Target: "paid"}}, OnError: []on{{Target: "open"}}}}},
			{ID: "paid", Tags: settled, On: []on{{Event: "REMIND", Target: "reminded"}}, Resolve: []statechart.Resolution[tillContext]{{
				Name: "wait", Output: func(c tillContext, _ statechart.Event) any { return c },
			}}},
			{ID: "reminded", Type: statechart.Final},
		},
	})
	if err != nil {
		return nil, err
	}
	return append(hosted, durable.Host(chart, durable.MachineConfig{})), nil
}

// throttling refuses the first call that the functions make of each operation, once it is on.
type throttling struct {
	on    atomic.Bool
	mu    sync.Mutex
	calls map[string]int
}

func (f *throttling) fault(call awslocal.Call) awslocal.Fault {
	// A delivery that cannot be delayed would come again when half a minute is over.
	if call.Client == testClient || call.Operation == "ChangeMessageVisibilityBatch" || !f.on.Load() {
		return awslocal.Fault{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	operation := call.Service + "." + call.Operation
	f.calls[operation]++
	return awslocal.Fault{Throttled: f.calls[operation] == 1}
}

// TestNoSecretIsToldOfWhenThingsGoWrong plays events whose services fail and panic, whose actions, guards and payloads panic, and calls
// that AWS throttles, all with canaries.
func TestNoSecretIsToldOfWhenThingsGoWrong(t *testing.T) {
	t.Parallel()
	faults := &throttling{calls: map[string]int{}}
	w := newWorldOf(t, awslocal.Config{Fault: faults.fault}, till, till, map[string]string{
		boot.LogLevel: "debug", boot.GitHubWebhookSecret: webhookSecret, "AWS_MAX_ATTEMPTS": "1",
		shipped.EnrichCallbackBase: "https://canary-base.example.com", shipped.EnrichCallbackKey: callbackKey,
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
	w.playCallback()
	w.until("till/1", func(r durable.Record) bool { return r.Status == statechart.Done && len(r.Outbox) == 0 })
	w.until("till/1", func(durable.Record) bool { return len(w.logged("event parked")) >= 4 })
	w.playQueues()
	stop()
	w.checkSecrets(false)

	for message, want := range map[string]int{
		"event parked": 4, "delivery failed, to be tried again": 5, "service failed, to be tried again": 2, "service failed for good": 1, "request failed": 2,
		"message failed, to be delivered again": 2,
	} {
		if got := len(w.logged(message)); got < want {
			t.Errorf("got %d lines %q, want at least %d: the case is not played", got, message, want)
		}
	}
	for _, with := range []string{"panic: ", "throttl"} {
		if !strings.Contains(w.logs.String(), with) {
			t.Errorf("the log has nothing with %q: the case is not played", with)
		}
	}
}

// playThrottled asks the gateway and the task's function while the queue and the table refuse to answer.
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
	task := w.start("tokentask", tokenTask(w.machines))
	for _, event := range []string{
		`{"type":"PAY","card":"canary-payload","$task":{"token":"canary-token","name":"wait"}}`,
		`{"type":"PAY","card":"canary-payload","note":"panic","$task":{"token":"canary-token","name":"wait"}}`,
	} {
		for range 2 {
			_, _ = task.Invoke(w.t.Context(), fmt.Appendf(nil, `{"instance":"till/3","event":%s}`, event)) // Its error is among the answers.
		}
	}
}

// playCallback has a third party call back, at the address that it was told.
func (w *world) playCallback() {
	w.t.Helper()
	w.send("enrich/1", `{"type":"ENRICH","subject":"canary-payload"}`)
	record := w.until("enrich/1", func(r durable.Record) bool { return len(r.State) == 1 && r.State[0] == "waiting" && len(r.Outbox) == 0 })
	var snapshot struct{ Context enrich.Context }
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		w.t.Fatal(err)
	}
	address := enrich.Callbacks{Base: "https://canary-base.example.com", Key: []byte(callbackKey)}.Address("enrich/1", snapshot.Context.Deadline)
	path, key := strings.TrimPrefix(address, "https://canary-base.example.com"), address[strings.LastIndexByte(address, '/')+1:]
	body := fmt.Sprintf(`{"jobId":%q,"success":true,"data":{"canary-payload":"canary-payload"}}`, snapshot.Context.JobID)
	for _, try := range []string{path, path, path, path, path + "x"} {
		w.request(http.MethodPost, try, map[string]string{"content-type": "application/json"}, body)
	}
	w.until("enrich/1", func(r durable.Record) bool { return len(r.State) == 1 && r.State[0] == "succeeded" })
	for where, text := range map[string]string{"the log": w.logs.String(), "the spans": w.spans.String(), "the answers": w.answers.String()} {
		if strings.Contains(text, key) {
			w.t.Errorf("%s shows the key of a callback's address", where)
		}
	}
}

// playQueues hands the functions of the standard queues what they cannot use, and the end of an execution that they can.
func (w *world) playQueues() {
	w.t.Helper()
	const change = `{"detail-type":"Step Functions Execution Status Change","detail":{"executionArn":"arn:aws:states:us-east-1:000000000000:execution:m:settle-1","name":"settle-1",` +
		`"status":"FAILED","input":"{\"$settle\":{\"instance\":\"till/4\",\"execution\":\"settle-1\",\"incarnation\":1},\"canary-payload\":\"canary-payload\"}","error":"canary-payload","cause":"canary-payload"}}`
	ends := w.start("executions", executions())
	for _, body := range []string{change, strings.Replace(change, `"FAILED"`, `"SUCCEEDED"`, 1), `canary-payload`, `{"detail-type":"canary-payload"}`} {
		batch, err := json.Marshal(map[string]any{"Records": []any{map[string]any{"messageId": "1", "body": body}}})
		if err != nil {
			w.t.Fatal(err)
		}
		_, _ = ends.Invoke(w.t.Context(), batch) // What fails is in the log.
	}
	timers := w.start("delay", delay())
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
