package awslocal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo"
	"github.com/settle-run/settle/infra/awslocal/internal/scheduler"
	"github.com/settle-run/settle/infra/awslocal/internal/sqs"
	"github.com/settle-run/settle/infra/awslocal/internal/sqsquery"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// RequestBytesMax is the maximum size of a request body: DynamoDB's limit. The largest SQS batch fits even if every
// byte is escaped.
const RequestBytesMax = 16 << 20

// The names of the services in X-Amz-Target, and the namespaces of their errors.
const (
	sqsTarget       = "AmazonSQS"
	sqsNamespace    = "com.amazonaws.sqs"
	dynamoTarget    = "DynamoDB_20120810"
	dynamoNamespace = "com.amazonaws.dynamodb.v20120810"
	statesTarget    = "AWSStepFunctions"
	statesNamespace = "com.amazonaws.swf.service.v2.model"
	eventsTarget    = "AWSEvents"
	eventsNamespace = "com.amazonaws.events"
)

// ServeHTTP serves one request in AWS JSON 1.0, the query protocol of SQS and STS, or the REST-JSON of Scheduler. It
// also serves ClockPath.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == ClockPath {
		c.serveClock(w, r)
		return
	}
	if c.faults != nil {
		c.serveFaulty(w, r)
		return
	}
	c.serve(w, r)
}

// serve serves one request without faults.
func (c *Cloud) serve(w http.ResponseWriter, r *http.Request) {
	// AWS request IDs are opaque. A counter makes runs reproducible.
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", c.requests.Add(1))
	w.Header().Set("x-amzn-RequestId", id)

	service, operation, target := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if !target && scheduler.Serves(r.URL.Path) {
		c.serveScheduler(w, r)
		return
	}
	query := !target && isForm(r)
	if r.Method != http.MethodPost || !target && !query {
		writeJSONError(w, sqsNamespace, wire.Errorf("UnknownOperationException",
			"expected a POST with the header X-Amz-Target (AWS JSON 1.0), or a form with an Action (the SQS "+
				"query protocol); got %s %s with the Content-Type %q", r.Method, r.URL.Path, r.Header.Get("Content-Type")))
		return
	}
	body, err := readBody(r)
	switch {
	case err != nil && query:
		writeXML(w, err, sqsquery.Error(err, id))
	case err != nil:
		writeJSONError(w, sqsNamespace, err)
	case query:
		c.serveQuery(w, r, id, body)
	case service == sqsTarget:
		answer, err := c.callSQS(r.Context(), endpoint(r), operation, body)
		writeJSON(w, sqsNamespace, answer, err)
	case service == dynamoTarget:
		answer, err := c.callDynamo(r.Context(), operation, body)
		writeDynamo(w, answer, err)
	case service == statesTarget:
		answer, err := c.call(r.Context(), func(now time.Time) ([]byte, *wire.Error) {
			lag, _ := r.Context().Value(lagKey{}).(time.Duration)
			return c.states.CallLagging(now, lag, operation, body)
		})
		writeJSON(w, statesNamespace, answer, err)
	case service == eventsTarget:
		answer, err := c.call(r.Context(), func(now time.Time) ([]byte, *wire.Error) { return c.events.Call(now, operation, body) })
		writeJSON(w, eventsNamespace, answer, err)
	default:
		writeJSONError(w, sqsNamespace, wire.Errorf("UnknownOperationException",
			"awslocal serves %s, %s, %s, %s and EventBridge Scheduler; it has no service %s (asked for %s)",
			sqsTarget, dynamoTarget, statesTarget, eventsTarget, service, operation))
	}
}

func isForm(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
}

// serveQuery serves a request in the query protocol. It translates the request to JSON, and the answer from JSON.
func (c *Cloud) serveQuery(w http.ResponseWriter, r *http.Request, id string, form []byte) {
	if serveIdentity(w, r, id, form) {
		return
	}
	operation, input, err := sqsquery.Request(r.URL.Path, form)
	if err != nil {
		writeXML(w, err, sqsquery.Error(err, id))
		return
	}
	answer, err := c.callSQS(r.Context(), endpoint(r), operation, input)
	if err != nil {
		writeXML(w, err, sqsquery.Error(err, id))
		return
	}
	writeXML(w, nil, sqsquery.Response(operation, answer, id))
}

// call performs one call on the models, unless its client has gone.
func (c *Cloud) call(ctx context.Context, perform func(now time.Time) ([]byte, *wire.Error)) (answer []byte, err *wire.Error) {
	failed := c.locked(func(now time.Time) {
		if ctx.Err() != nil {
			err = gone(ctx)
			return
		}
		answer, err = perform(now)
	})
	if failed != nil {
		return nil, failed
	}
	return answer, err
}

// callDynamo performs a DynamoDB operation. It parses the request before it takes the lock, so that other calls can
// run in the meantime.
func (c *Cloud) callDynamo(ctx context.Context, operation string, body []byte) ([]byte, *wire.Error) {
	request, err := dynamo.Decode(operation, body)
	if err != nil {
		return nil, err
	}
	return c.call(ctx, func(now time.Time) ([]byte, *wire.Error) { return c.dynamo.Perform(now, request) })
}

// callSQS performs an SQS operation. Its input and output are JSON.
func (c *Cloud) callSQS(ctx context.Context, endpoint, operation string, body []byte) ([]byte, *wire.Error) {
	if operation != "ReceiveMessage" { // the only operation that may wait
		return c.call(ctx, func(now time.Time) ([]byte, *wire.Error) {
			return c.sqs.Call(now, endpoint, operation, body)
		})
	}
	var in sqs.ReceiveMessageInput
	if err := wire.Decode(body, &in, "InvalidParameterValue"); err != nil {
		return nil, err
	}
	out, err := c.receive(ctx, &in, 0)
	if err != nil {
		return nil, err
	}
	return wire.Encode(out), nil
}

// endpoint returns the address under which the client reached this server. Queue URLs start with it, so that the
// client can reach them.
func endpoint(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

func readBody(r *http.Request) ([]byte, *wire.Error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, RequestBytesMax))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		e := wire.Errorf("RequestEntityTooLarge", "expected a request of at most %d bytes", RequestBytesMax)
		e.Status = http.StatusRequestEntityTooLarge
		return nil, e
	}
	if err != nil {
		return nil, wire.Errorf("SerializationException", "reading the request: %v", err)
	}
	return body, nil
}

// gone is the answer to a request whose client has hung up or whose server is closing.
func gone(ctx context.Context) *wire.Error {
	err := wire.Errorf("ServiceUnavailable", "the request ended before it was answered: %v", context.Cause(ctx))
	err.Status = http.StatusServiceUnavailable
	return err
}
