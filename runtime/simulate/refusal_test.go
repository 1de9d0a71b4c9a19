package simulate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// refuser is an HTTP client that refuses some calls, as AWS does if a policy denies them.
type refuser struct {
	next aws.HTTPClient
	code func(operation, body string) string
}

func (r refuser) Do(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	_, operation, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	if operation == "SendMessageBatch" {
		return r.doBatch(request, body)
	}
	code := r.code(operation, string(body))
	if code == "" {
		return r.next.Do(request)
	}
	answer := `{"__type": "com.amazonaws#` + code + `", "message": "no"}`
	return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

// doBatch sends the entries of a batch except the refused ones, and reports the refused entries as failed. See SQS API
// Reference, SendMessageBatch: "the request can result in a combination of successful and unsuccessful actions".
func (r refuser) doBatch(request *http.Request, body []byte) (*http.Response, error) {
	var batch struct {
		QueueURL string `json:"QueueUrl"`
		Entries  []json.RawMessage
	}
	if err := json.Unmarshal(body, &batch); err != nil {
		return nil, err
	}
	var taken []json.RawMessage
	var failed []map[string]any
	for _, entry := range batch.Entries {
		var id struct {
			ID string `json:"Id"`
		}
		if err := json.Unmarshal(entry, &id); err != nil {
			return nil, err
		}
		if code := r.code("SendMessage", string(entry)); code != "" {
			failed = append(failed, map[string]any{"Id": id.ID, "Code": code, "Message": "no", "SenderFault": true})
		} else {
			taken = append(taken, entry)
		}
	}
	answer := map[string]any{}
	if len(taken) > 0 {
		body, err := json.Marshal(map[string]any{"QueueUrl": batch.QueueURL, "Entries": taken})
		if err != nil {
			return nil, err
		}
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		response, err := r.next.Do(request)
		if err != nil || response.StatusCode != http.StatusOK || len(failed) == 0 {
			return response, err
		}
		defer func() { _ = response.Body.Close() }() // the body is read to its end
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			return nil, err
		}
	}
	answer["Failed"] = failed
	text, err := json.Marshal(answer)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text))}, err
}

// post is the context of a chart that sends letters, and records the letters that cannot be sent.
type post struct {
	Letters []string `json:"letters"`
	Failed  []string `json:"failed"`
}

type letter struct {
	To    string `json:"to"`
	Text  string `json:"text"`
	Bytes int    `json:"bytes"`
}

// posting hosts the chart of post. The event "post" sends a letter to its receiver, and a short copy to
// posting/archive. The letter is longer than the copy by the requested number of bytes.
func posting() durable.Machine {
	type on = statechart.Transition[post]
	type do = []statechart.Action[post]
	settled := []string{statechart.Settled}
	send := statechart.SendTo("letter", func(_ post, e statechart.Event) (string, any) {
		l := e.Payload.(letter)
		return l.To, letter{Text: l.Text + strings.Repeat(".", l.Bytes)}
	})
	file := statechart.SendTo("letter", func(_ post, e statechart.Event) (string, any) {
		return "posting/archive", letter{Text: e.Payload.(letter).Text}
	})
	keep := statechart.Assign("keep", func(p *post, l letter) { p.Letters = append(p.Letters, l.Text) })
	note := statechart.Assign("note", func(p *post, f statechart.CommunicationFailure) {
		p.Failed = append(p.Failed, fmt.Sprintf("%s to %s", f.Kind, f.Target))
	})
	return durable.Host(statechart.Must(statechart.Definition[post]{
		ID: "posting", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{"post": statechart.PayloadOf[letter](), "letter": statechart.PayloadOf[letter](), "pause": statechart.NoPayload(),
			statechart.CommunicationError: statechart.PayloadOf[statechart.CommunicationFailure]()},
		On: []on{{Event: "letter", Actions: do{keep}}, {Event: statechart.CommunicationError, Actions: do{note}}},
		States: []statechart.State[post]{
			{ID: "open", Tags: settled, On: []on{{Event: "post", Actions: do{send, file}}, {Event: "pause", Target: "paused"}}},
			{ID: "paused", Tags: settled, After: []statechart.After[post]{{Delay: 10 * time.Minute, Target: "open"}}},
		},
	}), durable.MachineConfig{})
}

// posted summarizes an instance: the letters that arrived, the failures that it recorded, and anything left to do.
func (w *world) posted(instance string) string {
	w.t.Helper()
	r := w.record(instance)
	var snapshot struct {
		Context post `json:"context"`
	}
	if err := json.Unmarshal(r.Snapshot, &snapshot); err != nil {
		w.t.Fatal(err)
	}
	kept := ""
	for _, f := range r.FailedEffects {
		kept += fmt.Sprintf(" [%s %s %s]", f.Kind, f.Target, f.Report)
	}
	return fmt.Sprintf("%v %q, kept:%s, %d effects left, %v", snapshot.Context.Letters, snapshot.Context.Failed, kept, owing(r), r.Error)
}

const (
	postOne = `{"type": "post", "to": "posting/2", "text": "one", "bytes": %d}`
	postTwo = `{"type": "letter", "text": "two"}`
)

