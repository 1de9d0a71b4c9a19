package simulate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/functions/gateway/httpapi"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
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
	// visibilityTimeout is six times the function's, as AWS advises.
	visibilityTimeout = "60"
)

// world is everything that runs in production, in one synctest bubble: AWS, the gateway, the
// consumer and the forwarder of the delay queue. Consumer and forwarder have AWS clients of
// their own, whose calls faults can hit, and are started anew after they died.
type world struct {
	t     *testing.T
	cloud *awslocal.Cloud
	// faults hits the calls of consumer and forwarder.
	faults  *faults
	store   *dynamostore.Store
	gateway http.Handler
	effects *recorder
	options options

	queueURL, deadLetterURL, delayURL string
	// roles are those of the functions, if they differ from those of all tests.
	roles *guard.Roles
	// batches counts the calls of sendRaw, for deduplication IDs.
	batches int
}

// options tunes a world. The zero value is the world as it runs in production.
type options struct {
	faults *faults
	// sdkRetries lets the SDK clients of consumer and forwarder repeat failed calls, as they
	// do in production.
	sdkRetries bool
	// more are machines to host beside job and signup.
	more []durable.Machine
	// job tunes the machine of that name.
	job job.Config
	// workflows are the state machines that charts start, by the charts' names for them; nil means that there are
	// none, and no function that hears of their ends.
	workflows map[string]string
	// refuse answers a call of the consumer with an error of AWS's, by its code; empty: it lets it through.
	refuse func(operation, body string) (code string)
	// meter counts what AWS bills for consumer and forwarder; nil counts nothing.
	meter *meter
	// historyMax is how many transitions instances remember; 0 means the default.
	historyMax int
	// indexed has the table an index, which the consumer keeps.
	indexed bool
	// acknowledgesLate has the consumer leave all acknowledging to the end of the batch.
	acknowledgesLate bool
	// log takes what the consumer logs; nil: nothing does.
	log slog.Handler
	// source changes how the queue feeds the consumer.
	source func(*awslocal.EventSource)
	// statusFault hits the events of their ends.
	statusFault func(awslocal.StatusChange) awslocal.StatusChangeFault
}

// inWorld runs a test in a bubble of virtual time.
func inWorld(t *testing.T, o options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.faults == nil {
			o.faults = &faults{}
		}
		w := &world{t: t, cloud: awslocal.New(awslocal.Config{Fault: o.faults.hitting, DeliveryFault: o.meter.delivered, StatusChanges: o.statusChanges(), StatusChangeFault: o.statusFault}), faults: o.faults, effects: &recorder{}, options: o}
		w.create(o)
		ctx, stop := context.WithCancel(t.Context())
		var polls sync.WaitGroup
		defer polls.Wait() // Also after a Fatal: what goes on polling keeps the bubble alive for ever.
		defer stop()
		polls.Go(func() { w.poll(ctx, queueName, func() awslocal.Invoker { return w.consumer(o) }) })
		polls.Go(func() { w.poll(ctx, delayName, func() awslocal.Invoker { return w.forwarder(o) }) })
		if o.workflows != nil {
			polls.Go(func() { w.poll(ctx, executionsName, func() awslocal.Invoker { return w.executions(o) }) })
		}
		test(w)
	})
}

// statusChanges returns the name of the queue that hears of executions, empty if nobody does.
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
	for name, url := range urls {
		attributes := map[string]string{"VisibilityTimeout": visibilityTimeout}
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
	own := w.by("gateway", config)
	gateway, err := httpapi.New(w.machines(), sqsqueue.New(sqs.NewFromConfig(own), w.queueURL, ""), dynamostore.New(dynamodb.NewFromConfig(own), table), httpapi.Config{GitHubSecret: webhookSecret, Callbacks: thirdParties, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.gateway = gateway
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

// consumer returns the Lambda function that runs the loop, built anew after each death.
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
			Queue:      sqsqueue.New(queues, w.queueURL, w.deadLetterURL),
			Timers:     w.timers(config),
			Tokens:     sfncallback.New(states),
			Executions: workflows,
		}
		if !o.acknowledgesLate {
			ports.Acknowledger = sqsqueue.NewAcknowledger(queues, w.queueURL)
		}
		loop, err := durable.New(w.machines(), ports, durable.Config{Logger: o.logger(), HistoryMax: o.historyMax})
		if err != nil {
			w.t.Error(err)
		}
		return lambda.NewHandler(sqsqueue.Handler(loop))
	}, cloud: w.cloud}
}

// timers returns what brings messages later, over clients with the configuration.
func (w *world) timers(config aws.Config) durable.Timers {
	timers, err := schedule.NewTimers(schedule.NewDelayQueue(sqs.NewFromConfig(config), w.delayURL, time.Now), scheduler.NewFromConfig(config),
		schedule.SchedulerConfig{QueueARN: "arn:aws:sqs:" + awslocal.Region + ":" + awslocal.Account + ":" + delayName, RoleARN: anyRole})
	if err != nil {
		w.t.Error(err)
	}
	return timers
}

