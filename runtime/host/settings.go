package host

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/lanes"
	"github.com/settle-run/settle/runtime/recording"
)

// The environment variables of the functions. An empty variable counts as unset.
const (
	// Table is the name of the DynamoDB table.
	Table = "SETTLE_TABLE"
	// TableIndex tells the consumer whether to maintain the table's index by_state: on, or off (the default). All
	// consumers of a table need the same value.
	TableIndex = "SETTLE_TABLE_INDEX"
	// QueueURL is the URL of the FIFO queue.
	QueueURL = "SETTLE_QUEUE_URL"
	// Lanes are the lanes besides the main one, which is QueueURL. They are pairs of name and queue ARN, separated by commas,
	// such as bulk=arn:aws:sqs:eu-central-1:123456789012:bulk.fifo. LaneRules assign new instances to lanes. See
	// lanes.ParseRules.
	Lanes     = "SETTLE_LANES"
	LaneRules = "SETTLE_LANE_RULES"
	// DeadLetterQueueURL is the URL of the FIFO queue's FIFO dead-letter queue.
	DeadLetterQueueURL = "SETTLE_DEAD_LETTER_QUEUE_URL"
	// DelayQueueURL is the URL of the standard queue for timers.
	DelayQueueURL = "SETTLE_DELAY_QUEUE_URL"
	// DelayQueueARN and SchedulerRoleARN enable EventBridge Scheduler for timers of more than fifteen minutes. They are
	// the ARNs of the delay queue and of the role that Scheduler uses to send to the queue. Without them, such timers
	// pass through the delay queue every fifteen minutes. ScheduleGroup is the group of the schedules and defaults to
	// the account's default group. DelayDeadLetterQueueARN is the ARN of the delay queue's dead-letter queue, to which
	// Scheduler sends undeliverable timers. Without it, they are lost.
	DelayQueueARN           = "SETTLE_DELAY_QUEUE_ARN"
	DelayDeadLetterQueueARN = "SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN"
	SchedulerRoleARN        = "SETTLE_SCHEDULER_ROLE_ARN"
	ScheduleGroup           = "SETTLE_SCHEDULE_GROUP"
	// Workflows are the state machines that charts start, as pairs of name and ARN, separated by commas, such as
	// report=arn:aws:states:eu-central-1:123456789012:stateMachine:report. Charts use the name. If a chart starts any
	// other workflow, the chart receives an end with the status NOT_STARTED.
	Workflows = "SETTLE_WORKFLOWS"
	// EventBus is the name or the ARN of the EventBridge event bus that receives the events that charts emit
	// (statechart.Emit). A name refers to the function's account and Region. Without EventBus, emitted events are
	// dropped, and the consumer logs a warning at startup if a chart emits.
	EventBus = "SETTLE_EVENT_BUS"

	// HistoryMax is the number of transitions that an instance stores: 1 to HistoryTransitionsMax. It defaults to the
	// default of durable.Config.HistoryMax. Each KB of history costs one more write unit per event.
	HistoryMax = "SETTLE_HISTORY_MAX"
	// HopsMax limits the messages between instances that follow one timer or one event from outside: 1 to ChainHopsMax.
	// It defaults to the default of durable.Config.HopsMax.
	HopsMax = "SETTLE_HOPS_MAX"

	// BasePath is the path below which the gateway's custom domain serves the API; see gateway.Config.BasePath.
	BasePath = "SETTLE_BASE_PATH"

	// Service is the service name in metrics and traces, "settle" by default.
	Service = "SETTLE_SERVICE"
	// LogLevel is the minimum level of the log: debug, info (the default), warn or error.
	LogLevel = "SETTLE_LOG_LEVEL"
	// LogPayloads turns on logging of event payloads and of the calls that the demonstration services would make: on, or
	// off (the default). Task tokens are never logged.
	LogPayloads = "SETTLE_LOG_PAYLOADS"
	// TracesEndpoint is the base URL of an OpenTelemetry collector that accepts OTLP over HTTP. Without it, tracing is
	// off. TracesHeaders are HTTP headers for the collector, such as an API key: name=value, separated by commas.
	TracesEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	TracesHeaders  = "OTEL_EXPORTER_OTLP_HEADERS"
)

