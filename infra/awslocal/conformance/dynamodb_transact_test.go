package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func (tb table) transact(writes ...types.TransactWriteItem) error {
	_, err := tb.client.TransactWriteItems(tb.t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: writes})
	return err
}

// putting returns a transactional put of an item. An empty condition means that the put is unconditional.
func (tb table) putting(i item, condition string) types.TransactWriteItem {
	write := &types.Put{TableName: tb.name, Item: i, ReturnValuesOnConditionCheckFailure: returnAllOld}
	if condition != "" {
		write.ConditionExpression = &condition
	}
	return types.TransactWriteItem{Put: write}
}

// wantReasons fails unless err reports a canceled transaction and its reasons have these codes. It returns the reasons.
func wantReasons(t *testing.T, err error, codes ...string) []types.CancellationReason {
	t.Helper()
	var canceled *types.TransactionCanceledException
	wantAs(t, "transaction", err, &canceled)
	var got []string
	for _, reason := range canceled.CancellationReasons {
		got = append(got, aws.ToString(reason.Code))
	}
	want(t, "codes of the reasons", codes, got)
	return canceled.CancellationReasons
}

func transactOK(t *testing.T, w *world) {
	tb, other := w.table(t, "id"), w.table(t, "id", "k:N")
	checked := item{"id": str("checked"), "n": num(1)}
	tb.put(item{"id": str("updated"), "n": num(1)}, item{"id": str("deleted")}, checked)
	must(t, "TransactWriteItems", tb.transact(
		other.putting(item{"id": str("put"), "k": num(1)}, ""),
		types.TransactWriteItem{Update: &types.Update{
			TableName: tb.name, Key: item{"id": str("updated")},
			UpdateExpression: aws.String("SET n = n + :n"), ExpressionAttributeValues: item{":n": num(1)},
		}},
		types.TransactWriteItem{Delete: &types.Delete{TableName: tb.name, Key: item{"id": str("deleted")}}},
		types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: tb.name, Key: item{"id": str("checked")},
			ConditionExpression: aws.String("n = :n"), ExpressionAttributeValues: item{":n": num(1)},
		}},
	))
	other.wantItem("put", item{"id": str("put"), "k": num(1)}, item{"id": str("put"), "k": num(1)})
	tb.wantItem("updated", item{"id": str("updated")}, item{"id": str("updated"), "n": num(2)})
	tb.wantItem("deleted", item{"id": str("deleted")}, nil)
	tb.wantItem("checked", item{"id": str("checked")}, checked)
}

func transactCancelReasons(t *testing.T, w *world) {
	tb := w.table(t, "id")
	stored := item{"id": str("b"), "n": num(1)}
	tb.put(stored)
	reasons := wantReasons(t, tb.transact(
		tb.putting(item{"id": str("a")}, ""),
		tb.putting(item{"id": str("b")}, "attribute_not_exists(id)"),
		tb.putting(item{"id": str("c")}, ""),
	), "None", "ConditionalCheckFailed", "None")
	want(t, "item of the reason", stored, reasons[1].Item)
	want(t, "item of no reason", item(nil), reasons[0].Item)
	want(t, "items", map[string]int{"b": 1}, tb.ids())
	tb.wantItem("item", item{"id": str("b")}, stored)
}

func transactTwoFailures(t *testing.T, w *world) {
	tb := w.table(t, "id")
	wantReasons(t, tb.transact(
		tb.putting(item{"id": str("a")}, "attribute_exists(id)"),
		tb.putting(item{"id": str("b")}, ""),
		tb.putting(item{"id": str("c")}, "attribute_exists(id)"),
	), "ConditionalCheckFailed", "None", "ConditionalCheckFailed")
	want(t, "items", map[string]int{}, tb.ids())
}

func transactValidation(t *testing.T, w *world) {
	tb := w.table(t, "id")
	err := tb.transact(tb.putting(item{"id": str("a")}, ""), tb.putting(item{"id": str("a"), "n": num(1)}, ""))
	wantCode(t, "an item twice", err, invalid)
	var many []types.TransactWriteItem
	for i := range 101 {
		many = append(many, tb.putting(item{"id": str(fmt.Sprint(i))}, ""))
	}
	wantCode(t, "101 items", tb.transact(many...), invalid)
	want(t, "items", map[string]int{}, tb.ids())
	must(t, "100 items", tb.transact(many[:100]...))
	want(t, "how many items", 100, len(tb.ids()))
}

func transactIdempotency(t *testing.T, w *world) {
	tb := w.table(t, "id")
	token := aws.String(w.name())
	add := func(n int) error {
		_, err := tb.client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: token,
			TransactItems: []types.TransactWriteItem{{Update: &types.Update{
				TableName: tb.name, Key: item{"id": str("a")},
				UpdateExpression: aws.String("ADD n :n"), ExpressionAttributeValues: item{":n": num(n)},
			}}},
		})
		return err
	}
	start := time.Now()
	for range 3 {
		must(t, "the same request", add(1))
	}
	tb.wantItem("after repeats", item{"id": str("a")}, item{"id": str("a"), "n": num(1)})
	wantAs(t, "another request", add(2), new(*types.IdempotentParameterMismatchException))
	tb.wantItem("after the mismatch", item{"id": str("a")}, item{"id": str("a"), "n": num(1)})
	if !w.virtual() {
		return
	}
	w.untilJustBefore(t, start.Add(10*time.Minute))
	must(t, "the same request within ten minutes", add(1))
	tb.wantItem("after ten minutes", item{"id": str("a")}, item{"id": str("a"), "n": num(1)})
	w.until(start.Add(10 * time.Minute))
	must(t, "the same request after ten minutes", add(1))
	tb.wantItem("after ten minutes", item{"id": str("a")}, item{"id": str("a"), "n": num(2)})
}

