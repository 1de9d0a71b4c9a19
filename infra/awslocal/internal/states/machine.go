package states

import (
	"slices"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states/asl"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const (
	machineARN   = "arn:aws:states:" + wire.Region + ":" + wire.Account + ":stateMachine:"
	executionARN = "arn:aws:states:" + wire.Region + ":" + wire.Account + ":execution:"
)

// machine is a state machine. Its exported fields form its record.
type machine struct {
	serial   uint64
	revision *revision
	// executions holds the serial numbers of the machine's executions by status, in ascending order. The list under the
	// key "" holds the executions of every status.
	executions map[string][]uint64

	Name     string
	Created  time.Time
	Tags     map[string]string
	Deleting bool     // the machine is removed once no execution runs
	Current  uint64   // the serial number of the revision
	All      []uint64 // serial numbers of all revisions
}

// revision holds the parts of a state machine that an update changes. An execution keeps the revision with which it
// started. The exported fields of a revision form its record.
type revision struct {
	serial  uint64
	machine *asl.Machine

	ID         string `json:",omitempty"` // empty if the machine was never updated
	Definition string
	RoleARN    string
	At         time.Time // creation time
}

func (x *machine) arn() string { return machineARN + x.Name }

// fileByStatus moves an execution to the list of its current status. `before` is the previous status, if any.
func (x *machine) fileByStatus(e *execution, before string) {
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

// finished moves an ended execution to the list of its status. If the machine is being deleted and this was its last
// running execution, finished removes the machine.
func (m *Model) finished(x *execution) {
	x.machine.fileByStatus(x, running)
	if x.machine.Deleting {
		m.removeIfIdle(x.machine)
	}
}

// removeIfIdle removes a machine, its revisions and its executions if no execution runs.
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

// revise adds a revision and makes it current.
func (m *Model) revise(x *machine, r *revision) {
	r.serial = m.count(&m.counters.Revision)
	x.revision, x.Current = r, r.serial
	x.All = append(x.All, r.serial)
	m.revisions[r.serial] = r
	m.note(revisionKey, r.serial)
	m.note(machineKey, x.serial)
}
