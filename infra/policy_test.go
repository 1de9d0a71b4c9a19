package infra_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra"
)

// stack is the stack that the tests resolve functions for.
func stack() infra.Stack {
	return infra.Stack{
		Name: "settle", Account: "123456789012", Region: "eu-central-1",
		Values:  map[string]string{"Table": "settle-Table-1", "HttpApi.ApiEndpoint": "https://api.example.com"},
		Secrets: map[string]string{"SignupCodeKey": "0123456789abcdef", "EnrichCallbackKey": "fedcba9876543210", "GitHubWebhookSecret": "hush"},
	}
}

func resolved(t *testing.T, name string) infra.Function {
	t.Helper()
	functions, err := infra.Functions()
	if err != nil {
		t.Fatal(err)
	}
	function, ok := functions[name]
	if !ok {
		t.Fatalf("the template has no function %s", name)
	}
	function, err = stack().Resolve(function)
	if err != nil {
		t.Fatal(err)
	}
	return function
}

func TestEnvironmentHasTheStacksValues(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"SETTLE_SERVICE": "settle", "SETTLE_TABLE": "settle-Table-1", "SETTLE_QUEUE_URL": "https://sqs.eu-central-1.amazonaws.com/123456789012/settle.fifo",
		"SETTLE_GITHUB_WEBHOOK_SECRET": "hush", "SETTLE_ENRICH_CALLBACK_BASE": "https://api.example.com", "SETTLE_ENRICH_CALLBACK_KEY": "fedcba9876543210",
	}
	if diff := cmp.Diff(want, resolved(t, "gateway").Environment); diff != "" {
		t.Errorf("the gateway's environment (-want +got):\n%s", diff)
	}
	consumer := resolved(t, "consumer").Environment
	for name, want := range map[string]string{
		"SETTLE_DEAD_LETTER_QUEUE_URL":       "https://sqs.eu-central-1.amazonaws.com/123456789012/settle-dlq.fifo",
		"SETTLE_DELAY_QUEUE_ARN":             "arn:aws:sqs:eu-central-1:123456789012:settle-delay",
		"SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN": "arn:aws:sqs:eu-central-1:123456789012:settle-delay-dlq",
		"SETTLE_SCHEDULER_ROLE_ARN":          "arn:aws:iam::123456789012:role/settle-SchedulerRole",
		"SETTLE_SCHEDULE_GROUP":              "settle",
		"SETTLE_EVENT_BUS":                   "default",
		"SETTLE_SIGNUP_CODE_KEY":             "0123456789abcdef",
	} {
		if consumer[name] != want {
			t.Errorf("%s: expected %q, got %q", name, want, consumer[name])
		}
	}
}

func TestUnknownReferencesAreNamed(t *testing.T) {
	t.Parallel()
	functions, err := infra.Functions()
	if err != nil {
		t.Fatal(err)
	}
	lacking := stack()
	lacking.Values, lacking.Secrets = nil, nil
	_, err = lacking.Resolve(functions["gateway"])
	for _, want := range []string{"function gateway", "Table in Stack.Values", "HttpApi.ApiEndpoint in Stack.Values", "secret GitHubWebhookSecret", "Table.Arn in Stack.Values"} {
		if !errors.Is(err, infra.ErrUnknownReference) || !strings.Contains(err.Error(), want) {
			t.Errorf("expected ErrUnknownReference for %s, got %v", want, err)
		}
	}
}

