package states

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
	"github.com/settle-run/settle/infra/awslocal/internal/states/asl"
	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
)

// The keys of the model's records. Each event of an execution's history has its own record, so that a step writes
// only the new events. The rest of an execution is one record.
const countersKey = "counters"

func machineKey(serial uint64) string         { return fmt.Sprintf("machine/%016x", serial) }
func revisionKey(serial uint64) string        { return fmt.Sprintf("revision/%016x", serial) }
func executionKey(serial uint64) string       { return fmt.Sprintf("execution/%016x", serial) }
func eventKey(execution uint64, n int) string { return fmt.Sprintf("history/%016x/%04x", execution, n) }

// Keep starts recording which records change.
func (m *Model) Keep() { m.touched.Keep() }

// note calls `key` to build the key of a record, and marks this record as changed.
func (m *Model) note(key func(uint64) string, serial uint64) {
	if m.touched.Kept() {
		m.touched.Note(key(serial))
	}
}

// noteEvent records that an event of an execution was added or removed.
func (m *Model) noteEvent(execution uint64, n int) {
	if m.touched.Kept() {
		m.touched.Note(eventKey(execution, n))
	}
}

// TakeRecords returns the records changed since the last call.
func (m *Model) TakeRecords() []record.Record {
	return m.touched.Records(func(key string) []byte {
		if value := m.recordOf(key); value != nil {
			return []byte(document.Encode(value))
		}
		return nil
	})
}

// recordOf returns the value of a record, or nil if it was removed.
func (m *Model) recordOf(key string) any {
	kind, serial, n := splitKey(key)
	switch kind {
	case "machine":
		if x, ok := m.serials[serial]; ok {
			return x
		}
	case "revision":
		if r, ok := m.revisions[serial]; ok {
			return r
		}
	case "execution":
		if x, ok := m.bySerial[serial]; ok {
			return x
		}
	case "history":
		if x, ok := m.bySerial[serial]; ok {
			return x.events[n-1]
		}
	default:
		return m.counters
	}
	return nil
}

// splitKey returns the parts of a key. `serial` and n are zero if the key does not contain them.
func splitKey(key string) (kind string, serial uint64, n int) {
	kind, rest, _ := strings.Cut(key, "/")
	first, second, _ := strings.Cut(rest, "/")
	serial, _ = strconv.ParseUint(first, 16, 64)
	event, _ := strconv.ParseUint(second, 16, 32)
	return kind, serial, int(event)
}

// Restore rebuilds the state of an empty model from the latest version of each record. TakeTasks returns unfinished
// tasks again.
func (m *Model) Restore(records iter.Seq2[string, []byte]) error {
	histories := make(map[uint64][]event)
	for key, value := range records {
		kind, serial, _ := splitKey(key)
		var err error
		switch kind {
		case countersKey:
			err = json.Unmarshal(value, &m.counters)
		case "machine":
			x := &machine{serial: serial, executions: make(map[string][]uint64)}
			err = json.Unmarshal(value, x)
			m.serials[serial] = x
			m.machines[x.Name] = x
		case "revision":
			err = m.restoreRevision(serial, value)
		case "execution":
			x := &execution{serial: serial}
			err = json.Unmarshal(value, x)
			m.bySerial[serial], m.executions[x.ARN] = x, x
		case "history":
			var e event
			err = unmarshalExactly(value, &e)
			histories[serial] = append(histories[serial], e)
		default:
			err = fmt.Errorf("unknown kind of record")
		}
		if err != nil {
			return fmt.Errorf("restoring the record %s: %w", key, err)
		}
	}
	for _, x := range m.serials {
		x.revision = m.revisions[x.Current]
	}
	return m.link(histories)
}

// unmarshalExactly decodes JSON and keeps the text of numbers.
func unmarshalExactly(data []byte, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func (m *Model) restoreRevision(serial uint64, value []byte) error {
	r := &revision{serial: serial}
	if err := json.Unmarshal(value, r); err != nil {
		return err
	}
	parsed, findings := asl.Parse(r.Definition)
	if len(findings) > 0 {
		return fmt.Errorf("%s", findings)
	}
	r.machine = parsed
	m.revisions[serial] = r
	return nil
}

// link connects parts that were restored from different records.
func (m *Model) link(histories map[uint64][]event) error {
	for serial, x := range m.bySerial {
		x.machine, x.revision, x.events = m.serials[x.Machine], m.revisions[x.Revision], histories[serial]
		if x.machine == nil || x.revision == nil {
			return fmt.Errorf("restoring the execution %s: its state machine is missing", x.ARN)
		}
		x.machine.executions[x.Status] = append(x.machine.executions[x.Status], serial)
		x.machine.executions[""] = append(x.machine.executions[""], serial)
		if x.Status == running {
			m.setTimeout(x)
		}
		for _, f := range x.Flows {
			m.linkFlow(x, f)
		}
	}
	for _, x := range m.serials {
		for _, list := range x.executions {
			slices.Sort(list)
		}
	}
	for id := range m.tasks {
		m.pending = append(m.pending, id)
	}
	slices.Sort(m.pending)
	return nil
}

func (m *Model) linkFlow(x *execution, f *flow) {
	f.x, f.state = x, x.revision.machine.All[f.State]
	if f.Token != 0 {
		m.tokens[f.Token] = f
	}
	if f.Task != 0 {
		m.tasks[f.Task] = f
	}
	m.setAlarm(f)
}
