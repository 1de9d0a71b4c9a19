package properties

import (
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/infra/cdk/internal/template"
)

// names are the logical IDs of the functions.
var names = []string{"Consumer", "Delay", "Executions", "Gateway", "Objects", "Tokentask"}

func functions(r *reader) {
	r.same("functions", names, r.ofType("AWS::Lambda::Function"))
	for _, id := range names {
		r.want("architecture of "+id, []any{"arm64"}, r.get(id, "Architectures"))
		r.want("runtime of "+id, "provided.al2023", r.get(id, "Runtime"))
		r.want("handler of "+id, "bootstrap", r.get(id, "Handler"))
		r.want("recursive loop detection of "+id, "Allow", r.get(id, "RecursiveLoop"))
		r.want("bucket of "+id, "${CodeBucket}", r.text(id, "Code", "S3Bucket"))
		r.want("code of "+id, "${"+id+"Code}", r.text(id, "Code", "S3Key"))
	}
}

// secret returns the reference to a secret in the environment.
func secret(id string) string { return "{{resolve:secretsmanager:${" + id + "}:SecretString:::}}" }

// environments are the variables that runtime/host/internal/boot reads for each function.
var environments = map[string]map[string]string{
	"Consumer": {
		"SETTLE_TABLE": "${Table}", "SETTLE_TABLE_INDEX": "on",
		"SETTLE_SERVICE": "${AWS::StackName}", "SETTLE_QUEUE_URL": "${Queue}", "SETTLE_DEAD_LETTER_QUEUE_URL": "${DeadLetterQueue}",
		"SETTLE_DELAY_QUEUE_URL": "${DelayQueue}", "SETTLE_DELAY_QUEUE_ARN": "${DelayQueue.Arn}",
		"SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN": "${DelayDeadLetterQueue.Arn}",
		"SETTLE_SCHEDULER_ROLE_ARN":          "${SchedulerRole.Arn}", "SETTLE_SCHEDULE_GROUP": "${AWS::StackName}",
		"SETTLE_ENRICH_CALLBACK_BASE": "${HttpApi.ApiEndpoint}", "SETTLE_ENRICH_CALLBACK_KEY": secret("EnrichCallbackKey"),
		"SETTLE_SIGNUP_CODE_KEY": secret("SignupCodeKey"),
	},
	"Gateway": {
		"SETTLE_TABLE": "${Table}", "SETTLE_SERVICE": "${AWS::StackName}", "SETTLE_QUEUE_URL": "${Queue}", "SETTLE_GITHUB_WEBHOOK_SECRET": secret("GitHubWebhookSecret"),
		"SETTLE_ENRICH_CALLBACK_BASE": "${HttpApi.ApiEndpoint}", "SETTLE_ENRICH_CALLBACK_KEY": secret("EnrichCallbackKey"),
	},
	"Delay": {
		"SETTLE_SERVICE": "${AWS::StackName}", "SETTLE_QUEUE_URL": "${Queue}",
		"SETTLE_DELAY_QUEUE_URL": "${DelayQueue}", "SETTLE_DELAY_QUEUE_ARN": "${DelayQueue.Arn}",
		"SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN": "${DelayDeadLetterQueue.Arn}",
		"SETTLE_SCHEDULER_ROLE_ARN":          "${SchedulerRole.Arn}", "SETTLE_SCHEDULE_GROUP": "${AWS::StackName}",
	},
	"Executions": {"SETTLE_SERVICE": "${AWS::StackName}", "SETTLE_QUEUE_URL": "${Queue}"},
	"Tokentask":  {"SETTLE_SERVICE": "${AWS::StackName}", "SETTLE_QUEUE_URL": "${Queue}"},
	"Objects":    {"SETTLE_SERVICE": "${AWS::StackName}", "SETTLE_QUEUE_URL": "${Queue}", "SETTLE_DEAD_LETTER_QUEUE_URL": "${DeadLetterQueue}"},
}

func environment(r *reader) {
	r.want("the schedule group's name", "${AWS::StackName}", r.text("ScheduleGroup", "Name"))
	for id, expected := range environments {
		variables, _ := r.get(id, "Environment", "Variables").(map[string]any)
		r.same("environment of "+id, slices.Collect(maps.Keys(expected)), slices.Collect(maps.Keys(variables)))
		for name, value := range expected {
			r.want(name+" of "+id, value, r.text(id, "Environment", "Variables", name))
		}
	}
}

