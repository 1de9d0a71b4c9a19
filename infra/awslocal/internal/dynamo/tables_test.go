package dynamo_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// createIndexed creates the table "table" with the partition key id and two indexes. The index by-n has the partition
// key g and the sort key n, a number. It projects only the keys. The index by-s has the partition key s, a string, and
// projects all attributes.
func createIndexed(t *testing.T, client *dynamodb.Client) {
	t.Helper()
	key := func(name string, typ types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: &name, KeyType: typ}
	}
	define := func(name string, typ types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: typ}
	}
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            aws.String("table"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{define("id", "S"), define("g", "S"), define("n", "N"), define("s", "S")},
		KeySchema:            []types.KeySchemaElement{key("id", "HASH")},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			{
				IndexName: aws.String("by-n"), KeySchema: []types.KeySchemaElement{key("g", "HASH"), key("n", "RANGE")},
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
			},
			{
				IndexName: aws.String("by-s"), KeySchema: []types.KeySchemaElement{key("s", "HASH")},
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCreateTable_is_described(t *testing.T) {
	t.Parallel()
	client, _ := newService(t)
	createIndexed(t, client)
	err := dynamodb.NewTableExistsWaiter(client).Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("table")}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("table")})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "ARN", "arn:aws:dynamodb:us-east-1:000000000000:table/table", *out.Table.TableArn)
	want(t, "created", start, *out.Table.CreationDateTime)
	want(t, "billing mode", types.BillingModePayPerRequest, out.Table.BillingModeSummary.BillingMode)
	want(t, "indexes", 2, len(out.Table.GlobalSecondaryIndexes))
	byN := out.Table.GlobalSecondaryIndexes[0]
	want(t, "index name", "by-n", *byN.IndexName)
	want(t, "index status", types.IndexStatusActive, byN.IndexStatus)
	want(t, "index sort key", "n", *byN.KeySchema[1].AttributeName)
	want(t, "projection", types.ProjectionTypeKeysOnly, byN.Projection.ProjectionType)

	_, err = client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("table"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: "HASH"}},
	})
	wantError(t, err, "ResourceInUseException", "Table already exists: table")
	_, err = client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("nowhere")})
	wantError(t, err, "ResourceNotFoundException", "Requested resource not found: Table: nowhere not found")
	_, err = client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("nowhere"), Item: item{"id": str("a")}})
	wantError(t, err, "ResourceNotFoundException", "Requested resource not found")
}

func TestCreateTable_rejects(t *testing.T) {
	t.Parallel()
	client, _ := newService(t)
	valid := func() *dynamodb.CreateTableInput {
		return &dynamodb.CreateTableInput{
			TableName: aws.String("table"), BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: "HASH"}},
		}
	}
	for name, test := range map[string]struct {
		change  func(*dynamodb.CreateTableInput)
		message string
	}{
		"short name":        {func(in *dynamodb.CreateTableInput) { in.TableName = aws.String("ab") }, "length greater than or equal to 3"},
		"character in name": {func(in *dynamodb.CreateTableInput) { in.TableName = aws.String("a b c") }, "[a-zA-Z0-9_.-]+"},
		"no capacity":       {func(in *dynamodb.CreateTableInput) { in.BillingMode = "" }, "must both be specified when BillingMode is PROVISIONED"},
		"undefined key":     {func(in *dynamodb.CreateTableInput) { in.KeySchema[0].AttributeName = aws.String("key") }, "Keys: [key], AttributeDefinitions: [id]"},
		"range key first":   {func(in *dynamodb.CreateTableInput) { in.KeySchema[0].KeyType = "RANGE" }, "The first KeySchemaElement is not a HASH key type"},
		"type of key":       {func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions[0].AttributeType = "BOOL" }, "[B, N, S]"},
		"unused definition": {func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String("x"), AttributeType: "S"})
		}, "Some AttributeDefinitions are not used. AttributeDefinitions: [x]"},
		"stream": {func(in *dynamodb.CreateTableInput) {
			in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true)}
		}, "The parameter StreamSpecification is not supported"},
		"local index": {func(in *dynamodb.CreateTableInput) {
			in.LocalSecondaryIndexes = []types.LocalSecondaryIndex{{
				IndexName: aws.String("local"), KeySchema: in.KeySchema, Projection: &types.Projection{ProjectionType: "ALL"},
			}}
		}, "The parameter LocalSecondaryIndexes is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := valid()
			test.change(in)
			_, err := client.CreateTable(t.Context(), in)
			wantError(t, err, "ValidationException", test.message)
		})
	}
}

func TestTables_listed_tagged_deleted(t *testing.T) {
	t.Parallel()
	client, _ := newService(t)
	for _, name := range []string{"third", "first", "second"} {
		createTable(t, client, name, "id")
	}
	page, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{Limit: aws.Int32(2)})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "first page", []string{"first", "second"}, page.TableNames)
	rest, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{ExclusiveStartTableName: page.LastEvaluatedTableName})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "second page", []string{"third"}, rest.TableNames)
	want(t, "end", (*string)(nil), rest.LastEvaluatedTableName)

	_, err = client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("tagged"), ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(3), WriteCapacityUnits: aws.Int64(4)},
		AttributeDefinitions:      []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
		KeySchema:                 []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: "HASH"}},
		Tags:                      []types.Tag{{Key: aws.String("team"), Value: aws.String("blue")}},
		DeletionProtectionEnabled: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	described, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("tagged")})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "write capacity", int64(4), *described.Table.ProvisionedThroughput.WriteCapacityUnits)
	tags, err := client.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: described.Table.TableArn})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "tag", "team=blue", *tags.Tags[0].Key+"="+*tags.Tags[0].Value)
	_, err = client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("tagged")})
	wantError(t, err, "ValidationException", "protected against deletion")

	deleted, err := client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("first")})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "status", types.TableStatusDeleting, deleted.TableDescription.TableStatus)
	_, err = client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("first")})
	wantError(t, err, "ResourceNotFoundException", "Table: first not found")
}
