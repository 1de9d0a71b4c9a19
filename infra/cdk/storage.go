package cdk

import (
	"cmp"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

const (
	// retentionDays is the retention of the queues: SQS's maximum.
	retentionDays = 14
	// indexName is the store's name of the index (dynamostore.IndexName).
	indexName = "by_state"
	// receivesMax is the number of receives after which SQS moves a message to the dead-letter queue. It is
	// SQS's maximum (SQS Developer Guide, "Configure a dead-letter queue using the Amazon SQS console"). The
	// runtime decides when to park an event, and during an outage, messages that cannot be forwarded stay in
	// their queue. A message reaches the limit after three days in the FIFO queue, or two days in another queue.
	receivesMax = 1000
	// secretCharacters is the length of a generated secret of letters and digits: 256 bits.
	secretCharacters = 43
)

// addQueues adds the queues and their dead-letter queues. They have explicit names, because a dead-letter queue and its
// source need each other's ARN, and CloudFormation rejects the circular reference. If a name changes, CloudFormation
// creates a new queue. It keeps the old queue with its messages, unless the deployment that created the old queue
// failed.
func (s *Settle) addQueues() {
	fifo := awssqs.QueueProps{
		Fifo:                jsii.Bool(true),
		DeduplicationScope:  awssqs.DeduplicationScope_MESSAGE_GROUP,
		FifoThroughputLimit: awssqs.FifoThroughputLimit_PER_MESSAGE_GROUP_ID,
	}
	s.Queue, s.DeadLetterQueue = s.queues("", ".fifo", fifo, s.props.ConsumerTimeout)
	fifo.VisibilityTimeout = visibility(s.props.ConsumerTimeout)
	s.addLanes(redriven(fifo, s.DeadLetterQueue))
	s.DelayQueue, s.DelayDeadLetterQueue = s.queues("-delay", "", awssqs.QueueProps{}, forwarderTimeout)
	s.ExecutionsQueue, s.ExecutionsDeadLetterQueue = s.queues("-executions", "", awssqs.QueueProps{}, forwarderTimeout)
	if s.hasUploads() {
		// This queue receives messages from EventBridge and from Lambda, but from no queue.
		s.ObjectsDeadLetterQueue = s.queue("ObjectsDeadLetterQueue", "-objects-dlq", awssqs.QueueProps{})
		allowRedrive(s.ObjectsDeadLetterQueue, nil)
	}
}

// queues adds a queue and its dead-letter queue. The queue invokes a function that has the given timeout.
func (s *Settle) queues(name, suffix string, props awssqs.QueueProps, timeout time.Duration) (queue, deadLetter awssqs.Queue) {
	props.VisibilityTimeout = visibility(timeout)
	id := pascal(strings.TrimPrefix(name, "-"))
	deadLetter = s.queue(id+"DeadLetterQueue", name+"-dlq"+suffix, props)
	allowRedrive(deadLetter, []*string{arn("sqs", *s.name+name+suffix)})
	return s.queue(id+"Queue", name+suffix, redriven(props, deadLetter)), deadLetter
}

// visibility returns the visibility timeout of a queue for a function that has the given timeout.
func visibility(timeout time.Duration) awscdk.Duration {
	return seconds(min(visibilityTimeouts*timeout, timeout+throttledMax))
}

// redriven adds a dead-letter queue to the properties of a queue.
func redriven(props awssqs.QueueProps, deadLetter awssqs.Queue) awssqs.QueueProps {
	props.DeadLetterQueue = &awssqs.DeadLetterQueue{Queue: deadLetter, MaxReceiveCount: jsii.Number(receivesMax)}
	return props
}

// queue adds a queue. `name` is the suffix of the queue's name.
func (s *Settle) queue(id, name string, props awssqs.QueueProps) awssqs.Queue {
	props.QueueName = jsii.String(*s.name + name)
	props.RetentionPeriod = awscdk.Duration_Days(jsii.Number(retentionDays))
	props.EnforceSSL = jsii.Bool(true)
	props.RemovalPolicy = s.removal(awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE)
	props.Encryption = awssqs.QueueEncryption_SQS_MANAGED
	if s.props.EncryptionKey != nil {
		props.Encryption, props.EncryptionMasterKey = awssqs.QueueEncryption_KMS, s.props.EncryptionKey
	}
	return awssqs.NewQueue(s.Scope, &id, &props)
}

// removal returns the removal policy of a resource that holds instances, events or timers.
func (s *Settle) removal(otherwise awscdk.RemovalPolicy) awscdk.RemovalPolicy {
	return cmp.Or(s.props.Removal, otherwise)
}

// allowRedrive sets the ARNs of the queues that may use `deadLetter` as their dead-letter queue.
func allowRedrive(deadLetter awssqs.Queue, sources []*string) {
	policy := map[string]any{"redrivePermission": "denyAll"}
	if len(sources) > 0 {
		policy = map[string]any{"redrivePermission": "byQueue", "sourceQueueArns": sources}
	}
	deadLetter.Node().DefaultChild().(awssqs.CfnQueue).SetRedriveAllowPolicy(policy)
}

// addTable adds the table, unless Props.ExistingTable names one. If only CloudFormation knows the value of
// ExistingTable, a condition of the template decides.
func (s *Settle) addTable() {
	existing := s.props.ExistingTable
	if existing != nil && !*awscdk.Token_IsUnresolved(existing) {
		s.tableName, s.tableARN = existing, arn("dynamodb", "table/"+*existing)
		return
	}
	s.createTable()
	s.tableName, s.tableARN = s.Table.TableName(), s.Table.TableArn()
	if existing == nil {
		return
	}
	isNew := awscdk.Fn_ConditionEquals(existing, "")
	creates := awscdk.NewCfnCondition(s.Scope, jsii.String("CreatesTable"), &awscdk.CfnConditionProps{Expression: isNew})
	has := awscdk.NewCfnCondition(s.Scope, jsii.String("HasExistingTable"), &awscdk.CfnConditionProps{Expression: awscdk.Fn_ConditionNot(isNew)})
	s.Table.Node().DefaultChild().(awsdynamodb.CfnTable).CfnOptions().SetCondition(creates)
	choose := func(existing, created *string) *string {
		return awscdk.Token_AsString(awscdk.Fn_ConditionIf(has.LogicalId(), existing, created), nil)
	}
	s.tableName, s.tableARN = choose(existing, s.tableName), choose(arn("dynamodb", "table/"+*existing), s.tableARN)
}

// createTable adds the table.
func (s *Settle) createTable() {
	props := awsdynamodb.TableProps{
		PartitionKey:                     &awsdynamodb.Attribute{Name: jsii.String("instance"), Type: awsdynamodb.AttributeType_STRING},
		BillingMode:                      awsdynamodb.BillingMode_PAY_PER_REQUEST,
		TimeToLiveAttribute:              jsii.String("expire_at"),
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)},
		DeletionProtection:               jsii.Bool(!s.props.WithoutDeletionProtection),
		RemovalPolicy:                    s.removal(awscdk.RemovalPolicy_RETAIN),
	}
	if s.props.TableStream {
		props.Stream = awsdynamodb.StreamViewType_NEW_AND_OLD_IMAGES
	}
	if s.props.EncryptionKey != nil {
		props.Encryption, props.EncryptionKey = awsdynamodb.TableEncryption_CUSTOMER_MANAGED, s.props.EncryptionKey
	}
	s.Table = awsdynamodb.NewTable(s.Scope, jsii.String("Table"), &props)
	if s.props.WithoutIndex {
		return
	}
	s.Table.AddGlobalSecondaryIndex(&awsdynamodb.GlobalSecondaryIndexProps{
		IndexName:        jsii.String(indexName),
		PartitionKey:     &awsdynamodb.Attribute{Name: jsii.String("index_shard"), Type: awsdynamodb.AttributeType_STRING},
		SortKey:          &awsdynamodb.Attribute{Name: jsii.String("index_key"), Type: awsdynamodb.AttributeType_STRING},
		ProjectionType:   awsdynamodb.ProjectionType_INCLUDE,
		NonKeyAttributes: jsii.Strings("state", "status", "tags"),
	})
}

