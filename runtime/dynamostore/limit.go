package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/reserved"
	"github.com/settle-run/settle/runtime/limits"
)

// The state of one key of a limit is a separate item. Its key, the attribute `instance`, is "limits/<limit>/<key>". Unlike
// an instance it has no revision. The attribute `write` names its last write instead, and no other write of the table has
// the same name. So a late write cannot match an item that was deleted and created again.
const (
	limitsPrefix = reserved.Limits + "/"
	attrWrite    = "write"
	attrStarts   = "starts"
	attrHolders  = "holders"
	attrReturnAt = "return_at"
	attrCallTime = "call_time_ms"
)

var _ limits.Store = (*Store)(nil)

// SwapLimit stores the state of one key of a limit if the last write of the item is `previous`, or if `previous` is
// empty and there is no item. It returns the state that is stored after the call. DynamoDB deletes the item some time
// after State.ExpireAt. SwapLimit fails with durable.ErrUnreadable if the item cannot be decoded.
func (s *Store) SwapLimit(ctx context.Context, limit, key, previous string, next limits.State) (limits.State, error) {
	name := limitsPrefix + limit + "/" + key
	doing := "updating the limit " + limit + "/" + key
	item := map[string]types.AttributeValue{
		attrInstance: text(name), attrWrite: text(next.Write), attrExpireAt: number(expireSeconds(next.ExpireAt)),
	}
	for attribute, leases := range map[string][]limits.Lease{attrStarts: next.Starts, attrHolders: next.Holders} {
		if len(leases) == 0 {
			continue
		}
		value, err := attributeOf(attribute, leases)
		if err != nil {
			return limits.State{}, s.failed(doing, err)
		}
		item[attribute] = value
	}
	if next.CallTime > 0 {
		item[attrCallTime] = number(next.CallTime.Milliseconds())
	}
	if !next.ReturnAt.IsZero() {
		item[attrReturnAt] = text(formatTime(next.ReturnAt))
	}
	input := &dynamodb.PutItemInput{
		TableName: &s.table, Item: item, ConditionExpression: aws.String("attribute_not_exists(#instance)"),
		ExpressionAttributeNames:            map[string]string{"#instance": attrInstance},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if previous != "" {
		input.ConditionExpression = aws.String("#write = :previous")
		input.ExpressionAttributeNames = map[string]string{"#write": attrWrite}
		input.ExpressionAttributeValues = map[string]types.AttributeValue{":previous": text(previous)}
	}
	_, err := s.client.PutItem(ctx, input)
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		stored, err := limitOf(refused.Item)
		if err != nil {
			return limits.State{}, s.failed(doing, fmt.Errorf("%w: %w", durable.ErrUnreadable, err))
		}
		return stored, nil
	}
	if err != nil {
		return limits.State{}, s.failed(doing, err)
	}
	return next, nil
}

// limitOf decodes the item of a limit. It returns the zero value if there is no item.
func limitOf(item map[string]types.AttributeValue) (limits.State, error) {
	r := reader{item: item}
	state := limits.State{Write: r.text(attrWrite), ReturnAt: r.time(attrReturnAt), CallTime: time.Duration(r.integer(attrCallTime)) * time.Millisecond}
	r.json(attrStarts, &state.Starts)
	r.json(attrHolders, &state.Holders)
	if len(item) > 0 && state.Write == "" {
		r.fail(attrWrite, errors.New("expected a string (S), got nothing"))
	}
	return state, r.err
}
