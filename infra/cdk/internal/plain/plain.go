// Package plain generates infra/template.yaml from the construct. The template has no assets and needs no CDK bootstrap
// stack, so the aws CLI alone can deploy it.
package plain

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

// stackName is the stack's name in CDK. It does not appear in the template.
const stackName = "Settle"

// description is the template's description.
const description = "Settle: statecharts in Go on Lambda, SQS FIFO and DynamoDB. Generated from infra/cdk by make infra; deployed by make deploy."

// Synthesize returns the template as written by CDK, in JSON.
func Synthesize() ([]byte, error) { return synthesize(fill) }

// synthesize returns the template of a stack.
func synthesize(fill func(awscdk.Stack)) ([]byte, error) {
	folder, err := os.MkdirTemp("", "settle-cdk-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: &folder, AnalyticsReporting: jsii.Bool(false)})
	stack := awscdk.NewStack(app, jsii.String(stackName), &awscdk.StackProps{
		Synthesizer: awscdk.NewBootstraplessSynthesizer(nil), Description: jsii.String(description),
	})
	fill(stack)
	app.Synth(nil)
	text, err := os.ReadFile(filepath.Join(folder, stackName+".template.json"))
	if err != nil {
		return nil, fmt.Errorf("reading the synthesized template: %w", err)
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("expected CDK to write JSON, got %d bytes of something else", len(text))
	}
	return text, nil
}

// fill adds the parameters, the construct and the outputs.
func fill(stack awscdk.Stack) {
	bucket := parameter(stack, "CodeBucket", "The S3 bucket with the functions' zips.", nil)
	keys := map[string]awscdk.CfnParameter{}
	for _, name := range cdk.Functions {
		keys[name] = parameter(stack, strings.ToUpper(name[:1])+name[1:]+"Code", "The key of the zip of functions/"+name+".", nil)
	}
	buckets := uploadBuckets(stack)
	topic := parameter(stack, "AlarmTopic", "The ARN of an SNS topic for alarms. Empty: alarms are only shown in the console.", jsii.String(""))
	awscdk.NewCfnCondition(stack, jsii.String("HasAlarmTopic"), &awscdk.CfnConditionProps{
		Expression: awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(topic.ValueAsString(), "")),
	})
	concurrency := awscdk.NewCfnParameter(stack, jsii.String("ConsumerConcurrency"), &awscdk.CfnParameterProps{
		Type: jsii.String("Number"), Default: 50, MinValue: jsii.Number(cdk.ConsumerConcurrencyMin), MaxValue: jsii.Number(cdk.ConsumerConcurrencyMax),
		Description: jsii.String("The maximum number of batches of events processed at once."),
	})
	settle := cdk.NewSettle(stack, "Settle", cdk.Props{
		Name:          awscdk.Aws_STACK_NAME(),
		Code:          cdk.CodeFromBucket(bucket.ValueAsString(), func(function string) *string { return keys[function].ValueAsString() }),
		AlarmActions:  []*string{awscdk.Token_AsString(awscdk.Fn_ConditionIf(jsii.String("HasAlarmTopic"), topic.ValueAsString(), awscdk.Aws_NO_VALUE()), nil)},
		UploadBuckets: *buckets,
	})
	settle.Scope.Node().FindChild(jsii.String("UploadsRule")).(awsevents.CfnRule).
		SetState(awscdk.Token_AsString(awscdk.Fn_ConditionIf(jsii.String(hasUploadBuckets), "ENABLED", "DISABLED"), nil))
	settle.Scope.Node().FindChild(jsii.String("ConsumerMapping")).Node().DefaultChild().(awslambda.CfnEventSourceMapping).
		AddPropertyOverride(jsii.String("ScalingConfig.MaximumConcurrency"), concurrency.ValueAsNumber())
	settle.AddOutputs()
	for _, workflow := range settle.Workflows {
		// cfn-lint 1.51 rejects OutputPath in a Succeed state, although Amazon States Language allows it. asl-validator
		// checks the workflows.
		workflow.Node().DefaultChild().(awscdk.CfnResource).AddMetadata(jsii.String("cfn-lint"), map[string]any{
			"config": map[string]any{"ignore_checks": []string{"E3601"}},
		})
	}
	nameResources(settle)
}

// hasUploadBuckets is the condition that enables the rule for uploads.
const hasUploadBuckets = "HasUploadBuckets"

// uploadBuckets adds the parameter UploadBuckets and returns its value. If it is empty, the value is an impossible
// bucket name, because the pattern of a rule needs at least one.
func uploadBuckets(stack awscdk.Stack) *[]*string {
	list := awscdk.NewCfnParameter(stack, jsii.String("UploadBuckets"), &awscdk.CfnParameterProps{
		Type: jsii.String("CommaDelimitedList"), Default: "",
		Description: jsii.String("Names of S3 buckets, separated by commas. Uploads to them become events of the machine upload. Empty: none."),
	}).ValueAsList()
	awscdk.NewCfnCondition(stack, jsii.String(hasUploadBuckets), &awscdk.CfnConditionProps{
		Expression: awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(awscdk.Fn_Join(jsii.String(""), list), "")),
	})
	return awscdk.Token_AsList(awscdk.Fn_ConditionIf(jsii.String(hasUploadBuckets), list, []string{"-"}), nil)
}

func parameter(stack awscdk.Stack, id, description string, otherwise *string) awscdk.CfnParameter {
	props := &awscdk.CfnParameterProps{Type: jsii.String("String"), Description: &description}
	if otherwise != nil {
		props.Default = *otherwise
	}
	return awscdk.NewCfnParameter(stack, &id, props)
}

// nameResources gives the resources their names in the construct, without CDK's hashes. They are unique, because the
// template contains one Settle.
func nameResources(settle *cdk.Settle) {
	prefix := *settle.Scope.Node().Path() + "/"
	for _, child := range *settle.Scope.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		if !*awscdk.CfnElement_IsCfnElement(child) {
			continue
		}
		name := strings.TrimSuffix(strings.TrimPrefix(*child.Node().Path(), prefix), "/Resource")
		child.(awscdk.CfnElement).OverrideLogicalId(jsii.String(strings.ReplaceAll(name, "/", "")))
	}
}
