package awslocal_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/infra/awslocal"
)

// TestTTLDelay_delays_the_deletion_of_expired_items checks that awslocal deletes an expired item at once, after the
// default delay of one minute, or after three days, depending on TTLDelay.
func TestTTLDelay_delays_the_deletion_of_expired_items(t *testing.T) {
	t.Parallel()
	for delay, outlives := range map[time.Duration]time.Duration{-1: 0, 0: time.Minute, 72 * time.Hour: 72 * time.Hour} {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				config := faultyConfig("http://aws.local")
				config.HTTPClient = awslocal.New(awslocal.Config{TTLDelay: delay}).HTTPClient()
				client, table := dynamodb.NewFromConfig(config), aws.String("table")
				key := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "x"}}
				_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
					TableName: table, BillingMode: types.BillingModePayPerRequest,
					AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
					KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
				})
				if err == nil {
					_, err = client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
						TableName: table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("until"), Enabled: aws.Bool(true)},
					})
				}
				deadline := time.Now().Add(time.Hour)
				if err == nil {
					_, err = client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: map[string]types.AttributeValue{
						"id": key["id"], "until": &types.AttributeValueMemberN{Value: fmt.Sprint(deadline.Unix())},
					}})
				}
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(deadline.Add(outlives - time.Second)))
				for _, there := range []bool{true, false} {
					got, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: table, Key: key})
					if err != nil || (len(got.Item) > 0) != there {
						t.Errorf("%v after the expiry time: want the item to exist: %v, got %v, %v", time.Since(deadline), there, got.Item, err)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}
