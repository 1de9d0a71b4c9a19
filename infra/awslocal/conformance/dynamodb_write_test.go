package conformance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	conditionFailed = "ConditionalCheckFailedException"
	invalid         = "ValidationException"
	returnAllOld    = types.ReturnValuesOnConditionCheckFailureAllOld
)

func createGSI(t *testing.T, w *world) {
	tb := w.indexed(t)
	out, err := tb.client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: tb.name})
	must(t, "DescribeTable", err)
	want(t, "the end of the ARN", ":table/"+*tb.name, (*out.Table.TableArn)[strings.LastIndexByte(*out.Table.TableArn, ':'):])
	want(t, "status", types.TableStatusActive, out.Table.TableStatus)
	described := map[string]string{}
	for _, index := range out.Table.GlobalSecondaryIndexes {
		text := fmt.Sprint(index.IndexStatus, " ", index.Projection.ProjectionType)
		for _, key := range index.KeySchema {
			text += fmt.Sprint(" ", *key.AttributeName, " ", key.KeyType)
		}
		described[*index.IndexName] = text
	}
	want(t, "indexes", map[string]string{"by-n": "ACTIVE KEYS_ONLY g HASH n RANGE", "by-s": "ACTIVE ALL s HASH"}, described)

	_, err = tb.client.CreateTable(t.Context(), tableInput(*tb.name, "id"))
	wantCode(t, "a second table of the name", err, "ResourceInUseException")
	absent := aws.String(w.name())
	_, err = tb.client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: absent})
	wantCode(t, "DescribeTable of no table", err, "ResourceNotFoundException")
	err = table{t, tb.client, absent}.tryPut(item{"id": str("a")})
	wantCode(t, "PutItem into no table", err, "ResourceNotFoundException")
}

func putIfAbsent(t *testing.T, w *world) {
	tb := w.table(t, "id")
	put := func(value string) error {
		_, err := tb.client.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: tb.name, Item: item{"id": str("a"), "v": str(value)}, ConditionExpression: aws.String("attribute_not_exists(id)"),
		})
		return err
	}
	must(t, "the first put", put("first"))
	wantCode(t, "the second put", put("second"), conditionFailed)
	tb.wantItem("item", item{"id": str("a")}, item{"id": str("a"), "v": str("first")})
}

func putVersionCheck(t *testing.T, w *world) {
	tb := w.table(t, "id")
	tb.put(item{"id": str("a"), "version": num(1)})
	bump := func(from, to int) error {
		_, err := tb.client.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: tb.name, Item: item{"id": str("a"), "version": num(to)}, ConditionExpression: aws.String("#v = :v"),
			ExpressionAttributeNames: map[string]string{"#v": "version"}, ExpressionAttributeValues: item{":v": num(from)},
		})
		return err
	}
	must(t, "the version that is stored", bump(1, 2))
	wantCode(t, "a stale version", bump(1, 3), conditionFailed)
	tb.wantItem("item", item{"id": str("a")}, item{"id": str("a"), "version": num(2)})
}

func ccfReturnAllOld(t *testing.T, w *world) {
	tb := w.table(t, "id")
	stored, key := item{"id": str("a"), "v": num(7)}, item{"id": str("a")}
	tb.put(stored)
	condition := aws.String("attribute_not_exists(id)")
	_, putErr := tb.client.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: tb.name, Item: key, ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: returnAllOld,
	})
	in := tb.update("a", "REMOVE v", nil)
	in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure = condition, returnAllOld
	_, deleteErr := tb.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: tb.name, Key: key, ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: returnAllOld,
	})
	var failed *types.ConditionalCheckFailedException
	for what, err := range map[string]error{"put": putErr, "update": tb.tryUpdate(in), "delete": deleteErr} {
		wantAs(t, what, err, &failed)
		want(t, "item of the error of "+what, stored, failed.Item)
	}
	_, err := tb.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: tb.name, Key: key, ConditionExpression: condition})
	wantAs(t, "not asked for", err, &failed)
	want(t, "not asked for", item(nil), failed.Item)
	tb.wantItem("item", key, stored)
}

