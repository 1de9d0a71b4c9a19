package dynamo_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const total = types.ReturnConsumedCapacityTotal

func TestDynamoDB_consumed_capacity(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id", "k:N")
	table := aws.String("table")
	key := item{"id": str("p"), "k": num(1)}
	large := item{"id": str("p"), "k": num(1), "text": str(strings.Repeat("x", 10<<10))}

	written, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: large, ReturnConsumedCapacity: total})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "put of 10 KB and a bit", &types.ConsumedCapacity{TableName: table, CapacityUnits: aws.Float64(11)}, written.ConsumedCapacity)
	read, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: table, Key: key, ReturnConsumedCapacity: total})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "eventually consistent get", 1.5, *read.ConsumedCapacity.CapacityUnits)
	read, err = client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: table, Key: key, ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: total})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "consistent get", 3.0, *read.ConsumedCapacity.CapacityUnits)
	read, err = client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: table, Key: item{"id": str("q"), "k": num(1)}, ReturnConsumedCapacity: total})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "get of nothing", 0.5, *read.ConsumedCapacity.CapacityUnits)
	put(t, client, item{"id": str("p"), "k": num(2)})
	input := query("p", "", nil)
	input.ReturnConsumedCapacity = total
	queried, err := client.Query(t.Context(), input)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "query of both together", 1.5, *queried.ConsumedCapacity.CapacityUnits)
	deleted, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: table, Key: key, ReturnConsumedCapacity: total})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "delete", 11.0, *deleted.ConsumedCapacity.CapacityUnits)
	transacted, err := client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{transactPut(large, "")}, ReturnConsumedCapacity: total,
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "transaction", []types.ConsumedCapacity{{TableName: table, CapacityUnits: aws.Float64(22)}}, transacted.ConsumedCapacity)
	silent, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: large})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "not asked for", (*types.ConsumedCapacity)(nil), silent.ConsumedCapacity)
}

func TestDynamoDB_consumed_capacity_of_indexes(t *testing.T) {
	t.Parallel()
	client := newIndexed(t)
	writing := func(i item) *types.ConsumedCapacity {
		out, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: i, ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes})
		if err != nil {
			t.Fatal(err)
		}
		return out.ConsumedCapacity
	}
	for _, test := range []struct {
		what    string
		item    item
		byN     float64
		allOfIt float64
	}{
		{"not in the index", item{"id": str("a"), "g": str("g")}, 0, 1},
		{"into the index", item{"id": str("a"), "g": str("g"), "n": num(1)}, 1, 2},
		{"change of what is not projected", item{"id": str("a"), "g": str("g"), "n": num(1), "x": num(1)}, 0, 1},
		{"move within the index", item{"id": str("a"), "g": str("g"), "n": num(2), "x": num(1)}, 2, 3},
		{"out of the index", item{"id": str("a")}, 1, 2},
	} {
		consumed := writing(test.item)
		want(t, test.what, test.allOfIt, *consumed.CapacityUnits)
		want(t, test.what+": table", 1.0, *consumed.Table.CapacityUnits)
		byN := 0.0
		if index, ok := consumed.GlobalSecondaryIndexes["by-n"]; ok {
			byN = *index.CapacityUnits
		}
		want(t, test.what+": index", test.byN, byN)
	}
}
