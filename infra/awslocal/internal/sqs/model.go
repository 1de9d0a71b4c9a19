// Package sqs models Amazon SQS: queues, messages and the rules for receiving them. A Model is a pure state machine:
// it starts no goroutines, does no I/O, takes no locks and reads no clock. Every method takes the time, which must
// not run backwards. IDs derive from counters. The same calls therefore always return the same answers.
//
// The model follows the Amazon SQS API Reference (2012-11-05) and the Amazon SQS Developer Guide. Where they leave a
// choice, the code documents its choice. The model rejects unsupported features with an error that names them.
package sqs

import (
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// Model holds the queues of one account. It is not safe for concurrent use.
type Model struct {
	queues  map[string]*queue
	deleted map[string]time.Time // deletion times by queue name
	serial  uint64               // the last assigned serial
	scanMax int                  // defaults to ScanMessagesMax
	touched []string
	kept    record.Touched
}

// New returns a model without queues.
func New() *Model {
	return &Model{queues: make(map[string]*queue), deleted: make(map[string]time.Time), scanMax: ScanMessagesMax}
}

// LimitScan replaces ScanMessagesMax for this model. Call it before all other calls, with at least one message.
func (m *Model) LimitScan(messages int) { m.scanMax = messages }

// NextReceivable returns the earliest time at which ReceiveMessage on a queue may find a message if no other call is
// made. The result is the time `now` if a message is available. False means never. If the queue does not exist, the
// result is also `now`, so that a waiting receive retries and gets the error.
func (m *Model) NextReceivable(now time.Time, name string) (time.Time, bool) {
	q, ok := m.queues[name]
	if !ok {
		return now, true
	}
	return q.nextReceivable(now)
}

// TakeTouched returns the names of the queues whose NextReceivable may have changed since the last call, and clears
// the list.
func (m *Model) TakeTouched() []string {
	touched := m.touched
	m.touched = nil
	return touched
}

// nextSerial returns the next serial. Serials increase and are never reused.
func (m *Model) nextSerial() uint64 {
	m.serial++
	m.kept.Note(serialKey)
	return m.serial
}

// touch records that NextReceivable of a queue may have changed.
func (m *Model) touch(name string) {
	for _, t := range m.touched {
		if t == name {
			return
		}
	}
	m.touched = append(m.touched, name)
}

// resolve returns the queue of a QueueUrl, advanced to the given time. As in SQS, a bare queue name is also accepted.
func (m *Model) resolve(now time.Time, url string) (*queue, *wire.Error) {
	if url == "" {
		return nil, missingParameter("QueueUrl")
	}
	name := QueueName(url)
	m.touch(name)
	q, ok := m.queues[name]
	if !ok {
		return nil, noSuchQueue(name)
	}
	q.advance(now)
	return q, nil
}

// QueueName returns the name of the queue in a QueueUrl.
func QueueName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

// QueueARN returns the ARN of a queue.
func QueueARN(name string) string {
	return arnPrefix + name
}

const arnPrefix = "arn:aws:sqs:" + wire.Region + ":" + wire.Account + ":"

// queueURL returns the URL of a queue at an endpoint such as "http://127.0.0.1:4566".
func queueURL(endpoint, name string) string {
	return endpoint + "/" + wire.Account + "/" + name
}
