package dynamostore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/statechart"
)

// snapshotAttributes are the keys of a snapshot that have their own attribute. The status is not among them, because
// attrStatus stores it as the record's status.
var snapshotAttributes = []struct{ key, attribute string }{
	{"machine", "machine"},
	{"version", attrChartVersion},
	{"value", "value"},
	{"context", "context"},
	{"tags", attrTags},
	{"historyValue", "history_value"},
	{"timers", "timers"},
	{"services", "services"},
	{"children", "children"},
	{"deferred", "deferred"},
	{"steps", "steps"},
	{"output", "output"},
}

// putSnapshot writes a snapshot to the attributes of an item.
func putSnapshot(item map[string]types.AttributeValue, snapshot json.RawMessage, status statechart.Status) error {
	if len(snapshot) == 0 {
		return nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(snapshot, &keys); err != nil {
		return fmt.Errorf("the snapshot: expected a JSON object: %w", err)
	}
	if _, ok := keys["version"]; !ok {
		return fmt.Errorf("the snapshot: expected the key \"version\", got only %v", slices.Sorted(maps.Keys(keys)))
	}
	if want := string(appendString(nil, string(status))); string(keys["status"]) != want {
		return fmt.Errorf("the snapshot: expected the record's status %s under the key \"status\", got %s", want, keys["status"])
	}
	delete(keys, "status")
	for _, field := range snapshotAttributes {
		value, ok := keys[field.key]
		if !ok {
			continue
		}
		delete(keys, field.key)
		attribute, err := attributeOf(field.attribute, value)
		if err != nil {
			return err
		}
		item[field.attribute] = attribute
	}
	if len(keys) == 0 {
		return nil
	}
	rest, err := attributeOf(attrSnapshot, keys)
	item[attrSnapshot] = rest
	return err
}

// snapshotOf reads a snapshot from the attributes of an item; nil if it has none.
func snapshotOf(item map[string]types.AttributeValue) (json.RawMessage, error) {
	if _, ok := item[attrChartVersion]; !ok {
		for _, field := range snapshotAttributes {
			if _, ok := item[field.attribute]; ok {
				return nil, fmt.Errorf("the snapshot: expected the attribute %q beside %q, got none", attrChartVersion, field.attribute)
			}
		}
		return nil, nil
	}
	keys := map[string]types.AttributeValue{}
	if rest, ok := item[attrSnapshot]; ok {
		fields, ok := rest.(*types.AttributeValueMemberM)
		if !ok {
			return nil, fmt.Errorf("attribute %q: expected a map (M), got %s", attrSnapshot, typeName(rest))
		}
		maps.Copy(keys, fields.Value)
	}
	keys["status"] = item[attrStatus]
	for _, field := range snapshotAttributes {
		if value, ok := item[field.attribute]; ok {
			keys[field.key] = value
		}
	}
	snapshot, err := appendMap(nil, keys)
	if err != nil {
		return nil, fmt.Errorf("the snapshot: %w", err)
	}
	return snapshot, nil
}
