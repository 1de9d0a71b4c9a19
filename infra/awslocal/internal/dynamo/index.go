package dynamo

import (
	"slices"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/ordered"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// index is a global secondary index. It is sparse: it omits items that lack one of its key attributes. Unlike in AWS,
// it is always consistent with its table.
type index struct {
	name   string
	schema keySchema
	// projected lists the attributes of the entries. It is nil if the entries have all attributes.
	projected []string
	// entries holds the projected items. The key of an entry encodes the item's index key, followed by the item's storage
	// key in the table. Entries with equal index keys are therefore in table order.
	entries ordered.Map[attribute.Map]
	// bytes is the total size of the entries.
	bytes int
}

// replace updates the index after a change of an item. tableKey is the item's storage key.
func (x *index) replace(tableKey string, old, changed attribute.Map) {
	oldKey, wasIn := x.storageKey(tableKey, old)
	newKey, isIn := x.storageKey(tableKey, changed)
	if wasIn && (!isIn || oldKey != newKey) {
		x.entries.Delete(oldKey)
	}
	if wasIn {
		x.bytes -= x.project(old).Size()
	}
	if isIn {
		entry := x.project(changed)
		x.entries.Set(newKey, entry)
		x.bytes += entry.Size()
	}
}

// storageKey returns the storage key of an item's entry. ok is false if the item is not in the index.
func (x *index) storageKey(tableKey string, item attribute.Map) (key string, ok bool) {
	for _, attribute := range x.schema {
		if item.Get(attribute.name) == nil {
			return "", false
		}
	}
	return string(x.schema.storageKey(item)) + tableKey, true
}

// project returns the projected attributes of an item.
func (x *index) project(item attribute.Map) attribute.Map {
	if x.projected == nil {
		return item
	}
	var entry attribute.Map
	for _, field := range item {
		if slices.Contains(x.projected, field.Name) {
			entry = append(entry, field)
		}
	}
	return entry
}

// checkItem rejects an item if a value cannot be a key of the index. Key attributes may be absent.
func (x *index) checkItem(item attribute.Map) *wire.Error {
	for i, key := range x.schema {
		value := item.Get(key.name)
		switch {
		case value == nil:
		case value.Type() != key.typ:
			return invalidParameter("Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s", key.name, key.typ, value.Type(), x.name)
		case isEmpty(value):
			return validation("One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty %s value. IndexName: %s, IndexKey: %s",
				emptyNames[value.Type()], x.name, key.name)
		default:
			if failed := checkKeyValue(key, value, i == 0); failed != nil {
				return failed
			}
		}
	}
	return nil
}

// writeUnits returns the write capacity that a change of an item costs the index (DynamoDB Developer Guide, "Using
// Global Secondary Indexes"). A moved entry costs a delete and a put. An unchanged entry costs nothing.
func (x *index) writeUnits(old, changed attribute.Map) float64 {
	oldKey, wasIn := x.storageKey("", old)
	newKey, isIn := x.storageKey("", changed)
	before, after := x.project(old), x.project(changed)
	switch {
	case wasIn && isIn && oldKey == newKey && attribute.Equal(before, after):
		return 0
	case wasIn && isIn && oldKey == newKey:
		return writeUnits(max(before.Size(), after.Size()))
	}
	units := 0.0
	if wasIn {
		units += writeUnits(before.Size())
	}
	if isIn {
		units += writeUnits(after.Size())
	}
	return units
}