// forwarder returns the Lambda function of the delay queue, built anew after each death.
func (w *world) forwarder(o options) awslocal.Invoker {
	return &mortal{name: "forwarder", faults: w.faults, start: func(client aws.HTTPClient) awslocal.Invoker {
		queues := sqs.NewFromConfig(w.by("delay", w.aws(o.meter.over(client), o.sdkRetries)))
		delays := schedule.NewDelayQueue(queues, w.delayURL, time.Now)
		forward := schedule.NewForwarder(delays, sqsqueue.New(queues, w.queueURL, "")).Forward
		return lambda.NewHandler(sqsqueue.EachHandler(slog.New(slog.DiscardHandler), forward))
	}, cloud: w.cloud}
}

// executions returns the Lambda function that hears of the ends of executions, built anew after each death.
func (w *world) executions(o options) awslocal.Invoker {
	return &mortal{name: "executions", faults: w.faults, start: func(client aws.HTTPClient) awslocal.Invoker {
		config := w.by("executions", w.aws(client, o.sdkRetries))
		logger := slog.New(slog.DiscardHandler)
		forward := sfncallback.NewForwarder(sfn.NewFromConfig(config), sqsqueue.New(sqs.NewFromConfig(config), w.queueURL, ""), logger).Forward
		return lambda.NewHandler(sqsqueue.EachHandler(logger, forward))
	}, cloud: w.cloud}
}

func (w *world) poll(ctx context.Context, queue string, start func() awslocal.Invoker) {
	source := awslocal.EventSource{Queue: queue, Timeout: functionTimeout, ReportBatchItemFailures: true}
	if queue == queueName && w.options.source != nil {
		w.options.source(&source)
	}
	err := w.cloud.Poll(ctx, source, start)
	if err != nil {
		w.t.Errorf("polling %s: %v", queue, err)
	}
}

// post sends a request to the gateway and checks the status of the answer.
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

// record reads an instance; Revision is 0 if it does not exist.
func (w *world) record(instance string) durable.Record {
	w.t.Helper()
	id, err := durable.ParseInstanceID(instance)
	if err != nil {
		w.t.Fatal(err)
	}
	record, err := w.store.Load(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return record
}

// await waits, in virtual time, until the instance is in the state and its outbox is empty.
func (w *world) await(instance, state string, more ...func(durable.Record) bool) durable.Record {
	w.t.Helper()
	const patience = time.Hour
	pause := 10 * time.Millisecond
	for began := time.Now(); time.Since(began) < patience; time.Sleep(pause) {
		pause = min(2*pause, 30*time.Second)
		record := w.record(instance)
		reached := len(record.State) == 1 && record.State[0] == state && len(record.Outbox) == 0
		for _, condition := range more {
			reached = reached && condition(record)
		}
		if reached {
			return record
		}
	}
	w.t.Fatalf("%s did not reach %s within %v, it is %+v", instance, state, patience, w.record(instance))
	return durable.Record{}
}

// deadLetters counts the messages that were parked, or given up by the queue.
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

// mortal is a Lambda function whose process can die: the invocation fails, and the next one
// starts the process anew.
type mortal struct {
	name   string
	faults *faults
	start  func(aws.HTTPClient) awslocal.Invoker
	cloud  *awslocal.Cloud

	mu      sync.Mutex
	process string // the name of its AWS client; empty before the first
	handler awslocal.Invoker
}

// Invoke implements awslocal.Invoker.
func (m *mortal) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	m.faults.invoked(m.name)
	m.mu.Lock()
	if m.process == "" || m.faults.dead(m.process) {
		m.process = m.faults.born(m.name)
		m.handler = m.start(m.cloud.Client(m.process))
	}
	current, handler := m.process, m.handler
	m.mu.Unlock()
	ctx, exit := context.WithCancel(context.WithValue(ctx, diesAs{}, current))
	defer exit()
	m.faults.exits(current, exit)
	answer, err := handler.Invoke(ctx, payload)
	if m.faults.dead(current) {
		return nil, errors.New("the process exited before it answered")
	}
	return answer, err
}

// diesAs is the key of a context under which the name of the process stands that it belongs to.
type diesAs struct{}

// kill ends the process that a service runs in, which does not return.
func (f *faults) kill(ctx context.Context) {
	process := ctx.Value(diesAs{}).(string)
	f.mu.Lock()
	if f.ended == nil {
		f.ended = map[string]bool{}
	}
	f.ended[process] = true
	exit := f.exit[process]
	f.mu.Unlock()
	exit()
	<-ctx.Done()
}

