package dynamostore

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// IndexName is the name of the global secondary index that ListPage reads.
const IndexName = "by_state"

// IndexShards is into how many partitions the index spreads the instances that are active, and as many
// the others. A partition takes 1,000 writes a second, and an index that cannot keep up holds up the table's writes.
//
// It may grow from one version to the next: an instance moves when it is committed, and readers of the later
// version find it before and after. It must not shrink.
const IndexShards = 16

// The attributes that the index is keyed by; items that lack them are not in it.
const (
	// attrIndexShard is "active/7", or "other/7" of an instance that is not active: what has ended,
	// the most as a rule, is not read through to find what lives.
	attrIndexShard = "index_shard"
	// attrIndexKey is "machine/state/id": unique, so that a position in the index is one text.
	attrIndexKey = "index_key"

	shardsActive = "active"
	shardsOther  = "other"
)

// indexHeadBytesMax limits the state in attrIndexKey, as DynamoDB takes sort keys of at most 1,024 bytes.
const indexHeadBytesMax = 512

// putIndex adds the attributes by which the index finds the item.
func putIndex(item map[string]types.AttributeValue, record durable.Record) {
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

// indexHead returns the innermost state that has all the active ones inside it, or is the only one: an item
// has one place in the index, and an instance may be in several states at a time. It is empty if they have none
// in common, and an outer one if the path is too long.
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

// outer returns the path of the state around the one with the path, empty if there is none.
func outer(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }

// within reports whether the path is that of the state or of one inside it.
func within(path, state string) bool {
	return path == state || strings.HasPrefix(path, state+".")
}

// indexRange is a part of each shard: the keys from the first to the second, both included.
type indexRange struct{ from, to string }

// indexShards returns the names of the shards in which the filter's instances are.
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

// indexRanges returns the ranges in which the filter's instances are, in order; others may be there too.
// Its bounds follow from the bytes: '.' comes before '/', and that before '0'.
func (f Filter) indexRanges() []indexRange {
	switch {
	case f.Machine == "":
		return []indexRange{{"!", "\x7f"}} // a name is of the bytes between
	case f.State == "":
		return []indexRange{{f.Machine + "/", f.Machine + "0"}}
	}
	var ranges []indexRange
	if len(f.State) <= indexHeadBytesMax {
		ranges = append(ranges, indexRange{f.Machine + "/" + f.State + ".", f.Machine + "/" + f.State + "0"})
	}
	// Instances that are in states of several regions stand under what these have in common.
	for state := f.State; state != ""; {
		state = outer(state)
		if len(state) <= indexHeadBytesMax {
			ranges = append(ranges, indexRange{f.Machine + "/" + state + "/", f.Machine + "/" + state + "0"})
		}
	}
	slices.SortFunc(ranges, func(a, b indexRange) int { return strings.Compare(a.from, b.from) })
	return ranges
}

// indexEntry is what the index tells of an instance.
type indexEntry struct {
	key, instance string
}

// indexEntryOf reads an entry; ok is false if the filter does not choose it.
func (f Filter) indexEntryOf(item map[string]types.AttributeValue) (entry indexEntry, ok bool, err error) {
	r := reader{item: item}
	entry = indexEntry{key: r.text(attrIndexKey), instance: r.text(attrInstance)}
	if r.err != nil {
		return indexEntry{}, false, fmt.Errorf("an entry of index %s: %w", IndexName, r.err)
	}
	return entry, f.mayBeInState(item), nil
}

// mayBeInState is inState for an entry. One that cannot be read is not passed over: its instance tells what is
// wrong with it.
func (f Filter) mayBeInState(entry map[string]types.AttributeValue) bool {
	if f.State == "" {
		return true
	}
	r := reader{item: entry}
	var state []string
	r.json(attrState, &state)
	return r.err != nil || f.inState(state)
}

// indexSchema is the index as CreateTable and UpdateTable want it.
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