// loseDelayQueue replaces the world's delay queue with a queue that was deleted, and gives the functions permission to
// use the deleted queue.
func (w *world) loseDelayQueue() {
	w.t.Helper()
	queues := sqs.NewFromConfig(w.aws(w.cloud.HTTPClient(), true))
	made, err := queues.CreateQueue(w.t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("gone")})
	if err == nil {
		_, err = queues.DeleteQueue(w.t.Context(), &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.delayURL = *made.QueueUrl
	stack := stackOfTests()
	stack.Values["DelayQueue.Arn"] = arnOfQueues + "gone"
	if w.roles, err = guard.NewRoles(stack); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := w.roles.Denied(); err != nil {
			w.t.Errorf("expected a missing queue, not a missing permission: %v", err)
		}
	})
}

// TestAPermanentlyFailedEffectBlocksNothing makes AWS refuse an effect permanently, in each possible way.
func TestAPermanentlyFailedEffectBlocksNothing(t *testing.T) {
	t.Parallel()
	toSecond := func(operation, body string) string {
		if operation == "SendMessage" && strings.Contains(body, `"MessageGroupId":"posting/2"`) {
			return "AccessDeniedException"
		}
		return ""
	}
	for name, c := range map[string]struct {
		refuse  func(operation, body string) string
		prepare func(w *world)
		event   string
		after   time.Duration // the minimum time until the effect is dropped; `within` is the maximum
		within  time.Duration
		want    string
		archive string
	}{
		"an over-long message": {
			prepare: func(w *world) {
				_, err := sqs.NewFromConfig(w.aws(w.cloud.HTTPClient(), true)).SetQueueAttributes(w.t.Context(), &sqs.SetQueueAttributesInput{
					QueueUrl: &w.queueURL, Attributes: map[string]string{"MaximumMessageSize": "2048"}})
				if err != nil {
					w.t.Fatal(err)
				}
			},
			event: fmt.Sprintf(postOne, 3000), within: time.Minute,
			want: `[two] ["send to posting/2"], kept: [send posting/2 received], 0 effects left, <nil>`, archive: `[one] [], kept:, 0 effects left, <nil>`,
		},
		"no permission": {
			refuse: toSecond, event: fmt.Sprintf(postOne, 0), after: 59 * time.Minute, within: 70 * time.Minute,
			want: `[two] ["send to posting/2"], kept: [send posting/2 received], 0 effects left, <nil>`, archive: `[one] [], kept:, 0 effects left, <nil>`,
		},
		"a deleted queue": {
			prepare: (*world).loseDelayQueue,
			event:   `{"type": "pause"}`, after: 59 * time.Minute, within: 70 * time.Minute,
			want: `[two] ["schedule to 10m0s of paused"], kept: [schedule 10m0s of paused received], 0 effects left, <nil>`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, options{refuse: c.refuse, more: []durable.Machine{posting()}}, func(w *world) {
				if c.prepare != nil {
					c.prepare(w)
				}
				w.send("posting/1", c.event)
				w.send("posting/1", postTwo)
				time.Sleep(c.after)
				if r := w.record("posting/1"); c.after > 0 && (len(r.FailedEffects) > 0 || owing(r) == 0) {
					t.Errorf("want it retried for an hour, got %+v", r)
				}
				time.Sleep(c.within - c.after)
				if got := w.posted("posting/1"); got != c.want {
					t.Errorf("want %s, got %s", c.want, got)
				}
				if c.archive != "" {
					if got := w.posted("posting/archive"); got != c.archive {
						t.Errorf("want the rest of the outbox performed: %s, got %s", c.archive, got)
					}
				}
				if r := w.record("posting/2"); r.Revision != 0 || w.deadLetters() != "0" {
					t.Errorf("want nothing sent and nothing parked, got revision %d and %s", r.Revision, w.deadLetters())
				}
			})
		})
	}
}

// TestAPermanentFailureIsReportedOnceWithAnyFault combines a failed effect with each fault at each call of the
// consumer.
func TestAPermanentFailureIsReportedOnceWithAnyFault(t *testing.T) {
	t.Parallel()
	refuse := func(operation, body string) string {
		if operation == "SendMessage" && strings.Contains(body, `"MessageGroupId":"posting/2"`) {
			return "InvalidParameterValue"
		}
		return ""
	}
	for kind := failBefore; kind <= dieAfter; kind++ {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			calls := 1
			for n := 0; n <= calls; n++ {
				hit := &faults{at: n, kind: kind}
				inWorld(t, options{faults: hit, refuse: refuse, more: []durable.Machine{posting()}}, func(w *world) {
					w.send("posting/1", fmt.Sprintf(postOne, 0))
					time.Sleep(30 * time.Minute)
					if n == 0 {
						hit.mu.Lock()
						calls = len(hit.calls)
						hit.mu.Unlock()
					}
					const want = `[] ["send to posting/2"], kept: [send posting/2 received], 0 effects left, <nil>`
					if got := w.posted("posting/1"); got != want || w.deadLetters() != "0" {
						t.Errorf("%v at call %d, %s: want %s, got %s, and %s parked", kind, n, hit.hit(), want, got, w.deadLetters())
					}
					if got, want := w.posted("posting/archive"), `[one] [], kept:, 0 effects left, <nil>`; got != want {
						t.Errorf("%v at call %d, %s: want %s, got %s", kind, n, hit.hit(), want, got)
					}
				})
			}
			if calls < 8 {
				t.Errorf("want at least 8 calls, got %d", calls)
			}
		})
	}
}
