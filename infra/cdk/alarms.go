package cdk

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

// Namespace is that of the functions' own metrics, whose dimension Service is Props.Name.
const Namespace = "Settle"

// The functions' own metrics that alarms and the dashboard show.
const (
	// MetricUnsettledAge is for how many seconds an instance has been unsettled.
	MetricUnsettledAge = "UnsettledAge"
	// MetricOutboxAge is for how many seconds an instance has owed an effect.
	MetricOutboxAge = "OutboxAge"
	// MetricTokenDeadline is in how many seconds a task that waits for an instance times out. It is told only when less than a tenth
	// of the task's time is left.
	MetricTokenDeadline = "TokenDeadline"
	// MetricUnreadable counts the deliveries that wait because what is stored of their instance cannot be read.
	MetricUnreadable = "Unreadable"
	// MetricFaults counts the lines of log of level ERROR: what a person should look at.
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
	// oldestTimerSeconds counts from when a timer came into the delay queue, where it may wait for 15 minutes.
	oldestTimerSeconds = 30 * 60
	unsettledSeconds   = 15 * 60
	outboxSeconds      = 5 * 60
)

// What is told at each try is to ring until the next one: in one of as many periods as lie between them, and two more, for the try
// takes time, and so do metrics.
const (
	// serviceRetryPeriods are for a service, which is tried again within an hour unless its chart says otherwise
	// (statechart.RetryPolicy).
	serviceRetryPeriods = 12 + 2
	// loopRetryPeriods are for a delivery, which the loop tries again within five minutes (durable.Config.Backoff).
	loopRetryPeriods = 1 + 2
	// A group that is stuck fails in each period but for a few. What passes fails in one or two.
	stuckPeriods, stuckPeriodsOf = 3, 4
)

// alarm is one that goes off when the metric is above the threshold in some of the last periods: in datapoints of them, in all
// of them if that is zero.
type alarm struct {
	id, description     string
	metric              awscloudwatch.IMetric
	threshold           float64
	datapoints, periods int
}

func (s *Settle) addAlarms() {
	s.addQueueAlarms()
	s.addInstanceAlarms()
	s.addFunctionAlarms()
	s.addServiceAlarms()
}

func (s *Settle) addQueueAlarms() {
	for _, queue := range []struct {
		id, what, see     string
		queue, deadLetter awssqs.Queue
		oldest            float64
	}{
		{"", "events", "settle dlq list says why", s.Queue, s.DeadLetterQueue, oldestMessageSeconds},
		{"Delay", "timers", "see settle dlq list --dead-letter-queue, and the log of the function delay", s.DelayQueue, s.DelayDeadLetterQueue, oldestTimerSeconds},
		{"Executions", "ends of executions", "see settle dlq list --dead-letter-queue, and the log of the function executions", s.ExecutionsQueue, s.ExecutionsDeadLetterQueue, oldestMessageSeconds},
	} {
		s.addAlarm(alarm{
			id: queue.id + "DeadLetters", description: "In the dead-letter queue are " + queue.what + ": " + queue.see + ".",
			metric: queueMetric(queue.deadLetter, "ApproximateNumberOfMessagesVisible"), periods: 1,
		})
		s.addAlarm(alarm{
			id: queue.id + "OldestMessage", description: "The oldest of the " + queue.what + " has waited for too long: nobody takes it.",
			metric: queueMetric(queue.queue, "ApproximateAgeOfOldestMessage"), threshold: queue.oldest, periods: 2,
		})
	}
	if s.hasUploads() {
		s.addAlarm(alarm{
			id: "ObjectsDeadLetters", description: "In the dead-letter queue are uploads that could not be brought to the queue: see the log of the function objects.",
			metric: queueMetric(s.ObjectsDeadLetterQueue, "ApproximateNumberOfMessagesVisible"), periods: 1,
		})
	}
}

