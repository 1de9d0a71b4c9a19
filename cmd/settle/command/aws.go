package command

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/logging"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// localEndpoint is the AWS endpoint that settle dev serves by default.
const localEndpoint = "http://127.0.0.1:" + devAWSPort

// awsFlags are the flags of commands that use AWS.
type awsFlags struct {
	Local bool `help:"Use the stack of settle dev instead of AWS, at $$AWS_ENDPOINT_URL if that is set, else at ${local_endpoint}."`
}

// load returns the configuration for the SDK's clients.
func (f awsFlags) load(ctx context.Context, s *session) (aws.Config, error) {
	if f.Local {
		return aws.Config{
			Region: awslocal.Region, BaseEndpoint: &s.Endpoint, HTTPClient: s.HTTP,
			Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
		}, nil
	}
	loaded, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{})) // The command prints errors itself, in one line.
	if err != nil {
		return aws.Config{}, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	if loaded.Region == "" {
		return aws.Config{}, fmt.Errorf("no AWS Region is configured: set AWS_REGION or a profile, or use --local for the stack of %s dev", s.name())
	}
	if _, err := loaded.Credentials.Retrieve(ctx); err != nil && ctx.Err() == nil {
		return aws.Config{}, fmt.Errorf("no AWS credentials found: set them up as for the aws CLI (AWS_PROFILE, AWS_ACCESS_KEY_ID, aws sso login), "+
			"or use --local for the stack of %s dev: %w", s.name(), err)
	}
	return loaded, nil
}

// explain replaces the error with advice if --local is set and the stack refused the connection.
func (f awsFlags) explain(s *session, err error) error {
	if f.Local && errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot connect to %s: start it with %s dev", s.Endpoint, s.name())
	}
	return err
}

// tableFlags are the flags of commands that read instances.
type tableFlags struct {
	awsFlags
	Table string `default:"settle" env:"SETTLE_TABLE" placeholder:"NAME" help:"The DynamoDB table (${default})."`
}

func (f tableFlags) store(ctx context.Context, s *session) (*dynamostore.Store, error) {
	loaded, err := f.load(ctx, s)
	if err != nil {
		return nil, err
	}
	return dynamostore.New(meteredClient{dynamodb.NewFromConfig(loaded), &s.read}, f.Table), nil
}

// reads counts a command's reads of tables. It is safe for concurrent use.
type reads struct {
	// items counts the items that DynamoDB evaluated, including ones that the filter dropped.
	items atomic.Int64
	// halves is the consumed capacity in half read units, the smallest amount that DynamoDB charges.
	halves atomic.Int64
}

func (r *reads) count(items int32, consumed *types.ConsumedCapacity) {
	r.items.Add(int64(items))
	if consumed != nil {
		r.halves.Add(int64(2 * aws.ToFloat64(consumed.CapacityUnits)))
	}
}

// units returns the read units consumed so far, rounded up.
func (r *reads) units() int64 { return (r.halves.Load() + 1) / 2 }

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
