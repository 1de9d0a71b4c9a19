package client_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/client"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
)

// The payloads and the context of the machine `order`.
type (
	Place struct {
		Item string `json:"item"`
	}
	// Note is the payload of two events.
	Note struct {
		Text string `json:"text"`
	}
	Add struct {
		Item string `json:"item"`
	}
	Order struct {
		Items []string `json:"items"`
	}
)

// order returns the machine `order`. PLACE starts a service of three seconds, and the instance is not settled while it
// runs.
func order() durable.Machine {
	type (
		on = statechart.Transition[Order]
		do = []statechart.Action[Order]
	)
	settled := []string{statechart.Settled}
	add := func(o *Order, item string) { o.Items = append(o.Items, item) }
	place := statechart.Assign("place", func(o *Order, p Place) { add(o, p.Item) })
	more := statechart.Assign("add", func(o *Order, a *Add) { add(o, a.Item) })
	remind := statechart.Update("remind", func(o *Order) { add(o, "reminder") })
	reserve := statechart.ServiceFunc("reserve", func(context.Context, Order, statechart.Call) (string, error) {
		time.Sleep(3 * time.Second)
		return "", nil
	})
	return durable.Host(statechart.Must(statechart.Definition[Order]{
		ID: "order", Version: 1, Initial: "new",
		Payloads: statechart.Payloads{
			"PLACE": statechart.PayloadOf[Place](), "ADD": statechart.PayloadOf[*Add](), "REMIND": statechart.NoPayload(),
			"PRAISE": statechart.PayloadOf[Note](), "BLAME": statechart.PayloadOf[Note](), "CANCEL": statechart.NoPayload(),
		},
		States: []statechart.State[Order]{
			{ID: "new", Tags: settled, On: []on{{Event: "PLACE", Target: "reserving", Actions: do{
				place, statechart.Alias(func(Order, statechart.Event) string { return "shop/7" }),
			}}}},
			{ID: "reserving", Invoke: []statechart.Invoke[Order]{{Service: reserve, OnDone: []on{{Target: "placed"}}, OnError: []on{{Target: "cancelled"}}}}},
			{ID: "placed", Tags: settled, On: []on{
				{Event: "ADD", Actions: do{more}}, {Event: "REMIND", Actions: do{remind}}, {Event: "CANCEL", Target: "cancelled"},
			}},
			{ID: "cancelled", Type: statechart.Final, Tags: []string{"lost"}},
		},
	}), durable.MachineConfig{StartedBy: []string{"PLACE"}})
}

// world is a consumer that hosts the machine `order` on local AWS, in virtual time.
type world struct {
	t        *testing.T
	machines *durable.Machines
	cloud    *awslocal.Cloud
	url      string

	mu sync.Mutex
	// fault returns the fault to inject into a call of the client. If it is nil, all calls succeed.
	fault func(operation string) awslocal.Fault
}

func inWorld(t *testing.T, indexed bool, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.cloud = awslocal.New(awslocal.Config{Fault: func(call awslocal.Call) awslocal.Fault {
			w.mu.Lock()
			defer w.mu.Unlock()
			if call.Client != clientName || w.fault == nil {
				return awslocal.Fault{}
			}
			return w.fault(call.Operation)
		}})
		var err error
		if w.machines, err = durable.NewMachines(order()); err != nil {
			t.Fatal(err)
		}
		config := w.config("consumer")
		queues, tables := sqs.NewFromConfig(config), dynamodb.NewFromConfig(config)
		create := func(name, fifo string) string {
			attributes := map[string]string{"VisibilityTimeout": "60"}
			if fifo != "" {
				attributes["FifoQueue"] = fifo
			}
			made, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
			if err != nil {
				t.Fatal(err)
			}
			return *made.QueueUrl
		}
		w.url = create("settle.fifo", "true")
		dead, delay := create("dead.fifo", "true"), create("delay", "")
		createTable, newStore := dynamostore.CreateTable, dynamostore.New
		if indexed {
			createTable, newStore = dynamostore.CreateIndexedTable, dynamostore.NewIndexed
		}
		if err := createTable(t.Context(), tables, "settle"); err != nil {
			t.Fatal(err)
		}
		loop, err := durable.New(w.machines, durable.Ports{
			Store: newStore(tables, "settle"), Queue: sqsqueue.New(queues, w.url, dead), Timers: schedule.NewDelayQueue(queues, delay, time.Now),
		}, durable.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var polls sync.WaitGroup
		polls.Go(func() {
			source := awslocal.EventSource{Queue: "settle.fifo", Timeout: 10 * time.Second, ReportBatchItemFailures: true}
			if err := w.cloud.Poll(ctx, source, func() awslocal.Invoker { return lambda.NewHandler(sqsqueue.Handler(loop)) }); err != nil {
				t.Error(err)
			}
		})
		test(t, w)
		stop()
		polls.Wait()
	})
}

// clientName identifies the client's calls, which can fail. The consumer's calls have another name.
const clientName = "client"

func (w *world) config(name string) aws.Config {
	return aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: w.cloud.HTTPClient(), AppID: name,
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	}
}

// fail sets the faults of the client's calls. A nil function ends them.
func (w *world) fail(fault func(operation string) awslocal.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

// client returns a client. If role is not nil, the calls pass through it.
func (w *world) client(role *role) *client.Client {
	config := w.config(clientName)
	config.RetryMaxAttempts = 1
	if role != nil {
		role.to = config.HTTPClient
		config.HTTPClient = role
	}
	return client.New(w.machines, sqsqueue.New(sqs.NewFromConfig(config), w.url, ""), dynamostore.New(dynamodb.NewFromConfig(config), "settle"))
}

// role is an HTTP client that denies calls without permission, and records the permissions that calls need.
type role struct {
	to      aws.HTTPClient
	allowed []string

	mu   sync.Mutex
	used []string
}

// updatedKey matches the key of an item in a request.
var updatedKey = regexp.MustCompile(`"Key":\{"instance":\{"S":"(\w+)/`)

// permission returns the permission that a request needs, as the package's documentation spells it.
func permission(r *http.Request) (string, error) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	service := "sqs:"
	if strings.HasPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB") {
		service = "dynamodb:"
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch key := updatedKey.FindSubmatch(body); {
	case operation == "UpdateItem" && key != nil:
		operation += " on the keys " + string(key[1]) + "/*"
	case operation == "Query" && bytes.Contains(body, []byte(`"IndexName":"by_state"`)):
		operation += " on the index"
	}
	return service + operation, err
}

func (r *role) Do(request *http.Request) (*http.Response, error) {
	needed, err := permission(request)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.used, needed) {
		r.used = append(r.used, needed)
	}
	if !slices.Contains(r.allowed, needed) {
		return &http.Response{
			StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Request: request,
			Body: io.NopCloser(strings.NewReader(`{"__type":"com.amazon.coral.service#AccessDeniedException","message":"denied"}`)),
		}, nil
	}
	return r.to.Do(request)
}
