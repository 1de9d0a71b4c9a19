package cdk

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// The functions, by the names of their folders in functions/.
const (
	Consumer   = "consumer"
	Gateway    = "gateway"
	Delay      = "delay"
	Executions = "executions"
	TokenTask  = "tokentask"
	Objects    = "objects"
)

// Functions are the names of all functions, in build order. A stack contains Objects only with Props.UploadBuckets.
var Functions = []string{Consumer, Gateway, Delay, Executions, TokenTask, Objects}

// Limits of Props.
const (
	// ConsumerTimeoutMax is Lambda's longest function timeout.
	ConsumerTimeoutMax = 15 * time.Minute
	// ConsumerConcurrencyMin and ConsumerConcurrencyMax are the limits of SQS event source mappings.
	ConsumerConcurrencyMin = 2
	ConsumerConcurrencyMax = 1000
	// PollersMin is the minimum number of event pollers of an SQS event source mapping. PollersMinimumMax and
	// PollersMaximumMax limit Pollers.Minimum and Pollers.Maximum (Lambda API Reference, "ProvisionedPollerConfig").
	PollersMin        = 2
	PollersMinimumMax = 200
	PollersMaximumMax = 10_000
	// ConsumerBatchMax is the largest batch of a FIFO queue.
	ConsumerBatchMax = 10
	// WebhooksPerSecondMax is a quarter of the requests that all HTTP APIs of an account can receive (API Gateway
	// Developer Guide, "Quotas").
	WebhooksPerSecondMax = 2500
	// EventsPerFiveMinutesMax is the number of events that a FIFO queue can deliver in five
	// minutes. In the largest Regions, a queue accepts 70,000 requests a second and delivers ten
	// messages with each (SQS Developer Guide, "Amazon SQS message quotas").
	EventsPerFiveMinutesMax = 5 * 60 * 70_000 * 10
	// MemoryMiBMin and MemoryMiBMax are Lambda's limits.
	MemoryMiBMin = 128
	MemoryMiBMax = 10240
	// NameCharactersMax is the limit of a schedule group's name (EventBridge Scheduler API Reference,
	// "CreateScheduleGroup"). A queue's name adds a suffix of up to 15 characters, which stays within SQS's limit of
	// 80.
	NameCharactersMax = 64
)

