package dynamostore

import (
	"context"
	"iter"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Filter selects instances. The zero value selects all.
type Filter struct {
	// Machine selects the instances of the machine with this ID.
	Machine string
	// Prefix selects the instances of the machine whose IDs begin with this text. It requires Machine.
	Prefix string
	// State selects the instances that are in the state with this path, or in a descendant.
	State string
	// Tag selects the instances that have this tag.
	Tag string
	// Status selects the instances with this status.
	Status statechart.Status
	// Consistent makes List read each page consistently, so that it includes every earlier commit. This doubles the
	// consumed read capacity. ListPage returns an error if Consistent is set.
	Consistent bool
}

// ItemError is the error of an item that a listing cannot decode.
type ItemError struct {
	// Instance is the item's key; empty if the key is not a string.
	Instance string
	err      error
}

func (e *ItemError) Error() string { return e.err.Error() }
func (e *ItemError) Unwrap() error { return e.err }

// Key returns Instance, for compat.Check.
func (e *ItemError) Key() string { return e.Instance }

// List yields the records that the filter selects, in no particular order. It scans the whole table, page by page while
// the caller iterates. Use it for people and for checks, not to handle events. If the table has an index, ListPage
// finds the same instances through it.
//
// If a page cannot be read, List yields the error and ends. If an item cannot be decoded, List yields an *ItemError
// that names the item, and a record with at most Instance set. The caller may then continue.
func (s *Store) List(ctx context.Context, filter Filter) iter.Seq2[instances.Record, error] {
	return func(yield func(instances.Record, error) bool) {
		input := filter.scan(s.table)
		for {
			page, err := s.client.Scan(ctx, input)
			if err != nil {
				yield(instances.Record{}, s.failed("listing the instances", err))
				return
			}
			for _, item := range page.Items {
				record, unreadable := s.decodeListed(item)
				var err error
				if unreadable != nil {
					err = unreadable
				} else if !filter.inState(record.State) {
					continue
				}
				if !yield(record, err) {
					return
				}
			}
			if len(page.LastEvaluatedKey) == 0 {
				return
			}
			input.ExclusiveStartKey = page.LastEvaluatedKey
		}
	}
}

// decodeListed decodes an item. If that fails, it returns an error that names the item. The record then has at most
// Instance set.
func (s *Store) decodeListed(item map[string]types.AttributeValue) (instances.Record, *ItemError) {
	record, err := decodeItem(item)
	if err == nil {
		return record, nil
	}
	r := reader{item: item}
	name := r.text(attrInstance)
	record = instances.Record{}
	record.Instance, _ = instances.ParseID(name)
	return record, &ItemError{Instance: name, err: s.failed("decoding "+name, err)}
}

// scan returns the request for the first page. Items without a revision are not instances.
func (f Filter) scan(table string) *dynamodb.ScanInput {
	condition := "attribute_exists(#revision)"
	names := map[string]string{"#revision": attrRevision}
	values := map[string]types.AttributeValue{}
	if f.Machine != "" {
		condition += " AND begins_with(#instance, :machine)"
		names["#instance"] = attrInstance
		values[":machine"] = text(f.Machine + "/" + f.Prefix)
	}
	if f.Status != "" {
		condition += " AND #status = :status"
		names["#status"] = attrStatus
		values[":status"] = text(string(f.Status))
	}
	if f.Tag != "" {
		condition += " AND contains(#tags, :tag)"
		names["#tags"] = attrTags
		values[":tag"] = text(f.Tag)
	}
	input := &dynamodb.ScanInput{
		TableName: &table, FilterExpression: aws.String(condition), ExpressionAttributeNames: names, ConsistentRead: aws.Bool(f.Consistent),
	}
	if len(values) > 0 { // DynamoDB refuses an empty map
		input.ExpressionAttributeValues = values
	}
	return input
}

// inState reports whether one of the active states is the filter's state or its descendant. DynamoDB's conditions
// cannot match a prefix of a list's element.
func (f Filter) inState(state []string) bool {
	return f.State == "" || slices.ContainsFunc(state, func(path string) bool { return within(path, f.State) })
}

// selects reports whether the filter selects an instance by its current item. The machine never changes, so selects
// does not check it.
func (f Filter) selects(item map[string]types.AttributeValue, record instances.Record) bool {
	if f.Tag != "" {
		r := reader{item: item}
		var tags []string
		if r.json(attrTags, &tags); !slices.Contains(tags, f.Tag) {
			return false
		}
	}
	return (f.Status == "" || f.Status == record.Status) && f.inState(record.State)
}
