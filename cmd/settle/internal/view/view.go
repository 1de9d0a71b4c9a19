// Package view prints instances for operators. It leaves out the runtime's bookkeeping and secrets.
package view

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/statechart"
)

// Instance is the operator's view of an instance. It is the gateway's view with the same keys, and with the reason of a
// parked event and the failed effects.
type Instance struct {
	gateway.Instance
	// Parked replaces the gateway's field and adds the reason.
	Parked *Parked `json:"parked,omitempty"`
	// Failed are the effects that will never be performed, the latest last.
	Failed []Failed `json:"failed_effects,omitempty"`
	// Executions are the executions that the instance waits for, in the order in which it requested them.
	Executions []Execution `json:"executions,omitempty"`
	// Problem is why these machines cannot read the instance, or empty. A consumer with the same machines applies no
	// event to it.
	Problem string `json:"problem,omitempty"`
	// Skipped counts the duplicates and stale timers that were skipped.
	Skipped int64 `json:"skipped,omitempty"`
}

// Failed is an effect that will never be performed.
type Failed struct {
	Kind    statechart.EffectKind `json:"kind"`
	Target  string                `json:"target,omitempty"`
	At      time.Time             `json:"at"`
	Message string                `json:"message"`
	// Data is the content of the effect, unless it is longer than 2 KiB. DataBytes is its length.
	Data      json.RawMessage `json:"data,omitempty"`
	DataBytes int             `json:"data_bytes,omitempty"`
	Report    durable.Report  `json:"report,omitempty"`
}

// Execution is an execution of a workflow.
type Execution struct {
	Workflow  string    `json:"workflow"`
	Name      string    `json:"name"`
	Event     string    `json:"event"`
	StartedAt time.Time `json:"started_at"`
	// ARN is empty until the start is confirmed.
	ARN string `json:"arn,omitempty"`
	// Refused is why the execution will never start.
	Refused string `json:"refused,omitempty"`
}

// Parked is an event that was parked, and why.
type Parked struct {
	gateway.Parked
	Message string `json:"message"`
}

// Of returns the view of a stored record. If machines cannot read it, Problem is set.
func Of(machines *durable.Machines, record durable.Record) (Instance, error) {
	shown, err := gateway.ViewOf(machines, record)
	if err != nil {
		return Instance{}, err
	}
	v := Instance{Instance: shown}
	if _, _, err := machines.Restore(record); err != nil {
		v.Problem = "this build cannot read it: " + err.Error()
	}
	if shown.Parked != nil {
		v.Parked = &Parked{Parked: *shown.Parked, Message: record.Error.Message}
	}
	v.Skipped = record.Skipped
	for _, e := range record.Executions {
		shown := Execution{Workflow: e.Workflow, Name: e.Name, Event: e.Event, StartedAt: e.StartedAt, ARN: e.ARN}
		if e.Refused != nil {
			shown.Refused = strings.TrimSuffix(e.Refused.Error+": "+e.Refused.Cause, ": ")
		}
		v.Executions = append(v.Executions, shown)
	}
	for _, f := range record.FailedEffects {
		v.Failed = append(v.Failed, Failed{Kind: f.Kind, Target: f.Target, At: f.At, Message: f.Error, Data: f.Data, DataBytes: f.DataBytes, Report: f.Report})
	}
	return v, nil
}

// timers returns the timers, ordered by time.
func (v Instance) timers() []gateway.Timer {
	return slices.SortedFunc(maps.Values(v.Timers), func(a, b gateway.Timer) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.State, b.State), cmp.Compare(a.After, b.After))
	})
}

// services returns the services, ordered by state.
func (v Instance) services() []gateway.Service {
	return slices.SortedFunc(maps.Values(v.Services), func(a, b gateway.Service) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.ID, b.ID))
	})
}