// Props configures the construct. Only Code is required.
type Props struct {
	// Code takes a scope for resources and a function's name, and returns the function's code.
	// Required. Use CodeFromFolder or CodeFromBucket.
	Code func(scope constructs.Construct, function string) awslambda.Code
	// Environment is added to the environment of every function, for settings of machines such as
	// SETTLE_JOB_TIME_LIMIT. It must not contain variables that the construct sets. For a secret, use the result of
	// SecretValue.UnsafeUnwrap, never its text.
	Environment map[string]string
	// Secrets are the secrets of this repository's machines and of GitHub's webhook.
	Secrets Secrets

	// ConsumerTimeout is the time limit for a batch, including services. One second to ConsumerTimeoutMax; defaults to
	// 45 seconds. The queue's visibility timeout is six times as long, but at most 225 seconds longer. From 75 seconds
	// on, the visibility timeout reaches SQS's deduplication interval of five minutes. SQS may then accept a message
	// twice if the consumer sends it and dies within a second of receiving the batch. After that second, the consumer
	// holds a lease of 30 seconds. Instances recognise such a duplicate by its ID, but a message may be parked twice.
	ConsumerTimeout time.Duration
	// ConsumerConcurrency is the maximum number of batches processed at once. ConsumerConcurrencyMin to
	// ConsumerConcurrencyMax; defaults to 50. Lambda refuses it together with ConsumerPollers.
	ConsumerConcurrency int
	// ConsumerPollers keeps event pollers ready for the consumer, for a fee, and replaces ConsumerConcurrency. Each poller
	// runs up to PollerInvocations batches at once. See docs/scaling.md. Off by default.
	ConsumerPollers Pollers
	// Lanes are FIFO queues in addition to the main queue, each with a mapping of its own to the consumer. At most LanesMax;
	// none by default.
	Lanes []Lane
	// LaneRules assign new instances to lanes: rules PATTERN=LANES, separated by commas, such as
	// "signup=bulk" or "job/acme.*=main:2|bulk". See docs/settings.md. By default, all instances
	// are in the main lane. LaneRules may be a parameter of the template.
	LaneRules *string
	// ReserveConsumerConcurrency reserves a part of the account's concurrency for the consumer. The part is the sum
	// over all lanes. A lane with pollers adds their maximum number times PollerInvocations. Any other lane adds its
	// maximum concurrency. A flood of calls to other functions then cannot stop the consumer. Lambda rejects the
	// reservation if it leaves less than 100 for all other functions, so the deployment fails in a new account with a
	// quota of 10. Off by default.
	ReserveConsumerConcurrency bool
	// ConsumerBatch is the maximum number of messages in a batch. The consumer processes different instances
	// concurrently. One to ConsumerBatchMax; defaults to ConsumerBatchMax. Use one if a service can kill the process,
	// so that its death affects only one instance. With fewer than ConsumerBatchMax, Settle does not detect backlogs: the
	// alarm Backlog and durable.MachineConfig.BacklogAgeMax have no effect.
	ConsumerBatch int
	// WebhooksPerSecond limits each of the two open routes, which authenticate the caller by a signature or a key.
	// Excess requests get status 429. One to WebhooksPerSecondMax; defaults to 100.
	WebhooksPerSecond int
	// EventsPerFiveMinutes is the threshold of the alarm Events, which fires if more events are
	// applied in five minutes. One to EventsPerFiveMinutesMax; defaults to 30,000.
	EventsPerFiveMinutes int
	// MemoryMiB is the memory of each function. Defaults to 256.
	MemoryMiB int

	// WithoutIndex omits the index by_state. Writes then cost less, and `settle list` scans the whole table.
	WithoutIndex bool
	// WithoutDeletionProtection allows deletion of the table.
	WithoutDeletionProtection bool
	// ExistingTable is the name of a table to use instead of a new one, such as a restored table: see docs/recovery.md.
	// Set its TTL, stream and protection yourself. A table that the stack created earlier is no longer part of the stack,
	// but CloudFormation keeps it, unless Removal is DESTROY. The name may be a parameter of the template. If the
	// parameter is empty, the stack creates a table.
	ExistingTable *string
	// TableStream adds a stream with old and new images of the items, for consumers of your own. Settle reads no stream.
	TableStream bool
	// Removal is the removal policy of the table, the queues and the schedule group. It applies when the stack is
	// deleted or Name changes. By default, all of them are kept, with their instances, events and timers. If the
	// deployment that creates them fails, CloudFormation deletes the queues and the schedule group, but not the table.
	Removal awscdk.RemovalPolicy
	// EncryptionKey encrypts the queues, the table, the secrets, the logs and the functions' environments. Nil means
	// keys owned or managed by AWS, which are free. The key must be created in the stack, or its policy must allow SQS,
	// EventBridge and CloudWatch Logs to use it.
	EncryptionKey awskms.IKey

	// Workflows are the state machines that charts start, by the name that the charts use. None by default.
	Workflows map[string]awsstepfunctions.IStateMachine
	// WaitingWorkflows are your own state machines that wait for instances, in addition to infra/workflows. The
	// consumer may answer their tasks.
	WaitingWorkflows []awsstepfunctions.IStateMachine
	// EventBus receives the events that charts emit (statechart.Emit). Defaults to the account's default bus. The policy
	// of a bus of another account or Region must allow the consumer's role to call events:PutEvents. EventBridge accepts
	// and drops events for a bus that does not exist.
	EventBus awsevents.IEventBus
	// WithoutEventBus drops the events that charts emit. The consumer then logs a warning at its start if a chart emits.
	WithoutEventBus bool
	// WithoutExamples omits everything that only this repository's machines need: the workflows of infra/workflows, the
	// secrets of signup and enrich, GitHub's webhook and the route for callbacks. A secret that is set in Secrets
	// stays, and so does the feature that needs it. Set WithoutExamples if the consumer hosts your own machines.
	WithoutExamples bool
	// Callbacks adds the open route for callbacks of third parties. Set it if your gateway accepts callbacks. A stack with
	// a key for enrich's callbacks always has the route.
	Callbacks bool
	// UploadBuckets are the names of S3 buckets. New objects in them become events of the machine upload, through the
	// function objects. The buckets must be in the stack's Region and must send their events to EventBridge. None by
	// default: the stack then has no function objects.
	UploadBuckets []*string

	// CallbackBase is the public address of the HTTP API for third parties, without a slash at its end. Defaults to the
	// API's own address. If it has a path, such as https://api.example.com/settle, the gateway accepts requests below this
	// path.
	CallbackBase string
	// LogRetention is the retention of logs. Defaults to a month.
	LogRetention awslogs.RetentionDays
	// Name is the prefix of the queues' names, the name of the schedule group, and the dimension Service of the
	// functions' metrics. It consists of ASCII letters, digits, hyphens and underscores, at most NameCharactersMax,
	// does not end in -dlq, and must be unique in the Region. A stack that changes its Name gets new queues and a new
	// schedule group: docs/rename-or-delete.md shows how to move to them. Defaults to the stack's name.
	Name *string
	// AlarmActions are the ARNs of alarm actions, such as an SNS topic. None by default: alarms are then only shown in
	// the console.
	AlarmActions []*string
}

