package sfncallback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/denial"
	"github.com/settle-run/settle/runtime/statechart"
)

// DescribeClient is the part of the Step Functions client that reads the status of executions.
type DescribeClient interface {
	DescribeExecution(context.Context, *sfn.DescribeExecutionInput, ...func(*sfn.Options)) (*sfn.DescribeExecutionOutput, error)
}

// StartClient is the part of the Step Functions client that Workflows uses. *sfn.Client implements it.
type StartClient interface {
	DescribeClient
	StartExecution(context.Context, *sfn.StartExecutionInput, ...func(*sfn.Options)) (*sfn.StartExecutionOutput, error)
}

// ErrorUnknownWorkflow is the error code for a workflow without a configured ARN.
const ErrorUnknownWorkflow = "Settle.UnknownWorkflow"

// Workflows implements durable.Executions. It is safe for concurrent use.
type Workflows struct {
	client StartClient
	// arns maps the names that charts use for workflows to the ARNs of the state machines.
	arns map[string]string
}

var _ durable.Executions = (*Workflows)(nil)

// NewWorkflows returns Workflows for the given state machine ARNs, keyed by the names that charts use for them. The
// state machines must be standard workflows: Step Functions does not report the end of an express execution.
func NewWorkflows(client StartClient, arns map[string]string) (*Workflows, error) {
	for name, arn := range arns {
		if parts := strings.Split(arn, ":"); len(parts) < 7 || parts[0] != "arn" || parts[2] != "states" || parts[5] != "stateMachine" {
			return nil, fmt.Errorf("workflow %q: expected the ARN of a state machine, such as arn:aws:states:eu-central-1:123456789012:stateMachine:name, got %q", name, arn)
		}
	}
	return &Workflows{client: client, arns: arns}, nil
}

// Start starts an execution and returns its ARN. If an execution of that name exists, it counts as started, even if
// Step Functions refuses to start it now. If Step Functions will never start it, Start returns a *durable.RefusedError.
// It then also returns the execution's ARN: an earlier Start may have started the execution, and DescribeExecution may
// not show it yet.
//
// After any other error, the execution may or may not have started. Start also returns such an error if Step Functions
// refuses a retry within Start, because the first call may have started the execution.
func (w *Workflows) Start(ctx context.Context, execution instances.Execution, input json.RawMessage) (arn string, err error) {
	machine, known := w.arns[execution.Workflow]
	if !known {
		return "", &durable.RefusedError{Code: ErrorUnknownWorkflow, Err: fmt.Errorf("no ARN is configured for the workflow %q", execution.Workflow)}
	}
	isFinal := func(err error) bool { return isExisting(err) || refusalOf(err) != "" }
	unsure, err := attempt(ctx, isFinal, func(once func(*sfn.Options)) error {
		started, err := w.client.StartExecution(ctx, &sfn.StartExecutionInput{
			StateMachineArn: &machine, Name: &execution.Name, Input: aws.String(string(input)),
		}, once)
		if err == nil {
			arn = aws.ToString(started.ExecutionArn)
		}
		return err
	})
	switch {
	case err == nil:
		return arn, nil
	case isExisting(err):
		return executionARN(machine, execution.Name), nil
	}
	code, err := refusalOf(err), fmt.Errorf("starting the execution %s of %s: %w", execution.Name, machine, err)
	if code == "" {
		return "", err
	}
	// An earlier Start may have started the execution and lost its response.
	arn = executionARN(machine, execution.Name)
	_, lookErr := describe(ctx, w.client, arn)
	switch {
	case lookErr == nil:
		return arn, nil
	case !unsure && (errors.Is(lookErr, durable.ErrNoExecution) || refusalOf(lookErr) != ""):
		return arn, &durable.RefusedError{Code: code, Err: err}
	default:
		return "", errors.Join(err, lookErr)
	}
}

// isExisting reports whether an execution of the name exists.
func isExisting(err error) bool {
	var exists *types.ExecutionAlreadyExists
	return errors.As(err, &exists)
}

// refusalOf returns the code of an error of StartExecution or DescribeExecution that a retry cannot fix, or "".
func refusalOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) && isRefusal(api.ErrorCode()) {
		return api.ErrorCode()
	}
	return ""
}

// isRefusal reports whether a retry cannot fix the error with this code (Step Functions API Reference, StartExecution
// and "Common errors").
func isRefusal(code string) bool {
	switch code {
	case "StateMachineDoesNotExist", "StateMachineDeleting", "InvalidArn", "InvalidName", "InvalidExecutionInput", "ValidationException":
		return true
	default:
		return denial.Is(code)
	}
}

// executionARN returns the ARN of an execution of a state machine. The machine's ARN may include a version or an
// alias.
func executionARN(machine, name string) string {
	parts := strings.Split(machine, ":")
	return strings.Join(append(slices.Clone(parts[:5]), "execution", parts[6], name), ":")
}

// Describe returns how the execution ended, or nil while it runs. Fails with durable.ErrNoExecution, durable.ErrRefused
// or durable.ErrDenied. An instance may be imported from another Region or account. The role cannot read its executions
// there, so Describe returns durable.ErrNoExecution for them.
func (w *Workflows) Describe(ctx context.Context, arn string) (*statechart.ExecutionEnded, error) {
	if len(w.arns) > 0 && !w.isNear(arn) {
		return nil, fmt.Errorf("%w: expected one in the Region and the account of the workflows, got %s", durable.ErrNoExecution, arn)
	}
	described, err := describe(ctx, w.client, arn)
	if err != nil {
		return nil, classify(err)
	}
	end, ended := endOf(described)
	if !ended {
		return nil, nil
	}
	return &end, nil
}

// isNear reports whether the execution is in the Region and the account of a workflow.
func (w *Workflows) isNear(execution string) bool {
	for _, machine := range w.arns {
		if place := strings.Join(strings.Split(machine, ":")[:5], ":"); strings.HasPrefix(execution, place+":") {
			return true
		}
	}
	return false
}

func describe(ctx context.Context, client DescribeClient, arn string) (*sfn.DescribeExecutionOutput, error) {
	described, err := client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: &arn})
	switch {
	case isUnknown(err):
		return nil, fmt.Errorf("%w: %w", durable.ErrNoExecution, err)
	case err != nil:
		return nil, fmt.Errorf("describing the execution %s: %w", arn, err)
	}
	return described, nil
}

// isUnknown reports whether Step Functions has no execution with the ARN.
func isUnknown(err error) bool {
	var gone *types.ExecutionDoesNotExist
	var wrong *types.InvalidArn
	return errors.As(err, &gone) || errors.As(err, &wrong)
}

// endOf returns how an execution ended, or false while it runs.
func endOf(described *sfn.DescribeExecutionOutput) (end statechart.ExecutionEnded, ended bool) {
	end = statechart.ExecutionEnded{
		Name: aws.ToString(described.Name), Execution: aws.ToString(described.ExecutionArn), Status: statechart.ExecutionStatus(described.Status),
		Output: json.RawMessage(aws.ToString(described.Output)), Error: aws.ToString(described.Error), Cause: aws.ToString(described.Cause),
	}
	return end, isEnd(end.Status)
}

// isEnd reports whether an execution with the status is over.
func isEnd(status statechart.ExecutionStatus) bool {
	switch status {
	case statechart.ExecutionSucceeded, statechart.ExecutionFailed, statechart.ExecutionTimedOut, statechart.ExecutionAborted:
		return true
	default:
		return false
	}
}
