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
	keys []string
	// items are those of a transaction, which has no table and no keys of its own.
	items                   []item
	stateMachine, execution string
	group, schedule         string
	// passedRole is the role that it passes to the service.
	passedRole string
}

// item is one of a transaction.
type item struct {
	// kind is ConditionCheck, Put, Update, Delete or Get.
	kind, table string
	// keys has its partition key.
	keys []string
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
		o.keys = keysOf(parameters)
		o.items = itemsOf(member(parameters, "TransactItems"))
	case "Scheduler":
		o.schedule = field(parameters, "Name")
		if target, ok := member(parameters, "Target").(*scheduler.Target); ok && target != nil {
			o.passedRole = aws.ToString(target.RoleArn)
		}
	}
	return o
}

// itemsOf reads the items of a transaction: a slice of structs with a field for each kind, of which one is set.
func itemsOf(transactItems any) (items []item) {
	list := reflect.ValueOf(transactItems)
	if list.Kind() != reflect.Slice {
		return nil
	}
	for _, one := range list.Seq2() {
		var read []item
		for i := range one.NumField() {
			if part := one.Field(i); part.Kind() == reflect.Pointer && !part.IsNil() {
				parameters := part.Interface()
				read = append(read, item{kind: one.Type().Field(i).Name, table: field(parameters, "TableName"), keys: keysOf(parameters)})
			}
		}
		if len(read) == 0 {
			read = []item{{}}
		}
		items = append(items, read...)
	}
	return items
}

// keysOf returns the partition keys that an input has, in its key or its item.
func keysOf(parameters any) (keys []string) {
	for _, name := range []string{"Key", "Item"} {
		attributes, _ := member(parameters, name).(map[string]types.AttributeValue)
		if key, ok := attributes[partitionKey].(*types.AttributeValueMemberS); ok {
			keys = append(keys, key.Value)
		}
	}
	return keys
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
