package guard_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

const (
	arnOfStates = "arn:aws:states:" + awslocal.Region + ":" + awslocal.Account + ":"
	arnOfQueues = "arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":"
)

// empty returns a client configuration for an empty local AWS.
func empty() aws.Config {
	return aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: awslocal.New(awslocal.Config{}).HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	}
}

func rolesOf(t *testing.T, stack infra.Stack) *guard.Roles {
	t.Helper()
	roles, err := guard.NewRoles(stack)
	if err != nil {
		t.Fatal(err)
	}
	return roles
}

// call is a call to Step Functions.
type call func(context.Context, *sfn.Client) error

func start(ctx context.Context, client *sfn.Client) error {
	_, err := client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: aws.String(arnOfStates + "stateMachine:report-writer")})
	return err
}

func describe(execution string) call {
	return func(ctx context.Context, client *sfn.Client) error {
		_, err := client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: aws.String(arnOfStates + "execution:" + execution)})
		return err
	}
}

func history(execution string) call {
	return func(ctx context.Context, client *sfn.Client) error {
		_, err := client.GetExecutionHistory(ctx, &sfn.GetExecutionHistoryInput{ExecutionArn: aws.String(arnOfStates + "execution:" + execution)})
		return err
	}
}

// denies reports whether a function's role denies a call.
func denies(t *testing.T, roles *guard.Roles, function string, call call) bool {
	t.Helper()
	config := empty()
	roles.Attach(function, &config)
	var refused smithy.APIError
	return errors.As(call(t.Context(), sfn.NewFromConfig(config)), &refused) && refused.ErrorCode() == "AccessDeniedException"
}

// The template has no workflows that charts start. In a stack with such workflows, the roles permit calls to them.
func TestRolesForAStacksWorkflows(t *testing.T) {
	t.Parallel()
	own := stack()
	own.Workflows = map[string]string{"report": arnOfStates + "stateMachine:report-writer"}
	own.WaitingWorkflows = []string{arnOfStates + "stateMachine:never", arnOfStates + "stateMachine:mine-*"}
	plain, more := rolesOf(t, stack()), rolesOf(t, own)
	for _, c := range []struct {
		function, name string
		call           call
		denied         bool // in the stack with workflows; the template's roles deny all calls
	}{
		{"consumer", "start", start, false},
		{"executions", "start", start, true},
		{"consumer", "describe", describe("report-writer:settle-1"), false},
		{"executions", "describe", describe("report-writer:settle-1"), false},
		{"executions", "describe what another has started", describe("report-writer:by-hand"), true},
		{"gateway", "describe", describe("report-writer:settle-1"), true},
		{"consumer", "history", history("mine-7:1"), false},
		{"consumer", "history of another's", history("yours-7:1"), true},
	} {
		if !denies(t, plain, c.function, c.call) {
			t.Errorf("%s, %s: expected the template's role to deny it", c.function, c.name)
		}
		if got := denies(t, more, c.function, c.call); got != c.denied {
			t.Errorf("%s, %s: expected denied=%v by the roles of the stack, got %v", c.function, c.name, c.denied, got)
		}
	}
	if !errors.Is(plain.Denied(), infra.ErrDenied) || rolesOf(t, own).Denied() != nil {
		t.Errorf("expected the denied calls, got %v", plain.Denied())
	}
	unused := guard.Unused(plain, more)
	for permission, listed := range map[string]bool{
		"consumer: states:StartExecution on ${Workflow}":                                       false,
		"consumer: states:DescribeExecution on " + executionsOf + ":${Workflow.Name}:settle-*": false,
		"consumer: states:GetExecutionHistory on " + executionsOf + ":${Workflow.Name}:*":      false,
		"consumer: states:GetExecutionHistory on " + executionsOf + ":${JobWorkflow.Name}:*":   true,
		"consumer: states:SendTaskSuccess on ${Workflow}":                                      true,
		"gateway: dynamodb:GetItem on ${Table.Arn}":                                            true,
		"delay: sqs:ReceiveMessage on ${DelayQueue.Arn}":                                       false, // used by Lambda
	} {
		if slices.Contains(unused, permission) != listed {
			t.Errorf("%s: expected in the list of unused permissions: %v, got %v", permission, listed, unused)
		}
	}
}

// executionsOf is the prefix of execution ARNs in the template.
const executionsOf = "arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:execution"

func TestPermissionUsedInOneStackIsUsed(t *testing.T) {
	t.Parallel()
	all := []*guard.Roles{rolesOf(t, stack()), rolesOf(t, stack()), rolesOf(t, stack())}
	before := guard.Unused(all...)
	config := empty()
	if _, err := sqs.NewFromConfig(config).CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("settle.fifo"), Attributes: map[string]string{"FifoQueue": "true"}}); err != nil {
		t.Fatal(err)
	}
	all[1].Attach("tokentask", &config)
	if _, err := sqsqueue.New(sqs.NewFromConfig(config), queue, "").Send(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	after := guard.Unused(all...)
	gone := slices.DeleteFunc(slices.Clone(before), func(permission string) bool { return slices.Contains(after, permission) })
	if want := "tokentask: sqs:SendMessage on ${Queue.Arn}"; len(gone) != 1 || gone[0] != want {
		t.Errorf("expected %s to count as used, got %v", want, gone)
	}
}

func TestAttachPanicsForAnUnknownFunction(t *testing.T) {
	t.Parallel()
	defer func() {
		if said, _ := recover().(string); said != `guard: expected one of the functions [consumer delay executions gateway objects tokentask], got "mailer"` {
			t.Errorf("expected a panic that names mailer, got %q", said)
		}
	}()
	config := empty()
	rolesOf(t, stack()).Attach("mailer", &config)
}
