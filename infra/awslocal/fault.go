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

	"github.com/settle-run/settle/infra/awslocal/internal/scheduler"
	"github.com/settle-run/settle/infra/awslocal/internal/sqs"
	"github.com/settle-run/settle/infra/awslocal/internal/sqsquery"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// Call is one client request, as passed to Config.Fault. Requests between services, such as a schedule sending its
// message, are not Calls.
type Call struct {
	// Number counts the calls of a Cloud, from 1. A call gets its number right before Fault receives it.
	Number uint64
	// Client is the name passed to Cloud.Client. For unnamed clients and clients that use a socket, it is the
	// application ID in the SDK's User-Agent. The SDK reads the ID from aws.Config.AppID or the environment variable
	// AWS_SDK_UA_APP_ID.
	Client string
	// Service is "sqs", "dynamodb", "scheduler", "states" or "events".
	Service string
	// Operation is the name of the API operation, such as "SendMessage".
	Operation string
}

// Fault describes what goes wrong with a call. The zero value means that nothing goes wrong. Faults can be combined:
// a slow call can also take effect twice and lose its answer.
type Fault struct {
	// Frozen suspends the client for this long before the call takes effect, like a suspended process. In the meantime
	// this call and all new calls hang, and calls in flight return no answers. Afterwards all calls continue normally:
	// they take effect and return their answers, even if their contexts have ended. A client that uses a socket may not
	// wait that long.
	Frozen time.Duration
	// Before is how long the request takes to reach the service. After is how long the answer takes to return. If the
	// client gives up during Before, the call has no effect. If it gives up during After, the call has taken effect.
	Before, After time.Duration
	// Throttled makes the service reject the call with its throttling error. The call has no effect.
	Throttled bool
	// RequestLost breaks the connection before the call takes effect.
	RequestLost bool
	// AnswerLost breaks the connection after the call takes effect.
	AnswerLost bool
	// Lag makes DescribeExecution and GetExecutionHistory return the state as it was this long ago. The Step Functions
	// API Reference calls DescribeExecution eventually consistent and does not say how recent a history is. awslocal
	// never hides the execution itself or the first event of its history.
	Lag time.Duration
	// Duplicated makes the call take effect twice, as when the network repeats a request after its answer was lost.
	// The client receives the second answer.
	Duplicated bool
}

// Delivery is a batch of messages that Poll has received for its function, as passed to Config.DeliveryFault.
type Delivery struct {
	// Number counts the deliveries of a Cloud, from 1.
	Number uint64
	// Queue is the name of the queue.
	Queue string
	// Bodies holds the bodies of the messages.
	Bodies []string
}

// DeliveryFault describes what goes wrong with a delivery. The zero value means that nothing goes wrong.
type DeliveryFault struct {
	// Lost drops the batch before it reaches the function. The messages stay in flight until their visibility
	// timeout ends.
	Lost bool
	// AcknowledgementLost runs the function but deletes none of its messages.
	AcknowledgementLost bool
	// Frozen suspends the function once it has received the batch. Calls of EventSource.Client hang as with
	// Fault.Frozen. No message is deleted before the suspension ends.
	Frozen time.Duration
}

// faults injects the configured faults. A nil *faults injects none.
type faults struct {
	call              func(Call) Fault
	delivery          func(Delivery) DeliveryFault
	calls, deliveries atomic.Uint64

	mu     sync.Mutex
	frozen map[string]time.Time // end of the suspension, by client
}

func newFaults(config Config) *faults {
	if config.Fault == nil && config.DeliveryFault == nil {
		return nil
	}
	f := &faults{call: config.Fault, delivery: config.DeliveryFault, frozen: make(map[string]time.Time)}
	if f.call == nil {
		// The calls of a frozen function hang even if Config.Fault is nil.
		f.call = func(Call) Fault { return Fault{} }
	}
	return f
}

// ofDelivery calls Config.DeliveryFault for a batch.
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

// freeze suspends a client for d and returns the end of the suspension, or zero if d is zero. The later calls of an
// unnamed client do not hang, because unnamed clients cannot be distinguished.
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

// wait waits until the given time. If the time is zero, it returns immediately.
func (f *faults) wait(until time.Time, now func() time.Time) {
	if !until.IsZero() {
		time.Sleep(until.Sub(now()))
	}
}

// thaw waits while a client is frozen, and reports whether the client was frozen.
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

// serveFaulty serves a request and injects its faults. To break the connection it panics with http.ErrAbortHandler.
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

// delay waits for d. If the client gives up first, delay breaks the connection.
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

// lagKey is the context key of Fault.Lag.
type lagKey struct{}

// clientKey is the context key of the client's name.
type clientKey struct{}

// withClient adds the client's name to a context.
func withClient(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, clientKey{}, name)
}

// describe identifies the call and the client of a request.
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
	case target == eventsTarget:
		call.Service, call.Operation = "events", operation
	case target == "" && scheduler.Serves(r.URL.Path):
		call.Service = "scheduler"
		call.Operation, _ = scheduler.Operation(r.Method, r.URL.Path)
	case target == "" && isForm(r):
		form, _ := url.ParseQuery(string(body)) // a body that is not a form has no Action
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

// throttle rejects a request with its service's throttling error. An SQS error uses the request's protocol. The
// DynamoDB error is the one for an on-demand table.
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
	case service == "events":
		writeJSONError(w, eventsNamespace, wire.Errorf("ThrottlingException", "Rate exceeded"))
	default:
		writeJSONError(w, statesNamespace, wire.Errorf("ThrottlingException", "Rate exceeded"))
	}
}

func tooManyMessages() *wire.Error {
	return wire.Errorf("RequestThrottled", "The request was denied due to request throttling.")
}