// HistoryTransitionsMax is the upper bound of HistoryMax. A transition takes 150 bytes with long state names and 800
// bytes with ten regions. The longest history is then 80 KB, which fits into an item beside the largest snapshot.
const HistoryTransitionsMax = 100

// ChainHopsMax is the upper bound of HopsMax.
const ChainHopsMax = 1_000_000

// Settings are the values of the environment variables.
type Settings struct {
	Table      string
	TableIndex bool
	QueueURL   string
	// Lanes maps the name of each lane besides the main one to the ARN of its queue.
	Lanes map[string]string
	// LaneRules is the text for lanes.ParseRules.
	LaneRules               string
	DeadLetterQueueURL      string
	DelayQueueURL           string
	DelayQueueARN           string
	DelayDeadLetterQueueARN string
	SchedulerRoleARN        string
	ScheduleGroup           string
	// Workflows maps the names that charts use for workflows to ARNs.
	Workflows map[string]string
	// EventBus is a name or an ARN.
	EventBus string
	// HistoryMax and HopsMax are 0 for the default.
	HistoryMax, HopsMax int
	Recording           recording.Config // its Share is 0 if nothing is recorded
	BasePath            string
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
		EventBus:                r.bus(EventBus),
		BasePath:                r.Text(BasePath, "a path such as /settle"),
		Service:                 cmp.Or(r.Text(Service, "a name"), "settle"),
		LogLevel:                r.level(LogLevel),
		LogPayloads:             r.OnOff(LogPayloads),
		TracesEndpoint:          r.endpoint(TracesEndpoint),
		TracesHeaders:           r.headers(TracesHeaders),
	}
	settings.Lanes = r.lanes(Lanes)
	settings.LaneRules = r.laneRules(LaneRules, settings.Lanes)
	settings.HistoryMax, settings.HopsMax = r.countTo(HistoryMax, HistoryTransitionsMax), r.countTo(HopsMax, ChainHopsMax)
	settings.Recording = r.recording()
	if (settings.DelayQueueARN == "") != (settings.SchedulerRoleARN == "") {
		r.Wrong(DelayQueueARN+" and "+SchedulerRoleARN, "both or neither", "one")
	}
	if settings.DelayDeadLetterQueueARN != "" && settings.SchedulerRoleARN == "" {
		r.Wrong(DelayDeadLetterQueueARN, "no value without "+DelayQueueARN+" and "+SchedulerRoleARN+", because only EventBridge Scheduler uses it", strconv.Quote(settings.DelayDeadLetterQueueARN))
	}
	return settings
}

// Env reads environment variables and collects their problems. A variable that is unset or empty has the zero value.
// Callers need not check for problems, because the function does not start if there are any.
//
// It uses no library, because github.com/caarlos0/env and github.com/sethvargo/go-envconfig would only read the text.
// The checks and their messages would still be code of this package, with one type for each kind of variable.
type Env struct {
	lookup   func(name string) (string, bool)
	required []string
	problems []error
}

// NewEnv returns an Env that reads variables with `lookup`.
func NewEnv(lookup func(name string) (string, bool)) *Env { return &Env{lookup: lookup} }

// Require marks variables as required. A required variable that is missing is reported when it is read.
func (r *Env) Require(names ...string) { r.required = append(r.required, names...) }

// Problem reports a problem with variables that were read.
func (r *Env) Problem(err error) { r.problems = append(r.problems, err) }

// err returns all problems found so far. It quotes no secret.
func (r *Env) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return fmt.Errorf("reading the settings: %w", errors.Join(r.problems...))
}

// Wrong reports an invalid variable, with the expected and the actual value.
func (r *Env) Wrong(name, expected, got string) {
	r.problems = append(r.problems, fmt.Errorf("environment variable %s: expected %s, got %s", name, expected, got))
}

// Text returns the value unchanged. `expected` describes it in the report of a missing required variable.
func (r *Env) Text(name, expected string) string {
	value, _ := r.lookup(name)
	if value == "" && slices.Contains(r.required, name) {
		r.Wrong(name, expected, "nothing: set it")
	}
	return value
}

