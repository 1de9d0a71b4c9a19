// Package sqs models Amazon SQS: queues, messages and the rules by which they are
// received. A Model is state and nothing else: it starts no goroutine, does no I/O, takes
// no lock and reads no clock. Every method is given the time, which must not run
// backwards; IDs follow from counters. So the same calls give the same answers, always.
//
// The rules are those of the Amazon SQS API Reference (2012-11-05) and of the Amazon SQS
// Developer Guide; where they leave a choice, the code says which one it takes. What is not
// modelled is refused by name.
package sqs

import (
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/record"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// Model is the queues of one account. It is not safe for concurrent use.
type Model struct {
	queues  map[string]*queue
	deleted map[string]time.Time // names of deleted queues, and when
	serial  uint64               // the last one given
	touched []string
	kept    record.Touched
}

// New returns a model without queues.
func New() *Model {
	return &Model{queues: make(map[string]*queue), deleted: make(map[string]time.Time)}
}

// NextReceivable returns the earliest instant at which ReceiveMessage on the queue named
// may find a message if nothing but time happens: now if there is one already. False means
// never. A queue that does not exist is receivable now, so that whoever waits learns of it.
func (m *Model) NextReceivable(now time.Time, name string) (time.Time, bool) {
	q, ok := m.queues[name]
	if !ok {
		return now, true
	}
	return q.nextReceivable(now)
}

// TakeTouched returns the names of the queues whose NextReceivable may have changed since
// the last call, and forgets them.
func (m *Model) TakeTouched() []string {
	touched := m.touched
	m.touched = nil
	return touched
}

// nextSerial returns a number that was not given before, higher than all before it.
func (m *Model) nextSerial() uint64 {
	m.serial++
	m.kept.Note(serialKey)
	return m.serial
}

// touch notes that what the queue named has to receive may have changed.
func (m *Model) touch(name string) {
	for _, t := range m.touched {
		if t == name {
			return
		}
	}
	m.touched = append(m.touched, name)
}

// resolve finds the queue that a QueueUrl names, with all done that time has brought to it.
// A bare queue name serves as its URL, as it does with SQS.
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

// QueueName returns the name of the queue that a QueueUrl points at.
func QueueName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

// QueueARN returns the ARN of the queue named.
func QueueARN(name string) string {
	return arnPrefix + name
}

const arnPrefix = "arn:aws:sqs:" + wire.Region + ":" + wire.Account + ":"

// queueURL returns the URL of the queue named behind an endpoint such as
// "http://127.0.0.1:4566".
func queueURL(endpoint, name string) string {
	return endpoint + "/" + wire.Account + "/" + name
}
