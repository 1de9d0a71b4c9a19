package cdk_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/aws-cdk-go/awscdk/v2/cloudformationinclude"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

var (
	update     = flag.Bool("update", false, "regenerate infra/template.yaml and infra/functions.json")
	outputFile = flag.String("template", "", "the file for the template with -lanes and -lane-rules")
	lanes      = flag.String("lanes", "", "the lanes with their sizes, as in Props.SetLanes")
	laneRules  = flag.String("lane-rules", "", "the rules that assign new instances to lanes, as in Props.LaneRules")
)

// infra is the folder of the generated files.
const infra = ".."

// kernel serializes the use of CDK's process, which handles one app at a time.
var kernel sync.Mutex

// synthesize returns the template of a stack as written by CDK, in JSON. It needs no CDK bootstrap stack.
func synthesize(t *testing.T, fill func(awscdk.Stack)) []byte {
	t.Helper()
	kernel.Lock()
	defer kernel.Unlock()
	folder := t.TempDir()
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: &folder, AnalyticsReporting: jsii.Bool(false)})
	fill(awscdk.NewStack(app, jsii.String("Stack"), &awscdk.StackProps{Synthesizer: awscdk.NewBootstraplessSynthesizer(nil)}))
	app.Synth(nil)
	text, err := os.ReadFile(filepath.Join(folder, "Stack.template.json"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// committed returns the template in infra/template.yaml, as CDK reads it.
func committed(t *testing.T) object {
	t.Helper()
	reading.Do(func() { read = included(t, filepath.Join(infra, "template.yaml")) })
	return parsed(t, read)
}

// withLanes returns the template that `make template` writes with someLanes and someLaneRules, as CDK reads it.
func withLanes(t *testing.T) object {
	t.Helper()
	readingLaned.Do(func() {
		rendered, err := render(synthesize(t, func(stack awscdk.Stack) { fill(stack, someLanes, someLaneRules) }))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "template.yaml")
		if err := os.WriteFile(path, rendered, 0o600); err != nil {
			t.Fatal(err)
		}
		readLaned = included(t, path)
	})
	return parsed(t, readLaned)
}

// templates are the templates that every check reads: without and with lanes.
var templates = map[bool]func(*testing.T) object{false: committed, true: withLanes}

// included returns the template of a file, as CDK reads it.
func included(t *testing.T, path string) string {
	t.Helper()
	return attribute.ReplaceAllString(string(synthesize(t, func(stack awscdk.Stack) {
		cloudformationinclude.NewCfnInclude(stack, jsii.String("Template"), &cloudformationinclude.CfnIncludeProps{TemplateFile: &path})
	})), `"Fn::GetAtt": ["$1", "$2"]`)
}

var (
	reading, readingLaned sync.Once
	read, readLaned       string
	// attribute matches the short form of GetAtt, which CDK's assertions do not follow.
	attribute = regexp.MustCompile(`"Fn::GetAtt": "(\w+)\.(\w+)"`)
)

// TestCommittedFilesAreCurrent compares the committed files with the construct's output. With -update it writes them.
func TestCommittedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	text := synthesize(t, plain)
	if again := synthesize(t, plain); !bytes.Equal(text, again) {
		t.Errorf("two syntheses differ\n%s", firstDifference(text, again))
	}
	rendered, err := render(text)
	if err != nil {
		t.Fatal(err)
	}
	extracted, err := extract(parsed(t, string(text)), options(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"template.yaml": rendered, "functions.json": extracted} {
		path := filepath.Join(infra, name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("infra/%s differs from the output of infra/cdk: run `make infra INFRA_FLAGS=-update` and review the diff\n%s", name, firstDifference(got, want))
		}
	}
}

// TestTemplateIsWritten writes the template of `make template`.
func TestTemplateIsWritten(t *testing.T) {
	t.Parallel()
	if *outputFile == "" {
		t.Skip("make template runs this test")
	}
	defer func() {
		if problem := recover(); problem != nil {
			t.Fatal(problem)
		}
	}()
	rendered, err := render(synthesize(t, func(stack awscdk.Stack) { fill(stack, *lanes, *laneRules) }))
	if err == nil {
		err = os.WriteFile(*outputFile, rendered, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// firstDifference returns the first lines that differ.
func firstDifference(got, want []byte) string {
	gotLines, wantLines := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(gotLines), len(wantLines)) {
		if !bytes.Equal(gotLines[i], wantLines[i]) {
			return "got  " + string(gotLines[i]) + "\nwant " + string(wantLines[i])
		}
	}
	return "one has more lines"
}

// options returns the permissions that a state machine or a lane in Props adds to the functions, by the prop's name in
// functions.json and by function. In the statements, ${Workflow} stands for the state machine, and ${Lane} for the lane's
// queue.
func options(t *testing.T) map[string]map[string][]statement {
	t.Helper()
	without := variant(t, func(*cdk.Props, awsstepfunctions.IStateMachine) {})
	options := map[string]map[string][]statement{}
	for name, use := range map[string]func(*cdk.Props, awsstepfunctions.IStateMachine){
		"workflows": func(p *cdk.Props, workflow awsstepfunctions.IStateMachine) {
			p.Workflows = map[string]awsstepfunctions.IStateMachine{"workflow": workflow}
		},
		"waitingWorkflows": func(p *cdk.Props, workflow awsstepfunctions.IStateMachine) {
			p.WaitingWorkflows = []awsstepfunctions.IStateMachine{workflow}
		},
		"lanes": func(p *cdk.Props, _ awsstepfunctions.IStateMachine) { p.Lanes = []cdk.Lane{{Name: "lane"}} },
	} {
		var err error
		if options[name], err = added(without, variant(t, use)); err != nil {
			t.Fatal(err)
		}
	}
	return options
}

// variant returns the template of a stack with the construct and a state machine named Workflow. The function `use` may
// add the state machine to the props.
func variant(t *testing.T, use func(*cdk.Props, awsstepfunctions.IStateMachine)) object {
	t.Helper()
	return parsed(t, string(synthesize(t, func(stack awscdk.Stack) {
		workflow := awsstepfunctions.NewStateMachine(stack, jsii.String("Workflow"), &awsstepfunctions.StateMachineProps{
			DefinitionBody: awsstepfunctions.DefinitionBody_FromString(jsii.String(`{"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}`)),
		})
		workflow.Node().DefaultChild().(awscdk.CfnElement).OverrideLogicalId(jsii.String("Workflow"))
		p := props()
		p.WithoutExamples, p.UploadBuckets = true, []*string{jsii.String("sales-uploads")}
		use(&p, workflow)
		settle := cdk.NewSettle(stack, "Settle", p)
		nameResources(settle)
		for _, lane := range settle.Lanes {
			lane.Node().DefaultChild().(awscdk.CfnElement).OverrideLogicalId(jsii.String("Lane"))
		}
	})))
}

// plain fills the stack of infra/template.yaml. It has no assets, so the aws CLI alone can deploy it.
func plain(stack awscdk.Stack) { fill(stack, "", "") }

// fill fills the stack of infra/template.yaml, or the stack of `make template` with the lanes and the rules.
func fill(stack awscdk.Stack, lanes, rules string) {
	stack.TemplateOptions().SetTemplateFormatVersion(jsii.String("2010-09-09"))
	stack.TemplateOptions().SetDescription(jsii.String("Settle: statecharts in Go on Lambda, SQS FIFO and DynamoDB. Generated from infra/cdk by make infra; deployed by make deploy."))
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
	var size sizeParameters
	if lanes == "" {
		size = addSizeParameters(stack)
	}
	bus := awscdk.NewCfnParameter(stack, jsii.String("EventBus"), &awscdk.CfnParameterProps{
		Type: jsii.String("String"), Default: "default", AllowedPattern: jsii.String(`[A-Za-z0-9/._-]{0,256}`),
		ConstraintDescription: jsii.String("must be the name of an event bus, or empty."),
		Description:           jsii.String("The name of the event bus for the events that charts emit, in this account and Region. It must exist. Empty: they are dropped."),
	})
	events := awscdk.NewCfnParameter(stack, jsii.String("EventsPerFiveMinutes"), &awscdk.CfnParameterProps{
		Type: jsii.String("Number"), Default: 30_000, MinValue: jsii.Number(1), MaxValue: jsii.Number(cdk.EventsPerFiveMinutesMax),
		Description: jsii.String("The alarm Events rings if more events are applied in five minutes."),
	})
	existing := parameter(stack, "ExistingTable", "The name of a table to use in place of a new one, such as a restored table. Empty: the stack has a table of its own.", jsii.String(""))
	props := cdk.Props{
		Name:          awscdk.Aws_STACK_NAME(),
		Code:          cdk.CodeFromBucket(bucket.ValueAsString(), func(function string) *string { return keys[function].ValueAsString() }),
		AlarmActions:  []*string{awscdk.Token_AsString(awscdk.Fn_ConditionIf(jsii.String("HasAlarmTopic"), topic.ValueAsString(), awscdk.Aws_NO_VALUE()), nil)},
		UploadBuckets: *buckets,
		EventBus:      awsevents.EventBus_FromEventBusName(stack, jsii.String("Bus"), bus.ValueAsString()),
		ExistingTable: existing.ValueAsString(),
	}
	if lanes != "" {
		if err := props.SetLanes(lanes); err != nil {
			panic(err)
		}
		props.ReserveConsumerConcurrency = true // reserve makes it optional.
	}
	if rules != "" {
		props.LaneRules = &rules
	}
	settle := cdk.NewSettle(stack, "Settle", props)
	settle.Scope.Node().FindChild(jsii.String("UploadsRule")).(awsevents.CfnRule).
		SetState(awscdk.Token_AsString(awscdk.Fn_ConditionIf(jsii.String(hasUploadBuckets), "ENABLED", "DISABLED"), nil))
	consumerMapping := settle.Scope.Node().FindChild(jsii.String("ConsumerMapping")).Node().DefaultChild().(awslambda.CfnEventSourceMapping)
	settle.Scope.Node().FindChild(jsii.String("EventsAlarm")).Node().DefaultChild().(awscloudwatch.CfnAlarm).
		AddPropertyOverride(jsii.String("Threshold"), events.ValueAsNumber())
	consumer := settle.Functions[cdk.Consumer].Node().DefaultChild().(awslambda.CfnFunction)
	if lanes == "" {
		pollersMost := provision(stack, consumerMapping, size.pollers, size.concurrency)
		// A zero after the maximum number of pollers makes it ten times as large: cdk.PollerInvocations.
		ofPollers := awscdk.Fn_Join(jsii.String(""), jsii.Strings(*pollersMost, "0"))
		reserve(stack, consumer, "ConsumerConcurrency, or ten times the maximum of ConsumerPollers,",
			awscdk.Fn_ConditionIf(jsii.String("HasConsumerPollers"), ofPollers, size.concurrency.ValueAsNumber()))
	} else {
		// CloudFormation cannot add numbers, so the sizes of the lanes are part of the template.
		reserve(stack, consumer, fmt.Sprintf("the sum of all lanes, %.0f,", *consumer.ReservedConcurrentExecutions()), consumer.ReservedConcurrentExecutions())
	}
	tableStream(stack, settle.Table)
	openRoute(stack, settle, "GitHubWebhook", "PostGitHubRoute", "POST /webhooks/github", "GitHub's webhook for the machine job")
	openRoute(stack, settle, "Callbacks", "PostCallbackRoute", "POST /webhooks/{provider}/{id}/{until}/{key}", "callbacks of third parties, as the machine enrich awaits them")
	rotation(stack, settle, "EnrichCallbackKey", "SETTLE_ENRICH_CALLBACK_KEY", cdk.Consumer, cdk.Gateway)
	rotation(stack, settle, "GitHubWebhookSecret", "SETTLE_GITHUB_WEBHOOK_SECRET", cdk.Gateway)
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

// provision replaces the mapping's maximum concurrency by event pollers, if the parameter pollers has a value. It returns
// their maximum number. CloudFormation cannot compare numbers, so infra/deploy.sh refuses a minimum above the maximum. If
// CloudFormation is called directly, Lambda refuses it.
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
	// Fn::Select fails if an element is missing. With another hyphen at the end, an empty parameter has two empty parts.
	parts := awscdk.Fn_Split(jsii.String("-"), awscdk.Fn_Join(jsii.String(""), jsii.Strings(*pollers.ValueAsString(), "-")), nil)
	least, most := awscdk.Fn_Select(jsii.Number(0), parts), awscdk.Fn_Select(jsii.Number(1), parts)
	mapping.AddPropertyOverride(jsii.String("ProvisionedPollerConfig"), awscdk.Fn_ConditionIf(has.LogicalId(),
		map[string]any{"MinimumPollers": least, "MaximumPollers": most}, awscdk.Aws_NO_VALUE()))
	// With pollers, ScalingConfig is empty, as in cdk.Pollers.
	mapping.AddPropertyOverride(jsii.String("ScalingConfig.MaximumConcurrency"),
		awscdk.Fn_ConditionIf(has.LogicalId(), awscdk.Aws_NO_VALUE(), concurrency.ValueAsNumber()))
	return most
}

// reserve adds the parameter ReserveConsumerConcurrency, which reserves the concurrency for the consumer. `what` describes
// the concurrency.
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

// openRoute adds a parameter that removes a route without IAM authorization and its limit. DependsOn accepts no condition,
// so a reference in the stage's metadata makes the stage wait for the route.
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

// nameResources gives the resources their names in the construct, without CDK's hashes. These names are unique, because
// the template contains one Settle.
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
