package guard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// process makes a call with a configuration.
type process func(context.Context, aws.Config) error

func sendEvent(ctx context.Context, config aws.Config) error {
	_, err := sqsqueue.New(sqs.NewFromConfig(config), queue, "").Send(ctx, event)
	return err
}

func update(instance string) process {
	return func(ctx context.Context, config aws.Config) error {
		_, err := dynamodb.NewFromConfig(config).UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: aws.String("settle"), Key: dynamoKey(instance)})
		return err
	}
}

func putInstance(ctx context.Context, config aws.Config) error {
	_, err := dynamodb.NewFromConfig(config).PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("settle"), Item: map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: "job/7"}}})
	return err
}

// claim claims an alias for an instance that has no item. The table rejects the claim.
func claim(ctx context.Context, config aws.Config) error {
	return dynamostore.New(dynamodb.NewFromConfig(config), "settle").Claim(ctx, "enricher/7", job, time.Now(), 1)
}

func later(group, role string) process {
	return func(ctx context.Context, config aws.Config) error {
		_, err := scheduler.NewFromConfig(config).CreateSchedule(ctx, &scheduler.CreateScheduleInput{
			Name: aws.String("a"), GroupName: &group, ScheduleExpression: aws.String("at(2030-01-01T00:00:00)"),
			FlexibleTimeWindow: &schedulertypes.FlexibleTimeWindow{Mode: schedulertypes.FlexibleTimeWindowModeOff},
			Target: &schedulertypes.Target{
				Arn: aws.String(arnOfQueues + "settle-delay"), RoleArn: aws.String("arn:aws:iam::" + awslocal.Account + ":role/" + role), Input: aws.String("{}"),
			},
		})
		return err
	}
}

func cancel(ctx context.Context, config aws.Config) error {
	_, err := scheduler.NewFromConfig(config).DeleteSchedule(ctx, &scheduler.DeleteScheduleInput{Name: aws.String("a"), GroupName: aws.String("settle")})
	return err
}

// publish puts an event on each of the buses.
func publish(buses ...string) process {
	return func(ctx context.Context, config aws.Config) error {
		var entries []eventstypes.PutEventsRequestEntry
		for _, bus := range buses {
			entries = append(entries, eventstypes.PutEventsRequestEntry{EventBusName: &bus, Source: aws.String("settle.job"), DetailType: aws.String("a"), Detail: aws.String("{}")})
		}
		_, err := eventbridge.NewFromConfig(config).PutEvents(ctx, &eventbridge.PutEventsInput{Entries: entries})
		return err
	}
}

func steps(call call) process {
	return func(ctx context.Context, config aws.Config) error { return call(ctx, sfn.NewFromConfig(config)) }
}

func answer(ctx context.Context, client *sfn.Client) error {
	_, err := client.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{TaskToken: aws.String("a"), Output: aws.String("{}")})
	return err
}

// TestProcessesAreRestrictedToTheirRoles sends calls over a socket, with functions' names as access key IDs.
func TestProcessesAreRestrictedToTheirRoles(t *testing.T) {
	t.Parallel()
	roles := rolesOf(t, stack())
	server := httptest.NewServer(roles.Handler(awslocal.New(awslocal.Config{})))
	defer server.Close()
	by := func(caller string) aws.Config {
		return aws.Config{
			Region: awslocal.Region, BaseEndpoint: aws.String(server.URL), HTTPClient: http.DefaultClient,
			Credentials: credentials.NewStaticCredentialsProvider(caller, "any", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		}
	}
	if _, err := sqs.NewFromConfig(by("any")).CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("settle.fifo"), Attributes: map[string]string{"FifoQueue": "true"}}); err != nil {
		t.Fatalf("expected no restriction for a client that is not a function, got %v", err)
	}
	denied := 0
	for _, c := range []struct {
		function, name string
		call           process
		denied         bool
	}{
		{"gateway", "send", sendEvent, false},
		{"gateway", "note an alias", update("alias/a"), false},
		{"gateway", "write an instance", update("job/7"), true},
		{"gateway", "put an instance", putInstance, true},
		{"gateway", "claim an alias", claim, true},
		{"gateway", "answer a task", steps(answer), true},
		{"consumer", "put an instance", putInstance, false},
		{"consumer", "claim an alias", claim, false},
		{"consumer", "delete in a transaction", transact(types.TransactWriteItem{Delete: &types.Delete{TableName: aws.String("settle"), Key: dynamoKey("job/7")}}), true},
		{"consumer", "answer a task", steps(answer), false},
		{"consumer", "history", steps(history("settle-JobWorkflow:1")), false},
		{"consumer", "history of another's", steps(history("other:1")), true},
		{"consumer", "schedule", later("settle", "settle-SchedulerRole"), false},
		{"consumer", "cancel a schedule", cancel, false},
		{"consumer", "schedule in another group", later("default", "settle-SchedulerRole"), true},
		{"consumer", "pass another role", later("settle", "admin"), true},
		{"consumer", "publish", publish("default", "arn:aws:events:"+awslocal.Region+":"+awslocal.Account+":event-bus/default"), false},
		{"consumer", "publish on another bus", publish("default", "other"), true},
		{"gateway", "publish", publish("default"), true},
		{"delay", "cancel a schedule", cancel, true},
		{"nobody", "cancel a schedule", cancel, false},
	} {
		var refused smithy.APIError
		err := c.call(t.Context(), by(c.function))
		if got := errors.As(err, &refused) && refused.ErrorCode() == "AccessDeniedException"; got != c.denied {
			t.Errorf("%s, %s: expected denied=%v, got %v", c.function, c.name, c.denied, err)
		}
		if c.denied {
			denied++
		}
	}
	if noted, ok := roles.Denied().(interface{ Unwrap() []error }); !ok || len(noted.Unwrap()) != denied {
		t.Errorf("expected %d recorded denied calls, got %v", denied, roles.Denied())
	}
}
