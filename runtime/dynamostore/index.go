package dynamostore

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// IndexName is the name of the global secondary index that ListPage reads.
const IndexName = "by_state"

// IndexShards is the number of index partitions for active instances. The other instances have the same number of
// separate partitions. A partition accepts 1,000 writes a second. An index that cannot keep up throttles the table.
//
// A later version may raise the number. An instance then moves to its new partition at its next commit, and readers of
// that version find it before and after the move. A later version must not lower the number.
const IndexShards = 16

// The key attributes of the index. Items without them are not in the index.
const (
	// attrIndexShard is "active/7", or "other/7" for an instance that is not active. So a search for active instances
	// does not read the others, which are usually most of the table.
	attrIndexShard = "index_shard"
	// attrIndexKey is "machine/state/id". It is unique, so one string identifies a position in the index.
	attrIndexKey = "index_key"

	shardsActive = "active"
	shardsOther  = "other"
)

// indexHeadBytesMax limits the state in attrIndexKey, because DynamoDB limits sort keys to 1,024 bytes.
const indexHeadBytesMax = 512

// putIndex adds the key attributes of the index to the item.
func putIndex(item map[string]types.AttributeValue, record instances.Record) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(record.Instance.String())) // never fails
	group := shardsOther
	if record.Status == statechart.Active {
		group = shardsActive
	}
	item[attrIndexShard] = text(shardName(group, int(hash.Sum32()%IndexShards)))
	item[attrIndexKey] = text(record.Instance.Machine + "/" + indexHead(record.State) + "/" + record.Instance.ID)
}

func shardName(group string, shard int) string { return group + "/" + strconv.Itoa(shard) }

// indexHead returns the innermost state that contains all active states, or the only active state. An item has one
// entry in the index, but an instance may be in several states at once. If the states have no common ancestor,
// indexHead returns "". If the state's path is too long for the index, indexHead returns the nearest outer state whose
// path fits.
func indexHead(state []string) string {
	if len(state) == 0 {
		return ""
	}
	head := state[0]
	for _, path := range state[1:] {
		for head != "" && !within(path, head) {
			head = outer(head)
		}
	}
	for len(head) > indexHeadBytesMax {
		head = outer(head)
	}
	return head
}

// outer returns the path of the parent state, or "" at the top level.
func outer(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }

// within reports whether the path leads to the state or to one of its descendants.
func within(path, state string) bool {
	return path == state || strings.HasPrefix(path, state+".")
}

// indexRange is a range of keys in each shard, both ends included.
type indexRange struct{ from, to string }

// indexShards returns the names of the shards that contain the filter's instances.
func (f Filter) indexShards() []string {
	groups := []string{shardsActive, shardsOther}
	switch f.Status {
	case "":
	case statechart.Active:
		groups = groups[:1]
	default:
		groups = groups[1:]
	}
	var names []string
	for _, group := range groups {
		for shard := range IndexShards {
			names = append(names, shardName(group, shard))
		}
	}
	return names
}

// indexRanges returns the ranges that contain the filter's instances, in order. The ranges may contain other
// instances too. The bounds rely on the byte order: '.' sorts before '/', which sorts before '0'.
func (f Filter) indexRanges() []indexRange {
	switch {
	case f.Machine == "":
		return []indexRange{{"!", "\x7f"}} // all bytes of names are in this range
	case f.State == "":
		return []indexRange{{f.Machine + "/", f.Machine + "0"}}
	}
	var ranges []indexRange
	if len(f.State) <= indexHeadBytesMax {
		ranges = append(ranges, indexRange{f.Machine + "/" + f.State + ".", f.Machine + "/" + f.State + "0"})
	}
	// Instances in states of several regions are stored under the common ancestor.
	for state := f.State; state != ""; {
		state = outer(state)
		if len(state) <= indexHeadBytesMax {
			ranges = append(ranges, indexRange{f.Machine + "/" + state + "/", f.Machine + "/" + state + "0"})
		}
	}
	slices.SortFunc(ranges, func(a, b indexRange) int { return strings.Compare(a.from, b.from) })
	return ranges
}

// indexEntry is an instance's entry in the index.
type indexEntry struct {
	key, instance string
}

// indexEntryOf decodes an entry. ok is false if the filter excludes it.
func (f Filter) indexEntryOf(item map[string]types.AttributeValue) (entry indexEntry, ok bool, err error) {
	r := reader{item: item}
	entry = indexEntry{key: r.text(attrIndexKey), instance: r.text(attrInstance)}
	if r.err != nil {
		return indexEntry{}, false, fmt.Errorf("an entry of index %s: %w", IndexName, r.err)
	}
	return entry, f.mayBeInState(item), nil
}

// mayBeInState reports whether an index entry shows the instance in the filter's state. It also returns true for an
// entry that cannot be decoded, because the caller then reads the instance's item and reports the error.
func (f Filter) mayBeInState(entry map[string]types.AttributeValue) bool {
	if f.State == "" {
		return true
	}
	r := reader{item: entry}
	var state []string
	r.json(attrState, &state)
	return r.err != nil || f.inState(state)
}

// indexSchema returns the index in the form that CreateTable and UpdateTable require.
func indexSchema() ([]types.AttributeDefinition, types.GlobalSecondaryIndex) {
	return []types.AttributeDefinition{
			{AttributeName: aws.String(attrIndexShard), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(attrIndexKey), AttributeType: types.ScalarAttributeTypeS},
		}, types.GlobalSecondaryIndex{
			IndexName: aws.String(IndexName),
			KeySchema: []types.KeySchemaElement{
				{AttributeName: aws.String(attrIndexShard), KeyType: types.KeyTypeHash},
				{AttributeName: aws.String(attrIndexKey), KeyType: types.KeyTypeRange},
			},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: []string{attrState, attrStatus, attrTags}},
		}
}
