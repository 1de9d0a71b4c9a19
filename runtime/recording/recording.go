// Package recording records the steps of real instances and replays them on another build.
//
// The consumer writes one log line per commit of the sampled instances: see [Recorder]. [Read] reads such lines, and
// [Assembly] turns them into runs. A [Run] has the events of one instance, and the outcome of each event on the build
// that recorded them. A [Replay] plays the runs on another build, and reports the differences.
package recording

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// format is the format version of log lines and recordings.
const format = 1

// Names of steps that are not events of the chart. They are in the history of an instance.
const (
	startStep = statechart.ReservedPrefix + "start"
	stopStep  = statechart.ReservedPrefix + "stop"
	// replayStep replays the deferred events that a new build handles.
	replayStep = statechart.ReservedPrefix + "replay"
)

// Event is a recorded step of an instance.
type Event struct {
	// Type is the name of the event in the history: the type of an event, "after 24h0m0s" for a timer, or the name of
	// another step, such as settle.start.
	Type string    `json:"type"`
	ID   string    `json:"id,omitempty"` // the producer's ID
	At   time.Time `json:"at"`
	// Body is the message of the event, without the keys that start with $. Without a message, Payload is the result or
	// the error of a service or child, or the input of the instance.
	Body    json.RawMessage `json:"body,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Timer   string          `json:"timer,omitempty"`      // the ID of the timer that fired
	Owner   string          `json:"owner,omitempty"`      // the path of the timer's state; set in recordings
	Key     string          `json:"invocation,omitempty"` // the key of the service or child that ended
	Service string          `json:"service,omitempty"`    // the name of the service that ended; set in recordings
	// To lists the active atomic states after the event. Ignored is set if the event had no effect.
	To      []string `json:"to"`
	Ignored bool     `json:"ignored,omitempty"`
}

// Commit is a recorded commit of an instance: the content of one log line.
type Commit struct {
	Format    int       `json:"format"`
	Instance  string    `json:"instance"`
	CreatedAt time.Time `json:"created_at"`
	Revision  int64     `json:"revision"`
	// Parent is the instance that spawned this one; empty without one.
	Parent string  `json:"parent,omitempty"`
	Events []Event `json:"events"`
	// Snapshot is the stored snapshot after the events.
	Snapshot json.RawMessage `json:"snapshot"`
}

// Outcome is the result of a step on one build.
type Outcome struct {
	State    []string          `json:"state"`
	Status   statechart.Status `json:"status"`
	Output   json.RawMessage   `json:"output,omitempty"`
	Services []string          `json:"services,omitempty"` // the services that begin, by ID and name
	Timers   []Timer           `json:"timers,omitempty"`   // the timers that begin
	Ended    []string          `json:"ended,omitempty"`    // the names of the timers that end, except the one that fires
	// Effects are the requested effects, except log messages. IDs are replaced by names, because an ID depends on the
	// number of effects before it.
	Effects []statechart.Effect `json:"effects,omitempty"`
}

// Timer is a timer that begins: of a state, or of a delayed event.
type Timer struct {
	Name  string          `json:"name"` // the path of the state and the timer's ID there, or the type of the delayed event
	At    time.Time       `json:"at"`
	Event json.RawMessage `json:"event,omitempty"`
}

// Step is an event and its outcome on the build that wrote the recording.
type Step struct {
	Event
	Outcome Outcome `json:"outcome"`
}

// Run is a sequence of steps of one instance, without a gap.
type Run struct {
	Instance string `json:"instance"`
	Version  int    `json:"version"` // the version of the chart
	// Base is the snapshot before the first step. It is empty if the first step starts the instance.
	Base  json.RawMessage `json:"base,omitempty"`
	Steps []Step          `json:"steps"`
}
