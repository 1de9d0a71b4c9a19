package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"gopkg.in/yaml.v3"

	"github.com/settle-run/settle/infra/cdk"
)

// kernel serializes the use of CDK's process, which handles one app at a time.
var kernel sync.Mutex

// assembly is the output of `cdk synth`.
type assembly struct {
	folder string
	template
}

type template struct {
	Resources map[string]struct {
		Type       string
		Properties map[string]any
	}
	Outputs map[string]struct{ Value any }
}

// synthesized synthesizes the app and returns the assembly. The context has the values of `cdk -c`, such as the stack's
// name.
func synthesized(t *testing.T, context map[string]any) assembly {
	t.Helper()
	kernel.Lock()
	defer kernel.Unlock()
	folder := t.TempDir()
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: &folder, AnalyticsReporting: jsii.Bool(false), Context: &context})
	fill(app)
	app.Synth(nil)
	text, err := os.ReadFile(filepath.Join(folder, context["stack"].(string)+".template.json"))
	if err != nil {
		t.Fatal(err)
	}
	a := assembly{folder: folder}
	if err := json.Unmarshal(text, &a.template); err != nil {
		t.Fatal(err)
	}
	return a
}

// functions returns the logical IDs of the functions, by the names in their descriptions.
func (a assembly) functions() map[string]string {
	ids := map[string]string{}
	for id, resource := range a.Resources {
		if description, _ := resource.Properties["Description"].(string); resource.Type == "AWS::Lambda::Function" {
			ids[strings.TrimSuffix(strings.TrimPrefix(description, "Settle: functions/"), ".")] = id
		}
	}
	return ids
}

