package conformance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func (tb table) setTTL(attribute string, enabled bool) error {
	_, err := tb.client.UpdateTimeToLive(tb.t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: tb.name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute, Enabled: &enabled},
	})
	return err
}

func ttlAPI(t *testing.T, w *world) {
	tb := w.table(t, "id")
	describe := func() string {
		out, err := tb.client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: tb.name})
		must(t, "DescribeTimeToLive", err)
		return string(out.TimeToLiveDescription.TimeToLiveStatus) + " " + aws.ToString(out.TimeToLiveDescription.AttributeName)
	}
	want(t, "at first", "DISABLED ", describe())
	must(t, "enabling", tb.setTTL("expire_at", true))
	want(t, "enabled", "ENABLED expire_at", describe())
	wantCode(t, "enabling again", tb.setTTL("expire_at", true), invalid)
	wantCode(t, "enabling for another attribute", tb.setTTL("other", true), invalid)
	must(t, "disabling", tb.setTTL("expire_at", false))
	want(t, "disabled", "DISABLED ", describe())
	wantCode(t, "disabling again", tb.setTTL("expire_at", false), invalid)
}

func ttlExpiry(t *testing.T, w *world) {
	tb := w.indexed(t)
	deadline := time.Now().Add(time.Hour)
	forever := item{"id": str("early"), "expire_at": num(deadline.Unix()), "s": str("s")}
	tb.put(forever)
	must(t, "UpdateTimeToLive", tb.setTTL("expire_at", true))
	tb.put(
		item{"id": str("expires"), "expire_at": num(deadline.Unix()), "s": str("s")},
		item{"id": str("later"), "expire_at": num(deadline.AddDate(1, 0, 0).Unix()), "s": str("s")},
		item{"id": str("milliseconds"), "expire_at": num(deadline.UnixMilli())},
		item{"id": str("text"), "expire_at": str("soon")},
		item{"id": str("none")},
	)
	all := map[string]int{"early": 1, "expires": 1, "later": 1, "milliseconds": 1, "text": 1, "none": 1}
	w.untilJustBefore(t, deadline)
	want(t, "before the deadline", all, tb.ids())
	w.until(deadline)
	want(t, "just after it", all, tb.ids())
	time.Sleep(48 * time.Hour)
	want(t, "two days after it", map[string]int{"later": 1, "milliseconds": 1, "text": 1, "none": 1}, tb.ids())
	tb.wantItem("expired", item{"id": str("expires")}, nil)
	in := &dynamodb.QueryInput{
		TableName: tb.name, IndexName: aws.String("by-s"),
		KeyConditionExpression: aws.String("s = :s"), ExpressionAttributeValues: item{":s": str("s")},
	}
	want(t, "in the index", "later", values(tb.doQuery(in).Items, "id"))
}

func itemSizeLimit(t *testing.T, w *world) {
	tb := w.table(t, "id")
	text := func(bytes int) types.AttributeValue { return str(strings.Repeat("x", bytes)) }
	key, large := item{"id": str("a")}, item{"id": str("a"), "t": text(399 << 10)}
	tb.put(large)
	tb.wantItem("399 KB", key, large)
	exact := item{"id": str("a"), "t": text(400<<10 - len("id") - len("a") - len("t"))}
	tb.put(exact)

	wantCode(t, "put of 401 KB", tb.tryPut(item{"id": str("a"), "t": text(401 << 10)}), invalid)
	grow := tb.update("a", "SET u = :u", item{":u": text(1 << 10)})
	wantCode(t, "update that grows to 401 KB", tb.tryUpdate(grow), invalid)
	wantRefused := func(err error) {
		if errorCode(err) != invalid { // AWS may reject the request itself instead of the transaction
			wantReasons(t, err, "ValidationError")
		}
	}
	wantRefused(tb.transact(tb.putting(item{"id": str("b"), "t": text(401 << 10)}, "")))
	wantRefused(tb.transact(types.TransactWriteItem{Update: &types.Update{
		TableName: tb.name, Key: key, UpdateExpression: grow.UpdateExpression, ExpressionAttributeValues: grow.ExpressionAttributeValues,
	}}))
	tb.wantItem("item", key, exact)
	want(t, "items", map[string]int{"a": 1}, tb.ids())
}

