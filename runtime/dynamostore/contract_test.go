package dynamostore_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

var (
	id      = instances.ID{Machine: "signup", ID: "42"}
	created = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// testContract tests the promises of durable.Store through its interface alone. newStore returns an empty store.
func testContract(t *testing.T, newStore func(*testing.T) durable.Store) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(contract)
	}{
		{"an instance that was never stored has revision 0", contract.loadAbsent},
		{"a full record loads as it was stored", contract.roundTrip},
		{"a record without a snapshot loads without one", contract.noSnapshot},
		{"a first commit is refused if there is a record", contract.firstCommitConflict},
		{"a commit on a stale revision is refused and changes nothing", contract.staleCommit},
		{"one of several concurrent writers wins", contract.concurrentWriters},
		{"a record that is too large is refused and changes nothing", contract.tooLarge},
		{"clearing the outbox keeps everything else", contract.clearOutbox},
		{"clearing the outbox of another revision is refused", contract.clearOutboxConflict},
		{"instances are independent", contract.instancesApart},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(contract{t, newStore(t)})
		})
	}
}

// contract is one test of testContract. Its store is empty at first.
type contract struct {
	t     *testing.T
	store durable.Store
}

func (c contract) loadAbsent() {
	wantRecord(c.t, c.store, instances.Record{Instance: id})
}

func (c contract) roundTrip() {
	want := fullRecord(1)
	mustCommit(c.t, c.store, want)
	wantRecord(c.t, c.store, want)

	// The second commit must remove everything that the first one stored.
	want = smallRecord(id, 2)
	mustCommit(c.t, c.store, want)
	wantRecord(c.t, c.store, want)
}

func (c contract) noSnapshot() {
	want := instances.Record{
		Instance: id, Revision: 1, CreatedAt: created, UpdatedAt: created,
		Error: &instances.Failure{At: created, Event: "VERIFY", Message: "signup/42 does not exist"},
	}
	mustCommit(c.t, c.store, want)
	wantRecord(c.t, c.store, want)
}

func (c contract) firstCommitConflict() {
	first := smallRecord(id, 1)
	mustCommit(c.t, c.store, first)
	second := smallRecord(id, 1)
	second.State = []string{"elsewhere"}
	wantConflict(c.t, c.store.Commit(c.t.Context(), second))
	wantRecord(c.t, c.store, first)
}

func (c contract) staleCommit() {
	wantConflict(c.t, c.store.Commit(c.t.Context(), smallRecord(id, 2))) // nothing is stored yet
	wantRecord(c.t, c.store, instances.Record{Instance: id})
	mustCommit(c.t, c.store, smallRecord(id, 1))
	mustCommit(c.t, c.store, smallRecord(id, 2))
	wantConflict(c.t, c.store.Commit(c.t.Context(), smallRecord(id, 2)))
	wantConflict(c.t, c.store.Commit(c.t.Context(), smallRecord(id, 4)))
	wantRecord(c.t, c.store, smallRecord(id, 2))
}

func (c contract) concurrentWriters() {
	mustCommit(c.t, c.store, smallRecord(id, 1))
	const writers = 8
	errs := make([]error, writers)
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() { errs[i] = c.store.Commit(c.t.Context(), smallRecord(id, 2)) })
	}
	wait.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			wantConflict(c.t, err)
		}
	}
	if won != 1 {
		c.t.Errorf("%d of %d writers committed revision 2, want 1", won, writers)
	}
}

func (c contract) tooLarge() {
	mustCommit(c.t, c.store, smallRecord(id, 1))
	large := smallRecord(id, 2)
	large.Snapshot = json.RawMessage(`{"version": 1, "status": "active", "context": "` + strings.Repeat("x", 1<<20) + `"}`)
	var tooLarge *durable.TooLargeError
	if err := c.store.Commit(c.t.Context(), large); !errors.As(err, &tooLarge) {
		c.t.Fatalf("got %v, want a *durable.TooLargeError", err)
	}
	if tooLarge.Bytes <= tooLarge.BytesMax || tooLarge.Bytes < 1<<20 {
		c.t.Errorf("got %+v, want the size, above the limit", tooLarge)
	}
	wantRecord(c.t, c.store, smallRecord(id, 1))
}

