package cdk

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

const (
	// EventBridge's limits for retries of an event to Lambda: the maximum.
	uploadEventAge      = 24 * time.Hour
	uploadEventAttempts = 185
	// Lambda's limits for throttled events and for retries of a failed invocation: the maximum.
	uploadInvokeAge     = 6 * time.Hour
	uploadInvokeRetries = 2
)

// addUploadEvents sends the "Object Created" events of Props.UploadBuckets to the function objects. Events that
// EventBridge or Lambda cannot deliver go to ObjectsDeadLetterQueue.
func (s *Settle) addUploadEvents() {
	if !s.hasUploads() {
		return
	}
	function, deadLetters := s.Functions[Objects], s.ObjectsDeadLetterQueue.QueueArn()
	function.Node().DefaultChild().(awslambda.CfnFunction).SetDeadLetterConfig(&awslambda.CfnFunction_DeadLetterConfigProperty{TargetArn: deadLetters})
	awslambda.NewCfnEventInvokeConfig(s.Scope, jsii.String("ObjectsRetries"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName: function.FunctionName(), Qualifier: jsii.String("$LATEST"),
		MaximumEventAgeInSeconds: jsii.Number(uploadInvokeAge / time.Second), MaximumRetryAttempts: jsii.Number(uploadInvokeRetries),
	})
	rule := awsevents.NewCfnRule(s.Scope, jsii.String("UploadsRule"), &awsevents.CfnRuleProps{
		Description: jsii.String("Settle: uploads for the machine upload."), State: jsii.String("ENABLED"),
		EventPattern: map[string]any{
			"source": []string{"aws.s3"}, "detail-type": []string{"Object Created"},
			"detail": map[string]any{"bucket": map[string]any{"name": s.props.UploadBuckets}},
		},
		Targets: []any{map[string]any{
			"id": "function", "arn": function.FunctionArn(), "deadLetterConfig": map[string]any{"arn": deadLetters},
			"retryPolicy": map[string]any{"maximumEventAgeInSeconds": int(uploadEventAge / time.Second), "maximumRetryAttempts": uploadEventAttempts},
		}},
	})
	awslambda.NewCfnPermission(s.Scope, jsii.String("UploadsInvokeObjects"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: function.FunctionArn(), Principal: jsii.String("events.amazonaws.com"), SourceArn: rule.AttrArn(),
	})
	letSend(rule, s.ObjectsDeadLetterQueue)
}
