package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/host/hosttest"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// objectCreated is EventBridge's event as in the S3 documentation, for a sales file.
const objectCreated = `{"version":"0","id":"17793124-05d4-b198-2fde-7ededc63b103","detail-type":"Object Created","source":"aws.s3",
"account":"111122223333","time":"2026-11-20T09:00:00Z","region":"ca-central-1","resources":["arn:aws:s3:::sales-uploads"],
"detail":{"version":"0","bucket":{"name":"sales-uploads"},
"object":{"key":"2026/sales_2026_11.csv","size":5,"etag":"b1946ac92492d2347c6235b4d2611184","version-id":"IYV3p45BT0ac8hjHg1houSdS1a.Mro8e","sequencer":"617f08299329d189"},
"request-id":"N4N7GDK58NMKJ12R","requester":"123456789012","source-ip-address":"1.2.3.4","reason":"PutObject"}}`

// inCloud runs a test of the Lambda function in virtual time. `received` returns the messages in the FIFO queue, or in
// the dead-letter queue.
func inCloud(t *testing.T, test func(t *testing.T, invoke func(created string) error, received func(deadLetters bool) []types.Message)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := awslocal.New(awslocal.Config{})
		config := aws.Config{
			Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(),
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		}
		client := sqs.NewFromConfig(config)
		var urls []string
		for _, name := range []string{"settle.fifo", "settle-dlq.fifo"} {
			made, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: map[string]string{"FifoQueue": "true"}})
			if err != nil {
				t.Fatal(err)
			}
			urls = append(urls, *made.QueueUrl)
		}
		own := guard.Restrict(t, config, infra.Stack{Name: "settle", Account: awslocal.Account, Region: awslocal.Region}, "objects")
		made, err := newHandler(&host.Process{
			Settings: host.Settings{QueueURL: urls[0], DeadLetterQueueURL: urls[1]}, AWS: own, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		handler := lambda.NewHandler(made)
		test(t, func(created string) error {
			_, err := handler.Invoke(t.Context(), []byte(created))
			return err
		}, func(deadLetters bool) []types.Message {
			url := urls[0]
			if deadLetters {
				url = urls[1]
			}
			output, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
				QueueUrl: &url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
				MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId},
			})
			if err != nil {
				t.Fatal(err)
			}
			return output.Messages
		})
	})
}

func TestUploadBecomesAnEventOfItsMonth(t *testing.T) {
	t.Parallel()
	inCloud(t, func(t *testing.T, invoke func(string) error, received func(bool) []types.Message) {
		if err := invoke(objectCreated); err != nil {
			t.Fatal(err)
		}
		_, want, err := upload.FromObjectCreated([]byte(objectCreated))
		if err != nil {
			t.Fatal(err)
		}
		messages := received(false)
		if len(messages) != 1 || *messages[0].Body != string(want) || messages[0].Attributes["MessageGroupId"] != "upload/2026_11" {
			t.Errorf("want one message in the group upload/2026_11 with the body %s, got %+v", want, messages)
		}
		if parked := received(true); len(parked) > 0 {
			t.Errorf("want nothing parked, got %+v", parked)
		}
	})
}

func TestDuplicateNotificationIsSentOnce(t *testing.T) {
	t.Parallel()
	inCloud(t, func(t *testing.T, invoke func(string) error, received func(bool) []types.Message) {
		for _, created := range []string{objectCreated, objectCreated, strings.Replace(objectCreated, "17793124", "27793124", 1)} {
			if err := invoke(created); err != nil {
				t.Fatal(err)
			}
		}
		if err := invoke(strings.ReplaceAll(objectCreated, "sales", "warehouse")); err != nil {
			t.Fatal(err)
		}
		messages := received(false)
		var types []string
		for _, m := range messages {
			var event struct{ Type string }
			if err := json.Unmarshal([]byte(*m.Body), &event); err != nil {
				t.Fatal(err)
			}
			types = append(types, event.Type)
		}
		if got := strings.Join(types, " "); got != "sales_uploaded warehouse_uploaded" {
			t.Errorf("want sales_uploaded warehouse_uploaded, got %s", got)
		}
	})
}

func TestUnknownFileIsParkedOnceWithTheReason(t *testing.T) {
	t.Parallel()
	inCloud(t, func(t *testing.T, invoke func(string) error, received func(bool) []types.Message) {
		created := strings.Replace(objectCreated, "sales_2026_11.csv", "sales-november.csv", 1)
		for range 2 {
			if err := invoke(created); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if messages := received(false); len(messages) > 0 {
			t.Errorf("want nothing sent, got %+v", messages)
		}
		parked := received(true)
		const want = `not the upload of a sales or warehouse file: expected a file name of kind, year and month, such as sales_2026_11.csv or warehouse_2026_11.csv, got "sales-november.csv"`
		if len(parked) != 1 || *parked[0].Body != created || aws.ToString(parked[0].MessageAttributes[sqsqueue.AttrReason].StringValue) != want {
			t.Errorf("want the event parked once with the reason %s, got %+v", want, parked)
		}
	})
}

// TestStartFailsWithoutAQueue leaves out each queue in turn.
func TestStartFailsWithoutAQueue(t *testing.T) {
	t.Parallel()
	set := map[string]string{
		host.QueueURL: "https://sqs.eu-central-1.amazonaws.com/123456789012/settle.fifo", host.DeadLetterQueueURL: "https://sqs.eu-central-1.amazonaws.com/123456789012/settle-dlq.fifo",
	}
	for _, missing := range []string{"", host.QueueURL, host.DeadLetterQueueURL} {
		found := maps.Clone(set)
		delete(found, missing)
		_, _, err := host.Start(function, func(name string) (string, bool) { value, ok := found[name]; return value, ok }, hosttest.AWS(""), io.Discard, io.Discard)
		if got := err != nil && strings.Contains(err.Error(), "environment variable "+missing+": expected "); got != (missing != "") || err != nil && missing == "" {
			t.Errorf("without %q: expected an error that names it, got %v", missing, err)
		}
	}
}
