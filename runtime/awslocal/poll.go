package awslocal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/sqs"
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

// EventSource is an event source mapping: which queue feeds a function, and how.
type EventSource struct {
	// Queue is the name of the queue. It must exist.
	Queue string
	// BatchSize is the most messages that one invocation gets, 1 to 10. Defaults to 10.
	BatchSize int
	// Timeout is the function's time-out, at most 15 minutes and no longer than the queue's
	// visibility time-out. Defaults to 3 s, as Lambda's does.
	Timeout time.Duration
	// Concurrency is how many invocations may run at once. Defaults to 5, as many as Lambda
	// begins with.
	Concurrency int
	// ReportBatchItemFailures lets the function answer which messages have failed. Without
	// it the answer is ignored, and only an error fails the batch.
	ReportBatchItemFailures bool
	// OnFailure is told why an invocation has failed its whole batch: the function's error,
	// its panic or time-out, or an answer that cannot be read. It may be called by several
	// goroutines at once. Defaults to telling no one.
	OnFailure func(err error)
}

// functionTimeoutMax is the longest time-out of a Lambda function.
const functionTimeoutMax = 15 * time.Minute

func (s EventSource) withDefaults() EventSource {
	if s.BatchSize == 0 {
		s.BatchSize = sqs.BatchEntriesMax
	}
	if s.Timeout == 0 {
		s.Timeout = 3 * time.Second
	}
	if s.Concurrency == 0 {
		s.Concurrency = 5
	}
	if s.OnFailure == nil {
		s.OnFailure = func(error) {}
	}
	return s
}

func (s EventSource) validate() error {
	switch {
	case s.Queue == "":
		return errors.New("EventSource.Queue: expected the name of a queue, got none")
	case s.BatchSize < 1 || s.BatchSize > sqs.BatchEntriesMax:
		return fmt.Errorf("EventSource.BatchSize: expected 1 to %d, got %d", sqs.BatchEntriesMax, s.BatchSize)
	case s.Timeout < 0 || s.Timeout > functionTimeoutMax:
		return fmt.Errorf("EventSource.Timeout: expected at most %v, got %v", functionTimeoutMax, s.Timeout)
	case s.Concurrency < 1:
		return fmt.Errorf("EventSource.Concurrency: expected at least 1, got %d", s.Concurrency)
	}
	return nil
}

// Poll feeds messages of a queue to a function as Lambda does (Lambda Developer Guide,
// "Using Lambda with Amazon SQS"), until ctx ends; then it waits for the invocations under
// way and returns nil. It returns an error if the source is not valid or its queue is gone.
//
// Messages that an invocation has dealt with are deleted. Those that failed stay, and are
// received again when their visibility time-out ends: the queue's, or what the function has
// set with ChangeMessageVisibility. Because a FIFO queue locks the group of a message in
// flight, no two invocations have messages of one group.
//
// Like Lambda, Poll starts an execution environment when a batch comes and none is idle; each
// handles one invocation at a time. An Invoker of aws-lambda-go needs that: the answer it
// returns is overwritten by its next invocation.
//
// Lambda lowers its concurrency while invocations fail, for a time it does not document;
// Poll does not.
func (c *Cloud) Poll(ctx context.Context, source EventSource, start func() Invoker) error {
	source = source.withDefaults()
	if err := source.validate(); err != nil {
		return fmt.Errorf("polling: %w", err)
	}
	if err := c.sqs.checkTimeout(source); err != nil {
		return fmt.Errorf("polling %s: %w", source.Queue, err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, source.Concurrency)
	idle := make(chan Invoker, source.Concurrency)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		batch, err := c.sqs.receiveWithin(ctx, &sqs.ReceiveMessageInput{
			QueueUrl:                    source.Queue,
			MaxNumberOfMessages:         &source.BatchSize,
			MessageSystemAttributeNames: []string{"All"},
			MessageAttributeNames:       []string{"All"},
		}, forever)
		if ctx.Err() != nil && len(batch.Messages) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("polling %s: %w", source.Queue, err)
		}
		var environment Invoker
		select {
		case environment = <-idle:
		default:
			environment = start()
		}
		running.Go(func() {
			// Lambda lets an invocation finish that has begun.
			c.sqs.process(context.WithoutCancel(ctx), source, environment, batch.Messages)
			idle <- environment
			<-places
		})
	}
}

// process invokes the function with a batch and deletes the messages it has dealt with.
func (s *sqsService) process(ctx context.Context, source EventSource, invoke Invoker, batch []sqs.ReceivedMessage) {
	failed, err := invokeBatch(ctx, source, invoke, batch)
	if err != nil {
		source.OnFailure(fmt.Errorf("a batch of %d messages of %s: %w", len(batch), source.Queue, err))
		return
	}
	s.deleteAll(source.Queue, batch, failed)
}

// invokeBatch invokes the function with a batch and returns the IDs of the messages that
// have failed. An error means that all have.
func invokeBatch(ctx context.Context, source EventSource, invoke Invoker, batch []sqs.ReceivedMessage) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, source.Timeout)
	defer cancel()
	answer, err := invokeSafely(ctx, invoke, eventJSON(source.Queue, batch))
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the function timed out after %v", source.Timeout)
	case err != nil:
		return nil, fmt.Errorf("the function failed: %w", err)
	case !source.ReportBatchItemFailures:
		return nil, nil
	}
	failed, err := batchItemFailures(answer, batch)
	if err != nil {
		return nil, fmt.Errorf("the function's answer: %w", err)
	}
	return failed, nil
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

// checkTimeout refuses what Lambda refuses to map: a queue that is not there, or whose
// messages could come again while the function still works on them.
func (s *sqsService) checkTimeout(source EventSource) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	visibility, err := s.model.VisibilityTimeout(source.Queue)
	if err != nil {
		return err
	}
	if visibility < source.Timeout {
		return fmt.Errorf("InvalidParameterValueException: Queue visibility timeout: %v is less than "+
			"Function timeout: %v; raise VisibilityTimeout or lower EventSource.Timeout", visibility, source.Timeout)
	}
	return nil
}

// deleteAll deletes the messages of a batch but those that failed. A message whose
// visibility time-out has ended meanwhile is not deleted: it comes again, as with Lambda.
func (s *sqsService) deleteAll(queue string, batch []sqs.ReceivedMessage, failed map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, message := range batch {
		if !failed[message.MessageId] {
			_, _ = s.model.DeleteMessage(now, &sqs.DeleteMessageInput{
				QueueUrl: queue, ReceiptHandle: message.ReceiptHandle,
			})
		}
	}
	s.notify()
}
