package guard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

func stack() infra.Stack {
	return infra.Stack{
		Name: "settle", Account: awslocal.Account, Region: awslocal.Region, QueueURLs: "http://aws.local",
		Values:  map[string]string{"Table": "settle", "HttpApi.ApiEndpoint": "http://gateway.local"},
		Secrets: map[string]string{"SignupCodeKey": "0123456789abcdef", "EnrichCallbackKey": "0123456789abcdef", "GitHubWebhookSecret": "hush"},
	}
}

// guarded returns a client configuration for a local AWS with the stack's queues and table, restricted to the role of a
// function.
func guarded(t *testing.T, function string) (aws.Config, *guard.Guard) {
	t.Helper()
	cloud := awslocal.New(awslocal.Config{})
	config := aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	}
	for name, attributes := range map[string]map[string]string{"settle.fifo": {"FifoQueue": "true"}, "settle-dlq.fifo": {"FifoQueue": "true"}, "settle-delay": nil} {
		if _, err := sqs.NewFromConfig(config).CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes}); err != nil {
			t.Fatal(err)
		}
	}
	if err := dynamostore.CreateIndexedTable(t.Context(), dynamodb.NewFromConfig(config), "settle"); err != nil {
		t.Fatal(err)
	}
	if _, err := scheduler.NewFromConfig(config).CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{Name: aws.String("settle")}); err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(stack(), function)
	if err != nil {
		t.Fatal(err)
	}
	g.Attach(&config)
	return config, g
}

var (
	job   = instances.ID{Machine: "job", ID: "7"}
	event = durable.Message{To: job, Body: []byte(`{"type":"queued"}`), DeduplicationID: "a"}
)

const (
	queue      = "http://aws.local/" + awslocal.Account + "/settle.fifo"
	deadLetter = "http://aws.local/" + awslocal.Account + "/settle-dlq.fifo"
	delay      = "http://aws.local/" + awslocal.Account + "/settle-delay"
)

