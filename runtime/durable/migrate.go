package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/settle-run/settle/runtime/statechart"
)

// migrate adds the effects of a migration to the draft. The turn stores the draft even if all deliveries are
// duplicates, because another delivery might never arrive. Another process may acknowledge those duplicates before the
// turn has performed its effects. So migrate first sends the instance a message that wakes it: the event of a timer
// that the instance does not have.
func (t *turn) migrate(ctx context.Context) error {
	owed, from, settles := owedTo(t.stored.Record.Snapshot, t.machine, t.stored.Instance)
	if from > 0 {
		t.loop.config.Logger.InfoContext(ctx, "migrating", "instance", t.draft.Record.Instance.String(), "from_version", from, "to_version", t.machine.Version())
	}
	if len(owed) == 0 && !settles {
		return nil
	}
	t.draft.Record.Outbox = slices.Concat(t.draft.Record.Outbox, owed)
	t.changed()
	name := fmt.Sprintf("migrated.%d", t.machine.Version())
	return t.loop.send(ctx, t.draft.Record.Instance, timerEvent{statechart.TimerEvent, name, t.incarnation()}, t.derivedID(name), nil)
}

// replay takes and stores a step for deferred events that no state of this build defers. Another build deferred them, and
// the next delivery must not overtake them. The step comes before the delivery's own step, so the two share no limit, and
// the deferred events do not answer the delivery's task.
//
// The caller must be about to apply the delivery. If another process then acknowledges the delivery, it has committed
// first, and the commit of this turn fails. But a duplicate, or a periodic message that takes no step, may be
// acknowledged without a commit. Then nothing would wake the instance to perform the effects of the replay.
//
// Like a try, a replay is counted before the chart's code runs, because the code may kill the process. If the process
// survives, replay takes the count back.
func (t *turn) replay(ctx context.Context, d Delivery, event statechart.Event) (replayed bool, err error) {
	if t.draft.Instance == nil || !t.draft.Instance.Defers() {
		return false, nil
	}
	was := attemptOf(t.draft.Record, d)
	counted, err := t.countTry(ctx, d, false, false)
	if err != nil {
		return false, err
	}
	if d.ReceiveCount > 1 {
		t.count(was)
	}
	if counted > t.loop.config.AbandonedMax {
		return false, nil // The delivery's own try parks it.
	}
	before := t.draft
	err = t.step(statechart.Event{Type: statechart.TimerEvent, At: t.loop.config.Now()}, "")
	if replayed = err == nil && t.draft.Record.Ignored == before.Record.Ignored; replayed && isPeriodic(event.Type) {
		after := t.draft
		t.draft = before
		replayed, t.draft = t.takesStep(ctx, d, event), after
	}
	if replayed {
		err = t.commit(ctx)
	}
	if !replayed || errors.Is(err, ErrUnstorable) {
		// The deferred events wait for a step that releases them or makes room. The delivery's own step meets the error
		// again.
		t.draft, t.broken, err = before, nil, nil
		return false, err
	}
	return err == nil, err
}

// takesStep reports whether a message of the loop itself makes the chart take a step.
func (t *turn) takesStep(ctx context.Context, d Delivery, event statechart.Event) bool {
	before := len(t.draft.transitions)
	err := t.apply(ctx, d, event)
	return err == nil && len(t.draft.transitions) > before
}

// owedTo returns the effects that a migration requires. The first commit on the new version puts them into the
// outbox:
//
//   - The timers of an instance that was stored while a service ran. While an instance is
//     unsettled, the loop serves its timers in process. On the new version, they may have to
//     fire through the queue.
//   - An effect that stops a child that the instance no longer has.
//
// `from` is the version that stored the snapshot, or 0 if the machine's own version stored it. `settles` reports that
// the instance was stored unsettled and is settled after the migration. The loop then stores this without waiting for
// an event.
func owedTo(snapshot json.RawMessage, machine Machine, instance Instance) (owed []statechart.Effect, from int, settles bool) {
	if !migratesFrom(machine, machine.Version()-1) {
		return nil, 0, false
	}
	var stored struct {
		Version  int                        `json:"version"`
		Services map[string]json.RawMessage `json:"services"`
		Children map[string]struct {
			Key     string `json:"key"`
			Machine string `json:"machine"`
		} `json:"children"`
	}
	if err := json.Unmarshal(snapshot, &stored); err != nil || stored.Version == machine.Version() {
		return nil, 0, false // There was no migration.
	}
	if len(stored.Services) > 0 {
		for _, timer := range instance.Timers() {
			owed = append(owed, statechart.Effect{ID: timer.ID, Kind: statechart.Schedule, Timer: timer.ID, At: timer.At})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(stored.Children)) {
		child := stored.Children[id]
		isKept := func(ref statechart.ChildRef) bool { return ref.Key == child.Key }
		if !slices.ContainsFunc(instance.Children(), isKept) {
			owed = append(owed, statechart.Effect{ID: "child." + child.Key + ".stop", Kind: statechart.StopInstance, Child: child.Key, Machine: child.Machine})
		}
	}
	return owed, stored.Version, len(stored.Services) > 0 && instance.Settled()
}
