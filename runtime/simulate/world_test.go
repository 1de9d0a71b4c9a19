package simulate_test

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/job/webhook"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/readcache"
	"github.com/settle-run/settle/runtime/lanes"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sfncallback"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

const (
	table           = "settle"
	queueName       = "settle.fifo"
	deadLetterName  = "settle-dead-letters.fifo"
	delayName       = "settle-delay"
	executionsName  = "settle-executions"
	anyRole         = "arn:aws:iam::" + awslocal.Account + ":role/any"
	webhookSecret   = "a secret of the tests"
	functionTimeout = 10 * time.Second
	// visibilityTimeout is six times the function's timeout, as AWS advises.
	visibilityTimeout = "60"
)

// world is the whole production system in one synctest bubble: AWS, the gateway, the consumer and the forwarder of the
// delay queue. Consumer and forwarder have AWS clients of their own, so that faults can hit their calls. Both restart
// after their process has died.
type world struct {
	t     *testing.T
	cloud *awslocal.Cloud
	// faults hits the calls of consumer and forwarder.
	faults  *faults
	store   *dynamostore.Store
	gateway *replaceable
	effects *recorder
	options options

	queueURL, deadLetterURL, delayURL string
	// roles replaces the default roles of the functions; nil means the default.
	roles *guard.Roles
	// batches counts the calls of sendRaw, for deduplication IDs.
	batches int
}

// options tunes a world. With the zero value, the world is as in production, except that the SDK clients of the
// functions do not retry.
type options struct {
	faults *faults
	// sdkRetries lets the SDK clients of consumer and forwarder retry failed calls, as in production.
	sdkRetries bool
	// `more` are machines to host besides job, signup and enrich.
	more []durable.Machine
	// job configures the machine job.
	job job.Config
	// workflows maps the names that charts use for workflows to state machines. If it is nil, charts start no
	// workflows, and no function receives the events about ended executions.
	workflows map[string]string
	// refuse returns the code of the AWS error with which a call of the consumer fails; empty means no error.
	refuse func(operation, body string) (code string)
	// meter counts the billed usage of consumer and forwarder; nil counts nothing.
	meter *meter
	// historyMax is how many transitions instances keep; 0 means the default.
	historyMax int
	// indexed gives the table an index, which the consumer maintains.
	indexed bool
	// lanes names the lanes besides the main one, and laneRules assign instances to them.
	lanes     []string
	laneRules string
	// acknowledgesLate makes the consumer acknowledge everything at the end of the batch.
	acknowledgesLate bool
	// caches gives each process of the consumer a cache.
	caches bool
	// observer receives the events of the consumer's loop.
	observer durable.Observer
	// scanMessagesMax is awslocal.Config.FIFOScanMessagesMax.
	scanMessagesMax int
	// log receives the consumer's log; nil discards it.
	log slog.Handler
	// visibility is the visibility timeout of the queues in seconds; empty means visibilityTimeout.
	visibility string
	// source changes the event source between the queue and the consumer.
	source func(*awslocal.EventSource)
	// statusFault decides the faults of the executions' status change events.
	statusFault func(awslocal.StatusChange) awslocal.StatusChangeFault
}

// inWorld runs a test in a bubble of virtual time.
func inWorld(t *testing.T, o options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.faults == nil {
			o.faults = &faults{}
		}
		w := &world{t: t, cloud: awslocal.New(awslocal.Config{Fault: o.faults.hitting, DeliveryFault: o.meter.delivered, StatusChanges: o.statusChanges(), StatusChangeFault: o.statusFault, FIFOScanMessagesMax: o.scanMessagesMax}), faults: o.faults, effects: &recorder{}, options: o}
		w.create(o)
		ctx, stop := context.WithCancel(t.Context())
		var polls sync.WaitGroup
		defer polls.Wait() // This also runs after a Fatal, because polls would keep the bubble alive forever.
		defer stop()
		polls.Go(func() { w.poll(ctx, queueName, func() awslocal.Invoker { return w.consumer(o) }) })
		for _, lane := range o.lanes {
			polls.Go(func() { w.poll(ctx, laneQueue(lane), func() awslocal.Invoker { return w.consumer(o) }) })
		}
		polls.Go(func() { w.poll(ctx, delayName, func() awslocal.Invoker { return w.forwarder(o) }) })
		if o.workflows != nil {
			polls.Go(func() { w.poll(ctx, executionsName, func() awslocal.Invoker { return w.executions(o) }) })
		}
		test(w)
	})
}

// laneQueue returns the name of a lane's queue.
func laneQueue(lane string) string { return "settle-" + lane + ".fifo" }

// arnsOfLanes returns durable.Config.Lanes.
func (o options) arnsOfLanes() map[string]string {
	arns := map[string]string{}
	for _, lane := range o.lanes {
		arns[lane] = arnOf(laneQueue(lane))
	}
	return arns
}

