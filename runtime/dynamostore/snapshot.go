package dynamostore

import (
	"bytes"
	"encoding/json"
	"errors"
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
	var keys []string
	var got json.RawMessage // the status
	rest := map[string]types.AttributeValue{}
	p := parser{snapshot}
	err := p.object(func(key string) error {
		keys = append(keys, key)
		at, into, name := append(make(path, 0, 8), step{name: attrSnapshot}, step{name: key}), rest, key
		for _, field := range snapshotAttributes {
			if field.key == key {
				at, into, name = append(at[:0], step{name: field.attribute}), item, field.attribute
			}
		}
		text := p.rest
		value, err := p.value(at)
		if key == "status" {
			got = bytes.TrimSpace(text[:len(text)-len(p.rest)])
		} else {
			into[name] = value
		}
		return err
	})
	if err == nil && !p.ends() {
		err = errNotJSON
	}
	if errors.Is(err, errNotJSON) {
		err = fmt.Errorf("the snapshot: expected a JSON object: %w", err)
	}
	if err != nil {
		return err
	}
	if !slices.Contains(keys, "version") {
		return fmt.Errorf("the snapshot: expected the key \"version\", got only %v", slices.Sorted(slices.Values(keys)))
	}
	if want := string(appendString(nil, string(status))); string(got) != want {
		return fmt.Errorf("the snapshot: expected the record's status %s under the key \"status\", got %s", want, got)
	}
	if len(rest) > 0 {
		item[attrSnapshot] = &types.AttributeValueMemberM{Value: rest}
	}
	return nil
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
