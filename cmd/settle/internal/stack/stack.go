// Package stack runs Settle on this machine: the AWS endpoint with queues and table, the gateway, and the functions
// behind the queues, which a poller like Lambda's invokes. Unless Config.Consumer is set, everything runs in one
// process. The handlers are the same as on AWS, and get the same events over the same wire protocols.
//
// A stack listens on loopback ports or not at all. Without ports, clients reach it in process, and inside a
// testing/synctest bubble it runs in virtual time.
package stack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/instances"
)

// The names of the resources that a stack creates.
const (
	Table                = "settle"
	Queue                = "settle.fifo"
	DeadLetterQueue      = "settle-dlq.fifo"
	DelayQueue           = "settle-delay"
	DelayDeadLetterQueue = "settle-delay-dlq"
	// ExecutionsQueue receives the status changes of executions.
	ExecutionsQueue           = "settle-executions"
	ExecutionsDeadLetterQueue = "settle-executions-dlq"
	// EventBus receives the events that charts emit. It exists in every account.
	EventBus = "default"
	// TokenTask is the function that Step Functions tasks invoke to wait for an instance.
	TokenTask = "settle-tokentask"
)

// Config tunes a stack. A stack with the zero value does not listen, and clients reach it in process.
type Config struct {
	// AWSAddr is the loopback address of the AWS endpoint, such as "127.0.0.1:7389". Port 0 picks a free port. If empty,
	// the endpoint is reachable only in process.
	AWSAddr string
	// HTTPAddr is the address of the gateway, in the same form.
	HTTPAddr string
	// AllowHosts are the hosts, besides localhost and loopback addresses, that both servers accept in requests.
	AllowHosts []string
	// Data is the folder for queues and tables. A later stack with the same folder continues from its data. Without a
	// folder, the data is lost when the stack stops.
	Data string
	// Webhooks are the third parties that send signed requests, by name.
	Webhooks map[string]gateway.Webhook
	// Callbacks are the third parties that call the gateway back, by name.
	Callbacks map[string]gateway.Callback
	// Consumer is the executable to run behind the queue, as Lambda does on AWS. It requires AWSAddr. If empty, the
	// consumer runs in this process.
	Consumer string
	// ConsumerEnv returns additional environment variables for Consumer, as KEY=value. gatewayURL is the gateway's
	// address. The returned variables override the stack's own. Nil means none.
	ConsumerEnv func(gatewayURL string) []string
	// ConsumerLogs receives the standard output and error of Consumer. Several processes may write at once. Defaults to
	// io.Discard.
	ConsumerLogs io.Writer
	// Concurrency is how many batches the consumer handles at once. Each process of Consumer handles one batch.
	// Defaults to 5, the number that Lambda starts with.
	Concurrency int
	// FunctionTimeout is the timeout of an invocation, 1 second to 15 minutes. Defaults to 45 seconds. The queues'
	// visibility timeout depends on it in the same way as in the template.
	FunctionTimeout time.Duration
	// Role, unless nil, is called for each function that runs in this process, before the function's clients are created.
	// It may change the clients' settings. `function` is the name of the function's folder in functions/. Tests use Role
	// to enforce the function's IAM role.
	Role func(function string, settings *aws.Config)
	// Now is the clock of all parts. Defaults to time.Now.
	Now func() time.Time
	// Clock, if not nil, is a virtual clock that replaces Now. It cannot be combined with Consumer, whose processes would
	// not see the clock.
	Clock *awslocal.Clock
	// Logger receives the log of the functions. Defaults to slog.Default.
	Logger *slog.Logger
	// Operator is the identity that the history records for changes in the console. If empty, the console changes no
	// instances.
	Operator string
	// Inspect serves the inspector. It cannot be combined with Consumer, whose commits the stack does not see.
	Inspect bool
	// InspectOrigins are the origins, such as http://localhost:5173, whose pages may connect to the inspector.
	InspectOrigins []string
	// Committed is called for each commit of the consumer in this process. If nil, the stack logs the transitions.
	Committed func(ctx context.Context, committed durable.Committed)
}

