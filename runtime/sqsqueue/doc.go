// Package sqsqueue connects the runtime to SQS. It decodes the messages of a Lambda invocation into deliveries,
// reports which of them failed, and sends, parks and delays messages of the FIFO queue.
package sqsqueue
