package tour

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/statechart"
)

// showItems reads the item of each instance with the SDK, prints the first one, and checks the final states.
func (p *player) showItems(ctx context.Context, ends []end) error {
	p.say("\n%s", p.config.Style.Bold("What DynamoDB holds"))
	p.say("   One item per instance in the table %s, read with the AWS SDK: name, DynamoDB type, value.", stack.Table)
	p.say("   This is the first of %d.", len(ends))
	client := dynamodb.NewFromConfig(p.stack.AWS())
	var failures []error
	for i, expected := range ends {
		output, err := client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName:      aws.String(stack.Table),
			Key:            map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: expected.instance}},
			ConsistentRead: aws.Bool(true),
		})
		if err != nil {
			return fmt.Errorf("reading the item of %s: %w", expected.instance, err)
		}
		if i == 0 {
			p.say("\n%s", strings.TrimRight(itemText(output.Item, "   ", "instance", "machine", "status", "state", "context", "history"), "\n"))
		}
		failures = append(failures, expected.check(output.Item))
	}
	return errors.Join(failures...)
}

// check compares the item with the expected end.
func (e end) check(item map[string]types.AttributeValue) error {
	state := &types.AttributeValueMemberL{}
	for _, path := range e.states {
		state.Value = append(state.Value, &types.AttributeValueMemberS{Value: path})
	}
	status := &types.AttributeValueMemberS{Value: string(statechart.Done)}
	if !reflect.DeepEqual(item["state"], types.AttributeValue(state)) || !reflect.DeepEqual(item["status"], types.AttributeValue(status)) {
		return fmt.Errorf("%s: expected to be done in %s, got the item %v", e.instance, strings.Join(e.states, ", "), item)
	}
	return nil
}
