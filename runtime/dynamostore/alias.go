package dynamostore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/reserved"
)

// An alias is a separate item. Its key, the attribute `instance`, is "alias/<alias>". The attribute `alias_of` names
// the instance that the alias stands for. Unlike an instance's item, it has no revision. When the instance gives the
// alias up or ends, the alias is released. It expires with the instance. The attribute `redeemed` holds the event of
// the callback that redeemed the alias, as JSON.
const (
	aliasPrefix    = reserved.Alias + "/"
	attrAliasOf    = "alias_of"
	attrReleased   = "released"
	attrRedeemed   = "redeemed"
	attrRedeemedBy = "redeemed_by"
)

// conditionFailed is the cancellation reason of a transaction with a failed condition.
const conditionFailed = "ConditionalCheckFailed"

// ErrNoAlias is returned by Find when no instance has the alias.
var ErrNoAlias = errors.New("no instance has the alias")

// Find returns the instance that has the alias. If that instance has released the alias, Find still returns it until
// another one claims the alias. Fails with ErrNoAlias.
func (s *Store) Find(ctx context.Context, alias string) (instances.ID, error) {
	doing := "finding alias " + alias
	output, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: aliasKey(alias), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return instances.ID{}, s.failed(doing, err)
	}
	redemption, err := redemptionOf(output.Item)
	if err != nil {
		return instances.ID{}, s.failed(doing, err)
	}
	if redemption.Instance == (instances.ID{}) {
		return instances.ID{}, s.failed(doing, ErrNoAlias)
	}
	return redemption.Instance, nil
}

// Claim points the alias to the instance that was created at createdAt, if the instance's item has the given revision.
// Repeating a claim changes nothing. Claim fails with durable.ErrAliasTaken if another instance has the alias and has
// not released it, and with durable.ErrConflict if the revision differs. A claim replaces a claim by an earlier
// instance of the same name.
func (s *Store) Claim(ctx context.Context, alias string, id instances.ID, createdAt time.Time, revision int64) error {
	doing := fmt.Sprintf("claiming alias %s for %s", alias, id)
	item := aliasKey(alias)
	item[attrAliasOf] = text(id.String())
	item[attrCreatedAt] = text(formatTime(createdAt))
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{ConditionCheck: &types.ConditionCheck{
			TableName: &s.table, Key: key(id),
			ConditionExpression:       aws.String("#revision = :revision AND #created_at = :created_at"),
			ExpressionAttributeNames:  map[string]string{"#revision": attrRevision, "#created_at": attrCreatedAt},
			ExpressionAttributeValues: map[string]types.AttributeValue{":revision": number(revision), ":created_at": text(formatTime(createdAt))},
		}},
		{Put: &types.Put{
			TableName: &s.table, Item: item,
			// A repeated claim must not undo a later redemption, or a claim by a later instance of the same name. It
			// may undo a release: the revision shows that the instance still wants the alias.
			ConditionExpression: aws.String("attribute_not_exists(#instance) OR attribute_exists(#released) OR #of = :of AND #created_at < :created_at"),
			ExpressionAttributeNames: map[string]string{
				"#instance": attrInstance, "#released": attrReleased, "#of": attrAliasOf, "#created_at": attrCreatedAt,
			},
			ExpressionAttributeValues:           map[string]types.AttributeValue{":of": text(id.String()), ":created_at": text(formatTime(createdAt))},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}},
	}})
	// The reasons are in the order of the transaction's items. An item that did not fail has the reason "None"
	// (DynamoDB API Reference, TransactWriteItems).
	var canceled *types.TransactionCanceledException
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &canceled) || len(canceled.CancellationReasons) != 2:
		return s.failed(doing, classifyAlias(err))
	case aws.ToString(canceled.CancellationReasons[0].Code) == conditionFailed:
		return s.failed(doing, durable.ErrConflict)
	case aws.ToString(canceled.CancellationReasons[1].Code) == "ValidationError": // See classifyAlias.
		return s.failed(doing, fmt.Errorf("%w: %w", durable.ErrRefused, err))
	case aws.ToString(canceled.CancellationReasons[1].Code) != conditionFailed:
		return s.failed(doing, err)
	}
	r := reader{item: canceled.CancellationReasons[1].Item}
	if r.text(attrAliasOf) == id.String() && r.text(attrCreatedAt) == formatTime(createdAt) {
		return nil
	}
	return s.failed(doing, durable.ErrAliasTaken)
}

