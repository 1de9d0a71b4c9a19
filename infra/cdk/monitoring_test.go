package cdk_test

import (
	"maps"
	"regexp"
	"strings"
)

// alarmsOf returns the values of each alarm of the template.
func alarmsOf(t subject) map[string]list {
	all := maps.Clone(alarmOf)
	for _, lane := range t.lanes() {
		all[lane.id+"OldestMessage"] = list{"AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", "QueueName=${" + lane.id + "Queue.QueueName}", 900, 0, 2}
	}
	return all
}

// alarmOf holds the values of each alarm of every template: namespace, metric, statistic, dimensions, threshold, datapoints and periods.
// Zero datapoints means all periods.
var alarmOf = func() map[string]list {
	const own, index = "Service=${AWS::StackName}", "GlobalSecondaryIndexName=by_state TableName=${Table}"
	all := map[string]list{
		"Unsettled":           {"Settle", "UnsettledAge", "Maximum", own, 900, 1, 14}, // 70 minutes, longer than the hour between two retries
		"TokenDeadline":       {"Settle", "TokenDeadline", "SampleCount", own, 0, 1, 14},
		"Outbox":              {"Settle", "OutboxAge", "Maximum", own, 300, 1, 3},
		"Backlog":             {"Settle", "BacklogAge", "Maximum", own, 60, 1, 3},
		"Unreadable":          {"Settle", "Unreadable", "Sum", own, 0, 1, 3},
		"Faults":              {"Settle", "Faults", "Sum", own, 0, 1, 3},
		"Retried":             {"Settle", "Retried", "Sum", own, 0, 3, 4},
		"TableReadThrottles":  {"AWS/DynamoDB", "ReadThrottleEvents", "Sum", "TableName=${Table}", 0, 0, 1},
		"TableWriteThrottles": {"AWS/DynamoDB", "WriteThrottleEvents", "Sum", "TableName=${Table}", 0, 0, 1},
		"IndexReadThrottles":  {"AWS/DynamoDB", "ReadThrottleEvents", "Sum", index, 0, 0, 1},
		"IndexWriteThrottles": {"AWS/DynamoDB", "WriteThrottleEvents", "Sum", index, 0, 0, 1},
		"SchedulesDropped":    {"AWS/Scheduler", "InvocationDroppedCount", "Sum", "ScheduleGroup=${AWS::StackName}", 0, 0, 1},
		"Events":              {"Settle", "Events", "Sum", own, "${EventsPerFiveMinutes}", 0, 1},
		"GatewayFails":        {"AWS/ApiGateway", "5xx", "Sum", "ApiId=${HttpApi}", 0, 0, 1},
	}
	for prefix, seconds := range map[string]int{"": 900, "Delay": 1800, "Executions": 900, "Objects": 0} {
		all[prefix+"DeadLetters"] = list{"AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", "QueueName=${" + prefix + "DeadLetterQueue.QueueName}", 0, 0, 1}
		if seconds > 0 {
			all[prefix+"OldestMessage"] = list{"AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", "QueueName=${" + prefix + "Queue.QueueName}", seconds, 0, 2}
		}
	}
	for function := range environments {
		for _, metric := range []string{"Errors", "Throttles"} {
			all[function+metric] = list{"AWS/Lambda", metric, "Sum", "FunctionName=${" + function + "}", 0, 0, 1}
		}
	}
	return all
}()

func alarms(t subject) {
	expected := map[string]object{}
	for id, a := range alarmsOf(t) {
		var dimensions list
		for dimension := range strings.FieldsSeq(a[3].(string)) {
			name, value, _ := strings.Cut(dimension, "=")
			dimensions = append(dimensions, object{"Name": name, "Value": value})
		}
		expected[id+"Alarm"] = object{
			"Namespace": a[0], "MetricName": a[1], "Statistic": a[2], "Dimensions": exactly(dimensions), "Threshold": a[4],
			"DatapointsToAlarm": a[5], "EvaluationPeriods": a[6],
		}
		if a[5] == 0 {
			expected[id+"Alarm"]["DatapointsToAlarm"] = absent()
		}
	}
	actions := exactly(list{object{"Fn::If": list{"HasAlarmTopic", "${AlarmTopic}", "${AWS::NoValue}"}}})
	only(t, "CloudWatch::Alarm", expected, object{
		"ComparisonOperator": "GreaterThanThreshold", "Period": alarmPeriod, "TreatMissingData": "notBreaching",
		"AlarmActions": actions, "OKActions": actions, "AlarmDescription": like("^Settle: .{20}"),
	})
	t.TemplateMatches(object{"Parameters": object{"EventsPerFiveMinutes": object{"Type": "Number", "Default": 30_000, "MinValue": 1}}})
}

func dashboard(t subject) {
	var shown strings.Builder
	for _, metric := range []string{
		"Events", "Commits", "Conflicts", "Retried", "Unreadable", "Parked", "Faults", "UnsettledAge", "OutboxAge", "BacklogAge", "TokenDeadline",
		"ApproximateAgeOfOldestMessage", "Invocations", "Errors", "Duration",
	} {
		shown.WriteString(`(?=.*"` + metric + `")`)
	}
	for id := range alarmsOf(t) {
		shown.WriteString(`(?=.*` + regexp.QuoteMeta("${"+id+"Alarm.Arn}") + `)`)
	}
	for _, id := range t.queueIDs() {
		for _, metric := range []string{"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"} {
			shown.WriteString(`(?=.*` + regexp.QuoteMeta(`"`+metric+`","QueueName","${`+id+`.QueueName}"`) + `)`)
		}
	}
	only(t, "CloudWatch::Dashboard", map[string]object{"Dashboard": {"DashboardBody": like("^" + shown.String())}}, object{})
}