func secrets(r *reader) {
	for _, id := range r.ofType("AWS::Lambda::Function") {
		variables, _ := r.get(id, "Environment", "Variables").(map[string]any)
		for name := range variables {
			if !strings.HasSuffix(name, "_KEY") && !strings.HasSuffix(name, "_SECRET") {
				continue
			}
			of := ""
			for _, candidate := range r.ofType("AWS::SecretsManager::Secret") {
				if r.text(id, "Environment", "Variables", name) == secret(candidate) {
					of = candidate
				}
			}
			if of == "" {
				r.wrong("%s of %s: expected a reference to a secret of the template", name, id)
			}
		}
	}
	for _, id := range r.ofType("AWS::SecretsManager::Secret") {
		if r.get(id, "SecretString") != nil || r.number(id, "GenerateSecretString", "PasswordLength") < 32 {
			r.wrong("%s: expected a generated secret of at least 32 characters", id)
		}
	}
}

func logs(r *reader) {
	taken := map[string]string{}
	for _, id := range r.ofType("AWS::Lambda::Function") {
		group := referred(r.text(id, "LoggingConfig", "LogGroup"))
		if other := taken[group]; group != id+"Logs" || other != "" {
			r.wrong("%s: expected its own log group %sLogs, got %s, which %q may use too", id, id, group, other)
		}
		taken[group] = id
	}
	for _, id := range r.ofType("AWS::Logs::LogGroup") {
		if r.number(id, "RetentionInDays") <= 0 {
			r.wrong("%s: expected a retention", id)
		}
	}
}

// The calls that create the schedules of timers.
const (
	createSchedule    = "scheduler:CreateSchedule " + arn + "scheduler" + here + "schedule/${AWS::StackName}/*"
	passSchedulerRole = "iam:PassRole ${SchedulerRole.Arn} if StringEquals iam:PassedToService scheduler.amazonaws.com"
)

// calls are the permissions of the roles: actions with resources and, if there is one, a condition.
var calls = map[string][]string{
	"ConsumerRole": slices.Concat([]string{
		"sqs:ReceiveMessage ${Queue.Arn}", "sqs:DeleteMessage ${Queue.Arn}", "sqs:GetQueueAttributes ${Queue.Arn}",
		"sqs:ChangeMessageVisibility ${Queue.Arn}", "sqs:SendMessage ${Queue.Arn}",
		"sqs:SendMessage ${DeadLetterQueue.Arn}", "sqs:SendMessage ${DelayQueue.Arn}",
		"dynamodb:GetItem ${Table.Arn}", "dynamodb:PutItem ${Table.Arn}", "dynamodb:UpdateItem ${Table.Arn}", "dynamodb:ConditionCheckItem ${Table.Arn}",
		createSchedule, "scheduler:DeleteSchedule " + arn + "scheduler" + here + "schedule/${AWS::StackName}/*", passSchedulerRole,
	}, ofWorkflows("states:SendTaskSuccess ${%}"), ofWorkflows("states:SendTaskFailure ${%}"), ofWorkflows("states:SendTaskHeartbeat ${%}"),
		ofWorkflows("states:GetExecutionHistory "+arn+"states"+here+"execution:${%.Name}:*"), ownLogs("Consumer")),
	"GatewayRole": slices.Concat([]string{
		"sqs:SendMessage ${Queue.Arn}", "dynamodb:GetItem ${Table.Arn}",
		"dynamodb:UpdateItem ${Table.Arn} if ForAllValues:StringLike dynamodb:LeadingKeys alias/*",
		"dynamodb:UpdateItem ${Table.Arn} if ForAllValues:StringLike dynamodb:LeadingKeys idempotency/*",
	}, ownLogs("Gateway")),
	"DelayRole": slices.Concat([]string{
		"sqs:ReceiveMessage ${DelayQueue.Arn}", "sqs:DeleteMessage ${DelayQueue.Arn}", "sqs:GetQueueAttributes ${DelayQueue.Arn}",
		"sqs:SendMessage ${Queue.Arn}", "sqs:SendMessage ${DelayQueue.Arn}", createSchedule, passSchedulerRole,
	}, ownLogs("Delay")),
	"ExecutionsRole": slices.Concat([]string{
		"sqs:ReceiveMessage ${ExecutionsQueue.Arn}", "sqs:DeleteMessage ${ExecutionsQueue.Arn}", "sqs:GetQueueAttributes ${ExecutionsQueue.Arn}",
		"sqs:SendMessage ${Queue.Arn}",
	}, ownLogs("Executions")),
	"TokentaskRole": slices.Concat([]string{"sqs:SendMessage ${Queue.Arn}"}, ownLogs("Tokentask")),
	"ObjectsRole": slices.Concat([]string{
		"sqs:SendMessage ${Queue.Arn}", "sqs:SendMessage ${DeadLetterQueue.Arn}", "sqs:SendMessage ${ObjectsDeadLetterQueue.Arn}",
	}, ownLogs("Objects")),
	"SchedulerRole": {"sqs:SendMessage ${DelayQueue.Arn}", "sqs:SendMessage ${DelayDeadLetterQueue.Arn}"},
	"WorkflowsRole": {"sqs:SendMessage ${Queue.Arn}"},
}

