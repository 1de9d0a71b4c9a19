package statechart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/internal/readjson"
)

// Service is work that the host performs while a state is active, such as an API call or a job start.
type Service[C any] struct {
	Name   string          // for errors, traces and graphs; stored with a running service, see ReplaceService
	Params json.RawMessage // like Action.Params
	// Run performs one attempt. It must return soon after ctx is done. Its result is the payload of done.invoke.ID. The
	// host may call Run more than once for one Call.Key.
	Run func(ctx context.Context, c C, call Call) (any, error)
	// result is the type of the payload of done.invoke.ID.
	result reflect.Type
}

// Call describes one attempt of a service.
type Call struct {
	Instance string // the name of the instance, such as "job/run-1-job-2"
	Key      string // the idempotency key for third parties: unique, and the same in every attempt of the invocation
	Attempt  int    // counts the attempts known to have started, from 1
}

// ServiceFunc returns a service that runs fn. Each attempt gets its own copy of the context. R is the payload type of
// the done event.
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
	// Permanent is set if the service marked the error with Permanent.
	Permanent bool `json:"permanent,omitempty"`
}

// RetryPolicy describes retries, like Retry in the Amazon States Language. Attempts includes the first.
type RetryPolicy struct {
	Attempts    int           // the total number of attempts; zero means one
	Interval    time.Duration // the wait before the second attempt; zero means one second
	Rate        float64       // multiplies the wait after each attempt; zero means 2
	IntervalMax time.Duration // caps the wait; zero means one hour
}

// Next returns the wait after the given attempt, counted from 1, or false if that attempt is the last.
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

// Permanent marks a service error as not retryable. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// IsPermanent reports whether Permanent marked the error.
func IsPermanent(err error) bool {
	var permanent permanentError
	return errors.As(err, &permanent)
}

type permanentError struct{ err error }

func (e permanentError) Error() string { return e.err.Error() }
func (e permanentError) Unwrap() error { return e.err }

// Invocation is a running service of a snapshot.
type Invocation struct {
	ID      string    // as in done.invoke.ID and error.invoke.ID
	Key     string    // unique among all invocations of the instance, past and future; results of earlier keys are ignored
	State   string    // the path of the invoking state
	Service string    // the name of the service
	Attempt int       // the number of attempts known to have started
	RetryAt time.Time // the earliest start of the next attempt after a failed one, or zero

	state, index int
}

// Done returns the event that reports the result of an invocation. `result` is a value that Run returned, or its JSON.
func (i Invocation) Done(result any) Event {
	return Event{Type: doneInvokePrefix + i.ID, Invocation: i.Key, Payload: result}
}

// Failed returns the event that reports the final failure of an invocation.
func (i Invocation) Failed(err error) Event {
	return Event{Type: errorInvokePrefix + i.ID, Invocation: i.Key,
		Payload: ServiceError{Service: i.Service, Message: err.Error(), Attempts: max(i.Attempt, 1), Permanent: IsPermanent(err)}}
}

// decodeResult decodes the result of a service in the current event, if the result is JSON and the service returns
// another type.
func (x *interpreter) decodeResult(i Invocation) error {
	body, isJSON := x.event.Payload.(json.RawMessage)
	if !isJSON || !strings.HasPrefix(x.event.Type, doneInvokePrefix) {
		return nil
	}
	typ := x.chart.nodes[i.state].def.Invoke[i.index].Service.result
	if typ == nil || typ.Kind() == reflect.Interface || typ == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	result := reflect.New(typ)
	if err := json.Unmarshal(body, result.Interface()); err != nil {
		return fmt.Errorf("%w: the result of service %s of chart %s: %w", ErrPayload, i.Service, x.chart.id, readjson.Explain(err, body, typ))
	}
	x.retype(x.event.Type, result.Elem().Interface())
	return nil
}

// Service returns the declaration of an invocation.
func (c *Chart[C]) Service(i Invocation) (Invoke[C], error) {
	if i.state >= len(c.nodes) || i.index >= len(c.nodes[i.state].invokes) || c.nodes[i.state].invokes[i.index].id != i.ID {
		return Invoke[C]{}, fmt.Errorf("chart %s has no invocation %q", c.id, i.ID)
	}
	return c.states[i.state].Invoke[i.index], nil
}
