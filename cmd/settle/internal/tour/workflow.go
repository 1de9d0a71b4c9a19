package tour

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/infra/workflows"
	"github.com/settle-run/settle/runtime/durable"
)

// workflowInterval is how often the tour looks whether an execution has ended.
const workflowInterval = 20 * time.Millisecond

// startWorkflow starts an execution of the workflow, and returns once it waits for the instance in the
// task that is named.
func (p *player) startWorkflow(ctx context.Context, name, instance, waitsIn string) (execution string, err error) {
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
	input, err := json.Marshal(map[string]string{"instance": instance, "queue_url": p.stack.QueueURL()})
	if err != nil {
		return "", err
	}
	started, err := client.StartExecution(ctx, &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn, Input: aws.String(string(input))})
	if err != nil {
		return "", fmt.Errorf("starting the workflow %s: %w", name, err)
	}
	p.say("   %s infra/workflows/%s.asl.json, which waits for %s", p.config.Style.Bold("StartExecution"), name, instance)
	return *started.ExecutionArn, p.taskWaits(ctx, instance, waitsIn)
}

// taskWaits returns once the instance holds the token of a task that waits under the name: else its
// event could come before or after the next one of the story.
func (p *player) taskWaits(ctx context.Context, instance, name string) error {
	id, err := durable.ParseInstanceID(instance)
	if err != nil {
		return err
	}
	for {
		record, err := p.stack.Load(ctx, id)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(record.Tokens, func(k durable.Token) bool { return k.Name == name }) {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("waited for a task %s to wait for %s: %w", name, instance, err)
		}
	}
}

// pause waits for workflowInterval, or returns the cause when ctx ends before.
func pause(ctx context.Context) error {
	select {
	case <-time.After(workflowInterval):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// workflowEnded waits until the execution has ended, and prints the states on its way and its output.
func (p *player) workflowEnded(ctx context.Context, execution string, path ...string) error {
	client := sfn.NewFromConfig(p.stack.AWS())
	described, err := client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: &execution})
	for err == nil && described.Status == types.ExecutionStatusRunning {
		if err := pause(ctx); err != nil {
			return fmt.Errorf("waited for the execution %s to end: %w", execution, err)
		}
		described, err = client.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: &execution})
	}
	if err != nil {
		return fmt.Errorf("describing the execution %s: %w", execution, err)
	}
	var way []string
	pages := sfn.NewGetExecutionHistoryPaginator(client, &sfn.GetExecutionHistoryInput{ExecutionArn: &execution})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("reading the history of the execution %s: %w", execution, err)
		}
		for _, event := range page.Events {
			if event.StateEnteredEventDetails != nil {
				way = append(way, *event.StateEnteredEventDetails.Name)
			}
		}
	}
	end := aws.ToString(described.Output)
	if described.Status != types.ExecutionStatusSucceeded {
		end = aws.ToString(described.Error) + ": " + aws.ToString(described.Cause)
	}
	p.say("   workflow  %s  %s\n             %s", strings.Join(way, " → "), p.config.Style.State(string(described.Status)), end)
	if !slices.Equal(way, path) {
		return fmt.Errorf("expected the execution %s to go through %v, got %v", execution, path, way)
	}
	return nil
}
