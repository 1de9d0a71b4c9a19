package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/canonicaljson"
	"github.com/settle-run/settle/runtime/internal/reserved"
)

// A reserved event ID is a separate item. Its key, the attribute `instance`, is "idempotency/<machine>/<id>/<SHA-256 of
// the event ID>", and its attribute `event_sha256` is the digest of the event. Unlike an instance it has no revision.
// The event ID is hashed because DynamoDB limits keys to 2,048 bytes and callers may use any text.
const (
	idempotencyPrefix = reserved.Idempotency + "/"
	attrEventDigest   = "event_sha256"
)

// ReservedFor is how long an event ID stays reserved after the last Reserve. It is the longest retention of an SQS
// queue, 14 days (Amazon SQS Developer Guide, "Amazon SQS message quotas"), plus one day. So the reservation outlives
// every message that was queued under the ID.
const ReservedFor = 15 * 24 * time.Hour

// ErrIDReused is returned by Reserve if the ID is reserved for an event with another body.
var ErrIDReused = errors.New("event ID used before with another body")

// Reserve reserves a caller's event ID for this event to the instance. The reservation starts at `at` and lasts for
// ReservedFor. Reserving the ID again for the same event extends the reservation. Two events are the same if they
// differ only in the form of their JSON. Reserve fails with ErrIDReused if the ID is reserved for another event. Of
// concurrent calls with different events, one wins.
//
// Call Reserve before you queue the event. After any other error, or after a crash before the event is queued, you may
// repeat both steps.
func (s *Store) Reserve(ctx context.Context, to instances.ID, eventID string, event json.RawMessage, at time.Time) error {
	doing := fmt.Sprintf("reserving the event ID %q for %s", eventID, to)
	digest, err := canonicaljson.EventDigest(event)
	if err != nil {
		return s.failed(doing, err)
	}
	_, err = s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: idempotencyKey(to, eventID),
		UpdateExpression: aws.String("SET #digest = :digest, #expire_at = :expire_at"),
		// The condition compares expire_at, because DynamoDB may delete an expired item days later (Amazon DynamoDB
		// Developer Guide, "Using time to live (TTL) in DynamoDB").
		ConditionExpression:      aws.String("attribute_not_exists(#digest) OR #digest = :digest OR #expire_at < :now"),
		ExpressionAttributeNames: map[string]string{"#digest": attrEventDigest, "#expire_at": attrExpireAt},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":digest": text(digest), ":expire_at": number(expireSeconds(at.Add(ReservedFor))), ":now": number(at.Unix()),
		},
	})
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: %q to %s", ErrIDReused, eventID, to)
	}
	if err != nil {
		return s.failed(doing, err)
	}
	return nil
}

// idempotencyKey returns the key of a reserved ID. It has more slashes than the name of an instance can have.
func idempotencyKey(to instances.ID, eventID string) map[string]types.AttributeValue {
	sum := sha256.Sum256([]byte(eventID))
	return map[string]types.AttributeValue{attrInstance: text(idempotencyPrefix + to.String() + "/" + hex.EncodeToString(sum[:]))}
}