func updateExpressions(t *testing.T, w *world) {
	tb := w.table(t, "id")
	for i, test := range []struct {
		what       string
		before     item
		expression string
		values     item
		after      item
	}{
		{"SET", item{}, "SET x = :x, y = :y", item{":x": num(1), ":y": str("two")}, item{"x": num(1), "y": str("two")}},
		{"arithmetic", item{"n": num(5)}, "SET n = n + :one, m = n - :one", item{":one": num(1)}, item{"n": num(6), "m": num(4)}},
		{
			"operands are those before the update", item{"x": num(1), "y": num(2)}, "SET x = y, y = x", nil,
			item{"x": num(2), "y": num(1)},
		},
		{
			"if_not_exists takes the default", item{}, "SET n = if_not_exists(n, :zero) + :one",
			item{":zero": num(0), ":one": num(1)}, item{"n": num(1)},
		},
		{
			"if_not_exists takes the value", item{"n": num(9)}, "SET n = if_not_exists(n, :zero) + :one",
			item{":zero": num(0), ":one": num(1)}, item{"n": num(10)},
		},
		{
			"list_append", item{"l": listOf(num(2))}, "SET l = list_append(:first, l), m = list_append(l, :last)",
			item{":first": listOf(num(1)), ":last": listOf(num(3))}, item{"l": listOf(num(1), num(2)), "m": listOf(num(2), num(3))},
		},
		{
			"nested paths", item{"m": &object{Value: item{"l": listOf(num(1), num(2))}}}, "SET m.l[1] = :x, m.k = :x",
			item{":x": str("x")}, item{"m": &object{Value: item{"l": listOf(num(1), str("x")), "k": str("x")}}},
		},
		{
			"an element beyond the end is appended", item{"l": listOf(num(0))}, "SET l[9] = :x", item{":x": num(1)},
			item{"l": listOf(num(0), num(1))},
		},
		{
			"REMOVE", item{"x": num(1), "l": listOf(num(0), num(1), num(2), num(3))}, "REMOVE l[1], l[2], x, nothing", nil,
			item{"l": listOf(num(0), num(3))},
		},
		{"ADD to numbers", item{"n": num("1.5")}, "ADD n :n, m :n", item{":n": num("-0.5")}, item{"n": num(1), "m": num("-0.5")}},
		{"ADD to a set", item{"s": strs("b")}, "ADD s :s", item{":s": strs("a", "b")}, item{"s": strs("a", "b")}},
		{"DELETE from a set", item{"s": strs("a", "b")}, "DELETE s :s", item{":s": strs("b", "c")}, item{"s": strs("a")}},
		{"DELETE of all of a set", item{"s": nums("1")}, "DELETE s :s", item{":s": nums("1")}, item{}},
		{
			"all sections together", item{"r": num(1), "s": strs("a", "b")}, "REMOVE r SET x = :x ADD n :n DELETE s :s",
			item{":x": num(1), ":n": num(2), ":s": strs("a")}, item{"x": num(1), "n": num(2), "s": strs("b")},
		},
	} {
		id := fmt.Sprint(i)
		test.before["id"], test.after["id"] = str(id), str(id)
		tb.put(test.before)
		in := tb.update(id, test.expression, test.values)
		in.ReturnValues = types.ReturnValueAllNew
		want(t, test.what+", ALL_NEW", test.after, tb.doUpdate(in))
		tb.wantItem(test.what, item{"id": str(id)}, test.after)
	}
	before := item{"id": str("r"), "x": num(1), "y": num(1)}
	for returned, expected := range map[types.ReturnValue]item{
		types.ReturnValueNone:       nil,
		types.ReturnValueAllOld:     before,
		types.ReturnValueUpdatedOld: {"x": num(1)},
		types.ReturnValueUpdatedNew: {"x": num(2), "z": num(4)},
		types.ReturnValueAllNew:     {"id": str("r"), "x": num(2), "y": num(1), "z": num(4)},
	} {
		tb.put(before)
		in := tb.update("r", "SET x = :x, z = :z", item{":x": num(2), ":z": num(4)})
		in.ReturnValues = returned
		want(t, string(returned), expected, tb.doUpdate(in))
	}
}

func updateUpsertGuard(t *testing.T, w *world) {
	tb := w.table(t, "id")
	key := item{"id": str("a")}
	guarded := tb.update("a", "SET x = :x", item{":x": num(1)})
	guarded.ConditionExpression = aws.String("attribute_exists(id)")
	wantCode(t, "guarded, of no item", tb.tryUpdate(guarded), conditionFailed)
	tb.wantItem("refused", key, nil)
	tb.doUpdate(tb.update("a", "SET x = :x", item{":x": num(0)}))
	tb.wantItem("created", key, item{"id": str("a"), "x": num(0)})
	tb.doUpdate(guarded)
	tb.wantItem("updated", key, item{"id": str("a"), "x": num(1)})
	tb.doUpdate(tb.update("b", "", nil))
	tb.wantItem("created without expression", item{"id": str("b")}, item{"id": str("b")})
}

func validationErrors(t *testing.T, w *world) {
	tb := w.table(t, "id")
	stored := item{"id": str("a"), "x": num(0)}
	tb.put(stored)
	one := item{":v": num(1)}
	named := func(expression string, names map[string]string) error {
		in := tb.update("a", expression, nil)
		in.ExpressionAttributeNames = names
		return tb.tryUpdate(in)
	}
	getting := func(key item) error {
		_, err := tb.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: tb.name, Key: key})
		return err
	}
	for _, test := range []struct {
		what string
		err  error
	}{
		{"a reserved word", tb.tryUpdate(tb.update("a", "SET status = :v", one))},
		{"a value that no expression uses", tb.tryUpdate(tb.update("a", "SET x = :v", item{":v": num(1), ":unused": num(1)}))},
		{"a name that no expression uses", named("REMOVE x", map[string]string{"#unused": "y"})},
		{"a value that is not defined", tb.tryUpdate(tb.update("a", "SET x = :undefined", nil))},
		{"a name that is not defined", named("REMOVE #undefined", nil)},
		{"a syntax error", tb.tryUpdate(tb.update("a", "SET x == :v", one))},
		{"an update of the key", tb.tryUpdate(tb.update("a", "SET id = :v", item{":v": str("b")}))},
		{"an item without key", tb.tryPut(item{"x": num(1)})},
		{"an item with a key of another type", tb.tryPut(item{"id": num(1)})},
		{"an item with an empty key", tb.tryPut(item{"id": str("")})},
		{"a key of other names", getting(item{"x": str("a")})},
		{"a key of more names", getting(item{"id": str("a"), "x": str("a")})},
		{"a key of another type", getting(item{"id": num(1)})},
		{"an empty key", getting(item{"id": str("")})},
	} {
		wantCode(t, test.what, test.err, invalid)
	}
	tb.wantItem("item", item{"id": str("a")}, stored)
}
