package dynamostore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// listed returns the names of the instances that the filter selects, sorted.
func listed(t *testing.T, store *dynamostore.Store, filter dynamostore.Filter) string {
	t.Helper()
	var names []string
	for record, err := range store.List(t.Context(), filter) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, record.Instance.String())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestListChoosesByMachineStateAndStatus(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	store := dynamostore.New(client, table)
	for name, state := range map[string]string{
		"job/1": "queued", "job/2": "running.setup", "job/3": "running", "jobs/1": "running_late", "signup/1": "running.mail.sent",
	} {
		instance, err := instances.ParseID(name)
		if err != nil {
			t.Fatal(err)
		}
		record := smallRecord(instance, 1)
		record.State = []string{"other", state}
		if name == "job/3" {
			record.Status = statechart.Done
			record.Snapshot = json.RawMessage(strings.Replace(string(record.Snapshot), "active", "done", 1))
		}
		mustCommit(t, store, record)
	}
	// Items of other kinds are not instances.
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table),
		Item: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: "alias/order-7"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		filter dynamostore.Filter
		want   string
	}{
		{dynamostore.Filter{}, "job/1 job/2 job/3 jobs/1 signup/1"},
		{dynamostore.Filter{Machine: "job"}, "job/1 job/2 job/3"},
		{dynamostore.Filter{State: "running"}, "job/2 job/3 signup/1"},
		{dynamostore.Filter{State: "running.mail"}, "signup/1"},
		{dynamostore.Filter{State: "mail"}, ""},
		{dynamostore.Filter{Status: statechart.Done}, "job/3"},
		{dynamostore.Filter{Machine: "job", State: "running", Status: statechart.Active}, "job/2"},
	} {
		if got := listed(t, store, test.filter); got != test.want {
			t.Errorf("%+v: got %s, want %s", test.filter, got, test.want)
		}
	}
}

// scanCounter counts the pages, and records how the last one was read.
type scanCounter struct {
	dynamostore.Client
	scans int
	// consistent is the last page's ConsistentRead.
	consistent bool
}

func (c *scanCounter) Scan(ctx context.Context, input *dynamodb.ScanInput, options ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	c.scans++
	c.consistent = aws.ToBool(input.ConsistentRead)
	return c.Client.Scan(ctx, input, options...)
}

func TestListReadsPagesAsTheCallerIterates(t *testing.T) {
	t.Parallel()
	counter := &scanCounter{Client: newClient(t)}
	store := dynamostore.New(counter, table)
	const stored = 8 // items of 300 KB; a page of Scan ends at 1 MB
	for i := range stored {
		record := smallRecord(instances.ID{Machine: "job", ID: fmt.Sprint(i)}, 1)
		record.Snapshot = json.RawMessage(`{"version": 1, "status": "active", "context": "` + strings.Repeat("x", 300<<10) + `"}`)
		mustCommit(t, store, record)
	}
	if got, want := listed(t, store, dynamostore.Filter{}), "job/0 job/1 job/2 job/3 job/4 job/5 job/6 job/7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if counter.scans < 2 {
		t.Fatalf("%d pages, want several: the test proves nothing", counter.scans)
	}
	counter.scans = 0
	for _, err := range store.List(t.Context(), dynamostore.Filter{}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if counter.scans != 1 {
		t.Errorf("%d pages for a caller who stopped at the first record, want 1", counter.scans)
	}
}

func TestListContinuesAfterAnUnreadableItem(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	store := dynamostore.New(client, table)
	other := instances.ID{Machine: "job", ID: "1"}
	mustCommit(t, store, smallRecord(id, 1))
	mustCommit(t, store, smallRecord(other, 1))
	setAttribute(t, client, "revision", &types.AttributeValueMemberS{Value: "one"})
	var got []string
	for record, err := range store.List(t.Context(), dynamostore.Filter{}) {
		var item *dynamostore.ItemError
		if errors.As(err, &item) {
			got = append(got, err.Error())
			if item.Instance != "signup/42" || record.Instance != id || record.Revision != 0 {
				t.Errorf("got the error of %q and the record %+v, want signup/42 and only its name", item.Instance, record)
			}
		} else {
			got = append(got, record.Instance.String())
		}
	}
	slices.Sort(got)
	want := []string{`decoding signup/42 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "revision": expected a number (N), got a string (S)`, "job/1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestListEndsWithTheErrorOfAPage(t *testing.T) {
	t.Parallel()
	store := dynamostore.New(newClient(t), "elsewhere")
	var errs []error
	for _, err := range store.List(t.Context(), dynamostore.Filter{}) {
		errs = append(errs, err)
	}
	var item *dynamostore.ItemError
	if len(errs) != 1 || !errors.Is(errs[0], dynamostore.ErrNoTable) || errors.As(errs[0], &item) {
		t.Errorf("got %v, want ErrNoTable once, for no item", errs)
	}
}

func TestListReadsConsistentlyIfAsked(t *testing.T) {
	t.Parallel()
	for _, consistent := range []bool{false, true} {
		counter := &scanCounter{Client: newClient(t)}
		listed(t, dynamostore.New(counter, table), dynamostore.Filter{Consistent: consistent})
		if counter.consistent != consistent {
			t.Errorf("read consistently: %t, want %t", counter.consistent, consistent)
		}
	}
}