func (c Config) withDefaults() Config {
	c.FunctionTimeout = cmp.Or(c.FunctionTimeout, functionTimeoutDefault)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.ConsumerEnv == nil {
		c.ConsumerEnv = func(string) []string { return nil }
	}
	if c.Role == nil {
		c.Role = func(string, *aws.Config) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Clock != nil {
		c.Now = c.Clock.Now
	}
	return c
}

// Stack is a running stack. Close stops it.
type Stack struct {
	config   Config
	machines *durable.Machines
	cloud    *awslocal.Cloud
	aws      *awslocal.Server // nil without an address
	gateway  *apiServer
	store    *dynamostore.Store
	consumer *awslocal.Bootstrap // nil if the consumer runs in this process

	// closing is cancelled when Close begins.
	closing     context.Context
	endPages    context.CancelFunc
	stopPolling context.CancelFunc
	polling     sync.WaitGroup
	failed      chan error    // the first failure of a part
	started     chan struct{} // closed when all resources exist
}

// logPublished logs an event that a bus has received.
func (s *Stack) logPublished(event json.RawMessage) {
	var published struct {
		Source     string          `json:"source"`
		DetailType string          `json:"detail-type"`
		Detail     json.RawMessage `json:"detail"`
	}
	if err := json.Unmarshal(event, &published); err != nil {
		s.config.Logger.Error("cannot read a published event", "error", err)
		return
	}
	s.config.Logger.Info("event published", "source", published.Source, "event", published.DetailType, "detail", string(published.Detail))
}

// Machines returns the machines that a stack hosts. gatewayURL is the address that HTTPURL returns. Machines need it
// for callback addresses.
type Machines func(gatewayURL string) []durable.Machine

// Start starts a stack that hosts the machines. It returns once the stack accepts events. ctx limits only the start.
func Start(ctx context.Context, machines Machines, config Config) (*Stack, error) {
	config = config.withDefaults()
	if config.Clock != nil && config.Consumer != "" {
		return nil, errors.New("starting the stack: expected Clock or Consumer, got both")
	}
	if config.Inspect && config.Consumer != "" {
		return nil, errors.New("starting the stack: expected Inspect or Consumer, got both")
	}
	api, err := listen(config.HTTPAddr)
	if err != nil {
		return nil, fmt.Errorf("starting the gateway: %w", err)
	}
	hosted, err := durable.NewMachines(machines(api.url)...)
	if err != nil {
		return nil, errors.Join(err, api.close())
	}
	s := &Stack{
		config: config, machines: hosted, gateway: api,
		stopPolling: func() {}, failed: make(chan error, 1), started: make(chan struct{}),
	}
	s.closing, s.endPages = context.WithCancel(context.Background())
	s.cloud, err = awslocal.Open(awslocal.Config{
		Now: config.Now, Clock: config.Clock, Data: config.Data, AllowHosts: config.AllowHosts, StatusChanges: ExecutionsQueue, Published: s.logPublished,
		Functions: map[string]awslocal.Function{TokenTask: {Timeout: config.FunctionTimeout, Start: s.tokenTask}},
	})
	if err != nil {
		s.endPages()
		return nil, errors.Join(err, api.close())
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context) error {
	queues, err := createQueues(ctx, sqs.NewFromConfig(s.AWS()), visibilityTimeout(s.config.FunctionTimeout))
	if err != nil {
		return err
	}
	table := dynamodb.NewFromConfig(s.AWS())
	if err := dynamostore.CreateIndexedTable(ctx, table, Table); err != nil {
		return err
	}
	s.store = dynamostore.NewIndexed(table, Table)
	if s.config.AWSAddr != "" {
		if s.aws, err = s.cloud.Listen(s.config.AWSAddr); err != nil {
			return fmt.Errorf("starting the AWS endpoint: %w", err)
		}
	}
	handler, err := s.newGateway(queues)
	if err != nil {
		return err
	}
	if handler, err = s.withConsole(handler, queues); err != nil {
		return err
	}
	if handler, err = s.withInspector(handler); err != nil {
		return err
	}
	s.gateway.serve(handler, s.config.AllowHosts, s.fail)
	if err := s.poll(queues); err != nil {
		return err
	}
	close(s.started)
	return nil
}

// AWS returns the settings of SDK clients that reach the stack in process.
func (s *Stack) AWS() aws.Config {
	return aws.Config{
		Region:       awslocal.Region,
		BaseEndpoint: aws.String("http://aws.local"),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:   s.cloud.HTTPClient(),
	}
}

// role returns the settings of the SDK clients of a function, as changed by Config.Role.
func (s *Stack) role(function string) aws.Config {
	settings := s.AWS()
	s.config.Role(function, &settings)
	return settings
}

// AWSURL returns the address of the AWS endpoint, or "" if it does not listen.
func (s *Stack) AWSURL() string {
	if s.aws == nil {
		return ""
	}
	return s.aws.URL()
}

// QueueURL returns the URL of the FIFO queue as clients of the AWS endpoint see it.
func (s *Stack) QueueURL() string { return s.urlOf(Queue) }

// urlOf returns the URL of a queue as clients of the AWS endpoint see it.
func (s *Stack) urlOf(queue string) string { return s.AWSURL() + "/" + awslocal.Account + "/" + queue }

// RoleARN returns the ARN of a role. The local AWS accepts any role.
func (s *Stack) RoleARN(name string) string {
	return "arn:aws:iam::" + awslocal.Account + ":role/" + name
}

// HTTPURL returns the address of the gateway, without a trailing slash. If the gateway does not listen, only HTTPClient
// can reach it.
func (s *Stack) HTTPURL() string { return s.gateway.url }

// ConsoleURL returns the address of the console.
func (s *Stack) ConsoleURL() string { return s.gateway.url + ConsolePrefix + "/" }

// InspectorURL returns the address of the inspector, for its page and for WebSocket clients.
func (s *Stack) InspectorURL() string { return s.gateway.url + InspectorPath }

// HTTPClient returns a client that reaches the gateway at HTTPURL.
func (s *Stack) HTTPClient() *http.Client { return s.gateway.client }

// MachineIDs returns the IDs of the machines that the stack hosts, sorted.
func (s *Stack) MachineIDs() []string { return s.machines.IDs() }

// Load reads an instance consistently.
func (s *Stack) Load(ctx context.Context, id instances.ID) (instances.Record, error) {
	return s.store.Load(ctx, id)
}

// Wait returns nil when ctx ends, or an error if a part of the stack fails first, for example because its queue was
// deleted.
func (s *Stack) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

// fail stores the first failure for Wait.
func (s *Stack) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// Close stops accepting events, waits for functions in flight, and releases the ports and the data folder. Without a
// data folder, all data is lost.
func (s *Stack) Close() error {
	s.endPages()
	failures := []error{s.gateway.close()}
	s.cloud.EndAdvances(errors.New("settle dev is stopping"))
	s.stopPolling()
	s.polling.Wait()
	if s.consumer != nil {
		failures = append(failures, s.consumer.Close())
	}
	if s.aws != nil {
		failures = append(failures, s.aws.Close())
	}
	failures = append(failures, s.cloud.Close())
	return errors.Join(failures...)
}

const (
	// retention is the longest message retention that SQS allows.
	retention = 14 * 24 * time.Hour
	// receivesMax is the largest maxReceiveCount that SQS allows. The redrive policy is the last resort: the runtime
	// decides what to park, and during an outage, messages that cannot be forwarded stay in their queue.
	receivesMax = 1000
)

// visibilityTimeout returns the visibility timeout of the queues, as infra/cdk computes it. AWS advises six times the
// function's timeout. For a longer timeout than the default, the result is the timeout plus five times the default.
func visibilityTimeout(functionTimeout time.Duration) time.Duration {
	return min(6*functionTimeout, functionTimeout+5*functionTimeoutDefault)
}

// queueURLs are the URLs of the queues for clients in this process.
type queueURLs struct{ fifo, deadLetter, delay, delayDeadLetter, executions, executionsDeadLetter string }

// createQueues creates the queues, dead-letter queues first. Queues that already exist in a data folder get the current
// attributes.
func createQueues(ctx context.Context, client *sqs.Client, visibilityTimeout time.Duration) (urls queueURLs, err error) {
	fifo := map[string]string{string(types.QueueAttributeNameFifoQueue): "true"}
	for _, queue := range []struct {
		name, deadLetter string
		attributes       map[string]string
		url              *string
	}{
		{DeadLetterQueue, "", fifo, &urls.deadLetter},
		{Queue, DeadLetterQueue, fifo, &urls.fifo},
		{DelayDeadLetterQueue, "", nil, &urls.delayDeadLetter},
		{DelayQueue, DelayDeadLetterQueue, nil, &urls.delay},
		{ExecutionsDeadLetterQueue, "", nil, &urls.executionsDeadLetter},
		{ExecutionsQueue, ExecutionsDeadLetterQueue, nil, &urls.executions},
	} {
		attributes := map[string]string{
			string(types.QueueAttributeNameVisibilityTimeout):      seconds(visibilityTimeout),
			string(types.QueueAttributeNameMessageRetentionPeriod): seconds(retention),
		}
		maps.Copy(attributes, queue.attributes)
		if queue.deadLetter != "" {
			attributes[string(types.QueueAttributeNameRedrivePolicy)] = fmt.Sprintf(
				`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, arn("sqs", queue.deadLetter), receivesMax)
		}
		address, err := createQueue(ctx, client, queue.name, attributes)
		if err != nil {
			return queueURLs{}, fmt.Errorf("creating queue %s: %w", queue.name, err)
		}
		*queue.url = address
	}
	return urls, nil
}

// createQueue creates the queue or sets the attributes of the existing one. It returns the queue's URL.
func createQueue(ctx context.Context, client *sqs.Client, name string, attributes map[string]string) (string, error) {
	created, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	var exists *types.QueueNameExists
	if !errors.As(err, &exists) {
		if err != nil {
			return "", err
		}
		return aws.ToString(created.QueueUrl), nil
	}
	found, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return "", err
	}
	// FifoQueue cannot be set on an existing queue. The name implies it.
	settable := maps.Clone(attributes)
	delete(settable, string(types.QueueAttributeNameFifoQueue))
	_, err = client.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: found.QueueUrl, Attributes: settable})
	return aws.ToString(found.QueueUrl), err
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
