package cdk_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk"
)

type resource struct {
	Type           string
	Properties     object
	DeletionPolicy string
	DependsOn      []string
}

// synthesized returns the resources of a stack.
func synthesized(t *testing.T, fill func(awscdk.Stack)) map[string]resource {
	t.Helper()
	var template struct{ Resources map[string]resource }
	if err := json.Unmarshal(synthesize(t, fill), &template); err != nil {
		t.Fatal(err)
	}
	return template.Resources
}

// find returns the resource of the type whose logical ID starts with prefix. If there are several, it returns the one
// with the shortest ID.
func find(t *testing.T, resources map[string]resource, kind, prefix string) (string, resource) {
	t.Helper()
	found := ""
	for id, resource := range resources {
		if resource.Type == kind && strings.HasPrefix(id, prefix) && (found == "" || len(id) < len(found)) {
			found = id
		}
	}
	if found == "" {
		t.Fatalf("expected a %s whose logical ID starts with %s", kind, prefix)
	}
	return found, resources[found]
}

func functionID(t *testing.T, resources map[string]resource, function string) string {
	t.Helper()
	id, _ := find(t, resources, "AWS::Lambda::Function", "Settle"+function)
	return id
}

func environment(t *testing.T, resources map[string]resource, function string) map[string]any {
	t.Helper()
	resource := resources[functionID(t, resources, function)]
	variables, _ := resource.Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
	return variables
}

// allowed returns the resources on which a function's role allows the action, as JSON.
func allowed(t *testing.T, resources map[string]resource, function, action string) string {
	t.Helper()
	role, _ := find(t, resources, "AWS::IAM::Role", "Settle"+function+"Role")
	text := ""
	for _, resource := range resources {
		policies, _ := resource.Properties["Policies"].([]any)
		for _, policy := range policies {
			text += statementsFor(policy.(map[string]any)["PolicyDocument"], action, resource.Type == "AWS::IAM::Role" && fmt.Sprint(resource.Properties["Description"]) == "Settle's function "+strings.ToLower(function)+".")
		}
		if roles := fmt.Sprint(resource.Properties["Roles"]); resource.Type == "AWS::IAM::Policy" && strings.Contains(roles, role) {
			text += statementsFor(resource.Properties["PolicyDocument"], action, true)
		}
	}
	return text
}

func statementsFor(document any, action string, ours bool) string {
	if !ours {
		return ""
	}
	text := ""
	for _, statement := range document.(map[string]any)["Statement"].([]any) {
		fields := statement.(map[string]any)
		if strings.Contains(fmt.Sprint(fields["Action"]), action) {
			encoded, _ := json.Marshal(fields["Resource"])
			text += string(encoded)
		}
	}
	return text
}

func props() cdk.Props {
	return cdk.Props{Code: cdk.CodeFromBucket(jsii.String("code"), func(function string) *string { return jsii.String("v1/" + function + ".zip") })}
}

func TestCustomerKeyEncryptsEverything(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		p := props()
		p.EncryptionKey = awskms.NewKey(stack, jsii.String("Key"), nil)
		p.UploadBuckets = []*string{jsii.String("sales-uploads")}
		cdk.NewSettle(stack, "Settle", p)
	})
	key, keyResource := find(t, resources, "AWS::KMS::Key", "Key")
	of := map[string]string{
		"AWS::SQS::Queue": "KmsMasterKeyId", "AWS::DynamoDB::Table": "SSESpecification", "AWS::SecretsManager::Secret": "KmsKeyId",
		"AWS::Logs::LogGroup": "KmsKeyId", "AWS::Lambda::Function": "KmsKeyArn",
	}
	seen := map[string]int{}
	for id, resource := range resources {
		if property, ok := of[resource.Type]; ok {
			seen[resource.Type]++
			if got := fmt.Sprint(resource.Properties[property]); !strings.Contains(got, key) {
				t.Errorf("%s: expected the key in %s, got %s", id, property, got)
			}
		}
	}
	if want := "map[AWS::DynamoDB::Table:1 AWS::Lambda::Function:6 AWS::Logs::LogGroup:7 AWS::SQS::Queue:7 AWS::SecretsManager::Secret:3]"; fmt.Sprint(seen) != want {
		t.Errorf("expected %s, got %v", want, seen)
	}
	allowed := map[string]any{} // the conditions of the key's policy, by service
	for _, statement := range at(readable(keyResource.Properties), "KeyPolicy", "Statement").([]any) {
		if service, ok := at(statement, "Principal", "Service").(string); ok {
			allowed[service] = at(statement, "Condition")
		}
	}
	if want := map[string]any{
		"events.amazonaws.com": object{"StringEquals": object{"aws:SourceAccount": "${AWS::AccountId}"}},
		// See the CloudWatch Logs User Guide, "Encrypt log data in CloudWatch Logs using AWS Key Management Service".
		"logs.${AWS::Region}.${AWS::URLSuffix}": object{"ArnLike": object{"kms:EncryptionContext:aws:logs:arn": arn + "logs" + here + "log-group:*"}},
	}; !reflect.DeepEqual(allowed, want) {
		t.Errorf("expected the key's policy to allow %v, got %v", want, allowed)
	}
	// These are the permissions of CDK's Table.GrantReadWriteData.
	ofTable := []string{"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*"}
	ofQueues := []string{"kms:Decrypt", "kms:GenerateDataKey"}
	for function, actions := range map[string][]string{
		"Consumer": ofTable, "Gateway": ofTable, "Delay": ofQueues, "Executions": ofQueues, "Tokentask": ofQueues, "Objects": ofQueues,
	} {
		if got := actionsOn(t, resources, function, key); !slices.Equal(got, actions) {
			t.Errorf("%s: expected the permissions %v on the key, got %v", function, actions, got)
		}
	}
}

