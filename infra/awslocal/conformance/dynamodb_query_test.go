package conformance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func gsiQueryPaged(t *testing.T, w *world) {
	tb := w.indexed(t)
	for n := range 7 {
		tb.put(item{"id": str(fmt.Sprint("i", n)), "g": str("g"), "n": num(n * 5)})
	}
	tb.put(item{"id": str("other"), "g": str("other"), "n": num(6)})
	in := tb.queryByN()
	in.Limit = aws.Int32(3)
	first := tb.doQuery(in)
	want(t, "numbers in order", "0 5 10", values(first.Items, "n"))
	want(t, "last key", item{"id": str("i2"), "g": str("g"), "n": num(10)}, first.LastEvaluatedKey)
	want(t, "pages", "[0 5 10] [15 20 25] [30]", pagesOf(tb.pages(in), "n"))
	in.ScanIndexForward = aws.Bool(false)
	want(t, "pages in reverse", "[30 25 20] [15 10 5] [0]", pagesOf(tb.pages(in), "n"))
}

func gsiEqualSortKeysPaged(t *testing.T, w *world) {
	tb := w.indexed(t)
	expected := map[string]int{}
	for i := range 50 {
		id := fmt.Sprintf("i%02d", i)
		tb.put(item{"id": str(id), "g": str("g"), "n": num(1)})
		expected[id] = 1
	}
	for _, forward := range []bool{true, false} {
		in := tb.queryByN()
		in.Limit, in.ScanIndexForward = aws.Int32(7), &forward
		seen := map[string]int{}
		for _, page := range tb.pages(in) {
			for _, i := range page {
				seen[values([]item{i}, "id")]++
			}
		}
		want(t, fmt.Sprint("items, forward ", forward), expected, seen)
	}
}

func gsiProjectionSparse(t *testing.T, w *world) {
	tb := w.indexed(t)
	tb.put(item{"id": str("a"), "g": str("g"), "n": num(1), "more": str("text")}, item{"id": str("b"), "g": str("g")})
	entries := func() []item { return tb.doQuery(tb.queryByN()).Items }
	want(t, "the keys, of items that have them", []item{{"id": str("a"), "g": str("g"), "n": num(1)}}, entries())
	tb.doUpdate(tb.update("a", "SET n = :n", item{":n": num(2)}))
	want(t, "after an update", []item{{"id": str("a"), "g": str("g"), "n": num(2)}}, entries())
	tb.doUpdate(tb.update("a", "REMOVE n", nil))
	want(t, "after REMOVE of the index's key", []item{}, entries())

	tb.put(item{"id": str("a"), "s": str("s"), "more": str("text")})
	in := tb.queryByN()
	in.IndexName, in.KeyConditionExpression = aws.String("by-s"), aws.String("s = :g")
	in.ExpressionAttributeValues = item{":g": str("s")}
	want(t, "an index with all", []item{{"id": str("a"), "s": str("s"), "more": str("text")}}, tb.doQuery(in).Items)

	consistent := tb.queryByN()
	consistent.ConsistentRead = aws.Bool(true)
	_, err := tb.client.Query(t.Context(), consistent)
	wantCode(t, "a consistent read of an index", err, invalid)
}

func queryBeginsWithBetween(t *testing.T, w *world) {
	tb := w.table(t, "id", "k")
	for _, k := range []string{"b", "a", "ab", "abc", "a\u00ff", "c"} {
		tb.put(item{"id": str("p"), "k": str(k)})
	}
	tb.put(item{"id": str("other"), "k": str("ab")})
	for _, test := range []struct {
		condition, found string
		values           item
	}{
		{"", "a ab abc a\u00ff b c", nil},
		{" AND k = :k", "ab", item{":k": str("ab")}},
		{" AND k < :k", "a", item{":k": str("ab")}},
		{" AND k <= :k", "a ab", item{":k": str("ab")}},
		{" AND k > :k", "abc a\u00ff b c", item{":k": str("ab")}},
		{" AND k >= :k", "ab abc a\u00ff b c", item{":k": str("ab")}},
		{" AND k BETWEEN :k AND :l", "ab abc a\u00ff b", item{":k": str("ab"), ":l": str("b")}},
		{" AND k BETWEEN :k AND :l", "", item{":k": str("d"), ":l": str("e")}},
		{" AND begins_with(k, :k)", "ab abc", item{":k": str("ab")}},
		{" AND begins_with(k, :k)", "a ab abc a\u00ff", item{":k": str("a")}},
		{" AND begins_with(k, :k)", "", item{":k": str("zzz")}},
	} {
		in := tb.query(test.condition, test.values)
		want(t, "id = p"+test.condition, test.found, values(tb.doQuery(in).Items, "k"))
		in.Select = types.SelectCount
		counted := tb.doQuery(in)
		want(t, "count of id = p"+test.condition, len(strings.Fields(test.found)), int(counted.Count))
		want(t, "items of a count", []item{}, counted.Items)
	}
}

