package gateway_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/job/webhook"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/canonicaljson"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	webhookSecret = "it's a secret to everybody"
	// previousSecret is still accepted. olderSecret is the one before it, and is no longer accepted.
	previousSecret = "it was a secret to everybody"
	olderSecret    = "an older secret to everybody"
	// taskToken is a task token in the records. No answer may show it.
	taskToken = "AAAAKgAAAAIAAAAAtoken"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// verify is the payload of VERIFY.
type verify struct {
	Code json.Number `json:"code"`
}

// Validate rejects a verification without a code, and panics for the code 666.
func (v verify) Validate() error {
	switch v.Code {
	case "":
		return errors.New("expected a code")
	case "666":
		panic("a bug in the payload's code, which quotes " + string(v.Code))
	default:
		return nil
	}
}

type signupContext struct {
	Email    string `json:"email"`
	Verified string `json:"verified,omitempty"`
}

// signup returns a machine with a timer, a payload with rules and an internal event.
func signup() durable.Machine {
	type on = statechart.Transition[signupContext]
	settled := []string{statechart.Settled}
	return durable.Host(statechart.Must(statechart.Definition[signupContext]{
		ID: "signup", Version: 3, Initial: "verifying",
		Context: func(statechart.Start) signupContext { return signupContext{Email: "ada@example.com"} },
		Payloads: statechart.Payloads{
			"VERIFY": statechart.PayloadOf[verify](), "RESEND": statechart.NoPayload(), "CHECKED": statechart.InternalOf[verify](),
		},
		States: []statechart.State[signupContext]{
			{ID: "verifying", Tags: settled,
				On:    []on{{Event: "VERIFY", Target: "active"}, {Event: "RESEND", Target: "verifying", Reenter: true}},
				After: []statechart.After[signupContext]{{Delay: time.Hour, Target: "active"}}},
			{ID: "active", Tags: settled, On: []on{{Event: "CHECKED", Target: "active"}}},
		},
	}), durable.MachineConfig{})
}

