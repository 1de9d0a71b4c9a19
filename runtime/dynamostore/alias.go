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
)

// An alias is an item of its own: "alias/<alias>" under instance, and the instance that it stands for.
// It has no revision, by which it is told from instances.
const (
	aliasPrefix = durable.AliasMachine + "/"
	attrAliasOf = "alias_of"
)

// ErrNoAlias is returned by Find when no instance has the alias.
var ErrNoAlias = errors.New("no instance has the alias")

// Find returns the instance that has the alias, as it is at this moment. Fails with ErrNoAlias.
func (s *Store) Find(ctx context.Context, alias string) (durable.InstanceID, error) {
	doing := "finding alias " + alias
	output, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: aliasKey(alias), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return durable.InstanceID{}, s.failed(doing, err)
	}
	if len(output.Item) == 0 {
		return durable.InstanceID{}, s.failed(doing, ErrNoAlias)
	}
	r := reader{item: output.Item}
	id, err := durable.ParseInstanceID(r.text(attrAliasOf))
	if err = errors.Join(r.err, err); err != nil {
		return durable.InstanceID{}, s.failed(doing, err)
	}
	return id, nil
}

// Claim makes the instance that was created at the given time known under the alias. It fails with
// durable.ErrAliasTaken if another instance has it; an earlier one of the same name gives way.
func (s *Store) Claim(ctx context.Context, alias string, id durable.InstanceID, createdAt time.Time) error {
	item := aliasKey(alias)
	item[attrAliasOf] = text(id.String())
	item[attrCreatedAt] = text(formatTime(createdAt))
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.table, Item: item,
		ConditionExpression:       aws.String("attribute_not_exists(#instance) OR #of = :of"),
		ExpressionAttributeNames:  map[string]string{"#instance": attrInstance, "#of": attrAliasOf},
		ExpressionAttributeValues: map[string]types.AttributeValue{":of": text(id.String())},
	})
	if errors.Is(classify(err), durable.ErrConflict) {
		err = durable.ErrAliasTaken
	}
	if err != nil {
		return s.failed(fmt.Sprintf("claiming alias %s for %s", alias, id), err)
	}
	return nil
}

// Release gives the alias back, if it is that instance's.
func (s *Store) Release(ctx context.Context, alias string, id durable.InstanceID, createdAt time.Time) error {
	_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.table, Key: aliasKey(alias),
		ConditionExpression:       aws.String("#of = :of AND #created_at = :created_at"),
		ExpressionAttributeNames:  map[string]string{"#of": attrAliasOf, "#created_at": attrCreatedAt},
		ExpressionAttributeValues: map[string]types.AttributeValue{":of": text(id.String()), ":created_at": text(formatTime(createdAt))},
	})
	if err != nil && !errors.Is(classify(err), durable.ErrConflict) {
		return s.failed(fmt.Sprintf("releasing alias %s of %s", alias, id), err)
	}
	return nil
}

func aliasKey(alias string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrInstance: text(aliasPrefix + alias)}
}
