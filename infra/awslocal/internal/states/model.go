// Package states models AWS Step Functions: standard workflows in the Amazon States Language with JSONPath. A Model
// has no side effects: it starts no goroutines, does no I/O, takes no locks and reads no clock. Every method
// takes the time, which must not run backwards. IDs, tokens and pseudorandom numbers derive from counters. The same
// calls therefore always return the same answers.
//
// An execution calls other services through Tasks, which the caller takes, performs and finishes.
//
// The model follows the AWS Step Functions API Reference (2016-11-23), the AWS Step Functions Developer Guide and the
// Amazon States Language specification. Where they leave a choice, the code documents its choice. The model rejects
// unsupported features with an error that names them.
package states

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
	"github.com/settle-run/settle/infra/awslocal/internal/states/asl"
)

// Model holds the state machines and executions of one account. It is not safe for concurrent use.
type Model struct {
	counters   counters
	machines   map[string]*machine // by name
	serials    map[uint64]*machine
	executions map[string]*execution // by ARN
	bySerial   map[uint64]*execution
	revisions  map[uint64]*revision
	tokens     map[uint64]*flow // the flow whose task waits for the token
	tasks      map[uint64]*flow // the flow whose task's call is not finished
	pending    []uint64         // tasks not yet taken, in order
	alarms     alarms
	touched    record.Touched
	announces  bool
	changes    []StatusChange // status changes that TakeStatusChanges has not returned yet
	lag        time.Duration  // the lag of the current call: see CallLagging
}

// counters holds the last assigned serial numbers.
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

// count increments a counter and returns it.
func (m *Model) count(counter *uint64) uint64 {
	*counter++
	m.touched.Note(countersKey)
	return *counter
}

// Task is a call to another service that an execution waits for. The caller performs it and passes the result to
// Finish.
type Task struct {
	ID uint64
	// Service and Action are "sqs" and "sendMessage", or "lambda" and "invoke".
	Service, Action string
	// Input is the input of the action as in its API. For lambda it is only the payload of the invocation.
	Input json.RawMessage
	// Function is the name or ARN of the Lambda function to invoke.
	Function string
	// Execution is the ARN of the execution.
	Execution string
}

// Failure is the reason why a task failed. Error is a name in the form of Step Functions, such as
// "SQS.QueueDoesNotExistException", "Lambda.Unknown" or the errorType of a function. For a function, Cause is the
// JSON of its error.
type Failure = asl.Failure

// Next returns the earliest time at which Advance has work if no call is made. False means never.
func (m *Model) Next() (time.Time, bool) {
	a, ok := m.alarms.min()
	if !ok {
		return time.Time{}, false
	}
	return a.at, true
}

// Advance performs all work that is due: ended waits, retries, timeouts and missed heartbeats. It performs overdue work
// at the given time, in the order of the due times.
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

// TakeTasks returns the calls that the caller must perform, in order, and removes them. After Restore, it returns
// unfinished tasks again, so a call may be performed twice.
func (m *Model) TakeTasks() []Task {
	var tasks []Task
	for _, id := range m.pending {
		if f, ok := m.tasks[id]; ok { // otherwise the task was aborted
			tasks = append(tasks, f.task())
		}
	}
	m.pending = nil
	return tasks
}

// Finish reports the result of a task: the output of the action (for lambda the payload of the answer) or a failure.
// It ignores a task that the execution no longer waits for, because the task timed out or the execution ended.
func (m *Model) Finish(now time.Time, id uint64, output json.RawMessage, failure *Failure) {
	m.Advance(now)
	f, ok := m.tasks[id]
	if !ok {
		return
	}
	r := run{m: m, x: f.x, now: now}
	r.finish(f, output, failure)
}
