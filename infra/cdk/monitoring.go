package cdk

import (
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

// Namespace is the namespace of the functions' own metrics. Their dimension Service is Props.Name.
const Namespace = "Settle"

// The functions' own metrics in alarms and on the dashboard.
const (
	// MetricUnsettledAge is the time in seconds for which an instance has been unsettled.
	MetricUnsettledAge = "UnsettledAge"
	// MetricOutboxAge is the time in seconds for which an instance has had a pending effect.
	MetricOutboxAge = "OutboxAge"
	// MetricBacklogAge is an event's waiting time in seconds, if at least ten events wait for its instance.
	MetricBacklogAge = "BacklogAge"
	// MetricTokenDeadline is the time until a waiting task times out, in seconds. It is only emitted when less than a
	// tenth of the task's time is left.
	MetricTokenDeadline = "TokenDeadline"
	// MetricUnreadable counts the deliveries that wait because their instance's record cannot be read.
	MetricUnreadable = "Unreadable"
	// MetricFaults counts the log lines of level ERROR, which need a person's attention.
	MetricFaults    = "Faults"
	MetricEvents    = "Events"
	MetricCommits   = "Commits"
	MetricConflicts = "Conflicts"
	MetricRetried   = "Retried"
	MetricParked    = "Parked"
)

const (
	metricPeriod = 5 * time.Minute

	oldestMessageSeconds = 15 * 60
	// oldestTimerSeconds counts from the arrival in the delay queue, where a timer may wait for 15 minutes.
	oldestTimerSeconds = 30 * 60
	unsettledSeconds   = 15 * 60
	outboxSeconds      = 5 * 60
	// backlogSeconds is the age above which the consumer's log names the instance.
	backlogSeconds = 60
)

// If a metric is emitted on every retry, its alarm must stay on until the next retry. The number of periods is the time
// between two retries, plus two periods for the retry itself and the delay of metrics.
const (
	// serviceRetryPeriods applies to a service, which is retried within an hour by default (statechart.RetryPolicy).
	serviceRetryPeriods = 12 + 2
	// loopRetryPeriods applies to a delivery, which the loop retries within five minutes (durable.Config.Backoff).
	loopRetryPeriods = 1 + 2
	// A stuck message group causes failures in almost every period. A temporary problem causes failures in one or two.
	stuckPeriods, stuckPeriodsOf = 3, 4
)

// alarm is an "M out of N" alarm. It fires if the metric is above the threshold in `datapoints` (M)
// of the last `periods` (N). Zero datapoints means all periods.
type alarm struct {
	id, description     string
	metric              awscloudwatch.IMetric
	threshold           float64
	datapoints, periods int
}

func (s *Settle) addAlarms() {
	for _, a := range slices.Concat(s.queueAlarms(), s.instanceAlarms(), s.functionAlarms(), s.serviceAlarms()) {
		s.addAlarm(a)
	}
}

func (s *Settle) queueAlarms() (alarms []alarm) {
	for _, queue := range []struct {
		id, what, see     string
		queue, deadLetter awssqs.Queue
		oldest            float64
	}{
		{"", "events", "run settle dlq list for the reasons", s.Queue, s.DeadLetterQueue, oldestMessageSeconds},
		{"Delay", "timers", "run settle dlq list --dead-letter-queue, and see the log of the function delay", s.DelayQueue, s.DelayDeadLetterQueue, oldestTimerSeconds},
		{"Executions", "ends of executions", "run settle dlq list --dead-letter-queue, and see the log of the function executions", s.ExecutionsQueue, s.ExecutionsDeadLetterQueue, oldestMessageSeconds},
	} {
		alarms = append(alarms,
			alarm{queue.id + "DeadLetters", "The dead-letter queue contains " + queue.what + ": " + queue.see + ".",
				queueMetric(queue.deadLetter, visible), 0, 0, 1},
			alarm{queue.id + "OldestMessage", "The oldest message in the queue for " + queue.what + " has waited too long: its function does not process it.",
				queueMetric(queue.queue, oldest), queue.oldest, 0, 2})
	}
	for _, lane := range s.props.Lanes { // The lanes share the dead-letter queue of the main lane.
		alarms = append(alarms, alarm{lane.id() + "OldestMessage", "The oldest message in the queue of the lane " + lane.Name + " has waited too long: its function does not process it.",
			queueMetric(s.Lanes[lane.Name], oldest), oldestMessageSeconds, 0, 2})
	}
	if s.hasUploads() {
		alarms = append(alarms, alarm{"ObjectsDeadLetters", "The dead-letter queue contains uploads that could not be forwarded: see the log of the function objects.",
			queueMetric(s.ObjectsDeadLetterQueue, visible), 0, 0, 1})
	}
	return alarms
}

func (s *Settle) instanceAlarms() []alarm {
	return []alarm{
		{"Unsettled", "An instance has not settled for 15 minutes: one of its services fails or hangs. Its events wait.",
			s.metric(MetricUnsettledAge, "Maximum"), unsettledSeconds, 1, serviceRetryPeriods},
		{"Outbox", "An instance has had a pending effect for 5 minutes: a call to AWS keeps failing.",
			s.metric(MetricOutboxAge, "Maximum"), outboxSeconds, 1, loopRetryPeriods},
		{"Backlog", "At least ten events wait for one instance, the oldest for more than a minute. A long backlog blocks the whole queue: see docs/scaling.md.",
			s.metric(MetricBacklogAge, "Maximum"), backlogSeconds, 1, loopRetryPeriods},
		{"TokenDeadline", "A task waits for an instance, and less than a tenth of its time is left.",
			s.metric(MetricTokenDeadline, "SampleCount"), 0, 1, serviceRetryPeriods},
		{"Unreadable", "The record of an instance cannot be read. Its events wait until the record is repaired.",
			s.metric(MetricUnreadable, "Sum"), 0, 1, loopRetryPeriods},
		{"Faults", "A function has logged a line of level ERROR, which has the instance and the reason.",
			s.metric(MetricFaults, "Sum"), 0, 1, loopRetryPeriods},
		{"Retried", "Deliveries keep failing: an instance is stuck, or a third party is unavailable. See the logs of the functions consumer, delay and executions.",
			s.metric(MetricRetried, "Sum"), 0, stuckPeriods, stuckPeriodsOf},
		{"Events", "More events are applied than expected: a chart or a producer may run in a loop. Find the instance in the consumer's log " +
			"or with settle list, and end it with settle stop: see docs/floods.md.",
			s.metric(MetricEvents, "Sum"), float64(s.props.EventsPerFiveMinutes), 0, 1},
	}
}

func (s *Settle) functionAlarms() (alarms []alarm) {
	options := &awscloudwatch.MetricOptions{Period: seconds(metricPeriod), Statistic: jsii.String("Sum")}
	for _, name := range s.functions() {
		alarms = append(alarms,
			alarm{pascal(name) + "Errors", "The function " + name + " fails: see its log.", s.Functions[name].MetricErrors(options), 0, 0, 1},
			alarm{pascal(name) + "Throttles", "Lambda throttles the function " + name + ": the account's concurrency limit is reached.",
				s.Functions[name].MetricThrottles(options), 0, 0, 1})
	}
	return alarms
}

func (s *Settle) serviceAlarms() (alarms []alarm) {
	table := map[string]*string{"TableName": s.tableName}
	index := map[string]*string{"TableName": s.tableName, "GlobalSecondaryIndexName": jsii.String(indexName)}
	for _, throttle := range []struct{ id, metric, what string }{
		{"ReadThrottles", "ReadThrottleEvents", "reads"}, {"WriteThrottles", "WriteThrottleEvents", "writes"},
	} {
		alarms = append(alarms, alarm{"Table" + throttle.id, "DynamoDB throttles the table's " + throttle.what + ".",
			sum("AWS/DynamoDB", throttle.metric, table), 0, 0, 1})
		if !s.props.WithoutIndex { // The table's own metric does not include the index.
			alarms = append(alarms, alarm{"Index" + throttle.id, "DynamoDB throttles the " + throttle.what + " of the index by state.",
				sum("AWS/DynamoDB", throttle.metric, index), 0, 0, 1})
		}
	}
	return append(alarms,
		alarm{"SchedulesDropped", "EventBridge Scheduler has dropped timers: it cannot send to the delay queue.",
			sum("AWS/Scheduler", "InvocationDroppedCount", map[string]*string{"ScheduleGroup": s.ScheduleGroup.ScheduleGroupName()}), 0, 0, 1},
		alarm{"GatewayFails", "The HTTP API answers with 5xx: see the gateway's log.",
			sum("AWS/ApiGateway", "5xx", map[string]*string{"ApiId": s.HTTPAPI.Ref()}), 0, 0, 1})
}

// addAlarm adds an alarm. Missing data is not a problem, because an idle stack emits no metrics.
func (s *Settle) addAlarm(a alarm) {
	props := awscloudwatch.AlarmProps{
		AlarmDescription: jsii.String("Settle: " + a.description), Metric: a.metric, Threshold: &a.threshold,
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD, EvaluationPeriods: jsii.Number(a.periods),
		TreatMissingData: awscloudwatch.TreatMissingData_NOT_BREACHING,
	}
	if a.datapoints > 0 {
		props.DatapointsToAlarm = jsii.Number(a.datapoints)
	}
	added := awscloudwatch.NewAlarm(s.Scope, jsii.String(a.id+"Alarm"), &props)
	if len(s.props.AlarmActions) > 0 {
		resource := added.Node().DefaultChild().(awscloudwatch.CfnAlarm)
		resource.SetAlarmActions(&s.props.AlarmActions)
		resource.SetOkActions(&s.props.AlarmActions)
	}
	s.Alarms = append(s.Alarms, added)
}

// metric returns one of the functions' own metrics.
func (s *Settle) metric(name, statistic string) awscloudwatch.Metric {
	return metricOf(Namespace, name, statistic, map[string]*string{"Service": s.name})
}

func queueMetric(queue awssqs.Queue, name string) awscloudwatch.Metric {
	return metricOf("AWS/SQS", name, "Maximum", map[string]*string{"QueueName": queue.QueueName()})
}

func sum(namespace, name string, dimensions map[string]*string) awscloudwatch.Metric {
	return metricOf(namespace, name, "Sum", dimensions)
}

func metricOf(namespace, name, statistic string, dimensions map[string]*string) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: &namespace, MetricName: &name, Statistic: &statistic, DimensionsMap: &dimensions,
		Period: awscdk.Duration_Seconds(jsii.Number(metricPeriod / time.Second)),
	})
}

