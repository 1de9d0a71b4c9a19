package awslocal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/sqs"
)

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
	// Client is the name of the function's AWS clients (see Cloud.Client), by which
	// DeliveryFault.Frozen finds their calls. Empty if it has none.
	Client string
	// Resume makes the messages of the queue available when Poll begins that were in flight
	// when the Cloud was opened: the functions that worked on them ended with the process
	// before. Otherwise they come again when their visibility time-out ends. Set it if
	// nothing but Poll receives from the queue.
	Resume bool
	// OnFailure is told why an invocation has failed its whole batch: the function's error,
	// its panic or time-out, or an answer that cannot be read; and why a batch could not be
	// deleted. It may be called by several
	// goroutines at once. Defaults to telling no one.
	OnFailure func(err error)
}

func (s EventSource) withDefaults() EventSource {
	if s.BatchSize == 0 {
		s.BatchSize = sqs.BatchEntriesMax
	}
	if s.Timeout == 0 {
		s.Timeout = functionTimeoutDefault
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
// Like Lambda, Poll calls start for an execution environment when a batch comes and none is
// idle; each handles one invocation at a time. An Invoker of aws-lambda-go needs that: the
// answer it returns is overwritten by its next invocation.
//
// Lambda lowers its concurrency while invocations fail, for a time it does not document;
// Poll does not.
func (c *Cloud) Poll(ctx context.Context, source EventSource, start func() Invoker) error {
	source = source.withDefaults()
	if err := source.validate(); err != nil {
		return fmt.Errorf("polling: %w", err)
	}
	if err := c.checkTimeout(source); err != nil {
		return fmt.Errorf("polling %s: %w", source.Queue, err)
	}
	if source.Resume {
		failed := c.locked(func(now time.Time) { c.sqs.Release(now, source.Queue, c.opened) })
		if failed != nil {
			return fmt.Errorf("polling %s: %w", source.Queue, failed)
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, source.Concurrency)
	function := &environments{start: start, timeout: source.Timeout}
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		batch, err := c.receive(ctx, &sqs.ReceiveMessageInput{
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
		fault := c.faults.ofDelivery(source, batch.Messages) // Here, so that they come in the order of the batches.
		running.Go(func() {
			// Lambda lets an invocation finish that has begun.
			c.process(context.WithoutCancel(ctx), source, function, batch.Messages, fault)
			<-places
		})
	}
}

// process invokes the function with a batch and deletes the messages it has dealt with.
func (c *Cloud) process(ctx context.Context, source EventSource, function *environments, batch []sqs.ReceivedMessage, fault DeliveryFault) {
	if fault.Lost {
		return
	}
	thaw := c.faults.freeze(source.Client, c.now(), fault.Frozen)
	failed, err := invokeBatch(ctx, source, function, batch)
	c.faults.wait(thaw, c.now)
	if fault.AcknowledgementLost {
		return
	}
	if err != nil {
		source.OnFailure(fmt.Errorf("a batch of %d messages of %s: %w", len(batch), source.Queue, err))
		return
	}
	if err := c.deleteAll(source.Queue, batch, failed); err != nil {
		source.OnFailure(fmt.Errorf("deleting messages of %s: %w", source.Queue, err))
	}
}

// invokeBatch invokes the function with a batch and returns the IDs of the messages that
// have failed. An error means that all have.
func invokeBatch(ctx context.Context, source EventSource, function *environments, batch []sqs.ReceivedMessage) (map[string]bool, error) {
	answer, err := function.invoke(ctx, eventJSON(source.Queue, batch))
	if err != nil || !source.ReportBatchItemFailures {
		return nil, err
	}
	failed, err := batchItemFailures(answer, batch)
	if err != nil {
		return nil, fmt.Errorf("the function's answer: %w", err)
	}
	return failed, nil
}

// checkTimeout refuses what Lambda refuses to map: a queue that is not there, or whose
// messages could come again while the function still works on them.
func (c *Cloud) checkTimeout(source EventSource) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	visibility, err := c.sqs.VisibilityTimeout(source.Queue)
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
func (c *Cloud) deleteAll(queue string, batch []sqs.ReceivedMessage, failed map[string]bool) error {
	notDeleted := c.locked(func(now time.Time) {
		for _, message := range batch {
			if !failed[message.MessageId] {
				_, _ = c.sqs.DeleteMessage(now, &sqs.DeleteMessageInput{
					QueueUrl: queue, ReceiptHandle: message.ReceiptHandle,
				})
			}
		}
	})
	if notDeleted != nil {
		return notDeleted
	}
	return nil
}