// checked returns the value unchanged, and reports it if isValid returns false for it.
func (r *Env) checked(name, expected string, isValid func(value string) bool) string {
	value := r.Text(name, expected)
	if value != "" && !isValid(value) {
		r.Wrong(name, expected, strconv.Quote(value))
	}
	return value
}

// OnOff returns true for on, and false for off or no value.
func (r *Env) OnOff(name string) bool {
	return r.checked(name, "on or off", func(value string) bool { return value == "on" || value == "off" }) == "on"
}

// isURL reports whether a text is the address of a server.
func isURL(text string) bool {
	address, err := url.Parse(text)
	return err == nil && address.Host != "" && (address.Scheme == "https" || address.Scheme == "http")
}

func (r *Env) fifo(name, expected string) string {
	expected += ", which ends in .fifo, such as https://sqs.eu-central-1.amazonaws.com/123456789012/name.fifo"
	return r.checked(name, expected, func(value string) bool { return isURL(value) && strings.HasSuffix(value, ".fifo") })
}

func (r *Env) standard(name, expected string) string {
	expected += ", such as https://sqs.eu-central-1.amazonaws.com/123456789012/name; FIFO queues cannot delay single messages"
	return r.checked(name, expected, func(value string) bool { return isURL(value) && !strings.HasSuffix(value, ".fifo") })
}

func (r *Env) arn(name, service string) string {
	return r.checked(name, "an ARN of "+service, func(value string) bool {
		parts := strings.SplitN(value, ":", 6)
		return len(parts) == 6 && parts[0] == "arn" && parts[2] == service
	})
}

// standardARN reads the ARN of a standard queue. EventBridge Scheduler does not accept a FIFO dead-letter queue.
func (r *Env) standardARN(name string) string {
	value := r.arn(name, "sqs")
	if strings.HasSuffix(value, ".fifo") {
		r.Wrong(name, "the ARN of a standard queue", strconv.Quote(value))
	}
	return value
}

// busName matches the name or the ARN of an event bus (EventBridge API Reference, PutEventsRequestEntry).
var busName = regexp.MustCompile(`^(arn:[\w-]+:events:[a-z0-9-]+:\d{12}:event-bus/)?[A-Za-z0-9/._-]{1,256}$`)

func (r *Env) bus(name string) string {
	return r.checked(name, "the name or the ARN of an event bus, such as orders or arn:aws:events:eu-central-1:123456789012:event-bus/orders", busName.MatchString)
}

// lanes reads a list of name=ARN pairs of FIFO queues.
func (r *Env) lanes(name string) map[string]string {
	expected := "lanes with the ARNs of their FIFO queues, such as bulk=arn:aws:sqs:eu-central-1:123456789012:bulk.fifo, separated by commas; a name has " + instances.LaneForm + " and is not " + instances.MainLane
	return r.arns(name, "lane", expected, func(lane string, arn []string) bool {
		return instances.IsLane(lane) && lane != instances.MainLane && len(arn) == 6 && arn[2] == "sqs" && strings.HasSuffix(arn[5], ".fifo")
	})
}

// laneRules reads the rules that assign instances to lanes.
func (r *Env) laneRules(name string, known map[string]string) string {
	text := r.Text(name, "rules")
	if _, err := lanes.ParseRules(text, slices.Sorted(maps.Keys(known))); err != nil {
		r.Problem(fmt.Errorf("environment variable %s: %w", name, err))
	}
	return text
}

// workflows reads a list of name=ARN pairs of state machines.
func (r *Env) workflows(name string) map[string]string {
	const expected = "workflows with their ARNs, such as report=arn:aws:states:eu-central-1:123456789012:stateMachine:report, separated by commas"
	return r.arns(name, "workflow", expected, func(workflow string, arn []string) bool {
		return workflow != "" && len(arn) >= 7 && arn[2] == "states" && arn[5] == "stateMachine"
	})
}