// Secrets are references to secrets: a template never contains a secret. If a field is nil, Secrets Manager generates
// its secret.
type Secrets struct {
	// SignupCodeKey is the key for the hashes of signup's codes: at least 16 bytes.
	SignupCodeKey awscdk.SecretValue
	// EnrichCallbackKey signs the callback addresses of enrich's third party: at least 16 bytes.
	EnrichCallbackKey awscdk.SecretValue
	// GitHubWebhook is the secret of GitHub's webhooks: at least 16 bytes.
	GitHubWebhook awscdk.SecretValue

	// EnrichCallbackKeyPrevious and GitHubWebhookPrevious are former values, still accepted while you rotate a secret
	// of your own: see docs/security.md. Set each only together with the field for its current value.
	EnrichCallbackKeyPrevious awscdk.SecretValue
	GitHubWebhookPrevious     awscdk.SecretValue
	// RotateEnrichCallbackKey and RotateGitHubWebhook rotate a generated secret. While the field is true, the secret's
	// version AWSPENDING is in use, and the functions accept its version AWSCURRENT too.
	RotateEnrichCallbackKey bool
	RotateGitHubWebhook     bool
}

// validate checks that each previous secret has a current secret, and that a secret to rotate is a generated one.
func (s Secrets) validate(withoutExamples bool) error {
	for _, secret := range []struct {
		name            string
		value, previous awscdk.SecretValue
		rotate          bool
	}{
		{"EnrichCallbackKey", s.EnrichCallbackKey, s.EnrichCallbackKeyPrevious, s.RotateEnrichCallbackKey},
		{"GitHubWebhook", s.GitHubWebhook, s.GitHubWebhookPrevious, s.RotateGitHubWebhook},
	} {
		if secret.previous != nil && secret.value == nil {
			return fmt.Errorf("cdk: expected Secrets.%[1]s with Secrets.%[1]sPrevious, got none: set both, or set Secrets.Rotate%[1]s to rotate the generated secret", secret.name)
		}
		if secret.rotate && (secret.value != nil || withoutExamples) {
			return fmt.Errorf("cdk: expected Secrets.Rotate%[1]s only for a generated secret, got one of your own or none: set Secrets.%[1]s and Secrets.%[1]sPrevious instead", secret.name)
		}
	}
	return nil
}

