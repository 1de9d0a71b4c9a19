package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tableReadyWait limits the time that CreateTable waits until the table is ready.
const tableReadyWait = 2 * time.Minute

// CreateTable creates the table that a Store needs, and waits until the table is ready. AWS bills the table per request,
// and expire_at is its TTL attribute. CreateTable keeps an existing table of that name.
//
// CreateTable is for local stacks and tests. In your own account, define the table in your infrastructure code, with backups
// and encryption as you need them.
func CreateTable(ctx context.Context, client *dynamodb.Client, table string) error {
	return createTable(ctx, client, tableSchema(table))
}

// CreateIndexedTable is CreateTable with the index that ListPage reads. It keeps an existing table as it is, even
// without the index.
func CreateIndexedTable(ctx context.Context, client *dynamodb.Client, table string) error {
	input := tableSchema(table)
	keys, index := indexSchema()
	input.AttributeDefinitions = append(input.AttributeDefinitions, keys...)
	input.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{index}
	return createTable(ctx, client, input)
}

func tableSchema(table string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:            &table,
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(attrInstance), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(attrInstance), KeyType: types.KeyTypeHash}},
	}
}

func createTable(ctx context.Context, client *dynamodb.Client, input *dynamodb.CreateTableInput) error {
	table := *input.TableName
	_, err := client.CreateTable(ctx, input)
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("creating table %s: %w", table, err)
	}
	if err := dynamodb.NewTableExistsWaiter(client).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &table}, tableReadyWait); err != nil {
		return fmt.Errorf("waiting for table %s: %w", table, err)
	}
	ttl, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return fmt.Errorf("reading the TTL of table %s: %w", table, err)
	}
	switch ttl.TimeToLiveDescription.TimeToLiveStatus { // DynamoDB refuses to enable the TTL twice
	case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
		return nil
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrExpireAt), Enabled: aws.Bool(true)},
	})
	if err != nil {
		return fmt.Errorf("setting the TTL of table %s: %w", table, err)
	}
	return nil
}
