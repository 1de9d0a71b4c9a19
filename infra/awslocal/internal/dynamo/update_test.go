package dynamo_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// update applies an update expression to the item "a" of the table called "table".
func update(t *testing.T, client *dynamodb.Client, expression string, values item, returned types.ReturnValue) (item, error) {
	t.Helper()
	out, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("table"), Key: item{"id": str("a")},
		UpdateExpression: &expression, ExpressionAttributeValues: values, ReturnValues: returned,
	})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

func TestUpdate_expressions(t *testing.T) {
	t.Parallel()
	sets := func(tags ...string) item {
		return item{"id": str("a"), "tags": strs(tags...)}
	}
	for name, test := range map[string]struct {
		before     item
		expression string
		values     item
		after      item
	}{
		"set": {
			item{"id": str("a")}, "SET x = :x, y = :y", item{":x": num(1), ":y": str("two")},
			item{"id": str("a"), "x": num(1), "y": str("two")},
		},
		"arithmetic": {
			item{"id": str("a"), "n": num(5)}, "SET n = n + :one, m = (n) - :one", item{":one": num(1)},
			item{"id": str("a"), "n": num(6), "m": num(4)},
		},
		"operands are those before the update": {
			item{"id": str("a"), "x": num(1), "y": num(2)}, "SET x = y, y = x", nil,
			item{"id": str("a"), "x": num(2), "y": num(1)},
		},
		"if_not_exists takes the default": {
			item{"id": str("a")}, "SET n = if_not_exists(n, :zero) + :one", item{":zero": num(0), ":one": num(1)},
			item{"id": str("a"), "n": num(1)},
		},
		"if_not_exists takes the value": {
			item{"id": str("a"), "n": num(9)}, "SET n = if_not_exists(n, :zero) + :one", item{":zero": num(0), ":one": num(1)},
			item{"id": str("a"), "n": num(10)},
		},
		"list_append": {
			item{"id": str("a"), "l": &list{Value: []types.AttributeValue{num(2)}}},
			"SET l = list_append(:first, list_append(l, :last))",
			item{":first": &list{Value: []types.AttributeValue{num(1)}}, ":last": &list{Value: []types.AttributeValue{num(3)}}},
			item{"id": str("a"), "l": &list{Value: []types.AttributeValue{num(1), num(2), num(3)}}},
		},
		"nested paths": {
			item{"id": str("a"), "m": &object{Value: item{"l": &list{Value: []types.AttributeValue{num(1), num(2)}}}}},
			"SET m.l[1] = :x, m.k = :x", item{":x": str("x")},
			item{"id": str("a"), "m": &object{Value: item{"l": &list{Value: []types.AttributeValue{num(1), str("x")}}, "k": str("x")}}},
		},
		"elements beyond the end are appended in order": {
			item{"id": str("a"), "l": &list{Value: []types.AttributeValue{num(0)}}},
			"SET l[10] = :ten, l[9] = :nine", item{":ten": num(10), ":nine": num(9)},
			item{"id": str("a"), "l": &list{Value: []types.AttributeValue{num(0), num(9), num(10)}}},
		},
		"remove": {
			item{"id": str("a"), "x": num(1), "l": &list{Value: []types.AttributeValue{num(0), num(1), num(2), num(3)}}},
			"REMOVE l[1], l[2], x, nothing", nil,
			item{"id": str("a"), "l": &list{Value: []types.AttributeValue{num(0), num(3)}}},
		},
		"add to numbers": {
			item{"id": str("a"), "n": num("1.5")}, "ADD n :n, m :n", item{":n": num("-0.5")},
			item{"id": str("a"), "n": num(1), "m": num("-0.5")},
		},
		"add to a set":          {sets("b"), "ADD tags :t", item{":t": strs("a", "b")}, sets("a", "b")},
		"delete from a set":     {sets("a", "b"), "DELETE tags :t", item{":t": strs("b", "c")}, sets("a")},
		"delete all of a set":   {sets("a"), "DELETE tags :t", item{":t": strs("a")}, item{"id": str("a")}},
		"delete from no set":    {item{"id": str("a")}, "DELETE tags :t", item{":t": strs("a")}, item{"id": str("a")}},
		"all sections together": {sets("a"), "REMOVE tags SET x = :x ADD n :n, s :s", item{":x": num(1), ":n": num(2), ":s": nums("3")}, item{"id": str("a"), "x": num(1), "n": num(2), "s": nums("3")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newTable(t, "id")
			put(t, client, test.before)
			answer, err := update(t, client, test.expression, test.values, types.ReturnValueAllNew)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "ALL_NEW", test.after, answer)
			want(t, "stored", test.after, get(t, client, item{"id": str("a")}))
		})
	}
}

