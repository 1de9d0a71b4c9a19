package simulate_test

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/statechart"
)

// This file defines the workflows that drawn charts start.

// flowEnded is the event that reports the end of a workflow to its chart.
const flowEnded = "flow.ended"

const flowARN = "arn:aws:states:" + awslocal.Region + ":" + awslocal.Account + ":stateMachine:"

// flows maps the names that charts use for workflows to state machines. The state machine `ghost` does not exist.
var flows = map[string]string{"flow": flowARN + "flow", "ghost": flowARN + "ghost"}

// flow ends immediately, after a while, with an error, or only at its timeout, depending on its input.
const flow = `{"StartAt": "How", "TimeoutSeconds": 1800, "States": {
	"How": {"Type": "Choice", "Choices": [{"Variable": "$.how", "StringEquals": "slow", "Next": "Slow"}, {"Variable": "$.how", "StringEquals": "bad", "Next": "Bad"},
		{"Variable": "$.how", "StringEquals": "later", "Next": "Later"}], "Default": "Done"},
	"Slow": {"Type": "Wait", "Seconds": 86400, "Next": "Done"}, "Later": {"Type": "Wait", "Seconds": 1200, "Next": "Done"},
	"Bad": {"Type": "Fail", "Error": "Flow.Bad", "Cause": "as its input says"},
	"Done": {"Type": "Pass", "Parameters": {"digest.$": "$.digest"}, "End": true}}}`

func (s *simulation) createFlow() {
	_, err := sfn.NewFromConfig(s.truth()).CreateStateMachine(s.t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String("flow"), RoleArn: aws.String(anyRole), Definition: aws.String(flow),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// starting draws an action that starts a workflow.
func (d *drawer) starting() chartAction {
	workflow, how := anyOf(d.Rand, "flow", "flow", "flow", "flow", "ghost"), anyOf(d.Rand, "well", "well", "later", "bad", "slow")
	return statechart.StartWorkflow(workflow, flowEnded, func(c trail, _ statechart.Event) any {
		return map[string]string{"how": how, "digest": c.Digest}
	})
}