// addScheduler adds the schedule group for timers longer than fifteen minutes, and the role that
// sends these timers to the delay queue or its dead-letter queue.
func (s *Settle) addScheduler() {
	s.ScheduleGroup = awsscheduler.NewScheduleGroup(s.Scope, jsii.String("ScheduleGroup"), &awsscheduler.ScheduleGroupProps{
		ScheduleGroupName: s.name, RemovalPolicy: s.removal(awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE),
	})
	s.SchedulerRole = s.role("SchedulerRole", "EventBridge Scheduler: sends timers to the delay queue.",
		servicePrincipal("scheduler.amazonaws.com", s.ScheduleGroup.ScheduleGroupArn()),
		allow(actions("sqs:SendMessage"), s.DelayQueue.QueueArn(), s.DelayDeadLetterQueue.QueueArn()))
	s.grantKey(s.SchedulerRole, queueKey)
}

// addSecrets generates the required secrets that are not given.
func (s *Settle) addSecrets() {
	s.secrets = s.props.Secrets
	for _, secret := range []struct {
		id, description string
		value, previous *awscdk.SecretValue
		rotate          bool
	}{
		{"SignupCodeKey", "The key for the hashes of signup's codes.", &s.secrets.SignupCodeKey, nil, false},
		{"EnrichCallbackKey", "Signs the callback addresses of enrich's third party.",
			&s.secrets.EnrichCallbackKey, &s.secrets.EnrichCallbackKeyPrevious, s.secrets.RotateEnrichCallbackKey},
		{"GitHubWebhookSecret", "The secret of the GitHub webhook: enter it at GitHub.",
			&s.secrets.GitHubWebhook, &s.secrets.GitHubWebhookPrevious, s.secrets.RotateGitHubWebhook},
	} {
		if *secret.value != nil || s.props.WithoutExamples {
			continue
		}
		generated := awssecretsmanager.NewSecret(s.Scope, &secret.id, &awssecretsmanager.SecretProps{
			Description: &secret.description, EncryptionKey: s.props.EncryptionKey,
			GenerateSecretString: &awssecretsmanager.SecretStringGenerator{
				PasswordLength: jsii.Number(secretCharacters), ExcludePunctuation: jsii.Bool(true),
			},
		})
		*secret.value = generated.SecretValue()
		if secret.rotate {
			*secret.value, *secret.previous = PendingVersion(generated), generated.SecretValue()
		}
	}
}

