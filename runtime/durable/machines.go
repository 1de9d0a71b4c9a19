package durable

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Errors of Machines.Accept, besides the errors of Machine.Decode.
var (
	// ErrUnknownMachine is returned when no machine has the ID.
	ErrUnknownMachine = errors.New("unknown machine")
	// ErrReserved is returned when an event uses a type or a key of the runtime.
	ErrReserved = errors.New("reserved for the runtime")
)

// Machines is the set of machines that a process hosts. Machines with the same ID are versions of one machine. The
// highest version is the current one, and new instances start on it. See Restore for the other versions.
type Machines struct {
	byID map[string]versions
	ids  []string
}

// NewMachines returns the set of the given machines. It fails if two machines have the same ID and version, or if a
// machine spawns children of a machine outside the set. It also fails if a machine needs an input and no machine spawns
// it. In current versions, a child must get an input if and only if its machine takes one. NewMachines also fails if a
// machine has a reserved ID: alias, idempotency, limits or sends. It fails if two machines declare a limit of the same
// name differently. It calls Check on the current version of each machine.
func NewMachines(machines ...Machine) (*Machines, error) {
	m := &Machines{byID: map[string]versions{}}
	for _, machine := range machines {
		id := machine.ID()
		if machine.Describe().Foreign {
			return nil, fmt.Errorf("machine %q is another interpreter's, and its states need not settle: compile it with statechart.Compile", id)
		}
		if slices.ContainsFunc(m.byID[id], func(other Machine) bool { return other.Version() == machine.Version() }) {
			return nil, fmt.Errorf("two machines have the ID %q and the version %d: give each its own ID, or its own version", id, machine.Version())
		}
		if slices.Contains(reservedMachines, id) {
			return nil, fmt.Errorf("a machine has the ID %q, which is %w: choose another ID", id, ErrReserved)
		}
		if len(m.byID[id]) == 0 {
			m.ids = append(m.ids, id)
		}
		m.byID[id] = append(m.byID[id], machine)
	}
	slices.Sort(m.ids)
	for _, hosted := range m.byID {
		slices.SortFunc(hosted, func(a, b Machine) int { return cmp.Compare(b.Version(), a.Version()) })
	}
	for _, id := range m.ids {
		if err := m.byID[id].current().Check(); err != nil { // New instances start on the current version.
			return nil, err
		}
	}
	if err := m.checkChildren(); err != nil {
		return nil, err
	}
	if err := m.checkLimits(); err != nil {
		return nil, err
	}
	return m, nil
}

// checkLimits returns an error if two machines, or two versions of a machine, declare a limit differently.
func (m *Machines) checkLimits() error {
	declared := map[string]statechart.Limit{}
	for _, machine := range m.all() {
		for _, limit := range machine.Describe().Limits {
			if first, ok := declared[limit.Name]; ok && first != limit {
				return fmt.Errorf("machine %q: expected the limit %+v, as another machine or version declares it, got %+v: declare the limit once, and use it in all charts", machine.ID(), first, limit)
			}
			declared[limit.Name] = limit
		}
	}
	return nil
}

// firstLimited returns the ID of a machine with a limit, or "".
func (m *Machines) firstLimited() string {
	for _, machine := range m.all() {
		if len(machine.Describe().Limits) > 0 {
			return machine.ID()
		}
	}
	return ""
}

// IDs returns the IDs of the machines, sorted, without duplicates.
func (m *Machines) IDs() []string { return slices.Clone(m.ids) }

// Lookup returns a machine's current version. Fails with ErrUnknownMachine.
func (m *Machines) Lookup(id string) (Machine, error) {
	hosted, ok := m.byID[id]
	if !ok {
		return nil, fmt.Errorf("%w: expected one of %s, got %q", ErrUnknownMachine, strings.Join(m.ids, ", "), id)
	}
	return hosted.current(), nil
}

// Versions returns the hosted versions of a machine, the highest first.
// It returns nil if no machine has the ID.
func (m *Machines) Versions(id string) []Machine { return slices.Clone(m.byID[id]) }

