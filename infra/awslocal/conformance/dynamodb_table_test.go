package conformance_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ignoreUnexported makes cmp ignore the unexported fields of SDK types.
var ignoreUnexported = cmpopts.IgnoreUnexported(
	types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{},
	types.AttributeValueMemberBOOL{}, types.AttributeValueMemberNULL{}, types.AttributeValueMemberM{},
	types.AttributeValueMemberL{}, types.KeysAndAttributes{}, types.ItemResponse{}, sqstypes.MessageAttributeValue{},
)

// unordered makes cmp ignore the order of sets.
var unordered = cmp.Options{
	cmp.Transformer("strings", func(set types.AttributeValueMemberSS) []string { return slices.Sorted(slices.Values(set.Value)) }),
	cmp.Transformer("numbers", func(set types.AttributeValueMemberNS) []string { return slices.Sorted(slices.Values(set.Value)) }),
	cmp.Transformer("binaries", func(set types.AttributeValueMemberBS) [][]byte {
		return slices.SortedFunc(slices.Values(set.Value), bytes.Compare)
	}),
}

// item is an item or key in the SDK's form.
type item = map[string]types.AttributeValue

// Short forms of attribute values.
type (
	list   = types.AttributeValueMemberL
	object = types.AttributeValueMemberM
	yesNo  = types.AttributeValueMemberBOOL
)

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n any) types.AttributeValue    { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }
func nums(n ...string) types.AttributeValue {
	return &types.AttributeValueMemberNS{Value: n}
}
func strs(s ...string) types.AttributeValue {
	return &types.AttributeValueMemberSS{Value: s}
}
func listOf(values ...types.AttributeValue) types.AttributeValue { return &list{Value: values} }

// table is a table accessed through the SDK.
type table struct {
	t      *testing.T
	client *dynamodb.Client
	name   *string
}

// table creates a table. keys holds the name of the partition key, whose type is string, and optionally the name and
// type of the sort key, such as "n:N".
func (w *world) table(t *testing.T, keys ...string) table {
	t.Helper()
	in := tableInput(w.name(), keys...)
	return w.create(t, in)
}

func tableInput(name string, keys ...string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest}
	for i, key := range keys {
		key, typ, _ := strings.Cut(key, ":")
		if typ == "" {
			typ = "S"
		}
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &key, AttributeType: types.ScalarAttributeType(typ)})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: &key, KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i]})
	}
	return in
}

func (w *world) create(t *testing.T, in *dynamodb.CreateTableInput) table {
	t.Helper()
	_, err := w.dynamodb.CreateTable(t.Context(), in)
	must(t, "CreateTable", err)
	waiter := dynamodb.NewTableExistsWaiter(w.dynamodb, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, time.Second
	})
	must(t, "waiting for the table", waiter.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: in.TableName}, 30*time.Second))
	return table{t, w.dynamodb, in.TableName}
}

// indexed creates a table with the partition key id and two indexes. The index by-n has the partition key g and the
// sort key n, a number. It projects only the keys. The index by-s has the partition key s and projects all attributes.
func (w *world) indexed(t *testing.T) table {
	t.Helper()
	in := tableInput(w.name(), "id")
	index := func(name string, projection types.ProjectionType, keys ...string) {
		parsed := tableInput("", keys...)
		in.AttributeDefinitions = append(in.AttributeDefinitions, parsed.AttributeDefinitions...)
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: &name, KeySchema: parsed.KeySchema, Projection: &types.Projection{ProjectionType: projection},
		})
	}
	index("by-n", types.ProjectionTypeKeysOnly, "g", "n:N")
	index("by-s", types.ProjectionTypeAll, "s")
	return w.create(t, in)
}

func (tb table) tryPut(i item) error {
	_, err := tb.client.PutItem(tb.t.Context(), &dynamodb.PutItemInput{TableName: tb.name, Item: i})
	return err
}

func (tb table) put(items ...item) {
	tb.t.Helper()
	for _, i := range items {
		must(tb.t, "PutItem", tb.tryPut(i))
	}
}

