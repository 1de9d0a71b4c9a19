package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// Client is the part of the DynamoDB client that a Store uses. *dynamodb.Client implements it.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// Store implements durable.Store on one table. It is safe for concurrent use.
type Store struct {
	client Client
	table  string
	// indexed means that every commit writes the keys of the index.
	indexed bool
}

var _ durable.Store = (*Store)(nil)

// New returns a store on the table with the given name or ARN.
func New(client Client, table string) *Store {
	return &Store{client: client, table: table}
}

// NewIndexed returns a store that adds index keys to every item, so that ListPage can find the item. All stores that
// commit to a table must come from NewIndexed: a commit by a store from New removes the instance from the index. You
// may also use a store from NewIndexed with a table that does not have the index yet.
func NewIndexed(client Client, table string) *Store {
	return &Store{client: client, table: table, indexed: true}
}

// Load reads the record of an instance consistently. For an instance without an item it returns a record with only
// Instance set. It fails with durable.ErrUnreadable if the item cannot be decoded. An item whose expire_at has passed
// still loads until DynamoDB deletes it.
func (s *Store) Load(ctx context.Context, id instances.ID) (instances.Record, error) {
	output, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      &s.table,
		Key:            key(id),
		ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return instances.Record{}, s.failed("reading "+id.String(), err)
	}
	if len(output.Item) == 0 {
		return instances.Record{Instance: id}, nil
	}
	record, err := decodeItem(output.Item)
	if err != nil {
		return instances.Record{}, s.failed("decoding "+id.String(), err)
	}
	return record, nil
}

// Commit writes the record as one item, if the stored revision is record.Revision-1. It fails with durable.ErrConflict
// or durable.ErrUnstorable. The latter may be a *durable.TooLargeError or a *NumberError. After any other error, the
// record may or may not be stored.
//
// The record's snapshot, if there is one, is a JSON object with the keys "version" and "status". The value of "status"
// must equal record.Status. Times are stored exactly, except that ExpireAt is rounded up to the second.
func (s *Store) Commit(ctx context.Context, record instances.Record) error {
	if err := s.put(ctx, record); err != nil {
		return s.failed(fmt.Sprintf("committing %s at revision %d", record.Instance, record.Revision), err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, record instances.Record) error {
	item, err := encodeItem(record)
	if err != nil {
		return fmt.Errorf("%w: %w", durable.ErrUnstorable, err)
	}
	if s.indexed {
		putIndex(item, record)
	}
	size := itemBytes(item)
	if record.Owes() && record.DeniedSince.IsZero() {
		size += deniedSinceBytes // ClearOutbox may add denied_since
	}
	if size > ItemBytesMax {
		return &durable.TooLargeError{Bytes: size, BytesMax: ItemBytesMax}
	}
	input := &dynamodb.PutItemInput{
		TableName:                &s.table,
		Item:                     item,
		ConditionExpression:      aws.String("attribute_not_exists(#instance)"),
		ExpressionAttributeNames: map[string]string{"#instance": attrInstance},
	}
	if record.Revision > 1 {
		input.ConditionExpression = aws.String("#revision = :previous")
		input.ExpressionAttributeNames = map[string]string{"#revision": attrRevision}
		input.ExpressionAttributeValues = map[string]types.AttributeValue{":previous": number(record.Revision - 1)}
	}
	_, err = s.client.PutItem(ctx, input)
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ValidationException" {
		// The calls differ only in the item, so a ValidationException means that the item is invalid.
		return fmt.Errorf("%w: %w", durable.ErrUnstorable, classify(err))
	}
	return err
}

// ClearOutbox replaces the outbox of an instance and the other fields in `left`, and raises the revision by one. It
// fails with durable.ErrConflict if the stored revision is not the given one or if there is no item, and with
// durable.ErrUnstorable if the fields cannot be stored.
func (s *Store) ClearOutbox(ctx context.Context, id instances.ID, revision int64, left durable.Left) error {
	doing := fmt.Sprintf("clearing the outbox of %s at revision %d", id, revision)
	update := &dynamodb.UpdateItemInput{
		TableName:                &s.table,
		Key:                      key(id),
		ConditionExpression:      aws.String("#revision = :revision"),
		ExpressionAttributeNames: map[string]string{"#revision": attrRevision},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":revision": number(revision), ":next": number(revision + 1),
		},
	}
	set, remove := "SET #revision = :next", ""
	var expireAt, deniedSince any
	if !left.ExpireAt.IsZero() {
		expireAt = number(expireSeconds(left.ExpireAt))
	}
	if !left.DeniedSince.IsZero() {
		deniedSince = text(formatTime(left.DeniedSince))
	}
	for _, field := range []struct {
		attribute string
		empty     bool
		value     any
	}{
		{attrOutbox, len(left.Outbox) == 0, left.Outbox}, {attrOutboxRev, true, nil}, {attrTokens, len(left.Tokens) == 0, left.Tokens}, {attrExecutions, len(left.Executions) == 0, left.Executions},
		{attrFailed, len(left.FailedEffects) == 0, left.FailedEffects}, {attrExpireAt, expireAt == nil, expireAt}, {attrDeniedSince, deniedSince == nil, deniedSince},
	} {
		update.ExpressionAttributeNames["#"+field.attribute] = field.attribute
		if field.empty {
			remove += ", #" + field.attribute
			continue
		}
		value, isValue := field.value.(types.AttributeValue)
		if !isValue {
			var err error
			if value, err = attributeOf(field.attribute, field.value); err != nil {
				return s.failed(doing, fmt.Errorf("%w: %w", durable.ErrUnstorable, err))
			}
		}
		set += ", #" + field.attribute + " = :" + field.attribute
		update.ExpressionAttributeValues[":"+field.attribute] = value
	}
	if left.WithoutHistory {
		update.ExpressionAttributeNames["#"+attrHistory] = attrHistory
		remove += ", #" + attrHistory
	}
	if remove != "" {
		set += " REMOVE " + strings.TrimPrefix(remove, ", ")
	}
	update.UpdateExpression = &set
	if _, err := s.client.UpdateItem(ctx, update); err != nil {
		return s.failed(doing, err)
	}
	return nil
}

func key(id instances.ID) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrInstance: text(id.String())}
}

// failed adds the operation and the table to an error.
func (s *Store) failed(doing string, err error) error {
	return fmt.Errorf("%s in table %s: %w", doing, s.table, classify(err))
}