// Restore returns a stored instance and the machine that runs it: the version that stored the instance. If that version
// is not hosted, the machine is the lowest of the higher versions that migrate from it. Restore stores nothing. Its
// errors wrap ErrUnknownMachine or the errors of Machine.Restore.
func (m *Machines) Restore(record instances.Record) (Machine, Instance, error) {
	if _, err := m.Lookup(record.Instance.Machine); err != nil {
		return nil, nil, err
	}
	hosted := m.byID[record.Instance.Machine]
	if len(hosted) == 1 { // Look at the stored version only if the one hosted version cannot restore the snapshot.
		if instance, err := hosted.current().Restore(record.Snapshot); err == nil {
			return hosted.current(), instance, nil
		}
	}
	machine, err := hosted.reader(record)
	if err != nil {
		return nil, nil, err
	}
	instance, err := machine.Restore(record.Snapshot)
	return machine, instance, err
}

// all returns every version of every machine, by ID, the current version first.
func (m *Machines) all() []Machine {
	var all []Machine
	if m == nil {
		return nil
	}
	for _, id := range m.ids {
		all = append(all, m.byID[id]...)
	}
	return all
}

// versions holds machines with the same ID, the highest version first.
type versions []Machine

func (v versions) current() Machine { return v[0] }

// migratesFrom reports whether a machine reads snapshots of an earlier version.
func migratesFrom(machine Machine, version int) bool {
	return version < machine.Version() && version >= machine.Describe().OldestVersion
}

// reader returns the machine that reads the record's snapshot.
func (v versions) reader(record instances.Record) (Machine, error) {
	stored, err := record.Version()
	if err != nil {
		return nil, err
	}
	var lowest Machine
	for _, machine := range v {
		if machine.Version() == stored {
			return machine, nil
		}
		if migratesFrom(machine, stored) {
			lowest = machine
		}
	}
	if lowest != nil {
		return lowest, nil
	}
	if current := v.current(); stored > current.Version() {
		return nil, &statechart.UnreadableError{
			Of:   "machine " + current.ID(),
			Err:  fmt.Errorf("stored by a newer version: expected at most version %d, the newest that this process hosts, got %d", current.Version(), stored),
			Todo: fmt.Sprintf("deploy version %d again", stored),
		}
	}
	return nil, &statechart.UnreadableError{
		Of:   "machine " + v.current().ID(),
		Err:  fmt.Errorf("expected %s, or a version that one of them migrates from, got version %d", v, stored),
		Todo: fmt.Sprintf("add the migration, or host version %d too", stored),
	}
}

// String names the versions: "version 3", "version 3 or 1".
func (v versions) String() string {
	numbers := make([]string, len(v))
	for i, machine := range v {
		numbers[i] = fmt.Sprint(machine.Version())
	}
	return "version " + strings.Join(numbers, " or ")
}

// decode reads an event with the highest version that accepts it. If none does, it returns the error of the current
// version.
func (v versions) decode(body []byte) (machine Machine, event statechart.Event, err error) {
	event, err = v.current().Decode(body)
	if err == nil {
		return v.current(), event, nil
	}
	for _, older := range v[1:] {
		if event, err := older.Decode(body); err == nil {
			return older, event, nil
		}
	}
	return v.current(), event, err
}

// Accept checks an event from a producer before it is queued. It rejects an event that no hosted version of the
// machine accepts. The version of the instance may still reject the event when it is applied. Its errors wrap
// ErrUnknownMachine, ErrReserved, or the errors of Machine.Decode.
func (m *Machines) Accept(id instances.ID, body []byte) (statechart.Event, error) {
	if _, err := m.Lookup(id.Machine); err != nil {
		return statechart.Event{}, err
	}
	machine, event, err := m.byID[id.Machine].decode(body)
	if err != nil {
		return statechart.Event{}, err
	}
	if event.Type == TokenExpired || event.Type == AliasTaken || event.Type == statechart.CommunicationError || isEnd(machine, event.Type) {
		return statechart.Event{}, fmt.Errorf("event type %q is %w: only the loop itself sends it", event.Type, ErrReserved)
	}
	if strings.HasPrefix(event.Type, statechart.ReservedPrefix) {
		return statechart.Event{}, fmt.Errorf("event type %q is %w: use another prefix than %q", event.Type, ErrReserved, statechart.ReservedPrefix)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(body, &keys); err != nil {
		return statechart.Event{}, fmt.Errorf("%w: %w", statechart.ErrNotAnEvent, err)
	}
	for key := range keys {
		if strings.HasPrefix(key, "$") && key != "$id" {
			return statechart.Event{}, fmt.Errorf("the key %q is %w: of the keys that begin with $, producers may use $id", key, ErrReserved)
		}
	}
	return event, nil
}
