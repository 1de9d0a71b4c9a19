package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/runtime/host"
)

// failed is EventBridge's event as in the Step Functions documentation, for an execution that a chart started.
const failed = `{"version":"0","id":"315c1398-40ff-a850-213b-158f73e60175","detail-type":"Step Functions Execution Status Change","source":"aws.states",
"account":"012345678912","time":"2019-02-26T19:42:21Z","region":"us-east-1",
"resources":["arn:aws:states:us-east-1:012345678912:execution:state-machine-name:settle-month-11-0a"],
"detail":{"executionArn":"arn:aws:states:us-east-1:012345678912:execution:state-machine-name:settle-month-11-0a",
"stateMachineArn":"arn:aws:states:us-east-1:012345678912:stateMachine:state-machine","name":"settle-month-11-0a","status":"FAILED",
"startDate":1551225146847,"stopDate":1551225151881,
"input":"{\"$settle\":{\"instance\":\"month/11\",\"execution\":\"settle-month-11-0a\",\"incarnation\":7}}","inputDetails":{"included":true},
"output":null,"outputDetails":null,"error":"Report.NoSales","cause":"nothing was sold"}}`

func TestEndOfAnExecutionBecomesAnEventOfItsInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := aws.Config{
			Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: awslocal.New(awslocal.Config{}).HTTPClient(),
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		}
		client := sqs.NewFromConfig(config)
		queue, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("settle.fifo"), Attributes: map[string]string{"FifoQueue": "true"}})
		if err != nil {
			t.Fatal(err)
		}
		own := guard.Restrict(t, config, infra.Stack{Name: "settle", Account: awslocal.Account, Region: awslocal.Region}, "executions")
		made, err := host.Executions().Handler(&host.Process{Settings: host.Settings{QueueURL: *queue.QueueUrl}, AWS: own, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		batch := events.SQSEvent{Records: []events.SQSMessage{
			{MessageId: "1", Body: failed}, {MessageId: "2", Body: failed}, {MessageId: "3", Body: strings.Replace(failed, "FAILED", "RUNNING", 1)}, {MessageId: "4", Body: "{}"},
		}}
		payload, err := json.Marshal(batch)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := lambda.NewHandler(made).Invoke(t.Context(), payload)
		if want := `{"batchItemFailures":[{"itemIdentifier":"4"}]}`; err != nil || string(answer) != want {
			t.Errorf("want %s, got %s and %v", want, answer, err)
		}
		received, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: queue.QueueUrl, MaxNumberOfMessages: 10, MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId},
		})
		if err != nil {
			t.Fatal(err)
		}
		const want = `{"type":"settle.execution.ended","$incarnation":7,"end":{"workflow":"","name":"settle-month-11-0a",` +
			`"execution":"arn:aws:states:us-east-1:012345678912:execution:state-machine-name:settle-month-11-0a","status":"FAILED","error":"Report.NoSales","cause":"nothing was sold"}}`
		if len(received.Messages) != 1 || *received.Messages[0].Body != want || received.Messages[0].Attributes["MessageGroupId"] != "month/11" {
			t.Errorf("want one message in the group month/11 with %s, got %+v", want, received.Messages)
		}
	})
}
