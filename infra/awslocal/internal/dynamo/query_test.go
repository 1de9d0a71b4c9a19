package dynamo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// query returns a Query of a partition of the table called "table".
func query(partition string, more string, values item) *dynamodb.QueryInput {
	all := item{":p": str(partition)}
	for name, value := range values {
		all[name] = value
	}
	return &dynamodb.QueryInput{
		TableName: aws.String("table"), KeyConditionExpression: aws.String("id = :p" + more), ExpressionAttributeValues: all,
	}
}

// names joins the values of a string or number attribute of items.
func names(items []item, attribute string) string {
	var values []string
	for _, i := range items {
		switch value := i[attribute].(type) {
		case *types.AttributeValueMemberS:
			values = append(values, value.Value)
		case *types.AttributeValueMemberN:
			values = append(values, value.Value)
		}
	}
	return strings.Join(values, " ")
}

// pages runs a Query to its end and returns the items of each page.
func pages(t *testing.T, client *dynamodb.Client, input *dynamodb.QueryInput) [][]item {
	t.Helper()
	var all [][]item
	for pages := dynamodb.NewQueryPaginator(client, input); pages.HasMorePages(); {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Items)
	}
	return all
}

func TestQuery_key_conditions(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id", "k")
	for _, k := range []string{"b", "a", "ab", "abc", "a\u00ff", "c"} {
		put(t, client, item{"id": str("p"), "k": str(k)})
	}
	put(t, client, item{"id": str("other"), "k": str("ab")})
	for condition, test := range map[string]struct {
		values item
		found  string
	}{
		"":                                 {nil, "a ab abc a\u00ff b c"},
		" AND k = :k":                      {item{":k": str("ab")}, "ab"},
		" AND k < :k":                      {item{":k": str("ab")}, "a"},
		" AND k <= :k":                     {item{":k": str("ab")}, "a ab"},
		" AND k > :k":                      {item{":k": str("ab")}, "abc a\u00ff b c"},
		" AND :k <= k":                     {item{":k": str("ab")}, "ab abc a\u00ff b c"},
		" AND k BETWEEN :k AND :l":         {item{":k": str("ab"), ":l": str("b")}, "ab abc a\u00ff b"},
		" AND begins_with(k, :k)":          {item{":k": str("ab")}, "ab abc"},
		" AND (begins_with(k, :k))":        {item{":k": str("a")}, "a ab abc a\u00ff"},
		" AND k BETWEEN :k AND (:l)":       {item{":k": str("d"), ":l": str("e")}, ""},
		" AND k BETWEEN :k AND :k":         {item{":k": str("b")}, "b"},
		" AND begins_with ( k , :nothing)": {item{":nothing": str("zzz")}, ""},
	} {
		t.Run(condition, func(t *testing.T) {
			t.Parallel()
			out, err := client.Query(t.Context(), query("p", condition, test.values))
			if err != nil {
				t.Fatal(err)
			}
			want(t, "found", test.found, names(out.Items, "k"))
		})
	}
	counted := query("p", " AND k > :k", item{":k": str("ab")})
	counted.Select = types.SelectCount
	out, err := client.Query(t.Context(), counted)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "count", int32(4), out.Count)
	want(t, "items of a count", []item(nil), out.Items)
}

func TestQuery_orders_numbers_and_bytes(t *testing.T) {
	t.Parallel()
	numbers := newTable(t, "id", "k:N")
	for _, k := range []string{"10", "9", "-1", "-10", "0", "0.5", "1e30", "-1e-3", "9.5", "-9.75"} {
		put(t, numbers, item{"id": str("p"), "k": num(k)})
	}
	out, err := numbers.Query(t.Context(), query("p", " AND k BETWEEN :a AND :b", item{":a": num("-9.75"), ":b": num("1e29")}))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "numbers", "-9.75 -1 -0.001 0 0.5 9 9.5 10", names(out.Items, "k"))

	binaries := newTable(t, "id", "k:B")
	binary := func(b ...byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }
	for _, k := range [][]byte{{1}, {0}, {0, 0}, {0, 255}, {0, 1}, {255}, {255, 255}} {
		put(t, binaries, item{"id": str("p"), "k": binary(k...)})
	}
	found, err := binaries.Query(t.Context(), query("p", " AND begins_with(k, :k)", item{":k": binary(0)}))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "beginning with 0", []item{
		{"id": str("p"), "k": binary(0)}, {"id": str("p"), "k": binary(0, 0)}, {"id": str("p"), "k": binary(0, 1)}, {"id": str("p"), "k": binary(0, 255)},
	}, found.Items)
	found, err = binaries.Query(t.Context(), query("p", " AND begins_with(k, :k)", item{":k": binary(255)}))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "beginning with 255", 2, len(found.Items))
}

func TestProjection(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id", "k")
	elements := &list{Value: []types.AttributeValue{num(0), &object{Value: item{"x": num(1), "y": num(2)}}, num(2)}}
	put(t, client, item{
		"id": str("p"), "k": str("k"), "list": elements, "name": str("reserved"),
		"map": &object{Value: item{"a.b": num(1), "c": &object{Value: item{"d": num(2), "e": num(3)}}}},
	})
	projection := aws.String("k, #list[2], #list[1].y, #map.c.d, #map.#dotted, #name, nothing, k2.x")
	placeholders := map[string]string{"#list": "list", "#map": "map", "#name": "name", "#dotted": "a.b"}
	expected := item{
		"k": str("k"), "name": str("reserved"),
		"list": &list{Value: []types.AttributeValue{&object{Value: item{"y": num(2)}}, num(2)}},
		"map":  &object{Value: item{"a.b": num(1), "c": &object{Value: item{"d": num(2)}}}},
	}
	got, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String("table"), Key: item{"id": str("p"), "k": str("k")},
		ProjectionExpression: projection, ExpressionAttributeNames: placeholders,
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "get", expected, got.Item)
	input := query("p", "", nil)
	input.ProjectionExpression, input.ExpressionAttributeNames = projection, placeholders
	queried, err := client.Query(t.Context(), input)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "query", []item{expected}, queried.Items)
	nothing, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String("table"), Key: item{"id": str("p"), "k": str("k")}, ProjectionExpression: aws.String("nothing"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if nothing.Item == nil || len(nothing.Item) != 0 {
		t.Errorf("projection of nothing: want an empty item, got %v", nothing.Item)
	}
}

func TestQuery_page_of_1_MB(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id", "k:N")
	text := strings.Repeat("x", 300<<10)
	for k := range 8 {
		put(t, client, item{"id": str("p"), "k": num(k), "text": str(text)})
	}
	var sizes []int
	for _, page := range pages(t, client, query("p", "", nil)) {
		sizes = append(sizes, len(page))
	}
	want(t, "items a page", []int{4, 4, 0}, sizes)
}

func TestQuery_pages_in_both_directions(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id", "k:N")
	for k := range 10 {
		put(t, client, item{"id": str("p"), "k": num(k)})
		put(t, client, item{"id": str("q"), "k": num(k)})
	}
	for forward, expected := range map[bool]string{true: "[2 3 4] [5 6 7] []", false: "[7 6 5] [4 3 2] []"} {
		input := query("p", " AND k BETWEEN :a AND :b", item{":a": num(2), ":b": num(7)})
		input.ScanIndexForward, input.Limit = &forward, aws.Int32(3)
		var found []string
		for _, page := range pages(t, client, input) {
			found = append(found, "["+names(page, "k")+"]")
		}
		want(t, fmt.Sprint("forward ", forward), expected, strings.Join(found, " "))
	}
}