// Release lets other instances claim the alias, if the alias belongs to the instance. Find returns the instance until
// another one claims the alias, or until DynamoDB deletes the alias some time after expireAt.
//
// If expireAt is zero, the alias never expires. Release then does nothing if the instance's item lists the alias,
// because the instance has claimed it again. If expireAt is set, the instance has ended and cannot claim the alias
// again, so Release does not check the item.
func (s *Store) Release(ctx context.Context, alias string, id instances.ID, createdAt, expireAt time.Time) error {
	doing := fmt.Sprintf("releasing alias %s of %s", alias, id)
	condition, set := aws.String("#of = :of AND #created_at = :created_at"), "SET #released = :released"
	names := map[string]string{"#of": attrAliasOf, "#created_at": attrCreatedAt, "#released": attrReleased}
	values := map[string]types.AttributeValue{
		":of": text(id.String()), ":created_at": text(formatTime(createdAt)), ":released": &types.AttributeValueMemberBOOL{Value: true},
	}
	var err error
	if expireAt.IsZero() {
		_, err = s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{ConditionCheck: &types.ConditionCheck{
				TableName: &s.table, Key: key(id), ConditionExpression: aws.String("NOT contains(#aliases, :alias)"),
				ExpressionAttributeNames: map[string]string{"#aliases": attrAliases}, ExpressionAttributeValues: map[string]types.AttributeValue{":alias": text(alias)},
			}},
			{Update: &types.Update{
				TableName: &s.table, Key: aliasKey(alias), UpdateExpression: &set, ConditionExpression: condition,
				ExpressionAttributeNames: names, ExpressionAttributeValues: values,
			}},
		}})
	} else {
		set += ", #expire_at = :expire_at"
		names["#expire_at"], values[":expire_at"] = attrExpireAt, number(expireSeconds(expireAt))
		_, err = s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.table, Key: aliasKey(alias), UpdateExpression: &set, ConditionExpression: condition,
			ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		})
	}
	var canceled *types.TransactionCanceledException
	isFailed := func(r types.CancellationReason) bool { return aws.ToString(r.Code) == conditionFailed }
	if err == nil || errors.Is(classify(err), durable.ErrConflict) || errors.As(err, &canceled) && slices.ContainsFunc(canceled.CancellationReasons, isFailed) {
		return nil
	}
	return s.failed(doing, classifyAlias(err))
}

// Redemption is the result of redeeming an alias. The first callback under an alias redeems it.
type Redemption struct {
	// Instance has the alias or was the last to have it. Zero if no instance has had it.
	Instance instances.ID
	// First reports that this callback redeemed the alias. It is false if an earlier callback redeemed it.
	First bool
	// Event is the event of the callback that redeemed the alias; nil if no callback has redeemed it.
	Event json.RawMessage
	// By identifies the callback that redeemed the alias. After a new claim of the alias, another callback can redeem
	// it.
	By string
	// Released reports that the instance has released the alias: it has ended, or its chart gave the alias up. Another
	// instance may then claim the alias.
	Released bool
}

// Redeem stores the event of a callback with the alias, if the alias belongs to the instance and is neither released
// nor redeemed. Of concurrent callbacks, exactly one redeems the alias. A call that does not redeem the alias returns
// the stored redemption, not an error. `by` identifies the callback: a retry with the same value gets the same result.
func (s *Store) Redeem(ctx context.Context, alias string, id instances.ID, event json.RawMessage, by string) (Redemption, error) {
	doing := fmt.Sprintf("redeeming alias %s of %s", alias, id)
	_, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: aliasKey(alias),
		UpdateExpression:    aws.String("SET #redeemed = :event, #by = :by"),
		ConditionExpression: aws.String("#of = :of AND attribute_not_exists(#redeemed) AND attribute_not_exists(#released)"),
		ExpressionAttributeNames: map[string]string{
			"#of": attrAliasOf, "#redeemed": attrRedeemed, "#by": attrRedeemedBy, "#released": attrReleased,
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":of": text(id.String()), ":event": text(string(event)), ":by": text(by),
		},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var refused *types.ConditionalCheckFailedException
	if err == nil {
		return Redemption{Instance: id, First: true, Event: event, By: by}, nil
	}
	if !errors.As(err, &refused) {
		return Redemption{}, s.failed(doing, err)
	}
	redemption, err := redemptionOf(refused.Item)
	if err != nil {
		return Redemption{}, s.failed(doing, err)
	}
	redemption.First = redemption.By == by
	return redemption, nil
}

// redemptionOf decodes the item of an alias. It returns the zero value if there is no item.
func redemptionOf(item map[string]types.AttributeValue) (Redemption, error) {
	if len(item) == 0 {
		return Redemption{}, nil
	}
	r := reader{item: item}
	id, err := instances.ParseID(r.text(attrAliasOf))
	redemption := Redemption{Instance: id}
	_, redemption.Released = item[attrReleased]
	if _, redeemed := item[attrRedeemed]; redeemed {
		redemption.Event, redemption.By = json.RawMessage(r.text(attrRedeemed)), r.text(attrRedeemedBy)
	}
	return redemption, errors.Join(r.err, err)
}

func aliasKey(alias string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrInstance: text(aliasPrefix + alias)}
}