func (p Props) withDefaults() Props {
	p.ConsumerTimeout = cmp.Or(p.ConsumerTimeout, consumerTimeoutDefault)
	main := p.scaling().withDefaults()
	p.ConsumerConcurrency, p.ConsumerPollers = main.concurrency, main.pollers
	p.Lanes = slices.Clone(p.Lanes)
	for i, lane := range p.Lanes {
		scaling := lane.scaling().withDefaults()
		p.Lanes[i].Concurrency, p.Lanes[i].Pollers = scaling.concurrency, scaling.pollers
	}
	p.ConsumerBatch = cmp.Or(p.ConsumerBatch, ConsumerBatchMax)
	p.WebhooksPerSecond = cmp.Or(p.WebhooksPerSecond, 100)
	p.EventsPerFiveMinutes = cmp.Or(p.EventsPerFiveMinutes, 30_000)
	p.MemoryMiB = cmp.Or(p.MemoryMiB, 256)
	p.LogRetention = cmp.Or(p.LogRetention, awslogs.RetentionDays_ONE_MONTH)
	return p
}

// tableName matches the names of tables (Amazon DynamoDB Developer Guide, "Naming rules").
var tableName = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)

// workflowName matches names that fit into host.Workflows, a list with commas and equals signs.
var workflowName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (p Props) validate() error {
	if p.Code == nil {
		return fmt.Errorf("cdk: expected Props.Code, got none: set it to CodeFromFolder or CodeFromBucket")
	}
	if p.ConsumerTimeout < time.Second || p.ConsumerTimeout > ConsumerTimeoutMax || p.ConsumerTimeout%time.Second != 0 {
		return fmt.Errorf("cdk: expected Props.ConsumerTimeout in whole seconds from 1s to %s, got %s", ConsumerTimeoutMax, p.ConsumerTimeout)
	}
	if err := p.validateLanes(); err != nil {
		return err
	}
	if err := p.validateNumbers(); err != nil {
		return err
	}
	if err := p.Secrets.validate(p.WithoutExamples); err != nil {
		return err
	}
	if base := p.CallbackBase; base != "" && !*awscdk.Token_IsUnresolved(base) {
		if parsed, err := url.Parse(base); err != nil || parsed.Scheme != "https" || parsed.Host == "" || strings.HasSuffix(base, "/") || base != "https://"+parsed.Host+parsed.Path {
			return fmt.Errorf("cdk: expected Props.CallbackBase such as https://api.example.com/settle, without a slash at its end, got %q", base)
		}
		// The gateway refuses to start with such a base path.
		switch below := p.basePath(); {
		case below != "" && path.Clean(below) != below:
			return fmt.Errorf("cdk: expected Props.CallbackBase with a path such as /settle, without empty and dot segments, got %q", base)
		case apiPath.MatchString(below):
			return fmt.Errorf("cdk: expected Props.CallbackBase with a path that does not start like a path of the API, got %q: choose another API mapping", base)
		}
	}
	if p.EventBus != nil && p.WithoutEventBus {
		return fmt.Errorf("cdk: expected Props.EventBus or Props.WithoutEventBus, got both: remove one")
	}
	if table := p.ExistingTable; table != nil && !*awscdk.Token_IsUnresolved(table) {
		if !tableName.MatchString(*table) {
			return fmt.Errorf("cdk: expected Props.ExistingTable to be the name of a table, not its ARN, and to match %s, got %q", tableName, *table)
		}
		if p.TableStream {
			return fmt.Errorf("cdk: expected no Props.TableStream with Props.ExistingTable, got both: add the stream to the table %s with the aws CLI", *table)
		}
	}
	for name := range p.Workflows {
		if !workflowName.MatchString(name) {
			return fmt.Errorf("cdk: expected names of Props.Workflows to match %s, got %q", workflowName, name)
		}
	}
	if len(p.UploadBuckets) == 0 || *awscdk.Token_IsUnresolved(p.UploadBuckets) {
		return nil
	}
	for _, bucket := range p.UploadBuckets {
		if !*awscdk.Token_IsUnresolved(bucket) && !bucketName.MatchString(*bucket) {
			return fmt.Errorf("cdk: expected names of Props.UploadBuckets to match %s, got %q", bucketName, *bucket)
		}
	}
	return nil
}