func (s *Settle) addInstanceAlarms() {
	s.addAlarm(alarm{
		id: "Unsettled", description: "An instance has not settled for 15 minutes: a service of it fails or hangs, and its events wait.",
		metric: s.metric(MetricUnsettledAge, "Maximum"), threshold: unsettledSeconds, datapoints: 1, periods: serviceRetryPeriods,
	})
	s.addAlarm(alarm{
		id: "Outbox", description: "An instance has owed an effect for 5 minutes: a call to AWS fails again and again.",
		metric: s.metric(MetricOutboxAge, "Maximum"), threshold: outboxSeconds, datapoints: 1, periods: loopRetryPeriods,
	})
	s.addAlarm(alarm{
		id: "TokenDeadline", description: "A task waits for an instance, and less than a tenth of its time is left.",
		metric: s.metric(MetricTokenDeadline, "SampleCount"), datapoints: 1, periods: serviceRetryPeriods,
	})
	s.addAlarm(alarm{
		id: "Unreadable", description: "What is stored of an instance cannot be read: its events wait until somebody mends that.",
		metric: s.metric(MetricUnreadable, "Sum"), datapoints: 1, periods: loopRetryPeriods,
	})
	s.addAlarm(alarm{
		id: "Faults", description: "The log of a function has a line of level ERROR: see that line for the instance and the reason.",
		metric: s.metric(MetricFaults, "Sum"), datapoints: 1, periods: loopRetryPeriods,
	})
	s.addAlarm(alarm{
		id: "Retried", description: "Deliveries fail again and again: a group is stuck, or a third party is in trouble. See the logs of the functions consumer, delay and executions.",
		metric: s.metric(MetricRetried, "Sum"), datapoints: stuckPeriods, periods: stuckPeriodsOf,
	})
}

func (s *Settle) addFunctionAlarms() {
	options := &awscloudwatch.MetricOptions{Period: seconds(metricPeriod), Statistic: jsii.String("Sum")}
	for _, name := range s.functions() {
		s.addAlarm(alarm{
			id: pascal(name) + "Errors", description: "The function " + name + " fails: see its log.",
			metric: s.Functions[name].MetricErrors(options), periods: 1,
		})
		s.addAlarm(alarm{
			id: pascal(name) + "Throttles", description: "Lambda throttles the function " + name + ": the account's concurrency is used up.",
			metric: s.Functions[name].MetricThrottles(options), periods: 1,
		})
	}
}

func (s *Settle) addServiceAlarms() {
	for _, throttle := range []struct{ id, metric, what string }{
		{"ReadThrottles", "ReadThrottleEvents", "reads"}, {"WriteThrottles", "WriteThrottleEvents", "writes"},
	} {
		s.addAlarm(alarm{
			id: "Table" + throttle.id, description: "DynamoDB throttles the table's " + throttle.what + ".",
			metric: sum("AWS/DynamoDB", throttle.metric, map[string]*string{"TableName": s.Table.TableName()}), periods: 1,
		})
		if s.props.WithoutIndex {
			continue
		}
		// What the table's own metric leaves out.
		s.addAlarm(alarm{
			id: "Index" + throttle.id, description: "DynamoDB throttles the " + throttle.what + " of the index by state.",
			metric: sum("AWS/DynamoDB", throttle.metric, map[string]*string{
				"TableName": s.Table.TableName(), "GlobalSecondaryIndexName": jsii.String(indexName),
			}), periods: 1,
		})
	}
	s.addAlarm(alarm{
		id: "SchedulesDropped", description: "EventBridge Scheduler has given up timers: it cannot send to the delay queue.",
		metric: sum("AWS/Scheduler", "InvocationDroppedCount", map[string]*string{"ScheduleGroup": s.ScheduleGroup.ScheduleGroupName()}), periods: 1,
	})
	s.addAlarm(alarm{
		id: "GatewayFails", description: "The HTTP API answers with 5xx: see the gateway's log.",
		metric: sum("AWS/ApiGateway", "5xx", map[string]*string{"ApiId": s.HTTPAPI.Ref()}), periods: 1,
	})
}

// addAlarm adds an alarm. Where nothing is measured, nothing is wrong: a stack that is idle measures nothing.
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

// metric is one of the functions' own.
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