func arnOf(queue string) string { return arnOfQueues + queue }

// queue returns the FIFO queue with its lanes.
func (w *world) queue(client sqsqueue.Client, deadLetterURL string) *sqsqueue.Queue {
	w.t.Helper()
	rules, err := lanes.ParseRules(w.options.laneRules, w.options.lanes)
	if err != nil {
		w.t.Fatal(err)
	}
	return sqsqueue.New(client, w.queueURL, deadLetterURL).WithLanes(w.options.arnsOfLanes(), rules.Lane)
}

// statusChanges returns the name of the queue that receives the events about ended executions. It is empty if no
// function receives these events.
func (o options) statusChanges() string {
	if o.workflows == nil {
		return ""
	}
	return executionsName
}

// newStore returns the consumer's store.
func (o options) newStore(client *dynamodb.Client) *dynamostore.Store {
	if o.indexed {
		return dynamostore.NewIndexed(client, table)
	}
	return dynamostore.New(client, table)
}

func (o options) logger() *slog.Logger {
	if o.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(o.log)
}

func (w *world) create(o options) {
	w.t.Helper()
	ctx := w.t.Context()
	config := w.aws(w.cloud.HTTPClient(), true)
	queues, tables := sqs.NewFromConfig(config), dynamodb.NewFromConfig(config)
	urls := map[string]*string{queueName: &w.queueURL, deadLetterName: &w.deadLetterURL, delayName: &w.delayURL}
	if o.workflows != nil {
		urls[executionsName] = new(string)
	}
	for _, lane := range o.lanes {
		urls[laneQueue(lane)] = new(string)
	}
	for name, url := range urls {
		attributes := map[string]string{"VisibilityTimeout": cmp.Or(o.visibility, visibilityTimeout)}
		if name != delayName && name != executionsName {
			attributes["FifoQueue"] = "true"
		}
		made, err := queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		if err != nil {
			w.t.Fatal(err)
		}
		*url = *made.QueueUrl
	}
	createTable := dynamostore.CreateTable
	if o.indexed {
		createTable = dynamostore.CreateIndexedTable
	}
	if err := createTable(ctx, tables, table); err != nil {
		w.t.Fatal(err)
	}
	w.store = dynamostore.New(tables, table)
	w.startGateway()
}

