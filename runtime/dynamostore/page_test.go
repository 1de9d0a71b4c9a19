package dynamostore_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// newIndexedClient returns a client of a DynamoDB with the empty, indexed table.
func newIndexedClient(t *testing.T) *dynamodb.Client {
	t.Helper()
	client := newLocalClient()
	if err := dynamostore.CreateIndexedTable(t.Context(), client, table); err != nil {
		t.Fatal(err)
	}
	return client
}

// placedRecord is smallRecord with a status, tags and states.
func placedRecord(name string, revision int64, status statechart.Status, tags []string, state ...string) instances.Record {
	instance, err := instances.ParseID(name)
	if err != nil {
		panic(err)
	}
	record := smallRecord(instance, revision)
	record.Status, record.State = status, state
	snapshot, err := json.Marshal(map[string]any{"machine": instance.Machine, "version": 1, "status": status, "tags": append([]string{}, tags...)})
	if err != nil {
		panic(err)
	}
	record.Snapshot = snapshot
	return record
}

// paged returns the names on all pages, in order, and the number of pages.
func paged(t *testing.T, store *dynamostore.Store, filter dynamostore.Filter, limit int) (names []string, pages int) {
	t.Helper()
	for cursor := ""; ; {
		page, err := store.ListPage(t.Context(), filter, limit, cursor)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Records) > limit || len(page.Unreadable) > 0 {
			t.Fatalf("%+v: got %d records and %v, want at most %d", filter, len(page.Records), page.Unreadable, limit)
		}
		for _, record := range page.Records {
			names = append(names, record.Instance.String())
		}
		if pages++; pages > 1000 {
			t.Fatalf("%+v: more than 1000 pages of %d", filter, limit)
		}
		if cursor = page.Cursor; cursor == "" {
			return names, pages
		}
	}
}

// fewAtATime is a client that limits the page size of queries.
type fewAtATime struct {
	dynamostore.Client
	entries atomic.Int32
	// `now` counts the queries in flight. `most` is the largest such number so far.
	now, most atomic.Int32
	// stale, if not nil, serves the queries instead of the table's index.
	stale dynamostore.Client
}

func (c *fewAtATime) Query(ctx context.Context, input *dynamodb.QueryInput, options ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if now := c.now.Add(1); now > c.most.Load() {
		c.most.Store(now)
	}
	defer c.now.Add(-1)
	few := *input
	if entries := c.entries.Load(); entries > 0 {
		few.Limit = aws.Int32(entries)
	}
	if c.stale != nil {
		return c.stale.Query(ctx, &few, options...)
	}
	return c.Client.Query(ctx, &few, options...)
}

// deepState is a path that is too long for the index's keys.
var deepState = "deep" + strings.Repeat("."+strings.Repeat("x", 150), 4)

// The states of instances in the random test. Some are in several states at once.
var placements = [][]string{
	nil, {"queued"}, {"queued_late"}, {"running"}, {"running.setup"}, {"running.setup.disk"}, {"failed"},
	{"running.mail.sent", "running.clock.on"}, {"running.mail.open", "running.clock.on"}, {"left", "right.on"}, {"left", "right"},
	{"a/b", "a/b.c"}, {"/slash.x"}, {"/slash"}, {"a state of, say, stateless"}, {"ä.ö"}, {deepState}, {deepState, "deep.other"},
}

func TestIndexFindsWhatAScanFinds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			client := &fewAtATime{Client: newIndexedClient(t)}
			store := dynamostore.NewIndexed(client, table)
			machines := []string{"job", "jobs", "job0", "job-1", "z"}
			tags := []string{"settled", "late", "settle"}
			statuses := []statechart.Status{statechart.Active, statechart.Active, statechart.Done, statechart.Stopped}
			for i := range 200 {
				name := machines[random.IntN(len(machines))] + "/" + fmt.Sprint(i)
				for revision := range int64(1 + random.IntN(3)) {
					mustCommit(t, store, placedRecord(name, revision+1, statuses[random.IntN(len(statuses))],
						tags[:random.IntN(len(tags)+1)], placements[random.IntN(len(placements))]...))
				}
			}
			if shards := usedShards(t, client); shards != 2*dynamostore.IndexShards {
				t.Fatalf("%d shards are in use, want all %d: the test proves nothing", shards, 2*dynamostore.IndexShards)
			}
			filters := []dynamostore.Filter{{}, {State: "running"}, {Tag: "late"}, {Status: statechart.Active}, {Machine: "none"}, {Machine: "job", State: "none"}}
			for _, machine := range machines {
				filters = append(filters, dynamostore.Filter{Machine: machine})
			}
			for _, placement := range placements {
				for _, state := range placement {
					for ; state != ""; state = state[:max(0, strings.LastIndexByte(state, '.'))] {
						filter := dynamostore.Filter{Machine: "job", State: state}
						if random.IntN(3) == 0 {
							filter.Status, filter.Tag = statuses[random.IntN(len(statuses))], tags[random.IntN(len(tags))]
						}
						filters = append(filters, filter)
					}
				}
			}
			seen := map[dynamostore.Filter]bool{}
			for i, filter := range filters {
				if seen[filter] {
					continue
				}
				seen[filter] = true
				client.entries.Store(int32(3 * (i % 3))) // 0 does not limit the page
				want := strings.Fields(listed(t, store, filter))
				limit := 10 + random.IntN(60)
				got, pages := paged(t, store, filter, limit)
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("%.200v: got %v, want %v as a scan", filter, got, want)
				}
				if wantPages := max(1, (len(want)+limit-1)/limit); pages != wantPages {
					t.Errorf("%.200v: got %d pages of %d for %d instances, want %d", filter, pages, limit, len(want), wantPages)
				}
			}
			if most := client.most.Load(); most < 2 || most > 16 {
				t.Errorf("got %d concurrent queries, want several, at most 16", most)
			}
		})
	}
}