// TestKeyPermissionsEqualCDKsGrants compares the functions' permissions on the key with CDK's own grant.
func TestKeyPermissionsEqualCDKsGrants(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		p := props()
		p.EncryptionKey = awskms.NewKey(stack, jsii.String("Key"), nil)
		settle := cdk.NewSettle(stack, "Settle", p)
		settle.Table.GrantReadWriteData(awsiam.NewRole(stack, jsii.String("SettleOtherRole"), &awsiam.RoleProps{
			AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		}))
	})
	key, _ := find(t, resources, "AWS::KMS::Key", "Key")
	want := actionsOn(t, resources, "Other", key)
	if len(want) == 0 {
		t.Fatal("expected CDK to grant permissions on the key")
	}
	for _, function := range []string{"Consumer", "Gateway"} {
		if got := actionsOn(t, resources, function, key); !slices.Equal(got, want) {
			t.Errorf("%s: expected %v on the key, as CDK grants, got %v", function, want, got)
		}
	}
}

// actionsOn returns the actions on a key that a function's role may perform. It reads only the separate policies that
// CDK's grants create.
func actionsOn(t *testing.T, resources map[string]resource, function, key string) []string {
	t.Helper()
	role, _ := find(t, resources, "AWS::IAM::Role", "Settle"+function+"Role")
	var actions []string
	for _, resource := range resources {
		if resource.Type != "AWS::IAM::Policy" || !strings.Contains(fmt.Sprint(resource.Properties["Roles"]), role) {
			continue
		}
		for _, statement := range resource.Properties["PolicyDocument"].(map[string]any)["Statement"].([]any) {
			fields := statement.(map[string]any)
			if strings.Contains(fmt.Sprint(fields["Resource"]), key) {
				for _, action := range fields["Action"].([]any) {
					actions = append(actions, fmt.Sprint(action))
				}
			}
		}
	}
	return actions
}

func TestWithoutIndexAndProtection(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		p := props()
		p.WithoutIndex, p.WithoutDeletionProtection, p.TableStream, p.Removal = true, true, true, awscdk.RemovalPolicy_DESTROY
		cdk.NewSettle(stack, "Settle", p)
	})
	_, table := find(t, resources, "AWS::DynamoDB::Table", "SettleTable")
	if table.Properties["GlobalSecondaryIndexes"] != nil || table.Properties["DeletionProtectionEnabled"] != false || table.DeletionPolicy != "Delete" {
		t.Errorf("expected a table without index and deletion protection, got %v, %s", table.Properties, table.DeletionPolicy)
	}
	if got := at(table.Properties, "StreamSpecification", "StreamViewType"); got != "NEW_AND_OLD_IMAGES" {
		t.Errorf("expected a stream with both images, got %v", got)
	}
	for id, resource := range resources {
		if kind := resource.Type; (kind == "AWS::SQS::Queue" || kind == "AWS::Scheduler::ScheduleGroup") && resource.DeletionPolicy != "Delete" {
			t.Errorf("%s: expected the policy Delete of Props.Removal, got %s", id, resource.DeletionPolicy)
		}
	}
	if got := environment(t, resources, "Consumer")["SETTLE_TABLE_INDEX"]; got != "off" {
		t.Errorf("SETTLE_TABLE_INDEX: expected off, got %v", got)
	}
	throttles := 0
	for id, resource := range resources {
		if resource.Type != "AWS::CloudWatch::Alarm" {
			continue
		}
		if dimensions := fmt.Sprint(resource.Properties["Dimensions"]); strings.Contains(dimensions, "GlobalSecondaryIndexName") {
			t.Errorf("%s: expected no alarm for the missing index, got one for %s", id, dimensions)
		}
		if resource.Properties["Namespace"] == "AWS/DynamoDB" {
			throttles++
		}
	}
	if throttles != 2 {
		t.Errorf("expected two throttling alarms, for the table only, got %d", throttles)
	}
}

