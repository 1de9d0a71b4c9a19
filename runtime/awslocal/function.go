package awslocal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"sync"
	"time"
)

// Invoker is a Lambda function: payload is the event as JSON, and so is the answer. The
// handlers of github.com/aws/aws-lambda-go/lambda, made with lambda.NewHandler, are Invokers.
//
// Lambda kills a function at its time-out. Invoke cannot be killed: it must return when ctx
// ends, and until it does it keeps its place among the concurrent invocations. What it
// returns then counts as a time-out all the same.
type Invoker interface {
	Invoke(ctx context.Context, payload []byte) ([]byte, error)
}

// FunctionError is an error of a function's own, as Lambda reports it.
type FunctionError struct {
	// Type is the errorType, which a state machine's Retry and Catch can name.
	Type string
	// Message is the errorMessage.
	Message string
}

// Error implements the error interface.
func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// failedError is the error of an invocation whose function answered with one.
type failedError struct{ err error }

func (e *failedError) Error() string { return "the function failed: " + e.err.Error() }
func (e *failedError) Unwrap() error { return e.err }

// functionError returns what Lambda would report for an error of an invocation: one that is
// no FunctionError has the name of its Go type, as with aws-lambda-go.
func functionError(err error) *FunctionError {
	var own *FunctionError
	var failed *failedError
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, errTimedOut):
		return &FunctionError{Type: "Sandbox.Timedout", Message: err.Error()}
	case errors.As(err, &failed):
		err = failed.err
	}
	typ := reflect.TypeOf(err)
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return &FunctionError{Type: cmp.Or(typ.Name(), typ.String()), Message: err.Error()}
}

// Function is a Lambda function that state machines can invoke.
type Function struct {
	// Timeout is the function's time-out, at most 15 minutes. Defaults to 3 s, as Lambda's does.
	Timeout time.Duration
	// Start starts an execution environment. Required.
	Start func() Invoker
}

// Register makes a function known under its name. A later one of the same name takes the
// place of the earlier, as a deployment does. One that the executions of a data folder wait
// for must be there when it is opened: see Config.Functions.
func (c *Cloud) Register(name string, function Function) error {
	if function.Timeout == 0 {
		function.Timeout = functionTimeoutDefault
	}
	switch {
	case !functionName.MatchString(name):
		return fmt.Errorf("registering a function: expected a name of 1 to 64 letters, digits, hyphens and underscores, got %q", name)
	case function.Start == nil:
		return fmt.Errorf("registering the function %s: expected a Start, got none", name)
	case function.Timeout < 0 || function.Timeout > functionTimeoutMax:
		return fmt.Errorf("registering the function %s: expected a Timeout of at most %v, got %v", name, functionTimeoutMax, function.Timeout)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.functions[name] = &environments{start: function.Start, timeout: function.Timeout}
	return nil
}

var functionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

const (
	// functionTimeoutMax is the longest time-out of a Lambda function.
	functionTimeoutMax = 15 * time.Minute
	// functionTimeoutDefault is the time-out of a function that sets none.
	functionTimeoutDefault = 3 * time.Second
)

// errTimedOut is why an invocation failed that did not end in time.
var errTimedOut = errors.New("the function timed out")

// environments are the execution environments of a function. Like Lambda, it starts one when
// an invocation comes and none is idle; each handles one invocation at a time.
type environments struct {
	start   func() Invoker
	timeout time.Duration

	mu   sync.Mutex
	idle []Invoker
}

// invoke runs one invocation. The error wraps errTimedOut if it took too long.
func (e *environments) invoke(ctx context.Context, payload []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	environment := e.take()
	defer e.release(environment)
	answer, err := invokeSafely(ctx, environment, payload)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w after %v", errTimedOut, e.timeout)
	case err != nil:
		return nil, &failedError{err}
	}
	return bytes.Clone(answer), nil // The environment's next invocation may overwrite it.
}

// take returns the environment that was last used, as it is the warmest, or starts one.
func (e *environments) take() Invoker {
	e.mu.Lock()
	defer e.mu.Unlock()
	if last := len(e.idle) - 1; last >= 0 {
		environment := e.idle[last]
		e.idle = e.idle[:last]
		return environment
	}
	return e.start()
}

func (e *environments) release(environment Invoker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = append(e.idle, environment)
}

// invokeSafely turns a panic of the function into an error, as Lambda does.
func invokeSafely(ctx context.Context, invoke Invoker, payload []byte) (answer []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return invoke.Invoke(ctx, payload)
}
