package dynamostore

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Counts counts the instances of a machine.
type Counts struct {
	Instances int
	// States maps the paths of active atomic states to the number of instances in them. An instance in several regions
	// counts in several states. An instance that has ended counts in the states in which it ended.
	States map[string]int
	// Tags maps the tags of active states to the number of instances that have them.
	Tags map[string]int
}

// Count counts the instances of a machine from the index alone. It reads no items, so the counts are as old as the
// index, usually less than a second. For each of the 32 shards, it consumes half a read unit per 4 KB of entries, and
// at least half a unit. Fails with ErrNoIndex if the table has no index.
func (s *Store) Count(ctx context.Context, machine string) (Counts, error) {
	filter := Filter{Machine: machine}
	shards := filter.indexShards()
	parts, errs := make([]Counts, len(shards)), make([]error, len(shards))
	atOnce(len(shards), func(i int) {
		parts[i], errs[i] = s.countShard(ctx, filter, shards[i])
	})
	sum := newCounts()
	for i, part := range parts {
		if errs[i] != nil {
			return Counts{}, s.failed("counting the instances", errs[i])
		}
		sum.Instances += part.Instances
		addAll(sum.States, part.States)
		addAll(sum.Tags, part.Tags)
	}
	return sum, nil
}

func newCounts() Counts { return Counts{States: map[string]int{}, Tags: map[string]int{}} }

func addAll(sum, part map[string]int) {
	for name, count := range part {
		sum[name] += count
	}
}

// countShard counts the entries of one shard.
func (s *Store) countShard(ctx context.Context, filter Filter, shard string) (Counts, error) {
	counts := newCounts()
	input := filter.query(s.table, shard, filter.indexRanges()[0], 0)
	input.Limit = nil // DynamoDB then returns up to 1 MB at a time.
	for {
		page, err := s.client.Query(ctx, input)
		if err != nil {
			return Counts{}, classifyIndex(err)
		}
		for _, entry := range page.Items {
			if err := counts.add(entry); err != nil {
				return Counts{}, err
			}
		}
		if len(page.LastEvaluatedKey) == 0 {
			return counts, nil
		}
		input.ExclusiveStartKey = page.LastEvaluatedKey
	}
}

// add counts one entry of the index.
func (c *Counts) add(entry map[string]types.AttributeValue) error {
	var state, tags []string
	r := reader{item: entry}
	r.json(attrState, &state)
	r.json(attrTags, &tags)
	c.Instances++
	for _, path := range state {
		c.States[path]++
	}
	for _, tag := range tags {
		c.Tags[tag]++
	}
	return r.err
}