// The dashboard's grid is 24 units wide.
const (
	widgetWidth  = 8
	widgetHeight = 6
)

// The metrics of queues in alarms and on the dashboard.
const (
	visible = "ApproximateNumberOfMessagesVisible"
	delayed = "ApproximateNumberOfMessagesDelayed"
	oldest  = "ApproximateAgeOfOldestMessage"
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
	waiting := []awscloudwatch.IMetric{queueMetric(s.Queue, visible), queueMetric(s.DelayQueue, delayed), queueMetric(s.ExecutionsQueue, visible)}
	ages := []awscloudwatch.IMetric{queueMetric(s.Queue, oldest), queueMetric(s.DelayQueue, oldest), queueMetric(s.ExecutionsQueue, oldest)}
	for _, lane := range s.props.Lanes {
		waiting, ages = append(waiting, queueMetric(s.Lanes[lane.Name], visible)), append(ages, queueMetric(s.Lanes[lane.Name], oldest))
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
				graph("Seconds unsettled, in the outbox, in a backlog", s.metric(MetricUnsettledAge, "Maximum"), s.metric(MetricOutboxAge, "Maximum"),
					s.metric(MetricBacklogAge, "Maximum")),
			},
			{
				graph("Seconds until waiting tasks time out", s.metric(MetricTokenDeadline, "Minimum")),
				graph("Waiting messages", waiting...),
				graph("Age of the oldest message, seconds", ages...),
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
