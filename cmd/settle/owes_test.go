package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// A consumer that dies between its commit and its effects leaves a settled instance with effects to perform.
func TestResumePerformsCommittedEffects(t *testing.T) {
	t.Parallel()
	for name, owe := range map[string]func(*instances.Record){
		"an effect": func(record *instances.Record) {
			record.Outbox = []statechart.Effect{{ID: "9.0", Kind: statechart.Send, To: "work/2", Event: json.RawMessage(`{"type": "START"}`)}}
		},
		"the answer to a task": func(record *instances.Record) {
			record.Tokens = []instances.Token{{Key: "k", Value: "token", Name: "Wait", EnteredAt: record.UpdatedAt, Answer: &instances.Answer{Output: json.RawMessage(`{}`)}}}
		},
	} {
		withWork(t, &work{}, func(u user) {
			u.must("send", "--local", "work/1", "START", "--wait", "rested")
			store, id := dynamostore.New(dynamodb.NewFromConfig(u.stack.AWS()), stack.Table), instances.ID{Machine: "work", ID: "1"}
			load := func() instances.Record {
				record, err := store.Load(u.t.Context(), id)
				if err != nil {
					u.t.Fatal(err)
				}
				return record
			}
			record := load()
			record.Revision++
			owe(&record)
			if err := store.Commit(u.t.Context(), record); err != nil {
				u.t.Fatal(err)
			}
			contains(u.t, u.must("resume", "--local", "work/1"), "sent resume to work/1 as message ", "\nwork/1 is in ready, settled, revision 2\n")
			time.Sleep(time.Minute)
			if left := load(); len(left.Outbox) > 0 || len(left.Tokens) > 0 {
				u.t.Errorf("%s: expected no pending effects, got %+v and %+v", name, left.Outbox, left.Tokens)
			}
			if name == "an effect" {
				contains(u.t, u.must("get", "--local", "work/2"), "state     ready\n")
			}
			contains(u.t, u.must("resume", "--local", "work/1"), "nothing to resume\n")
		})
	}
}

// A backup may contain an instance that has ended but has not performed its last effects. bulk rearm makes a consumer
// perform them. It skips ended instances without effects.
func TestBulkRearmPerformsTheEffectsOfEndedInstances(t *testing.T) {
	t.Parallel()
	withMachines(t, relay(), func(u user) {
		u.must("send", "--local", "relay/1", "END")
		u.must("send", "--local", "relay/2", "END")
		time.Sleep(time.Hour)
		store, id := dynamostore.NewIndexed(dynamodb.NewFromConfig(u.stack.AWS()), stack.Table), instances.ID{Machine: "relay", ID: "2"}
		record, err := store.Load(u.t.Context(), id)
		if err != nil {
			u.t.Fatal(err)
		}
		record.Revision++
		record.Outbox = []statechart.Effect{{ID: "9.0", Kind: statechart.Send, To: "work/1", Event: json.RawMessage(`{"type": "START"}`)}}
		if err := store.Commit(u.t.Context(), record); err != nil {
			u.t.Fatal(err)
		}
		rearm := []string{"bulk", "rearm", "--local", "--machine", "relay", "--yes", "--journal", filepath.Join(u.t.TempDir(), "journal")}
		contains(u.t, u.must(append(rearm, "--dry-run")...), "1 instance would be processed")
		contains(u.t, u.must(rearm...), "1 instance: 1 changed, 0 skipped, 0 failed.\n")
		time.Sleep(time.Minute)
		if record, err = store.Load(u.t.Context(), id); err != nil || record.Owes() {
			u.t.Errorf("expected no pending effects, got %+v and %v", record.Outbox, err)
		}
		contains(u.t, u.must("get", "--local", "work/1"), "state     ready\n")
	})
}
