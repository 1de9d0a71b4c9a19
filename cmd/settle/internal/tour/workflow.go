package tour

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/infra/workflows"
	"github.com/settle-run/settle/runtime/durable"
)

// workflowInterval is the polling interval for executions and instances.
const workflowInterval = 20 * time.Millisecond

// startWorkflow starts an execution of the workflow for the instance, with additional input.
func (p *player) startWorkflow(ctx context.Context, name, instance string, input map[string]any) (execution string, err error) {
	definition, err := workflows.Definition(name)
	if err != nil {
		return "", err
	}
	client := sfn.NewFromConfig(p.stack.AWS())
	machine, err := client.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{
		Name: &name, Definition: &definition, RoleArn: aws.String(p.stack.RoleARN("settle-workflows")),
	})
	if err != nil {
		return "", fmt.Errorf("creating the workflow %s: %w", name, err)
	}
	whole := map[string]any{"instance": instance, "queue_url": p.stack.QueueURL()}
	maps.Copy(whole, input)
	text, err := json.Marshal(whole)
	if err != nil {
		return "", err
	}
	p.seen.hold()
	defer p.seen.release()
	started, err := client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn, Input: aws.String(string(text))})
	if err != nil {
		return "", fmt.Errorf("starting the workflow %s: %w", name, err)
	}
	p.say("   %s infra/workflows/%s.asl.json, which waits for %s", p.config.Style.Bold("StartExecution"), name, instance)
	return *started.ExecutionArn, nil
}

// taskWaits returns once the instance holds the task's token. Without this wait, the order of the story would vary.
func (p *player) taskWaits(ctx context.Context, instance, name string) error {
	return p.stored(ctx, instance, "hold the token of the task "+name, func(record durable.Record) bool {
		return slices.ContainsFunc(record.Tokens, func(k durable.Token) bool { return k.Name == name })
	})
}

// performed returns once the instance's outbox is empty. Effects are performed after the commit, and so after the
// transitions are printed.
func (p *player) performed(ctx context.Context, instance string) error {
	return p.stored(ctx, instance, "perform its effects", func(record durable.Record) bool {
		return record.Revision > 0 && len(record.Outbox) == 0
	})
}

// stored polls the instance until wanted returns true.
func (p *player) stored(ctx context.Context, instance, what string, wanted func(durable.Record) bool) error {
	id, err := durable.ParseInstanceID(instance)
	if err != nil {
		return err
	}
	for {
		record, err := p.stack.Load(ctx, id)
		if err != nil || wanted(record) {
			return err
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("waited for %s to %s: %w", instance, what, err)
		}
	}
}

// pause waits for workflowInterval. It returns the cause if ctx ends first.
func pause(ctx context.Context) error {
	select {
	case <-time.After(workflowInterval):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// execution is an ended execution.
type execution struct {
	// workflow is the name of its definition.
	workflow string
	status   types.ExecutionStatus
	// path has the states that it entered.
	path []string
	// output is the output as JSON. If the execution failed, failure is its error and output its cause.
	failure, output string
}

// ended waits until the execution has ended, and checks its path.
func (p *player) ended(ctx context.Context, workflow, arn string, path ...string) (execution, error) {
	client := sfn.NewFromConfig(p.stack.AWS())
	described, err := client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: &arn})
	for err == nil && described.Status == types.ExecutionStatusRunning {
		if err := pause(ctx); err != nil {
			return execution{}, fmt.Errorf("waited for the execution %s to end: %w", arn, err)
		}
		described, err = client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: &arn})
	}
	if err != nil {
		return execution{}, fmt.Errorf("describing the execution %s: %w", arn, err)
	}
	e := execution{workflow: workflow, status: described.Status, output: aws.ToString(described.Output)}
	if e.status != types.ExecutionStatusSucceeded {
		e.failure, e.output = aws.ToString(described.Error), aws.ToString(described.Cause)
	}
	pages := sfn.NewGetExecutionHistoryPaginator(client, &sfn.GetExecutionHistoryInput{ExecutionArn: &arn})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return execution{}, fmt.Errorf("reading the history of the execution %s: %w", arn, err)
		}
		for _, event := range page.Events {
			if event.StateEnteredEventDetails != nil {
				e.path = append(e.path, *event.StateEnteredEventDetails.Name)
			}
		}
	}
	if !slices.Equal(e.path, path) {
		return e, fmt.Errorf("expected the execution %s to go through %s, got %s with %s %s", arn, strings.Join(path, ", "), strings.Join(e.path, ", "), e.failure, e.output)
	}
	return e, nil
}
