package command

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// nextFile is the file of check --next. Without a file, its methods do nothing.
type nextFile struct {
	session *session
	known   *durable.Machines
	file    *os.File
	written int
	// failures counts, by reason, the events that failed or were not tried.
	failures map[string]int
	err      error // the first error of writing
}

// create creates the file with the name. An empty name means no file. It refuses a file that check reads.
func (n *nextFile) create(name string, read []string) (err error) {
	if name == "" {
		return nil
	}
	if old, err := os.Stat(name); err == nil {
		for _, other := range read {
			if info, err := os.Stat(other); err == nil && os.SameFile(info, old) {
				return fmt.Errorf("%w: expected --next to name another file than --from, got %s twice", errUsage, name)
			}
		}
	}
	n.failures = map[string]int{}
	n.file, err = os.Create(name)
	return err
}

// add writes a line for each record of nextStates.
func (n *nextFile) add(ctx context.Context, record instances.Record) {
	n.write(ctx, n.session.nextStates(n.known, record))
}

// addNew writes a line for each record of newStates. An empty machine means all machines.
func (n *nextFile) addNew(ctx context.Context, machine string) error {
	for _, id := range n.known.IDs() {
		current, err := n.known.Lookup(id)
		if err != nil {
			return err
		}
		if machine == "" || machine == id {
			n.write(ctx, n.session.newStates(n.known, current))
		}
	}
	return nil
}

func (n *nextFile) write(ctx context.Context, records iter.Seq2[instances.Record, error]) {
	if n.file == nil || n.err != nil {
		return
	}
	store := dynamostore.New(&backupTable{out: n.file}, "")
	for after, err := range records {
		if err != nil {
			n.failures[oneLine(err)]++
			continue
		}
		if n.err = store.Commit(ctx, after); n.err != nil {
			return
		}
		n.written++
	}
}

// close closes the file and prints a note about the events missing from it.
func (n *nextFile) close() error {
	if n.file == nil {
		return nil
	}
	err := cmp.Or(n.err, n.file.Close())
	for _, reason := range slices.Sorted(maps.Keys(n.failures)) {
		n.session.note("%s: %s (%s)", n.session.name(), reason, counted(n.failures[reason], "instance", "instances"))
	}
	n.session.note("%s in %s, of instances after one more event and of new instances: run check --from with the old build", counted(n.written, "snapshot", "snapshots"), n.file.Name())
	n.file = nil
	return err
}

// nextStates yields the instance as this build would store it after one more event. It tries each timer, and each
// external event that an active state handles, with a sample payload. It calls no service. For an event that fails or
// has no valid sample, it yields an error.
func (s *session) nextStates(known *durable.Machines, record instances.Record) iter.Seq2[instances.Record, error] {
	return func(yield func(instances.Record, error) bool) {
		machine, instance, err := known.Restore(record)
		if err != nil {
			return // The check reports the error.
		}
		var events []statechart.Event
		for _, typ := range instance.NextEvents() {
			event, ok, err := s.sample(known, machine, typ)
			if err != nil && !yield(record, fmt.Errorf("%s of %s was not tried: %w", typ, machine.ID(), err)) {
				return
			}
			if ok && err == nil {
				events = append(events, event)
			}
		}
		for _, timer := range instance.Timers() {
			events = append(events, statechart.Event{Type: statechart.TimerEvent, Timer: timer.ID, At: timer.At})
		}
		for _, event := range events {
			after, err := stepOf(record, instance, event)
			if err != nil {
				err = fmt.Errorf("%s of %s failed: %w", event.Type, machine.ID(), err)
			}
			if !yield(after, err) {
				return
			}
		}
	}
}

// newStates yields a new instance for each event that starts one, as this build would store it after that event. It
// calls no service. For an event that fails or has no valid sample, it yields an error.
func (s *session) newStates(known *durable.Machines, machine durable.Machine) iter.Seq2[instances.Record, error] {
	return func(yield func(instances.Record, error) bool) {
		for _, typ := range machine.Events() {
			if machine.TakesInput() || !machine.StartedBy(typ) {
				continue
			}
			event, ok, err := s.sample(known, machine, typ)
			if err == nil && !ok {
				continue
			}
			problem := "was not tried on"
			var after instances.Record
			if err == nil {
				problem = "failed on"
				after, err = startedBy(machine, event)
			}
			if err != nil {
				err = fmt.Errorf("%s %s a new instance of %s: %w", typ, problem, machine.ID(), err)
			}
			if !yield(after, err) {
				return
			}
		}
	}
}

// startedBy returns the record of a new instance after its first event.
func startedBy(machine durable.Machine, event statechart.Event) (after instances.Record, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = statechart.Panicked(r)
		}
	}()
	record := instances.Record{Instance: instances.ID{Machine: machine.ID(), ID: "new"}, CreatedAt: event.At}
	instance, effects, err := machine.Start(statechart.Start{Instance: record.Instance.String(), At: event.At})
	if err != nil {
		return record, err
	}
	record.State = instance.State()
	after, err = stepOf(record, instance, event)
	after.Outbox = append(effects, after.Outbox...)
	return after, err
}

// sample returns an event with a sample payload, or false if producers cannot send it. If no generated payload is valid, it
// uses Config.Dev.Example.
func (s *session) sample(known *durable.Machines, machine durable.Machine, typ string) (event statechart.Event, ok bool, err error) {
	t, ok := s.tryOut(known, machine, typ)
	if own := s.config.Dev.Example; t.refused != nil && own.Machine == machine.ID() && own.Event == typ {
		t = own.trial()
	}
	if !ok || t.refused != nil {
		return event, ok, t.refused
	}
	if event, err = machine.Decode([]byte(t.body())); err != nil {
		return event, true, err
	}
	event.At = s.Now()
	return event, true, nil
}

// stepOf applies the event and returns the resulting record of the instance.
func stepOf(record instances.Record, instance durable.Instance, event statechart.Event) (after instances.Record, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = statechart.Panicked(r)
		}
	}()
	next, effects, _, err := instance.Apply(event)
	if err != nil {
		return record, err
	}
	after = record
	after.Revision++
	after.UpdatedAt, after.State, after.Status, after.Outbox = event.At, next.State(), next.Status(), effects
	after.History = []instances.Transition{{At: event.At, Event: event.Type, From: record.State, To: next.State()}}
	after.Snapshot, err = next.Snapshot()
	return after, err
}
