package states

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/states/document"
)

// eventsMax is how many events the history of an execution may have: "Quotas related to
// state machine executions" of the AWS Step Functions Developer Guide.
const eventsMax = 25_000

// event is one event of the history of an execution. Its ID is its place, from one on.
type event struct {
	Type     string
	At       time.Time
	Previous int
	Details  details // nil: the event has none
}

// details are the members of an event's own details.
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

// chain adds an event that follows the last one of a flow. The first event of an execution
// and that by which its first state is entered follow none, as with AWS; nor does anything
// follow an event that says that a branch, an iteration or all of them have succeeded.
func (r *run) chain(f *flow, e event) {
	e.Previous = f.Last
	r.append(e)
	f.Last = len(r.x.events)
}

// append adds an event. The last one that fits must be that of the execution's end.
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

// detailsName returns the member that holds the details of events of a type.
func detailsName(eventType string) string {
	switch {
	case strings.HasSuffix(eventType, "StateEntered"):
		return "stateEnteredEventDetails"
	case strings.HasSuffix(eventType, "StateExited"):
		return "stateExitedEventDetails"
	}
	return strings.ToLower(eventType[:1]) + eventType[1:] + "EventDetails"
}

// output returns an event as GetExecutionHistory gives it, with or without the input and
// output in it.
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

// epoch writes a time as AWS JSON has it: seconds since 1970, with milliseconds.
func epoch(t time.Time) json.Number {
	ms := t.UnixMilli()
	return json.Number(fmt.Sprintf("%d.%03d", ms/1000, ms%1000))
}

func number(n int) json.Number { return document.Int(n) }
