package awslocal

import (
	"context"
	"errors"
	"fmt"
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
		return nil, fmt.Errorf("the function failed: %w", err)
	}
	return answer, nil
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