func transactGet(t *testing.T, w *world) {
	tb, other := w.table(t, "id"), w.table(t, "id")
	tb.put(item{"id": str("a"), "n": num(1), "m": num(2)})
	other.put(item{"id": str("b")})
	read := func(tb table, id types.AttributeValue, projection *string) types.TransactGetItem {
		return types.TransactGetItem{Get: &types.Get{TableName: tb.name, Key: item{"id": id}, ProjectionExpression: projection}}
	}
	get := func(reads ...types.TransactGetItem) ([]types.ItemResponse, error) {
		out, err := tb.client.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: reads})
		if err != nil {
			return nil, err
		}
		return out.Responses, nil
	}
	responses, err := get(read(tb, str("nothing"), nil), read(tb, str("a"), aws.String("n")), read(other, str("b"), nil))
	must(t, "TransactGetItems", err)
	want(t, "responses", []types.ItemResponse{{}, {Item: item{"n": num(1)}}, {Item: item{"id": str("b")}}}, responses)
	var many []types.TransactGetItem
	for i := range 101 {
		many = append(many, read(tb, str(fmt.Sprint(i)), nil))
	}
	_, err = get(many...)
	wantCode(t, "101 items", err, invalid)
}

// writers is the number of concurrent writers. tries is the number of attempts of each writer.
const (
	writers = 16
	tries   = 10
)

// race calls `attempt` several times in each of the writers, which run concurrently. It returns the number of calls
// that succeed.
func race(t *testing.T, attempt func(context.Context) (won bool, err error)) int {
	t.Helper()
	var won atomic.Int64
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for range tries {
				ok, err := attempt(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					won.Add(1)
				}
			}
		})
	}
	running.Wait()
	return int(won.Load())
}

// version returns the item's attribute "version", a number.
func (tb table) version(ctx context.Context, id string) (int, error) {
	out, err := tb.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: tb.name, Key: item{"id": str(id)}, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(values([]item{out.Item}, "version"))
}

func concurrentCAS(t *testing.T, w *world) {
	tb := w.table(t, "id")
	tb.put(item{"id": str("a"), "version": num(0)})
	won := race(t, func(ctx context.Context) (bool, error) {
		seen, err := tb.version(ctx, "a")
		if err != nil {
			return false, err
		}
		time.Sleep(time.Millisecond) // lets the other writers read in the meantime
		in := tb.update("a", "SET version = :next", item{":next": num(seen + 1), ":seen": num(seen)})
		in.ConditionExpression = aws.String("version = :seen")
		_, err = tb.client.UpdateItem(ctx, in)
		var lost *types.ConditionalCheckFailedException
		if errors.As(err, &lost) {
			return false, nil
		}
		return err == nil, err
	})
	if won == 0 {
		t.Fatal("no writer has won")
	}
	tb.wantItem("version after as many successes", item{"id": str("a")}, item{"id": str("a"), "version": num(won)})
}

func concurrentTransact(t *testing.T, w *world) {
	tb := w.table(t, "id")
	for _, id := range []string{"a", "b"} {
		tb.put(item{"id": str(id), "version": num(0)})
	}
	bump := func(id string, seen int) types.TransactWriteItem {
		return types.TransactWriteItem{Update: &types.Update{
			TableName: tb.name, Key: item{"id": str(id)},
			UpdateExpression: aws.String("SET version = :next"), ConditionExpression: aws.String("version = :seen"),
			ExpressionAttributeValues: item{":next": num(seen + 1), ":seen": num(seen)},
		}}
	}
	var attempts atomic.Int64
	won := race(t, func(ctx context.Context) (bool, error) {
		// Another writer may commit between the two reads. Then only the first read is stale. Attempts alternate the order of
		// the reads, so that either item can be the stale one.
		n := attempts.Add(1)
		ids := []string{"a", "b"}
		if n%2 == 0 {
			slices.Reverse(ids)
		}
		var writes []types.TransactWriteItem
		for _, id := range ids {
			seen, err := tb.version(ctx, id)
			if err != nil {
				return false, err
			}
			writes = append(writes, bump(id, seen))
			time.Sleep(time.Duration(n%5) * time.Millisecond)
		}
		if n%3 == 0 {
			slices.Reverse(writes)
		}
		_, err := tb.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
		var canceled *types.TransactionCanceledException
		if errors.As(err, &canceled) {
			return false, nil
		}
		return err == nil, err
	})
	if won == 0 {
		t.Fatal("no writer has won")
	}
	for _, id := range []string{"a", "b"} {
		tb.wantItem(id+" after as many successes", item{"id": str(id)}, item{"id": str(id), "version": num(won)})
	}
}
