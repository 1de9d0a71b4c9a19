package guard

import (
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	scheduler "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
)

// operation is what matters to a role of an operation of the SDK.
type operation struct {
	// service and name are the SDK's: "SQS" and "SendMessage".
	service, name string
	queueURL      string
	table, index  string
	// keys are the partition keys of the items that it is about.
	keys                    []string
	stateMachine, execution string
	group, schedule         string
	// passedRole is the role that it passes to the service.
	passedRole string
}

// operationOf reads the input of an operation.
func operationOf(service, name string, parameters any) operation {
	o := operation{
		service: service, name: name,
		queueURL: field(parameters, "QueueUrl"), table: field(parameters, "TableName"), index: field(parameters, "IndexName"),
		stateMachine: field(parameters, "StateMachineArn"), execution: field(parameters, "ExecutionArn"), group: field(parameters, "GroupName"),
	}
	switch service {
	case "DynamoDB":
		for _, name := range []string{"Key", "Item"} {
			item, _ := member(parameters, name).(map[string]types.AttributeValue)
			if key, ok := item[partitionKey].(*types.AttributeValueMemberS); ok {
				o.keys = append(o.keys, key.Value)
			}
		}
	case "Scheduler":
		o.schedule = field(parameters, "Name")
		if target, ok := member(parameters, "Target").(*scheduler.Target); ok && target != nil {
			o.passedRole = aws.ToString(target.RoleArn)
		}
	}
	return o
}

// partitionKey is that of the table.
const partitionKey = "instance"

// member returns a field of an operation's input, nil if it has none of the name.
func member(parameters any, name string) any {
	value := reflect.Indirect(reflect.ValueOf(parameters))
	if value.Kind() != reflect.Struct {
		return nil
	}
	if value = value.FieldByName(name); !value.IsValid() {
		return nil
	}
	return value.Interface()
}

func field(parameters any, name string) string {
	text, _ := member(parameters, name).(*string)
	return aws.ToString(text)
}
