package dynamo_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	writers       = 16
	triesByWriter = 20
)

// race runs attempt in all writers and returns how often it succeeded.
func race(t *testing.T, attempt func(context.Context) (won bool, err error)) int {
	t.Helper()
	var won atomic.Int64
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range triesByWriter {
				ok, err := attempt(t.Context())
				if err != nil {
					t.Error(err)
				}
				if ok {
					won.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(won.Load())
}

// version reads the number "version" of an item.
func version(ctx context.Context, client *dynamodb.Client, id string) (string, error) {
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("table"), Key: item{"id": str(id)}, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return "", err
	}
	return names([]item{out.Item}, "version"), nil
}

func TestDynamoDB_concurrent_cas(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	put(t, client, item{"id": str("a"), "version": num(0)})
	won := race(t, func(ctx context.Context) (bool, error) {
		seen, err := version(ctx, client, "a")
		if err != nil {
			return false, err
		}
		_, err = client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: aws.String("table"), Key: item{"id": str("a")},
			UpdateExpression: aws.String("SET version = version + :one"), ConditionExpression: aws.String("version = :seen"),
			ExpressionAttributeValues: item{":one": num(1), ":seen": num(seen)},
		})
		var lost *types.ConditionalCheckFailedException
		if errors.As(err, &lost) {
			return false, nil
		}
		return err == nil, err
	})
	want(t, "version after as many successes", item{"id": str("a"), "version": num(won)}, get(t, client, item{"id": str("a")}))
}

func TestDynamoDB_concurrent_transact(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	for _, id := range []string{"a", "b"} {
		put(t, client, item{"id": str(id), "version": num(0)})
	}
	bump := func(id, seen string) types.TransactWriteItem {
		return types.TransactWriteItem{Update: &types.Update{
			TableName: aws.String("table"), Key: item{"id": str(id)},
			UpdateExpression: aws.String("SET version = version + :one"), ConditionExpression: aws.String("version = :seen"),
			ExpressionAttributeValues: item{":one": num(1), ":seen": num(seen)},
		}}
	}
	won := race(t, func(ctx context.Context) (bool, error) {
		a, err := version(ctx, client, "a")
		if err != nil {
			return false, err
		}
		b, err := version(ctx, client, "b")
		if err != nil {
			return false, err
		}
		_, err = client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{bump("a", a), bump("b", b)}})
		var canceled *types.TransactionCanceledException
		if errors.As(err, &canceled) {
			return false, nil
		}
		return err == nil, err
	})
	for _, id := range []string{"a", "b"} {
		want(t, id, item{"id": str(id), "version": num(won)}, get(t, client, item{"id": str(id)}))
	}
}
