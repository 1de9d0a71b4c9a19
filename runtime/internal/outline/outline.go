// Package outline holds the structure of a chart as plain data, for packages that write charts in other formats. The
// data contains no functions of the chart, so it does not depend on the type of the context.
package outline

import (
	"encoding/json"
	"time"
)

// Chart is the structure of a chart. Its slices belong to the chart and must not be changed.
type Chart struct {
	Root    State // Its ID is the chart's.
	Version int
	// Events holds the event types from outside, and Internal the types that only the chart raises. Both are sorted.
	Events, Internal []string
	// Context is the JSON form of a constant context, or nil. Output is the JSON form of a constant output, or nil.
	Context, Output json.RawMessage
	// UsesChildren is set if some state has Children or some action refers to a child, except in EnqueueActions.
	UsesChildren bool
}

// State is a statechart.State.
type State struct {
	ID           string
	Type         int // a statechart.Type
	Initial      string
	DefaultEntry []Action
	States       []State
	Tags         []string
	Entry, Exit  []Action
	On, Always   []Transition
	After        []After
	Invoke       []Invoke
	Children     []Child
	Defer        []string
	OnDone       []Transition
	// Targets holds the paths of the default states of a history state.
	Targets []string
	// Output is the JSON form of a constant output, or nil.
	Output json.RawMessage
	Doc    string
	Meta   any
}

// Transition is a statechart.Transition.
type Transition struct {
	Event string
	// Targets holds the paths of the target states. "" is the root.
	Targets []string
	Guard   *Guard // nil for none
	Actions []Action
	Reenter bool
	Doc     string
}

// After is a statechart.After.
type After struct {
	ID    string
	Delay time.Duration
	Transition
}

// Invoke is a statechart.Invoke.
type Invoke struct {
	ID              string
	Service         string
	Params          json.RawMessage
	Timeout         time.Duration
	Retry           Retry
	OnDone, OnError []Transition
}

// Retry is a statechart.RetryPolicy.
type Retry struct {
	Attempts    int
	Interval    time.Duration
	Rate        float64
	IntervalMax time.Duration
}

// Child is a statechart.Child.
type Child struct {
	ID, Machine string
	// Input is the JSON form of a constant input, or nil.
	Input           json.RawMessage
	OnDone, OnError []Transition
}

// Action is a statechart.Action.
type Action struct {
	Name   string
	Params json.RawMessage
	Made
}

// Guard is a statechart.Guard.
type Guard struct {
	Name   string
	Params json.RawMessage
	By     Constructor
	// Of holds the operands of And, Or and Not.
	Of []Guard
	// In is the path given to In.
	In string
}

// Made describes how an action was constructed.
type Made struct {
	By Constructor
	// Event is the event type given to Raise, RaiseWith, SendAfter, Emit or SendToChild. ID is the ID given to SendAfter,
	// Cancel, Spawn, StopChild or SendToChild. Machine is the machine given to Spawn.
	Event, ID, Machine string
	// Computed is set if Emit, Spawn or SendToChild was given a function.
	Computed bool
}

// Constructor is the function of package statechart that made an action or a guard.
type Constructor int

// The constructors that packages such as xstatejson distinguish. Other stands for all other constructors.
const (
	Other Constructor = iota
	Raise
	RaiseWith
	SendAfter
	Cancel
	Emit
	Log
	Spawn
	StopChild
	SendToChild
	And
	Or
	Not
	In
)
