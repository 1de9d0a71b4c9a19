package durable_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// ledger checks that the loop performs an effect only after the commit that contains it.
type ledger struct {
	// committed maps derived IDs of stored effects to their kinds.
	committed map[string]string
	// performed counts how often each effect was performed, by derived ID.
	performed map[string]int
	// inOrder lists the derived IDs in the order of their first performance.
	inOrder    []string
	violations []string
}

// commit adds the effects of a stored record. They may be performed from now on.
func (l *ledger) commit(record instances.Record) {
	for _, effect := range record.Outbox {
		l.committed[derivedID(record, effect.ID)] = string(effect.Kind)
	}
	for _, token := range record.Tokens {
		l.committed[derivedID(record, "token."+token.Key)] = string(statechart.Schedule)
	}
	for _, execution := range record.Executions {
		l.committed[derivedID(record, "execution."+execution.Name)] = string(statechart.Schedule)
	}
}

func derivedID(record instances.Record, id string) string {
	return fmt.Sprintf("%s@%d/%s", record.Instance, record.CreatedAt.UnixMilli(), id)
}

func (l *ledger) perform(message durable.Message) {
	id := message.DeduplicationID
	if strings.Contains(id, "/migrated.") {
		return // This message wakes an instance whose migration is not stored yet.
	}
	known := strings.TrimSuffix(id, ".failed") // Strip the suffix of the report that an effect has failed.
	if strings.Contains(id, "/token.") {
		known = id[:strings.LastIndexByte(id, '.')] // This timer belongs to a waiting task.
	} else if strings.Contains(id, "/execution.") {
		known = id[:strings.LastIndexByte(id, '.')] // This timer belongs to a running execution.
	}
	known = strings.TrimSuffix(known, ".failed") // Strip the suffix of the report that a child could not start.
	if _, ok := l.committed[known]; !ok {
		l.violations = append(l.violations, fmt.Sprintf("effect %s to %s performed before its commit", id, message.To))
	}
	if l.performed[id]++; l.performed[id] == 1 {
		l.inOrder = append(l.inOrder, id)
	}
}

// unperformed returns the sends and emits that were committed but never performed, sorted. It skips timers, because a
// commit drops unneeded ones.
func (l *ledger) unperformed() (ids []string) {
	for id, kind := range l.committed {
		isMessage := slices.Contains([]string{string(statechart.Send), string(statechart.EmitEvent), string(statechart.SpawnInstance), string(statechart.StopInstance), "refuse", "end", "end.stopped"}, kind)
		if isMessage && l.performed[id] == 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
