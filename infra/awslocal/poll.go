package awslocal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/sqs"
)

// payloadBytesMax is the maximum size of a synchronous invocation's payload. It limits a batch of messages too (Lambda
// API Reference, "CreateEventSourceMapping", BatchSize).
const payloadBytesMax = 6 << 20

// EventSource is an event source mapping: a queue, and the settings with which Poll passes its messages to a function.
type EventSource struct {
	// Queue is the name of an existing queue.
	Queue string
	// BatchSize is the maximum number of messages per invocation, 1 to 10. Defaults to 10.
	BatchSize int
	// Timeout is the function's timeout, at most 15 minutes and at most the queue's visibility timeout. Defaults to
	// 3 s, as in Lambda.
	Timeout time.Duration
	// Concurrency is the maximum number of concurrent invocations. Defaults to 5, Lambda's initial concurrency.
	Concurrency int
	// ReportBatchItemFailures lets the function's answer list the failed messages. Without it the answer is ignored,
	// and only an error fails the batch.
	ReportBatchItemFailures bool
	// Client is the name of the function's AWS clients (see Cloud.Client). DeliveryFault.Frozen uses it to find their
	// calls. Optional.
	Client string
	// Resume lets Poll start with the messages that were in flight when the Cloud was opened. The functions that
	// received them ended with the previous process. Without Resume, such messages are redelivered when their
	// visibility timeout ends. Set Resume only if no other client receives from the queue.
	Resume bool
	// OnFailure is called if a whole batch fails. `err` is then the function's error, panic or timeout, or the reason
	// why the function's answer is invalid. OnFailure is also called if Poll cannot delete a batch. Calls may be
	// concurrent. Optional.
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

// Poll feeds the messages of a queue to a function as Lambda does (Lambda Developer Guide, "Using Lambda with Amazon
// SQS"). When ctx ends, it waits for the invocations in progress and returns nil. It returns an error if the source
// is invalid or its queue does not exist.
//
// The payload of a batch has at most 6 MB. Messages that do not fit stay in the queue for the next batch. AWS's
// documents do not say how Lambda counts the bytes.
//
// Poll deletes messages that the function processed successfully. Failed messages are redelivered when their
// visibility timeout ends. The queue sets the timeout, unless the function called ChangeMessageVisibility. A
// FIFO queue locks the group of a message in flight, so two concurrent invocations never have messages of the same
// group.
//
// Like Lambda, Poll creates an execution environment when a batch arrives and no environment is idle. To create one, it
// calls the argument `start`. Each environment handles one invocation at a time. An Invoker of aws-lambda-go requires
// this, because its next invocation overwrites the returned answer.
//
// While invocations fail, Lambda lowers its concurrency for an undocumented time. Poll keeps its concurrency.
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
	c.addPoller(source.Queue, 1)
	defer c.addPoller(source.Queue, -1)
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
			PayloadBytesMax:             payloadBytesMax,
		}, forever)
		if ctx.Err() != nil && len(batch.Messages) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("polling %s: %w", source.Queue, err)
		}
		// This call is outside the goroutine, so that DeliveryFault sees the batches in the order of their receipt.
		fault := c.faults.ofDelivery(source, batch.Messages)
		running.Go(func() {
			defer c.finish()
			// Lambda lets invocations in progress finish.
			c.process(context.WithoutCancel(ctx), source, function, batch.Messages, fault)
			<-places
		})
	}
}

// addPoller changes the number of pollers of a queue.
func (c *Cloud) addPoller(queue string, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polled[queue] += change
	if c.polled[queue] == 0 {
		delete(c.polled, queue)
		c.unpolled = queue
	}
	c.stir()
}

// process invokes the function with a batch and deletes the successful messages.
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

// invokeBatch invokes the function with a batch and returns the IDs of the failed messages. An error means that all
// have failed.
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

// checkTimeout rejects sources that Lambda would not map: a queue that does not exist, or a visibility timeout
// shorter than the function's timeout.
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

// deleteAll deletes the messages of a batch except the failed ones. If the visibility timeout of a message in a FIFO
// queue has ended, the queue keeps the message and redelivers it, as with Lambda.
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