// startGateway starts the gateway with the lane rules in w.options.
func (w *world) startGateway() {
	w.t.Helper()
	own := w.by("gateway", w.aws(w.cloud.HTTPClient(), true))
	gateway, err := gateway.New(w.machines(), w.queue(sqs.NewFromConfig(own), ""), dynamostore.New(dynamodb.NewFromConfig(own), table), gateway.Config{Webhooks: map[string]gateway.Webhook{webhook.Name: webhook.GitHub(gateway.Secrets{Current: []byte(webhookSecret)})}, Callbacks: thirdParties, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.gateway == nil {
		w.gateway = &replaceable{}
	}
	w.gateway.current.Store(&gateway)
}

func (w *world) machines() *durable.Machines {
	w.t.Helper()
	machines, err := durable.NewMachines(append([]durable.Machine{
		durable.Host(job.New(w.effects, w.options.job), durable.MachineConfig{StartedBy: job.StartedBy, Retention: job.Retention}),
		durable.Host(signup.New(w.effects, w.effects, signup.Config{}), durable.MachineConfig{StartedBy: signup.StartedBy, Retention: signup.Retention}),
		durable.Host(enrich.New(w.effects, callbacks, enrich.Config{}), durable.MachineConfig{StartedBy: enrich.StartedBy, Retention: enrich.Retention}),
	}, w.options.more...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return machines
}

// aws returns the configuration of SDK clients that reach AWS through the given transport.
func (w *world) aws(client aws.HTTPClient, retries bool) aws.Config {
	config := aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: client,
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	}
	if !retries {
		config.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	}
	return config
}

// consumer returns the Lambda function that runs the loop. It starts again after each death.
func (w *world) consumer(o options) awslocal.Invoker {
	return &mortal{name: "consumer", faults: w.faults, start: func(client aws.HTTPClient) awslocal.Invoker {
		if o.refuse != nil {
			client = refuser{client, o.refuse}
		}
		config := w.by("consumer", w.aws(o.meter.over(client), o.sdkRetries))
		queues := sqs.NewFromConfig(config)
		states := sfn.NewFromConfig(config)
		workflows, err := sfncallback.NewWorkflows(states, o.workflows)
		if err != nil {
			w.t.Error(err)
		}
		ports := durable.Ports{
			Store:      o.newStore(dynamodb.NewFromConfig(config)),
			Queue:      w.queue(queues, w.deadLetterURL),
			Timers:     w.timers(config),
			Tokens:     sfncallback.New(states),
			Executions: workflows,
		}
		if o.caches {
			ports.Cache = readcache.New(time.Now, readcache.HitsMin)
		}
		if !o.acknowledgesLate {
			ports.Acknowledger = sqsqueue.NewAcknowledger(queues, w.queueURL)
		}
		loop, err := durable.New(w.machines(), ports, durable.Config{Logger: o.logger(), Observer: o.observer, HistoryMax: o.historyMax, Lanes: o.arnsOfLanes()})
		if err != nil {
			w.t.Error(err)
		}
		return lambda.NewHandler(sqsqueue.Handler(loop))
	}, cloud: w.cloud}
}

// timers returns timers that call AWS with the configuration.
func (w *world) timers(config aws.Config) durable.Timers {
	return newTimers(w.t, schedule.NewDelayQueue(sqs.NewFromConfig(config), w.delayURL, time.Now), config)
}

// forwarder returns the Lambda function of the delay queue. It starts again after each death.
func (w *world) forwarder(o options) awslocal.Invoker {
	return &mortal{name: "forwarder", faults: w.faults, start: func(client aws.HTTPClient) awslocal.Invoker {
		config := w.by("delay", w.aws(o.meter.over(client), o.sdkRetries))
		queues := sqs.NewFromConfig(config)
		delays := schedule.NewDelayQueue(queues, w.delayURL, time.Now)
		forward := schedule.NewForwarder(delays, newTimers(w.t, delays, config), w.queue(queues, "")).Forward
		return lambda.NewHandler(sqsqueue.EachHandler(slog.New(slog.DiscardHandler), forward))
	}, cloud: w.cloud}
}

// executions returns the Lambda function for the events about ended executions. It starts again after each death.
func (w *world) executions(o options) awslocal.Invoker {
	return &mortal{name: "executions", faults: w.faults, start: func(client aws.HTTPClient) awslocal.Invoker {
		config := w.by("executions", w.aws(client, o.sdkRetries))
		logger := slog.New(slog.DiscardHandler)
		forward := sfncallback.NewForwarder(sfn.NewFromConfig(config), w.queue(sqs.NewFromConfig(config), ""), logger).Forward
		return lambda.NewHandler(sqsqueue.EachHandler(logger, forward))
	}, cloud: w.cloud}
}

func (w *world) poll(ctx context.Context, queue string, start func() awslocal.Invoker) {
	source := awslocal.EventSource{Queue: queue, Timeout: functionTimeout, ReportBatchItemFailures: true}
	if strings.HasSuffix(queue, ".fifo") && w.options.source != nil {
		w.options.source(&source)
	}
	err := w.cloud.Poll(ctx, source, start)
	if err != nil {
		w.t.Errorf("polling %s: %v", queue, err)
	}
}

// post sends a request to the gateway and checks the status of the response.
func (w *world) post(path string, header http.Header, body []byte, want int) {
	w.t.Helper()
	request := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, path, bytes.NewReader(body))
	for key, values := range header {
		request.Header[key] = values
	}
	answer := httptest.NewRecorder()
	w.gateway.ServeHTTP(answer, request)
	if answer.Code != want {
		w.t.Fatalf("POST %s: want %d, got %d: %s", path, want, answer.Code, answer.Body)
	}
}

// send sends an event to an instance through the gateway.
func (w *world) send(instance, event string) {
	w.t.Helper()
	w.post("/instances/"+instance+"/events", nil, []byte(event), http.StatusAccepted)
}

// record reads an instance. Revision is 0 if it does not exist.
func (w *world) record(instance string) instances.Record {
	w.t.Helper()
	id, err := instances.ParseID(instance)
	if err != nil {
		w.t.Fatal(err)
	}
	record, err := w.store.Load(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return record
}

// await waits, in virtual time, until the instance is in the state and owes no effects.
func (w *world) await(instance, state string, more ...func(instances.Record) bool) instances.Record {
	w.t.Helper()
	const patience = time.Hour
	pause := 10 * time.Millisecond
	for began := time.Now(); time.Since(began) < patience; time.Sleep(pause) {
		pause = min(2*pause, 30*time.Second)
		record := w.record(instance)
		reached := len(record.State) == 1 && record.State[0] == state && owing(record) == 0
		for _, condition := range more {
			reached = reached && condition(record)
		}
		if reached {
			return record
		}
	}
	w.t.Fatalf("%s did not reach %s within %v, got %+v", instance, state, patience, w.record(instance))
	return instances.Record{}
}

// deadLetters returns the number of messages in the dead-letter queue.
func (w *world) deadLetters() string {
	w.t.Helper()
	attributes, err := sqs.NewFromConfig(w.aws(w.cloud.HTTPClient(), true)).GetQueueAttributes(w.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &w.deadLetterURL, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return attributes.Attributes["ApproximateNumberOfMessages"]
}