// arns reads a list of name=ARN pairs, separated by commas. isValid receives a name and the parts of its ARN.
func (r *Env) arns(name, kind, expected string, isValid func(key string, arn []string) bool) map[string]string {
	value := r.Text(name, kind+"s")
	if value == "" {
		return nil
	}
	arns := map[string]string{}
	for entry := range strings.SplitSeq(value, ",") {
		key, arn, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if parts := strings.Split(arn, ":"); parts[0] != "arn" || !isValid(key, parts) {
			r.Wrong(name, expected, strconv.Quote(entry))
			continue
		}
		if _, twice := arns[key]; twice {
			r.Wrong(name, "each "+kind+" once", strconv.Quote(key)+" twice")
		}
		arns[key] = arn
	}
	return arns
}

// Duration reads a positive duration such as 90s, 5m or 24h.
func (r *Env) Duration(name string) time.Duration {
	value := r.Text(name, "a duration")
	if value == "" {
		return 0
	}
	duration, err := time.ParseDuration(value)
	if err != nil || duration <= 0 {
		r.Wrong(name, "a positive duration such as 90s, 5m or 24h", strconv.Quote(value))
	}
	return duration
}

// Count reads a number that is at least 1.
func (r *Env) Count(name string) int { return r.count(name, "a number of at least 1", math.MaxInt) }

// countTo reads a whole number from 1 to `largest`.
func (r *Env) countTo(name string, largest int) int {
	return r.count(name, fmt.Sprintf("a whole number from 1 to %d, or no value for the default", largest), largest)
}

func (r *Env) count(name, expected string, largest int) int {
	value := r.Text(name, "a number")
	if value == "" {
		return 0
	}
	count, err := strconv.Atoi(value)
	if err != nil || count < 1 || count > largest {
		r.Wrong(name, expected, strconv.Quote(value))
	}
	return count
}

// Secret reads a secret with a minimum length. No error quotes it.
func (r *Env) Secret(name string, bytesMin int) []byte {
	value := r.Text(name, "a secret")
	if value == "" {
		return nil
	}
	if len(value) < bytesMin {
		r.Wrong(name, fmt.Sprintf("a secret of at least %d bytes", bytesMin), fmt.Sprintf("%d bytes", len(value)))
	}
	return []byte(value)
}

// Secrets reads a secret and the previous one, which is set only while the secret is rotated. Both have a minimum
// length. No error quotes them.
func (r *Env) Secrets(name, previous string, bytesMin int) gateway.Secrets {
	secrets := gateway.Secrets{Current: r.Secret(name, bytesMin), Previous: r.Secret(previous, bytesMin)}
	if len(secrets.Current) == 0 && len(secrets.Previous) > 0 {
		r.Wrong(name, "a secret, because "+previous+" is set", "nothing: set it, or unset "+previous)
	}
	return secrets
}

func (r *Env) level(name string) (level slog.Level) {
	if value := r.Text(name, "a level"); value != "" && level.UnmarshalText([]byte(value)) != nil {
		r.Wrong(name, "debug, info, warn or error", strconv.Quote(value))
	}
	return level
}

func (r *Env) endpoint(name string) *url.URL {
	value := r.Text(name, "an endpoint")
	if value == "" {
		return nil
	}
	address, err := url.Parse(value)
	if err != nil || address.Host == "" || address.User != nil || address.RawQuery != "" || address.Scheme != "https" && address.Scheme != "http" {
		r.Wrong(name, "the URL of a collector for OTLP over HTTP, such as http://localhost:4318, with keys in "+TracesHeaders+" instead", "another value (not shown)")
		return nil
	}
	return address
}

// headers reads name=value pairs. The values may be percent-encoded. Errors do not quote the values, because they may
// contain keys.
func (r *Env) headers(name string) map[string]string {
	value := r.Text(name, "headers")
	if value == "" {
		return nil
	}
	headers := map[string]string{}
	for i, pair := range strings.Split(value, ",") {
		header, text, found := strings.Cut(strings.TrimSpace(pair), "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(text))
		if header = strings.TrimSpace(header); !found || header == "" || err != nil {
			r.Wrong(name, "headers such as api-key=value, separated by commas", fmt.Sprintf("an invalid header at position %d (not shown)", i+1))
			continue
		}
		headers[header] = decoded
	}
	return headers
}
