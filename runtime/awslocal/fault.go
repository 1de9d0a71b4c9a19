package awslocal

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/scheduler"
	"github.com/settle-run/settle/runtime/awslocal/internal/sqs"
	"github.com/settle-run/settle/runtime/awslocal/internal/sqsquery"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// Call is one request of a client, as Config.Fault sees it. What services do to one another,
// such as a schedule that sends its message, is no Call.
type Call struct {
	// Number counts the calls of a Cloud, from 1, in the order in which Fault is asked.
	Number uint64
	// Client is the name given to Cloud.Client. That of a client without one, and of every
	// client behind a socket, is its application ID: what aws.Config.AppID or the environment
	// variable AWS_SDK_UA_APP_ID says, which the SDK sends in its User-Agent.
	Client string
	// Service is "sqs", "dynamodb", "scheduler" or "states".
	Service string
	// Operation is the name of the API operation, such as "SendMessage".
	Operation string
}

// Fault is what goes wrong with a call. The zero value is nothing. Several can go wrong at
// once: a call that is slow, takes effect twice, and whose answer is lost.
type Fault struct {
	// Frozen stops the client, as a suspended process is stopped, before the call takes
	// effect: this call and all that it makes meanwhile hang for so long, and of those that
	// are under way it sees no answer. Then each goes on as if nothing had been: it takes
	// effect, and has its answer, even if its context has ended. (The client behind a socket
	// may not wait for that.)
	Frozen time.Duration
	// Before is how long the call takes to reach the service, and After how long the answer
	// takes to come back. Whoever gives up meanwhile has made a call that had no effect, or
	// had it.
	Before, After time.Duration
	// Throttled has the service refuse the call with its own error for that. It takes no
	// effect.
	Throttled bool
	// RequestLost breaks the connection before the call has taken effect.
	RequestLost bool
	// AnswerLost breaks the connection after the call has taken effect.
	AnswerLost bool
	// Lag has DescribeExecution and GetExecutionHistory answer as so long ago. The API Reference of Step Functions
	// calls DescribeExecution eventually consistent and promises nothing of how recent a history is. awslocal never
	// hides the execution itself, nor the first event of its history.
	Lag time.Duration
	// Duplicated has the call take effect twice, as when the network repeats it because the
	// first answer was lost. The client sees the second answer.
	Duplicated bool
}

// Delivery is a batch of messages that Poll has received for its function, as
// Config.DeliveryFault sees it.
type Delivery struct {
	// Number counts the deliveries of a Cloud, from 1.
	Number uint64
	// Queue is the name of the queue.
	Queue string
	// Bodies are those of the messages.
	Bodies []string
}

// DeliveryFault is what goes wrong with a delivery. The zero value is nothing.
type DeliveryFault struct {
	// Lost keeps the batch from the function: it stays in flight until its visibility
	// time-out ends.
	Lost bool
	// AcknowledgementLost lets the function run and deletes nothing.
	AcknowledgementLost bool
	// Frozen stops the function when it has been given the batch: the calls of
	// EventSource.Client hang as under Fault.Frozen, and nothing is deleted before its end.
	Frozen time.Duration
}

// faults is what a Cloud needs to know to have things go wrong. A nil one never has.
type faults struct {
	call              func(Call) Fault
	delivery          func(Delivery) DeliveryFault
	calls, deliveries atomic.Uint64

	mu     sync.Mutex
	frozen map[string]time.Time // until when, by client
}

func newFaults(config Config) *faults {
	if config.Fault == nil && config.DeliveryFault == nil {
		return nil
	}
	f := &faults{call: config.Fault, delivery: config.DeliveryFault, frozen: make(map[string]time.Time)}
	if f.call == nil {
		// A frozen function's calls hang even if no call is asked about.
		f.call = func(Call) Fault { return Fault{} }
	}
	return f
}

// ofDelivery asks what goes wrong with a batch.
func (f *faults) ofDelivery(source EventSource, batch []sqs.ReceivedMessage) DeliveryFault {
	if f == nil || f.delivery == nil {
		return DeliveryFault{}
	}
	delivery := Delivery{Number: f.deliveries.Add(1), Queue: source.Queue}
	for _, message := range batch {
		delivery.Bodies = append(delivery.Bodies, message.Body)
	}
	return f.delivery(delivery)
}

// freeze stops a client for so long, unless that is zero, and returns when it goes on. A
// client without a name cannot be told from others, and goes on.
func (f *faults) freeze(client string, now time.Time, d time.Duration) (thaw time.Time) {
	if d == 0 {
		return time.Time{}
	}
	thaw = now.Add(d)
	if client != "" {
		f.mu.Lock()
		defer f.mu.Unlock()
		if thaw.After(f.frozen[client]) {
			f.frozen[client] = thaw
		}
	}
	return thaw
}

