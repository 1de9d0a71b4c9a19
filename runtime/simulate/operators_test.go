package simulate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/stepcount"
	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
)

// Operators stop, terminate, move, keep, unkeep and forget instances, with the code of the command line.

// operated is an operator's change. isDone is set once the command has reported success.
type operated struct {
	instances.Operation
	instance string
	isDone   bool
	// revision is the only revision that the operator changes; 0 means any.
	revision int64
	// `before` is the record that a forget erases, and machines are the machines of the try that erases it.
	machines *durable.Machines
	before   instances.Record
}

// operationsOf returns the kinds of changes that an operator may draw for an instance.
func operationsOf(record instances.Record) []instances.OperationKind {
	switch {
	case record.Status == statechart.Active:
		return []instances.OperationKind{instances.Stop, instances.Terminate, instances.Move, instances.Move, instances.Keep, instances.Unkeep, instances.Forget}
	case record.Forgotten:
		return []instances.OperationKind{instances.Keep, instances.Unkeep}
	default:
		return []instances.OperationKind{instances.Forget, instances.Forget, instances.Forget, instances.Keep, instances.Unkeep}
	}
}

// operatesWithin are the longest pauses before an operator's command.
var operatesWithin = []time.Duration{time.Second, time.Minute, time.Hour, 20 * 24 * time.Hour}

// operators runs a few commands, one after the other, on drawn instances and their children.
func (s *simulation) operators() {
	rng := rand.New(rand.NewPCG(s.seed, digestOf("operators")))
	for n := range 1 + rng.IntN(6) {
		// Pause until a unique instant, because a seed cannot decide the order within one instant.
		time.Sleep(time.Duration(rng.Int64N(int64(anyOf(rng, operatesWithin...))))/1000*1000 + 3)
		names := slices.DeleteFunc(s.names(), func(name string) bool {
			return realMachineOf(name) != nil || strings.HasPrefix(name, fieldsMachine+"/") || s.load(name).Revision == 0
		})
		if len(names) == 0 {
			continue
		}
		name := anyOf(rng, names...)
		record := s.load(name)
		one := &operated{instance: name, Operation: instances.Operation{Kind: anyOf(rng, operationsOf(record)...), By: fmt.Sprintf("operator-%d", n)}}
		machine := s.versions[record.Instance.Machine][0]
		if states := machine.Describe().States[1:]; one.Kind == instances.Move {
			one.State = states[rng.IntN(len(states))].Path
		}
		s.operations[one.By] = one
		if rng.IntN(4) == 0 {
			one.revision = record.Revision
			time.Sleep(time.Duration(rng.IntN(60_000))*time.Millisecond + 3) // The operator looks at the instance first.
		}
		s.operateOn(one)
	}
}

// operateOn runs a command until it succeeds, or until the change is impossible.
func (s *simulation) operateOn(one *operated) {
	ctx, config, id := s.t.Context(), s.client(one.By), s.load(one.instance).Instance
	sent := 0
	o := operations.Operator{
		Store: dynamostore.New(dynamodb.NewFromConfig(config), table),
		Queue: sqsqueue.New(sqs.NewFromConfig(config), s.queueURLs[0], ""),
		NewID: func() string { sent++; return fmt.Sprint(one.By, "-", sent) },
	}
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		if o.Machines = s.machines; s.deployments(0, time.Now()) > 0 {
			o.Machines = s.deployed
		}
		one.At = time.Now().Truncate(time.Millisecond)
		isPossible, err := s.tryCommand(ctx, &o, id, one)
		if one.isDone = err == nil && isPossible; err == nil || !isPossible {
			s.count(fmt.Sprintf("commands %s: %v", one.Kind, one.isDone), 1)
			return
		}
		time.Sleep(wait)
	}
}

// tryCommand runs the command, unless an interrupted try has stored the change. isPossible is false if a further try
// cannot succeed.
func (s *simulation) tryCommand(ctx context.Context, o *operations.Operator, id instances.ID, one *operated) (isPossible bool, err error) {
	record, err := o.Store.Load(ctx, id)
	if err != nil {
		return true, err
	}
	if slices.ContainsFunc(record.History, func(t instances.Transition) bool { return t.By == one.By }) {
		_, err = o.Wake(ctx, record)
		return true, err
	}
	// The consumers here have a lower limit on snapshots than the command assumes.
	if after, _, err := durable.Operate(o.Machines, record, one.Operation); err != nil || record.Revision == 0 || len(after.Snapshot) > snapshotBytesMax {
		return false, err
	}
	change, err := o.Change(ctx, id, one.revision, func(before instances.Record) (instances.Operation, error) {
		if !before.Forgotten { // If an earlier try took effect late, the record is already empty.
			one.before, one.machines = before, o.Machines
		}
		return one.Operation, nil
	})
	if isStale := one.revision != 0 && change.Before.Revision != one.revision; err == nil && isStale {
		s.problem("%s of %s by %s changed revision %d, want only %d", one.Kind, one.instance, one.By, change.Before.Revision, one.revision)
	} else if isStale && errors.Is(err, durable.ErrConflict) {
		return false, err
	}
	if (errors.Is(err, instances.ErrEnded) || errors.Is(err, instances.ErrInUse)) && !errors.Is(err, operations.ErrNotWoken) {
		return false, err
	}
	return true, err
}