func typesRoundtrip(t *testing.T, w *world) {
	tb := w.table(t, "id")
	stored := item{
		"id":            str("a"),
		"unicode":       str("<&> \"quoted\" \\ \n \u2028 żółw 🐢"),
		"digits":        num("12345678901234567890123456789012345678"),
		"fraction":      num("-0.00000000000000000000000000012345"),
		"binary":        &types.AttributeValueMemberB{Value: []byte{0, 1, 254, 255}},
		"binaries":      &types.AttributeValueMemberBS{Value: [][]byte{{0}, {1, 2}}},
		"numbers":       nums("-1", "0", "2.5"),
		"strings":       strs("", "a", "b"),
		"null":          &types.AttributeValueMemberNULL{Value: true},
		"yes":           &yesNo{Value: true},
		"no":            &yesNo{Value: false},
		"empty string":  str(""),
		"empty binary":  &types.AttributeValueMemberB{Value: []byte{}},
		"empty list":    listOf(),
		"empty map":     &object{Value: item{}},
		"nested.dotted": listOf(&object{Value: item{"": str("empty name"), "l": listOf(num(1), str("x"))}}),
	}
	tb.put(stored)
	tb.wantItem("item", item{"id": str("a")}, stored)

	for given, normal := range map[string]string{
		"1.0": "1", "-0": "0", "0.0": "0", "007": "7", "1e3": "1000", "1E-3": "0.001", "120e-1": "12",
		"1e125":                               "1" + strings.Repeat("0", 125),
		"0." + strings.Repeat("0", 129) + "1": "0." + strings.Repeat("0", 129) + "1",
	} {
		tb.put(item{"id": str("n"), "n": num(given)})
		tb.wantItem("number "+given, item{"id": str("n")}, item{"id": str("n"), "n": num(normal)})
	}
	for what, value := range map[string]types.AttributeValue{
		"39 digits": num("123456789012345678901234567890123456789"), "too large": num("1e126"), "too small": num("1e-131"),
		"no number": num("one"), "NULL of false": &types.AttributeValueMemberNULL{Value: false},
		"an empty set": strs(), "a member twice": nums("1", "1.0"),
	} {
		wantCode(t, what, tb.tryPut(item{"id": str("n"), "n": value}), invalid)
	}
}

func consumedCapacity(t *testing.T, w *world) {
	const total = types.ReturnConsumedCapacityTotal
	tb := w.table(t, "id", "k:N")
	key := item{"id": str("p"), "k": num(1)}
	large := item{"id": str("p"), "k": num(1), "text": str(strings.Repeat("x", 10<<10))}
	units := func(what string, expected float64, consumed *types.ConsumedCapacity, err error) {
		t.Helper()
		must(t, what, err)
		if consumed == nil {
			t.Fatalf("%s: no ConsumedCapacity", what)
		}
		want(t, what, expected, aws.ToFloat64(consumed.CapacityUnits))
		want(t, what+": table", *tb.name, aws.ToString(consumed.TableName))
	}
	written, err := tb.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: tb.name, Item: large, ReturnConsumedCapacity: total})
	units("put of 10 KB and a bit", 11, written.ConsumedCapacity, err)
	read := func(what string, expected float64, in dynamodb.GetItemInput) {
		t.Helper()
		in.TableName, in.ReturnConsumedCapacity = tb.name, total
		out, err := tb.client.GetItem(t.Context(), &in)
		units(what, expected, out.ConsumedCapacity, err)
	}
	read("eventually consistent get", 1.5, dynamodb.GetItemInput{Key: key})
	read("consistent get", 3, dynamodb.GetItemInput{Key: key, ConsistentRead: aws.Bool(true)})
	read("get of nothing", 0.5, dynamodb.GetItemInput{Key: item{"id": str("q"), "k": num(1)}})
	tb.put(item{"id": str("p"), "k": num(2)})
	in := tb.query("", nil)
	in.ReturnConsumedCapacity = total
	queried, err := tb.client.Query(t.Context(), in)
	units("consistent query of both together", 3, queried.ConsumedCapacity, err)
	deleted, err := tb.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: tb.name, Key: key, ReturnConsumedCapacity: total})
	units("delete", 11, deleted.ConsumedCapacity, err)
	transacted, err := tb.client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{tb.putting(large, "")}, ReturnConsumedCapacity: total,
	})
	must(t, "transaction", err)
	want(t, "tables of a transaction", 1, len(transacted.ConsumedCapacity))
	units("transaction", 22, &transacted.ConsumedCapacity[0], nil)
	silent, err := tb.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: tb.name, Item: large})
	must(t, "put", err)
	want(t, "not asked for", (*types.ConsumedCapacity)(nil), silent.ConsumedCapacity)
}