func TestRolesAllowOnlyTheirCalls(t *testing.T) {
	t.Parallel()
	const (
		sqs    = "arn:aws:sqs:eu-central-1:123456789012:"
		table  = "arn:aws:dynamodb:eu-central-1:123456789012:table/settle-Table-1"
		states = "arn:aws:states:eu-central-1:123456789012:"
		role   = "arn:aws:iam::123456789012:role/settle-SchedulerRole"
		timer  = "arn:aws:scheduler:eu-central-1:123456789012:schedule/settle/abc"
	)
	for _, c := range []struct {
		function string
		call     infra.Call
		allowed  bool
	}{
		{"consumer", infra.Call{Action: "sqs:SendMessage", Resource: sqs + "settle.fifo"}, true},
		{"consumer", infra.Call{Action: "sqs:SendMessage", Resource: sqs + "settle-dlq.fifo"}, true},
		{"consumer", infra.Call{Action: "SQS:sendmessage", Resource: sqs + "settle-delay"}, true},
		{"consumer", infra.Call{Action: "sqs:SendMessage", Resource: sqs + "settle-executions"}, false},
		{"consumer", infra.Call{Action: "sqs:SendMessage", Resource: sqs + "settle.fifo2"}, false},
		{"consumer", infra.Call{Action: "sqs:PurgeQueue", Resource: sqs + "settle.fifo"}, false},
		{"consumer", infra.Call{Action: "dynamodb:PutItem", Resource: table}, true},
		{"consumer", infra.Call{Action: "dynamodb:ConditionCheckItem", Resource: table}, true},
		{"consumer", infra.Call{Action: "dynamodb:DeleteItem", Resource: table}, false},
		{"consumer", infra.Call{Action: "dynamodb:Query", Resource: table + "/index/by_state"}, false},
		{"consumer", infra.Call{Action: "scheduler:CreateSchedule", Resource: timer}, true},
		{"consumer", infra.Call{Action: "scheduler:CreateSchedule", Resource: strings.Replace(timer, "settle/", "default/", 1)}, false},
		{"consumer", infra.Call{Action: "iam:PassRole", Resource: role, Context: map[string][]string{"iam:PassedToService": {"scheduler.amazonaws.com"}}}, true},
		{"consumer", infra.Call{Action: "iam:PassRole", Resource: role, Context: map[string][]string{"iam:PassedToService": {"lambda.amazonaws.com"}}}, false},
		{"consumer", infra.Call{Action: "iam:PassRole", Resource: role}, false},
		{"consumer", infra.Call{Action: "states:SendTaskSuccess"}, true},
		{"consumer", infra.Call{Action: "states:GetExecutionHistory", Resource: states + "execution:settle-JobWorkflow:1"}, true},
		{"consumer", infra.Call{Action: "states:GetExecutionHistory", Resource: states + "execution:other:1"}, false},
		{"consumer", infra.Call{Action: "states:StartExecution", Resource: states + "stateMachine:settle-JobWorkflow"}, false},
		{"gateway", infra.Call{Action: "dynamodb:UpdateItem", Resource: table, Context: map[string][]string{"dynamodb:LeadingKeys": {"alias/enricher/7"}}}, true},
		{"gateway", infra.Call{Action: "dynamodb:UpdateItem", Resource: table, Context: map[string][]string{"dynamodb:LeadingKeys": {"signup/7"}}}, false},
		{"gateway", infra.Call{Action: "dynamodb:UpdateItem", Resource: table, Context: map[string][]string{"dynamodb:LeadingKeys": {"alias/a", "signup/7"}}}, false},
		{"gateway", infra.Call{Action: "dynamodb:UpdateItem", Resource: table, Context: map[string][]string{"dynamodb:LeadingKeys": {"idempotency/signup/7/ab"}}}, true},
		{"gateway", infra.Call{Action: "dynamodb:UpdateItem", Resource: table, Context: map[string][]string{"dynamodb:LeadingKeys": {"idempotency"}}}, false},
		{"gateway", infra.Call{Action: "dynamodb:PutItem", Resource: table, Context: map[string][]string{"dynamodb:LeadingKeys": {"idempotency/signup/7/ab"}}}, false},
		{"gateway", infra.Call{Action: "dynamodb:ConditionCheckItem", Resource: table}, false},
		{"gateway", infra.Call{Action: "sqs:ReceiveMessage", Resource: sqs + "settle.fifo"}, false},
		{"gateway", infra.Call{Action: "sqs:GetQueueAttributes", Resource: sqs + "settle.fifo"}, true},
		{"gateway", infra.Call{Action: "sqs:GetQueueAttributes", Resource: sqs + "settle-dlq.fifo"}, false},
		{"delay", infra.Call{Action: "sqs:SendMessage", Resource: sqs + "settle-delay"}, true},
		{"delay", infra.Call{Action: "scheduler:CreateSchedule", Resource: timer}, true},
		{"delay", infra.Call{Action: "scheduler:DeleteSchedule", Resource: timer}, false},
		{"executions", infra.Call{Action: "sqs:SendMessage", Resource: sqs + "settle-delay"}, false},
		{"tokentask", infra.Call{Action: "sqs:SendMessage", Resource: sqs + "settle.fifo"}, true},
		{"tokentask", infra.Call{Action: "dynamodb:GetItem", Resource: table}, false},
		{"objects", infra.Call{Action: "sqs:SendMessage", Resource: sqs + "settle-dlq.fifo"}, true},
		{"objects", infra.Call{Action: "sqs:SendMessage", Resource: sqs + "settle-objects-dlq"}, true},
		{"objects", infra.Call{Action: "sqs:SendMessage", Resource: sqs + "settle-delay"}, false},
	} {
		_, err := resolved(t, c.function).Check(c.call)
		if c.allowed && err != nil || !c.allowed && !errors.Is(err, infra.ErrDenied) {
			t.Errorf("%s, %s on %s: expected allowed=%v, got %v", c.function, c.call.Action, c.call.Resource, c.allowed, err)
		}
	}
}

