package dynamostore_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestIndexedStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	testContract(t, func(t *testing.T) durable.Store {
		t.Helper()
		return dynamostore.NewIndexed(newIndexedClient(t), table)
	})
}

func TestOnlyAnIndexedStoreWritesTheIndexKeys(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	keys := func(name string) string {
		output, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(table),
			Key: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: name}}})
		if err != nil {
			t.Fatal(err)
		}
		return show(output.Item["index_shard"]) + " " + show(output.Item["index_key"])
	}
	plain, indexed := dynamostore.New(client, table), dynamostore.NewIndexed(client, table)
	mustCommit(t, plain, placedRecord("job/1", 1, statechart.Active, nil, "queued"))
	if got, want := keys("job/1"), "<nil> <nil>"; got != want {
		t.Errorf("without the index: got %s, want %s", got, want)
	}
	for i, test := range []struct {
		status statechart.Status
		state  []string
		want   string
	}{
		{statechart.Active, []string{"queued"}, `S "active/8" S "job/queued/1"`},
		{statechart.Active, []string{"a.b.x", "a.c"}, `S "active/8" S "job/a/1"`},
		{statechart.Active, []string{"ab", "a.c"}, `S "active/8" S "job//1"`},
		{statechart.Active, []string{"a.b", "a.b.c", "a.b.d"}, `S "active/8" S "job/a.b/1"`},
		{statechart.Done, []string{"over"}, `S "other/8" S "job/over/1"`},
		{statechart.Stopped, nil, `S "other/8" S "job//1"`},
		{statechart.Active, []string{strings.Repeat("x", 600)}, `S "active/8" S "job//1"`},
		{statechart.Active, []string{"a." + strings.Repeat("x", 600) + ".b"}, `S "active/8" S "job/a/1"`},
	} {
		mustCommit(t, indexed, placedRecord("job/1", int64(i)+2, test.status, nil, test.state...))
		if got := keys("job/1"); got != test.want {
			t.Errorf("%s in %.40v: got %s, want %s", test.status, test.state, got, test.want)
		}
	}
	mustCommit(t, plain, placedRecord("job/1", 10, statechart.Active, nil, "queued"))
	if got, want := keys("job/1"), "<nil> <nil>"; got != want {
		t.Errorf("without the index again: got %s, want %s", got, want)
	}
}

func TestInstancesAreIndexedFromTheirFirstIndexedCommit(t *testing.T) {
	t.Parallel()
	client := newIndexedClient(t)
	plain, indexed := dynamostore.New(client, table), dynamostore.NewIndexed(client, table)
	for revision, test := range []struct {
		store *dynamostore.Store
		want  string
	}{{plain, ""}, {indexed, "job/1"}, {plain, ""}} {
		mustCommit(t, test.store, placedRecord("job/1", int64(revision)+1, statechart.Active, nil, "queued"))
		names, _ := paged(t, plain, dynamostore.Filter{}, 10)
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("after revision %d: got %q, want %q", revision+1, got, test.want)
		}
	}
	// An alias is not an instance.
	owner := placedRecord("job/1", 4, statechart.Active, nil, "queued")
	mustCommit(t, plain, owner)
	if err := indexed.Claim(t.Context(), "provider/7c", owner.Instance, owner.CreatedAt, owner.Revision); err != nil {
		t.Fatal(err)
	}
	if names, _ := paged(t, indexed, dynamostore.Filter{}, 10); len(names) > 0 {
		t.Errorf("got %v, want no alias", names)
	}
}

func TestAnExistingTableIsKeptWithoutAnIndex(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	for range 2 {
		if err := dynamostore.CreateIndexedTable(t.Context(), client, table); err != nil {
			t.Fatal(err)
		}
	}
	description, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	if err != nil || len(description.Table.GlobalSecondaryIndexes) != 0 {
		t.Errorf("got %+v, %v, want the table unchanged", description, err)
	}
}

// meter counts the write units that requests consume in the table and the index.
type meter struct {
	dynamostore.Client
	table, index float64
}

func (m *meter) PutItem(ctx context.Context, input *dynamodb.PutItemInput, options ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	input.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	output, err := m.Client.PutItem(ctx, input, options...)
	if err == nil {
		m.count(output.ConsumedCapacity)
	}
	return output, err
}

func (m *meter) UpdateItem(ctx context.Context, input *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	input.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	output, err := m.Client.UpdateItem(ctx, input, options...)
	if err == nil {
		m.count(output.ConsumedCapacity)
	}
	return output, err
}