// get returns an item, or nil if it does not exist.
func (tb table) get(key item) item {
	tb.t.Helper()
	out, err := tb.client.GetItem(tb.t.Context(), &dynamodb.GetItemInput{TableName: tb.name, Key: key, ConsistentRead: aws.Bool(true)})
	must(tb.t, "GetItem", err)
	return out.Item
}

// wantItem fails unless the table has the item. A nil item means that the key must not exist.
func (tb table) wantItem(what string, key, i item) {
	tb.t.Helper()
	want(tb.t, what, i, tb.get(key))
}

// update returns an UpdateItem request for the item with an id.
func (tb table) update(id, expression string, values item) *dynamodb.UpdateItemInput {
	in := &dynamodb.UpdateItemInput{TableName: tb.name, Key: item{"id": str(id)}, ExpressionAttributeValues: values}
	if expression != "" {
		in.UpdateExpression = &expression
	}
	return in
}

func (tb table) doUpdate(in *dynamodb.UpdateItemInput) item {
	tb.t.Helper()
	out, err := tb.client.UpdateItem(tb.t.Context(), in)
	must(tb.t, "UpdateItem", err)
	return out.Attributes
}

func (tb table) tryUpdate(in *dynamodb.UpdateItemInput) error {
	_, err := tb.client.UpdateItem(tb.t.Context(), in)
	return err
}

// query returns a Query of the partition "p". It appends `more` to the key condition.
func (tb table) query(more string, values item) *dynamodb.QueryInput {
	all := item{":p": str("p")}
	maps.Copy(all, values)
	return &dynamodb.QueryInput{
		TableName: tb.name, KeyConditionExpression: aws.String("id = :p" + more), ExpressionAttributeValues: all,
		ConsistentRead: aws.Bool(true),
	}
}

// queryByN returns a Query of the index by-n for its partition "g".
func (tb table) queryByN() *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName: tb.name, IndexName: aws.String("by-n"),
		KeyConditionExpression: aws.String("g = :g"), ExpressionAttributeValues: item{":g": str("g")},
	}
}

func (tb table) doQuery(in *dynamodb.QueryInput) *dynamodb.QueryOutput {
	tb.t.Helper()
	out, err := tb.client.Query(tb.t.Context(), in)
	must(tb.t, "Query", err)
	return out
}

// pages runs a Query to its end and returns the items by page.
func (tb table) pages(in *dynamodb.QueryInput) [][]item {
	tb.t.Helper()
	const most = 1000
	var all [][]item
	for pages := dynamodb.NewQueryPaginator(tb.client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(tb.t.Context())
		must(tb.t, "Query", err)
		if all = append(all, page.Items); len(all) > most {
			tb.t.Fatalf("more than %d pages", most)
		}
	}
	return all
}

// ids returns how often a Scan returns each id.
func (tb table) ids() map[string]int {
	tb.t.Helper()
	seen := map[string]int{}
	in := &dynamodb.ScanInput{TableName: tb.name, ConsistentRead: aws.Bool(true)}
	for pages := dynamodb.NewScanPaginator(tb.client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(tb.t.Context())
		must(tb.t, "Scan", err)
		for _, i := range page.Items {
			seen[values([]item{i}, "id")]++
		}
	}
	return seen
}

// values joins the values of a string or number attribute of items.
func values(items []item, attribute string) string {
	var all []string
	for _, i := range items {
		switch value := i[attribute].(type) {
		case *types.AttributeValueMemberS:
			all = append(all, value.Value)
		case *types.AttributeValueMemberN:
			all = append(all, value.Value)
		}
	}
	return strings.Join(all, " ")
}

// pagesOf joins the values of an attribute, page by page.
func pagesOf(pages [][]item, attribute string) string {
	var all []string
	for _, page := range pages {
		all = append(all, "["+values(page, attribute)+"]")
	}
	return strings.Join(all, " ")
}