func (c contract) clearOutbox() {
	want := fullRecord(1)
	mustCommit(c.t, c.store, want)
	large := instances.FailedEffect{ID: "7.1", Kind: statechart.Send, At: created, Error: strings.Repeat("x", 1<<20)}
	if err := c.store.ClearOutbox(c.t.Context(), id, 1, durable.Left{FailedEffects: []instances.FailedEffect{large}}); !errors.Is(err, durable.ErrUnstorable) {
		c.t.Errorf("got %v, want durable.ErrUnstorable", err)
	}
	failed := []instances.FailedEffect{{ID: "7.1", Kind: statechart.Send, At: created, Target: "job/1", Error: "no", Data: json.RawMessage(`{"type": "GO", "n": 9007199254740993}`), DataBytes: 36}}
	for _, left := range []durable.Left{
		{Outbox: want.Outbox[1:], Tokens: want.Tokens[1:], Executions: want.Executions[1:], DeniedSince: created},
		{FailedEffects: failed, Executions: want.Executions[:1]},
		{FailedEffects: failed, ExpireAt: created.Add(time.Hour)},
		{FailedEffects: failed, WithoutHistory: true},
		{},
	} {
		if err := c.store.ClearOutbox(c.t.Context(), id, want.Revision, left); err != nil {
			c.t.Fatal(err)
		}
		want.Revision++
		want.Outbox, want.Tokens, want.Executions = left.Outbox, left.Tokens, left.Executions
		want.FailedEffects, want.DeniedSince, want.ExpireAt = left.FailedEffects, left.DeniedSince, left.ExpireAt
		if left.WithoutHistory {
			want.History = nil
		}
		for _, list := range []int{len(want.Outbox), len(want.Tokens), len(want.Executions)} {
			if list == 0 { // empty lists load as nil
				want = nilled(want)
			}
		}
		wantRecord(c.t, c.store, want)
	}
	wantConflict(c.t, c.store.ClearOutbox(c.t.Context(), id, 1, durable.Left{})) // the first call raised the revision
}

// nilled returns the record with its empty lists set to nil.
func nilled(record instances.Record) instances.Record {
	if len(record.Outbox) == 0 {
		record.Outbox = nil
	}
	if len(record.Tokens) == 0 {
		record.Tokens = nil
	}
	if len(record.Executions) == 0 {
		record.Executions = nil
	}
	return record
}

func (c contract) clearOutboxConflict() {
	wantConflict(c.t, c.store.ClearOutbox(c.t.Context(), id, 1, durable.Left{}))
	wantRecord(c.t, c.store, instances.Record{Instance: id})
	want := fullRecord(1)
	mustCommit(c.t, c.store, want)
	wantConflict(c.t, c.store.ClearOutbox(c.t.Context(), id, 2, durable.Left{}))
	wantRecord(c.t, c.store, want)
}

func (c contract) instancesApart() {
	other := instances.ID{Machine: "job", ID: "42"}
	mustCommit(c.t, c.store, smallRecord(id, 1))
	mustCommit(c.t, c.store, smallRecord(other, 1))
	mustCommit(c.t, c.store, smallRecord(other, 2))
	wantRecord(c.t, c.store, smallRecord(id, 1))
	wantRecord(c.t, c.store, smallRecord(other, 2))
}

func smallRecord(id instances.ID, revision int64) instances.Record {
	return instances.Record{
		Instance: id, Revision: revision, Status: statechart.Active,
		Snapshot:  json.RawMessage(`{"machine": "` + id.Machine + `", "version": 1, "status": "active"}`),
		CreatedAt: created, UpdatedAt: created.Add(time.Duration(revision) * time.Second),
	}
}