// TestRolesForLanes checks the permissions and the variables that lanes add to the functions.
func TestRolesForLanes(t *testing.T) {
	t.Parallel()
	const bulk, vip, rules = "arn:aws:sqs:eu-central-1:123456789012:settle-bulk.fifo", "arn:aws:sqs:eu-central-1:123456789012:settle-vip.fifo", "job=main|bulk"
	functions, err := infra.Functions()
	if err != nil {
		t.Fatal(err)
	}
	laned := stack()
	laned.Secrets = map[string]string{"SignupCodeKey": "a", "EnrichCallbackKey": "b", "GitHubWebhookSecret": "c"}
	laned.Lanes, laned.LaneRules = map[string]string{"vip": vip, "bulk": bulk}, rules
	for name, function := range functions {
		resolved, err := laned.Resolve(function)
		if err != nil {
			t.Fatal(err)
		}
		if lanes := resolved.Environment["SETTLE_LANES"]; lanes != "bulk="+bulk+",vip="+vip || resolved.Environment["SETTLE_LANE_RULES"] != rules {
			t.Errorf("%s: expected the variables of the lanes, got %v", name, resolved.Environment)
		}
		for _, queue := range []string{bulk, vip} {
			for _, action := range []string{"SendMessage", "ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "ChangeMessageVisibility", "PurgeQueue"} {
				allowed := action == "SendMessage" || name == "consumer" && action != "PurgeQueue"
				if _, err := resolved.Check(infra.Call{Action: "sqs:" + action, Resource: queue}); (err == nil) != allowed {
					t.Errorf("%s, %s on %s: expected allowed=%v, got %v", name, action, queue, allowed, err)
				}
			}
		}
		without := stack()
		without.Secrets = laned.Secrets
		plain, err := without.Resolve(function)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := plain.Check(infra.Call{Action: "sqs:SendMessage", Resource: bulk}); !errors.Is(err, infra.ErrDenied) || plain.Environment["SETTLE_LANES"] != "" {
			t.Errorf("%s: expected neither permissions nor variables without lanes, got %v and %v", name, err, plain.Environment)
		}
	}
}

// An unknown condition must not be ignored.
func TestUnknownConditionDenies(t *testing.T) {
	t.Parallel()
	function := infra.Function{Name: "f", Statements: []infra.Statement{{
		Actions: []string{"sqs:SendMessage"}, Resources: []string{"*"}, Conditions: map[string]map[string][]string{"IpAddress": {"aws:SourceIp": {"10.0.0.0/8"}}},
	}}}
	if _, err := function.Check(infra.Call{Action: "sqs:SendMessage", Resource: "arn"}); !errors.Is(err, infra.ErrDenied) {
		t.Errorf("expected ErrDenied, got %v", err)
	}
}

func TestActionsOfOperations(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"SQS", "SendMessage", "sqs:SendMessage"}, {"SQS", "SendMessageBatch", "sqs:SendMessage"}, {"SQS", "DeleteMessageBatch", "sqs:DeleteMessage"},
		{"SQS", "ChangeMessageVisibilityBatch", "sqs:ChangeMessageVisibility"}, {"SFN", "SendTaskSuccess", "states:SendTaskSuccess"},
		{"DynamoDB", "UpdateItem", "dynamodb:UpdateItem"}, {"Scheduler", "CreateSchedule", "scheduler:CreateSchedule"},
	} {
		if got, err := infra.ActionOf(c[0], c[1]); err != nil || got != c[2] {
			t.Errorf("%s %s: expected %s, got %s and %v", c[0], c[1], c[2], got, err)
		}
	}
	if _, err := infra.ActionOf("S3", "GetObject"); err == nil || !strings.Contains(err.Error(), `got "S3"`) {
		t.Errorf("expected an error that names S3, got %v", err)
	}
}

// IAM has no action dynamodb:TransactWriteItems.
func TestTransactionNeedsTheActionsOfItsItems(t *testing.T) {
	t.Parallel()
	for item, want := range map[string]string{
		"ConditionCheck": "dynamodb:ConditionCheckItem", "Put": "dynamodb:PutItem", "Update": "dynamodb:UpdateItem", "Delete": "dynamodb:DeleteItem",
		"Get": "dynamodb:GetItem",
	} {
		if got, err := infra.ActionOfItem(item); err != nil || got != want {
			t.Errorf("%s: expected %s, got %s and %v", item, want, got, err)
		}
	}
	if _, err := infra.ActionOfItem("Merge"); err == nil || !strings.Contains(err.Error(), `got "Merge"`) {
		t.Errorf("expected an error that names Merge, got %v", err)
	}
	for _, operation := range []string{"TransactWriteItems", "TransactGetItems"} {
		if got, err := infra.ActionOf("DynamoDB", operation); err == nil {
			t.Errorf("%s: expected no action, got %s", operation, got)
		}
	}
}

func TestCheckReturnsTheMatchingPermissions(t *testing.T) {
	t.Parallel()
	consumer := resolved(t, "consumer")
	got, err := consumer.Check(infra.Call{Action: "sqs:SendMessage", Resource: "arn:aws:sqs:eu-central-1:123456789012:settle-delay"})
	if diff := cmp.Diff([]infra.Permission{{Action: "sqs:SendMessage", Resource: "arn:aws:sqs:eu-central-1:123456789012:settle-delay"}}, got); diff != "" || err != nil {
		t.Errorf("permissions (-want +got), %v:\n%s", err, diff)
	}
	got, err = consumer.Check(infra.Call{Action: "states:SendTaskHeartbeat"})
	if err != nil || len(got) != 6 {
		t.Errorf("expected the six workflows, because a token does not name its state machine, got %v, %v", got, err)
	}
	if permissions := consumer.Permissions(); len(permissions) != 41 {
		t.Errorf("expected the consumer to have 41 permissions, got %d: %v", len(permissions), permissions)
	}
}