func TestExistingTableReplacesTheTable(t *testing.T) {
	t.Parallel()
	text := string(synthesize(t, func(stack awscdk.Stack) {
		p := props()
		p.ExistingTable = jsii.String("settle-restored")
		cdk.NewSettle(stack, "Settle", p).AddOutputs()
	}))
	for part, want := range map[string]int{
		`"AWS::DynamoDB::Table"`: 0, `"SETTLE_TABLE": "settle-restored"`: 2, `:table/settle-restored"`: 4, `"Value": "settle-restored"`: 5,
	} {
		if got := strings.Count(text, part); got != want {
			t.Errorf("expected %s %d times, in the functions, their roles, four alarms and an output, got %d", part, want, got)
		}
	}
}

func TestWorkflowsThatChartsStart(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		p := props()
		p.WithoutExamples = true
		p.Workflows = map[string]awsstepfunctions.IStateMachine{
			"report": awsstepfunctions.StateMachine_FromStateMachineArn(stack, jsii.String("Report"), jsii.String("arn:aws:states:eu-central-1:123456789012:stateMachine:Report")),
			"audit": awsstepfunctions.NewStateMachine(stack, jsii.String("Audit"), &awsstepfunctions.StateMachineProps{
				DefinitionBody: awsstepfunctions.DefinitionBody_FromString(jsii.String(`{"StartAt":"A","States":{"A":{"Type":"Succeed"}}}`)),
			}),
		}
		p.WaitingWorkflows = []awsstepfunctions.IStateMachine{
			awsstepfunctions.StateMachine_FromStateMachineArn(stack, jsii.String("Mine"), jsii.String("arn:aws:states:eu-central-1:123456789012:stateMachine:Mine")),
		}
		cdk.NewSettle(stack, "Settle", p)
	})
	encoded, _ := json.Marshal(environment(t, resources, "Consumer")["SETTLE_WORKFLOWS"])
	if got := string(encoded); !strings.Contains(got, "audit=") || !strings.Contains(got, ",report=arn:aws:states:eu-central-1:123456789012:stateMachine:Report") {
		t.Errorf("SETTLE_WORKFLOWS: got %s", got)
	}
	for _, c := range [][3]string{
		{"Consumer", "states:StartExecution", "stateMachine:Report"}, {"Consumer", "states:StartExecution", "Audit"},
		{"Consumer", "states:DescribeExecution", ":execution:Report:settle-*"}, {"Executions", "states:DescribeExecution", ":execution:Report:settle-*"},
		{"Consumer", "states:SendTaskSuccess", "stateMachine:Mine"}, {"Consumer", "states:GetExecutionHistory", ":execution:Mine:*"},
	} {
		if got := allowed(t, resources, c[0], c[1]); !strings.Contains(got, c[2]) {
			t.Errorf("%s: expected %s on %s, got %s", c[0], c[1], c[2], got)
		}
	}
	_, rule := find(t, resources, "AWS::Events::Rule", "Settle")
	pattern, _ := json.Marshal(rule.Properties["EventPattern"])
	if !strings.Contains(string(pattern), `"stateMachineArn":[{"Ref":"Audit`) || !strings.Contains(string(pattern), "stateMachine:Report") || rule.Properties["State"] != "ENABLED" {
		t.Errorf("expected a rule for the two workflows, got %s, %v", pattern, rule.Properties["State"])
	}
	for id, resource := range resources {
		isWorkflow := resource.Type == "AWS::StepFunctions::StateMachine" && !strings.HasPrefix(id, "Audit")
		isOpen := resource.Type == "AWS::ApiGatewayV2::Route" && resource.Properties["AuthorizationType"] != "AWS_IAM"
		if isWorkflow || isOpen || resource.Type == "AWS::SecretsManager::Secret" {
			t.Errorf("expected no resource of the examples, got %s", id)
		}
	}
	for _, function := range []string{"Consumer", "Gateway"} {
		for name := range environment(t, resources, function) {
			if strings.HasPrefix(name, "SETTLE_ENRICH") || strings.HasPrefix(name, "SETTLE_SIGNUP") || strings.HasPrefix(name, "SETTLE_GITHUB") {
				t.Errorf("%s: expected no variable of the examples, got %s", function, name)
			}
		}
	}
}