// wait waits until an instant; zero has passed.
func (f *faults) wait(until time.Time, now func() time.Time) {
	if !until.IsZero() {
		time.Sleep(until.Sub(now()))
	}
}

// thaw waits until a client is not frozen, and reports whether it was.
func (f *faults) thaw(client string, now func() time.Time) (was bool) {
	for {
		f.mu.Lock()
		until, frozen := f.frozen[client]
		if frozen && !until.After(now()) {
			delete(f.frozen, client)
			frozen = false
		}
		f.mu.Unlock()
		if !frozen {
			return was
		}
		was = true
		f.wait(until, now)
	}
}

// serveFaulty serves a request with whatever goes wrong with it. A broken connection is the
// panic of net/http for it.
func (c *Cloud) serveFaulty(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, RequestBytesMax+1))
	if err != nil {
		panic(http.ErrAbortHandler) // the client has hung up
	}
	call := describe(r, body)
	frozen := c.faults.thaw(call.Client, c.now)
	call.Number = c.faults.calls.Add(1)
	fault := c.faults.call(call)
	if fault.Frozen > 0 {
		frozen = true
		c.faults.wait(c.faults.freeze(call.Client, c.now(), fault.Frozen), c.now)
	}
	if frozen {
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	delay(r.Context(), fault.Before)
	if fault.RequestLost {
		panic(http.ErrAbortHandler)
	}
	perform := func() *recorder {
		answer := &recorder{header: make(http.Header)}
		if fault.Throttled {
			c.throttle(answer, r, call.Service)
			return answer
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		c.serve(answer, r.WithContext(context.WithValue(r.Context(), lagKey{}, fault.Lag)))
		return answer
	}
	answer := perform()
	if fault.Duplicated {
		answer = perform()
	}
	frozen = c.faults.thaw(call.Client, c.now) || frozen
	delay(r.Context(), fault.After)
	if own, ok := w.(*recorder); ok {
		own.thawed = frozen
	}
	if fault.AnswerLost {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.header)
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes())
}

// delay waits. If the client gives up meanwhile, the connection is broken.
func delay(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		panic(http.ErrAbortHandler)
	}
}

// lagKey is the key of a context's Fault.Lag.
type lagKey struct{}

// clientKey is the key of a context's client name.
type clientKey struct{}

// withClient names the client of the requests with a context.
func withClient(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, clientKey{}, name)
}

// describe says what call a request makes, and who makes it.
func describe(r *http.Request, body []byte) Call {
	var call Call
	target, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch {
	case target == sqsTarget:
		call.Service, call.Operation = "sqs", operation
	case target == dynamoTarget:
		call.Service, call.Operation = "dynamodb", operation
	case target == statesTarget:
		call.Service, call.Operation = "states", operation
	case target == "" && scheduler.Serves(r.URL.Path):
		call.Service = "scheduler"
		call.Operation, _ = scheduler.Operation(r.Method, r.URL.Path)
	case target == "" && isForm(r):
		form, _ := url.ParseQuery(string(body)) // what is no form has no Action
		call.Service, call.Operation = "sqs", form.Get("Action")
	default:
		call.Service, call.Operation = target, operation
	}
	if name, ok := r.Context().Value(clientKey{}).(string); ok {
		call.Client = name
		return call
	}
	for _, part := range strings.Fields(r.UserAgent()) {
		if app, ok := strings.CutPrefix(part, "app/"); ok {
			call.Client = app
		}
	}
	return call
}

// throttle refuses a request as its service does when there are too many: SQS in either of
// its protocols, DynamoDB with the error of a table on demand.
func (c *Cloud) throttle(w http.ResponseWriter, r *http.Request, service string) {
	switch {
	case service == "scheduler":
		err := wire.Errorf("ThrottlingException", "Rate exceeded")
		err.Status = http.StatusTooManyRequests
		writeREST(w, nil, err)
	case service == "dynamodb":
		writeDynamo(w, nil, wire.Errorf("ThrottlingException", "Throughput exceeds the current capacity of your table or index. "+
			"DynamoDB is automatically scaling your table or index so please try again shortly."))
	case service == "sqs" && isForm(r):
		err := tooManyMessages()
		writeXML(w, err, sqsquery.Error(err, "throttled"))
	case service == "sqs":
		writeJSONError(w, sqsNamespace, tooManyMessages())
	default:
		writeJSONError(w, statesNamespace, wire.Errorf("ThrottlingException", "Rate exceeded"))
	}
}

func tooManyMessages() *wire.Error {
	return wire.Errorf("RequestThrottled", "The request was denied due to request throttling.")
}
