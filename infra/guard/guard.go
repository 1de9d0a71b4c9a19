// Package guard holds the SDK clients of a process to what a function's role may do in infra/template.yaml: a call that AWS
// would deny fails here too, and what no call has used is listed. It serves tests.
package guard

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	scheduler "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/settle-run/settle/infra"
)

// Guard checks calls against the role of one function. It is safe for concurrent use.
type Guard struct {
	stack    infra.Stack
	function infra.Function

	mu     sync.Mutex
	denied []error
	used   map[infra.Permission]bool
}

// New returns a guard for the function of a stack, by the name of its folder in functions/.
func New(stack infra.Stack, name string) (*Guard, error) {
	functions, err := infra.Functions()
	if err != nil {
		return nil, err
	}
	function, ok := functions[name]
	if !ok {
		return nil, fmt.Errorf("guard: expected one of the functions %v, got %q", slices.Sorted(maps.Keys(functions)), name)
	}
	if function, err = stack.Resolve(function); err != nil {
		return nil, err
	}
	return &Guard{stack: stack, function: function, used: map[infra.Permission]bool{}}, nil
}

// Attach has the clients that are made from the configuration ask the guard before each call. One that is denied fails with
// a smithy.APIError of the code AccessDeniedException, and goes nowhere.
func (g *Guard) Attach(config *aws.Config) {
	config.APIOptions = append(slices.Clip(config.APIOptions), func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("SettleGuard", func(
			ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
		) (middleware.InitializeOutput, middleware.Metadata, error) {
			if err := g.check(ctx, in.Parameters); err != nil {
				return middleware.InitializeOutput{}, middleware.Metadata{}, err
			}
			return next.HandleInitialize(ctx, in)
		}), middleware.After)
	})
}

// Denied returns the calls that the role does not allow, in their order.
func (g *Guard) Denied() []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.denied)
}

// Unused returns the permissions that no call has needed. Those that Lambda uses in the function's name, on the queue in front
// of it and on its logs, are not among them: no call of the function's does.
func (g *Guard) Unused() []infra.Permission {
	g.mu.Lock()
	defer g.mu.Unlock()
	var unused []infra.Permission
	for _, permission := range g.function.Permissions() {
		if !g.used[permission] && !slices.Contains(ofLambda, permission.Action) {
			unused = append(unused, permission)
		}
	}
	return unused
}

// ofLambda are the actions that Lambda takes by a function's role.
var ofLambda = []string{"sqs:ReceiveMessage", "sqs:GetQueueAttributes", "sqs:DeleteMessage", "logs:CreateLogStream", "logs:PutLogEvents"}

func (g *Guard) check(ctx context.Context, parameters any) error {
	calls, err := g.callsOf(awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), parameters)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, call := range calls {
		var permissions []infra.Permission
		if permissions, err = g.function.Check(call); err != nil {
			break
		}
		for _, permission := range permissions {
			g.used[permission] = true
		}
	}
	if err == nil {
		return nil
	}
	g.denied = append(g.denied, err)
	return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: err.Error(), Fault: smithy.FaultClient}
}

// callsOf returns what IAM checks for an operation: the call itself, and the passing of a role if it passes one.
func (g *Guard) callsOf(service, operation string, parameters any) ([]infra.Call, error) {
	action, err := infra.ActionOf(service, operation)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", infra.ErrDenied, err)
	}
	call := infra.Call{Action: action}
	here := ":" + g.stack.Region + ":"
	switch service {
	case "SQS":
		path := strings.Split(field(parameters, "QueueUrl"), "/")
		if len(path) < 3 {
			return nil, fmt.Errorf("%w: %s: expected the URL of a queue, got %q", infra.ErrDenied, action, strings.Join(path, "/"))
		}
		call.Resource = "arn:aws:sqs" + here + path[len(path)-2] + ":" + path[len(path)-1]
	case "DynamoDB":
		call.Resource = "arn:aws:dynamodb" + here + g.stack.Account + ":table/" + field(parameters, "TableName")
		if index := field(parameters, "IndexName"); index != "" {
			call.Resource += "/index/" + index
		}
		call.Context = map[string][]string{"dynamodb:LeadingKeys": leadingKeys(parameters)}
	case "SFN":
		call.Resource = field(parameters, "StateMachineArn") + field(parameters, "ExecutionArn") // it has one of them, or a token
	case "Scheduler":
		call.Resource = "arn:aws:scheduler" + here + g.stack.Account + ":schedule/" + field(parameters, "GroupName") + "/" + field(parameters, "Name")
		if target, ok := member(parameters, "Target").(*scheduler.Target); ok && target != nil {
			return []infra.Call{call, {
				Action: "iam:PassRole", Resource: aws.ToString(target.RoleArn), Context: map[string][]string{"iam:PassedToService": {"scheduler.amazonaws.com"}},
			}}, nil
		}
	}
	return []infra.Call{call}, nil
}

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

// partitionKey is that of the table.
const partitionKey = "instance"

// leadingKeys are the partition keys of the items that an operation is about.
func leadingKeys(parameters any) []string {
	var keys []string
	for _, name := range []string{"Key", "Item"} {
		item, _ := member(parameters, name).(map[string]types.AttributeValue)
		if key, ok := item[partitionKey].(*types.AttributeValueMemberS); ok {
			keys = append(keys, key.Value)
		}
	}
	return keys
}
