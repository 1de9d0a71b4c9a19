package statechart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"
)

// Service is work that a state invokes and that the host performs while the state is active:
// calling an API, starting a job. The package describes services; it never calls one.
type Service[C any] struct {
	// Name identifies the service in errors, traces and graphs.
	Name string
	// Params are what the service was made with, as an action's are.
	Params json.RawMessage
	// Run performs one attempt. It must return soon after ctx is done. What it returns is
	// the payload of done.invoke.ID. It may run more than once for one Call.Key.
	Run func(ctx context.Context, c C, call Call) (any, error)
	// result is the type of the payload of done.invoke.ID.
	result reflect.Type
}

// Call tells a service what it is called for.
type Call struct {
	// Instance is the name of the instance: "job/run-1-job-2".
	Instance string
	// Key identifies the invocation within the world of the host. It is the same in every
	// attempt, redeliveries and crashes included: hand it to third parties as idempotency
	// key.
	Key string
	// Attempt counts the attempts known to have begun, from 1.
	Attempt int
}

// ServiceFunc returns a service that runs fn with a copy of the context as it is when the attempt
// begins: what a parallel region has changed since the service was invoked, a later attempt sees. R
// is the payload type of its done event.
func ServiceFunc[C, R any](name string, fn func(ctx context.Context, c C, call Call) (R, error)) Service[C] {
	if fn == nil {
		return Service[C]{Name: name}
	}
	return Service[C]{Name: name, result: reflect.TypeFor[R](), Run: func(ctx context.Context, c C, call Call) (any, error) {
		return fn(ctx, c, call)
	}}
}

// ServiceError is the payload of error.invoke.ID.
type ServiceError struct {
	Service  string `json:"service"`
	Message  string `json:"message"`
	Attempts int    `json:"attempts"`
	// Permanent says that the error was marked by Permanent: a chart that tries again by itself
	// need not.
	Permanent bool `json:"permanent,omitempty"`
}

// RetryPolicy says how a failed attempt of a service is repeated, in the terms of the Amazon
// States Language. The zero value means one attempt.
type RetryPolicy struct {
	// Attempts is how many attempts are made in all. Zero means one.
	Attempts int
	// Interval is the wait before the second attempt. Zero means one second.
	Interval time.Duration
	// Rate multiplies the wait from attempt to attempt. Zero means 2.
	Rate float64
	// IntervalMax caps the wait. Zero means one hour.
	IntervalMax time.Duration
}

// Next returns the wait before the attempt that follows the given one, counted from 1, and
// whether there is such an attempt.
func (p RetryPolicy) Next(attempt int) (time.Duration, bool) {
	if attempt >= p.Attempts {
		return 0, false
	}
	interval, rate, limit := p.Interval, p.Rate, p.IntervalMax
	if interval == 0 {
		interval = time.Second
	}
	if rate == 0 {
		rate = 2
	}
	if limit == 0 {
		limit = time.Hour
	}
	wait := float64(interval) * math.Pow(rate, float64(attempt-1))
	return time.Duration(min(wait, float64(limit))), true
}

// Permanent marks an error of a service as one that no further attempt can mend: OnError
// follows at once. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// IsPermanent reports whether an error was marked by Permanent.
func IsPermanent(err error) bool {
	var permanent permanentError
	return errors.As(err, &permanent)
}

type permanentError struct{ err error }

func (e permanentError) Error() string { return e.err.Error() }
func (e permanentError) Unwrap() error { return e.err }

// Invocation is a service that a snapshot waits for.
type Invocation struct {
	// ID is the one in the events done.invoke.ID and error.invoke.ID.
	ID string
	// Key is unique within the instance, for ever: a result that carries an older key is
	// ignored.
	Key string
	// State is the path of the invoking state.
	State string
	// Service is the service's name.
	Service string
	// Attempt counts the attempts known to have begun.
	Attempt int

	state, index int
}

// Done returns the event by which the host reports that an invocation returned.
func (i Invocation) Done(result any) Event {
	return Event{Type: doneInvokePrefix + i.ID, Invocation: i.Key, Payload: result}
}

// Failed returns the event by which the host reports that an invocation failed for good.
func (i Invocation) Failed(err error) Event {
	return Event{Type: errorInvokePrefix + i.ID, Invocation: i.Key,
		Payload: ServiceError{Service: i.Service, Message: err.Error(), Attempts: max(i.Attempt, 1), Permanent: IsPermanent(err)}}
}

// Service returns the service and the policies of an invocation of a snapshot of this chart.
func (c *Chart[C]) Service(i Invocation) (Service[C], time.Duration, RetryPolicy, error) {
	if i.state >= len(c.nodes) || i.index >= len(c.nodes[i.state].invokes) || c.nodes[i.state].invokes[i.index].id != i.ID {
		return Service[C]{}, 0, RetryPolicy{}, fmt.Errorf("chart %s has no invocation %q", c.id, i.ID)
	}
	invoke := &c.states[i.state].Invoke[i.index]
	return invoke.Service, invoke.Timeout, invoke.Retry, nil
}
