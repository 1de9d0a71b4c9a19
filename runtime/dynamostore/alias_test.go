package dynamostore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

const alias = "provider/7c"

var callback = json.RawMessage(`{"type":"done"}`)

func TestAnAliasLeadsToItsInstanceUntilBothExpire(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	if _, err := store.Find(t.Context(), alias); !errors.Is(err, dynamostore.ErrNoAlias) {
		t.Errorf("an unclaimed alias: want ErrNoAlias, got %v", err)
	}
	must(t, claim(t, client, store, id, created))
	must(t, store.Release(t.Context(), alias, id, created, created.Add(time.Hour+1)))
	if got, err := store.Find(t.Context(), alias); err != nil || got != id {
		t.Errorf("an ended instance: want %s, got %s, %v", id, got, err)
	}
	output, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(table), Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: "alias/" + alias}}})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(created.Add(time.Hour + time.Second).Unix())
	if got, ok := output.Item["expire_at"].(*types.AttributeValueMemberN); !ok || got.Value != want {
		t.Errorf("want expire_at %s, rounded up to the second, got %v", want, output.Item["expire_at"])
	}
}

func TestAnAliasIsRedeemedOnce(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	other := instances.ID{Machine: "signup", ID: "43"}
	redeem := func(id instances.ID, event json.RawMessage, by string, want dynamostore.Redemption) {
		t.Helper()
		got, err := store.Redeem(t.Context(), alias, id, event, by)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("by %s for %s: error %v (-want +got):\n%s", by, id, err, diff)
		}
	}
	redeem(id, callback, "early", dynamostore.Redemption{})
	must(t, claim(t, client, store, id, created))
	redeem(other, callback, "stray", dynamostore.Redemption{Instance: id})
	redeem(id, callback, "first", dynamostore.Redemption{Instance: id, First: true, Event: callback, By: "first"})
	redeem(id, callback, "first", dynamostore.Redemption{Instance: id, First: true, Event: callback, By: "first"})
	redeem(id, json.RawMessage(`{"type":"other"}`), "second", dynamostore.Redemption{Instance: id, Event: callback, By: "first"})

	// A repeated claim, as after a lost response, does not make the alias redeemable again.
	must(t, claim(t, client, store, id, created))
	redeem(id, callback, "third", dynamostore.Redemption{Instance: id, Event: callback, By: "first"})
	must(t, store.Release(t.Context(), alias, id, created, time.Time{}))
	must(t, claim(t, client, store, id, created))
	redeem(id, callback, "fourth", dynamostore.Redemption{Instance: id, First: true, Event: callback, By: "fourth"}) // the instance has claimed the alias again
	must(t, store.Release(t.Context(), alias, id, created, time.Time{}))

	// The next instance can redeem the alias independently.
	must(t, claim(t, client, store, other, created))
	redeem(id, callback, "late", dynamostore.Redemption{Instance: other})
	redeem(other, callback, "fifth", dynamostore.Redemption{Instance: other, First: true, Event: callback, By: "fifth"})
}

func TestAnAliasOfAnEndedInstanceIsNotRedeemed(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	must(t, claim(t, client, store, id, created))
	must(t, store.Release(t.Context(), alias, id, created, time.Time{}))
	want := dynamostore.Redemption{Instance: id, Released: true}
	if got, err := store.Redeem(t.Context(), alias, id, callback, "late"); err != nil || !cmp.Equal(want, got) {
		t.Errorf("want %+v, got %+v, %v", want, got, err)
	}
}

func TestALateClaimOfAnEarlierInstanceDoesNotTakeTheAliasFromTheNext(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	next := created.Add(time.Hour)
	must(t, claim(t, client, store, id, created))
	must(t, store.Release(t.Context(), alias, id, created, time.Time{}))
	must(t, claim(t, client, store, id, next))
	if err := claim(t, client, store, id, created); !errors.Is(err, durable.ErrAliasTaken) {
		t.Errorf("claimed for the earlier instance: want ErrAliasTaken, got %v", err)
	}
	must(t, store.Release(t.Context(), alias, id, next, time.Time{}))
	must(t, claim(t, client, store, instances.ID{Machine: "signup", ID: "43"}, created))
}