// PendingVersion returns a reference to the version AWSPENDING of a secret: the new value while the secret is rotated.
func PendingVersion(secret awssecretsmanager.ISecret) awscdk.SecretValue {
	return awscdk.SecretValue_SecretsManager(secret.SecretArn(), &awscdk.SecretsManagerSecretOptions{VersionStage: jsii.String("AWSPENDING")})
}

// addKeyPolicy allows the services that encrypt with the customer's key to use it.
func (s *Settle) addKeyPolicy() {
	key := s.props.EncryptionKey
	if key == nil {
		return
	}
	account := map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": *awscdk.Aws_ACCOUNT_ID()}}
	key.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("events.amazonaws.com"), nil)},
		Actions:    actions("kms:Decrypt", "kms:GenerateDataKey"), Resources: jsii.Strings("*"), Conditions: &account,
	}), nil)
	// The principal of CloudWatch Logs names the Region (CloudWatch Logs User Guide, "Encrypt log data in CloudWatch Logs
	// using AWS Key Management Service"). The log groups refer to the key, so its policy cannot refer to them.
	logsOfRegion := jsii.String("logs." + *awscdk.Aws_REGION() + "." + *awscdk.Aws_URL_SUFFIX())
	logs := map[string]any{"ArnLike": map[string]any{"kms:EncryptionContext:aws:logs:arn": *arn("logs", "log-group:*")}}
	key.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(logsOfRegion, nil)},
		Actions:    actions("kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*", "kms:DescribeKey"), Resources: jsii.Strings("*"), Conditions: &logs,
	}), nil)
}

// The permissions on the customer's key: queueKey for users of encrypted queues, and tableKey for users of the table.
// tableKey equals CDK's grants to read and write a table (Amazon DynamoDB Developer Guide, "DynamoDB encryption at
// rest: usage notes", "Authorizing use of a customer managed key").
var (
	queueKey = actions("kms:Decrypt", "kms:GenerateDataKey")
	tableKey = actions("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*")
)

// grantKey allows a role to use the customer's key, if there is one.
func (s *Settle) grantKey(role awsiam.Role, actions *[]*string) {
	if s.props.EncryptionKey != nil {
		s.props.EncryptionKey.Grant(role, *actions...)
	}
}
