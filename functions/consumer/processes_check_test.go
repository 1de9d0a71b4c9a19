package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// atRest is the state of an account with nothing pending.
var atRest = []string{"book.open", "clock.stopped", "crew.free", "till.shut"}

// compare returns the differences between the stored records and the model.
func (m *model) compare(ctx context.Context, store *dynamostore.Store) (differences []string) {
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	accounts, hands := map[string]bool{}, map[string]int{}
	records, err := readAll(ctx, store)
	if err != nil {
		return []string{err.Error()}
	}
	for _, record := range records {
		name := record.Instance.String()
		if left := leftOver(record); left != "" {
			differ("%s: %s", name, left)
		}
		if record.Instance.Machine == "hand" {
			hand, err := handOf(record)
			if err != nil {
				differ("%s: %v", name, err)
			}
			hands[hand]++
			continue
		}
		var snapshot struct{ Context account }
		if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
			differ("%s: %v", name, err)
			continue
		}
		accounts[name] = true
		if want := m.accounts[name]; want == nil || snapshot.Context != *want {
			differ("%s: \nwant %+v\n got %+v", name, want, snapshot.Context)
		}
		if record.Status != statechart.Active || !slices.Equal(record.State, atRest) {
			differ("%s: want status active in %v, got %s in %v", name, atRest, record.Status, record.State)
		}
	}
	for name := range m.accounts {
		if !accounts[name] {
			differ("%s: no record stored", name)
		}
	}
	if !reflect.DeepEqual(hands, m.hands) {
		differ("children: want %d, each once, got %d: %v", len(m.hands), len(hands), hands)
	}
	return differences
}

// readAll returns all records. It repeats a read if the connection breaks, as can happen on a machine under heavy load.
func readAll(ctx context.Context, store *dynamostore.Store) (records []instances.Record, err error) {
	for range 5 {
		records, err = nil, nil
		for record, failed := range store.List(ctx, dynamostore.Filter{}) {
			if failed != nil {
				err = failed
				break
			}
			records = append(records, record)
		}
		if err == nil {
			break
		}
	}
	return records, err
}

// leftOver describes a part of the record that a record at rest must not have, such as a timer. It returns "" if it
// finds no such part.
func leftOver(record instances.Record) string {
	var snapshot struct {
		Timers, Children map[string]json.RawMessage
		Deferred         []json.RawMessage
	}
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		return err.Error()
	}
	if record.Owes() {
		return fmt.Sprintf("want no effects to perform, got %d", len(record.Outbox))
	}
	for what, n := range map[string]int{
		"failed effects": len(record.FailedEffects), "events ignored": int(record.Ignored),
		"timers": len(snapshot.Timers), "children": len(snapshot.Children), "deferred events": len(snapshot.Deferred),
	} {
		if n > 0 {
			return fmt.Sprintf("want no %s, got %d", what, n)
		}
	}
	if record.Error != nil {
		return fmt.Sprintf("want no event parked, got %+v", *record.Error)
	}
	return ""
}

// handOf returns the parent of a child and the order that started the child.
func handOf(record instances.Record) (string, error) {
	var snapshot struct {
		Context order
		Output  int64
	}
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		return "", err
	}
	if want := snapshot.Context.Amount * snapshot.Context.Amount; record.Status != statechart.Done || snapshot.Output != want || record.Parent == nil {
		return "", fmt.Errorf("want a child that is done with output %d, got %s with %d and parent %v", want, record.Status, snapshot.Output, record.Parent)
	}
	return record.Parent.Instance + " " + snapshot.Context.ID(), nil
}

// comparePayments checks the service calls, each reported as key, instance and event. Every event must have at least
// one call. All its calls must use one idempotency key, and no other event may use that key.
func (m *model) comparePayments(reported map[string]int) (differences []string) {
	keys, events := map[string]string{}, map[string]string{}
	for line := range reported {
		key, event, _ := strings.Cut(line, " ")
		if other, ok := keys[event]; ok {
			differences = append(differences, fmt.Sprintf("the service was called for %s with key %s and with key %s", event, other, key))
		}
		if other, ok := events[key]; ok {
			differences = append(differences, fmt.Sprintf("the service was called with key %s for %s and for %s", key, event, other))
		}
		keys[event], events[key] = key, event
		if !m.payments[event] {
			differences = append(differences, fmt.Sprintf("the service was called for %s, which was never sent", event))
		}
	}
	for event := range m.payments {
		if keys[event] == "" {
			differences = append(differences, fmt.Sprintf("the service was not called for %s", event))
		}
	}
	return differences
}
