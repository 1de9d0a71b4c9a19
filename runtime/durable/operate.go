package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/canonicaljson"
	"github.com/settle-run/settle/runtime/internal/plainjson"
	"github.com/settle-run/settle/runtime/internal/readjson"
	"github.com/settle-run/settle/runtime/internal/stepcount"
	"github.com/settle-run/settle/runtime/statechart"
)

// Operate returns the record after an operator's change, and the chart's microsteps. Store the record, which has the
// next revision. Then send the instance any event, so that a consumer settles it and performs its effects. Fails with
// instances.ErrEnded, instances.ErrInUse, ErrUnstorable, the chart's errors, or as Machines.Restore does.
func Operate(machines *Machines, record instances.Record, op instances.Operation) (instances.Record, []statechart.Microstep, error) {
	// Only the consumer knows its limits and whether it emits events, so the change drops no entry of the history and
	// no effect.
	config := Config{
		Now: func() time.Time { return op.At }, HistoryMax: len(record.History) + 1, SnapshotBytesMax: max(instances.SnapshotBytesMax, len(record.Snapshot)+1<<10),
		Emit: func(_ context.Context, _ instances.ID, events []statechart.Effect) []error {
			return make([]error, len(events))
		},
	}.withDefaults()
	t := &turn{loop: &Loop{machines: machines, config: config}, stored: state{Record: record}}
	var steps []statechart.Microstep
	snapshot, err := t.operate(op, func(step statechart.Microstep) { steps = append(steps, step) })
	if err != nil {
		return instances.Record{}, nil, fmt.Errorf("%s %s: %w", op.Kind, record.Instance, err)
	}
	next := t.next(snapshot)
	if op.Kind == instances.Terminate {
		next.State = record.State // A migration may have renamed the states, but the snapshot to store is not migrated.
	}
	if op.Kind != instances.Keep && op.Kind != instances.Unkeep && op.Kind != instances.ChangeLane {
		next.DeniedSince = time.Time{} // The first effect may be another one now. See Config.DeniedWaitMax.
	}
	return next, steps, nil
}

// operate drafts the change and returns the snapshot to store.
func (t *turn) operate(op instances.Operation, trace func(statechart.Microstep)) (snapshot json.RawMessage, err error) {
	if t.machine, err = t.loop.machines.Lookup(t.stored.Record.Instance.Machine); err != nil {
		return nil, err
	}
	t.dropPerformed()
	t.draft = t.stored
	record := &t.draft.Record
	switch {
	case op.Kind == instances.Keep || op.Kind == instances.Unkeep:
		record.Kept = op.Kind == instances.Keep
		t.addOperation(op, record.State, record.State)
		return record.Snapshot, nil
	case op.Kind == instances.Forget:
		return t.forget(op)
	case record.Status != statechart.Active:
		return nil, fmt.Errorf("%w: it is %s in %v", instances.ErrEnded, record.Status, record.State)
	case op.Kind == instances.ChangeLane:
		return record.Snapshot, t.beginLaneMove(op)
	case op.Kind == instances.Terminate:
		return t.terminate(op)
	case op.Kind != instances.Stop && op.Kind != instances.Move:
		return nil, fmt.Errorf("expected a known kind of operation, got %q", op.Kind)
	}
	read := *record
	if op.Kind == instances.Move {
		// A turn may have used the IDs of the next steps without a commit: its services may still run, or its process may
		// have died.
		if read.Snapshot, err = stepcount.SkipTurn(read.Snapshot); err != nil {
			return nil, &statechart.UnreadableError{Err: err}
		}
	}
	if t.machine, t.draft.Instance, err = t.loop.machines.Restore(read); err != nil {
		return nil, err
	}
	owed, _, _ := owedTo(record.Snapshot, t.machine, t.draft.Instance)
	record.Outbox = slices.Concat(record.Outbox, owed)
	if op.Context != nil {
		if t.draft.Instance, err = withContext(t.machine, t.draft.Instance, op.Context); err != nil {
			return nil, err
		}
	}
	t.draft.Instance.Limit(t.loop.config.SnapshotBytesMax)
	t.draft.Instance.Trace(trace)
	from, next := t.draft.Instance.State(), t.draft.Instance
	var effects []statechart.Effect
	switch {
	case op.Kind == instances.Stop:
		next, effects, _, err = next.Stop(op.At)
	case op.State != "":
		next, effects, err = next.Move(op.State, op.At)
		// The tries in the state that the instance leaves do not count for the next state.
		record.Attempts = replaced(record.Attempts, func(*instances.Attempt) bool { return true }, func(a *instances.Attempt) { a.Count, a.Services = 0, min(a.Services, 1) })
	}
	if err != nil {
		return nil, err
	}
	t.draft.Instance = next
	for _, effect := range effects {
		t.ask(effect)
	}
	if op.Kind == instances.Stop {
		t.endByOperator(op, next.State())
	}
	t.closeWaits()
	t.endAsChild()
	t.addOperation(op, from, next.State())
	return t.storable()
}

// forget drafts a record without the data of the instance. The record keeps the parts that identify late messages: the
// watermark, the time of creation and the parent.
func (t *turn) forget(op instances.Operation) (json.RawMessage, error) {
	was := t.stored.Record
	switch {
	case was.Status == statechart.Active:
		return nil, fmt.Errorf("%w: expected an instance that has ended, got one that is active in %v", instances.ErrInUse, was.State)
	case was.Kept:
		return nil, fmt.Errorf("%w: an operator keeps it", instances.ErrInUse)
	case was.Owes():
		return nil, fmt.Errorf("%w: it has effects or answers to tasks that are not performed yet", instances.ErrInUse)
	}
	stopped, err := t.machine.Stopped()
	if err != nil {
		return nil, fmt.Errorf("%w: expected a machine whose data accepts the JSON of its zero value: %w", ErrUnstorable, err)
	}
	t.draft = state{Instance: stopped, Record: instances.Record{
		Instance: was.Instance, Parent: was.Parent, CreatedAt: was.CreatedAt, Watermark: was.Watermark,
		Lane: was.Lane, Moving: was.Moving, Forwarded: was.Forwarded,
		Forgotten: true, ExpireAt: t.now().Add(t.loop.config.RetentionMin),
	}}
	t.addOperation(op, stopped.State(), stopped.State())
	return t.storable()
}

