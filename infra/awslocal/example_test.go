package awslocal_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
)

// A queue, a client and a Lambda handler, in one process and without a socket.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cloud := awslocal.New(awslocal.Config{})
	client := sqs.New(sqs.Options{
		Region:       awslocal.Region,
		BaseEndpoint: aws.String("http://aws.local"),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:   cloud.HTTPClient(),
	})
	queue, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName:  aws.String("events.fifo"),
		Attributes: map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: queue.QueueUrl, MessageBody: aws.String(`{"type":"VERIFY"}`), MessageGroupId: aws.String("signup/42"),
	}); err != nil {
		fmt.Println(err)
		return
	}

	handler := lambda.NewHandler(func(_ context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		for _, record := range event.Records {
			fmt.Println(record.Attributes["MessageGroupId"], record.Body)
		}
		stop() // the example needs only one batch
		return events.SQSEventResponse{}, nil
	})
	source := awslocal.EventSource{Queue: "events.fifo", ReportBatchItemFailures: true}
	if err := cloud.Poll(ctx, source, func() awslocal.Invoker { return handler }); err != nil {
		fmt.Println(err)
	}
	// Output: signup/42 {"type":"VERIFY"}
}
