package durable

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/stepcount"
	"github.com/settle-run/settle/runtime/statechart"
)

// Rearm prepares the record of an instance that was restored from a backup. Store the result as the next revision.
// It makes these changes:
//
//   - It raises the count of steps to the time in microseconds, so every ID that derives from the count is new.
//   - It adds effects that ask again for the instance's timers, aliases, tasks and executions, or notify its parent.
//   - If newQueue, the ARN of a queue that replaces lost ones, is set, it drops positions in earlier queues.
//
// Rearm returns the record of an ended instance unchanged if there is no parent to notify, no position to drop and no
// move to end. Rearm migrates nothing, and fails as Machines.Restore does. Call it after each restore, each time with a
// later now.
func Rearm(machines *Machines, record instances.Record, now time.Time, newQueue string) (instances.Record, error) {
	_, instance, err := machines.Restore(record)
	if err != nil {
		return instances.Record{}, err
	}
	isOnEarlier := newQueue != "" && len(record.Watermark)+len(record.Attempts) > 0
	if isOnEarlier {
		record = onNewQueue(record, newQueue)
	}
	notifies := record.Parent != nil && instance.Status() != statechart.Active
	if instance.Status() != statechart.Active && !notifies && record.Moving == nil {
		if isOnEarlier {
			record.Revision++
		}
		return record, nil
	}
	// An instance takes less than a million steps a second, so the new count is above every earlier one.
	snapshot, steps, err := stepcount.Raise(record.Snapshot, now.UnixMicro())
	if err != nil {
		return instances.Record{}, &statechart.UnreadableError{Err: err}
	}
	at := now.UTC().Truncate(time.Millisecond)
	record.Snapshot, record.UpdatedAt = snapshot, at
	record.OutboxRevision = 0        // The event may have been acknowledged since the backup.
	record.DeniedSince = time.Time{} // The outbox starts anew. See Config.DeniedWaitMax.
	record.Revision++
	outbox := slices.Clip(record.Outbox)
	ask := func(effect statechart.Effect) {
		effect.ID = fmt.Sprintf("rearm.%d.%d", steps, len(outbox))
		outbox = append(outbox, effect)
	}
	for _, timer := range instance.Timers() {
		ask(statechart.Effect{Kind: statechart.Schedule, Timer: timer.ID, At: timer.At})
	}
	for _, alias := range record.Aliases {
		ask(statechart.Effect{Kind: statechart.ClaimAlias, Name: alias})
	}
	record.Tokens = slices.Clone(record.Tokens)
	for i := range record.Tokens {
		token := &record.Tokens[i]
		token.Expired = false // The message about the expiry may have been acknowledged since the backup. The heartbeat finds the expiry again.
		if waits(*token) {
			ask(statechart.Effect{Kind: heartbeat, Name: token.Key, At: at})
		}
	}
	for _, execution := range record.Executions {
		ask(statechart.Effect{Kind: poll, Name: execution.Name, At: at})
	}
	if record.Moving != nil {
		ask(statechart.Effect{Kind: endLaneMove}) // The message may have been acknowledged since the backup.
	}
	switch {
	case notifies && instance.Status() == statechart.Done:
		ask(statechart.Effect{Kind: notifyParent})
	case notifies: // If the parent has stopped the child itself, it ignores this message.
		ask(statechart.Effect{Kind: notifyStopped, Message: fmt.Sprintf("%s was stopped", record.Instance)})
	}
	record.Outbox = outbox
	if record.Owes() {
		record.ExpireAt = time.Time{} // The loop sets ExpireAt again once the record owes nothing.
	}
	record.FailedEffects = slices.Clone(record.FailedEffects)
	for i := range record.FailedEffects {
		if failed := &record.FailedEffects[i]; failed.Report == instances.ReportSent {
			failed.Report = instances.ReportUnsent // The report may have been acknowledged since the backup.
		}
	}
	return record, nil
}

// onNewQueue returns the record without the watermarks of earlier queues. The sequence numbers of a new queue start
// over, even if the queue has the name of a lost one. The last sends move to the new queue, because a sender repeats a
// pending send there. Pending decisions to park or forward events are dropped with their queue. The instance gets the
// main lane.
func onNewQueue(record instances.Record, queue string) instances.Record {
	record.Watermark, record.Attempts = nil, nil
	record.Lane, record.Moving, record.Forwarded = "", nil, nil
	record.RecentEvents = without(record.RecentEvents, func(known string) bool {
		return strings.HasPrefix(known, appliedAt(instances.Place{Queue: queue}))
	})
	record.Outbox = without(record.Outbox, func(effect statechart.Effect) bool {
		return effect.Kind == parkDelivery || effect.Kind == forwardDelivery || effect.Kind == endLaneMove
	})
	var sends []instances.LastSend
	for _, earlier := range slices.Sorted(maps.Keys(record.LastSends)) {
		for _, send := range record.LastSends[earlier] {
			isOfSender := func(s *instances.LastSend) bool { return s.Sender == send.Sender }
			if last, known := find(sends, isOfSender); !known || send.After(last) {
				sends = append(without(sends, func(s instances.LastSend) bool { return isOfSender(&s) }), send)
			}
		}
	}
	if record.LastSends = nil; len(sends) > 0 {
		record.LastSends = map[string][]instances.LastSend{queue: sends}
	}
	return record
}