func TestCallsOfTheConsumerAreAllowed(t *testing.T) {
	t.Parallel()
	config, g := guarded(t, "consumer")
	client := sqs.NewFromConfig(config)
	events := sqsqueue.New(client, queue, deadLetter)
	if _, err := events.Send(t.Context(), event); err != nil {
		t.Error(err)
	}
	other := durable.Message{To: instances.ID{Machine: "job", ID: "8"}, Body: event.Body, DeduplicationID: "b"}
	for _, err := range events.SendBatch(t.Context(), []durable.Message{event, other}) { // sqs:SendMessage covers the batch operation.
		if err != nil {
			t.Error(err)
		}
	}
	if err := events.Park(t.Context(), durable.Delivery{Group: "job/7", SequenceNumber: "1", Body: "{}"}, "no event"); err != nil {
		t.Error(err)
	}
	delays := schedule.NewDelayQueue(client, delay, time.Now)
	timers, err := schedule.NewTimers(delays, scheduler.NewFromConfig(config), schedule.SchedulerConfig{
		Group: "settle", QueueARN: "arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":settle-delay",
		RoleARN: "arn:aws:iam::" + awslocal.Account + ":role/settle-SchedulerRole",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, wait := range []time.Duration{time.Minute, time.Hour} {
		if err := timers.Schedule(t.Context(), time.Now().Add(wait), event); err != nil {
			t.Error(err)
		}
	}
	if err := timers.Cancel(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	store := dynamostore.New(dynamodb.NewFromConfig(config), "settle")
	if _, err := store.Load(t.Context(), job); err != nil {
		t.Error(err)
	}
	// The table rejects the claim, because the instance has no item, but the guard allows the call.
	if err := store.Claim(t.Context(), "enricher/7", job, time.Now(), 1); !errors.Is(err, durable.ErrConflict) {
		t.Errorf("expected ErrConflict, got %v", err)
	}
	if denied := g.Denied(); len(denied) != 0 {
		t.Errorf("expected no denied calls, got %v", denied)
	}
	unused := g.Unused()
	const sqsARN = "arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":"
	for permission, used := range map[infra.Permission]bool{
		{Action: "sqs:SendMessage", Resource: sqsARN + "settle.fifo"}:                                                                       true,
		{Action: "sqs:SendMessage", Resource: sqsARN + "settle-dlq.fifo"}:                                                                   true,
		{Action: "sqs:ChangeMessageVisibility", Resource: sqsARN + "settle.fifo"}:                                                           false,
		{Action: "iam:PassRole", Resource: "arn:aws:iam::" + awslocal.Account + ":role/settle-SchedulerRole"}:                               true,
		{Action: "dynamodb:GetItem", Resource: "arn:aws:dynamodb:" + awslocal.Region + ":" + awslocal.Account + ":table/settle"}:            true,
		{Action: "dynamodb:ConditionCheckItem", Resource: "arn:aws:dynamodb:" + awslocal.Region + ":" + awslocal.Account + ":table/settle"}: true,
		{Action: "dynamodb:PutItem", Resource: "arn:aws:dynamodb:" + awslocal.Region + ":" + awslocal.Account + ":table/settle"}:            true,
		{Action: "dynamodb:UpdateItem", Resource: "arn:aws:dynamodb:" + awslocal.Region + ":" + awslocal.Account + ":table/settle"}:         false,
	} {
		if listed := slices.Contains(unused, permission); listed == used {
			t.Errorf("%v: expected in the list of unused permissions: %v, got %v", permission, !used, unused)
		}
	}
}

func TestCallsWithoutPermissionFail(t *testing.T) {
	t.Parallel()
	arn := "arn:aws:states:" + awslocal.Region + ":" + awslocal.Account
	for name, c := range map[string]struct {
		function, want string
		call           func(context.Context, aws.Config) error
	}{
		"the gateway parks": {"gateway", "sqs:SendMessage", func(ctx context.Context, config aws.Config) error {
			return sqsqueue.New(sqs.NewFromConfig(config), queue, deadLetter).Park(ctx, durable.Delivery{Group: "job/7", SequenceNumber: "1", Body: "{}"}, "why")
		}},
		"the gateway writes an instance": {"gateway", "dynamodb:UpdateItem", func(ctx context.Context, config aws.Config) error {
			store := dynamodb.NewFromConfig(config)
			_, err := store.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: aws.String("settle"), Key: dynamoKey("job/7")})
			return err
		}},
		"the gateway claims an alias": {"gateway", "dynamodb:ConditionCheckItem", func(ctx context.Context, config aws.Config) error {
			return dynamostore.New(dynamodb.NewFromConfig(config), "settle").Claim(ctx, "enricher/7", job, time.Now(), 1)
		}},
		"the gateway writes an instance beside an alias": {"gateway", "[job/7]", transact(
			types.TransactWriteItem{Update: &types.Update{TableName: aws.String("settle"), Key: dynamoKey("alias/enricher/7"), UpdateExpression: aws.String("SET a = b")}},
			types.TransactWriteItem{Update: &types.Update{TableName: aws.String("settle"), Key: dynamoKey("job/7"), UpdateExpression: aws.String("SET a = b")}},
		)},
		"the consumer deletes within a transaction": {"consumer", "dynamodb:DeleteItem", transact(
			types.TransactWriteItem{Put: &types.Put{TableName: aws.String("settle"), Item: dynamoKey("job/7")}},
			types.TransactWriteItem{Delete: &types.Delete{TableName: aws.String("settle"), Key: dynamoKey("job/8")}},
		)},
		"the consumer checks an item of another table": {"consumer", "table/other", transact(
			types.TransactWriteItem{Put: &types.Put{TableName: aws.String("settle"), Item: dynamoKey("job/7")}},
			types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: aws.String("other"), Key: dynamoKey("job/8"), ConditionExpression: aws.String("a = b")}},
		)},
		"a transaction with an empty item": {"consumer", `got ""`, transact(types.TransactWriteItem{})},
		"the gateway lists": {"gateway", "dynamodb:Scan", func(ctx context.Context, config aws.Config) error {
			_, err := dynamodb.NewFromConfig(config).Scan(ctx, &dynamodb.ScanInput{TableName: aws.String("settle")})
			return err
		}},
		"the consumer passes another role": {"consumer", "iam:PassRole", later("settle", "admin")},
		"the consumer starts a workflow": {"consumer", "states:StartExecution", func(ctx context.Context, config aws.Config) error {
			_, err := sfn.NewFromConfig(config).StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: aws.String(arn + ":stateMachine:report")})
			return err
		}},
		"the delay forwarder sends elsewhere": {"delay", "sqs:SendMessage", func(ctx context.Context, config aws.Config) error {
			_, err := sqsqueue.New(sqs.NewFromConfig(config), deadLetter, "").Send(ctx, event)
			return err
		}},
		"the delay forwarder sends a batch elsewhere": {"delay", "sqs:SendMessage", func(ctx context.Context, config aws.Config) error {
			other := durable.Message{To: instances.ID{Machine: "job", ID: "8"}, Body: event.Body, DeduplicationID: "b"}
			return sqsqueue.New(sqs.NewFromConfig(config), deadLetter, "").SendBatch(ctx, []durable.Message{event, other})[0]
		}},
		"a call without a queue": {"delay", "expected the URL of a queue", func(ctx context.Context, config aws.Config) error {
			_, err := sqs.NewFromConfig(config).ListQueues(ctx, &sqs.ListQueuesInput{})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, g := guarded(t, c.function)
			err := c.call(t.Context(), config)
			var refused smithy.APIError
			if !errors.As(err, &refused) || refused.ErrorCode() != "AccessDeniedException" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("expected AccessDeniedException for %s, got %v", c.want, err)
			}
			if denied := g.Denied(); len(denied) != 1 || !errors.Is(denied[0], infra.ErrDenied) {
				t.Errorf("expected one recorded call, got %v", denied)
			}
		})
	}
}

