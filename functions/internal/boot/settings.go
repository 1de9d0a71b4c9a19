package boot

import (
	"cmp"
	"log/slog"
	"net/url"
	"strconv"
)

// The environment variables of the functions. An empty one counts as not set.
const (
	// Table is the name of the DynamoDB table.
	Table = "SETTLE_TABLE"
	// TableIndex says that the table has the index by_state and that commits keep it: on or off, the default.
	// All consumers of a table need the same.
	TableIndex = "SETTLE_TABLE_INDEX"
	// QueueURL is the URL of the FIFO queue.
	QueueURL = "SETTLE_QUEUE_URL"
	// DeadLetterQueueURL is the URL of the FIFO queue's FIFO dead-letter queue.
	DeadLetterQueueURL = "SETTLE_DEAD_LETTER_QUEUE_URL"
	// DelayQueueURL is the URL of the standard queue for timers.
	DelayQueueURL = "SETTLE_DELAY_QUEUE_URL"
	// DelayQueueARN and SchedulerRoleARN let timers beyond fifteen minutes wait in EventBridge
	// Scheduler: the ARN of the queue for timers, and of the role by which Scheduler sends to it.
	// ScheduleGroup is the group that schedules are made in; by default that of the account.
	// Without the two, such timers go through the queue again every fifteen minutes. DelayDeadLetterQueueARN
	// is the ARN of the dead-letter queue of the queue for timers: Scheduler puts there what it cannot bring to that
	// queue. Without it, such timers are lost.
	DelayQueueARN           = "SETTLE_DELAY_QUEUE_ARN"
	DelayDeadLetterQueueARN = "SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN"
	SchedulerRoleARN        = "SETTLE_SCHEDULER_ROLE_ARN"
	ScheduleGroup           = "SETTLE_SCHEDULE_GROUP"
	// Workflows are the state machines that charts start: the charts' names for them with their ARNs, such as
	// report=arn:aws:states:eu-central-1:123456789012:stateMachine:report, separated by commas. An execution
	// of a workflow that is not among them ends as NOT_STARTED.
	Workflows = "SETTLE_WORKFLOWS"
	// GitHubWebhookSecret is the secret that GitHub signs its webhooks with.
	GitHubWebhookSecret = "SETTLE_GITHUB_WEBHOOK_SECRET"

	// HistoryMax is how many transitions an instance remembers: 1 to HistoryTransitionsMax, by default those of
	// durable.Config.HistoryMax. Each KB of them is a write unit more with each event.
	HistoryMax = "SETTLE_HISTORY_MAX"

	// Service is the name that logs, metrics and traces go by; "settle" by default.
	Service = "SETTLE_SERVICE"
	// LogLevel is the least level that is logged: debug, info, the default, warn or error.
	LogLevel = "SETTLE_LOG_LEVEL"
	// LogPayloads says that the payloads of events, and what the demonstration services would do, are logged: on or off,
	// the default. Task tokens never are.
	LogPayloads = "SETTLE_LOG_PAYLOADS"
	// TracesEndpoint is the base URL of an OpenTelemetry collector that takes OTLP over HTTP. Without it nothing is traced.
	// TracesHeaders are headers for it, such as a key: name=value, separated by commas.
	TracesEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	TracesHeaders  = "OTEL_EXPORTER_OTLP_HEADERS"
)

// webhookSecretBytesMin is the least length of the secret: whoever guesses it, offline from one webhook, forges events.
const webhookSecretBytesMin = 16

// HistoryTransitionsMax is the largest HistoryMax. A transition has 150 bytes if the names of states are long, and 800 if ten regions
// have such: 80 KB then, for which an item has room beside the largest snapshot.
const HistoryTransitionsMax = 100

// Settings is what the environment says.
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
	// Workflows are ARNs by the charts' names.
	Workflows           map[string]string
	GitHubWebhookSecret string
	// HistoryMax is 0 for the default.
	HistoryMax int
	// Service is never empty.
	Service     string
	LogLevel    slog.Level
	LogPayloads bool
	// TracesEndpoint is nil if nothing is to be traced.
	TracesEndpoint *url.URL
	TracesHeaders  map[string]string
}

// readSettings reads the environment; what is wrong with it, the Env knows.
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
		GitHubWebhookSecret:     string(r.Secret(GitHubWebhookSecret, webhookSecretBytesMin)),
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
		r.Wrong(DelayDeadLetterQueueARN, "nothing without "+DelayQueueARN+" and "+SchedulerRoleARN+", as it is for EventBridge Scheduler", strconv.Quote(settings.DelayDeadLetterQueueARN))
	}
	return settings
}
