package cdk_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/jsii-runtime-go"
)

// environments are the variables that runtime/host reads for each function, in addition to the variables that every
// function reads.
var environments = func() map[string]object {
	secret := func(id string) string { return "{{resolve:secretsmanager:${" + id + "}:SecretString:::}}" }
	// During a rotation, the variable holds the version AWSPENDING, and NAME_PREVIOUS holds the current version. Otherwise
	// the variable holds the current version, and NAME_PREVIOUS is not set.
	rotated := func(variable, id string) object {
		choice := func(values ...any) object { return object{"Fn::If": append(list{"Rotates" + id}, values...)} }
		return object{
			variable:               choice("{{resolve:secretsmanager:${"+id+"}:SecretString::AWSPENDING:}}", secret(id)),
			variable + "_PREVIOUS": choice(secret(id), "${AWS::NoValue}"),
		}
	}
	delay := object{
		"SETTLE_DELAY_QUEUE_URL": "${DelayQueue}", "SETTLE_DELAY_QUEUE_ARN": "${DelayQueue.Arn}",
		"SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN": "${DelayDeadLetterQueue.Arn}",
		"SETTLE_SCHEDULER_ROLE_ARN":          "${SchedulerRole.Arn}", "SETTLE_SCHEDULE_GROUP": "${AWS::StackName}",
	}
	consumer := maps.Clone(delay)
	maps.Copy(consumer, object{
		"SETTLE_TABLE": "${Table}", "SETTLE_TABLE_INDEX": "on", "SETTLE_DEAD_LETTER_QUEUE_URL": "${DeadLetterQueue}", "SETTLE_EVENT_BUS": "${EventBus}",
		"SETTLE_ENRICH_CALLBACK_BASE": "${HttpApi.ApiEndpoint}", "SETTLE_SIGNUP_CODE_KEY": secret("SignupCodeKey"),
	})
	gateway := object{"SETTLE_TABLE": "${Table}", "SETTLE_ENRICH_CALLBACK_BASE": "${HttpApi.ApiEndpoint}"}
	maps.Copy(gateway, rotated("SETTLE_GITHUB_WEBHOOK_SECRET", "GitHubWebhookSecret"))
	for _, function := range []object{consumer, gateway} {
		maps.Copy(function, rotated("SETTLE_ENRICH_CALLBACK_KEY", "EnrichCallbackKey"))
	}
	return map[string]object{
		"Consumer": consumer,
		"Gateway":  gateway,
		"Delay":    delay, "Executions": {}, "Tokentask": {}, "Objects": {"SETTLE_DEAD_LETTER_QUEUE_URL": "${DeadLetterQueue}"},
	}
}()

func functions(t subject) {
	expected := map[string]object{}
	for id, variables := range environments {
		variables = maps.Clone(variables)
		variables["SETTLE_SERVICE"], variables["SETTLE_QUEUE_URL"] = "${AWS::StackName}", "${Queue}"
		if t.laned {
			variables["SETTLE_LANES"], variables["SETTLE_LANE_RULES"] = laneList, someLaneRules
		}
		expected[id] = object{
			"Code": object{"S3Bucket": "${CodeBucket}", "S3Key": "${" + id + "Code}"}, "Environment": object{"Variables": exactly(variables)},
			"LoggingConfig": object{"LogGroup": "${" + id + "Logs}"}, "Role": "${" + id + "Role.Arn}", "Timeout": forwarderTimeout, "RecursiveLoop": absent(),
			"ReservedConcurrentExecutions": absent(),
		}
	}
	for _, id := range []string{"Consumer", "Delay", "Executions"} { // Intended chains of events pass through these functions.
		expected[id]["RecursiveLoop"] = "Allow"
	}
	expected["Consumer"]["Timeout"] = consumerTimeout
	// The reservation is off by default. It equals the mapping's maximum concurrency, or ten times
	// the maximum number of pollers. With a smaller reservation, Lambda throttles the pollers.
	var reserved any = object{"Fn::If": list{"HasConsumerPollers", object{"Fn::Join": list{"", list{pollers(1), "0"}}}, "${ConsumerConcurrency}"}}
	if t.laned {
		reserved = someBatches
	}
	expected["Consumer"]["ReservedConcurrentExecutions"] = object{"Fn::If": list{"ReservesConsumerConcurrency", reserved, "${AWS::NoValue}"}}
	t.TemplateMatches(object{
		"Conditions": object{"ReservesConsumerConcurrency": object{"Fn::Equals": list{"${ReserveConsumerConcurrency}", "on"}}},
		"Parameters": object{"ReserveConsumerConcurrency": object{"Default": "off", "AllowedValues": list{"off", "on"}}},
	})
	expected["Objects"]["DeadLetterConfig"] = object{"TargetArn": "${ObjectsDeadLetterQueue.Arn}"}
	only(t, "Lambda::Function", expected, object{"Architectures": list{"arm64"}, "Runtime": "provided.al2023", "Handler": "bootstrap"})
	has(t, object{"ScheduleGroup": object{"Properties": object{"Name": "${AWS::StackName}"}}})
}

func secrets(t subject) {
	only(t, "SecretsManager::Secret", map[string]object{"SignupCodeKey": {}, "EnrichCallbackKey": {}, "GitHubWebhookSecret": {}},
		object{"SecretString": absent(), "GenerateSecretString": object{"PasswordLength": 43}})
	for _, id := range []string{"EnrichCallbackKey", "GitHubWebhookSecret"} {
		t.TemplateMatches(object{
			"Conditions": object{"Rotates" + id: object{"Fn::Equals": list{"${Rotate" + id + "}", "on"}}},
			"Parameters": object{"Rotate" + id: object{"Default": "off", "AllowedValues": list{"off", "on"}}},
		})
	}
}

