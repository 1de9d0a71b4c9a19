package durable_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// ledger checks what the loop asks of the outside against what it has stored.
type ledger struct {
	// committed is, by derived ID, the instance whose stored outbox held the effect.
	committed map[string]string
	// performed counts the performances, by derived ID.
	performed map[string]int
	// inOrder is the derived IDs in the order of their first performance.
	inOrder    []string
	violations []string
}

// commit notes the effects that a stored record may perform from now on.
func (l *ledger) commit(record durable.Record) {
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

func derivedID(record durable.Record, id string) string {
	return fmt.Sprintf("%s@%d/%s", record.Instance, record.CreatedAt.UnixMilli(), id)
}

func (l *ledger) perform(message durable.Message) {
	id := message.DeduplicationID
	known := strings.TrimSuffix(id, ".failed") // The report of an effect that was committed.
	if strings.Contains(id, "/token.") {
		known = id[:strings.LastIndexByte(id, '.')] // What follows from a token that is held,
	} else if strings.Contains(id, "/execution.") {
		known = id[:strings.LastIndexByte(id, '.')] // or from an execution that is waited for.
	}
	known = strings.TrimSuffix(known, ".failed") // A start that failed, of the child that was spawned.
	if _, ok := l.committed[known]; !ok {
		l.violations = append(l.violations, fmt.Sprintf("effect %s to %s performed before its commit", id, message.To))
	}
	if l.performed[id]++; l.performed[id] == 1 {
		l.inOrder = append(l.inOrder, id)
	}
}

// unperformed returns the sends and emits that were committed and never performed, sorted. Timers
// may be pruned instead.
func (l *ledger) unperformed() (ids []string) {
	for id, kind := range l.committed {
		isMessage := slices.Contains([]string{string(statechart.Send), string(statechart.EmitEvent), string(statechart.SpawnInstance), string(statechart.StopInstance), "refuse", "end"}, kind)
		if isMessage && l.performed[id] == 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