// addOperation adds the operation to the history.
func (t *turn) addOperation(op instances.Operation, from, to []string) {
	t.addHistory(instances.Transition{
		At: t.now(), Event: statechart.ReservedPrefix + string(op.Kind), From: from, To: to, By: op.By, Reason: cut(op.Reason, failureMessageBytesMax),
	}, statechart.Event{}, "")
}

// endByOperator ends the waits of an instance that an operator ends, and notifies its parent.
func (t *turn) endByOperator(op instances.Operation, state []string) {
	message := fmt.Sprintf("an operator ended %s in %v (%s)", t.draft.Record.Instance, state, op.Kind)
	if op.Reason != "" {
		message += ": " + op.Reason
	}
	t.endWaits(instances.Answer{Error: ErrorStopped, Cause: cut(message, causeBytesMax)})
	if t.draft.Record.Parent != nil {
		t.owe(statechart.Effect{ID: "stopped", Kind: notifyStopped, Message: cut(message, failureMessageBytesMax)})
	}
}

// terminate ends the instance without running its chart: it edits the stored snapshot. It also stops the children.
func (t *turn) terminate(op instances.Operation) (json.RawMessage, error) {
	record := &t.draft.Record
	var keys map[string]json.RawMessage
	var stored struct {
		Steps    int64 `json:"steps"`
		Children map[string]struct {
			Key     string `json:"key"`
			Machine string `json:"machine"`
		} `json:"children"`
	}
	err := readjson.Unmarshal(record.Snapshot, &keys)
	if err == nil {
		err = readjson.Unmarshal(record.Snapshot, &stored)
	}
	if err != nil {
		return nil, &statechart.UnreadableError{Err: err}
	}
	for _, id := range slices.Sorted(maps.Keys(stored.Children)) {
		child := stored.Children[id]
		t.owe(statechart.Effect{ID: "child." + child.Key + ".stop", Kind: statechart.StopInstance, Child: child.Key, Machine: child.Machine})
	}
	record.Status = statechart.Stopped
	t.endByOperator(op, record.State)
	t.addOperation(op, record.State, record.State)
	for _, waiting := range []string{"timers", "services", "children"} {
		delete(keys, waiting)
	}
	keys["status"], keys["steps"] = json.RawMessage(`"`+statechart.Stopped+`"`), fmt.Append(nil, stored.Steps+1)
	snapshot, err := plainjson.Marshal(keys)
	if err == nil {
		if machine, instance, err := t.loop.machines.Restore(instances.Record{Instance: record.Instance, Snapshot: snapshot}); err == nil {
			t.machine, t.draft.Instance = machine, instance
		}
	}
	return snapshot, err
}

// withContext returns the instance with another context. It refuses a context if the machine would lose a part of it.
func withContext(machine Machine, instance Instance, context json.RawMessage) (Instance, error) {
	snapshot, err := instance.Snapshot()
	var keys map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(snapshot, &keys)
	}
	if err == nil {
		keys["context"] = context
		snapshot, err = plainjson.Marshal(keys)
	}
	if err == nil {
		instance, err = machine.Restore(snapshot)
	}
	if err == nil {
		snapshot, err = instance.Snapshot()
	}
	var wrong *readjson.Error
	var unknown *readjson.UnknownKeyError
	switch {
	case errors.As(err, &unknown):
		return nil, lossError("context." + unknown.Key)
	case errors.As(err, &wrong):
		err = wrong // The stored snapshot is readable. Only the new value is wrong.
	}
	if err != nil {
		return nil, fmt.Errorf("the new context: %w", err)
	}
	var kept struct{ Context json.RawMessage }
	if err := json.Unmarshal(snapshot, &kept); err != nil {
		return nil, fmt.Errorf("the new context: %w", err)
	}
	if lost := lostIn(context, kept.Context, "context"); lost != "" {
		return nil, lossError(lost)
	}
	return instance, nil
}

// lossError returns the error for a value of a new context that the machine would not keep.
func lossError(lost string) error {
	return fmt.Errorf("the new context: expected only values that the machine keeps, but it would drop or change %s: correct the name or the value", lost)
}

// lostIn describes the first value that is missing or different in `kept`. It returns "" if `kept` has each value. Numbers
// are compared exactly. A value that Go's omitempty leaves out does not count as lost.
func lostIn(wanted, kept json.RawMessage, path string) string {
	var fields, others map[string]json.RawMessage
	if json.Unmarshal(wanted, &fields) == nil && json.Unmarshal(kept, &others) == nil && fields != nil && others != nil {
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			if lost := lostIn(fields[key], others[key], path+"."+key); lost != "" {
				return lost
			}
		}
		return ""
	}
	if len(kept) == 0 {
		kept = json.RawMessage("null")
	}
	empty := slices.ContainsFunc([]string{"null", "false", "0", `""`, "[]", "{}"}, func(empty string) bool { return canonicaljson.Equal(wanted, []byte(empty)) })
	if empty && string(kept) == "null" || canonicaljson.Equal(wanted, kept) {
		return ""
	}
	return fmt.Sprintf("%s (expected %.80s, got %.80s)", path, wanted, kept)
}
