package dynamostore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/reserved"
	"github.com/settle-run/settle/runtime/statechart"
)

var (
	place  = json.RawMessage(`{"type":"PLACE","$id":"k"}`)
	cancel = json.RawMessage(`{"type":"CANCEL","$id":"k"}`)
)

// wantReused checks for ErrIDReused. The error names the ID and the instance, but not the table.
func wantReused(t *testing.T, err error) {
	t.Helper()
	if want := `event ID used before with another body: "k" to signup/42`; !errors.Is(err, dynamostore.ErrIDReused) || err.Error() != want {
		t.Errorf("want ErrIDReused, %q, got %v", want, err)
	}
}

func TestAnIDIsReservedForOneEventOfAnInstance(t *testing.T) {
	t.Parallel()
	_, store := emptyStore(t)
	must(t, store.Reserve(t.Context(), id, "k", place, created))
	must(t, store.Reserve(t.Context(), id, "k", json.RawMessage(`{ "type": "PLACE" }`), created))
	wantReused(t, store.Reserve(t.Context(), id, "k", cancel, created))
	must(t, store.Reserve(t.Context(), id, "k", place, created))
	must(t, store.Reserve(t.Context(), id, "l", cancel, created))
	must(t, store.Reserve(t.Context(), instances.ID{Machine: "signup", ID: "43"}, "k", cancel, created))
}

// A reservation ends ReservedFor after the last Reserve, even if DynamoDB deletes the item later.
func TestAReservationExpires(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	must(t, store.Reserve(t.Context(), id, "k", place, created))
	later := created.Add(10 * 24 * time.Hour)
	must(t, store.Reserve(t.Context(), id, "k", place, later))
	end := later.Add(dynamostore.ReservedFor)
	if got, ok := soleItem(t, client)["expire_at"].(*types.AttributeValueMemberN); !ok || got.Value != fmt.Sprint(end.Unix()) {
		t.Errorf("want expire_at %d, the table's TTL, got %v", end.Unix(), got)
	}
	wantReused(t, store.Reserve(t.Context(), id, "k", cancel, end))
	must(t, store.Reserve(t.Context(), id, "k", cancel, end.Add(time.Second)))
	if err := store.Reserve(t.Context(), id, "k", place, end.Add(time.Second)); !errors.Is(err, dynamostore.ErrIDReused) {
		t.Errorf("want ErrIDReused for the earlier event, got %v", err)
	}
}

func TestOneOfConcurrentEventsUnderOneIDWins(t *testing.T) {
	t.Parallel()
	_, store := emptyStore(t)
	errs := make([]error, 100)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() {
			errs[i] = store.Reserve(t.Context(), id, "k", json.RawMessage(fmt.Sprintf(`{"type":"PLACE","n":%d}`, i)), created)
		})
	}
	wait.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, dynamostore.ErrIDReused) {
			t.Errorf("event %d: want ErrIDReused, got %v", i, err)
		}
	}
	if won != 1 {
		t.Errorf("want one event to win, got %d", won)
	}
}

// Reserved IDs are not instances: no listing, check or export includes them.
func TestReservedIDsAreNotListed(t *testing.T) {
	t.Parallel()
	store := dynamostore.NewIndexed(newIndexedClient(t), table)
	must(t, store.Reserve(t.Context(), id, "k", place, created))
	mustCommit(t, store, placedRecord("job/1", 1, statechart.Active, nil, "queued"))
	for _, filter := range []dynamostore.Filter{{}, {Consistent: true}, {Machine: reserved.Idempotency}, {Machine: "signup"}} {
		for record, err := range store.List(t.Context(), filter) {
			if err != nil || record.Instance.String() != "job/1" {
				t.Errorf("listing %+v: got %s, %v", filter, record.Instance, err)
			}
		}
	}
	for _, machine := range []string{"", reserved.Idempotency, "signup"} {
		page, err := store.ListPage(t.Context(), dynamostore.Filter{Machine: machine}, 10, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range page.Records {
			if record.Instance.String() != "job/1" {
				t.Errorf("a page of %q: got %s", machine, record.Instance)
			}
		}
	}
	wantRecord(t, store, instances.Record{Instance: id})
}

// docs/cost.md says that writing a reservation consumes one unit, whatever the length of the names.
func TestAReservationCostsOneWriteUnit(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	longest := instances.ID{Machine: strings.Repeat("m", 63), ID: strings.Repeat("i", 64)}
	must(t, store.Reserve(t.Context(), longest, strings.Repeat("ü k", 100), place, created))
	written, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: aws.String(table), Item: soleItem(t, client), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := *written.ConsumedCapacity.CapacityUnits; got != 1 {
		t.Errorf("want 1 write unit, got %v", got)
	}
}

func TestReserveFailsForInvalidEvents(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	if err := store.Reserve(t.Context(), id, "k", json.RawMessage(`"PLACE"`), created); err == nil || errors.Is(err, dynamostore.ErrIDReused) {
		t.Errorf("not a JSON object: want an error other than ErrIDReused, got %v", err)
	}
	if err := dynamostore.New(client, "nowhere").Reserve(t.Context(), id, "k", place, created); !errors.Is(err, dynamostore.ErrNoTable) {
		t.Errorf("without a table: want ErrNoTable, got %v", err)
	}
}

// soleItem returns the only item of the table.
func soleItem(t *testing.T, client *dynamodb.Client) map[string]types.AttributeValue {
	t.Helper()
	output, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table)})
	if err != nil {
		t.Fatal(err)
	}
	if len(output.Items) != 1 {
		t.Fatalf("want one item, got %v", output.Items)
	}
	return output.Items[0]
}
