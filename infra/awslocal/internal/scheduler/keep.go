package scheduler

import (
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// The keys of records start with a kind, followed by the name of the record within its kind. Restore accepts the
// records in any order: it assigns the invocations to their schedules at the end.
const (
	groupRecords      = "group/"
	invocationRecords = "invocation/"
	scheduleRecords   = "schedule/"
	tokenRecords      = "token/"
	serialRecord      = "serial"
)

type keptGroup struct {
	CreatedAt, ModifiedAt time.Time
	Tags                  []tag
}

type keptSchedule struct {
	Serial                uint64
	Definition            definition
	CreatedAt, ModifiedAt time.Time
	Next                  time.Time
}

type keptInvocation struct {
	Key                         string
	Schedule                    uint64
	Target                      *target
	ScheduledAt, BeganAt, DueAt time.Time
	Failed                      int
	Failure                     *failure `json:",omitempty"`
}

// Keep starts recording which records change.
func (m *Model) Keep() { m.touched.Keep() }

func (m *Model) touch(i *invocation) {
	if m.touched.Kept() {
		m.touched.Note(invocationRecords + strconv.FormatUint(i.serial, 10))
	}
}

// TakeRecords returns the records changed since the last call.
func (m *Model) TakeRecords() []record.Record {
	return m.touched.Records(m.value)
}

// value returns the record of a key, or nil if it no longer exists.
func (m *Model) value(key string) []byte {
	if key == serialRecord {
		return wire.Encode(m.serial)
	}
	kind, name, _ := strings.Cut(key, "/")
	switch kind + "/" {
	case groupRecords:
		if g, ok := m.groups.Get(name); ok {
			return wire.Encode(keptGroup{g.createdAt, g.modifiedAt, g.tags})
		}
	case scheduleRecords:
		if s, ok := m.schedules.Get(name); ok {
			return wire.Encode(keptSchedule{s.serial, s.definition, s.createdAt, s.modifiedAt, s.next})
		}
	case invocationRecords:
		serial, _ := strconv.ParseUint(name, 10, 64) // written by touch, so always valid
		if i, ok := m.invocations[serial]; ok {
			return wire.Encode(keptInvocation{i.key, i.schedule, i.target, i.scheduledAt, i.beganAt, i.dueAt, i.failed, i.failure})
		}
	case tokenRecords:
		if answer, ok := m.tokens.answers.Get(name); ok {
			return wire.Encode(answer)
		}
	}
	return nil
}

// Restore rebuilds the state of a new model from the latest version of each record.
func (m *Model) Restore(records iter.Seq2[string, []byte]) error {
	for key, value := range records {
		if err := m.restore(key, value); err != nil {
			return fmt.Errorf("restoring schedules: record %q: %w", key, err)
		}
	}
	for _, i := range m.invocations {
		if s, ok := m.schedules.Get(i.key); ok && s.serial == i.schedule {
			s.open++
		}
	}
	return nil
}

func (m *Model) restore(key string, value []byte) error {
	if key == serialRecord {
		return json.Unmarshal(value, &m.serial)
	}
	kind, name, _ := strings.Cut(key, "/")
	switch kind + "/" {
	case groupRecords:
		var kept keptGroup
		if err := json.Unmarshal(value, &kept); err != nil {
			return err
		}
		m.groups.Set(name, &group{name, kept.CreatedAt, kept.ModifiedAt, kept.Tags})
	case scheduleRecords:
		return m.restoreSchedule(name, value)
	case invocationRecords:
		return m.restoreInvocation(name, value)
	case tokenRecords:
		var answer tokenAnswer
		if err := json.Unmarshal(value, &answer); err != nil {
			return err
		}
		m.remember(name, &answer)
	default:
		return fmt.Errorf("expected a key of a group, schedule, invocation or token, or %s", serialRecord)
	}
	return nil
}

func (m *Model) restoreSchedule(key string, value []byte) error {
	var kept keptSchedule
	if err := json.Unmarshal(value, &kept); err != nil {
		return err
	}
	timing, invalid := parseTiming(&kept.Definition)
	if invalid != nil {
		return invalid
	}
	group, name, _ := strings.Cut(key, "/")
	s := &schedule{
		serial: kept.Serial, group: group, name: name, definition: kept.Definition, timing: timing,
		createdAt: kept.CreatedAt, modifiedAt: kept.ModifiedAt, next: kept.Next,
	}
	m.schedules.Set(key, s)
	m.arrange(s, "")
	return nil
}

func (m *Model) restoreInvocation(name string, value []byte) error {
	serial, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		return err
	}
	var kept keptInvocation
	if err := json.Unmarshal(value, &kept); err != nil {
		return err
	}
	i := &invocation{
		serial: serial, key: kept.Key, schedule: kept.Schedule, target: kept.Target,
		scheduledAt: kept.ScheduledAt, beganAt: kept.BeganAt, dueAt: kept.DueAt,
		failed: kept.Failed, failure: kept.Failure,
	}
	m.invocations[serial] = i
	m.due.Set(dueKey(i.dueAt, i.serial), task{at: i.dueAt, invocation: i})
	return nil
}
