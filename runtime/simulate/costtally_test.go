package simulate_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// tally is the context of the chart for cost measurements: a record of its events, in order.
type tally struct {
	Count  int    `json:"count"`
	Sum    int    `json:"sum"`
	Digest string `json:"digest"`
	// Kept is the text of the last event that asked to keep it.
	Kept string `json:"kept,omitempty"`
}

// number is the payload of the chart's events.
type number struct {
	N    int    `json:"n"`
	To   string `json:"to,omitempty"`
	Text string `json:"text,omitempty"`
	// Seconds is the delay of a timer.
	Seconds int `json:"seconds,omitempty"`
}

// add returns the tally after a number.
func (t tally) add(n number) tally {
	t.Count++
	t.Sum += n.N
	digest := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", t.Digest, n.N, n.Text))
	t.Digest = hex.EncodeToString(digest[:])
	return t
}

// tallying hosts the chart of the tally. The chart adds up its events, keeps the text of some, sends events to other
// instances, sends itself delayed events, and changes between two states.
func tallying() durable.Machine {
	type on = statechart.Transition[tally]
	type do = []statechart.Action[tally]
	add := statechart.Assign("add", func(t *tally, n number) { *t = t.add(n) })
	keep := statechart.Assign("keep", func(t *tally, n number) { t.Kept = n.Text })
	tell := statechart.SendTo("add", func(_ tally, e statechart.Event) (string, any) {
		n := e.Payload.(number)
		return n.To, number{N: n.N}
	})
	later := statechart.SendAfter("later", "add", func(_ tally, e statechart.Event) (time.Duration, any) {
		n := e.Payload.(number)
		return time.Duration(n.Seconds) * time.Second, number{N: n.N}
	})
	payloads := statechart.Payloads{}
	for _, typ := range []string{"add", "keep", "tell", "later", "hop"} {
		payloads[typ] = statechart.PayloadOf[number]()
	}
	return durable.Host(statechart.Must(statechart.Definition[tally]{
		ID: "tally", Version: 1, Initial: "open", Payloads: payloads,
		States: []statechart.State[tally]{{ID: "open", Tags: []string{statechart.Settled}, On: []on{
			{Event: "add", Actions: do{add}}, {Event: "keep", Actions: do{add, keep}},
			{Event: "tell", Actions: do{add, tell}}, {Event: "later", Actions: do{add, later}},
			{Event: "hop", Target: "shut", Actions: do{add}},
		}}, {ID: "shut", Tags: []string{statechart.Settled}, On: []on{{Event: "hop", Target: "open", Actions: do{add}}}}},
	}), durable.MachineConfig{})
}

// tallied returns an instance's tally.
func (w *world) tallied(record instances.Record) tally {
	w.t.Helper()
	var snapshot struct {
		Context tally `json:"context"`
	}
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		w.t.Fatalf("%s: %v", record.Instance, err)
	}
	return snapshot.Context
}

// sentEvent is an event for an instance.
type sentEvent struct {
	to, typ string
	number
}

func (e sentEvent) body() string {
	text, _ := json.Marshal(e.number)
	return fmt.Sprintf(`{"type":%q,`, e.typ) + strings.TrimPrefix(string(text), "{")
}

// sendEvents sends events in one counted call, as a batch if there are several.
func (w *world) sendEvents(events ...sentEvent) {
	w.t.Helper()
	client := sqs.NewFromConfig(w.aws(w.options.meter.over(w.cloud.HTTPClient()), true))
	var entries []types.SendMessageBatchRequestEntry
	for i, e := range events {
		id, body, deduplication := fmt.Sprint(i), e.body(), fmt.Sprintf("%s:%d", e.to, e.N)
		entries = append(entries, types.SendMessageBatchRequestEntry{Id: &id, MessageGroupId: &e.to, MessageDeduplicationId: &deduplication, MessageBody: &body})
	}
	if one := entries[0]; len(entries) == 1 {
		_, err := client.SendMessage(w.t.Context(), &sqs.SendMessageInput{QueueUrl: &w.queueURL, MessageGroupId: one.MessageGroupId, MessageDeduplicationId: one.MessageDeduplicationId, MessageBody: one.MessageBody})
		if err != nil {
			w.t.Fatal(err)
		}
		return
	}
	sent, err := client.SendMessageBatch(w.t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &w.queueURL, Entries: entries})
	if err != nil || len(sent.Failed) > 0 {
		w.t.Fatal(err, sent)
	}
}

// wantApplied checks that an instance has applied the events once and in order, and has nothing left to do. `revision`
// is the expected number of its writes: commits, and updates that clear the outbox.
func (w *world) wantApplied(instance string, events []sentEvent, revision int64) {
	w.t.Helper()
	var want tally
	var typesTold []string
	for _, e := range events {
		want = want.add(e.number)
		if e.typ == "keep" {
			want.Kept = e.Text
		}
		typesTold = append(typesTold, e.typ)
	}
	record := w.record(instance)
	if got := w.tallied(record); got != want {
		got.Kept, want.Kept = fmt.Sprint(len(got.Kept), " bytes"), fmt.Sprint(len(want.Kept), " bytes")
		w.t.Errorf("%s: want %+v, got %+v", instance, want, got)
	}
	if record.Revision != revision {
		w.t.Errorf("%s: want revision %d, got %d", instance, revision, record.Revision)
	}
	if owing(record)+len(record.FailedEffects) > 0 || record.Ignored != 0 || record.Skipped != 0 || record.Error != nil || !slices.Equal(record.State, []string{"open"}) {
		w.t.Errorf("%s: want it open, with nothing left to do and nothing ignored, skipped or failed; got state %v, outbox %v, failed %v, %d ignored, %d skipped, error %v",
			instance, record.State, record.Outbox, record.FailedEffects, record.Ignored, record.Skipped, record.Error)
	}
	var history []string
	for _, transition := range record.History {
		history = append(history, transition.Event)
	}
	if remembered := typesTold[max(0, len(typesTold)-cmp.Or(w.options.historyMax, 20)):]; !slices.Equal(history, remembered) {
		w.t.Errorf("%s: want the history %v, got %v", instance, remembered, history)
	}
}

// wantQueuesEmpty checks that no queue has a message, including messages in flight and parked ones.
func (w *world) wantQueuesEmpty() {
	w.t.Helper()
	for _, url := range []string{w.queueURL, w.delayURL, w.deadLetterURL} {
		got, err := w.queues().GetQueueAttributes(w.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, state := range []string{"", "NotVisible", "Delayed"} {
			if n := got.Attributes["ApproximateNumberOfMessages"+state]; n != "0" {
				w.t.Errorf("%s: want ApproximateNumberOfMessages%s 0, got %s", url, state, n)
			}
		}
	}
}
