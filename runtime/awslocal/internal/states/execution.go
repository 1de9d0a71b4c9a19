package states

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/states/asl"
)

// The states of an execution.
const (
	running   = "RUNNING"
	succeeded = "SUCCEEDED"
	failed    = "FAILED"
	timedOut  = "TIMED_OUT"
	aborted   = "ABORTED"
)

// execution is one run of a revision of a state machine. Its exported fields are its record.
type execution struct {
	serial   uint64
	machine  *machine
	revision *revision
	events   []event
	alarm    *alarm // of the time-out of the machine

	Machine, Revision uint64 // serial numbers
	ARN, Name         string
	Input             payload
	Output            *payload
	Failure           *Failure // of one that did not succeed; of an aborted one what its caller said
	Status            string
	Started           time.Time
	Stopped           time.Time `json:",omitzero"`
	TimesOut          time.Time `json:",omitzero"`
	Flows             []*flow   // those that are not at an end, by ID; none once it is at an end
	LastFlow          int       // the last ID given
	Drawn             uint64    `json:",omitempty"` // random numbers since the last event
}

// phase is what a flow does.
type phase string

const (
	moving   phase = ""         // it is about to enter a state: never seen outside of a call
	waiting  phase = "wait"     // in a Wait state, until Due
	working  phase = "task"     // a task is performed or its token is out
	retrying phase = "retry"    // until Due
	joining  phase = "children" // the flows of a Parallel or Map state are at work
)

// flow is a run through a machine's states, or through those of a branch or an iteration. It
// is in one state at a time. Its exported fields are part of the record of its execution.
type flow struct {
	x     *execution
	state *asl.State
	alarm *alarm
	gone  bool // it came to its end or was aborted

	ID     int
	Parent int      `json:",omitempty"` // the flow whose branch or iteration it is; zero: none
	Index  int      `json:",omitempty"` // of the branch or iteration
	Item   *payload `json:",omitempty"` // of the iteration

	State      string
	Input      payload
	Entered    time.Time
	Last       int   // the event that the next one follows
	EnteredAt  int   // the event by which the state was entered
	Tries      []int `json:",omitempty"` // retries made, by retrier
	RetryCount int   `json:",omitempty"`
	Phase      phase `json:",omitempty"`

	Due         time.Time `json:",omitzero"` // of a wait or a retry
	TimesOut    time.Time `json:",omitzero"` // of a task
	HeartbeatBy time.Time `json:",omitzero"`
	Heartbeat   int       `json:",omitempty"` // seconds between heartbeats; zero: none are asked for
	Task        uint64    `json:",omitempty"` // whose call is not finished
	Token       uint64    `json:",omitempty"` // that is out
	Call        payload   // the parameters of the task

	Work    *payload   `json:",omitempty"` // the effective input of a Parallel or Map state
	Results []*payload `json:",omitempty"` // of its flows; nil while there is none
	Begun   int        `json:",omitempty"` // flows that were begun
	AtOnce  int        `json:",omitempty"` // flows that may be at work at once
	Left    int        `json:",omitempty"` // results that are missing
	items   []any      // of a Map state
}

// setAlarm sets the alarm of a flow to the earliest of what it waits for.
func (m *Model) setAlarm(f *flow) {
	var at time.Time
	for _, t := range []time.Time{f.Due, f.TimesOut, f.HeartbeatBy} {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if f.alarm == nil {
		f.alarm = &alarm{x: f.x, f: f, slot: absent}
	}
	m.alarms.set(f.alarm, at)
}

// calm clears all that a flow waits for.
func (m *Model) calm(f *flow) {
	f.Phase, f.Due, f.TimesOut, f.HeartbeatBy = moving, time.Time{}, time.Time{}, time.Time{}
	m.setAlarm(f)
	delete(m.tokens, f.Token)
	delete(m.tasks, f.Task)
	f.Token, f.Task, f.Heartbeat = 0, 0, 0
	f.Call = payload{}
}

// flow returns the flow with an ID; nil if it has come to its end.
func (x *execution) flow(id int) *flow {
	i, ok := slices.BinarySearchFunc(x.Flows, id, func(f *flow, id int) int { return f.ID - id })
	if !ok {
		return nil
	}
	return x.Flows[i]
}

// newFlow adds a flow that is about to enter a state.
func (x *execution) newFlow(parent *flow, start string, input payload, last int) *flow {
	x.LastFlow++
	f := &flow{x: x, ID: x.LastFlow, State: start, Input: input, Last: last}
	if parent != nil {
		f.Parent = parent.ID
	}
	x.Flows = append(x.Flows, f)
	return f
}

func (x *execution) removeFlow(f *flow) {
	f.gone = true
	x.Flows = slices.DeleteFunc(x.Flows, func(other *flow) bool { return other == f })
}

// draw returns bytes that look like chance and follow from the execution's name and history.
func (x *execution) draw() [32]byte {
	x.Drawn++
	return sha256.Sum256(fmt.Appendf(nil, "%s %d %d", x.ARN, len(x.events), x.Drawn))
}

// scope returns what the expressions of a flow's state see.
func (f *flow) scope(data any) asl.Scope {
	return asl.Scope{Data: data, Context: f.context(), Random: f.x.draw}
}

// context returns the context object: "Accessing execution data from the Context object in
// Step Functions" of the AWS Step Functions Developer Guide.
func (f *flow) context() map[string]any {
	x := f.x
	context := map[string]any{
		"Execution": map[string]any{
			"Id": x.ARN, "Name": x.Name, "Input": x.Input.value, "RoleArn": x.revision.RoleARN,
			"StartTime": timestamp(x.Started), "RedriveCount": number(0),
		},
		"StateMachine": map[string]any{"Id": x.machine.arn(), "Name": x.machine.Name},
		"State":        map[string]any{"Name": f.State, "EnteredTime": timestamp(f.Entered), "RetryCount": number(f.RetryCount)},
	}
	if f.Token != 0 {
		context["Task"] = map[string]any{"Token": tokenText(f.Token)}
	}
	for up := f; up != nil; up = x.flow(up.Parent) {
		if up.Item != nil {
			context["Map"] = map[string]any{"Item": map[string]any{"Index": number(up.Index), "Value": up.Item.value}}
			break
		}
	}
	return context
}

// timestamp writes a time as the context object has it.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
