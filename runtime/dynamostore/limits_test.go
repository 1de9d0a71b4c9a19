package dynamostore_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestCommitRefusesWhatDynamoDBCannotHold(t *testing.T) {
	t.Parallel()
	nested := strings.Repeat("[", dynamostore.NestingMax) + strings.Repeat("]", dynamostore.NestingMax)
	for _, test := range []struct{ name, snapshot, want string }{
		{"too many digits", `{"version": 1, "status": "active", "context": {"items": [{"price": 1234567890123456789012345678901234567.89}]}}`,
			`context.items[0].price: DynamoDB holds numbers of at most 38 digits between 1e-130 and 1e126, got 1234567890123456789012345678901234567.89: keep it as a string`},
		{"too large", `{"version": 1, "status": "active", "context": {"n": 1e126}}`, "context.n: DynamoDB holds numbers"},
		{"too small", `{"version": 1, "status": "active", "context": {"n": 9.9e-131}}`, "context.n: DynamoDB holds numbers"},
		{"absurd exponent", `{"version": 1, "status": "active", "context": 1e99999999999}`, "context: DynamoDB holds numbers"},
		{"in a key without an attribute", `{"version": 1, "status": "active", "other": [1e999]}`, "snapshot.other[0]: DynamoDB holds numbers"},
		{"too deep", `{"version": 1, "status": "active", "context": [` + nested + `]}`, "expected at most 32 nested lists and maps"},
		{"not an object", `[1]`, "the snapshot: expected a JSON object"},
		{"no version", `{"status": "active"}`, `expected the key "version", got only [status]`},
		{"status differs from the record's", `{"version": 1, "status": "done"}`, `expected the record's status "active" under the key "status", got "done"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := dynamostore.New(newClient(t), table)
			record := smallRecord(id, 1)
			record.Snapshot = json.RawMessage(test.snapshot)
			err := store.Commit(t.Context(), record)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "committing signup/42 at revision 1 in table settle: ") {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			if !errors.Is(err, durable.ErrUnstorable) {
				t.Errorf("got %v, want it to be durable.ErrUnstorable, so that the event is parked", err)
			}
			if numberError := (*dynamostore.NumberError)(nil); strings.Contains(test.want, "numbers") && !errors.As(err, &numberError) {
				t.Errorf("got %v, want a *NumberError", err)
			}
			wantRecord(t, store, instances.Record{Instance: id})
		})
	}
}

func TestNumbersAtTheLimitsAreStoredExactly(t *testing.T) {
	t.Parallel()
	store := dynamostore.New(newClient(t), table)
	record := smallRecord(id, 1)
	record.Snapshot = json.RawMessage(`{"version": 1, "status": "active", "context": [
		99999999999999999999999999999999999999e88, -1e-130, 0.000000000000000000000000000000000000001, 100000000000000000000000000000000000000000,
		1.000000000000000000000000000000000000000000, 0e0, 0e999999999999, 18446744073709551615]}`)
	mustCommit(t, store, record)
	got, err := store.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(string(record.Snapshot), "0e999999999999", "0", 1) // sameJSON cannot expand the exponent
	if !sameJSON(got.Snapshot, json.RawMessage(want)) {
		t.Errorf("got %s\nwant %s", got.Snapshot, want)
	}
}

func TestSizeIsCountedAsDynamoDBCounts(t *testing.T) {
	t.Parallel()
	counting := &countingClient{Client: newClient(t)}
	store := dynamostore.New(counting, table)
	record := smallRecord(id, 1)
	withContext := func(bytes int) instances.Record {
		record.Snapshot = json.RawMessage(`{"version": 1, "status": "active", "context": {"a": [1, null, true, {}, 123.4], "s": "` + strings.Repeat("x", bytes) + `"}}`)
		return record
	}
	var tooLarge *durable.TooLargeError
	if err := store.Commit(t.Context(), withContext(dynamostore.ItemBytesMax)); !errors.As(err, &tooLarge) {
		t.Fatalf("got %v, want a *durable.TooLargeError", err)
	}
	room := dynamostore.ItemBytesMax - (tooLarge.Bytes - tooLarge.BytesMax)
	if err := store.Commit(t.Context(), withContext(room+1)); !errors.As(err, &tooLarge) || tooLarge.Bytes != tooLarge.BytesMax+1 {
		t.Errorf("one byte too many: got %v, want a *durable.TooLargeError of %d bytes", err, dynamostore.ItemBytesMax+1)
	}
	if n := counting.puts.Load(); n != 0 {
		t.Errorf("got %d calls for items that are too large, want none", n)
	}
	mustCommit(t, store, withContext(room))

	// DynamoDB agrees: it refuses one more byte for the same item.
	_, err := counting.Client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: "signup/42"}},
		UpdateExpression: aws.String("SET x = :empty"), ExpressionAttributeValues: map[string]types.AttributeValue{":empty": &types.AttributeValueMemberS{}},
	})
	if err == nil || !strings.Contains(err.Error(), "exceeded the maximum allowed size") {
		t.Errorf("got %v, want the item to be full", err)
	}
}

// The loop drops a denied effect only if the item has room for the time at which the denials began.
func TestAFullItemHasRoomForTheTimeOfTheFirstDenial(t *testing.T) {
	t.Parallel()
	store := dynamostore.New(newClient(t), table)
	record := smallRecord(id, 1)
	record.Outbox = []statechart.Effect{{ID: "1.0", Kind: statechart.Send, To: "signup/43"}}
	withContext := func(bytes int) instances.Record {
		record.Snapshot = json.RawMessage(`{"version": 1, "status": "active", "context": "` + strings.Repeat("x", bytes) + `"}`)
		return record
	}
	var tooLarge *durable.TooLargeError
	if err := store.Commit(t.Context(), withContext(dynamostore.ItemBytesMax)); !errors.As(err, &tooLarge) {
		t.Fatalf("got %v, want a *durable.TooLargeError", err)
	}
	mustCommit(t, store, withContext(dynamostore.ItemBytesMax-(tooLarge.Bytes-tooLarge.BytesMax)))
	left := durable.Left{
		Outbox: record.Outbox, Tokens: record.Tokens, Executions: record.Executions, FailedEffects: record.FailedEffects, ExpireAt: record.ExpireAt,
		DeniedSince: time.UnixMilli(946684800000),
	}
	if err := store.ClearOutbox(t.Context(), id, 1, left); err != nil {
		t.Error(err)
	}
}