func TestOneOfConcurrentCallbacksRedeems(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	must(t, claim(t, client, store, id, created))
	redemptions := make([]dynamostore.Redemption, 100)
	var wait sync.WaitGroup
	for i := range redemptions {
		wait.Go(func() {
			var err error
			event := json.RawMessage(fmt.Sprintf(`{"type":"done","n":%d}`, i))
			if redemptions[i], err = store.Redeem(t.Context(), alias, id, event, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	first := 0
	for _, redemption := range redemptions {
		if redemption.First {
			first++
		}
		if string(redemption.Event) != string(redemptions[0].Event) {
			t.Errorf("want all to return the same event, got %s and %s", redemption.Event, redemptions[0].Event)
		}
	}
	if first != 1 {
		t.Errorf("want one first callback, got %d", first)
	}
}

// claim claims the alias for an instance that is stored at revision 1.
func claim(t *testing.T, client *dynamodb.Client, store *dynamostore.Store, id instances.ID, created time.Time) error {
	t.Helper()
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: map[string]types.AttributeValue{
		"instance": &types.AttributeValueMemberS{Value: id.String()}, "revision": &types.AttributeValueMemberN{Value: "1"},
		"created_at": &types.AttributeValueMemberS{Value: created.UTC().Format("2006-01-02T15:04:05.000Z07:00")},
	}})
	must(t, err)
	return store.Claim(t.Context(), alias, id, created, 1)
}

// A process that was suspended may claim an alias at a stale revision.
func TestAClaimAtAStaleRevisionIsRefused(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	must(t, claim(t, client, store, id, created))
	for _, c := range []struct {
		created  time.Time
		revision int64
	}{{created, 2}, {created.Add(-time.Hour), 1}} {
		if err := store.Claim(t.Context(), "other", id, c.created, c.revision); !errors.Is(err, durable.ErrConflict) {
			t.Errorf("created %v, revision %d: want ErrConflict, got %v", c.created, c.revision, err)
		}
	}
	if _, err := store.Find(t.Context(), "other"); !errors.Is(err, dynamostore.ErrNoAlias) {
		t.Errorf("want ErrNoAlias, got %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func emptyStore(t *testing.T) (*dynamodb.Client, *dynamostore.Store) {
	t.Helper()
	client := newClient(t)
	return client, dynamostore.New(client, table)
}

// A process that was suspended may release an alias after the instance has claimed it again.
func TestAnAliasThatItsInstanceListsIsNotReleased(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	other := instances.ID{Machine: "signup", ID: "43"}
	record := smallRecord(id, 1)
	record.CreatedAt, record.Aliases = created, []string{"another", alias}
	must(t, store.Commit(t.Context(), record))
	must(t, store.Claim(t.Context(), alias, id, created, 1))
	must(t, store.Release(t.Context(), alias, id, created, time.Time{}))
	if err := claim(t, client, store, other, created); !errors.Is(err, durable.ErrAliasTaken) {
		t.Errorf("want ErrAliasTaken, got %v", err)
	}
}

// cancelingClient cancels each transaction, with one code for each of its items.
type cancelingClient struct {
	dynamostore.Client
	codes []string
}

func (c *cancelingClient) TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	canceled := &types.TransactionCanceledException{}
	for _, code := range c.codes {
		canceled.CancellationReasons = append(canceled.CancellationReasons, types.CancellationReason{Code: aws.String(code)})
	}
	return nil, canceled
}

// The codes are from the DynamoDB API Reference, TransactWriteItems.
func TestAClaimIsRefusedOnlyForItsOwnCancellationReason(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		codes []string
		want  error // nil: an error that wraps none of them
	}{
		{[]string{"None", "ValidationError"}, durable.ErrRefused},
		{[]string{"None", "TransactionConflict"}, nil},
		{[]string{"TransactionConflict", "None"}, nil},
		{[]string{"None", "ThrottlingError"}, nil},
		{[]string{"None", "ProvisionedThroughputExceeded"}, nil},
		{[]string{"ConditionalCheckFailed", "ConditionalCheckFailed"}, durable.ErrConflict},
		{[]string{"ConditionalCheckFailed", "ValidationError"}, durable.ErrConflict},
	} {
		err := dynamostore.New(&cancelingClient{codes: test.codes}, "settle").Claim(t.Context(), "x", instances.ID{Machine: "m", ID: "1"}, time.Unix(0, 0), 1)
		for _, known := range []error{durable.ErrRefused, durable.ErrConflict, durable.ErrAliasTaken, durable.ErrDenied} {
			if err == nil || errors.Is(err, known) != errors.Is(test.want, known) {
				t.Errorf("%v: got %v, want %v", test.codes, err, test.want)
			}
		}
	}
}
