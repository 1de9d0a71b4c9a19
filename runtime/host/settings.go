package host

import (
	"cmp"
	"log/slog"
	"net/url"
	"strconv"
)

// The environment variables of the functions. An empty variable counts as unset.
const (
	// Table is the name of the DynamoDB table.
	Table = "SETTLE_TABLE"
	// TableIndex tells the consumer to maintain the table's index by_state: on or off, the default. All consumers of a
	// table need the same value.
	TableIndex = "SETTLE_TABLE_INDEX"
	// QueueURL is the URL of the FIFO queue.
	QueueURL = "SETTLE_QUEUE_URL"
	// DeadLetterQueueURL is the URL of the FIFO queue's FIFO dead-letter queue.
	DeadLetterQueueURL = "SETTLE_DEAD_LETTER_QUEUE_URL"
	// DelayQueueURL is the URL of the standard queue for timers.
	DelayQueueURL = "SETTLE_DELAY_QUEUE_URL"
	// DelayQueueARN and SchedulerRoleARN enable EventBridge Scheduler for timers of more than fifteen minutes. They are
	// the ARN of the delay queue and of the role that Scheduler uses to send to it. Without them, such timers pass
	// through the delay queue every fifteen minutes. ScheduleGroup is the group of the schedules and defaults to the
	// account's default group. DelayDeadLetterQueueARN is the ARN of the delay queue's dead-letter queue. Scheduler
	// sends timers there that it cannot deliver. Without it, such timers are lost.
	DelayQueueARN           = "SETTLE_DELAY_QUEUE_ARN"
	DelayDeadLetterQueueARN = "SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN"
	SchedulerRoleARN        = "SETTLE_SCHEDULER_ROLE_ARN"
	ScheduleGroup           = "SETTLE_SCHEDULE_GROUP"
	// Workflows are the state machines that charts start, as pairs of the chart's name and the ARN, separated by
	// commas, such as report=arn:aws:states:eu-central-1:123456789012:stateMachine:report. An execution of any other
	// workflow ends as NOT_STARTED.
	Workflows = "SETTLE_WORKFLOWS"

	// HistoryMax is the number of transitions that an instance stores: 1 to HistoryTransitionsMax. It defaults to the
	// default of durable.Config.HistoryMax. Each KB of history costs one more write unit per event.
	HistoryMax = "SETTLE_HISTORY_MAX"

	// Service is the service name in metrics and traces, "settle" by default.
	Service = "SETTLE_SERVICE"
	// LogLevel is the minimum level of the log: debug, info (the default), warn or error.
	LogLevel = "SETTLE_LOG_LEVEL"
	// LogPayloads turns on logging of event payloads and of the calls that the demonstration services would make: on or
	// off, the default. Task tokens are never logged.
	LogPayloads = "SETTLE_LOG_PAYLOADS"
	// TracesEndpoint is the base URL of an OpenTelemetry collector that accepts OTLP over HTTP. Without it, tracing is
	// off. TracesHeaders are HTTP headers for the collector, such as an API key: name=value, separated by commas.
	TracesEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	TracesHeaders  = "OTEL_EXPORTER_OTLP_HEADERS"
)

// HistoryTransitionsMax is the upper bound of HistoryMax. A transition takes 150 bytes with long state names and 800
// bytes with ten regions. The maximum is then 80 KB, which fits into an item beside the largest snapshot.
const HistoryTransitionsMax = 100

// Settings are the values of the environment variables.
type Settings struct {
	Table                   string
	TableIndex              bool
	QueueURL                string
	DeadLetterQueueURL      string
	DelayQueueURL           string
	DelayQueueARN           string
	DelayDeadLetterQueueARN string
	SchedulerRoleARN        string
	ScheduleGroup           string
	// Workflows maps the charts' names to ARNs.
	Workflows map[string]string
	// HistoryMax is 0 for the default.
	HistoryMax int
	// Service is never empty.
	Service     string
	LogLevel    slog.Level
	LogPayloads bool
	// TracesEndpoint is nil if tracing is off.
	TracesEndpoint *url.URL
	TracesHeaders  map[string]string
}

// readSettings reads the environment. It reports problems to the Env.
func readSettings(r *Env) Settings {
	settings := Settings{
		Table:                   r.Text(Table, "the name of the DynamoDB table"),
		TableIndex:              r.OnOff(TableIndex),
		QueueURL:                r.fifo(QueueURL, "the URL of the FIFO queue"),
		DeadLetterQueueURL:      r.fifo(DeadLetterQueueURL, "the URL of the FIFO dead-letter queue"),
		DelayQueueURL:           r.standard(DelayQueueURL, "the URL of the standard queue for timers"),
		DelayQueueARN:           r.arn(DelayQueueARN, "sqs"),
		DelayDeadLetterQueueARN: r.standardARN(DelayDeadLetterQueueARN),
		SchedulerRoleARN:        r.arn(SchedulerRoleARN, "iam"),
		ScheduleGroup:           r.Text(ScheduleGroup, "the name of a schedule group"),
		Workflows:               r.workflows(Workflows),
		Service:                 cmp.Or(r.Text(Service, "a name"), "settle"),
		LogLevel:                r.level(LogLevel),
		LogPayloads:             r.OnOff(LogPayloads),
		TracesEndpoint:          r.endpoint(TracesEndpoint),
		TracesHeaders:           r.headers(TracesHeaders),
	}
	settings.HistoryMax = r.countTo(HistoryMax, HistoryTransitionsMax)
	if (settings.DelayQueueARN == "") != (settings.SchedulerRoleARN == "") {
		r.Wrong(DelayQueueARN+" and "+SchedulerRoleARN, "both or neither", "one")
	}
	if settings.DelayDeadLetterQueueARN != "" && settings.SchedulerRoleARN == "" {
		r.Wrong(DelayDeadLetterQueueARN, "no value without "+DelayQueueARN+" and "+SchedulerRoleARN+", because only EventBridge Scheduler uses it", strconv.Quote(settings.DelayDeadLetterQueueARN))
	}
	return settings
}
