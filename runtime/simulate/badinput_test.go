package simulate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// The tables in badinput_*_test.go show the result of each kind of bad input, with the real adapters
// (docs/bad-input.md). Each row spells out the text that operators see, so that reviewers see each change to it.

// probe is the context of a chart that takes notes, and fails on request.
type probe struct {
	Notes []string        `json:"notes"`
	Kept  json.RawMessage `json:"kept,omitempty"`
}

type note struct {
	Text string `json:"text"`
	// Bad makes the chart fail on the event.
	Bad bool `json:"bad"`
}

// measure is a payload with a field of each kind.
type measure struct {
	Amount int32     `json:"amount"`
	Ratio  float64   `json:"ratio"`
	At     time.Time `json:"at"`
	Labels []string  `json:"labels"`
	Detail struct {
		Deep bool `json:"deep"`
	} `json:"detail"`
}

// Validate refuses negative amounts.
func (m measure) Validate() error {
	if m.Amount < 0 {
		return fmt.Errorf("expected an amount of at least 0, got %d", m.Amount)
	}
	return nil
}

type keep struct {
	Value json.RawMessage `json:"value"`
}

const (
	probe1     = "probe/1"
	probe2     = "probe/2"
	goodEvent  = `{"type": "note", "text": "good"}`
	firstEvent = `{"type": "note", "text": "first"}`
)