func machines(t *testing.T) *durable.Machines {
	t.Helper()
	set, err := durable.NewMachines(signup(), durable.Host(job.New(nil, job.Config{}), durable.MachineConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// queueARN is the ARN of the fake queue.
const queueARN = "arn:aws:sqs:eu-west-1:123456789012:events.fifo"

// queue is a producer.Queue that remembers deduplication IDs until forget is called. SQS remembers them for five
// minutes.
type queue struct {
	mu   sync.Mutex
	down error
	sent []durable.Message
	ids  map[string]int
}

func (q *queue) Enqueue(_ context.Context, message durable.Message) (messageID, sequenceNumber string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.down != nil {
		return "", "", q.down
	}
	number, ok := q.ids[message.DeduplicationID]
	if !ok {
		q.sent = append(q.sent, message)
		if q.ids == nil {
			q.ids = map[string]int{}
		}
		number = len(q.sent)
		q.ids[message.DeduplicationID] = number
	}
	return fmt.Sprintf("message-%d", number), fmt.Sprint(number), nil
}

func (q *queue) ARN(context.Context) (string, error) { return queueARN, q.down }

// forget drops all deduplication IDs, as SQS does after five minutes.
func (q *queue) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ids = nil
}

// table is an in-memory Store of records, aliases and reserved IDs.
type table struct {
	mu       sync.Mutex
	down     error
	records  map[instances.ID]instances.Record
	aliases  map[string]dynamostore.Redemption
	reserved map[reservation]string
	loads    int
}

// change changes the record of signup/id.
func (s *table) change(id string, change func(*instances.Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := instances.ID{Machine: "signup", ID: id}
	record := s.records[name]
	change(&record)
	s.records[name] = record
}

// fail makes each call of the table return the error. If the error is nil, the table works again.
func (s *table) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// reservation is the key of a reserved ID.
type reservation struct {
	to instances.ID
	id string
}

// Reserve never lets a reservation expire.
func (s *table) Reserve(_ context.Context, to instances.ID, eventID string, event json.RawMessage, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest, err := canonicaljson.EventDigest(event)
	if err != nil || s.down != nil {
		return errors.Join(err, s.down)
	}
	key := reservation{to, eventID}
	if known, ok := s.reserved[key]; ok && known != digest {
		return fmt.Errorf("%w: %q to %s", dynamostore.ErrIDReused, eventID, to)
	}
	if s.reserved == nil {
		s.reserved = map[reservation]string{}
	}
	s.reserved[key] = digest
	return nil
}

func (s *table) Find(_ context.Context, alias string) (instances.ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	redemption, known := s.aliases[alias]
	if !known && s.down == nil {
		return instances.ID{}, dynamostore.ErrNoAlias
	}
	return redemption.Instance, s.down
}

// Redeem stores the first redemption of an alias, and returns it with First set. Later calls return the stored
// redemption without First.
func (s *table) Redeem(_ context.Context, alias string, id instances.ID, event json.RawMessage, by string) (dynamostore.Redemption, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	redemption := s.aliases[alias]
	if s.down != nil || redemption.Instance != id || redemption.Released || redemption.Event != nil {
		return redemption, s.down
	}
	redemption.Event, redemption.By = event, by
	s.aliases[alias] = redemption
	redemption.First = true
	return redemption, nil
}

// claim gives the alias to the instance.
func (s *table) claim(alias, id string) {
	if s.aliases == nil {
		s.aliases = map[string]dynamostore.Redemption{}
	}
	s.aliases[alias] = dynamostore.Redemption{Instance: instances.ID{Machine: "signup", ID: id}}
}

func (s *table) Load(_ context.Context, id instances.ID) (instances.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	if record, ok := s.records[id]; ok && s.down == nil {
		return record, nil
	}
	return instances.Record{Instance: id}, s.down
}

// put stores signup/id at the given revision, with secrets in every field that may hold one.
func (s *table) put(t *testing.T, id string, revision int64) {
	t.Helper()
	name := instances.ID{Machine: "signup", ID: id}
	instance, effects, err := signup().Start(statechart.Start{Instance: name.String(), At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := instance.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	effects[0].Event = json.RawMessage(`{"type":"X","$task":{"token":"` + taskToken + `"}}`)
	snapshot = append(bytes.TrimSuffix(snapshot, []byte("}")), `,"tokens":{"signup":{"token":"`+taskToken+`"}}}`...)
	if s.records == nil {
		s.records = map[instances.ID]instances.Record{}
	}
	s.records[name] = instances.Record{
		Instance: name, Revision: revision, Snapshot: snapshot, State: instance.State(), Status: instance.Status(),
		CreatedAt: epoch, UpdatedAt: epoch.Add(time.Minute), Outbox: effects, Ignored: 2,
		History:  []instances.Transition{{At: epoch, Event: "RESEND", From: []string{"verifying"}, To: []string{"verifying"}}},
		Error:    &instances.Failure{At: epoch, Event: "VERIFY", Message: `wrong payload: "{\"$task\":{\"token\":\"` + taskToken + `"`},
		Attempts: []instances.Attempt{{Queue: queueARN, SequenceNumber: "1", Count: 1}},
	}
}

// world is an API with its queue, table and log.
type world struct {
	// Handler is the API. It compares its answers with the OpenAPI document.
	http.Handler
	api   http.Handler
	queue queue
	table table
	log   bytes.Buffer
}

func newWorld(t *testing.T, config gateway.Config) *world {
	t.Helper()
	w := &world{}
	config.Logger = slog.New(slog.NewTextHandler(&lockedWriter{to: &w.log}, nil))
	handler, err := gateway.New(machines(t), &w.queue, &w.table, config)
	if err != nil {
		t.Fatal(err)
	}
	w.Handler, w.api = documented(t, handler), handler
	return w
}

// lockedWriter is a writer for concurrent requests.
type lockedWriter struct {
	mu sync.Mutex
	to *bytes.Buffer
}

func (l *lockedWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(line)
}

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// github returns the webhook of GitHub, which accepts the given secret. If the secret is webhookSecret, the webhook
// also accepts previousSecret.
func github(secret string) map[string]gateway.Webhook {
	secrets := gateway.Secrets{Current: []byte(secret)}
	if secret == webhookSecret {
		secrets.Previous = []byte(previousSecret)
	}
	return map[string]gateway.Webhook{webhook.Name: webhook.GitHub(secrets)}
}

// webhookHeader is the header that GitHub sends with a signed workflow_job webhook.
func webhookHeader(body []byte) http.Header {
	return http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"workflow_job"},
		"X-Github-Delivery": {"72d3162e-cc78-11e3-81ab-4c9367dc0958"}, "X-Hub-Signature-256": {sign(webhookSecret, body)},
	}
}

// withHeader returns a copy of the header with the named field set to the value. If the value is "", it removes the
// field.
func withHeader(header http.Header, name, value string) http.Header {
	header = maps.Clone(header)
	header.Del(name)
	if value != "" {
		header.Set(name, value)
	}
	return header
}
