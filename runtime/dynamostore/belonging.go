package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// BelongingKind is the kind of an item that belongs to an instance.
type BelongingKind string

// The kinds of belongings.
const (
	// Child is a child instance, active or ended.
	Child BelongingKind = "child"
	// Alias is an alias that the instance has, or was the last to have.
	Alias BelongingKind = "alias"
	// EventID is an event ID that Reserve has reserved for the instance.
	EventID BelongingKind = "event_id"
	// Send is a sender's last send to the instance. KeepSends stores it.
	Send BelongingKind = "send"
)

// Belonging is an item that belongs to an instance, besides the instance's own item.
type Belonging struct {
	Kind  BelongingKind
	Owner instances.ID
	// Key is the item's key: for a child its name, for an alias "alias/" and the alias.
	Key string
}

// filteredOwnersMax is the maximum number of owners for which DynamoDB itself filters the items. DynamoDB limits a
// filter to 300 operators (Amazon DynamoDB Developer Guide, "Quotas").
const filteredOwnersMax = 16

// Belongings yields the items that belong to the owners, in no particular order. It yields no grandchildren. It scans
// the whole table consistently, so it includes every earlier commit. An error ends the list.
func (s *Store) Belongings(ctx context.Context, owners []instances.ID) iter.Seq2[Belonging, error] {
	return func(yield func(Belonging, error) bool) {
		const doing = "looking for items that belong to instances"
		wanted := map[instances.ID]bool{}
		for _, owner := range owners {
			wanted[owner] = true
		}
		for input := belongingsScan(s.table, owners); ; {
			page, err := s.client.Scan(ctx, input)
			if err != nil {
				yield(Belonging{}, s.failed(doing, err))
				return
			}
			for _, item := range page.Items {
				found, err := belongingOf(item)
				if err != nil {
					err = s.failed(doing, err)
				} else if !wanted[found.Owner] {
					continue
				}
				if !yield(found, err) || err != nil {
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

// belongingsScan returns the request for the first page. For many owners it selects the belongings of all instances.
func belongingsScan(table string, owners []instances.ID) *dynamodb.ScanInput {
	names := map[string]string{"#instance": attrInstance, "#parent": attrParent, "#of": attrAliasOf}
	values := map[string]types.AttributeValue{}
	conditions := []string{"attribute_exists(#parent)", "attribute_exists(#of)", "begins_with(#instance, :ids)", "begins_with(#instance, :sends)"}
	if len(owners) > filteredOwnersMax {
		values[":ids"], values[":sends"] = text(idempotencyPrefix), text(sendsPrefix)
	} else {
		conditions = nil
		for i, owner := range owners {
			conditions = append(conditions, fmt.Sprintf("#parent.#instance = :of%d OR #of = :of%[1]d OR begins_with(#instance, :ids%[1]d) OR begins_with(#instance, :sends%[1]d)", i))
			values[fmt.Sprintf(":of%d", i)] = text(owner.String())
			values[fmt.Sprintf(":ids%d", i)], values[fmt.Sprintf(":sends%d", i)] = text(idempotencyPrefix+owner.String()+"/"), text(sendsPrefix+owner.String()+" ")
		}
	}
	return &dynamodb.ScanInput{
		TableName: &table, ConsistentRead: aws.Bool(true), ProjectionExpression: aws.String("#instance, #parent.#instance, #of"),
		FilterExpression: aws.String(strings.Join(conditions, " OR ")), ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}
}

// belongingOf decodes a projected item.
func belongingOf(item map[string]types.AttributeValue) (Belonging, error) {
	r := reader{item: item}
	found := Belonging{Key: r.text(attrInstance)}
	var parent struct {
		Instance string `json:"instance"`
	}
	var owner string
	if rest, ok := strings.CutPrefix(found.Key, idempotencyPrefix); ok {
		found.Kind, owner = EventID, rest[:max(strings.LastIndexByte(rest, '/'), 0)]
	} else if rest, ok := strings.CutPrefix(found.Key, sendsPrefix); ok {
		found.Kind = Send
		owner, _, _ = strings.Cut(rest, " ")
	} else if strings.HasPrefix(found.Key, aliasPrefix) {
		found.Kind, owner = Alias, r.text(attrAliasOf)
	} else {
		r.json(attrParent, &parent)
		found.Kind, owner = Child, parent.Instance
	}
	var err error
	found.Owner, err = instances.ParseID(owner)
	if err = errors.Join(r.err, err); err != nil {
		err = fmt.Errorf("the item %q: %w: %w", found.Key, durable.ErrUnreadable, err)
	}
	return found, err
}

// Erase deletes a belonging that is not a child. It does nothing if the item no longer exists, or if the alias now
// belongs to another instance.
func (s *Store) Erase(ctx context.Context, found Belonging) error {
	doing := "deleting " + found.Key
	if !slices.Contains([]BelongingKind{Alias, EventID, Send}, found.Kind) {
		return s.failed(doing, fmt.Errorf("expected the kind %s, %s or %s, got %q", Alias, EventID, Send, found.Kind))
	}
	input := &dynamodb.DeleteItemInput{TableName: &s.table, Key: map[string]types.AttributeValue{attrInstance: text(found.Key)}}
	if found.Kind == Alias {
		input.ConditionExpression, input.ExpressionAttributeNames = aws.String("#of = :of"), map[string]string{"#of": attrAliasOf}
		input.ExpressionAttributeValues = map[string]types.AttributeValue{":of": text(found.Owner.String())}
	}
	_, err := s.client.DeleteItem(ctx, input)
	if err != nil && !errors.Is(classify(err), durable.ErrConflict) {
		return s.failed(doing, err)
	}
	return nil
}