func logGroups(t subject) {
	t.AllResourcesProperties(jsii.String("AWS::Logs::LogGroup"), object{"RetentionInDays": 30})
}

// addPermissions adds the property Permissions to the roles of a readable template.
func addPermissions(template, read object) {
	all, err := resourcesOf(template)
	if err != nil {
		panic(err)
	}
	for id := range all {
		if all[id].Type != "AWS::IAM::Role" {
			continue
		}
		statements, err := all.statements(id)
		if err != nil {
			panic(err)
		}
		var permissions []string
		for _, s := range statements {
			condition := ""
			for _, operator := range slices.Sorted(maps.Keys(s.Conditions)) {
				condition += fmt.Sprint(" if ", operator, " ", s.Conditions[operator])
			}
			for _, action := range s.Actions {
				for _, resource := range s.Resources {
					permissions = append(permissions, action+" "+resource+condition)
				}
			}
		}
		slices.Sort(permissions)
		at(read, "Resources", id, "Properties").(object)["Permissions"] = permissions
	}
}

// permissions returns the permissions of each role. A permission is an action, a resource and, if the statement has
// one, a condition.
func permissions(t subject) map[string][]string {
	const (
		schedules = arn + "scheduler" + here + "schedule/${AWS::StackName}/*"
		passRole  = "iam:PassRole ${SchedulerRole.Arn} if StringEquals map[iam:PassedToService:[scheduler.amazonaws.com]]"
		aliases   = "dynamodb:UpdateItem ${Table.Arn} if ForAllValues:StringLike map[dynamodb:LeadingKeys:"
	)
	on := func(resource string, actions ...string) (permissions []string) {
		for _, action := range actions {
			permissions = append(permissions, action+" "+resource)
		}
		return permissions
	}
	receive := []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
	const send = "sqs:SendMessage "
	all := map[string][]string{
		"ConsumerRole": slices.Concat(on("${Queue.Arn}", receive...), on("${Queue.Arn}", "sqs:ChangeMessageVisibility", "sqs:SendMessage"),
			[]string{send + "${DeadLetterQueue.Arn}", send + "${DelayQueue.Arn}", passRole},
			on("${Table.Arn}", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"),
			on(schedules, "scheduler:CreateSchedule", "scheduler:DeleteSchedule"), []string{"events:PutEvents " + arn + "events" + here + "event-bus/${EventBus}"}),
		"GatewayRole":    {send + "${Queue.Arn}", "sqs:GetQueueAttributes ${Queue.Arn}", "dynamodb:GetItem ${Table.Arn}", aliases + "[alias/*]]", aliases + "[idempotency/*]]"},
		"DelayRole":      append(on("${DelayQueue.Arn}", receive...), send+"${Queue.Arn}", send+"${DelayQueue.Arn}", "scheduler:CreateSchedule "+schedules, passRole),
		"ExecutionsRole": append(on("${ExecutionsQueue.Arn}", receive...), send+"${Queue.Arn}"),
		"TokentaskRole":  {send + "${Queue.Arn}"},
		"ObjectsRole":    {send + "${Queue.Arn}", send + "${DeadLetterQueue.Arn}", send + "${ObjectsDeadLetterQueue.Arn}"},
		"SchedulerRole":  {send + "${DelayQueue.Arn}", send + "${DelayDeadLetterQueue.Arn}"},
		"WorkflowsRole":  {send + "${Queue.Arn}"},
	}
	for id := range workflowNames {
		all["ConsumerRole"] = append(all["ConsumerRole"], "states:GetExecutionHistory "+arn+"states"+here+"execution:${"+id+".Name}:*")
		all["ConsumerRole"] = append(all["ConsumerRole"], on("${"+id+"}", "states:SendTaskSuccess", "states:SendTaskFailure", "states:SendTaskHeartbeat")...)
	}
	for _, lane := range t.lanes() {
		queue := "${" + lane.id + "Queue.Arn}"
		for id := range environments {
			all[id+"Role"] = append(all[id+"Role"], send+queue)
		}
		all["ConsumerRole"] = slices.Concat(all["ConsumerRole"], on(queue, receive...), on(queue, "sqs:ChangeMessageVisibility"))
	}
	for id := range environments {
		all[id+"Role"] = append(all[id+"Role"], on("${"+id+"Logs.Arn}", "logs:CreateLogStream", "logs:PutLogEvents")...)
	}
	return all
}

func roles(t subject) {
	// These services may act only for a resource of this account.
	sources := map[string][2]string{
		"SchedulerRole": {"scheduler.amazonaws.com", "${ScheduleGroup.Arn}"},
		"WorkflowsRole": {"states.amazonaws.com", arn + "states" + here + "stateMachine:*"},
	}
	expected := map[string]object{}
	for id, permissions := range permissions(t) {
		trust := object{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": object{"Service": "lambda.amazonaws.com"}}
		if source, ok := sources[id]; ok {
			trust["Principal"] = object{"Service": source[0]}
			trust["Condition"] = object{"ArnLike": object{"aws:SourceArn": source[1]}, "StringEquals": object{"aws:SourceAccount": "${AWS::AccountId}"}}
		}
		slices.Sort(permissions)
		expected[id] = object{"AssumeRolePolicyDocument": object{"Statement": exactly(list{trust})}, "Permissions": exactly(permissions)}
	}
	only(t, "IAM::Role", expected, object{})
	for _, kind := range []string{"ManagedPolicy", "UserPolicy", "User"} {
		t.ResourceCountIs(jsii.String("AWS::IAM::"+kind), jsii.Number(0))
	}
}
