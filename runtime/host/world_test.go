package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/host/internal/emf/emftest"
	"github.com/settle-run/settle/runtime/instances"
)

// lines is a log shared by several functions.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The queues of a world have the names of infra/template.yaml.
const (
	fifo   = "settle.fifo"
	dead   = "settle-dlq.fifo"
	delays = "settle-delay"
)

// world runs the functions of the sample machines with a local AWS and a collector for their spans.
type world struct {
	t             *testing.T
	cloud         *awslocal.Cloud
	queues        *sqs.Client
	endpoint      string // of the local AWS
	urls          map[string]string
	variables     map[string]string
	logs, metrics lines
	spans         lines         // the requests to the collector, one line each
	answers       lines         // the answers and errors of the functions, one line each
	machines      host.Machines // of the gateway and tokentask
	consumes      host.Machines // of the consumer
	gateway       lambda.Handler
	store         *dynamostore.Store
	roles         *guard.Roles
	polling       sync.WaitGroup
}

// newWorld starts the functions of the sample machines with additional variables.
func newWorld(t *testing.T, variables map[string]string) *world {
	t.Helper()
	return newWorldOf(t, awslocal.Config{}, samples.Machines, samples.ConsumerMachines, variables)
}

// testClient marks the test's own calls, so that faults can spare them.
const testClient = "test"

// newWorldOf starts the functions with the given machines.
func newWorldOf(t *testing.T, cloud awslocal.Config, machines, consumes host.Machines, variables map[string]string) *world {
	t.Helper()
	roles, err := guard.NewRoles(infra.Stack{
		Name: "settle", Account: awslocal.Account, Region: awslocal.Region, Values: map[string]string{"Table": "settle"},
		// This state machine stands for the state machines that charts start, as in cdk.Props.Workflows.
		Workflows: map[string]string{"m": "arn:aws:states:" + awslocal.Region + ":" + awslocal.Account + ":stateMachine:m"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := roles.Denied(); err != nil {
			t.Errorf("the functions made calls that their roles do not allow:\n%v", err)
		}
	})
	w := &world{t: t, cloud: awslocal.New(cloud), urls: map[string]string{}, machines: machines, consumes: consumes, roles: roles}
	server, err := w.cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.endpoint = server.URL()
	t.Cleanup(func() { _ = server.Close() })
	collector := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Api-Key") != "canary-collector" {
			t.Errorf("got a request for %s with %v", r.URL.Path, r.Header)
		}
		_, _ = w.spans.Write(append(body, '\n'))
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte("{}"))
	}))
	t.Cleanup(collector.Close)
	config := aws.Config{Region: awslocal.Region, BaseEndpoint: aws.String(server.URL()), AppID: testClient, Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")}
	w.queues, w.store = sqs.NewFromConfig(config), dynamostore.New(dynamodb.NewFromConfig(config), "settle")
	for name, attributes := range map[string]map[string]string{
		fifo: {"FifoQueue": "true", "VisibilityTimeout": "900"}, dead: {"FifoQueue": "true"}, delays: {"VisibilityTimeout": "900"},
	} {
		made, err := w.queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		if err != nil {
			t.Fatal(err)
		}
		w.urls[name] = *made.QueueUrl
	}
	if err := dynamostore.CreateTable(t.Context(), dynamodb.NewFromConfig(config), "settle"); err != nil {
		t.Fatal(err)
	}
	w.variables = map[string]string{
		host.Table: "settle", host.QueueURL: w.urls[fifo], host.DeadLetterQueueURL: w.urls[dead], host.DelayQueueURL: w.urls[delays],
		host.TracesEndpoint: collector.URL, host.TracesHeaders: "api-key=canary-collector",
		samples.SignupCodeKey: "canary-code-key-0123456789abcdef",
	}
	for name, value := range variables {
		w.variables[name] = value
	}
	w.gateway = w.start("gateway", host.Gateway(machines, samples.ThirdParties))
	return w
}

// noting records the answers of a function.
type noting struct {
	lambda.Handler
	answers *lines
}

func (n noting) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	answer, err := n.Handler.Invoke(ctx, payload)
	_, _ = fmt.Fprintf(n.answers, "%s %v\n", answer, err)
	return answer, err
}

// loadAWS returns the configuration of the SDK for the functions. Of the SDK's environment variables, it reads only
// AWS_MAX_ATTEMPTS.
func (w *world) loadAWS(context.Context) (aws.Config, error) {
	attempts, _ := strconv.Atoi(w.variables["AWS_MAX_ATTEMPTS"]) // No value means the SDK's default.
	return aws.Config{
		Region: awslocal.Region, BaseEndpoint: &w.endpoint, RetryMaxAttempts: attempts, Credentials: credentials.NewStaticCredentialsProvider("any", "canary-aws", ""),
	}, nil
}

