package plain

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
	"github.com/settle-run/settle/infra/cdk/internal/template"
)

// Options returns the additional permissions of functions for state machines in Props, by the prop's name in
// functions.json. The statements call the state machine ${Workflow}.
func Options() (map[string]map[string][]template.Statement, error) {
	without, err := variant(func(*cdk.Props, awsstepfunctions.IStateMachine) {})
	if err != nil {
		return nil, err
	}
	options := map[string]map[string][]template.Statement{}
	for name, use := range map[string]func(*cdk.Props, awsstepfunctions.IStateMachine){
		"workflows": func(p *cdk.Props, workflow awsstepfunctions.IStateMachine) {
			p.Workflows = map[string]awsstepfunctions.IStateMachine{"workflow": workflow}
		},
		"waitingWorkflows": func(p *cdk.Props, workflow awsstepfunctions.IStateMachine) {
			p.WaitingWorkflows = []awsstepfunctions.IStateMachine{workflow}
		},
	} {
		with, err := variant(use)
		if err != nil {
			return nil, err
		}
		if options[name], err = template.Added(without, with); err != nil {
			return nil, err
		}
	}
	return options, nil
}

// variant returns the template of a stack with the construct and a state machine named Workflow. use may add the state
// machine to the props.
func variant(use func(*cdk.Props, awsstepfunctions.IStateMachine)) (template.Template, error) {
	text, err := synthesize(func(stack awscdk.Stack) {
		workflow := awsstepfunctions.NewStateMachine(stack, jsii.String("Workflow"), &awsstepfunctions.StateMachineProps{
			DefinitionBody: awsstepfunctions.DefinitionBody_FromString(jsii.String(`{"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}`)),
		})
		workflow.Node().DefaultChild().(awscdk.CfnElement).OverrideLogicalId(jsii.String("Workflow"))
		props := cdk.Props{
			WithoutExamples: true,
			Code:            cdk.CodeFromBucket(jsii.String("code"), func(function string) *string { return jsii.String(function + ".zip") }),
		}
		use(&props, workflow)
		nameResources(cdk.NewSettle(stack, "Settle", props))
	})
	if err != nil {
		return nil, err
	}
	return template.Parse(text)
}
