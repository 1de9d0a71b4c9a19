// Package view writes instances for people to read: what is stored of them, without the
// runtime's bookkeeping and without secrets.
package view

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/functions/gateway/httpapi"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// Instance is what an operator is shown of an instance: what the gateway shows, under the same
// keys, why an event was parked, and what failed for good.
type Instance struct {
	httpapi.Instance
	// Parked takes the place of the gateway's, with the reason beside it.
	Parked *Parked `json:"parked,omitempty"`
	// Failed are the effects that will never be performed, the latest last.
	Failed []Failed `json:"failed_effects,omitempty"`
	// Executions are those of workflows whose end the instance waits for, in the order in which it asked for them.
	Executions []Execution `json:"executions,omitempty"`
	// Problem says why these machines cannot read it, empty if they can. A consumer of the same machines applies no event to it then.
	Problem string `json:"problem,omitempty"`
	// Skipped counts the repeats that were passed over, as far as the item tells.
	Skipped int64 `json:"skipped,omitempty"`
}

// Failed is an effect that will never be performed.
type Failed struct {
	Kind    statechart.EffectKind `json:"kind"`
	Target  string                `json:"target,omitempty"`
	At      time.Time             `json:"at"`
	Message string                `json:"message"`
	// Data is what was to be sent, as far as it is kept; DataBytes is how long it was.
	Data      json.RawMessage `json:"data,omitempty"`
	DataBytes int             `json:"data_bytes,omitempty"`
	Report    durable.Report  `json:"report,omitempty"`
}

// Execution is one of a workflow.
type Execution struct {
	Workflow  string    `json:"workflow"`
	Name      string    `json:"name"`
	Event     string    `json:"event"`
	StartedAt time.Time `json:"started_at"`
	// ARN is empty until the execution is known to be started.
	ARN string `json:"arn,omitempty"`
	// Refused is why it will never be.
	Refused string `json:"refused,omitempty"`
}

// Parked is an event that was parked, and why.
type Parked struct {
	httpapi.Parked
	Message string `json:"message"`
}

// Of makes the view of a stored record; machines are those that may know what it takes next.
func Of(machines *durable.Machines, record durable.Record) (Instance, error) {
	shown, err := httpapi.ViewOf(machines, record)
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

// timers returns the timers, the next one first.
func (v Instance) timers() []httpapi.Timer {
	return slices.SortedFunc(maps.Values(v.Timers), func(a, b httpapi.Timer) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.State, b.State), cmp.Compare(a.After, b.After))
	})
}

// services returns the services, by the state that runs them.
func (v Instance) services() []httpapi.Service {
	return slices.SortedFunc(maps.Values(v.Services), func(a, b httpapi.Service) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.ID, b.ID))
	})
}
