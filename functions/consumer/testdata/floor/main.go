// Command floor is a Lambda function that makes recorded AWS calls with the bare SDK. Tests compare the CPU times of
// this function and the consumer. For each message of a batch, it makes the calls that the consumer made for a message
// with the same ID. Like the consumer, it makes the calls of different messages concurrently.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// call is a recorded call. Input is the JSON form of the operation's input.
type call struct {
	Operation string
	Input     json.RawMessage
}

// attempt makes one call.
type attempt func(context.Context) error

func main() {
	attempts, err := load(os.Getenv("FLOOR_CALLS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lambda.Start(func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		errs := make([]error, len(event.Records))
		var messages sync.WaitGroup
		for i, message := range event.Records {
			messages.Go(func() {
				for _, attempt := range attempts[message.MessageId] {
					if errs[i] = attempt(ctx); errs[i] != nil {
						return
					}
				}
			})
		}
		messages.Wait()
		var response events.SQSEventResponse
		for i, err := range errs {
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: event.Records[i].MessageId})
			}
		}
		return response, nil
	})
}

// load reads the calls of each message from a file and decodes their inputs.
func load(path string) (map[string][]attempt, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var calls map[string][]call
	if err := json.Unmarshal(text, &calls); err != nil {
		return nil, err
	}
	loaded, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		return nil, err
	}
	table, queue, schedules := dynamodb.NewFromConfig(loaded), sqs.NewFromConfig(loaded), scheduler.NewFromConfig(loaded)
	attempts := make(map[string][]attempt, len(calls))
	for message := range calls {
		for _, c := range calls[message] {
			var a attempt
			switch c.Operation {
			case "GetItem":
				a, err = item(c, table.GetItem, func(in *dynamodb.GetItemInput, tree map[string]any) { in.Key = attributes(tree["Key"]) })
			case "PutItem":
				a, err = item(c, table.PutItem, func(in *dynamodb.PutItemInput, tree map[string]any) {
					in.Item, in.ExpressionAttributeValues = attributes(tree["Item"]), attributes(tree["ExpressionAttributeValues"])
				})
			case "UpdateItem":
				a, err = item(c, table.UpdateItem, func(in *dynamodb.UpdateItemInput, tree map[string]any) {
					in.Key, in.ExpressionAttributeValues = attributes(tree["Key"]), attributes(tree["ExpressionAttributeValues"])
				})
			case "SendMessage":
				a, err = plain(c, queue.SendMessage)
			case "CreateSchedule":
				a, err = plain(c, schedules.CreateSchedule)
			case "DeleteSchedule":
				a, err = plain(c, schedules.DeleteSchedule)
			default:
				err = fmt.Errorf("expected an operation that the floor knows, got %s: add it", c.Operation)
			}
			if err != nil {
				return nil, err
			}
			attempts[message] = append(attempts[message], a)
		}
	}
	return attempts, nil
}

// plain returns an attempt of an operation whose input encoding/json can decode.
func plain[In, Out, Options any](c call, operation func(context.Context, *In, ...func(*Options)) (*Out, error)) (attempt, error) {
	in := new(In)
	err := json.Unmarshal(c.Input, in)
	return func(ctx context.Context) error { _, err := operation(ctx, in); return err }, err
}

// item is like plain, but for DynamoDB operations. `set` sets the attribute values of the input.
func item[In, Out any](c call, operation func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error), set func(in *In, tree map[string]any)) (attempt, error) {
	var tree map[string]any
	if err := json.Unmarshal(c.Input, &tree); err != nil {
		return nil, err
	}
	rest := map[string]any{}
	for name, value := range tree {
		if name != "Item" && name != "Key" && name != "ExpressionAttributeValues" {
			rest[name] = value
		}
	}
	text, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	in := new(In)
	set(in, tree)
	err = json.Unmarshal(text, in)
	return func(ctx context.Context) error { _, err := operation(ctx, in); return err }, err
}

// attributes returns the attribute values of a decoded JSON object. If `tree` is not an object, it returns nil.
func attributes(tree any) map[string]types.AttributeValue {
	fields, ok := tree.(map[string]any)
	if !ok {
		return nil
	}
	values := make(map[string]types.AttributeValue, len(fields))
	for name, field := range fields {
		values[name] = attribute(field)
	}
	return values
}

// attribute decodes an attribute value. It supports the types that the store writes.
func attribute(tree any) types.AttributeValue {
	for kind, value := range tree.(map[string]any) {
		switch kind {
		case "S":
			return &types.AttributeValueMemberS{Value: value.(string)}
		case "N":
			return &types.AttributeValueMemberN{Value: value.(string)}
		case "BOOL":
			return &types.AttributeValueMemberBOOL{Value: value.(bool)}
		case "NULL":
			return &types.AttributeValueMemberNULL{Value: value.(bool)}
		case "M":
			return &types.AttributeValueMemberM{Value: attributes(value)}
		case "L":
			list := &types.AttributeValueMemberL{}
			for _, element := range value.([]any) {
				list.Value = append(list.Value, attribute(element))
			}
			return list
		}
	}
	panic(fmt.Sprintf("expected an attribute value of type S, N, BOOL, NULL, M or L, got %v", tree))
}
