package dynamo_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo"
)

func setTTL(t *testing.T, client *dynamodb.Client, attribute string, enabled bool) error {
	t.Helper()
	_, err := client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName:               aws.String("table"),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute, Enabled: &enabled},
	})
	return err
}

func TestTTL_deletes_one_delay_after_the_expiry_time(t *testing.T) {
	t.Parallel()
	client, clock := newService(t)
	createTable(t, client, "table", "id")
	deadline := start.Add(time.Hour)
	put(t, client, item{"id": str("before enabling"), "expire_at": num(deadline.Unix())})
	if err := setTTL(t, client, "expire_at", true); err != nil {
		t.Fatal(err)
	}
	put(t, client, item{"id": str("expires"), "expire_at": num(deadline.Unix())})
	put(t, client, item{"id": str("prolonged"), "expire_at": num(deadline.Unix())})
	put(t, client, item{"id": str("prolonged"), "expire_at": num(deadline.Add(time.Hour).Unix())})
	put(t, client, item{"id": str("kept"), "expire_at": num(deadline.Unix())})
	put(t, client, item{"id": str("kept")})
	put(t, client, item{"id": str("later"), "expire_at": num(deadline.Add(time.Hour).Unix())})
	put(t, client, item{"id": str("milliseconds"), "expire_at": num(deadline.UnixMilli())})
	put(t, client, item{"id": str("text"), "expire_at": str("soon")})
	put(t, client, item{"id": str("too old"), "expire_at": num(start.AddDate(-6, 0, 0).Unix())})

	clock.advance(time.Hour + dynamo.TTLDelay - time.Second)
	want(t, "still readable", 8, len(scan(t, client, dynamodb.ScanInput{})))
	put(t, client, item{"id": str("born expired"), "expire_at": num(deadline.Unix())})
	clock.advance(time.Second)
	want(t, "one delay after the deadline", map[string]int{"prolonged": 1, "kept": 1, "later": 1, "milliseconds": 1, "text": 1, "too old": 1, "born expired": 1}, scan(t, client, dynamodb.ScanInput{}))
	want(t, "expired", item(nil), get(t, client, item{"id": str("expires")}))
	clock.advance(dynamo.TTLDelay)
	want(t, "born expired", item(nil), get(t, client, item{"id": str("born expired")}))
	clock.advance(time.Hour)
	want(t, "in the end", map[string]int{"kept": 1, "milliseconds": 1, "text": 1, "too old": 1}, scan(t, client, dynamodb.ScanInput{}))
}