// usedShards returns how many shards of the index contain instances.
func usedShards(t *testing.T, client dynamostore.Client) int {
	t.Helper()
	output, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table), ProjectionExpression: aws.String("index_shard")})
	if err != nil {
		t.Fatal(err)
	}
	shards := map[string]bool{}
	for _, item := range output.Items {
		shards[show(item["index_shard"])] = true
	}
	return len(shards)
}

func TestPagesOfAnySizeContainAllInstancesInOrder(t *testing.T) {
	t.Parallel()
	store := dynamostore.NewIndexed(newIndexedClient(t), table)
	var want []string // by machine, state, ID
	for _, machine := range []string{"job", "signup"} {
		for _, state := range []string{"queued", "running"} {
			for id := range 6 {
				name := fmt.Sprintf("%s/%s-%d", machine, map[string]string{"queued": "z", "running": "a"}[state], id)
				mustCommit(t, store, placedRecord(name, 1, []statechart.Status{statechart.Active, statechart.Done}[id%2], nil, state))
				want = append(want, name)
			}
		}
	}
	for _, limit := range []int{1, 2, 3, 7, 23, 24, 25} {
		got, pages := paged(t, store, dynamostore.Filter{}, limit)
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %v, want %v", limit, got, want)
		}
		if wantPages := (len(want) + limit - 1) / limit; pages != wantPages {
			t.Errorf("pages of %d: got %d of them, want %d", limit, pages, wantPages)
		}
	}
}

func TestAPageIsCurrentEvenIfTheIndexLags(t *testing.T) {
	t.Parallel()
	client, behind := newIndexedClient(t), newIndexedClient(t)
	store := dynamostore.NewIndexed(&fewAtATime{Client: client, stale: behind}, table)
	for _, name := range []string{"job/1", "job/2", "job/3", "job/4", "job/5"} {
		mustCommit(t, store, placedRecord(name, 1, statechart.Active, []string{"late"}, "queued"))
		mustCommit(t, dynamostore.NewIndexed(behind, table), placedRecord(name, 1, statechart.Active, []string{"late"}, "queued"))
	}
	mustCommit(t, store, placedRecord("job/1", 2, statechart.Active, []string{"late"}, "running"))
	mustCommit(t, store, placedRecord("job/2", 2, statechart.Done, []string{"late"}, "queued"))
	mustCommit(t, store, placedRecord("job/3", 2, statechart.Active, nil, "queued"))
	mustCommit(t, store, placedRecord("job/6", 1, statechart.Active, []string{"late"}, "queued"))
	_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(table),
		Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: "job/4"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		filter dynamostore.Filter
		want   []string
	}{
		{dynamostore.Filter{Machine: "job", State: "queued"}, []string{"job/2", "job/3", "job/5"}},
		{dynamostore.Filter{Machine: "job", Status: statechart.Active}, []string{"job/1", "job/3", "job/5"}},
		{dynamostore.Filter{Machine: "job", Tag: "late"}, []string{"job/1", "job/2", "job/5"}},
		// An instance that entered the state is missing until the index catches up.
		{dynamostore.Filter{Machine: "job", State: "running"}, nil},
	} {
		if got, _ := paged(t, store, test.filter, 2); !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %v, want %v", test.filter, got, test.want)
		}
	}
	page, err := store.ListPage(t.Context(), dynamostore.Filter{Machine: "job"}, 10, "")
	if err != nil || len(page.Records) == 0 || page.Records[0].Revision != 2 || !slices.Equal(page.Records[0].State, []string{"running"}) {
		t.Errorf("got %+v, %v, want job/1 first, in its current state", page.Records, err)
	}
}

