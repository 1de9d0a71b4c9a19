package events

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/events/pattern"
	"github.com/settle-run/settle/infra/awslocal/internal/record"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// The key of a bus's record is busRecords and the name of the bus. The key of a rule's record is ruleRecords, the name
// of the bus, a colon and the name of the rule. Names contain no colon. The default bus has no record of its own.
const (
	busRecords   = "bus/"
	ruleRecords  = "rule/"
	serialRecord = "serial"
)

func ruleRecord(onBus, name string) string { return ruleRecords + onBus + ":" + name }

// Keep starts recording which records change.
func (m *Model) Keep() { m.touched.Keep() }

// TakeRecords returns the records changed since the last call.
func (m *Model) TakeRecords() []record.Record { return m.touched.Records(m.value) }

// value returns the record of a key, or nil if it no longer exists.
func (m *Model) value(key string) []byte {
	if key == serialRecord {
		return wire.Encode(m.serial)
	}
	if name, ok := strings.CutPrefix(key, busRecords); ok {
		if b, exists := m.buses[name]; exists {
			return wire.Encode(b)
		}
		return nil
	}
	onBus, name, _ := strings.Cut(strings.TrimPrefix(key, ruleRecords), ":")
	if b, exists := m.buses[onBus]; exists {
		if r, exists := b.Rules[name]; exists {
			return wire.Encode(r)
		}
	}
	return nil
}

// Restore rebuilds the state of a new model from the latest version of each record. The records of buses come before
// the records of their rules, because the sequence is ordered by key.
func (m *Model) Restore(records iter.Seq2[string, []byte]) error {
	for key, value := range records {
		if err := m.restore(key, value); err != nil {
			return fmt.Errorf("restoring event buses: record %q: %w", key, err)
		}
	}
	return nil
}

func (m *Model) restore(key string, value []byte) error {
	if key == serialRecord {
		return json.Unmarshal(value, &m.serial)
	}
	if name, ok := strings.CutPrefix(key, busRecords); ok {
		b := &bus{Rules: map[string]*rule{}}
		m.buses[name] = b
		return json.Unmarshal(value, b)
	}
	onBus, name, isRule := strings.Cut(strings.TrimPrefix(key, ruleRecords), ":")
	b, exists := m.buses[onBus]
	if !isRule || !exists {
		return fmt.Errorf("expected the key of a bus, of a rule of a known bus, or %s", serialRecord)
	}
	r := &rule{}
	if err := json.Unmarshal(value, r); err != nil {
		return err
	}
	compiled, err := pattern.Parse(r.EventPattern)
	if err != nil {
		return err
	}
	r.compiled = compiled
	b.Rules[name] = r
	return nil
}
