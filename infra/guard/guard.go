// Package guard restricts the SDK clients of a process to the permissions that infra/template.yaml gives to a
// function's role. A call that AWS would deny fails. Unused lists the permissions that no call has needed. The package
// is for tests.
package guard

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

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

// deniedMax limits the denied calls that are stored, because a process may repeat a denied call endlessly.
const deniedMax = 100

// New returns a guard for a function of a stack. `name` is the name of the function's folder in functions/.
func New(stack infra.Stack, name string) (*Guard, error) {
	functions, err := infra.Functions()
	if err != nil {
		return nil, err
	}
	function, ok := functions[name]
	if !ok {
		return nil, fmt.Errorf("guard: expected one of the functions %v, got %q", slices.Sorted(maps.Keys(functions)), name)
	}
	function.Environment = nil // The environment contains secrets that callers need not have.
	if function.Statements, err = stack.Statements(function); err != nil {
		return nil, err
	}
	return &Guard{stack: stack, function: function, used: map[infra.Permission]bool{}}, nil
}

// Attach makes clients created from the configuration check each call. A denied call fails with a smithy.APIError with
// the code AccessDeniedException and is not sent.
func (g *Guard) Attach(config *aws.Config) {
	config.APIOptions = append(slices.Clip(config.APIOptions), func(stack *middleware.Stack) error {
		return stack.Build.Add(middleware.BuildMiddlewareFunc("SettleGuard", func(
			ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler,
		) (middleware.BuildOutput, middleware.Metadata, error) {
			if err := g.check(in.Request); err != nil {
				return middleware.BuildOutput{}, middleware.Metadata{}, err
			}
			return next.HandleBuild(ctx, in)
		}), middleware.After)
	})
}

// Restrict returns the configuration with the guard of a function attached. If the role denies a call, the test fails
// at its end.
func Restrict(t *testing.T, config aws.Config, stack infra.Stack, function string) aws.Config {
	t.Helper()
	g, err := New(stack, function)
	if err != nil {
		t.Fatal(err)
	}
	g.Attach(&config)
	t.Cleanup(func() {
		if denied := g.Denied(); len(denied) > 0 {
			t.Errorf("expected only calls that the role of %s allows, denied: %v", function, denied)
		}
	})
	return config
}

// Denied returns the denied calls in order, at most 100.
func (g *Guard) Denied() []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.denied)
}

// Unused returns the permissions that no call has needed. It omits the permissions that only Lambda
// itself uses, for the function's queue and logs.
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

// ofLambda are the actions that Lambda performs with a function's role.
var ofLambda = []string{"sqs:ReceiveMessage", "sqs:GetQueueAttributes", "sqs:DeleteMessage", "logs:CreateLogStream", "logs:PutLogEvents"}

// check reads a serialized request. It returns an error if the role does not allow the request.
func (g *Guard) check(serialized any) error {
	request, ok := serialized.(*smithyhttp.Request)
	if !ok {
		return fmt.Errorf("guard: expected an HTTP request, got %T", serialized)
	}
	var body []byte
	if stream := request.GetStream(); stream != nil {
		var err error
		if body, err = io.ReadAll(stream); err != nil {
			return err
		}
		if err := request.RewindStream(); err != nil {
			return err
		}
	}
	if err := g.decide(operationIn(request.Request, body)); err != nil {
		return &smithy.GenericAPIError{Code: accessDenied, Message: err.Error(), Fault: smithy.FaultClient}
	}
	return nil
}

const accessDenied = "AccessDeniedException"

// decide returns and records an error if the role does not allow the operation.
func (g *Guard) decide(o operation) error {
	calls, err := g.callsOf(o)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, call := range calls {
		if err = g.allow(call); err != nil {
			break
		}
	}
	if err != nil && len(g.denied) < deniedMax {
		g.denied = append(g.denied, err)
	}
	return err
}

// allow records the permissions that allow the call. It returns an error if there is no such permission. The caller
// holds g.mu.
func (g *Guard) allow(call infra.Call) error {
	permissions, err := g.function.Check(call)
	for _, permission := range permissions {
		g.used[permission] = true
	}
	return err
}

// callsOf returns the calls that IAM authorizes for an operation: the call itself and, if it passes a role,
// iam:PassRole. For a transaction, callsOf returns the calls of the items. For PutEvents, it returns one call for each
// entry.
func (g *Guard) callsOf(o operation) ([]infra.Call, error) {
	if len(o.items) > 0 {
		return g.callsOfItems(o.items)
	}
	action, err := infra.ActionOf(o.service, o.name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", infra.ErrDenied, err)
	}
	call := infra.Call{Action: action}
	here := ":" + g.stack.Region + ":"
	switch o.service {
	case "SQS":
		path := strings.Split(o.queueURL, "/")
		if len(path) < 3 {
			return nil, fmt.Errorf("%w: %s: expected the URL of a queue, got %q", infra.ErrDenied, action, o.queueURL)
		}
		call.Resource = "arn:aws:sqs" + here + path[len(path)-2] + ":" + path[len(path)-1]
	case "DynamoDB":
		call.Resource = g.tableARN(o.table)
		if o.index != "" {
			call.Resource += "/index/" + o.index
		}
		call.Context = map[string][]string{"dynamodb:LeadingKeys": o.keys}
	case "EventBridge":
		var calls []infra.Call
		for _, bus := range o.buses {
			call.Resource = bus
			if !strings.HasPrefix(bus, "arn:") {
				call.Resource = "arn:aws:events" + here + g.stack.Account + ":event-bus/" + cmp.Or(bus, "default")
			}
			calls = append(calls, call)
		}
		if len(calls) == 0 {
			return nil, fmt.Errorf("%w: %s: expected an entry, got none", infra.ErrDenied, action)
		}
		return calls, nil
	case "SFN":
		call.Resource = o.stateMachine + o.execution // The input has one of them, or a task token.
	case "Scheduler":
		call.Resource = "arn:aws:scheduler" + here + g.stack.Account + ":schedule/" + o.group + "/" + o.schedule
		if o.passedRole != "" {
			return []infra.Call{call, {
				Action: "iam:PassRole", Resource: o.passedRole, Context: map[string][]string{"iam:PassedToService": {"scheduler.amazonaws.com"}},
			}}, nil
		}
	}
	return []infra.Call{call}, nil
}

// callsOfItems returns the calls for the items of a transaction.
func (g *Guard) callsOfItems(items []item) ([]infra.Call, error) {
	var calls []infra.Call
	for _, one := range items {
		action, err := infra.ActionOfItem(one.kind)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", infra.ErrDenied, err)
		}
		calls = append(calls, infra.Call{Action: action, Resource: g.tableARN(one.table), Context: map[string][]string{"dynamodb:LeadingKeys": one.keys}})
	}
	return calls, nil
}

func (g *Guard) tableARN(name string) string {
	return "arn:aws:dynamodb:" + g.stack.Region + ":" + g.stack.Account + ":table/" + name
}
