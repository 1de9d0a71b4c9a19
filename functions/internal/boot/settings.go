package boot

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/signup"
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
	// Without the two, such timers go through the queue again every fifteen minutes.
	DelayQueueARN    = "SETTLE_DELAY_QUEUE_ARN"
	SchedulerRoleARN = "SETTLE_SCHEDULER_ROLE_ARN"
	ScheduleGroup    = "SETTLE_SCHEDULE_GROUP"
	// Workflows are the state machines that charts start: the charts' names for them with their ARNs, such as
	// report=arn:aws:states:eu-central-1:123456789012:stateMachine:report, separated by commas. An execution
	// of a workflow that is not among them ends as NOT_STARTED.
	Workflows = "SETTLE_WORKFLOWS"
	// GitHubWebhookSecret is the secret that GitHub signs its webhooks with.
	GitHubWebhookSecret = "SETTLE_GITHUB_WEBHOOK_SECRET"

	// JobPickUpTimeout, JobLaunchesMax and JobTimeLimit are the fields of job.Config. They,
	// like all below, have defaults: those of the machines.
	JobPickUpTimeout = "SETTLE_JOB_PICK_UP_TIMEOUT"
	JobLaunchesMax   = "SETTLE_JOB_LAUNCHES_MAX"
	JobTimeLimit     = "SETTLE_JOB_TIME_LIMIT"
	// JobRetention is how long a job is kept once it is over.
	JobRetention = "SETTLE_JOB_RETENTION"

	// EnrichCallbackBase is the address under which the gateway is reached from outside, and
	// EnrichCallbackKey the secret that makes the addresses which enrich's third party calls back;
	// consumer and gateway need the same. Without them enrich asks nobody.
	EnrichCallbackBase = "SETTLE_ENRICH_CALLBACK_BASE"
	EnrichCallbackKey  = "SETTLE_ENRICH_CALLBACK_KEY"
	// EnrichWait and EnrichGrace are fields of enrich.Config.
	EnrichWait  = "SETTLE_ENRICH_WAIT"
	EnrichGrace = "SETTLE_ENRICH_GRACE"
	// EnrichRetention is how long an instance of enrich is kept once it is over.
	EnrichRetention = "SETTLE_ENRICH_RETENTION"

	// SignupCodeKey and SignupDeadline are fields of signup.Config. The consumer requires the
	// key: without it, whoever sees a snapshot can find the code by trying them all.
	SignupCodeKey  = "SETTLE_SIGNUP_CODE_KEY"
	SignupDeadline = "SETTLE_SIGNUP_DEADLINE"
	// SignupRetention is how long a sign-up is kept once it is over.
	SignupRetention = "SETTLE_SIGNUP_RETENTION"

	// PipelineRetention is how long a pipeline's run is kept once it is over. Its intervals and
	// windows come with the event that starts it.
	PipelineRetention = "SETTLE_PIPELINE_RETENTION"

	// UploadWindow and UploadProcessTimeout are fields of upload.Config.
	UploadWindow         = "SETTLE_UPLOAD_WINDOW"
	UploadProcessTimeout = "SETTLE_UPLOAD_PROCESS_TIMEOUT"
	// UploadRetention is how long a month of uploads is kept once its window has closed.
	UploadRetention = "SETTLE_UPLOAD_RETENTION"
)

// Settings is what the environment says.
type Settings struct {
	Table              string
	TableIndex         bool
	QueueURL           string
	DeadLetterQueueURL string
	DelayQueueURL      string
	DelayQueueARN      string
	SchedulerRoleARN   string
	ScheduleGroup      string
	// Workflows are ARNs by the charts' names.
	Workflows           map[string]string
	GitHubWebhookSecret string
	Machines            machines.Settings
}

// readSettings reads the environment. Its error names every variable that is wrong or, if
// required, missing, with what was expected; it quotes no secret.
func readSettings(lookup func(name string) (string, bool), required []string) (Settings, error) {
	r := &reader{lookup: lookup, required: required}
	settings := Settings{
		Table:               r.text(Table, "the name of the DynamoDB table"),
		TableIndex:          r.onOff(TableIndex),
		QueueURL:            r.fifo(QueueURL, "the URL of the FIFO queue"),
		DeadLetterQueueURL:  r.fifo(DeadLetterQueueURL, "the URL of the FIFO dead-letter queue"),
		DelayQueueURL:       r.standard(DelayQueueURL, "the URL of the standard queue for timers"),
		DelayQueueARN:       r.arn(DelayQueueARN, "sqs"),
		SchedulerRoleARN:    r.arn(SchedulerRoleARN, "iam"),
		ScheduleGroup:       r.text(ScheduleGroup, "the name of a schedule group"),
		Workflows:           r.workflows(Workflows),
		GitHubWebhookSecret: r.text(GitHubWebhookSecret, "the secret of the GitHub webhook"),
	}
	if (settings.DelayQueueARN == "") != (settings.SchedulerRoleARN == "") {
		r.wrong(DelayQueueARN+" and "+SchedulerRoleARN, "both or neither", "one")
	}
	settings.Machines.Job.PickUpTimeout = r.duration(JobPickUpTimeout)
	settings.Machines.Job.LaunchesMax = r.count(JobLaunchesMax)
	settings.Machines.Job.TimeLimit = r.duration(JobTimeLimit)
	settings.Machines.JobRetention = r.duration(JobRetention)
	settings.Machines.EnrichCallbacks = enrich.Callbacks{
		Base: r.text(EnrichCallbackBase, "the address of the gateway"), Key: r.secret(EnrichCallbackKey, enrich.CallbackKeyBytesMin),
	}
	if callbacks := settings.Machines.EnrichCallbacks; callbacks.Base != "" || len(callbacks.Key) > 0 {
		if err := callbacks.Validate(); err != nil {
			r.problems = append(r.problems, fmt.Errorf("environment variables %s and %s: %w", EnrichCallbackBase, EnrichCallbackKey, err))
		}
	}
	settings.Machines.Enrich.Wait = r.duration(EnrichWait)
	settings.Machines.Enrich.Grace = r.duration(EnrichGrace)
	settings.Machines.EnrichRetention = r.duration(EnrichRetention)
	settings.Machines.Signup.CodeKey = r.secret(SignupCodeKey, signup.CodeKeyBytesMin)
	settings.Machines.Signup.Deadline = r.duration(SignupDeadline)
	settings.Machines.SignupRetention = r.duration(SignupRetention)
	settings.Machines.PipelineRetention = r.duration(PipelineRetention)
	settings.Machines.Upload.Window = r.duration(UploadWindow)
	settings.Machines.Upload.ProcessTimeout = r.duration(UploadProcessTimeout)
	settings.Machines.UploadRetention = r.duration(UploadRetention)
	if len(r.problems) > 0 {
		return Settings{}, fmt.Errorf("reading the settings: %w", errors.Join(r.problems...))
	}
	return settings, nil
}

