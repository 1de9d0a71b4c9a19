// Command sdk is a Lambda function that loads the SDK's configuration and creates the clients of the consumer, and does
// nothing else. Tests compare the start of the functions with it.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

func main() {
	loaded, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		os.Exit(1)
	}
	table, queue := dynamodb.NewFromConfig(loaded), sqs.NewFromConfig(loaded)
	states, schedules := sfn.NewFromConfig(loaded), scheduler.NewFromConfig(loaded)
	// These calls make the linker keep the code that the consumer's ports use.
	lambda.Start(func(ctx context.Context) error {
		if _, err := table.GetItem(ctx, &dynamodb.GetItemInput{}); err != nil {
			return err
		}
		if _, err := queue.SendMessage(ctx, &sqs.SendMessageInput{}); err != nil {
			return err
		}
		if _, err := states.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{}); err != nil {
			return err
		}
		_, err := schedules.CreateSchedule(ctx, &scheduler.CreateScheduleInput{})
		return err
	})
}