func filterLimitSemantics(t *testing.T, w *world) {
	tb := w.table(t, "id", "k:N")
	for k := range 6 {
		tb.put(item{"id": str("p"), "k": num(k), "even": &yesNo{Value: k%2 == 0}})
	}
	in := tb.query("", item{":yes": &yesNo{Value: true}})
	in.FilterExpression, in.Limit = aws.String("even = :yes"), aws.Int32(3)
	for _, page := range []struct {
		found          string
		count, scanned int32
		last           item
	}{
		{"0 2", 2, 3, item{"id": str("p"), "k": num(2)}},
		{"4", 1, 3, item{"id": str("p"), "k": num(5)}}, // although no items follow
		{"", 0, 0, nil},
	} {
		out := tb.doQuery(in)
		want(t, "found", page.found, values(out.Items, "k"))
		want(t, "Count", page.count, out.Count)
		want(t, "ScannedCount", page.scanned, out.ScannedCount)
		want(t, "LastEvaluatedKey", page.last, out.LastEvaluatedKey)
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
	in.ExclusiveStartKey, in.Limit = nil, nil
	whole := tb.doQuery(in)
	want(t, "all in a page", "0 2 4", values(whole.Items, "k"))
	want(t, "LastEvaluatedKey without Limit", item(nil), whole.LastEvaluatedKey)
}

func projection(t *testing.T, w *world) {
	tb := w.table(t, "id", "k")
	key := item{"id": str("p"), "k": str("k")}
	tb.put(item{
		"id": str("p"), "k": str("k"), "name": str("reserved"),
		"l": listOf(num(0), &object{Value: item{"x": num(1), "y": num(2)}}, num(2)),
		"m": &object{Value: item{"a.b": num(1), "c": &object{Value: item{"d": num(2), "e": num(3)}}}},
	})
	expression := aws.String("k, l[2], l[1].y, m.c.d, m.#dotted, #name, nothing, k2.x")
	names := map[string]string{"#name": "name", "#dotted": "a.b"}
	expected := item{
		"k": str("k"), "name": str("reserved"),
		"l": listOf(&object{Value: item{"y": num(2)}}, num(2)),
		"m": &object{Value: item{"a.b": num(1), "c": &object{Value: item{"d": num(2)}}}},
	}
	got, err := tb.client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: tb.name, Key: key, ProjectionExpression: expression, ExpressionAttributeNames: names,
	})
	must(t, "GetItem", err)
	want(t, "get", expected, got.Item)
	in := tb.query("", nil)
	in.ProjectionExpression, in.ExpressionAttributeNames = expression, names
	want(t, "query", []item{expected}, tb.doQuery(in).Items)
}

func query1MBPage(t *testing.T, w *world) {
	tb := w.table(t, "id", "k:N")
	text := str(strings.Repeat("x", 300<<10))
	for k := range 8 {
		tb.put(item{"id": str("p"), "k": num(k), "text": text})
	}
	in := tb.query("", nil)
	first := tb.doQuery(in)
	// AWS's documents do not say whether the page includes the item that reaches 1 MB.
	if n := len(first.Items); n != 3 && n != 4 {
		t.Fatalf("a page of %d items of 300 KB", n)
	}
	want(t, "LastEvaluatedKey", item{"id": str("p"), "k": num(len(first.Items) - 1)}, first.LastEvaluatedKey)
	var all []item
	for _, page := range tb.pages(in) {
		all = append(all, page...)
	}
	want(t, "all pages", "0 1 2 3 4 5 6 7", values(all, "k"))
}

func batchWriteGet(t *testing.T, w *world) {
	tb := w.table(t, "id")
	put := func(id string) types.WriteRequest {
		return types.WriteRequest{PutRequest: &types.PutRequest{Item: item{"id": str(id), "n": num(1)}}}
	}
	remove := func(id string) types.WriteRequest {
		return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: item{"id": str(id)}}}
	}
	write := func(requests ...types.WriteRequest) error {
		out, err := tb.client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{*tb.name: requests}})
		if err == nil {
			want(t, "unprocessed", 0, len(out.UnprocessedItems))
		}
		return err
	}
	var puts []types.WriteRequest
	for i := range 26 {
		puts = append(puts, put(fmt.Sprint(i)))
	}
	wantCode(t, "26 puts", write(puts...), invalid)
	want(t, "items", 0, len(tb.ids()))
	must(t, "25 puts", write(puts[:25]...))
	want(t, "items", 25, len(tb.ids()))
	must(t, "a put and a delete", write(put("new"), remove("3")))
	tb.wantItem("deleted", item{"id": str("3")}, nil)
	wantCode(t, "a key twice", write(put("twice"), remove("twice")), invalid)
	wantCode(t, "a put that is not valid", write(put("good"), put("")), invalid)
	tb.wantItem("of a batch that is refused", item{"id": str("good")}, nil)

	read := func(ids ...string) ([]item, error) {
		var keys []item
		for _, id := range ids {
			keys = append(keys, item{"id": str(id)})
		}
		out, err := tb.client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			*tb.name: {Keys: keys, ConsistentRead: aws.Bool(true)}}})
		if err != nil {
			return nil, err
		}
		want(t, "unprocessed", 0, len(out.UnprocessedKeys))
		return out.Responses[*tb.name], nil
	}
	found, err := read("1", "3", "new")
	must(t, "BatchGetItem", err)
	seen := map[string]int{}
	for _, i := range found {
		seen[values([]item{i}, "id")+" "+values([]item{i}, "n")]++
	}
	want(t, "found", map[string]int{"1 1": 1, "new 1": 1}, seen)
	_, err = read("1", "new", "1")
	wantCode(t, "a key twice", err, invalid)
	_, err = read(strings.Fields(strings.Repeat("x ", 101))...)
	wantCode(t, "101 keys", err, invalid)
}