// isOperators reports whether the next step in the history is an operator's change.
func (r *replay) isOperators() bool {
	return r.instance != nil && r.at < len(r.record.History) && r.record.History[r.at].By != ""
}

// operate applies an operator's change, which is the next step in the history.
func (r *replay) operate() (err error) {
	r.migrate()
	was := r.record.History[r.at]
	one := r.simulation.operations[was.By]
	if one == nil || one.instance != r.name || was.Event != statechart.ReservedPrefix+string(one.Kind) {
		return differ("step %d of the history is no operator's change: %+v", r.at, was)
	}
	if one.Kind == instances.Forget {
		if err := r.forget(one); err != nil {
			return err
		}
	}
	from, children, next, effects := r.instance.State(), r.instance.Children(), r.instance, []statechart.Effect(nil)
	switch one.Kind {
	case instances.Stop:
		next, effects, _, err = r.instance.Stop(was.At)
	case instances.Move:
		var skipped json.RawMessage // Services of the new state and services of an unstored turn must not share a key.
		if skipped, err = stepcount.SkipTurn(r.snapshot()); err == nil {
			next, effects, err = r.restored(skipped).Move(one.State, was.At)
		}
	case instances.Terminate:
		var record instances.Record
		op := one.Operation
		op.At = was.At
		machines := r.simulation.machines
		if r.machine.Version() == newVersion {
			machines = r.simulation.deployed
		}
		if record, _, err = durable.Operate(machines, instances.Record{Instance: r.record.Instance, Status: statechart.Active, Snapshot: r.snapshot()}, op); err == nil {
			next = r.restored(record.Snapshot)
		}
	default:
		r.isKept = one.Kind == instances.Keep
	}
	if err != nil {
		return differ("%s of %s fails in the model: %v", one.Kind, r.name, err)
	}
	if r.instance = limited(next); !slices.Equal(from, was.From) || !slices.Equal(r.instance.State(), was.To) {
		return differ("step %d of the history differs: want %v to %v, got %+v", r.at, from, r.instance.State(), was)
	}
	r.at++
	r.isStopped = one.Kind == instances.Stop || one.Kind == instances.Terminate
	r.note(effects)
	r.isStopped = false
	r.recordLeft(children, was.At)
	return nil
}

// recalled returns the record that the model compares with an instance. For a forgotten instance, this is the record
// before the forget, with the whole history.
func (s *simulation) recalled(stored instances.Record) instances.Record {
	if !stored.Forgotten {
		return stored
	}
	before := s.operations[stored.History[0].By].before
	before.History = slices.Concat(before.History, stored.History)
	return before
}

// forget compares the state with the record that the operator erases, and continues with the empty record.
func (r *replay) forget(one *operated) error {
	if r.instance.Status() == statechart.Active || r.isKept {
		return differ("%s is forgotten, but it is %s, and kept: %v", r.name, r.instance.Status(), r.isKept)
	}
	if err := r.checkStored(); err != nil {
		return differ("when %s is forgotten: %v", r.name, err)
	}
	machine, err := one.machines.Lookup(r.record.Instance.Machine)
	if err != nil {
		return err
	}
	stopped, err := machine.Stopped()
	if err != nil {
		return err
	}
	history := r.record.History
	r.record, r.machine, r.instance = r.simulation.load(r.name), machine, limited(stopped)
	r.record.History = history
	r.migrated, r.failed = versionIn(r.record.Snapshot).Context.Migrated, false
	r.recent = nil
	clear(r.seen)
	for token, task := range r.tokens {
		task.forgotten = true
		r.tokens[token] = task
	}
	return nil
}

// errorOfEnd returns the error with which an ending instance fails its waiting tasks.
func (r *replay) errorOfEnd() string {
	if r.isStopped {
		return durable.ErrorStopped
	}
	return durable.ErrorEnded
}

// checkOperations checks that each change of an operator was applied at most once, and exactly once if its command
// succeeded.
func (s *simulation) checkOperations() {
	for by, one := range s.operations {
		record, n := s.recalled(s.load(one.instance)), 0
		for _, step := range record.History {
			if step.By == by {
				n++
			}
		}
		if n > 1 || n == 0 && one.isDone && record.Revision > 0 {
			s.problem("%s of %s by %s was applied %d times: %s", one.Kind, one.instance, by, n, strings.Join(record.State, " "))
		}
	}
}