func (m *meter) count(consumed *types.ConsumedCapacity) {
	m.table, m.index = aws.ToFloat64(consumed.Table.CapacityUnits), 0
	for index := range maps.Values(consumed.GlobalSecondaryIndexes) {
		m.index += aws.ToFloat64(index.CapacityUnits)
	}
}

// The figures are in docs/cost.md, "The index".
func TestIndexIsWrittenOnlyWhenItsAttributesChange(t *testing.T) {
	t.Parallel()
	m := &meter{Client: newIndexedClient(t)}
	store := dynamostore.NewIndexed(m, table)
	settled := []string{"settled"}
	revision := int64(0)
	for _, test := range []struct {
		what   string
		status statechart.Status
		tags   []string
		state  []string
		units  float64
	}{
		{"it begins", statechart.Active, settled, []string{"queued"}, 1},
		{"an event that changes no state", statechart.Active, settled, []string{"queued"}, 0},
		{"the tags change", statechart.Active, nil, []string{"queued"}, 1},
		{"the state changes", statechart.Active, settled, []string{"running"}, 2},
		{"the instance enters two regions", statechart.Active, settled, []string{"on.a.x", "on.b.x"}, 2},
		{"one region moves", statechart.Active, settled, []string{"on.a.y", "on.b.x"}, 1},
		{"it ends", statechart.Done, nil, []string{"over"}, 2},
	} {
		revision++
		mustCommit(t, store, placedRecord("job/1", revision, test.status, test.tags, test.state...))
		if m.index != test.units || m.table != 1 {
			t.Errorf("%s: got %v units of the index and %v of the table, want %v and 1", test.what, m.index, m.table, test.units)
		}
	}
	if err := store.ClearOutbox(t.Context(), instances.ID{Machine: "job", ID: "1"}, revision, durable.Left{}); err != nil || m.index != 0 {
		t.Errorf("clearing the outbox: got %v units of the index, %v, want 0", m.index, err)
	}
}

// The figures are in docs/cost.md, "The index".
func TestIndexReadsOnlyItsPart(t *testing.T) {
	t.Parallel()
	counter := &readMeter{Client: newIndexedClient(t)}
	store := dynamostore.NewIndexed(counter, table)
	for i := range 400 {
		state, status := "running", statechart.Done
		if i%200 == 0 {
			state, status = "queued", statechart.Active
		}
		record := placedRecord(fmt.Sprint("job/", i), 1, status, nil, state)
		record.Aliases = []string{strings.Repeat("x", 700)} // an item of about 1 KB
		mustCommit(t, store, record)
	}
	if names, _ := paged(t, store, dynamostore.Filter{Machine: "job", State: "queued", Status: statechart.Active}, 10); len(names) != 2 {
		t.Fatalf("got %v, want two", names)
	}
	byIndex := counter.units
	counter.units = 0
	listed(t, store, dynamostore.Filter{Machine: "job", State: "queued", Status: statechart.Active})
	// ListPage queries each of the 16 shards of active instances twice, once for the state and once for the root above
	// it. Each query takes half a unit. Then ListPage reads two instances, which takes one unit each.
	if byIndex != 16+2 || counter.units != 44.5 {
		t.Errorf("got %v read units by the index and %v by a scan, want 18 and 44.5", byIndex, counter.units)
	}
}

// readMeter counts the read units that requests consume.
type readMeter struct {
	dynamostore.Client
	mu    sync.Mutex
	units float64
}

func (m *readMeter) add(consumed *types.ConsumedCapacity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units += aws.ToFloat64(consumed.CapacityUnits)
}

func (m *readMeter) Query(ctx context.Context, input *dynamodb.QueryInput, options ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	input.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	output, err := m.Client.Query(ctx, input, options...)
	if err == nil {
		m.add(output.ConsumedCapacity)
	}
	return output, err
}

func (m *readMeter) GetItem(ctx context.Context, input *dynamodb.GetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	input.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	output, err := m.Client.GetItem(ctx, input, options...)
	if err == nil {
		m.add(output.ConsumedCapacity)
	}
	return output, err
}

func (m *readMeter) Scan(ctx context.Context, input *dynamodb.ScanInput, options ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	input.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	output, err := m.Client.Scan(ctx, input, options...)
	if err == nil {
		m.add(output.ConsumedCapacity)
	}
	return output, err
}
