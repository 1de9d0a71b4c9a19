package dynamo

import (
	"crypto/sha256"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// Limits of key values (DynamoDB Developer Guide, "Service, account, and table quotas").
const (
	PartitionKeyBytesMax = 2048
	SortKeyBytesMax      = 1024
)

// keyAttribute is one attribute of a key.
type keyAttribute struct {
	name string
	typ  attribute.Type
}

// keySchema is the key of a table or index: a partition key and an optional sort key.
type keySchema []keyAttribute

// has reports whether an attribute is part of the key.
func (s keySchema) has(name string) bool {
	for _, key := range s {
		if key.name == name {
			return true
		}
	}
	return false
}

// keyOf returns the key attributes of an item that has all of them.
func (s keySchema) keyOf(item attribute.Map) attribute.Map {
	fields := make([]attribute.Field, 0, 2*len(s))
	for _, key := range s {
		fields = append(fields, attribute.Field{Name: key.name, Value: item.Get(key.name)})
	}
	return attribute.NewMap(fields...)
}

// storageKey encodes the key of an item so that byte order sorts partitions by hash, and the items of a partition by
// sort key.
func (s keySchema) storageKey(item attribute.Map) []byte {
	stored := partitionPrefix(item.Get(s[0].name))
	for _, key := range s[1:] {
		stored = attribute.AppendOrderKey(stored, item.Get(key.name))
	}
	return stored
}

// hashBytes is the length of the hash at the start of a storage key.
const hashBytes = 8

// partitionPrefix returns the common prefix of a partition's storage keys: the hash of the partition key, and the key
// itself.
func partitionPrefix(partition attribute.Value) []byte {
	ordered := attribute.AppendOrderKey(nil, partition)
	hash := sha256.Sum256(ordered)
	return append(hash[:hashBytes:hashBytes], ordered...)
}

// afterPrefix returns the smallest key greater than all keys that start with prefix, or "" if no such key exists.
func afterPrefix(prefix []byte) string {
	for last := len(prefix) - 1; last >= 0; last-- {
		if prefix[last] < 0xFF {
			return string(prefix[:last]) + string([]byte{prefix[last] + 1})
		}
	}
	return ""
}

// checkItem rejects an item without a valid key.
func (s keySchema) checkItem(item attribute.Map) *wire.Error {
	for i, key := range s {
		value := item.Get(key.name)
		if value == nil {
			return invalidParameter("Missing the key %s in the item", key.name)
		}
		if value.Type() != key.typ {
			return invalidParameter("Type mismatch for key %s expected: %s actual: %s", key.name, key.typ, value.Type())
		}
		if failed := checkKeyValue(key, value, i == 0); failed != nil {
			return failed
		}
	}
	return nil
}

// checkKey rejects a key whose attributes are not exactly those in the schema.
func (s keySchema) checkKey(given attribute.Map) *wire.Error {
	for i, key := range s {
		value := given.Get(key.name)
		if len(given) != len(s) || value == nil || value.Type() != key.typ {
			return validation("The provided key element does not match the schema")
		}
		if failed := checkKeyValue(key, value, i == 0); failed != nil {
			return failed
		}
	}
	return nil
}

// checkKeyValue rejects empty and oversized key values.
func checkKeyValue(key keyAttribute, value attribute.Value, isPartition bool) *wire.Error {
	size := keyBytes(value)
	switch {
	case isEmpty(value):
		return validation("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s",
			emptyNames[value.Type()], key.name)
	case isPartition && size > PartitionKeyBytesMax:
		return invalidParameter("Size of hashkey has exceeded the maximum size limit of%d bytes", PartitionKeyBytesMax)
	case !isPartition && size > SortKeyBytesMax:
		return invalidParameter("Aggregated size of all range keys has exceeded the size limit of %d bytes", SortKeyBytesMax)
	}
	return nil
}

var emptyNames = map[attribute.Type]string{attribute.TypeString: "string", attribute.TypeBinary: "binary"}

func isEmpty(value attribute.Value) bool {
	return value == attribute.String("") || value == attribute.Binary("")
}

// keyBytes returns the length of a string or binary. For a number it returns 0, because a number never exceeds the
// limits.
func keyBytes(value attribute.Value) int {
	switch value := value.(type) {
	case attribute.String:
		return len(value)
	case attribute.Binary:
		return len(value)
	}
	return 0
}