// exits notes what ends the invocation that a process is in.
func (f *faults) exits(process string, exit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exit == nil {
		f.exit = map[string]func(){}
	}
	f.exit[process] = exit
}

// fault is what happens to one call.
type fault int

const (
	_ fault = iota // no fault
	// failBefore fails the call; it has no effect.
	failBefore
	// loseAnswer loses the answer of a call that took effect.
	loseAnswer
	// throttle has AWS refuse the call.
	throttle
	// duplicate has the call take effect twice; the second answer is seen.
	duplicate
	// freeze stops the process before the call takes effect, until its messages are visible to
	// others again; then it goes on.
	freeze
	// dieBefore and dieAfter end the process before or after the call takes effect.
	dieBefore
	dieAfter
)

func (f fault) String() string {
	return [...]string{"none", "fail before", "lose answer", "throttle", "duplicate", "freeze", "die before", "die after"}[f]
}

// faults counts the calls of processes to AWS and hits one of them.
type faults struct {
	// at is the number of the call to hit, from 1; 0 hits none.
	at   int
	kind fault

	// latency is how long each call takes to reach its service.
	latency time.Duration

	mu          sync.Mutex
	exit        map[string]func() // of processes, by name
	calls       []string          // "sqs.SendMessage"
	processes   int
	ended       map[string]bool // processes that died, by name
	invocations map[string]int  // by function
}

// invoked counts an invocation of a function.
func (f *faults) invoked(function string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.invocations == nil {
		f.invocations = map[string]int{}
	}
	f.invocations[function]++
}

// born returns the name of a new process.
func (f *faults) born(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.processes++
	return fmt.Sprintf("%s %d", name, f.processes)
}

func (f *faults) dead(process string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended[process]
}

// hitting is awslocal's Config.Fault. Once a process is dead, none of its calls reaches AWS.
func (f *faults) hitting(call awslocal.Call) awslocal.Fault {
	if call.Client == "" { // the gateway, and the test itself
		return awslocal.Fault{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended[call.Client] {
		return awslocal.Fault{RequestLost: true}
	}
	f.calls = append(f.calls, call.Service+"."+call.Operation)
	if len(f.calls) != f.at {
		return awslocal.Fault{Before: f.latency}
	}
	if f.kind == dieBefore || f.kind == dieAfter {
		f.ended = map[string]bool{call.Client: true}
	}
	switch f.kind {
	case failBefore, dieBefore:
		return awslocal.Fault{RequestLost: true}
	case loseAnswer, dieAfter:
		return awslocal.Fault{AnswerLost: true}
	case throttle:
		return awslocal.Fault{Throttled: true}
	case duplicate:
		return awslocal.Fault{Duplicated: true}
	case freeze:
		return awslocal.Fault{Frozen: 90 * time.Second}
	}
	return awslocal.Fault{}
}

// hit returns the service and operation of the call that was hit. Groups run side by side, so the order of
// calls may differ a little from run to run.
func (f *faults) hit() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at > len(f.calls) {
		return "never made"
	}
	return f.calls[f.at-1]
}

// count returns how many calls had the target, such as sqs.SendMessage.
func (f *faults) count(target string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, call := range f.calls {
		if call == target {
			n++
		}
	}
	return n
}

// recorder implements the services of the machines: it notes what it was asked for, and
// answers the same to the same idempotency key.
type recorder struct {
	mu    sync.Mutex
	calls []string
	keys  map[string]string
	codes map[string]string // by address, of the mail sent last
	// jobs are those that the third party of enrich was asked for, by subject; submitting is called meanwhile.
	jobs       map[string]enrich.Job
	submitting func(enrich.Job) error
}

func (r *recorder) note(service, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, service)
	if r.keys == nil {
		r.keys = map[string]string{}
	}
	r.keys[key] = service
}

// distinct returns how often a service was asked for under different keys.
func (r *recorder) distinct(service string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, noted := range r.keys {
		if noted == service {
			n++
		}
	}
	return n
}

func (r *recorder) Launch(_ context.Context, request job.Request) (job.Runner, error) {
	r.note("launch", request.IdempotencyKey)
	return job.Runner{ID: "runner for " + request.IdempotencyKey}, nil
}

func (r *recorder) SendVerification(_ context.Context, v signup.Verification) (string, error) {
	r.note("mail", v.IdempotencyKey)
	r.mu.Lock()
	defer r.mu.Unlock()
	code := "code for " + v.IdempotencyKey
	if r.codes == nil {
		r.codes = map[string]string{}
	}
	r.codes[v.Email] = code
	return code, nil
}

func (r *recorder) Provision(_ context.Context, account signup.Account) (string, error) {
	r.note("provision", account.IdempotencyKey)
	return "account for " + account.IdempotencyKey, nil
}

// code returns the code of the mail sent last to the address.
func (r *recorder) code(address string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.codes[address]
}

// mustJSON marshals a value of the test's own.
func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