func TestBatchSizeAndWebhookLimit(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		p := props()
		p.ConsumerBatch, p.WebhooksPerSecond, p.WithoutExamples, p.Callbacks = 1, 7, true, true
		p.Secrets.GitHubWebhook = awscdk.SecretValue_SecretsManager(jsii.String("mine"), nil)
		cdk.NewSettle(stack, "Settle", p)
	})
	for name, want := range map[string]float64{"SettleConsumerMapping": 1, "SettleDelayMapping": 10, "SettleExecutionsMapping": 10} {
		if _, mapping := find(t, resources, "AWS::Lambda::EventSourceMapping", name); mapping.Properties["BatchSize"] != want {
			t.Errorf("batches of %s: expected %v, got %v", name, want, mapping.Properties["BatchSize"])
		}
	}
	_, stage := find(t, resources, "AWS::ApiGatewayV2::Stage", "Settle")
	limit := map[string]any{"ThrottlingRateLimit": 7., "ThrottlingBurstLimit": 7.}
	want := map[string]any{"POST /webhooks/github": limit, "POST /webhooks/{provider}/{id}/{until}/{key}": limit}
	if !reflect.DeepEqual(stage.Properties["RouteSettings"], want) {
		t.Errorf("route limits: expected %v, got %v", want, stage.Properties["RouteSettings"])
	}
	if len(stage.DependsOn) != 2 {
		t.Errorf("expected the stage to wait for both routes, got %v", stage.DependsOn)
	}
	if got := environment(t, resources, "Gateway")["SETTLE_GITHUB_WEBHOOK_SECRET"]; got != "{{resolve:secretsmanager:mine:SecretString:::}}" {
		t.Errorf("webhook secret: expected the given one, got %v", got)
	}
}

func TestBrakesAgainstFloods(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		p := props()
		p.EventsPerFiveMinutes, p.ConsumerConcurrency, p.ReserveConsumerConcurrency = 9, 7, true
		cdk.NewSettle(stack, "Settle", p)
	})
	if _, alarm := find(t, resources, "AWS::CloudWatch::Alarm", "SettleEventsAlarm"); alarm.Properties["Threshold"] != 9. {
		t.Errorf("alarm on events: expected the threshold 9, got %v", alarm.Properties["Threshold"])
	}
	for _, function := range []string{"Consumer", "Gateway", "Delay", "Executions", "Tokentask"} {
		want := map[string]any{"Consumer": 7.}[function]
		if got := resources[functionID(t, resources, function)].Properties["ReservedConcurrentExecutions"]; got != want {
			t.Errorf("%s: expected the reserved concurrency %v, got %v", function, want, got)
		}
	}
}

func TestCustomSecretsAndSettings(t *testing.T) {
	t.Parallel()
	resources := synthesized(t, func(stack awscdk.Stack) {
		p := props()
		p.Secrets.SignupCodeKey = awscdk.SecretValue_SecretsManager(jsii.String("mine"), &awscdk.SecretsManagerSecretOptions{JsonField: jsii.String("code_key")})
		p.Environment = map[string]string{"SETTLE_JOB_TIME_LIMIT": "2h"}
		p.CallbackBase = "https://callbacks.example.com/settle"
		p.ConsumerTimeout = 5 * time.Minute
		cdk.NewSettle(stack, "Settle", p)
	})
	consumer := environment(t, resources, "Consumer")
	for name, want := range map[string]string{
		"SETTLE_SIGNUP_CODE_KEY": "{{resolve:secretsmanager:mine:SecretString:code_key::}}", "SETTLE_JOB_TIME_LIMIT": "2h",
		"SETTLE_ENRICH_CALLBACK_BASE": "https://callbacks.example.com/settle",
	} {
		if consumer[name] != want {
			t.Errorf("%s: expected %q, got %v", name, want, consumer[name])
		}
	}
	if got := environment(t, resources, "Gateway")["SETTLE_BASE_PATH"]; got != "/settle" {
		t.Errorf("gateway: expected the path of CallbackBase, got %v", got)
	}
	if got := environment(t, resources, "Tokentask"); got["SETTLE_JOB_TIME_LIMIT"] != "2h" || got["SETTLE_SIGNUP_CODE_KEY"] != nil {
		t.Errorf("expected tokentask to have the setting but no secret, got %v", got)
	}
	for id, resource := range resources {
		if resource.Type == "AWS::SecretsManager::Secret" && strings.Contains(id, "Signup") {
			t.Errorf("expected no generated secret for signup, because one is given, got %s", id)
		}
	}
	if _, queue := find(t, resources, "AWS::SQS::Queue", "SettleQueue"); queue.Properties["VisibilityTimeout"] != float64(300+225) {
		t.Errorf("expected a visibility timeout of 225 seconds more than the function's five minutes, got %v", queue.Properties["VisibilityTimeout"])
	}
}
