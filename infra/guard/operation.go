package guard

import (
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	scheduler "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
)

// operation is an SDK operation, reduced to the fields that matter to a role.
type operation struct {
	// service and name are the SDK's names, such as "SQS" and "SendMessage".
	service, name string
	queueURL      string
	table, index  string
	// keys are the partition keys of the operation's items.
	keys []string
	// items are the items of a transaction. The transaction itself has no table and no keys.
	items                   []item
	stateMachine, execution string
	group, schedule         string
	// passedRole is the role that the operation passes to the service.
	passedRole string
}

// item is an item of a transaction.
type item struct {
	// kind is ConditionCheck, Put, Update, Delete or Get.
	kind, table string
	// keys contains the item's partition key.
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

// itemsOf reads the items of a transaction: structs with a field for each kind, one of them set.
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

// keysOf returns the partition keys in the key and the item of an input.
func keysOf(parameters any) (keys []string) {
	for _, name := range []string{"Key", "Item"} {
		attributes, _ := member(parameters, name).(map[string]types.AttributeValue)
		if key, ok := attributes[partitionKey].(*types.AttributeValueMemberS); ok {
			keys = append(keys, key.Value)
		}
	}
	return keys
}

// partitionKey is the table's partition key.
const partitionKey = "instance"

// member returns a field of an operation's input, nil if the input does not have it.
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
