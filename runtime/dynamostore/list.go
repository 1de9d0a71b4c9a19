package dynamostore

import (
	"context"
	"iter"
	"slices"
	"strings"

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
	// Status chooses the instances with this status.
	Status statechart.Status
	// Consistent has every page read consistently, at twice the read capacity: what was committed before
	// the page is read is in it.
	Consistent bool
}

// ItemError is the error of one item of a List that cannot be decoded.
type ItemError struct {
	// Instance is the item's key, as far as it is a text.
	Instance string
	err      error
}

func (e *ItemError) Error() string { return e.err.Error() }
func (e *ItemError) Unwrap() error { return e.err }

// List yields the records that the filter chooses, in no order. It scans the whole table, page
// by page as the caller goes on: it is meant for people and for checks, not for events.
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
				record, err := decodeItem(item)
				if err != nil {
					r := reader{item: item}
					name := r.text(attrInstance)
					err = &ItemError{Instance: name, err: s.failed("decoding "+name, err)}
					record = durable.Record{}
					record.Instance, _ = durable.ParseInstanceID(name)
				} else if !filter.inState(record) {
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
	input := &dynamodb.ScanInput{
		TableName: &table, FilterExpression: aws.String(condition), ExpressionAttributeNames: names, ConsistentRead: aws.Bool(f.Consistent),
	}
	if len(values) > 0 { // DynamoDB refuses an empty map
		input.ExpressionAttributeValues = values
	}
	return input
}

// inState reports whether the record is in the filter's state: DynamoDB's conditions cannot
// ask for the prefix of a list's element.
func (f Filter) inState(record durable.Record) bool {
	return f.State == "" || slices.ContainsFunc(record.State, func(path string) bool {
		return path == f.State || strings.HasPrefix(path, f.State+".")
	})
}
