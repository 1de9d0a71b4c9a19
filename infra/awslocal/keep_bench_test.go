package awslocal_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/settle-run/settle/infra/awslocal"
)

// BenchmarkKeep measures the cost of a data folder for one client and for many concurrent clients:
//
//	go test -run '^$' -bench Keep ./infra/awslocal
func BenchmarkKeep(b *testing.B) {
	for _, folder := range []bool{false, true} {
		for _, clients := range []int{1, 32} {
			for name, call := range map[string]func(b *testing.B, cloud *awslocal.Cloud, n int64){"send": benchmarkSend, "cycle": benchmarkCycle, "put": benchmarkPut} {
				b.Run(fmt.Sprintf("%s/data=%v/clients=%d", name, folder, clients), func(b *testing.B) {
					var config awslocal.Config
					if folder {
						config.Data = b.TempDir()
					}
					cloud, err := awslocal.Open(config)
					if err != nil {
						b.Fatal(err)
					}
					mustPost(b, cloud, "AmazonSQS.CreateQueue", `{"QueueName": "q.fifo", "Attributes": {"FifoQueue": "true"}}`)
					mustPost(b, cloud, "DynamoDB_20120810.CreateTable", `{"TableName": "table", "BillingMode": "PAY_PER_REQUEST",
						"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}`)
					var left atomic.Int64
					left.Store(int64(b.N))
					var running sync.WaitGroup
					b.ResetTimer()
					for range clients {
						running.Go(func() {
							for n := left.Add(-1); n >= 0; n = left.Add(-1) {
								call(b, cloud, n)
							}
						})
					}
					running.Wait()
					b.StopTimer()
					if err := cloud.Close(); err != nil {
						b.Error(err)
					}
				})
			}
		}
	}
}

func mustPost(b *testing.B, cloud *awslocal.Cloud, operation, body string) string {
	b.Helper()
	answer := post(cloud, map[string]string{"X-Amz-Target": operation}, body)
	if answer.Code != 200 {
		b.Errorf("%s: got %d %s", operation, answer.Code, answer.Body)
	}
	return answer.Body.String()
}

func benchmarkSend(b *testing.B, cloud *awslocal.Cloud, n int64) {
	b.Helper()
	mustPost(b, cloud, "AmazonSQS.SendMessage", fmt.Sprintf(`{"QueueUrl": "q.fifo", "MessageGroupId": "g%d", "MessageDeduplicationId": "%d", "MessageBody": "%0200d"}`, n%1000, n, n))
}

// benchmarkCycle sends, receives and deletes one message.
func benchmarkCycle(b *testing.B, cloud *awslocal.Cloud, n int64) {
	b.Helper()
	benchmarkSend(b, cloud, n)
	answer := mustPost(b, cloud, "AmazonSQS.ReceiveMessage", `{"QueueUrl": "q.fifo"}`)
	if _, handle, ok := strings.Cut(answer, `"ReceiptHandle":"`); ok {
		handle, _, _ = strings.Cut(handle, `"`)
		mustPost(b, cloud, "AmazonSQS.DeleteMessage", fmt.Sprintf(`{"QueueUrl": "q.fifo", "ReceiptHandle": %q}`, handle))
	}
}

func benchmarkPut(b *testing.B, cloud *awslocal.Cloud, n int64) {
	b.Helper()
	mustPost(b, cloud, "DynamoDB_20120810.PutItem", fmt.Sprintf(`{"TableName": "table", "Item": {"id": {"S": "item/%d"}, "state": {"S": "%0200d"}}}`, n%10_000, n))
}
