package tour

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/infra/workflows"
	"github.com/settle-run/settle/runtime/instances"
)

// startWorkflow starts an execution of the workflow for the instance, with additional input.
func (p *player) startWorkflow(name, instance string, input map[string]any) (execution string) {
	definition, err := workflows.Definition(name)
	p.check(err)
	client := sfn.NewFromConfig(p.stack.AWS())
	machine, err := client.CreateStateMachine(p.ctx, &sfn.CreateStateMachineInput{
		Name: &name, Definition: &definition, RoleArn: aws.String(p.stack.RoleARN("settle-workflows")),
	})
	p.check(err, "creating the workflow "+name)
	whole := map[string]any{"instance": instance, "queue_url": p.stack.QueueURL()}
	maps.Copy(whole, input)
	p.lead(func() string {
		started, err := client.StartExecution(p.ctx, &sfn.StartExecutionInput{
			StateMachineArn: machine.StateMachineArn, Input: aws.String(string(p.json(whole))),
		})
		p.check(err, "starting the workflow "+name)
		execution = *started.ExecutionArn
		return fmt.Sprintf("%s infra/workflows/%s.asl.json, which waits for %s", p.config.Style.Bold("StartExecution"), name, instance)
	})
	p.showPage(instance)
	return execution
}

// pollInterval is the polling interval for executions and instances.
const pollInterval = 20 * time.Millisecond

// poll calls `done` until `done` returns true. If the tour reaches its time limit first, the error contains `what`.
func (p *player) poll(what string, done func() bool) {
	for !done() {
		select {
		case <-time.After(pollInterval):
		case <-p.ctx.Done():
			p.check(context.Cause(p.ctx), "waited for "+what)
		}
	}
}

// load returns the stored instance.
func (p *player) load(instance string) instances.Record {
	id, err := instances.ParseID(instance)
	p.check(err)
	record, err := p.stack.Load(p.ctx, id)
	p.check(err)
	return record
}

// taskWaits waits until the instance holds the task's token. Without this wait, the order of the output would vary.
func (p *player) taskWaits(instance, name string) {
	p.poll(instance+" to hold the token of the task "+name, func() bool {
		return slices.ContainsFunc(p.load(instance).Tokens, func(k instances.Token) bool { return k.Name == name })
	})
}

// performed waits until the instance owes no effects. The consumer performs effects after the commit, and so after the
// transitions are printed.
func (p *player) performed(instance string) {
	p.poll(instance+" to perform its effects", func() bool {
		record := p.load(instance)
		return record.Revision > 0 && !record.Owes()
	})
}

// execution is an ended execution.
type execution struct {
	// workflow is the name of the execution's definition.
	workflow string
	status   types.ExecutionStatus
	// path has the states that the execution entered, with arrows between them.
	path string
	// output is the output as JSON. If the execution failed, `failure` is its error and `output` is its cause.
	failure, output string
}

// ended waits until the execution has ended, and checks its path.
func (p *player) ended(workflow, arn, path string) execution {
	client := sfn.NewFromConfig(p.stack.AWS())
	var described *sfn.DescribeExecutionOutput
	p.poll("the execution "+arn+" to end", func() (ended bool) {
		var err error
		described, err = client.DescribeExecution(p.ctx, &sfn.DescribeExecutionInput{ExecutionArn: &arn})
		p.check(err, "describing the execution "+arn)
		return described.Status != types.ExecutionStatusRunning
	})
	e := execution{workflow: workflow, status: described.Status, output: aws.ToString(described.Output)}
	if e.status != types.ExecutionStatusSucceeded {
		e.failure, e.output = aws.ToString(described.Error), aws.ToString(described.Cause)
	}
	var entered []string
	pages := sfn.NewGetExecutionHistoryPaginator(client, &sfn.GetExecutionHistoryInput{ExecutionArn: &arn})
	for pages.HasMorePages() {
		page, err := pages.NextPage(p.ctx)
		p.check(err, "reading the history of the execution "+arn)
		for _, event := range page.Events {
			if event.StateEnteredEventDetails != nil {
				entered = append(entered, *event.StateEnteredEventDetails.Name)
			}
		}
	}
	if e.path = strings.Join(entered, " → "); e.path != path {
		p.check(fmt.Errorf("expected the execution %s to go through %s, got %s with %s %s", arn, path, e.path, e.failure, e.output))
	}
	return e
}
