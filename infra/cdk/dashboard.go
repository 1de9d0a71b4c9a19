package cdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"
)

// The dashboard's grid is 24 wide.
const (
	widgetWidth  = 8
	widgetHeight = 6
)

// addDashboard adds the dashboard. Its rows are: alarms, events and failures, waiting messages, and the functions.
func (s *Settle) addDashboard() {
	alarms := make([]awscloudwatch.IAlarm, len(s.Alarms))
	for i := range s.Alarms {
		alarms[i] = s.Alarms[i]
	}
	options := &awscloudwatch.MetricOptions{Period: seconds(metricPeriod)}
	var invocations, errors, durations []awscloudwatch.IMetric
	for _, name := range s.functions() {
		function := s.Functions[name]
		label := &awscloudwatch.MetricOptions{Label: jsii.String(name), Period: options.Period}
		invocations = append(invocations, function.MetricInvocations(label))
		errors = append(errors, function.MetricErrors(label))
		durations = append(durations, function.MetricDuration(&awscloudwatch.MetricOptions{Label: jsii.String(name), Period: options.Period, Statistic: jsii.String("p99")}))
	}
	s.Dashboard = awscloudwatch.NewDashboard(s.Scope, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{
		DefaultInterval: awscdk.Duration_Hours(jsii.Number(3)),
		Widgets: &[]*[]awscloudwatch.IWidget{
			{awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{
				Title: jsii.String("Alarms"), Alarms: &alarms, Width: jsii.Number(3 * widgetWidth), Height: jsii.Number(widgetHeight),
			})},
			{
				graph("Events and commits", s.metric(MetricEvents, "Sum"), s.metric(MetricCommits, "Sum")),
				graph("Retried, unreadable, parked, faults, conflicts", s.metric(MetricRetried, "Sum"), s.metric(MetricUnreadable, "Sum"), s.metric(MetricParked, "Sum"),
					s.metric(MetricFaults, "Sum"), s.metric(MetricConflicts, "Sum")),
				graph("Seconds unsettled, seconds in the outbox", s.metric(MetricUnsettledAge, "Maximum"), s.metric(MetricOutboxAge, "Maximum")),
			},
			{
				graph("Seconds until waiting tasks time out", s.metric(MetricTokenDeadline, "Minimum")),
				graph("Waiting messages", queueMetric(s.Queue, "ApproximateNumberOfMessagesVisible"), queueMetric(s.DelayQueue, "ApproximateNumberOfMessagesDelayed"), queueMetric(s.ExecutionsQueue, "ApproximateNumberOfMessagesVisible")),
				graph("Age of the oldest message, seconds", queueMetric(s.Queue, "ApproximateAgeOfOldestMessage"), queueMetric(s.DelayQueue, "ApproximateAgeOfOldestMessage"), queueMetric(s.ExecutionsQueue, "ApproximateAgeOfOldestMessage")),
			},
			{graph("Invocations", invocations...), graph("Errors", errors...), graph("Duration, p99", durations...)},
		},
	})
}

func graph(title string, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
	return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
		Title: &title, Left: &metrics, Width: jsii.Number(widgetWidth), Height: jsii.Number(widgetHeight),
	})
}
