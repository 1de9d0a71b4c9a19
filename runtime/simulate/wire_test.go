package simulate_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// This file routes a simulation's calls to AWS.

// takenCall is a call that took effect.
type takenCall struct {
	process, target string
	request         []byte
	status          int
	answer          []byte
	// made is when the process made the call. A slow call takes effect later.
	made time.Time
}

// targetOf returns the service and the operation of a request: "dynamodb.PutItem".
func targetOf(r *http.Request) string {
	target := r.Header.Get("X-Amz-Target")
	service, operation, _ := strings.Cut(target, ".")
	switch {
	case target == "":
		return "scheduler." + r.Method
	case strings.HasPrefix(service, "DynamoDB"):
		return "dynamodb." + operation
	case service == "AmazonSQS":
		return "sqs." + operation
	default:
		return "states." + operation
	}
}

// shuffledDigest is a digest of a request that does not depend on the order in which the SDK writes the keys of its
// objects. It omits the idempotency tokens of requests to Scheduler and DynamoDB, because the SDK generates new ones
// each time.
func shuffledDigest(path string, body []byte) uint64 {
	if path != "/" {
		return digestOf(path)
	}
	body = requestToken.ReplaceAll(body, nil)
	var counts [256]uint16
	for _, b := range body {
		counts[b]++
	}
	digest := uint64(len(body))
	for _, n := range counts {
		digest = digest*1099511628211 ^ uint64(n)
	}
	return digest
}

// requestToken matches the idempotency token of a transaction.
var requestToken = regexp.MustCompile(`"ClientRequestToken":"[^"]*"`)

// wire is the HTTP client of one process.
type wire struct {
	director *director
	process  string
}

// Do implements aws.HTTPClient. A call may still take effect after its caller has given up. A frozen process notices
// its timeout only when it continues.
func (w wire) Do(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	call := &pendingCall{process: w.process, target: targetOf(r), about: shuffledDigest(r.URL.Path, body), body: body, made: time.Now(), granted: make(chan fault, 1)}
	d := w.director
	waits := r.Context()
	if d.plan.attemptTimeout > 0 {
		var cancel context.CancelFunc
		waits, cancel = context.WithTimeout(waits, d.plan.attemptTimeout)
		defer cancel()
	}
	d.mu.Lock()
	if d.dead[w.process] {
		d.mu.Unlock()
		return nil, errDead
	}
	d.pending = append(d.pending, call)
	d.wakeUp()
	d.mu.Unlock()

	type outcome struct {
		response *http.Response
		err      error
	}
	outcomes := make(chan outcome, 1)
	go func() {
		response, err := w.perform( //nolint:bodyclose // the client that made the call closes it
			r.WithContext(context.WithoutCancel(r.Context())), call, body, <-call.granted, waits.Done())
		outcomes <- outcome{response, err}
	}()
	select {
	case o := <-outcomes:
		return o.response, o.err
	case <-waits.Done():
	}
	d.mu.Lock()
	_, stuck := d.frozen[w.process]
	stuck = stuck && d.frozen[w.process].After(time.Now())
	d.mu.Unlock()
	if stuck {
		o := <-outcomes
		return o.response, o.err
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return nil, errAttemptTimedOut
}

// perform makes the call, with its fault. A call that hangs returns when its caller gives up.
func (w wire) perform(r *http.Request, call *pendingCall, body []byte, kind fault, givenUp <-chan struct{}) (*http.Response, error) {
	client := w.director.cloud.Client(call.process)
	switch kind {
	case failBefore:
		return nil, errBroken
	case hang:
		<-givenUp
		return nil, errBroken
	case dieBefore:
		return nil, errDead
	case deny:
		const answer = `{"__type": "com.amazonaws#AccessDeniedException", "message": "not authorized"}`
		header := http.Header{"X-Amzn-Errortype": {"AccessDeniedException"}}
		return &http.Response{StatusCode: http.StatusBadRequest, Header: header, Body: io.NopCloser(strings.NewReader(answer))}, nil
	case throttle:
		client = w.director.cloud.Client(throttled)
	case duplicate:
		if _, err := w.once(client, r, call, body); err != nil {
			return nil, err
		}
	}
	response, err := w.once(client, r, call, body)
	switch kind {
	case hangAfter:
		<-givenUp
		return nil, errBroken
	case loseAnswer:
		return nil, errBroken
	case dieAfter:
		return nil, errDead
	}
	return response, err
}

func (w wire) once(client *http.Client, r *http.Request, call *pendingCall, body []byte) (*http.Response, error) {
	again := r.Clone(r.Context())
	again.Body, again.RequestURI = io.NopCloser(bytes.NewReader(body)), ""
	response, err := client.Do(again)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))
	w.director.onCall(takenCall{call.process, call.target, body, response.StatusCode, answer, call.made})
	return response, nil
}