// start starts a function, which calls AWS with the role of the same name.
func (w *world) start(name string, function host.Function) lambda.Handler {
	w.t.Helper()
	handlerOf := function.Handler
	function.Handler = func(p *host.Process, machines *durable.Machines) (any, error) {
		w.roles.Attach(name, &p.AWS)
		return handlerOf(p, machines)
	}
	handler, _, err := host.Start(function, func(name string) (string, bool) { value, ok := w.variables[name]; return value, ok }, w.loadAWS, &w.metrics, &w.logs)
	if err != nil {
		w.t.Fatal(err)
	}
	return noting{handler, &w.answers}
}

// functionTimeout is Lambda's maximum. The functions stay below it on any machine.
const functionTimeout = 15 * time.Minute

// poll polls the queues for their functions until the test ends or stop is called.
func (w *world) poll() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	for name, function := range map[string]host.Function{"consumer": host.Consumer(w.consumes), "delay": host.Delay()} {
		w.polling.Go(func() {
			source := awslocal.EventSource{Queue: map[string]string{"consumer": fifo, "delay": delays}[name], ReportBatchItemFailures: true, Timeout: functionTimeout}
			if err := w.cloud.Poll(ctx, source, func() awslocal.Invoker { return w.start(name, function) }); err != nil {
				w.t.Error(err)
			}
		})
	}
	return func() { cancel(); w.polling.Wait() }
}

// request invokes the gateway as an HTTP API does and returns the status and the body.
func (w *world) request(method, path string, headers map[string]string, body string) (status int, answer string) {
	w.t.Helper()
	event, err := json.Marshal(map[string]any{
		"version": "2.0", "rawPath": path, "headers": headers, "body": body,
		"requestContext": map[string]any{"http": map[string]any{"method": method, "sourceIp": "192.0.2.1"}, "stage": "$default"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := w.gateway.Invoke(w.t.Context(), event)
	if err != nil {
		w.t.Fatal(err)
	}
	var response struct {
		StatusCode int    `json:"statusCode"`
		Body       string `json:"body"`
	}
	if err := json.Unmarshal(out, &response); err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, response.Body
}

// until waits until the stored record satisfies `reached`. It fails ten seconds before the deadline of go test.
func (w *world) until(name string, reached func(instances.Record) bool) instances.Record {
	w.t.Helper()
	id, err := instances.ParseID(name)
	if err != nil {
		w.t.Fatal(err)
	}
	deadline, limited := w.t.Deadline()
	for ; ; time.Sleep(10 * time.Millisecond) {
		record, err := w.store.Load(w.t.Context(), id)
		if err == nil && reached(record) {
			return record
		}
		if limited && time.Until(deadline) < 10*time.Second {
			w.t.Fatalf("%s: got state %v, load error %v, record error %+v", name, record.State, err, record.Error)
		}
	}
}

// logged returns the log lines with the message.
func (w *world) logged(message string) (found []map[string]any) {
	w.t.Helper()
	for line := range strings.Lines(w.logs.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			w.t.Fatalf("expected JSON in the log, got %q", line)
		}
		if entry["msg"] == message {
			found = append(found, entry)
		}
	}
	return found
}

// measured adds up the metrics of all lines. Every line must conform to the specification.
func (w *world) measured() (sum map[string]float64, invocations int) {
	w.t.Helper()
	sum = map[string]float64{}
	for line := range strings.Lines(w.metrics.String()) {
		values, err := emftest.Check([]byte(line))
		if err != nil {
			w.t.Errorf("metrics %q: %v", line, err)
		}
		for name, value := range values {
			sum[name] += value
		}
		invocations++
	}
	return sum, invocations
}

// span is a span as sent to the collector.
type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	Start                               string `json:"startTimeUnixNano"`
	End                                 string `json:"endTimeUnixNano"`
	Attributes                          []struct {
		Key   string
		Value struct{ StringValue string }
	}
	Status struct{ Code int }
}

// collected returns the spans sent to the collector.
func (w *world) collected() (spans []span) {
	w.t.Helper()
	for line := range strings.Lines(w.spans.String()) {
		var request struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		if err := json.Unmarshal([]byte(line), &request); err != nil {
			w.t.Fatal(err)
		}
		for _, resource := range request.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				spans = append(spans, scope.Spans...)
			}
		}
	}
	return spans
}
