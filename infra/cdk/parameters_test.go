package cdk_test

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

// sizeParameters set the size of the consumer in a template without lanes.
type sizeParameters struct{ concurrency, pollers awscdk.CfnParameter }

func addSizeParameters(stack awscdk.Stack) sizeParameters {
	return sizeParameters{
		concurrency: awscdk.NewCfnParameter(stack, jsii.String("ConsumerConcurrency"), &awscdk.CfnParameterProps{
			Type: jsii.String("Number"), Default: 50, MinValue: jsii.Number(cdk.ConsumerConcurrencyMin), MaxValue: jsii.Number(cdk.ConsumerConcurrencyMax),
			Description: jsii.String("The maximum number of batches of events processed at once."),
		}),
		pollers: awscdk.NewCfnParameter(stack, jsii.String("ConsumerPollers"), &awscdk.CfnParameterProps{
			Default: "", AllowedPattern: jsii.String(`^$|^([2-9]|[1-9][0-9]|1[0-9][0-9]|200)-([2-9]|[1-9][0-9]{1,3}|10000)$`),
			ConstraintDescription: jsii.String("must be MINIMUM-MAXIMUM, such as 2-20, with a minimum from 2 to 200 and a maximum from 2 to 10000, or empty."),
			Description: jsii.String("Event pollers that Lambda keeps ready, MINIMUM-MAXIMUM, such as 2-20, in place of ConsumerConcurrency. " +
				"Each runs up to ten batches at once, and has an hourly price. Empty: none."),
		}),
	}
}

// provision replaces the mapping's maximum concurrency with event pollers if the parameter pollers has a
// value. It returns their maximum number. CloudFormation cannot compare numbers, so infra/deploy.sh refuses a
// minimum above the maximum. Without deploy.sh, Lambda refuses such a minimum.
func provision(stack awscdk.Stack, mapping awslambda.CfnEventSourceMapping, pollers, concurrency awscdk.CfnParameter) *string {
	has := awscdk.NewCfnCondition(stack, jsii.String("HasConsumerPollers"), &awscdk.CfnConditionProps{
		Expression: awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(pollers.ValueAsString(), "")),
	})
	awscdk.NewCfnRule(stack, jsii.String("PollersReplaceConcurrency"), &awscdk.CfnRuleProps{
		RuleCondition: awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(pollers.ValueAsString(), "")),
		Assertions: &[]*awscdk.CfnRuleAssertion{{
			Assert:            awscdk.Fn_ConditionEquals(concurrency.ValueAsString(), "50"),
			AssertDescription: jsii.String("Lambda accepts ConsumerPollers or ConsumerConcurrency, not both: set ConsumerConcurrency to 50, its default, or leave ConsumerPollers empty."),
		}},
	})
	// Fn::Select fails if an element is missing. The hyphen appended here gives an empty parameter two empty parts.
	parts := awscdk.Fn_Split(jsii.String("-"), awscdk.Fn_Join(jsii.String(""), jsii.Strings(*pollers.ValueAsString(), "-")), nil)
	least, most := awscdk.Fn_Select(jsii.Number(0), parts), awscdk.Fn_Select(jsii.Number(1), parts)
	mapping.AddPropertyOverride(jsii.String("ProvisionedPollerConfig"), awscdk.Fn_ConditionIf(has.LogicalId(),
		map[string]any{"MinimumPollers": least, "MaximumPollers": most}, awscdk.Aws_NO_VALUE()))
	// With pollers, ScalingConfig is empty, as in cdk.Pollers.
	mapping.AddPropertyOverride(jsii.String("ScalingConfig.MaximumConcurrency"),
		awscdk.Fn_ConditionIf(has.LogicalId(), awscdk.Aws_NO_VALUE(), concurrency.ValueAsNumber()))
	return most
}

// reserve adds the parameter ReserveConsumerConcurrency. If it is on, the consumer has the reserved concurrency
// `reserved`. `what` describes this number to the user.
func reserve(stack awscdk.Stack, consumer awslambda.CfnFunction, what string, reserved any) {
	reserve := awscdk.NewCfnParameter(stack, jsii.String("ReserveConsumerConcurrency"), &awscdk.CfnParameterProps{
		Default: "off", AllowedValues: jsii.Strings("off", "on"),
		Description: jsii.String("On: " + what + " of the account's concurrency is reserved for the consumer. The quota must be at least 100 higher."),
	})
	awscdk.NewCfnCondition(stack, jsii.String("ReservesConsumerConcurrency"), &awscdk.CfnConditionProps{
		Expression: awscdk.Fn_ConditionEquals(reserve.ValueAsString(), "on"),
	})
	consumer.AddPropertyOverride(jsii.String("ReservedConcurrentExecutions"),
		awscdk.Fn_ConditionIf(jsii.String("ReservesConsumerConcurrency"), reserved, awscdk.Aws_NO_VALUE()))
}

