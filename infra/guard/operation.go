package guard

import (
	"encoding/json"
	"net/http"
	"strings"
)

// operation is a request to AWS, reduced to the fields that matter to a role.
type operation struct {
	// `service` and `name` are the SDK's names, such as "SQS" and "SendMessage".
	service, name string
	queueURL      string
	table, index  string
	// keys are the partition keys of the operation's items.
	keys []string
	// items are the items of a transaction. The transaction itself has no table and no keys.
	items                   []item
	stateMachine, execution string
	group, schedule         string
	// buses are the names or ARNs of the event buses of the operation's entries.
	buses []string
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

// partitionKey is the table's partition key.
const partitionKey = "instance"

// targets maps the prefixes of X-Amz-Target to the SDK's service names.
var targets = map[string]string{"AmazonSQS": "SQS", "DynamoDB_20120810": "DynamoDB", "AWSStepFunctions": "SFN", "AWSEvents": "EventBridge"}

// schedulerMethods maps methods to EventBridge Scheduler's operations on a schedule.
var schedulerMethods = map[string]string{
	http.MethodPost: "CreateSchedule", http.MethodPut: "UpdateSchedule", http.MethodGet: "GetSchedule", http.MethodDelete: "DeleteSchedule",
}

// wireItem has those fields of a request or a transaction item that identify an item of a table.
type wireItem struct {
	TableName string
	Key, Item map[string]struct{ S string }
}

// keys returns the partition keys in the key and the item.
func (i wireItem) keys() (keys []string) {
	for _, attributes := range []map[string]struct{ S string }{i.Key, i.Item} {
		if key := attributes[partitionKey].S; key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// operationIn parses a request. An unknown request becomes an operation that no role allows.
func operationIn(request *http.Request, body []byte) operation {
	var parameters struct {
		// AWS capitalizes some of these names differently, but encoding/json ignores case.
		QueueURL, IndexName, StateMachineARN, ExecutionARN, GroupName string
		wireItem
		TransactItems []map[string]wireItem
		Target        struct{ RoleARN string }
		Entries       []struct{ EventBusName string }
	}
	_ = json.Unmarshal(body, &parameters) // A body that is not JSON names no resources.
	target, name, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	o := operation{
		service: targets[target], name: name,
		queueURL: parameters.QueueURL, table: parameters.TableName, index: parameters.IndexName,
		stateMachine: parameters.StateMachineARN, execution: parameters.ExecutionARN,
	}
	o.keys = parameters.keys()
	for _, entry := range parameters.Entries {
		o.buses = append(o.buses, entry.EventBusName)
	}
	for _, one := range parameters.TransactItems {
		for kind, part := range one {
			o.items = append(o.items, item{kind: kind, table: part.TableName, keys: part.keys()})
		}
		if len(one) == 0 {
			o.items = append(o.items, item{})
		}
	}
	if schedule, ok := strings.CutPrefix(request.URL.Path, "/schedules/"); ok && target == "" {
		o.service, o.name, o.schedule, o.passedRole = "Scheduler", schedulerMethods[request.Method], schedule, parameters.Target.RoleARN
		o.group = parameters.GroupName + request.URL.Query().Get("groupName")
	}
	return o
}
