package guard

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// Handler restricts function processes to their roles. It wraps an AWS such as awslocal's Cloud. It checks the calls of
// clients whose access key ID is a function's name, such as consumer, and denies calls as AWS would. All other calls
// pass.
func (r *Roles) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		g, ok := r.guards[callerOf(request)]
		if !ok {
			next.ServeHTTP(w, request)
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
			return
		}
		if err := g.decide(operationIn(request, body)); err != nil {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.Header().Set("X-Amzn-ErrorType", accessDenied)
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"__type": accessDenied, "message": err.Error()}) // The client may have disconnected.
			return
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, request)
	})
}

// callerOf returns the caller's access key ID, "" if the request is not signed:
// Credential=ID/date/region/service/aws4_request.
func callerOf(request *http.Request) string {
	_, credential, _ := strings.Cut(request.Header.Get("Authorization"), "Credential=")
	id, _, _ := strings.Cut(credential, "/")
	return id
}

// targets maps the prefixes of X-Amz-Target to the SDK's names of services.
var targets = map[string]string{"AmazonSQS": "SQS", "DynamoDB_20120810": "DynamoDB", "AWSStepFunctions": "SFN"}

// schedulerMethods maps methods to EventBridge Scheduler's operations on a schedule.
var schedulerMethods = map[string]string{
	http.MethodPost: "CreateSchedule", http.MethodPut: "UpdateSchedule", http.MethodGet: "GetSchedule", http.MethodDelete: "DeleteSchedule",
}

// wireItem has the fields of a request or a transaction item that concern an item of a table.
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
		QueueURL, IndexName, StateMachineARN, ExecutionARN, GroupName string // The cases of the names differ, which encoding/json ignores.
		wireItem
		TransactItems []map[string]wireItem
		Target        struct{ RoleARN string }
	}
	_ = json.Unmarshal(body, &parameters) // A body that is not JSON names no resources.
	target, name, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	o := operation{
		service: targets[target], name: name,
		queueURL: parameters.QueueURL, table: parameters.TableName, index: parameters.IndexName,
		stateMachine: parameters.StateMachineARN, execution: parameters.ExecutionARN,
	}
	o.keys = parameters.keys()
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
