package dynamostore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

// pagingClient makes each page of a scan evaluate one item. It records whether the scans were consistent.
type pagingClient struct {
	dynamostore.Client
	pages        int
	inconsistent bool
}

func (c *pagingClient) Scan(ctx context.Context, input *dynamodb.ScanInput, options ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	c.pages++
	c.inconsistent = c.inconsistent || !aws.ToBool(input.ConsistentRead)
	one := *input
	one.Limit = aws.Int32(1)
	return c.Client.Scan(ctx, &one, options...)
}

// belongings returns the keys of the belongings with their kinds and owners, sorted.
func belongings(t *testing.T, store *dynamostore.Store, owners ...instances.ID) (found []dynamostore.Belonging, text []string) {
	t.Helper()
	for belonging, err := range store.Belongings(t.Context(), owners) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, belonging)
		key := belonging.Key
		if belonging.Kind == dynamostore.EventID {
			key = key[:strings.LastIndexByte(key, '/')]
		}
		text = append(text, fmt.Sprintf("%s %s of %s", belonging.Kind, key, belonging.Owner))
	}
	slices.Sort(text)
	return found, text
}

// withBelongings stores signup/1, signup/12 and signup/2, each with belongings of all kinds.
func withBelongings(t *testing.T) (*pagingClient, *dynamostore.Store) {
	t.Helper()
	client := &pagingClient{Client: newClient(t)}
	store := dynamostore.New(client, table)
	for _, name := range []string{"1", "12", "2"} {
		owner := instances.ID{Machine: "signup", ID: name}
		child := smallRecord(instances.ID{Machine: "mail", ID: "of-" + name}, 1)
		child.Parent = &instances.Parent{Instance: owner.String(), Incarnation: 1, Child: "1.0"}
		mustCommit(t, store, smallRecord(owner, 1))
		mustCommit(t, store, child)
		for _, err := range []error{
			store.Claim(t.Context(), "provider/of-"+name, owner, created, 1),
			store.Claim(t.Context(), "provider/released-"+name, owner, created, 1),
			store.Release(t.Context(), "provider/released-"+name, owner, created, created.Add(time.Hour)),
			store.Reserve(t.Context(), owner, "event/1", json.RawMessage(`{"type":"GO"}`), created),
			store.KeepSends(t.Context(), owner, "arn:q", []instances.LastSend{{Sender: "signup/1@1", ID: "3.0"}}, created),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return client, store
}

func TestBelongingsAreTheItemsOfTheirOwners(t *testing.T) {
	t.Parallel()
	client, store := withBelongings(t)
	var want []string
	for _, name := range []string{"1", "2"} {
		for _, kind := range []string{"alias alias/provider/of-", "alias alias/provider/released-", "child mail/of-", "event_id idempotency/signup/", "send sends/signup/"} {
			if strings.HasPrefix(kind, "send") {
				want = append(want, fmt.Sprintf("%s%s arn:q signup/1@1 of signup/%[2]s", kind, name))
			} else {
				want = append(want, fmt.Sprintf("%s%s of signup/%[2]s", kind, name))
			}
		}
	}
	slices.Sort(want)
	owners := []instances.ID{{Machine: "signup", ID: "1"}, {Machine: "signup", ID: "2"}}
	for range 2 {
		_, got := belongings(t, store, owners...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("for %d owners: %s", len(owners), diff)
		}
		for i := range 20 { // Now the store filters the items, not DynamoDB.
			owners = append(owners, instances.ID{Machine: "nobody", ID: fmt.Sprint(i)})
		}
	}
	if client.pages < 30 || client.inconsistent {
		t.Errorf("%d pages were read, inconsistently: %t", client.pages, client.inconsistent)
	}
}

func TestErasedBelongingsAreGone(t *testing.T) {
	t.Parallel()
	client, store := withBelongings(t)
	owner, other := instances.ID{Machine: "signup", ID: "1"}, instances.ID{Machine: "signup", ID: "2"}
	found, _ := belongings(t, store, owner)
	if err := store.Claim(t.Context(), "provider/released-1", other, created, 1); err != nil { // The alias belongs to another instance now.
		t.Fatal(err)
	}
	for range 2 {
		for _, belonging := range found {
			err := store.Erase(t.Context(), belonging)
			if isChild := belonging.Kind == dynamostore.Child; isChild != (err != nil) {
				t.Errorf("erasing %s: %v", belonging.Key, err)
			}
		}
	}
	if _, got := belongings(t, store, owner); !slices.Equal(got, []string{"child mail/of-1 of signup/1"}) {
		t.Errorf("got %v, want only the child", got)
	}
	if got, err := store.Find(t.Context(), "provider/released-1"); err != nil || got != other {
		t.Errorf("the alias of another instance belongs to %v, %v", got, err)
	}
	if _, got := belongings(t, store, other); len(got) != 6 {
		t.Errorf("signup/2 has %v", got)
	}
	if err := store.Erase(t.Context(), dynamostore.Belonging{Kind: dynamostore.Alias, Owner: other, Key: "alias/never"}); err != nil {
		t.Errorf("erasing an item that does not exist: %v", err)
	}
	if client.inconsistent {
		t.Error("a scan was inconsistent")
	}
}

func TestAForgottenRecordLoadsAsOne(t *testing.T) {
	t.Parallel()
	store := dynamostore.New(newClient(t), table)
	record := smallRecord(id, 1)
	record.Forgotten = true
	mustCommit(t, store, record)
	wantRecord(t, store, record)
}
