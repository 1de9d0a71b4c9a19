// Package sqsqueue is the SQS side of the runtime: it reads what Lambda hands over into
// deliveries, answers which of them must be delivered again, and sends, parks and delays on
// the FIFO queue.
package sqsqueue