func TestCursorsOfOtherListingsAreRefused(t *testing.T) {
	t.Parallel()
	store := dynamostore.NewIndexed(newIndexedClient(t), table)
	for i := range 3 {
		mustCommit(t, store, placedRecord(fmt.Sprint("job/", i), 1, statechart.Active, nil, "queued"))
	}
	filter := dynamostore.Filter{Machine: "job", State: "queued"}
	page, err := store.ListPage(t.Context(), filter, 1, "")
	if err != nil || page.Cursor == "" {
		t.Fatalf("got cursor %q, %v, want one", page.Cursor, err)
	}
	const another, malformed = "got one for another listing", "expected the complete cursor of the previous page, got "
	for _, test := range []struct {
		name   string
		filter dynamostore.Filter
		cursor string
		want   string
	}{
		{"another machine", dynamostore.Filter{Machine: "jobs", State: "queued"}, page.Cursor, another},
		{"another state", dynamostore.Filter{Machine: "job"}, page.Cursor, another},
		{"another tag", dynamostore.Filter{Machine: "job", State: "queued", Tag: "x"}, page.Cursor, another},
		{"another status", dynamostore.Filter{Machine: "job", State: "queued", Status: statechart.Active}, page.Cursor, another},
		{"cut off", filter, page.Cursor[:len(page.Cursor)-4], malformed},
		{"no base64", filter, "job/1!", malformed + `"job/1!"`},
		{"no position", filter, base64.RawURLEncoding.EncodeToString([]byte(`{"of":"x"}`)), malformed},
	} {
		_, err := store.ListPage(t.Context(), test.filter, 1, test.cursor)
		if !errors.Is(err, dynamostore.ErrCursor) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want ErrCursor with %q", test.name, err, test.want)
		}
	}
	if page, err := store.ListPage(t.Context(), filter, 2, page.Cursor); err != nil || len(page.Records) != 2 || page.Cursor != "" {
		t.Errorf("another limit: got %d records, cursor %q, %v, want the other 2", len(page.Records), page.Cursor, err)
	}
}

func TestListPageRefusesInvalidArguments(t *testing.T) {
	t.Parallel()
	indexed, without := dynamostore.New(newIndexedClient(t), table), dynamostore.New(newClient(t), table)
	for _, test := range []struct {
		store  *dynamostore.Store
		filter dynamostore.Filter
		limit  int
		want   string
	}{
		{indexed, dynamostore.Filter{}, 0, "expected a limit of 1 to 1000, got 0"},
		{indexed, dynamostore.Filter{}, 1001, "expected a limit of 1 to 1000, got 1001"},
		{indexed, dynamostore.Filter{Consistent: true}, 1, "expected a filter without Consistent"},
		{without, dynamostore.Filter{}, 1, "in table settle: the table has no index by_state"},
		{dynamostore.New(newClient(t), "elsewhere"), dynamostore.Filter{}, 1, "no such table"},
	} {
		page, err := test.store.ListPage(t.Context(), test.filter, test.limit, "")
		if err == nil || !strings.Contains(err.Error(), test.want) || page.Records != nil {
			t.Errorf("%+v: got %v, want %q", test.filter, err, test.want)
		}
		if got, want := errors.Is(err, dynamostore.ErrNoIndex), test.store == without; got != want {
			t.Errorf("%v: it is ErrNoIndex: %t, want %t", err, got, want)
		}
	}
}

func TestAPageContinuesAfterAnUnreadableItem(t *testing.T) {
	t.Parallel()
	client := newIndexedClient(t)
	store := dynamostore.NewIndexed(client, table)
	mustCommit(t, store, placedRecord("job/1", 1, statechart.Active, nil, "queued"))
	mustCommit(t, store, placedRecord("signup/42", 1, statechart.Active, nil, "queued"))
	setAttribute(t, client, "revision", &types.AttributeValueMemberS{Value: "one"})
	page, err := store.ListPage(t.Context(), dynamostore.Filter{State: "queued"}, 10, "")
	if err != nil || len(page.Records) != 1 || page.Records[0].Instance.String() != "job/1" {
		t.Errorf("got %+v, %v, want job/1", page.Records, err)
	}
	if len(page.Unreadable) != 1 || page.Unreadable[0].Instance != "signup/42" ||
		page.Unreadable[0].Error() != `decoding signup/42 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "revision": expected a number (N), got a string (S)` {
		t.Errorf("got %v, want signup/42 with its revision", page.Unreadable)
	}
}