// reader reads variables and collects what is wrong with them. A variable that is not set
// gives the zero value.
type reader struct {
	lookup   func(name string) (string, bool)
	required []string
	problems []error
}

func (r *reader) wrong(name, expected, got string) {
	r.problems = append(r.problems, fmt.Errorf("environment variable %s: expected %s, got %s", name, expected, got))
}

func (r *reader) text(name, expected string) string {
	value, _ := r.lookup(name)
	if value == "" && slices.Contains(r.required, name) {
		r.wrong(name, expected, "nothing: set it")
	}
	return value
}

func (r *reader) onOff(name string) bool {
	value := r.text(name, "on or off")
	if value != "" && value != "on" && value != "off" {
		r.wrong(name, "on or off", strconv.Quote(value))
	}
	return value == "on"
}

func (r *reader) queue(name, expected string) (address *url.URL, value string) {
	if value = r.text(name, expected); value == "" {
		return nil, ""
	}
	address, err := url.Parse(value)
	if err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http" {
		r.wrong(name, expected+", such as https://sqs.eu-central-1.amazonaws.com/123456789012/name", strconv.Quote(value))
		return nil, ""
	}
	return address, value
}

func (r *reader) fifo(name, expected string) string {
	address, value := r.queue(name, expected)
	if address != nil && !strings.HasSuffix(address.Path, ".fifo") {
		r.wrong(name, expected+", which ends in .fifo", strconv.Quote(value))
	}
	return value
}

func (r *reader) standard(name, expected string) string {
	address, value := r.queue(name, expected)
	if address != nil && strings.HasSuffix(address.Path, ".fifo") {
		r.wrong(name, expected+", as FIFO queues cannot delay single messages", strconv.Quote(value))
	}
	return value
}

func (r *reader) arn(name, service string) string {
	value := r.text(name, "an ARN")
	if parts := strings.SplitN(value, ":", 6); value != "" && (len(parts) < 6 || parts[0] != "arn" || parts[2] != service) {
		r.wrong(name, "an ARN of "+service, strconv.Quote(value))
	}
	return value
}

// workflows reads names with the ARNs of state machines.
func (r *reader) workflows(name string) map[string]string {
	value := r.text(name, "workflows")
	if value == "" {
		return nil
	}
	arns := map[string]string{}
	for _, entry := range strings.Split(value, ",") {
		workflow, arn, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if parts := strings.Split(arn, ":"); workflow == "" || len(parts) < 7 || parts[0] != "arn" || parts[2] != "states" || parts[5] != "stateMachine" {
			r.wrong(name, "workflows with their ARNs, such as report=arn:aws:states:eu-central-1:123456789012:stateMachine:report, separated by commas", strconv.Quote(entry))
		}
		if _, twice := arns[workflow]; twice {
			r.wrong(name, "each workflow once", strconv.Quote(workflow)+" twice")
		}
		arns[workflow] = arn
	}
	return arns
}

func (r *reader) duration(name string) time.Duration {
	value := r.text(name, "a duration")
	if value == "" {
		return 0
	}
	duration, err := time.ParseDuration(value)
	if err != nil || duration <= 0 {
		r.wrong(name, "a positive duration such as 90s, 5m or 24h", strconv.Quote(value))
	}
	return duration
}

func (r *reader) count(name string) int {
	value := r.text(name, "a number")
	if value == "" {
		return 0
	}
	count, err := strconv.Atoi(value)
	if err != nil || count < 1 {
		r.wrong(name, "a number of at least 1", strconv.Quote(value))
	}
	return count
}

func (r *reader) secret(name string, bytesMin int) []byte {
	value := r.text(name, "a secret")
	if value == "" {
		return nil
	}
	if len(value) < bytesMin {
		r.wrong(name, fmt.Sprintf("a secret of at least %d bytes", bytesMin), fmt.Sprintf("%d bytes", len(value)))
	}
	return []byte(value)
}
