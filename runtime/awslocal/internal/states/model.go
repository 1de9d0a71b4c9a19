// Package states models AWS Step Functions: standard workflows in the Amazon States Language
// with JSONPath. A Model is state and nothing else: it starts no goroutine, does no I/O,
// takes no lock and reads no clock. Every method is given the time, which must not run
// backwards; IDs, tokens and what looks like chance follow from counters. So the same calls
// give the same answers, always.
//
// What an execution asks of other services, it asks as Tasks, which the caller takes,
// performs and finishes.
//
// The rules are those of the AWS Step Functions API Reference (2016-11-23), of the AWS Step
// Functions Developer Guide and of the Amazon States Language specification; where they
// leave a choice, the code says which one it takes. What is not modelled is refused by name.
package states

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/record"
	"github.com/settle-run/settle/runtime/awslocal/internal/states/asl"
)

// Model is the state machines and executions of one account. It is not safe for concurrent
// use.
type Model struct {
	counters   counters
	machines   map[string]*machine // by name
	serials    map[uint64]*machine
	executions map[string]*execution // by ARN
	bySerial   map[uint64]*execution
	revisions  map[uint64]*revision
	tokens     map[uint64]*flow // whose task waits for the token
	tasks      map[uint64]*flow // whose task's call is not finished
	pending    []uint64         // tasks that were not taken, in order
	alarms     alarms
	touched    record.Touched
	announces  bool
	changes    []StatusChange // that were not taken
	lag        time.Duration  // of the call at hand, see CallLagging
}

// counters are the last serial numbers given.
type counters struct {
	Machine, Revision, Execution, Task, Token uint64
}

// New returns a model without state machines.
func New() *Model {
	return &Model{
		machines:   make(map[string]*machine),
		serials:    make(map[uint64]*machine),
		executions: make(map[string]*execution),
		bySerial:   make(map[uint64]*execution),
		revisions:  make(map[uint64]*revision),
		tokens:     make(map[uint64]*flow),
		tasks:      make(map[uint64]*flow),
	}
}

// count returns the next number of a counter.
func (m *Model) count(counter *uint64) uint64 {
	*counter++
	m.touched.Note(countersKey)
	return *counter
}

// Task is a call to another service that an execution waits for. The caller performs it and
// gives its result to Finish.
type Task struct {
	ID uint64
	// Service and Action are "sqs" and "sendMessage", or "lambda" and "invoke".
	Service, Action string
	// Input is the input of the action as its API has it. For lambda it is the payload of
	// the invocation alone.
	Input json.RawMessage
	// Function is the name or the ARN of the Lambda function to invoke.
	Function string
	// Execution is the ARN of the execution that asks.
	Execution string
}

// Failure is why a task failed: the name of an error as Step Functions makes it, such as
// "SQS.QueueDoesNotExistException", "Lambda.Unknown" or the errorType of a function, and its
// cause, for a function the JSON of its error.
type Failure = asl.Failure

// Next returns the earliest instant at which Advance has something to do if nothing but time
// happens; false means never.
func (m *Model) Next() (time.Time, bool) {
	a, ok := m.alarms.min()
	if !ok {
		return time.Time{}, false
	}
	return a.at, true
}

// Advance does all that is due: waits that end, retries, time-outs and missed heartbeats.
// Everything is done at the time now, however long ago it was due, in the order in which it
// was due.
func (m *Model) Advance(now time.Time) {
	for {
		a, ok := m.alarms.min()
		if !ok || a.at.After(now) {
			return
		}
		r := run{m: m, x: a.x, now: now}
		r.alarm(a)
	}
}

// TakeTasks returns the calls that the caller must perform, in the order in which executions
// came to them, and forgets them. A task that is taken but not finished when the model is
// kept is given again after Restore: a call may be performed twice.
func (m *Model) TakeTasks() []Task {
	var tasks []Task
	for _, id := range m.pending {
		if f, ok := m.tasks[id]; ok { // otherwise it was aborted
			tasks = append(tasks, f.task())
		}
	}
	m.pending = nil
	return tasks
}

// Finish gives the result of a task: the output of the action, for lambda the payload that
// the function answered, or a failure. A task that is not waited for any more, since it
// timed out or its execution ended, is passed over.
func (m *Model) Finish(now time.Time, id uint64, output json.RawMessage, failure *Failure) {
	m.Advance(now)
	f, ok := m.tasks[id]
	if !ok {
		return
	}
	r := run{m: m, x: f.x, now: now}
	r.finish(f, output, failure)
}
