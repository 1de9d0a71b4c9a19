package awslocal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"sync"
	"time"
)

// Invoker is a Lambda function. Payload and answer are JSON. The result of lambda.NewHandler (package
// github.com/aws/aws-lambda-go/lambda) is an Invoker.
//
// Lambda kills a function at its timeout. awslocal cannot kill Invoke, so Invoke must return when ctx ends. Until
// Invoke returns, it counts towards the concurrency limit. awslocal discards an answer after the timeout.
type Invoker interface {
	Invoke(ctx context.Context, payload []byte) ([]byte, error)
}

// FunctionError is an error returned by the function itself, in the form that Lambda reports.
type FunctionError struct {
	// Type is the errorType, which a state machine's Retry and Catch can name.
	Type string
	// Message is the errorMessage.
	Message string
}

// Error implements the error interface.
func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// failedError wraps the error that a function returned.
type failedError struct{ err error }

func (e *failedError) Error() string { return "the function failed: " + e.err.Error() }
func (e *failedError) Unwrap() error { return e.err }

// functionError converts an error of an invocation to Lambda's form, as aws-lambda-go does. A FunctionError and a
// messages.InvokeResponse_Error, which is recognised by its JSON, keep their type. A timeout has the type
// Sandbox.Timedout. The type of any other error is the name of its Go type.
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
	var response struct{ ErrorType, ErrorMessage string }
	if text, failed := json.Marshal(err); failed == nil && json.Unmarshal(text, &response) == nil && response.ErrorType != "" {
		return &FunctionError{Type: response.ErrorType, Message: response.ErrorMessage}
	}
	typ := reflect.TypeOf(err)
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return &FunctionError{Type: cmp.Or(typ.Name(), typ.String()), Message: err.Error()}
}

// Function is a Lambda function that state machines can invoke.
type Function struct {
	// Timeout is the function's timeout, at most 15 minutes. Defaults to 3 s, as in Lambda.
	Timeout time.Duration
	// Start starts an execution environment. Required.
	Start func() Invoker
}

// Register registers a function under a name. It replaces an earlier function of that name, like a deployment. If
// executions in a data folder wait for a function, register it when you open the folder: see Config.Functions.
func (c *Cloud) Register(name string, function Function) error {
	if function.Timeout == 0 {
		function.Timeout = functionTimeoutDefault
	}
	switch {
	case !functionName.MatchString(name):
		return fmt.Errorf("registering a function: expected a name of 1 to 64 ASCII letters, digits, hyphens and underscores, got %q", name)
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
	// functionTimeoutMax is Lambda's maximum timeout.
	functionTimeoutMax = 15 * time.Minute
	// functionTimeoutDefault is Lambda's default timeout.
	functionTimeoutDefault = 3 * time.Second
)

// errTimedOut is returned for an invocation that exceeded its timeout.
var errTimedOut = errors.New("the function timed out")

// environments holds the execution environments of a function. Like Lambda, it starts a new environment for an
// invocation if no environment is idle. Each environment handles one invocation at a time.
type environments struct {
	start   func() Invoker
	timeout time.Duration

	mu   sync.Mutex
	idle []Invoker
}

// invoke runs one invocation. If the invocation exceeded the timeout, the error wraps errTimedOut.
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
	return bytes.Clone(answer), nil // The environment's next invocation may overwrite the answer.
}

// take returns the most recently used idle environment, or starts one.
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