// fullRecord sets every field, and uses every JSON type in its snapshot.
func fullRecord(revision int64) instances.Record {
	at := created.Add(1234 * time.Millisecond)
	return instances.Record{
		Instance: id, Revision: revision, Status: statechart.Done,
		Snapshot: json.RawMessage(`{
			"machine": "signup", "version": 3, "status": "done",
			"value": {"unverified": {"mail": "sent", "clock": "running"}},
			"context": {
				"email": "ada@example.org", "name": "", "note": null, "ok": true, "off": false,
				"list": [], "map": {}, "mixed": [1, "two", null, {"three": [3.5]}], "\u00e9 <&>\u2028": "\ud83d\ude00\u0000\n",
				"id": 9007199254740993, "price": -12.50, "tiny": 1e-130, "huge": 9.9e125, "zero": 0.0,
				"long": 12345678901234567890123456789012345678
			},
			"tags": ["settled"], "historyValue": {"a.hist": ["a.b"]}, "steps": 7,
			"timers": {"3.0": {"state": "unverified", "after": "1d", "at": "2026-03-02T12:00:00.5Z"}},
			"services": {"2.1": {"id": "mail", "state": "registering", "service": "sendVerification", "attempt": 2}},
			"children": {"mailer": {"key": "2.2", "machine": "mail"}, "unverified": {"key": "3.1", "machine": "job", "state": "unverified"}},
			"deferred": [{"id": "p-1", "event": {"type": "VERIFY", "code": 1234}}, {"event": {"type": "RESEND"}}],
			"output": {"outcome": "active"},
			"error": {"of": "the snapshot"}, "somethingNew": [1]
		}`),
		State:     []string{"unverified.mail.sent", "unverified.clock.running"},
		CreatedAt: created, UpdatedAt: at, ExpireAt: created.Add(24 * time.Hour), BacklogSince: created.Add(time.Second),
		Watermark: map[string]string{"arn:aws:sqs:eu-central-1:123456789012:events.fifo": "18849496460467696128"},
		Lane:      "bulk", Moving: &instances.LaneMove{Lane: "main", Number: 6},
		Forwarded:    map[string]string{"arn:aws:sqs:eu-central-1:123456789012:bulk.fifo": "18849496460467696129"},
		RecentEvents: []string{"e-1", "e-2"},
		History: []instances.Transition{
			{At: created, Event: "SIGN_UP", From: []string{"new"}, To: []string{"registering"}},
			{At: at, Event: "RESEND", From: []string{"registering"}, To: []string{"registering"}, Ignored: true},
		},
		Ignored: 3, Skipped: 2,
		LastSends: map[string][]instances.LastSend{"arn:aws:sqs:eu-central-1:123456789012:events.fifo": {{Sender: "job/1@1767322800000", ID: "3.0"}}},
		FailedEffects: []instances.FailedEffect{
			{ID: "6.0", Kind: statechart.Send, At: created, Target: "job/2", Error: "denied", Data: json.RawMessage(`{"type": "GO", "n": 1.5}`), DataBytes: 24, Report: instances.ReportReceived},
			{ID: "6.1", Kind: statechart.ClaimAlias, At: created, Error: "refused"},
		},
		Tokens: []instances.Token{
			{Key: "k1", Value: "a token", Name: "Queued", Execution: "an ARN", EnteredAt: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC),
				TimeoutSeconds: 300, HeartbeatSeconds: 60, Answer: &instances.Answer{Output: []byte(`{"outcome":"x"}`)}},
			{Key: "k2", Value: "another", Name: "Queued", EnteredAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Answer: &instances.Answer{Error: "E", Cause: "C"}},
			{Key: "k3", Value: "third", Name: "InProgress", EnteredAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		},
		Executions: []instances.Execution{
			{Name: "settle-signup-42-x", Workflow: "report", Event: "report.ended", StartedAt: created, ARN: "an ARN"},
			{Name: "settle-signup-42-y", Workflow: "audit", Event: "audit.ended", StartedAt: created,
				Refused: &instances.Refusal{Error: "E", Cause: "C"}},
		},
		Parent:  &instances.Parent{Instance: "order/1", Incarnation: 1772366400000, Child: "3.0"},
		Aliases: []string{"provider/7c"},
		Outbox: []statechart.Effect{
			{ID: "7.0", Kind: statechart.Schedule, Timer: "7.0", At: at.Add(time.Nanosecond)},
			{ID: "7.1", Kind: statechart.Send, To: "job/1", Event: json.RawMessage(`{"type": "GO", "n": 9007199254740993}`)},
			{ID: "7.2", Kind: statechart.EmitEvent, Event: json.RawMessage(`{"type": "MOVED"}`)},
			{ID: "7.3", Kind: statechart.SpawnInstance, Child: "7.3", Machine: "job", Input: json.RawMessage(`[1]`)},
		},
		Attempts: []instances.Attempt{{Queue: "arn:aws:sqs:eu-central-1:123456789012:events.fifo", SequenceNumber: "18849496460467696129", Count: 2}},
		Error:    &instances.Failure{At: at, Event: "VERIFY", Message: "tried 3 times"},
	}
}

func mustCommit(t *testing.T, store durable.Store, record instances.Record) {
	t.Helper()
	if err := store.Commit(t.Context(), record); err != nil {
		t.Fatal(err)
	}
}

func wantConflict(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, durable.ErrConflict) {
		t.Errorf("got %v, want durable.ErrConflict", err)
	}
}

func wantRecord(t *testing.T, store durable.Store, want instances.Record) {
	t.Helper()
	got, err := store.Load(t.Context(), want.Instance)
	if err != nil {
		t.Fatal(err)
	}
	wantSameRecord(t, got, want)
}

func wantSameRecord(t *testing.T, got, want instances.Record) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(sameJSON)); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

// sameJSON compares JSON by value: numbers exactly, objects regardless of the order of their keys. An empty text
// equals only another empty text.
func sameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return reflect.DeepEqual(tree(a), tree(b))
}

func tree(data json.RawMessage) any {
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	return exact(value)
}

// exact replaces each number with a fraction, because fractions have a unique form.
func exact(value any) any {
	switch value := value.(type) {
	case json.Number:
		fraction, _ := new(big.Rat).SetString(value.String())
		return fraction.String()
	case []any:
		for i := range value {
			value[i] = exact(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = exact(value[key])
		}
	}
	return value
}
