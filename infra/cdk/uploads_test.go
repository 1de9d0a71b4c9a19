package cdk_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

func TestUploadsToNamedBuckets(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		p := props()
		own := awss3.NewBucket(stack, jsii.String("Own"), &awss3.BucketProps{EventBridgeEnabled: jsii.Bool(true)})
		p.UploadBuckets = []*string{jsii.String("sales-uploads"), own.BucketName()}
		cdk.NewSettle(stack, "Settle", p)
	})
	_, rule := find(t, resources, "AWS::Events::Rule", "SettleUploadsRule")
	pattern, err := json.Marshal(rule.Properties["EventPattern"])
	if got := string(pattern); err != nil || !strings.Contains(got, `"name":["sales-uploads",{"Ref":"Own`) || !strings.Contains(got, `"detail-type":["Object Created"]`) {
		t.Errorf("expected the uploads of the two buckets, got %s", got)
	}
	if rule.Properties["State"] != "ENABLED" {
		t.Errorf("expected the rule to be on, got %v", rule.Properties["State"])
	}
	deadLetters, _ := find(t, resources, "AWS::SQS::Queue", "SettleObjectsDeadLetterQueue")
	for what, in := range map[string]any{"the target": rule.Properties["Targets"], "the function": resources[functionID(t, resources, "Objects")].Properties["DeadLetterConfig"]} {
		if !strings.Contains(fmt.Sprint(in), deadLetters) {
			t.Errorf("%s: expected the dead-letter queue %s, got %v", what, deadLetters, in)
		}
	}
	if got := allowed(t, resources, "Objects", "sqs:SendMessage"); !strings.Contains(got, deadLetters) || strings.Contains(got, "Delay") {
		t.Errorf("expected objects to have permission to send only to its queues, got %s", got)
	}
	if got := environment(t, resources, "Objects"); got["SETTLE_DEAD_LETTER_QUEUE_URL"] == nil || got["SETTLE_TABLE"] != nil {
		t.Errorf("expected the environment of objects to have the dead-letter queue but not the table, got %v", got)
	}
	find(t, resources, "AWS::CloudWatch::Alarm", "SettleObjectsDeadLettersAlarm")
}

func TestNoResourcesForUploadsWithoutBuckets(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		settle := cdk.NewSettle(stack, "Settle", props())
		if settle.ObjectsDeadLetterQueue != nil || settle.Functions[cdk.Objects] != nil {
			t.Errorf("expected no function objects, got %v", settle.Functions)
		}
	})
	for id := range resources {
		if strings.HasPrefix(id, "SettleObjects") || strings.HasPrefix(id, "SettleUpload") && resources[id].Type != "AWS::StepFunctions::StateMachine" {
			t.Errorf("expected nothing for uploads, got %s", id)
		}
	}
}
