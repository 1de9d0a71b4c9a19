package cdk

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

const (
	// For how long, and how often, EventBridge tries to hand an upload to Lambda: as long as it can.
	uploadEventAge      = 24 * time.Hour
	uploadEventAttempts = 185
	// For how long Lambda keeps an upload while the function is throttled, and how often it tries again after the function has
	// failed: at most.
	uploadInvokeAge     = 6 * time.Hour
	uploadInvokeRetries = 2
)

// addUploadEvents has EventBridge tell the function objects of what is created in Props.UploadBuckets. Uploads that neither
// EventBridge nor Lambda could bring to the end of the function are kept in ObjectsDeadLetterQueue.
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
		Description: jsii.String("Settle: uploads, which become events of the machine upload."), State: jsii.String("ENABLED"),
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
