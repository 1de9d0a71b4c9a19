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
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
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

// TestTemplateIsWritten writes the template for `make template`, or a template with lanes into a temporary folder.
func TestTemplateIsWritten(t *testing.T) {
	t.Parallel()
	path, sizes := *outputFile, *lanes
	if path == "" {
		path, sizes = filepath.Join(t.TempDir(), "template.yaml"), "main:20 bulk:10"
	}
	defer func() {
		if problem := recover(); problem != nil {
			t.Fatal(problem)
		}
	}()
	rendered, err := render(synthesize(t, func(stack awscdk.Stack) { fill(stack, sizes, *laneRules) }))
	if err == nil {
		err = os.WriteFile(path, rendered, 0o600)
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

// options returns the permissions that a state machine or a lane in Props adds to each function.
// The first key is the prop's name in functions.json, and the second is the function. In the
// statements, ${Workflow} stands for the state machine, and ${Lane} for the lane's queue.
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
		// A zero appended to the maximum number of pollers multiplies it by ten, which is cdk.PollerInvocations.
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