const (
	arn  = "arn:${AWS::Partition}:"
	here = ":${AWS::Region}:${AWS::AccountId}:"
)

func ownLogs(id string) []string {
	return []string{"logs:CreateLogStream ${" + id + "Logs.Arn}", "logs:PutLogEvents ${" + id + "Logs.Arn}"}
}

func ofWorkflows(pattern string) []string {
	var texts []string
	for id := range workflowNames {
		texts = append(texts, strings.ReplaceAll(pattern, "%", id))
	}
	return texts
}

func roles(r *reader) {
	r.same("roles", slices.Collect(maps.Keys(calls)), r.ofType("AWS::IAM::Role"))
	for _, id := range names {
		r.want("role of "+id, "${"+id+"Role.Arn}", r.text(id, "Role"))
	}
	for _, unexpected := range slices.Concat(r.ofType("AWS::IAM::ManagedPolicy"), r.ofType("AWS::IAM::UserPolicy"), r.ofType("AWS::IAM::User")) {
		r.wrong("%s: unexpected resource", unexpected)
	}
	for id, expected := range calls {
		statements, err := template.Statements(r.resources, id)
		if err != nil {
			r.wrong("%v", err)
			continue
		}
		var got []string
		for _, statement := range statements {
			for _, action := range statement.Actions {
				for _, resource := range statement.Resources {
					got = append(got, action+" "+resource+conditionOf(statement))
				}
			}
		}
		r.same("permissions of "+id, expected, got)
	}
}

func conditionOf(statement template.Statement) string {
	text := ""
	for _, operator := range slices.Sorted(maps.Keys(statement.Conditions)) {
		for _, key := range slices.Sorted(maps.Keys(statement.Conditions[operator])) {
			text += " if " + operator + " " + key + " " + strings.Join(statement.Conditions[operator][key], ",")
		}
	}
	return text
}

func trust(r *reader) {
	const ofAccount = " map[ArnLike:map[aws:SourceArn:%] StringEquals:map[aws:SourceAccount:map[Ref:AWS::AccountId]]]"
	services := map[string]string{
		"SchedulerRole": "scheduler.amazonaws.com" + strings.ReplaceAll(ofAccount, "%", "map[Fn::GetAtt:[ScheduleGroup Arn]]"),
		"WorkflowsRole": "states.amazonaws.com" + strings.ReplaceAll(ofAccount, "%", "map[Fn::Sub:"+arn+"states"+here+"stateMachine:*]"),
	}
	for _, id := range names {
		services[id+"Role"] = "lambda.amazonaws.com <nil>"
	}
	for _, id := range r.ofType("AWS::IAM::Role") {
		document, _ := r.get(id, "AssumeRolePolicyDocument", "Statement").([]any)
		if len(document) != 1 {
			r.wrong("%s: expected one statement of trust, got %d", id, len(document))
			continue
		}
		r.want("effect of the trust of "+id, "Allow", r.get(id, "AssumeRolePolicyDocument", "Statement", 0, "Effect"))
		r.want("action of the trust of "+id, "sts:AssumeRole", r.get(id, "AssumeRolePolicyDocument", "Statement", 0, "Action"))
		principal, _ := r.get(id, "AssumeRolePolicyDocument", "Statement", 0, "Principal").(map[string]any)
		if len(principal) != 1 {
			r.wrong("%s: expected one principal, got %v", id, principal)
		}
		r.want("principal of "+id, services[id], spaced(principal["Service"], r.get(id, "AssumeRolePolicyDocument", "Statement", 0, "Condition")))
	}
}

func passRole(r *reader) {
	for _, id := range r.ofType("AWS::IAM::Role") {
		statements, err := template.Statements(r.resources, id)
		if err != nil {
			r.wrong("%v", err)
		}
		for _, statement := range statements {
			for _, action := range statement.Actions {
				if !strings.HasPrefix(action, "iam:") && action != "*" {
					continue
				}
				if id != "ConsumerRole" && id != "DelayRole" || action != "iam:PassRole" || strings.Join(statement.Resources, " ") != "${SchedulerRole.Arn}" ||
					conditionOf(statement) != " if StringEquals iam:PassedToService scheduler.amazonaws.com" {
					r.wrong("%s: expected only ConsumerRole and DelayRole to pass ${SchedulerRole.Arn}, and only to scheduler.amazonaws.com, got %s on %v%s", id, action, statement.Resources, conditionOf(statement))
				}
			}
		}
	}
}
