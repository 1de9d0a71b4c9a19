package dynamo

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/record"
)

// The records of the model, by the first part of their keys:
//
//	table/<table>               the table's definition, its tags, its TTL attribute
//	item/<table>/<storage key>  an item
//	due/<table>/<storage key>   when TTL deletes an item; a write of the item can delay this time
//	token/<token>               a ClientRequestToken
//
// Table names contain no slash. Indexes are rebuilt from the items.
const (
	tableKind = "table"
	itemKind  = "item"
	dueKind   = "due"
	tokenKind = "token"
)

// Keep starts recording which records change.
func (m *Model) Keep() { m.kept.Keep() }

// TakeRecords returns the records changed since the last call.
func (m *Model) TakeRecords() []record.Record {
	return m.kept.Records(m.recordValue)
}

// recordValue returns the current value of a record, or nil if it does not exist.
func (m *Model) recordValue(key string) []byte {
	var e record.Encoder
	kind, rest, _ := strings.Cut(key, "/")
	if kind == tokenKind {
		remembered, ok := m.tokens.requests[rest]
		if !ok {
			return nil
		}
		e.Time(remembered.at)
		e.String(string(remembered.digest[:]))
		return e.Value()
	}
	name, storageKey, _ := strings.Cut(rest, "/")
	t, ok := m.tables[name]
	if !ok || !t.encode(&e, kind, storageKey) {
		return nil
	}
	return e.Value()
}

// encode writes the part of the table that kind and key identify. It returns false if the part does not exist.
func (t *table) encode(e *record.Encoder, kind, key string) bool {
	switch kind {
	case tableKind:
		definition, err := json.Marshal(&t.definition)
		if err != nil {
			panic(err) // the definition was decoded from JSON, so it always marshals
		}
		e.String(string(definition))
		e.Time(t.created)
		e.Uint(uint64(len(t.tags)))
		for _, tag := range t.tags {
			e.String(tag.Key)
			e.String(tag.Value)
		}
		e.String(t.ttl.attribute)
		return true
	case itemKind:
		item, ok := t.items.Get(key)
		if ok {
			item.Record(e)
		}
		return ok
	case dueKind:
		dueKey, ok := t.ttl.dueKeys[key]
		e.String(strings.TrimSuffix(dueKey, key))
		return ok
	}
	panic("dynamo: unknown kind of record: " + kind) // the note methods below define the kinds
}

// Restore rebuilds the state of an empty model from records.
func (m *Model) Restore(records iter.Seq2[string, []byte]) error {
	// Tables arrive after their items, because records are ordered by key. The indexes are built at the end.
	tables := make(map[string]*table)
	for key, value := range records {
		d := record.NewDecoder(value)
		err := m.restore(tables, key, d)
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			return fmt.Errorf("the record %q of DynamoDB: %w", key, err)
		}
	}
	for name, t := range tables {
		if m.tables[name] == nil {
			return fmt.Errorf("the records of the table %s of DynamoDB: expected a record of the table itself", name)
		}
		for key, item := range t.items.From("") {
			t.bytes += item.Size()
			for _, index := range t.indexes {
				index.replace(key, nil, item)
			}
		}
	}
	slices.SortStableFunc(m.tokens.order, func(a, b string) int {
		return m.tokens.requests[a].at.Compare(m.tokens.requests[b].at)
	})
	return nil
}

func (m *Model) restore(tables map[string]*table, key string, d *record.Decoder) error {
	kind, rest, _ := strings.Cut(key, "/")
	if kind == tokenKind {
		remembered := rememberedRequest{at: d.Time()}
		if copy(remembered.digest[:], d.String()) != sha256.Size {
			return fmt.Errorf("expected a digest of %d bytes", sha256.Size)
		}
		m.tokens.add(rest, remembered)
		return nil
	}
	name, storageKey, _ := strings.Cut(rest, "/")
	t, ok := tables[name]
	if !ok {
		t = &table{name: name, kept: &m.kept, ttl: timeToLive{delay: m.ttlDelay}}
		tables[name] = t
	}
	switch kind {
	case tableKind:
		m.tables[name] = t
		return t.decode(d)
	case itemKind:
		item, err := attribute.FromRecord(d)
		t.items.Set(storageKey, item)
		return err
	case dueKind:
		t.ttl.add(d.String()+storageKey, storageKey)
		return nil
	}
	return errors.New("expected a kind of record that this build knows")
}

func (t *table) decode(d *record.Decoder) error {
	if err := json.Unmarshal([]byte(d.String()), &t.definition); err != nil {
		return fmt.Errorf("the definition of the table: %w", err)
	}
	t.created = d.Time()
	for range d.Len() {
		t.tags = append(t.tags, tag{Key: d.String(), Value: d.String()})
	}
	t.ttl.attribute = d.String()
	if failed := t.define(); failed != nil {
		return failed
	}
	return nil
}

// The note methods mark the records that a change affects.

func (t *table) noteTable() {
	if t.kept.Kept() {
		t.kept.Note(tableKind + "/" + t.name)
	}
}

// noteItem marks the records of an item and of its TTL time.
func (t *table) noteItem(storageKey string) {
	if !t.kept.Kept() {
		return
	}
	t.kept.Note(itemKind + "/" + t.name + "/" + storageKey)
	if t.ttl.attribute != "" {
		t.noteDue(storageKey)
	}
}

func (t *table) noteDue(storageKey string) {
	if t.kept.Kept() {
		t.kept.Note(dueKind + "/" + t.name + "/" + storageKey)
	}
}

// noteAllDue marks the records of the TTL times of all items.
func (t *table) noteAllDue() {
	for _, storageKey := range t.ttl.due.From("") {
		t.noteDue(storageKey)
	}
}

// noteAll marks the records of the table and of everything in it.
func (t *table) noteAll() {
	t.noteTable()
	for storageKey := range t.items.From("") {
		t.noteItem(storageKey)
	}
}

func (m *Model) noteToken(token string) {
	if m.kept.Kept() {
		m.kept.Note(tokenKind + "/" + token)
	}
}

// add schedules an item for deletion by TTL.
func (ttl *timeToLive) add(dueKey, storageKey string) {
	ttl.due.Set(dueKey, storageKey)
	if ttl.dueKeys == nil {
		ttl.dueKeys = make(map[string]string)
	}
	ttl.dueKeys[storageKey] = dueKey
}

// add appends a token to the used tokens.
func (t *tokens) add(token string, request rememberedRequest) {
	if t.requests == nil {
		t.requests = make(map[string]rememberedRequest)
	}
	t.requests[token] = request
	t.order = append(t.order, token)
}
