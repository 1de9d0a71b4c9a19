package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// pageReadsMax is how many requests a page makes at a time.
	pageReadsMax = 16
	// shardEntriesMin is how many entries of a shard are asked for at least: the filter may choose few of them.
	shardEntriesMin = 100

	// PageInstancesMax is the largest limit that ListPage takes.
	PageInstancesMax = 1000
)

var (
	// ErrNoIndex is returned by ListPage when the table does not have the index.
	ErrNoIndex = errors.New("the table has no index " + IndexName + ": add it, or list without it")
	// ErrCursor is returned by ListPage when it is given a cursor that it did not return for the same filter.
	ErrCursor = errors.New("not a cursor of this listing")
)

// Page is a part of a listing.
type Page struct {
	Records []durable.Record
	// Unreadable are the instances whose items cannot be decoded.
	Unreadable []*ItemError
	// Cursor is where the next page begins; empty if the index has no more.
	Cursor string
}

// ListPage returns up to limit of the instances that the filter chooses, found by the index, from where a
// cursor of an earlier page points to, or from the beginning if that is empty. They come in the order of machine,
// state and ID, of the index; while nothing changes, the pages together have each instance once.
//
// The index follows the table within a second as a rule, and DynamoDB promises no time. What a page tells of an instance
// is read from the instance itself, consistently: it has none that the filter does not choose any more, and may
// therefore be shorter than limit, even empty, with a cursor. But it may lack an instance that has come into the state,
// or begun, a moment ago; an instance that moves between two pages can be in both or in neither.
// It lacks those that were not committed by a store of NewIndexed. List with Filter.Consistent lacks none.
//
// A filter with a machine, with or without a state, reads that part of the index; tag, and a status other than active, are looked
// for in that part. It fails with ErrNoIndex and ErrCursor.
func (s *Store) ListPage(ctx context.Context, filter Filter, limit int, cursor string) (Page, error) {
	const doing = "listing the instances"
	if limit < 1 || limit > PageInstancesMax {
		return Page{}, s.failed(doing, fmt.Errorf("expected a limit of 1 to %d, got %d", PageInstancesMax, limit))
	}
	if filter.Consistent {
		return Page{}, s.failed(doing, errors.New("expected a filter without Consistent, as an index cannot be read so, got one with it: use List"))
	}
	after, err := filter.position(cursor)
	if err != nil {
		return Page{}, s.failed(doing, err)
	}
	found, err := s.findEntries(ctx, filter, after, limit+1) // one more, to know whether there is a next page
	if err != nil {
		return Page{}, s.failed(doing, err)
	}
	var page Page
	if len(found) > limit {
		found = found[:limit]
		page.Cursor = filter.cursor(found[limit-1].key)
	}
	items, err := s.readItems(ctx, found)
	if err != nil {
		return Page{}, s.failed(doing, err)
	}
	for _, item := range items {
		if len(item) == 0 {
			continue
		}
		record, unreadable := s.decodeListed(item)
		if unreadable != nil {
			page.Unreadable = append(page.Unreadable, unreadable)
		} else if filter.chooses(item, record) {
			page.Records = append(page.Records, record)
		}
	}
	return page, nil
}

// findEntries returns up to limit of the entries that the filter chooses, those after a key, in the order of their keys.
func (s *Store) findEntries(ctx context.Context, filter Filter, after string, limit int) ([]indexEntry, error) {
	var found []indexEntry
	for _, keys := range filter.indexRanges() {
		// Ranges may overlap if names of states have slashes: what was found is not found again.
		if len(found) > 0 {
			after = found[len(found)-1].key
		}
		if after != "" {
			keys.from = max(keys.from, after+"\x00") // the least key after it
		}
		if keys.from > keys.to {
			continue
		}
		merged, err := s.mergeShards(ctx, filter, keys, limit-len(found))
		if err != nil {
			return nil, err
		}
		if found = append(found, merged...); len(found) == limit {
			break
		}
	}
	return found, nil
}

// shardReader reads a range of one shard, page by page.
type shardReader struct {
	input *dynamodb.QueryInput
	// entries are those that were read and not taken yet; ended says that no page follows them.
	entries []indexEntry
	ended   bool
	err     error
}

// mergeShards returns up to limit of the entries that the filter chooses, in the order of their keys.
func (s *Store) mergeShards(ctx context.Context, filter Filter, keys indexRange, limit int) ([]indexEntry, error) {
	var shards []*shardReader
	for _, shard := range filter.indexShards() {
		shards = append(shards, &shardReader{input: filter.query(s.table, shard, keys, limit)})
	}
	var found []indexEntry
	for len(found) < limit {
		empty := slices.DeleteFunc(slices.Clone(shards), func(r *shardReader) bool { return len(r.entries) > 0 || r.ended })
		atOnce(len(empty), func(i int) { empty[i].fill(ctx, s.client, filter) })
		var least *shardReader
		for _, shard := range shards {
			if shard.err != nil {
				return nil, shard.err
			}
			if len(shard.entries) > 0 && (least == nil || shard.entries[0].key < least.entries[0].key) {
				least = shard
			}
		}
		if least == nil {
			break
		}
		found, least.entries = append(found, least.entries[0]), least.entries[1:]
	}
	return found, nil
}

