package states

import (
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/states/asl"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

const (
	machineARN   = "arn:aws:states:" + wire.Region + ":" + wire.Account + ":stateMachine:"
	executionARN = "arn:aws:states:" + wire.Region + ":" + wire.Account + ":execution:"
)

// machine is a state machine. Its exported fields are its record.
type machine struct {
	serial   uint64
	revision *revision
	// executions are the serial numbers of its executions by their status, ascending; under
	// "" those of all.
	executions map[string][]uint64

	Name     string
	Created  time.Time
	Tags     map[string]string
	Deleting bool     // it is gone as soon as no execution runs
	Current  uint64   // the serial number of the revision
	All      []uint64 // those of all revisions
}

// revision is what of a state machine an update changes. An execution keeps the revision
// with which it began. Its exported fields are its record.
type revision struct {
	serial  uint64
	machine *asl.Machine

	ID         string `json:",omitempty"` // empty: the machine was not updated
	Definition string
	RoleARN    string
	At         time.Time // when it was made
}

func (x *machine) arn() string { return machineARN + x.Name }

// filed notes the status of an execution in place of an earlier one, if it had one.
func (x *machine) filed(e *execution, before string) {
	lists := []string{e.Status}
	if before == "" {
		lists = append(lists, "")
	} else {
		list := x.executions[before]
		if i, ok := slices.BinarySearch(list, e.serial); ok {
			x.executions[before] = slices.Delete(list, i, i+1)
		}
	}
	for _, status := range lists {
		list := x.executions[status]
		i, _ := slices.BinarySearch(list, e.serial)
		x.executions[status] = slices.Insert(list, i, e.serial)
	}
}

// finished files an execution that has come to its end. The last one of a machine that is to
// be deleted takes the machine with it.
func (m *Model) finished(x *execution) {
	x.machine.filed(x, running)
	if x.machine.Deleting {
		m.removeIfIdle(x.machine)
	}
}

// removeIfIdle removes a machine, its revisions and its executions if none of them runs.
func (m *Model) removeIfIdle(x *machine) {
	if len(x.executions[running]) > 0 {
		return
	}
	for _, serial := range x.executions[""] {
		e := m.bySerial[serial]
		delete(m.bySerial, serial)
		delete(m.executions, e.ARN)
		m.note(executionKey, serial)
		for i := range e.events {
			m.noteEvent(serial, i+1)
		}
	}
	for _, serial := range x.All {
		delete(m.revisions, serial)
		m.note(revisionKey, serial)
	}
	delete(m.machines, x.Name)
	delete(m.serials, x.serial)
	m.note(machineKey, x.serial)
}

// revise gives a machine a revision.
func (m *Model) revise(x *machine, r *revision) {
	r.serial = m.count(&m.counters.Revision)
	x.revision, x.Current = r, r.serial
	x.All = append(x.All, r.serial)
	m.revisions[r.serial] = r
	m.note(revisionKey, r.serial)
	m.note(machineKey, x.serial)
}