func TestUpdate_return_values(t *testing.T) {
	t.Parallel()
	before := item{"id": str("a"), "x": num(1), "y": num(1), "m": &object{Value: item{"k": num(1), "l": num(1)}}}
	for returned, expected := range map[types.ReturnValue]item{
		types.ReturnValueNone:       nil,
		types.ReturnValueAllOld:     before,
		types.ReturnValueUpdatedOld: {"x": num(1), "m": &object{Value: item{"k": num(1)}}},
		types.ReturnValueUpdatedNew: {"x": num(2), "m": &object{Value: item{"k": num(3)}}, "z": num(4)},
		types.ReturnValueAllNew:     {"id": str("a"), "x": num(2), "y": num(1), "z": num(4), "m": &object{Value: item{"k": num(3), "l": num(1)}}},
	} {
		t.Run(string(returned), func(t *testing.T) {
			t.Parallel()
			client := newTable(t, "id")
			put(t, client, before)
			answer, err := update(t, client, "SET x = :x, m.k = :k, z = :z", item{":x": num(2), ":k": num(3), ":z": num(4)}, returned)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "answer", expected, answer)
		})
	}
}

func TestUpdate_fails_on_unsuitable_items(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		expression string
		values     item
		message    string
	}{
		"operand that is absent":     {"SET x = nothing", nil, "refers to an attribute that does not exist in the item"},
		"arithmetic on a string":     {"SET s = s + :one", item{":one": num(1)}, "An operand in the update expression has an incorrect data type"},
		"append to a string":         {"SET s = list_append(s, :l)", item{":l": &list{}}, "An operand in the update expression has an incorrect data type"},
		"add of another type":        {"ADD s :one", item{":one": num(1)}, "An operand in the update expression has an incorrect data type"},
		"delete of another type":     {"DELETE s :t", item{":t": strs("a")}, "An operand in the update expression has an incorrect data type"},
		"path through a scalar":      {"SET s.k = :one", item{":one": num(1)}, "The document path provided in the update expression is invalid for update"},
		"path through nothing":       {"SET nothing.k = :one", item{":one": num(1)}, "The document path provided in the update expression is invalid for update"},
		"element of a map":           {"SET m[0] = :one", item{":one": num(1)}, "The document path provided in the update expression is invalid for update"},
		"part of the key":            {"SET id = :one", item{":one": num(1)}, "Cannot update attribute id. This attribute is part of the key"},
		"sum of more than 38 digits": {"SET n = n + :tiny", item{":tiny": num("1e-38")}, "more than 38 significant digits"},
		"sum out of range":           {"ADD big :big", item{":big": num("9e125")}, "Number overflow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newTable(t, "id")
			stored := item{"id": str("a"), "s": str("text"), "m": &object{Value: item{}}, "n": num(1), "big": num("9e125")}
			put(t, client, stored)
			_, err := update(t, client, test.expression, test.values, "")
			wantError(t, err, "ValidationException", test.message)
			kept := get(t, client, item{"id": str("a")})
			want(t, "attributes kept", len(stored), len(kept))
			want(t, "string kept", stored["s"], kept["s"])
		})
	}
}

// TestUpdate_does_not_change_the_old_item checks that a change deep in an item does not affect the item's old image.
// The two share the unchanged parts.
func TestUpdate_does_not_change_the_old_item(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"SET l[0] = :x", "SET l[1].k = :x", "REMOVE l[0]", "REMOVE l[1].k", "ADD l[0] :x"} {
		client := newTable(t, "id")
		before := item{"id": str("a"), "l": &list{Value: []types.AttributeValue{num(0), &object{Value: item{"k": num(1)}}}}}
		put(t, client, before)
		values := item{":x": num(9)}
		if expression[0] == 'R' {
			values = nil
		}
		old, err := update(t, client, expression, values, types.ReturnValueAllOld)
		if err != nil {
			t.Fatal(err)
		}
		want(t, expression, before, old)
	}
}
