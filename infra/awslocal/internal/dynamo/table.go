package dynamo

import (
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/ordered"
	"github.com/settle-run/settle/infra/awslocal/internal/record"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// ItemBytesMax is the maximum size of an item, including attribute names (DynamoDB Developer Guide, "Service, account,
// and table quotas").
const ItemBytesMax = 400 << 10

// table holds a table with its items and indexes.
type table struct {
	name    string
	created time.Time
	// definition is the request that created the table. Descriptions return it.
	definition createTableRequest
	tags       []tag

	schema keySchema
	// items holds the items by storage key.
	items ordered.Map[attribute.Map]
	// bytes is the total size of the items.
	bytes   int
	indexes []*index
	ttl     timeToLive

	kept *record.Touched // shared with the model
}

// define derives key and indexes from the definition.
func (t *table) define() (failed *wire.Error) {
	if t.schema, failed = t.definition.schema(t.definition.KeySchema); failed != nil {
		return failed
	}
	t.indexes, failed = t.definition.newIndexes(t.schema)
	return failed
}

// The ARN of a table is tableARNPrefix followed by the table's name. Requests may use the ARN or the name.
const tableARNPrefix = "arn:aws:dynamodb:" + wire.Region + ":" + wire.Account + ":table/"

// table returns a table. It first deletes the items whose deletion by TTL is due.
func (m *Model) table(now time.Time, name *string) (*table, *wire.Error) {
	if name == nil {
		return nil, missing("tableName")
	}
	t, exists := m.tables[strings.TrimPrefix(*name, tableARNPrefix)]
	if !exists {
		return nil, wire.Errorf("ResourceNotFoundException", "Requested resource not found")
	}
	t.sweep(now)
	return t, nil
}

// get returns the item with a validated key, or nil if it does not exist.
func (t *table) get(key attribute.Map) attribute.Map {
	item, _ := t.items.Get(string(t.schema.storageKey(key)))
	return item
}

// replace replaces the item `old` with the item `changed`. Both have the same key. Nil means no item.
func (t *table) replace(now time.Time, old, changed attribute.Map) {
	image := changed
	if changed == nil {
		image = old
	}
	if image == nil {
		return
	}
	key := string(t.schema.storageKey(image))
	if changed == nil {
		t.items.Delete(key)
	} else {
		t.items.Set(key, changed)
	}
	t.bytes += changed.Size() - old.Size()
	t.ttl.replace(now, key, changed)
	t.noteItem(key)
	for _, index := range t.indexes {
		index.replace(key, old, changed)
	}
}

// checkNew validates the keys and the size of an item to put.
func (t *table) checkNew(item attribute.Map) *wire.Error {
	if failed := t.schema.checkItem(item); failed != nil {
		return failed
	}
	for _, index := range t.indexes {
		if failed := index.checkItem(item); failed != nil {
			return failed
		}
	}
	if item.Size() > ItemBytesMax {
		return validation("Item size has exceeded the maximum allowed size")
	}
	return nil
}

// checkUpdated validates the index keys and the size of an updated item. The item's primary key is already validated.
func (t *table) checkUpdated(item attribute.Map) *wire.Error {
	for _, index := range t.indexes {
		if index.checkItem(item) != nil {
			return invalidParameter("The update expression attempted to update the secondary index key to a value that is not supported. IndexName: %s", index.name)
		}
	}
	if item.Size() > ItemBytesMax {
		return validation("Item size to update has exceeded the maximum allowed size")
	}
	return nil
}
