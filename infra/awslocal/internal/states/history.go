package states

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
)

// eventsMax is the maximum number of events in an execution's history (AWS Step Functions Developer Guide, "Quotas
// related to state machine executions").
const eventsMax = 25_000

// event is one event of an execution's history. Its ID is its position, starting at one.
type event struct {
	Type     string
	At       time.Time
	Previous int
	Details  details // nil if the event has none
}

// details holds the members of an event's details.
type details map[string]any

func failureDetails(failure *Failure) details {
	d := details{}
	if failure.Error != "" {
		d["error"] = failure.Error
	}
	if failure.Cause != "" {
		d["cause"] = failure.Cause
	}
	return d
}

// chain appends an event whose predecessor is the last event of a flow. As in AWS, the first event of an execution and
// the entry into its first state have no predecessor. MapIterationSucceeded, ParallelStateSucceeded and
// MapStateSucceeded are never the predecessor of a flow's next event.
func (r *run) chain(f *flow, e event) {
	e.Previous = f.Last
	r.append(e)
	f.Last = len(r.x.events)
}

// append appends an event. It reserves the last place in the history for the end of the execution.
func (r *run) append(e event) {
	x := r.x
	final := strings.HasPrefix(e.Type, "Execution")
	if len(x.events) >= eventsMax-1 && !final {
		r.full = true
		return
	}
	e.At = r.now
	x.events = append(x.events, e)
	x.Drawn = 0
	r.m.noteEvent(x.serial, len(x.events))
}

// detailsName returns the name of the member that holds the details of an event of this type.
func detailsName(eventType string) string {
	switch {
	case strings.HasSuffix(eventType, "StateEntered"):
		return "stateEnteredEventDetails"
	case strings.HasSuffix(eventType, "StateExited"):
		return "stateExitedEventDetails"
	}
	return strings.ToLower(eventType[:1]) + eventType[1:] + "EventDetails"
}

// output returns an event in the form of GetExecutionHistory, with or without its input and output.
func (e event) output(id int, data bool) map[string]any {
	out := map[string]any{"id": id, "previousEventId": e.Previous, "timestamp": epoch(e.At), "type": e.Type}
	if e.Details == nil {
		return out
	}
	d := make(map[string]any, len(e.Details)+1)
	for name, value := range e.Details {
		if name == "input" || name == "output" {
			if !data {
				continue
			}
			d[name+"Details"] = map[string]any{"truncated": false}
		}
		d[name] = value
	}
	out[detailsName(e.Type)] = d
	return out
}

// epoch returns a time in AWS JSON: seconds since 1970, with milliseconds.
func epoch(t time.Time) json.Number {
	ms := t.UnixMilli()
	return json.Number(fmt.Sprintf("%d.%03d", ms/1000, ms%1000))
}

func number(n int) json.Number { return document.Int(n) }
