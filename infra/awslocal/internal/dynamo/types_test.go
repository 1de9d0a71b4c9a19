package dynamo_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func TestNumbers_are_normalised(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id", "k:N")
	for given, normal := range map[string]string{
		"1.0": "1", "+1": "1", "-0": "0", "0.0": "0", "007": "7", "1e3": "1000", "1E-3": "0.001", "120e-1": "12", ".5": "0.5", "5.": "5",
		"1e125":                               "1" + strings.Repeat("0", 125),
		"0." + strings.Repeat("0", 129) + "1": "0." + strings.Repeat("0", 129) + "1",
	} {
		put(t, client, item{"id": str("p"), "k": num(given)})
		got := get(t, client, item{"id": str("p"), "k": num(normal)})
		want(t, given, item{"id": str("p"), "k": num(normal)}, got)
	}
	for given, message := range map[string]string{
		"one": "cannot be converted to a numeric value: one", "": "cannot be converted to a numeric value", "1x": "numeric value",
		"0x1": "numeric value", "1e": "numeric value", "NaN": "numeric value", "1_0": "numeric value",
		"1e126": "Number overflow", "-1e126": "Number overflow", "1e-131": "Number underflow", "1e99999999999": "Number overflow",
		"123456789012345678901234567890123456789": "more than 38 significant digits",
	} {
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: item{"id": str("p"), "k": num(given)}})
		wantError(t, err, "ValidationException", message)
	}
	for name, set := range map[string]types.AttributeValue{
		"Input collection contains duplicates": nums("1", "1.0"),
		"[a, a] contains duplicates":           strs("a", "a"),
		"may not be empty":                     strs(),
	} {
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: item{"id": str("p"), "k": num(1), "s": set}})
		wantError(t, err, "ValidationException", name)
	}
}

func TestItemSize_messages(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	text := func(bytes int) types.AttributeValue { return str(strings.Repeat("x", bytes)) }
	put(t, client, item{"id": str("a"), "t": text(399 << 10)})
	exact := item{"id": str("a"), "t": text(400<<10 - len("id") - len("a") - len("t"))}
	put(t, client, exact)

	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: item{"id": str("a"), "t": text(401 << 10)}})
	wantError(t, err, "ValidationException", "Item size has exceeded the maximum allowed size")
	_, err = update(t, client, "SET u = :u", item{":u": str("")}, "")
	wantError(t, err, "ValidationException", "Item size to update has exceeded the maximum allowed size")
	reasons := wantReasons(t, transact(t, client, transactPut(item{"id": str("b"), "t": text(401 << 10)}, "")), "ValidationError")
	want(t, "reason", "Item size has exceeded the maximum allowed size", *reasons[0].Message)
	reasons = wantReasons(t, transact(t, client, types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String("table"), Key: item{"id": str("a")},
		UpdateExpression: aws.String("SET u = :u"), ExpressionAttributeValues: item{":u": str("")},
	}}), "ValidationError")
	want(t, "reason", "Item size to update has exceeded the maximum allowed size", *reasons[0].Message)
	want(t, "item", exact, get(t, client, item{"id": str("a")}))
}
