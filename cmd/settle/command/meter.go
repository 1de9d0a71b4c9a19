package command

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// reads counts a command's reads of tables. It is safe for concurrent use.
type reads struct {
	// items counts the items that DynamoDB evaluated, including ones that the filter dropped.
	items atomic.Int64

	mu sync.Mutex
	// capacity is in read units.
	capacity float64
}

func (r *reads) count(items int32, consumed *types.ConsumedCapacity) {
	r.items.Add(int64(items))
	if consumed == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.capacity += aws.ToFloat64(consumed.CapacityUnits)
}

// units returns the read units consumed so far, rounded up.
func (r *reads) units() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(math.Ceil(r.capacity))
}

// meteredClient counts the reads of a client.
type meteredClient struct {
	*dynamodb.Client
	reads *reads
}

// GetItem implements dynamostore.Client.
func (c meteredClient) GetItem(ctx context.Context, input *dynamodb.GetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	input.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	output, err := c.Client.GetItem(ctx, input, options...)
	if err == nil {
		c.reads.count(1, output.ConsumedCapacity)
	}
	return output, err
}

// Query implements dynamostore.Client.
func (c meteredClient) Query(ctx context.Context, input *dynamodb.QueryInput, options ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	input.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	output, err := c.Client.Query(ctx, input, options...)
	if err == nil { // Items found by an index are counted when they are read from the table.
		c.reads.count(0, output.ConsumedCapacity)
	}
	return output, err
}

// Scan implements dynamostore.Client.
func (c meteredClient) Scan(ctx context.Context, input *dynamodb.ScanInput, options ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	input.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	output, err := c.Client.Scan(ctx, input, options...)
	if err == nil {
		c.reads.count(output.ScannedCount, output.ConsumedCapacity)
	}
	return output, err
}