// fill reads on until there is an entry to take, or the end.
func (r *shardReader) fill(ctx context.Context, client Client, filter Filter) {
	for r.err == nil && len(r.entries) == 0 && !r.ended {
		page, err := client.Query(ctx, r.input)
		if err != nil {
			r.err = classifyIndex(err)
			return
		}
		for _, item := range page.Items {
			entry, ok, err := filter.indexEntryOf(item)
			if err != nil {
				r.err = err
				return
			}
			if ok {
				r.entries = append(r.entries, entry)
			}
		}
		r.input.ExclusiveStartKey, r.ended = page.LastEvaluatedKey, len(page.LastEvaluatedKey) == 0
	}
}

// query returns the request of the first page of a shard. It asks for all that the index can compare; an
// instance's states it cannot.
func (f Filter) query(table, shard string, keys indexRange, limit int) *dynamodb.QueryInput {
	input := &dynamodb.QueryInput{
		TableName: &table, IndexName: aws.String(IndexName), Limit: aws.Int32(int32(max(limit, shardEntriesMin))),
		KeyConditionExpression:    aws.String("#shard = :shard AND #key BETWEEN :from AND :to"),
		ExpressionAttributeNames:  map[string]string{"#shard": attrIndexShard, "#key": attrIndexKey},
		ExpressionAttributeValues: map[string]types.AttributeValue{":shard": text(shard), ":from": text(keys.from), ":to": text(keys.to)},
	}
	var conditions []string
	if f.Status != "" && f.Status != statechart.Active { // active ones have shards of their own
		conditions = append(conditions, "#status = :status")
		input.ExpressionAttributeNames["#status"], input.ExpressionAttributeValues[":status"] = attrStatus, text(string(f.Status))
	}
	if f.Tag != "" {
		conditions = append(conditions, "contains(#tags, :tag)")
		input.ExpressionAttributeNames["#tags"], input.ExpressionAttributeValues[":tag"] = attrTags, text(f.Tag)
	}
	if len(conditions) > 0 {
		input.FilterExpression = aws.String(strings.Join(conditions, " AND "))
	}
	return input
}

// readItems reads the items of entries consistently, in their order; one that is gone is empty.
func (s *Store) readItems(ctx context.Context, entries []indexEntry) ([]map[string]types.AttributeValue, error) {
	items, errs := make([]map[string]types.AttributeValue, len(entries)), make([]error, len(entries))
	atOnce(len(entries), func(i int) {
		output, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &s.table, ConsistentRead: aws.Bool(true),
			Key: map[string]types.AttributeValue{attrInstance: text(entries[i].instance)},
		})
		if err != nil {
			errs[i] = fmt.Errorf("reading %s: %w", entries[i].instance, err)
			return
		}
		items[i] = output.Item
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

// atOnce calls a function for each number below n, pageReadsMax at a time.
func atOnce(n int, do func(i int)) {
	var group sync.WaitGroup
	turns := make(chan struct{}, pageReadsMax)
	for i := range n {
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			do(i)
		})
	}
	group.Wait()
}

// classifyIndex tells that there is no index from all else that may be wrong.
func classifyIndex(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ValidationException" && strings.Contains(api.ErrorMessage(), "does not have the specified index") {
		return ErrNoIndex
	}
	return err
}

// cursorKeys is a cursor's content, in base64: after which key the next page begins, and of which listing.
type cursorKeys struct {
	After string `json:"after"`
	Of    string `json:"of"`
}

// cursor returns the cursor of the page after the one that ends with the key.
func (f Filter) cursor(key string) string {
	data, _ := json.Marshal(cursorKeys{After: key, Of: f.fingerprint()}) // texts always have a JSON form
	return base64.RawURLEncoding.EncodeToString(data)
}

// position returns the key that a cursor of the filter points behind, empty for the beginning.
func (f Filter) position(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	var keys cursorKeys
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(data, &keys)
	}
	if err != nil || keys.After == "" || keys.Of == "" {
		return "", fmt.Errorf("%w: expected the text that came with the page before, whole, got %.100q", ErrCursor, cursor)
	}
	if keys.Of != f.fingerprint() {
		return "", fmt.Errorf("%w: expected the one of a page with the same machine, state, tag and status, got that of another listing: begin without a cursor", ErrCursor)
	}
	return keys.After, nil
}

// fingerprint tells listings from one another.
func (f Filter) fingerprint() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", f.Machine, f.State, f.Tag, f.Status))
	return hex.EncodeToString(sum[:8])
}
