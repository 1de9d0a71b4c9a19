package dynamo_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func TestConsumedCapacity_of_indexes(t *testing.T) {
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
		{"change of an attribute that is not projected", item{"id": str("a"), "g": str("g"), "n": num(1), "x": num(1)}, 0, 1},
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
