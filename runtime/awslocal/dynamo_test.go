package awslocal_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/awslocal"
)

// The model has tests of its own; this one shows that the SDK reaches it, takes its
// checksums and reads its errors with their members.
func TestDynamo_through_the_SDK(t *testing.T) {
	t.Parallel()
	client := dynamodb.New(dynamodb.Options{
		Region:       awslocal.Region,
		BaseEndpoint: aws.String("http://aws.local"),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:   awslocal.New(awslocal.Config{}).HTTPClient(),
	})
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("instances"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	put := func() error {
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: aws.String("instances"),
			Item: map[string]types.AttributeValue{
				"id":       &types.AttributeValueMemberS{Value: "signup/42"},
				"revision": &types.AttributeValueMemberN{Value: "1"},
			},
			ConditionExpression:                 aws.String("attribute_not_exists(id)"),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		})
		return err
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	var failed *types.ConditionalCheckFailedException
	wantAs(t, put(), &failed)
	if got, ok := failed.Item["revision"].(*types.AttributeValueMemberN); !ok || got.Value != "1" {
		t.Fatalf("the error's item is %v, want the item that is stored", failed.Item)
	}
}
