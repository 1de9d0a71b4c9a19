package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// pageReadsMax limits the concurrent requests for one page.
	pageReadsMax = 16
	// shardEntriesMin is the smallest page size for a query of a shard. It may exceed the limit given to ListPage,
	// because the filter may exclude most entries that a query reads.
	shardEntriesMin = 100

	// PageInstancesMax is the largest limit that ListPage accepts.
	PageInstancesMax = 1000
)

var (
	// ErrNoIndex is returned by ListPage if the table does not have the index.
	ErrNoIndex = errors.New("the table has no index " + IndexName + ": add it, or list without it")
	// ErrCursor is returned by ListPage if the cursor is not from a page with the same filter.
	ErrCursor = errors.New("not a cursor of this listing")
)

// Page is a part of a listing.
type Page struct {
	Records []instances.Record
	// Unreadable lists the instances whose items cannot be decoded.
	Unreadable []*ItemError
	// Cursor is the start of the next page; empty if this is the last page.
	Cursor string
}

// ListPage returns up to `limit` of the instances that the filter selects, using the index. It starts at the cursor of
// an earlier page, or at the beginning if the cursor is empty. Instances are in the index's order: machine, state, ID.
// While nothing changes, the pages together contain each instance once.
//
// The index usually follows the table within a second, but DynamoDB promises no time. ListPage reads the item of each
// instance consistently, and drops the instance if the filter no longer selects it. So a page may be shorter than
// limit, or even empty with a cursor. A page may lack an instance that just started or just entered the state. An
// instance that moves between two pages can be in both or in neither. An instance is missing if no store from
// NewIndexed has committed it. List with Filter.Consistent misses none.
//
// If the filter has a machine or a state of a machine, ListPage reads only that part of the index. It filters that part
// by tag, and by a status other than active. It fails with ErrNoIndex or ErrCursor.
func (s *Store) ListPage(ctx context.Context, filter Filter, limit int, cursor string) (Page, error) {
	const doing = "listing the instances"
	if limit < 1 || limit > PageInstancesMax {
		return Page{}, s.failed(doing, fmt.Errorf("expected a limit of 1 to %d, got %d", PageInstancesMax, limit))
	}
	if filter.Consistent {
		return Page{}, s.failed(doing, errors.New("expected a filter without Consistent, because an index cannot be read consistently: use List"))
	}
	after, err := filter.position(cursor)
	if err != nil {
		return Page{}, s.failed(doing, err)
	}
	found, err := s.findEntries(ctx, filter, after, limit+1) // one more shows whether there is a next page
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
		} else if filter.selects(item, record) {
			page.Records = append(page.Records, record)
		}
	}
	return page, nil
}

// ListIndexed yields the instances of all pages of ListPage, in their order, and an *ItemError for each unreadable item.
// Any other error, such as ErrNoIndex, ends the list.
func (s *Store) ListIndexed(ctx context.Context, filter Filter) iter.Seq2[instances.Record, error] {
	return func(yield func(instances.Record, error) bool) {
		for cursor := ""; ; {
			page, err := s.ListPage(ctx, filter, PageInstancesMax, cursor)
			if err != nil {
				yield(instances.Record{}, err)
				return
			}
			for _, record := range page.Records {
				if !yield(record, nil) {
					return
				}
			}
			for _, item := range page.Unreadable {
				if !yield(instances.Record{}, item) {
					return
				}
			}
			if cursor = page.Cursor; cursor == "" {
				return
			}
		}
	}
}

// findEntries returns up to `limit` entries that the filter selects, in key order. It starts behind the given key.
func (s *Store) findEntries(ctx context.Context, filter Filter, after string, limit int) ([]indexEntry, error) {
	var found []indexEntry
	for _, keys := range filter.indexRanges() {
		// Ranges may overlap if names of states contain slashes. Skip entries that are already found.
		if len(found) > 0 {
			after = found[len(found)-1].key
		}
		if after != "" {
			keys.from = max(keys.from, after+"\x00") // the next key
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
	// entries holds the entries that fill has read and mergeShards has not taken yet. `ended` is set once fill has read
	// the last page.
	entries []indexEntry
	ended   bool
	err     error
}

// mergeShards returns up to `limit` entries that the filter selects, in key order.
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

// fill reads pages until there is an entry to take, or the range ends.
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

// query returns the request for the first page of a shard. The request includes every condition that DynamoDB can
// evaluate. DynamoDB cannot match an instance's states.
func (f Filter) query(table, shard string, keys indexRange, limit int) *dynamodb.QueryInput {
	input := &dynamodb.QueryInput{
		TableName: &table, IndexName: aws.String(IndexName), Limit: aws.Int32(int32(max(limit, shardEntriesMin))),
		KeyConditionExpression:    aws.String("#shard = :shard AND #key BETWEEN :from AND :to"),
		ExpressionAttributeNames:  map[string]string{"#shard": attrIndexShard, "#key": attrIndexKey},
		ExpressionAttributeValues: map[string]types.AttributeValue{":shard": text(shard), ":from": text(keys.from), ":to": text(keys.to)},
	}
	var conditions []string
	if f.Status != "" && f.Status != statechart.Active { // active instances have their own shards
		conditions = append(conditions, "#status = :status")
		input.ExpressionAttributeNames["#status"], input.ExpressionAttributeValues[":status"] = attrStatus, text(string(f.Status))
	}
	if f.Prefix != "" {
		conditions = append(conditions, "begins_with(#instance, :prefix)")
		input.ExpressionAttributeNames["#instance"], input.ExpressionAttributeValues[":prefix"] = attrInstance, text(f.Machine+"/"+f.Prefix)
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

// readItems reads the items of the entries consistently, and returns them in the order of the entries. It returns an
// empty item for an instance that has been deleted.
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

// atOnce calls `do` for each number below `n`, with up to pageReadsMax concurrent calls.
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

// classifyIndex returns ErrNoIndex if the table has no such index. It returns every other error unchanged.
func classifyIndex(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ValidationException" && strings.Contains(api.ErrorMessage(), "does not have the specified index") {
		return ErrNoIndex
	}
	return err
}

// cursorKeys is a cursor's content, in base64: the last key of the page and the fingerprint of its listing.
type cursorKeys struct {
	After string `json:"after"`
	Of    string `json:"of"`
}

// cursor returns the cursor of the page that follows the key.
func (f Filter) cursor(key string) string {
	data, _ := json.Marshal(cursorKeys{After: key, Of: f.fingerprint()}) // marshalling strings never fails
	return base64.RawURLEncoding.EncodeToString(data)
}

// position returns the key before the cursor's page; empty for the first page.
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
		return "", fmt.Errorf("%w: expected the complete cursor of the previous page, got %.100q", ErrCursor, cursor)
	}
	if keys.Of != f.fingerprint() {
		return "", fmt.Errorf("%w: expected a cursor for the same machine, prefix, state, tag and status, got one for another listing: start again without a cursor", ErrCursor)
	}
	return keys.After, nil
}

// fingerprint identifies a listing by its filter.
func (f Filter) fingerprint() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q", f.Machine, f.Prefix, f.State, f.Tag, f.Status))
	return hex.EncodeToString(sum[:8])
}
