package dynamostore

import (
	"context"
	"iter"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// Filter chooses instances. The zero value chooses all.
type Filter struct {
	// Machine chooses the instances of the machine with this ID.
	Machine string
	// State chooses the instances that are in the state with this path, or in one inside it.
	State string
	// Tag chooses the instances that have this tag.
	Tag string
	// Status chooses the instances with this status.
	Status statechart.Status
	// Consistent has every page of List read consistently, at twice the read capacity: what was committed before
	// the page is read is in it. ListPage refuses it.
	Consistent bool
}

// ItemError is the error of one item of a listing that cannot be decoded.
type ItemError struct {
	// Instance is the item's key, as far as it is a text.
	Instance string
	err      error
}

func (e *ItemError) Error() string { return e.err.Error() }
func (e *ItemError) Unwrap() error { return e.err }

// Key returns Instance, for durable.Check.
func (e *ItemError) Key() string { return e.Instance }

// List yields the records that the filter chooses, in no order. It scans the whole table, page
// by page as the caller goes on: it is meant for people and for checks, not for events. ListPage finds the
// same by an index, if the table has one.
//
// A page that cannot be read yields its error and ends the list. An item that cannot be
// decoded yields an *ItemError, which names the item, and a record that has at most Instance set; the
// list goes on if the caller does.
func (s *Store) List(ctx context.Context, filter Filter) iter.Seq2[durable.Record, error] {
	return func(yield func(durable.Record, error) bool) {
		input := filter.scan(s.table)
		for {
			page, err := s.client.Scan(ctx, input)
			if err != nil {
				yield(durable.Record{}, s.failed("listing the instances", err))
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

// decodeListed decodes an item, or tells which it is that cannot be decoded; the record then has at most Instance set.
func (s *Store) decodeListed(item map[string]types.AttributeValue) (durable.Record, *ItemError) {
	record, err := decodeItem(item)
	if err == nil {
		return record, nil
	}
	r := reader{item: item}
	name := r.text(attrInstance)
	record = durable.Record{}
	record.Instance, _ = durable.ParseInstanceID(name)
	return record, &ItemError{Instance: name, err: s.failed("decoding "+name, err)}
}

// scan returns the request of the first page. Items without a revision are not instances.
func (f Filter) scan(table string) *dynamodb.ScanInput {
	condition := "attribute_exists(#revision)"
	names := map[string]string{"#revision": attrRevision}
	values := map[string]types.AttributeValue{}
	if f.Machine != "" {
		condition += " AND begins_with(#instance, :machine)"
		names["#instance"] = attrInstance
		values[":machine"] = text(f.Machine + "/")
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

// inState reports whether one of the active states is the filter's, or inside it: DynamoDB's conditions cannot
// ask for the prefix of a list's element.
func (f Filter) inState(state []string) bool {
	return f.State == "" || slices.ContainsFunc(state, func(path string) bool { return within(path, f.State) })
}

// chooses reports whether the filter chooses an instance by what its item says now; its machine it has for ever.
func (f Filter) chooses(item map[string]types.AttributeValue, record durable.Record) bool {
	if f.Tag != "" {
		r := reader{item: item}
		var tags []string
		if r.json(attrTags, &tags); !slices.Contains(tags, f.Tag) {
			return false
		}
	}
	return (f.Status == "" || f.Status == record.Status) && f.inState(record.State)
}