// probing hosts the probe. The probe takes notes in every state. The event "arm" does not start an instance.
func probing() durable.Machine {
	type on = statechart.Transition[probe]
	type do = []statechart.Action[probe]
	type state = statechart.State[probe]
	settled := []string{statechart.Settled}
	take := statechart.Assign("take", func(p *probe, n note) { p.Notes = append(p.Notes, n.Text) })
	later := statechart.TryAssign("later", func(p *probe, n note) error {
		if n.Bad {
			return errors.New("the note is bad")
		}
		p.Notes = append(p.Notes, n.Text)
		return nil
	})
	measured := statechart.Assign("measured", func(p *probe, m measure) { p.Notes = append(p.Notes, "amount "+strconv.Itoa(int(m.Amount))) })
	hold := statechart.Assign("hold", func(p *probe, k keep) { p.Kept = k.Value })
	fail := statechart.TryAssign("fail", func(*probe, note) error { return errors.New("the printer is out of paper") })
	crash := statechart.Update("crash", func(*probe) { panic("index out of range") })
	grow := statechart.Update("grow", func(p *probe) { p.Kept = json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`) })
	doubt := statechart.When("doubt", func(probe, statechart.Event) bool { panic("nil map") })
	return durable.Host(statechart.Must(statechart.Definition[probe]{
		ID: "probe", Version: 2, Initial: "idle",
		Payloads: statechart.Payloads{
			"note": statechart.PayloadOf[note](), "later": statechart.PayloadOf[note](), "measure": statechart.PayloadOf[measure](), "keep": statechart.PayloadOf[keep](),
			"fail": statechart.PayloadOf[note](), "crash": statechart.NoPayload(), "grow": statechart.NoPayload(), "doubt": statechart.NoPayload(),
			"arm": statechart.NoPayload(), "disarm": statechart.NoPayload(), "busy": statechart.NoPayload(), "free": statechart.NoPayload(), "finish": statechart.NoPayload(),
			"private": statechart.Internal(),
		},
		On: []on{{Event: "note", Actions: do{take}}},
		States: []state{
			{ID: "idle", Tags: settled, On: []on{
				{Event: "later", Actions: do{later}}, {Event: "measure", Actions: do{measured}}, {Event: "keep", Actions: do{hold}}, {Event: "fail", Actions: do{fail}},
				{Event: "crash", Actions: do{crash}}, {Event: "grow", Actions: do{grow}}, {Event: "doubt", Guard: doubt, Target: "armed"},
				{Event: "arm", Target: "armed"}, {Event: "busy", Target: "busy"}, {Event: "finish", Target: "finished"},
			}},
			{ID: "armed", Tags: settled, After: []statechart.After[probe]{{Delay: 24 * time.Hour, Target: "idle"}}, On: []on{{Event: "disarm", Target: "idle"}}},
			{ID: "busy", Tags: settled, Defer: []string{"later"}, On: []on{{Event: "free", Target: "idle"}}},
			{ID: "finished", Type: statechart.Final},
		},
	}), durable.MachineConfig{StartedBy: []string{"note", "keep", "measure", "grow", "crash", "fail", durable.WaitEvent}})
}

// lines is the destination of a slog.Handler. It keeps each line.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// logged is one line of the log.
type logged struct {
	Level, Msg, Instance, Reason, Error string
}

// of returns an instance's lines of the given levels, in order.
func (l *lines) of(t *testing.T, instance string, levels ...slog.Level) (found []logged) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range strings.Split(strings.TrimSpace(l.buf.String()), "\n") {
		var one logged
		if err := json.Unmarshal([]byte(text), &one); err != nil && text != "" {
			t.Fatalf("the line %q: %v", text, err)
		}
		for _, level := range levels {
			if one.Instance == instance && one.Level == level.String() {
				found = append(found, one)
			}
		}
	}
	return found
}

// inProbeWorld runs a test in a world with the probe, the harbour and the ships. It keeps the consumer's log.
func inProbeWorld(t *testing.T, test func(w *world, log *lines)) {
	t.Helper()
	log := &lines{}
	inWorld(t, options{more: append(sailing(), probing()), log: slog.NewJSONHandler(log, nil)}, func(w *world) { test(w, log) })
}

// raw is a message as any SQS client may send it.
type raw struct {
	group, body string
	attributes  map[string]types.MessageAttributeValue
}

// sendRaw sends messages in one call, and returns their sequence numbers.
func (w *world) sendRaw(messages ...raw) (sequenceNumbers []string) {
	w.t.Helper()
	w.batches++
	var entries []types.SendMessageBatchRequestEntry
	for i, m := range messages {
		entries = append(entries, types.SendMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), MessageGroupId: &m.group, MessageBody: &m.body, MessageAttributes: m.attributes,
			MessageDeduplicationId: aws.String(fmt.Sprintf("%d-%d", w.batches, i)),
		})
	}
	sent, err := w.queues().SendMessageBatch(w.t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &w.queueURL, Entries: entries})
	if err != nil || len(sent.Failed) > 0 {
		w.t.Fatal(err, sent.Failed)
	}
	for _, entry := range sent.Successful {
		sequenceNumbers = append(sequenceNumbers, *entry.SequenceNumber)
	}
	return sequenceNumbers
}

// parked receives all parked messages.
func (w *world) parked() []types.Message {
	w.t.Helper()
	received, err := w.queues().ReceiveMessage(w.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: &w.deadLetterURL, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return received.Messages
}

// unacknowledged counts the messages in the FIFO queue, including those in flight.
func (w *world) unacknowledged() int {
	w.t.Helper()
	attributes, err := w.queues().GetQueueAttributes(w.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &w.queueURL, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	count := 0
	for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"} {
		n, err := strconv.Atoi(attributes.Attributes[name])
		if err != nil {
			w.t.Fatal(err)
		}
		count += n
	}
	return count
}

// notes returns the notes of a probe.
func (w *world) notes(instance string) string {
	w.t.Helper()
	record := w.record(instance)
	if record.Revision == 0 {
		return "no instance"
	}
	var snapshot struct {
		Context probe `json:"context"`
	}
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(snapshot.Context.Notes, ", ")
}

// wantParked checks that one message was parked: body and group are unchanged, and its attributes are complete.
func (w *world) wantParked(bad raw, sequenceNumber, reason string, receives int) {
	w.t.Helper()
	messages := w.parked()
	if len(messages) != 1 {
		w.t.Fatalf("want one parked message, got %d", len(messages))
	}
	message := messages[0]
	if *message.Body != bad.body {
		w.t.Errorf("want the body kept as it was, %.200q, got %.200q", bad.body, *message.Body)
	}
	if got := message.Attributes["MessageGroupId"]; got != bad.group {
		w.t.Errorf("want the group kept as it was, %q, got %q", bad.group, got)
	}
	got := map[string]string{}
	for name, value := range message.MessageAttributes {
		got[name] = *value.DataType + " " + *value.StringValue
	}
	if at, err := time.Parse("String 2006-01-02T15:04:05.000Z", got["sent_at"]); err != nil || time.Since(at) < 0 || time.Since(at) > 2*time.Hour {
		w.t.Errorf("want the time when it was sent, got %q", got["sent_at"])
	}
	delete(got, "sent_at")
	want := map[string]string{
		"reason": "String " + reason, "receive_count": "Number " + strconv.Itoa(receives), "sequence_number": "String " + sequenceNumber,
		"source_queue": "String arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":" + queueName,
	}
	for name := range want {
		if got[name] != want[name] {
			w.t.Errorf("the attribute %s of the parked message:\ngot  %s\nwant %s", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		w.t.Errorf("want the attributes %v, got %v", want, got)
	}
}
