package dynamostore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/limits"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestTwoProcessesShareALimit(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	limit := statechart.Limit{Name: "bank", Rate: 2, Per: time.Hour, Concurrency: 1}
	now := created
	clock := func() time.Time { return now }
	a, b := limits.New(store, clock), limits.New(store, clock)
	acquire := func(l *limits.Limiter, key string, free bool) *limits.Permit {
		t.Helper()
		permit, err := l.Acquire(t.Context(), limit, key)
		waits := (*limits.WaitError)(nil)
		switch {
		case free && err != nil:
			t.Fatal(err)
		case !free && (!errors.As(err, &waits) || waits.Err != nil || !waits.Until.After(now)):
			t.Fatalf("got %v, want a WaitError with a time", err)
		}
		return permit
	}
	first := acquire(a, "acme", true)
	acquire(b, "acme", false) // the place is taken
	acquire(b, "other", true).Release()
	first.Release()
	acquire(b, "acme", true).Release()
	acquire(a, "acme", false) // the rate is used up
	now = now.Add(2 * time.Hour)
	acquire(a, "acme", true).Release()

	output, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(table), Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: "limits/bank/acme"}},
	})
	must(t, err)
	starts, _ := output.Item["starts"].(*types.AttributeValueMemberL)
	if starts == nil || len(starts.Value) != 1 || output.Item["holders"] != nil || output.Item["revision"] != nil {
		t.Fatalf("got the item %v, want one start and no place", output.Item)
	}
	start, _ := starts.Value[0].(*types.AttributeValueMemberM)
	until, _ := start.Value["until"].(*types.AttributeValueMemberS)
	if want := now.Add(5 * time.Second).Format(time.RFC3339); until == nil || until.Value != want {
		t.Errorf("the start counts as if it came at %v, want %s", start.Value, want)
	}
	expire, _ := output.Item["expire_at"].(*types.AttributeValueMemberN)
	if want := now.Add(2*time.Hour + 5*time.Second).Unix(); expire == nil || expire.Value != fmt.Sprint(want) {
		t.Errorf("the item expires at %v, want %d", output.Item["expire_at"], want)
	}
}

func TestAConflictReturnsTheStateThatIsStored(t *testing.T) {
	t.Parallel()
	_, store := emptyStore(t)
	at := created.Add(time.Millisecond)
	stored := limits.State{
		Write: "a-1", Starts: []limits.Lease{{Calls: 2, Until: at}}, Holders: []limits.Lease{{Owner: "a", Calls: 3, Until: at.Add(time.Nanosecond)}},
		ReturnAt: at.Add(time.Second), CallTime: 1500 * time.Millisecond,
	}
	for _, c := range []struct {
		previous   string
		next, want limits.State
	}{
		{"a-0", stored, limits.State{}}, // Nothing is stored: the item has expired.
		{"", stored, stored},
		{"", limits.State{Write: "b-1"}, stored},
		{"b-1", limits.State{Write: "b-2"}, stored},
		{"a-1", limits.State{Write: "a-2"}, limits.State{Write: "a-2"}},
	} {
		got, err := store.SwapLimit(t.Context(), "bank", "acme", c.previous, c.next)
		must(t, err)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("after %q, %q: %s", c.previous, c.next.Write, diff)
		}
	}
}

func TestADamagedItemOfALimitStopsItsCalls(t *testing.T) {
	t.Parallel()
	client, store := emptyStore(t)
	for _, item := range []map[string]types.AttributeValue{
		{},
		{"write": &types.AttributeValueMemberS{Value: "w"}, "starts": &types.AttributeValueMemberS{Value: "many"}},
	} {
		item["instance"] = &types.AttributeValueMemberS{Value: "limits/bank/acme"}
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: item})
		must(t, err)
		_, err = limits.New(store, time.Now).Acquire(t.Context(), statechart.Limit{Name: "bank", Rate: 1}, "acme")
		if !errors.Is(err, durable.ErrUnreadable) {
			t.Errorf("%v: got %v, want ErrUnreadable", item, err)
		}
	}
}