// tableStream adds the parameter TableStream, which sets the table's stream.
func tableStream(stack awscdk.Stack, table awsdynamodb.Table) {
	stream := awscdk.NewCfnParameter(stack, jsii.String("TableStream"), &awscdk.CfnParameterProps{
		Default: "off", AllowedValues: jsii.Strings("off", "on"),
		Description: jsii.String("On: the table has a stream with old and new images, for consumers of your own."),
	})
	awscdk.NewCfnCondition(stack, jsii.String("HasTableStream"), &awscdk.CfnConditionProps{
		Expression: awscdk.Fn_ConditionEquals(stream.ValueAsString(), "on"),
	})
	table.Node().DefaultChild().(awsdynamodb.CfnTable).AddPropertyOverride(jsii.String("StreamSpecification"),
		awscdk.Fn_ConditionIf(jsii.String("HasTableStream"), map[string]any{"StreamViewType": "NEW_AND_OLD_IMAGES"}, awscdk.Aws_NO_VALUE()))
}

// openRoute adds a parameter for a route without IAM authorization. If the parameter is off, the template has neither
// the route nor its limit. DependsOn accepts no condition, so a reference in the stage's metadata makes the stage wait
// for the route.
func openRoute(stack awscdk.Stack, settle *cdk.Settle, id, route, key, purpose string) {
	opens := awscdk.NewCfnParameter(stack, &id, &awscdk.CfnParameterProps{
		Default: "on", AllowedValues: jsii.Strings("off", "on"),
		Description: jsii.String("On: the HTTP API has the route for " + purpose + ", without IAM authorization. Off: it has no such route."),
	})
	has := awscdk.NewCfnCondition(stack, jsii.String("Has"+id), &awscdk.CfnConditionProps{
		Expression: awscdk.Fn_ConditionEquals(opens.ValueAsString(), "on"),
	})
	opened := settle.Scope.Node().FindChild(&route).(awsapigatewayv2.CfnRoute)
	opened.CfnOptions().SetCondition(has)
	stage := settle.Scope.Node().FindChild(jsii.String("HttpApiStage")).(awsapigatewayv2.CfnStage)
	limits := stage.RouteSettings().(map[string]any)
	stage.AddPropertyOverride(jsii.String("RouteSettings."+key), awscdk.Fn_ConditionIf(has.LogicalId(), limits[key], awscdk.Aws_NO_VALUE()))
	stage.RemoveDependency(opened)
	stage.AddMetadata(&route, awscdk.Fn_ConditionIf(has.LogicalId(), opened.Ref(), awscdk.Aws_NO_VALUE()))
}

// rotation adds a parameter that rotates a secret, as Secrets.RotateEnrichCallbackKey does. During a rotation, the
// functions' variable holds the version AWSPENDING, and a second variable holds the version AWSCURRENT.
func rotation(stack awscdk.Stack, settle *cdk.Settle, id, variable string, functions ...string) {
	rotate := awscdk.NewCfnParameter(stack, jsii.String("Rotate"+id), &awscdk.CfnParameterProps{
		Default: "off", AllowedValues: jsii.Strings("off", "on"),
		Description: jsii.String("On: the version AWSPENDING of the secret " + id + " is in use, and AWSCURRENT is accepted too."),
	})
	condition := jsii.String("Rotates" + id)
	awscdk.NewCfnCondition(stack, condition, &awscdk.CfnConditionProps{Expression: awscdk.Fn_ConditionEquals(rotate.ValueAsString(), "on")})
	secret := settle.Scope.Node().FindChild(&id).(awssecretsmanager.Secret)
	current, pending := secret.SecretValue().UnsafeUnwrap(), cdk.PendingVersion(secret).UnsafeUnwrap()
	for _, name := range functions {
		function := settle.Functions[name].Node().DefaultChild().(awslambda.CfnFunction)
		function.AddPropertyOverride(jsii.String("Environment.Variables."+variable), awscdk.Fn_ConditionIf(condition, pending, current))
		function.AddPropertyOverride(jsii.String("Environment.Variables."+variable+"_PREVIOUS"), awscdk.Fn_ConditionIf(condition, current, awscdk.Aws_NO_VALUE()))
	}
}

// hasUploadBuckets is the condition that enables the rule for uploads.
const hasUploadBuckets = "HasUploadBuckets"

// uploadBuckets adds the parameter UploadBuckets and returns its value. If the parameter is empty, the value is an
// impossible bucket name, because the pattern of a rule needs at least one.
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