// transact returns a TransactWriteItems call.
func transact(items ...types.TransactWriteItem) func(context.Context, aws.Config) error {
	return func(ctx context.Context, config aws.Config) error {
		_, err := dynamodb.NewFromConfig(config).TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items})
		return err
	}
}

func TestGatewayMayRedeemAnAlias(t *testing.T) {
	t.Parallel()
	config, g := guarded(t, "gateway")
	store := dynamostore.New(dynamodb.NewFromConfig(config), "settle")
	if _, err := store.Redeem(t.Context(), "enricher/7", job, []byte(`{}`), "me"); err != nil {
		t.Error(err)
	}
	if denied := g.Denied(); len(denied) != 0 {
		t.Errorf("expected no denied calls, got %v", denied)
	}
}

func TestUnknownFunctionIsRejected(t *testing.T) {
	t.Parallel()
	if _, err := guard.New(stack(), "mailer"); err == nil || !strings.Contains(err.Error(), `got "mailer"`) {
		t.Errorf("expected an error that names mailer, got %v", err)
	}
}

func dynamoKey(instance string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: instance}}
}

// TestEachCallIsDecidedAnew checks that an allowed call does not allow another call on the same table.
func TestEachCallIsDecidedAnew(t *testing.T) {
	t.Parallel()
	config, g := guarded(t, "gateway")
	client := dynamodb.NewFromConfig(config)
	store := dynamostore.New(client, "settle")
	for range 2 {
		if _, err := store.Load(t.Context(), job); err != nil {
			t.Error(err)
		}
	}
	// The gateway may update an alias. It may not update an instance, although the action and the table are the same.
	if _, err := store.Redeem(t.Context(), "enricher/7", job, []byte(`{}`), "me"); err != nil {
		t.Error(err)
	}
	if _, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: aws.String("settle"), Key: dynamoKey("job/7")}); err == nil {
		t.Error("expected the gateway not to write an instance after it has written an alias")
	}
	if denied := g.Denied(); len(denied) != 1 {
		t.Errorf("expected one denied call, got %v", denied)
	}
}

func TestDeniedCallsAreLimited(t *testing.T) {
	t.Parallel()
	config, g := guarded(t, "delay")
	for range 150 {
		if _, err := sqsqueue.New(sqs.NewFromConfig(config), deadLetter, "").Send(t.Context(), event); err == nil {
			t.Fatal("expected the delay forwarder not to send to the dead-letter queue")
		}
	}
	if denied := g.Denied(); len(denied) != 100 {
		t.Errorf("expected the first hundred denied calls, got %d", len(denied))
	}
}
