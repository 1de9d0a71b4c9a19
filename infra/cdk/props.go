package cdk

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
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

// Functions are the names of all functions, in the order in which they are built. Objects is in a stack only with
// Props.UploadBuckets.
var Functions = []string{Consumer, Gateway, Delay, Executions, TokenTask, Objects}

// Limits of Props.
const (
	// ConsumerTimeoutMax is the longest that Lambda lets a function run.
	ConsumerTimeoutMax = 15 * time.Minute
	// ConsumerConcurrencyMin and ConsumerConcurrencyMax are what SQS event source mappings take.
	ConsumerConcurrencyMin = 2
	ConsumerConcurrencyMax = 1000
	// ConsumerBatchMax is what a FIFO queue gives at once.
	ConsumerBatchMax = 10
	// WebhooksPerSecondMax is a quarter of what an account's HTTP APIs take together (API Gateway Developer Guide, "Quotas").
	WebhooksPerSecondMax = 2500
	// MemoryMiBMin and MemoryMiBMax are what Lambda takes.
	MemoryMiBMin = 128
	MemoryMiBMax = 10240
	// NameCharactersMax is what the name of a schedule group may have (EventBridge Scheduler API Reference,
	// "CreateScheduleGroup"). The queues' names, of 80 characters at most, end in 15 of ours at most.
	NameCharactersMax = 64
)

// Props tunes the construct. Only Code is required.
type Props struct {
	// Code returns the code of a function, given its name and a scope for what it needs. Required.
	// CodeFromFolder and CodeFromBucket make one.
	Code func(scope constructs.Construct, function string) awslambda.Code
	// Environment is set for every function, beside what the construct sets, which it may not name: settings of machines, such as
	// SETTLE_JOB_TIME_LIMIT. A secret goes in as what SecretValue.UnsafeUnwrap returns, never as its text.
	Environment map[string]string
	// Secrets are what the machines of this repository and GitHub's webhook need.
	Secrets Secrets

	// ConsumerTimeout is how long a batch may take, services included. The queue hides a message for six times as long. One second
	// to ConsumerTimeoutMax; defaults to 45 seconds. With 50 seconds or more, SQS may have forgotten what a consumer sent before it
	// died when the next one sends it again (it remembers for five minutes): instances recognise such a repeat by its ID, and a
	// message may be parked twice.
	ConsumerTimeout time.Duration
	// ConsumerConcurrency is how many batches are handled at once at most. ConsumerConcurrencyMin to
	// ConsumerConcurrencyMax; defaults to 50.
	ConsumerConcurrency int
	// ConsumerBatch is how many messages the consumer takes at once, those of several instances side by side: one to
	// ConsumerBatchMax, which is the default. One keeps instances apart whose services kill the process.
	ConsumerBatch int
	// WebhooksPerSecond limits each of the two routes that anybody reaches, who is checked by a signature or a key. One to
	// WebhooksPerSecondMax; defaults to 100. What is beyond gets status 429.
	WebhooksPerSecond int
	// MemoryMiB is the memory of each function. Defaults to 256.
	MemoryMiB int

	// WithoutIndex leaves the index by_state out: nothing is written for it, and `settle list` reads the whole table.
	WithoutIndex bool
	// WithoutDeletionProtection lets the table be deleted.
	WithoutDeletionProtection bool
	// TableRemoval is what becomes of the table when the stack is deleted. Defaults to RETAIN.
	TableRemoval awscdk.RemovalPolicy
	// EncryptionKey encrypts the queues, the table, the secrets, the logs and the functions' environments. Nil means keys
	// that AWS owns or manages, which cost nothing. The key must be one that its stack makes, or its policy must let SQS, EventBridge and
	// CloudWatch Logs use it.
	EncryptionKey awskms.IKey

	// Workflows are the state machines that charts start, by the charts' names for them. None by default.
	Workflows map[string]awsstepfunctions.IStateMachine
	// WaitingWorkflows are state machines of yours that wait for instances, beside those of infra/workflows: the consumer may
	// answer their tasks.
	WaitingWorkflows []awsstepfunctions.IStateMachine
	// WithoutExamples leaves out what only the machines of this repository need: the workflows of infra/workflows, which wait for
	// them, the secrets of signup and enrich, and GitHub's webhook, each unless Secrets has its secret. Set it if the consumer hosts
	// machines of yours.
	WithoutExamples bool
	// UploadBuckets are the names of S3 buckets whose new objects become events of the machine upload, by the function objects. The
	// buckets must be in the stack's Region and send their events to EventBridge. None by default: then there is no such function.
	UploadBuckets []*string

	// CallbackBase is the address under which third parties reach the HTTP API. Defaults to its own.
	CallbackBase string
	// LogRetention defaults to a month.
	LogRetention awslogs.RetentionDays
	// Name begins the names of the queues, is that of the schedule group, and the dimension Service of the functions' metrics: letters,
	// digits, hyphens and underscores, NameCharactersMax at most, and another for each Settle of a Region. Defaults to the stack's name.
	Name *string
	// AlarmActions are the ARNs of what alarms tell, such as an SNS topic. None by default: then the alarms are only
	// seen in the console.
	AlarmActions []*string
}