// basePath returns the path of CallbackBase: the path of the custom domain's API mapping. For an address that only
// CloudFormation knows, it returns "".
func (p Props) basePath() string {
	if *awscdk.Token_IsUnresolved(p.CallbackBase) {
		return ""
	}
	base, err := url.Parse(p.CallbackBase)
	if err != nil {
		return "" // validate has refused it.
	}
	return base.Path
}

// apiPath matches the paths of the gateway's API, which a base path must not start with.
var apiPath = regexp.MustCompile(`^/(aliases|healthz|instances|machines|openapi\.json|webhooks)(/|$)`)

// settleName matches valid names of queues and schedule groups.
var settleName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// checkName rejects a name that is invalid for a derived resource. It accepts a name that only CloudFormation knows.
func checkName(name *string) error {
	switch {
	case *awscdk.Token_IsUnresolved(name):
		return nil
	case len(*name) > NameCharactersMax:
		return fmt.Errorf("cdk: expected Props.Name, or else the stack's name, to have at most %d characters, the limit of schedule groups, got %d, %q: "+
			"set a shorter Props.Name", NameCharactersMax, len(*name), *name)
	case strings.HasSuffix(*name, "-dlq"):
		return fmt.Errorf("cdk: expected Props.Name, or else the stack's name, not to end in -dlq, got %q: the queue %s.fifo is the dead-letter queue of the name %q, "+
			"so choose another name", *name, *name, strings.TrimSuffix(*name, "-dlq"))
	case !settleName.MatchString(*name):
		return fmt.Errorf("cdk: expected Props.Name, or else the stack's name, to match %s, as required for queues, got %q", settleName, *name)
	default:
		return nil
	}
}

// bucketName approximates S3's rule (Amazon S3 User Guide, "Bucket naming rules"). It does not match ARNs and URLs.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// CodeFromFolder takes a function's code from <folder>/<function>, in the first folder that contains its bootstrap. To
// deploy your own functions together with this repository's functions, name your folder first:
//
//	cdk.CodeFromFolder("build", settle+"/.bin/functions/arm64")
//
// Here, build contains consumer/bootstrap, gateway/bootstrap and tokentask/bootstrap, which host your machines. The
// other functions host no machines. The returned function panics, as CDK's constructs do, if no folder contains the
// function.
func CodeFromFolder(folder string, others ...string) func(constructs.Construct, string) awslambda.Code {
	folders := append([]string{folder}, others...)
	return func(_ constructs.Construct, function string) awslambda.Code {
		for _, folder := range folders {
			path := filepath.Join(folder, function)
			if _, err := os.Stat(filepath.Join(path, "bootstrap")); err == nil {
				return awslambda.Code_FromAsset(&path, nil)
			}
		}
		panic(fmt.Sprintf("cdk: expected %s/bootstrap in one of the folders %q, found none: build it (make functions builds Settle's)", function, folders))
	}
}

// CodeFromBucket takes a function's code from a zip in a bucket. The function `key` returns the zip's key for a
// function.
func CodeFromBucket(bucket *string, key func(function string) *string) func(constructs.Construct, string) awslambda.Code {
	return func(scope constructs.Construct, function string) awslambda.Code {
		imported := awss3.Bucket_FromBucketName(scope, jsii.String(pascal(function)+"CodeBucket"), bucket)
		return awslambda.Code_FromBucket(imported, key(function), nil)
	}
}

// pascal converts a name to a construct's ID: job-relaunch becomes JobRelaunch.
func pascal(name string) string {
	var id strings.Builder
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '-' }) {
		id.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return id.String()
}