// bootstrap returns the executable of a function in the assembly.
func (a assembly) bootstrap(t *testing.T, id string) string {
	t.Helper()
	code, _ := a.Resources[id].Properties["Code"].(map[string]any)
	key, _ := code["S3Key"].(string)
	text, err := os.ReadFile(filepath.Join(a.folder, "asset."+strings.TrimSuffix(key, ".zip"), "bootstrap"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// built creates a folder of functions as `make functions` does. Each executable contains the text "FUNCTION of BY".
func built(t *testing.T, by string, functions ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range functions {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name, "bootstrap"), []byte(name+" of "+by), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestAppDeploysTheBuiltFunctions synthesizes the stack of `make deploy-cdk`.
func TestAppDeploysTheBuiltFunctions(t *testing.T) {
	t.Parallel()
	a := synthesized(t, map[string]any{"stack": "blue", "functions": built(t, "settle", cdk.Functions...), "buckets": "", "own": ""})
	ids := a.functions()
	for _, name := range []string{cdk.Consumer, cdk.Gateway, cdk.Delay, cdk.Executions, cdk.TokenTask} {
		if got := a.bootstrap(t, ids[name]); got != name+" of settle" {
			t.Errorf("%s: got the executable %q", name, got)
		}
	}
	if len(ids) != 5 {
		t.Errorf("expected the five functions without objects, because there are no buckets, got %v", ids)
	}
	names, workflows := map[string]bool{}, 0
	for _, resource := range a.Resources {
		switch resource.Type {
		case "AWS::SQS::Queue":
			names[resource.Properties["QueueName"].(string)] = true
		case "AWS::StepFunctions::StateMachine":
			workflows++
		}
	}
	if len(names) != 6 || !names["blue.fifo"] || !names["blue-dlq.fifo"] || workflows != len(cdk.Examples) {
		t.Errorf("expected six queues named after the stack, and the example workflows, got %v and %d", names, workflows)
	}
}

// TestStackWithAnotherModulesMachines synthesizes a stack whose consumer, gateway and tokentask come from another
// module, and whose other functions are Settle's: see docs/deploy-a-machine.md.
func TestStackWithAnotherModulesMachines(t *testing.T) {
	t.Parallel()
	own, settle := built(t, "library", cdk.Consumer, cdk.Gateway, cdk.TokenTask), built(t, "settle", cdk.Functions...)
	a := synthesized(t, map[string]any{"stack": "library", "functions": own + "," + settle, "own": "true", "buckets": "sales-uploads,warehouse-uploads"})
	ids := a.functions()
	for name, by := range map[string]string{
		cdk.Consumer: "library", cdk.Gateway: "library", cdk.TokenTask: "library", cdk.Delay: "settle", cdk.Executions: "settle", cdk.Objects: "settle",
	} {
		if got := a.bootstrap(t, ids[name]); got != name+" of "+by {
			t.Errorf("%s: expected the executable of %s, got %q", name, by, got)
		}
	}
	for id, resource := range a.Resources {
		if resource.Type == "AWS::StepFunctions::StateMachine" {
			t.Errorf("expected no example workflow, got %s", id)
		}
	}
	variables, _ := a.Resources[ids[cdk.Consumer]].Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
	for _, name := range []string{"SETTLE_QUEUE_URL", "SETTLE_DEAD_LETTER_QUEUE_URL", "SETTLE_DELAY_QUEUE_URL", "SETTLE_DELAY_QUEUE_ARN", "SETTLE_SCHEDULER_ROLE_ARN", "SETTLE_TABLE"} {
		if variables[name] == nil {
			t.Errorf("expected the consumer to have the variable %s, got %v", name, variables)
		}
	}
}

// TestStackHasTheOutputsOfTheTemplate checks the outputs that `make destroy` and docs/deploy.md need.
func TestStackHasTheOutputsOfTheTemplate(t *testing.T) {
	t.Parallel()
	a := synthesized(t, map[string]any{"stack": "blue", "functions": built(t, "settle", cdk.Functions...)})
	committed, err := os.ReadFile("../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var expected struct {
		Outputs map[string]yaml.Node `yaml:"Outputs"`
	}
	if err := yaml.Unmarshal(committed, &expected); err != nil {
		t.Fatal(err)
	}
	if len(expected.Outputs) < 6 {
		t.Fatalf("expected at least six outputs in infra/template.yaml, got %v", expected)
	}
	if got, want := slices.Sorted(maps.Keys(a.Outputs)), slices.Sorted(maps.Keys(expected.Outputs)); !slices.Equal(got, want) {
		t.Errorf("expected the outputs %v, got %v", want, got)
	}
	for name, kind := range map[string]string{"TableName": "AWS::DynamoDB::Table", "QueueUrl": "AWS::SQS::Queue", "DeadLetterQueueUrl": "AWS::SQS::Queue"} {
		value, _ := a.Outputs[name].Value.(map[string]any)
		id, _ := value["Ref"].(string)
		if a.Resources[id].Type != kind {
			t.Errorf("%s: expected a reference to a %s, got %v", name, kind, a.Outputs[name])
		}
	}
}

func TestStackIsProtectedAgainstDeletion(t *testing.T) {
	t.Parallel()
	a := synthesized(t, map[string]any{"stack": "blue", "functions": built(t, "settle", cdk.Functions...)})
	text, err := os.ReadFile(filepath.Join(a.folder, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Artifacts map[string]struct {
			Properties struct{ TerminationProtection bool }
		}
	}
	if err := json.Unmarshal(text, &manifest); err != nil || !manifest.Artifacts["blue"].Properties.TerminationProtection {
		t.Errorf("expected termination protection in manifest.json, got %v and\n%s", err, text)
	}
}

func TestContextSetsAlarmsStreamLimitsAndBus(t *testing.T) {
	t.Parallel()
	const topic = "arn:aws:sns:eu-central-1:123456789012:alarms"
	folder := built(t, "settle", cdk.Functions...)
	for _, c := range []struct {
		context     map[string]any
		topic       string
		concurrency float64
		bus         any
	}{
		{map[string]any{"alarms": topic, "concurrency": "20", "stream": "on", "reserve": "on", "events": "600", "bus": "orders"}, topic, 20, "orders"},
		{map[string]any{"alarms": "", "concurrency": "", "bus": ""}, "", 50, "default"},
		{map[string]any{"bus": "none"}, "", 50, nil},
	} {
		c.context["stack"], c.context["functions"] = "blue", folder
		a := synthesized(t, c.context)
		alarms, concurrencies, thresholds := 0, map[any]bool{}, map[any]bool{}
		for id, resource := range a.Resources {
			switch resource.Type {
			case "AWS::CloudWatch::Alarm":
				alarms++
				thresholds[resource.Properties["Threshold"]] = true
				actions, _ := resource.Properties["AlarmActions"].([]any)
				if told := len(actions) == 1 && actions[0] == topic; told != (c.topic != "") {
					t.Errorf("%s: expected the action %q, got %v", id, c.topic, actions)
				}
			case "AWS::DynamoDB::Table":
				if streams := resource.Properties["StreamSpecification"] != nil; streams != (c.topic != "") {
					t.Errorf("%s: expected a stream only if it is on, got %v", id, resource.Properties)
				}
			case "AWS::Lambda::Function":
				variables, _ := resource.Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
				if bus := variables["SETTLE_EVENT_BUS"]; resource.Properties["Description"] == "Settle: functions/consumer." && bus != c.bus {
					t.Errorf("%s: expected the bus %v, got %v", id, c.bus, bus)
				}
				if reserved := resource.Properties["ReservedConcurrentExecutions"]; (reserved != nil) != (c.topic != "" && id == a.functions()[cdk.Consumer]) {
					t.Errorf("%s: expected a reservation only for the consumer, if it is on, got %v", id, reserved)
				}
			case "AWS::Lambda::EventSourceMapping":
				scaling, _ := resource.Properties["ScalingConfig"].(map[string]any)
				concurrencies[scaling["MaximumConcurrency"]] = true
			}
		}
		if alarms == 0 || !concurrencies[c.concurrency] || thresholds[600.] != (c.topic != "") {
			t.Errorf("%v: expected alarms, and a concurrency of %v, got %d with the thresholds %v, and %v", c.context, c.concurrency, alarms, thresholds, concurrencies)
		}
	}
	for key, want := range map[string]string{
		"alarms": `expected alarms to be the ARN of an SNS topic, got "many"`, "concurrency": `expected concurrency to be a number from 2 to 1000, got "many"`,
		"stream": `expected stream to be on or off, got "many"`, "reserve": `expected reserve to be on or off, got "many"`,
		"pollers": `expected pollers to be MINIMUM-MAXIMUM, such as 2-20, got "many"`,
		"events":  `expected events to be a number from 1 to 210000000, got "many"`, "rotate": `expected rotate to be callbacks, github or both separated by a comma, got "many"`,
	} {
		if said := refused(t, map[string]any{"stack": "blue", "functions": folder, key: "many"}); said != want {
			t.Errorf("%s: expected %q, got %v", key, want, said)
		}
	}
	if said, _ := refused(t, map[string]any{"stack": "blue", "functions": folder, "concurrency": "1001"}).(error); said == nil || !strings.Contains(said.Error(), "from 2 to 1000, got 1001") {
		t.Errorf("expected a panic that names the limits, got %v", said)
	}
}

func TestContextSetsPollers(t *testing.T) {
	t.Parallel()
	folder := built(t, "settle", cdk.Functions...)
	found := 0
	for _, resource := range synthesized(t, map[string]any{"stack": "blue", "functions": folder, "pollers": "3-20"}).Resources {
		if pollers, _ := resource.Properties["ProvisionedPollerConfig"].(map[string]any); pollers["MinimumPollers"] == 3. && pollers["MaximumPollers"] == 20. {
			found++
		}
	}
	if found != 1 {
		t.Errorf("expected one mapping with 3 to 20 pollers, got %d", found)
	}
	for _, value := range []string{"20", "3-", "-20", "0-0", "3-20-40"} {
		if said, want := refused(t, map[string]any{"stack": "blue", "functions": folder, "pollers": value}), "expected pollers to be MINIMUM-MAXIMUM"; !strings.Contains(fmt.Sprint(said), want) {
			t.Errorf("%s: expected %q, got %v", value, want, said)
		}
	}
	said := refused(t, map[string]any{"stack": "blue", "functions": folder, "pollers": "3-20", "concurrency": "20"})
	if !strings.Contains(fmt.Sprint(said), "got both") {
		t.Errorf("expected a panic about both settings, got %v", said)
	}
}

func TestContextSetsLanes(t *testing.T) {
	t.Parallel()
	folder := built(t, "settle", cdk.Functions...)
	a := synthesized(t, map[string]any{"stack": "blue", "functions": folder, "lanes": "main:20 bulk:10", "lane-rules": "job=main|bulk", "reserve": "on"})
	queues, concurrencies := map[any]bool{}, map[any]bool{}
	for _, resource := range a.Resources {
		queues[resource.Properties["QueueName"]] = true
		scaling, _ := resource.Properties["ScalingConfig"].(map[string]any)
		concurrencies[scaling["MaximumConcurrency"]] = true
	}
	// The concurrency of the lane bulk is not checked here, because the forwarders have a concurrency of 10 too.
	if !queues["blue-bulk.fifo"] || !concurrencies[20.] || concurrencies[50.] {
		t.Errorf("expected the queue blue-bulk.fifo and a concurrency of 20 for the main lane, got %v and %v", queues, concurrencies)
	}
	consumer := a.Resources[a.functions()[cdk.Consumer]].Properties
	variables, _ := consumer["Environment"].(map[string]any)["Variables"].(map[string]any)
	if variables["SETTLE_LANES"] == nil || variables["SETTLE_LANE_RULES"] != "job=main|bulk" || consumer["ReservedConcurrentExecutions"] != 30. {
		t.Errorf("expected the variables of the lanes and a reservation of 30, got %v", consumer)
	}
	if a.Outputs["Lanes"].Value == nil {
		t.Errorf("expected the output Lanes, got %v", a.Outputs)
	}
	for want, context := range map[string]map[string]any{
		`expected main and at least one other lane, such as "main:50 bulk:10", got "bulk:10"`: {"lanes": "bulk:10"},
		"expected the size of the main lane once":                                             {"lanes": "main:20 bulk:10", "concurrency": "20"},
		"expected Props.Lanes with Props.LaneRules, got no lanes":                             {"lane-rules": "job=bulk"},
	} {
		context["stack"], context["functions"] = "blue", folder
		if said := fmt.Sprint(refused(t, context)); !strings.Contains(said, want) {
			t.Errorf("expected a panic containing %q, got %s", want, said)
		}
	}
}

func TestContextRotatesSecrets(t *testing.T) {
	t.Parallel()
	a := synthesized(t, map[string]any{"stack": "blue", "functions": built(t, "settle", cdk.Functions...), "rotate": "callbacks,github"})
	variables, _ := a.Resources[a.functions()[cdk.Gateway]].Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
	for _, name := range []string{"SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS", "SETTLE_GITHUB_WEBHOOK_SECRET_PREVIOUS"} {
		if variables[name] == nil {
			t.Errorf("expected the variable %s, got %v", name, variables)
		}
	}
}

// refused returns the value that the app panics with.
func refused(t *testing.T, context map[string]any) (said any) {
	t.Helper()
	defer func() { said = recover() }()
	synthesized(t, context)
	return nil
}

func TestAppNamesTheMissingFunction(t *testing.T) {
	t.Parallel()
	folder := built(t, "settle", cdk.Consumer)
	said := refused(t, map[string]any{"stack": "blue", "functions": folder})
	if text, _ := said.(string); !strings.Contains(text, "expected gateway/bootstrap in one of the folders") || !strings.Contains(text, folder) {
		t.Errorf("expected a panic that names the gateway and the folder, got %v", said)
	}
}
