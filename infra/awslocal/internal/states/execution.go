package states

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states/asl"
)

// The statuses of an execution.
const (
	running   = "RUNNING"
	succeeded = "SUCCEEDED"
	failed    = "FAILED"
	timedOut  = "TIMED_OUT"
	aborted   = "ABORTED"
)

// execution is one run of a revision of a state machine. Its exported fields form its record.
type execution struct {
	serial   uint64
	machine  *machine
	revision *revision
	events   []event
	alarm    *alarm // for the timeout of the execution

	Machine, Revision uint64 // serial numbers
	ARN, Name         string
	Input             payload
	Output            *payload
	Failure           *Failure // set if the execution did not succeed; after an abort, it has the caller's reason
	Status            string
	Started           time.Time
	Stopped           time.Time `json:",omitzero"`
	TimesOut          time.Time `json:",omitzero"`
	Flows             []*flow   // unfinished flows, by ID; empty once the execution has ended
	LastFlow          int       // the last assigned ID
	Drawn             uint64    `json:",omitempty"` // random numbers drawn since the last event
}

// phase is the current activity of a flow.
type phase string

const (
	moving   phase = ""         // about to enter a state; no call ends in this phase
	waiting  phase = "wait"     // in a Wait state, until Due
	working  phase = "task"     // the task is running or waits for its token
	retrying phase = "retry"    // waits until Due for a retry
	joining  phase = "children" // the flows of a Parallel or Map state are running
)

// flow is a run through the states of a machine, a branch or an iteration. It is in one state at a time. Its exported
// fields are part of its execution's record.
type flow struct {
	x     *execution
	state *asl.State
	alarm *alarm
	gone  bool // finished or aborted

	ID     int
	Parent int      `json:",omitempty"` // the flow with the Parallel or Map state; zero if none
	Index  int      `json:",omitempty"` // the index of the branch or iteration
	Item   *payload `json:",omitempty"` // the item of the iteration

	State      string
	Input      payload
	Entered    time.Time
	Last       int   // ID of the event that the flow's next event follows
	EnteredAt  int   // ID of the event that records the entry into the state
	Tries      []int `json:",omitempty"` // number of retries, by retrier
	RetryCount int   `json:",omitempty"`
	Phase      phase `json:",omitempty"`

	Due         time.Time `json:",omitzero"` // the time of a retry, or the end of a wait
	TimesOut    time.Time `json:",omitzero"` // the time at which a task times out
	HeartbeatBy time.Time `json:",omitzero"`
	Heartbeat   int       `json:",omitempty"` // seconds between heartbeats; zero if not required
	Task        uint64    `json:",omitempty"` // serial of the unfinished call; zero if none
	Token       uint64    `json:",omitempty"` // serial of the outstanding token; zero if none
	Call        payload   // the parameters of the task

	Work    *payload   `json:",omitempty"` // the effective input of a Parallel or Map state
	Results []*payload `json:",omitempty"` // outputs of its flows; nil for an unfinished flow
	Begun   int        `json:",omitempty"` // number of flows started
	AtOnce  int        `json:",omitempty"` // maximum number of concurrent flows
	Left    int        `json:",omitempty"` // number of missing results
	items   []any      // the items of a Map state
}

// setAlarm sets the alarm of a flow to its earliest deadline.
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

// clearWaits clears everything that a flow waits for.
func (m *Model) clearWaits(f *flow) {
	f.Phase, f.Due, f.TimesOut, f.HeartbeatBy = moving, time.Time{}, time.Time{}, time.Time{}
	m.setAlarm(f)
	delete(m.tokens, f.Token)
	delete(m.tasks, f.Task)
	f.Token, f.Task, f.Heartbeat = 0, 0, 0
	f.Call = payload{}
}

// flow returns the flow with an ID, or nil if it has ended.
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

// draw returns pseudorandom bytes derived from the execution's name and history.
func (x *execution) draw() [32]byte {
	x.Drawn++
	return sha256.Sum256(fmt.Appendf(nil, "%s %d %d", x.ARN, len(x.events), x.Drawn))
}

// scope returns the scope for the expressions of a flow's state.
func (f *flow) scope(data any) asl.Scope {
	return asl.Scope{Data: data, Context: f.context(), Random: f.x.draw}
}

// context returns the context object (AWS Step Functions Developer Guide, "Accessing execution data from the Context
// object in Step Functions").
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

// timestamp formats a time as in the context object.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