// Secrets come by reference: nothing of them is in a template. One that is nil is generated, in Secrets Manager.
type Secrets struct {
	// SignupCodeKey keys the hashes of the codes that signup mails: 16 bytes or more.
	SignupCodeKey awscdk.SecretValue
	// EnrichCallbackKey makes the addresses that enrich's third party calls back: 16 bytes or more.
	EnrichCallbackKey awscdk.SecretValue
	// GitHubWebhook is what GitHub signs its webhooks with: 16 bytes or more.
	GitHubWebhook awscdk.SecretValue
}

func (p Props) withDefaults() Props {
	if p.ConsumerTimeout == 0 {
		p.ConsumerTimeout = consumerTimeoutDefault
	}
	if p.ConsumerConcurrency == 0 {
		p.ConsumerConcurrency = 50
	}
	if p.ConsumerBatch == 0 {
		p.ConsumerBatch = ConsumerBatchMax
	}
	if p.WebhooksPerSecond == 0 {
		p.WebhooksPerSecond = 100
	}
	if p.MemoryMiB == 0 {
		p.MemoryMiB = 256
	}
	if p.TableRemoval == "" {
		p.TableRemoval = awscdk.RemovalPolicy_RETAIN
	}
	if p.LogRetention == "" {
		p.LogRetention = awslogs.RetentionDays_ONE_MONTH
	}
	return p
}

// workflowName is what boot.Workflows can hold: it is a list with commas and equals signs.
var workflowName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (p Props) validate() error {
	if p.Code == nil {
		return fmt.Errorf("cdk: expected Props.Code, got none: set it to CodeFromFolder or CodeFromBucket")
	}
	if p.ConsumerTimeout < time.Second || p.ConsumerTimeout > ConsumerTimeoutMax || p.ConsumerTimeout%time.Second != 0 {
		return fmt.Errorf("cdk: expected Props.ConsumerTimeout in whole seconds from 1s to %s, got %s", ConsumerTimeoutMax, p.ConsumerTimeout)
	}
	if p.ConsumerConcurrency < ConsumerConcurrencyMin || p.ConsumerConcurrency > ConsumerConcurrencyMax {
		return fmt.Errorf("cdk: expected Props.ConsumerConcurrency from %d to %d, got %d", ConsumerConcurrencyMin, ConsumerConcurrencyMax, p.ConsumerConcurrency)
	}
	if p.ConsumerBatch < 1 || p.ConsumerBatch > ConsumerBatchMax {
		return fmt.Errorf("cdk: expected Props.ConsumerBatch from 1 to %d, got %d", ConsumerBatchMax, p.ConsumerBatch)
	}
	if p.WebhooksPerSecond < 1 || p.WebhooksPerSecond > WebhooksPerSecondMax {
		return fmt.Errorf("cdk: expected Props.WebhooksPerSecond from 1 to %d, got %d", WebhooksPerSecondMax, p.WebhooksPerSecond)
	}
	if p.MemoryMiB < MemoryMiBMin || p.MemoryMiB > MemoryMiBMax {
		return fmt.Errorf("cdk: expected Props.MemoryMiB from %d to %d, got %d", MemoryMiBMin, MemoryMiBMax, p.MemoryMiB)
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

// settleName is what the names of queues and of schedule groups may be made of.
var settleName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// checkName refuses a name of which none of the derived ones could be made. One that only CloudFormation knows it lets pass.
func checkName(name *string) error {
	switch {
	case *awscdk.Token_IsUnresolved(name):
		return nil
	case len(*name) > NameCharactersMax:
		return fmt.Errorf("cdk: expected Props.Name, or the stack's name in its place, of %d characters at most, as schedule groups have, got %d, %q: "+
			"set Props.Name to a shorter one", NameCharactersMax, len(*name), *name)
	case !settleName.MatchString(*name):
		return fmt.Errorf("cdk: expected Props.Name, or the stack's name in its place, to match %s, as names of queues do, got %q", settleName, *name)
	default:
		return nil
	}
}

// bucketName is roughly S3's own rule (Amazon S3 User Guide, "Bucket naming rules"): an ARN or an address is none.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// CodeFromFolder takes each function's code from <folder>/<function>, of the first folder in which that has a bootstrap. So
// functions of your own stand before those that `make functions` has built of this repository:
//
//	cdk.CodeFromFolder("build", settle+"/.bin/functions/arm64")
//
// where build has consumer/bootstrap, gateway/bootstrap and tokentask/bootstrap, which host your machines; delay, executions and
// objects host none. It panics, as constructs do, if a function is in none of the folders.
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

// CodeFromBucket takes each function's code from a zip in a bucket, whose key depends on the function's name.
func CodeFromBucket(bucket *string, key func(function string) *string) func(constructs.Construct, string) awslambda.Code {
	return func(scope constructs.Construct, function string) awslambda.Code {
		imported := awss3.Bucket_FromBucketName(scope, jsii.String(pascal(function)+"CodeBucket"), bucket)
		return awslambda.Code_FromBucket(imported, key(function), nil)
	}
}

// pascal makes a construct's ID of a name: job-relaunch becomes JobRelaunch.
func pascal(name string) string {
	var id strings.Builder
	for part := range strings.SplitSeq(name, "-") {
		if part == "" {
			continue
		}
		id.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return id.String()
}
