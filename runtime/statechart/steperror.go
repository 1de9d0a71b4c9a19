package statechart

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of a step. Nothing of a failed step remains: the snapshot stands as it was.
var (
	// ErrEndless is returned by Step when a macrostep exceeds MicrostepsMax.
	ErrEndless = errors.New("the macrostep does not end")
	// ErrStalled is returned by Step when the configuration would be unsettled with nothing
	// to move it on.
	ErrStalled = errors.New("the chart is stalled")
	// ErrLimit is returned by Step when a limit of the snapshot or of its effects is
	// exceeded.
	ErrLimit = errors.New("limit exceeded")
)

// StepError is returned by Step when code of the chart failed or panicked; it is also the
// payload of ExecutionError, where the chart has a transition for it.
type StepError struct {
	Chart string
	// State is the path of the state whose code failed, "" for the chart's own.
	State string
	// Event is the type of the event that was being handled.
	Event string
	// Code names what failed: "action keepConclusion", "guard retriesLeft".
	Code string
	// Err is a *PanicError if the code panicked.
	Err error
}

// Error names chart, state, event and code. The chart itself is no state, and its start no event.
func (e *StepError) Error() string {
	where := "chart " + e.Chart
	if e.State != "" {
		where += fmt.Sprintf(", state %q", e.State)
	}
	if e.Event != "" {
		where += fmt.Sprintf(", event %q", e.Event)
	}
	return fmt.Sprintf("%s: %s: %v", where, e.Code, e.Err)
}

// Unwrap returns the error of the code.
func (e *StepError) Unwrap() error { return e.Err }

// code is a piece of the chart's code, with the index of its state.
type code struct {
	kind  codeKind
	state int
	// name is its own, unless it is an action: then that is the one at the given index of actions,
	// or of programmed, which has the state, too.
	name       string
	actions    []Action[held]
	programmed []programmed
	at         int
}

// codeKind says what a piece of code is.
type codeKind uint8

const (
	noCode codeKind = iota
	actionCode
	programmedCode
	guardCode
	delayCode
	outputCode
	contextCode
	cloneCode
	deferCode
	replayCode
	childCode
	stopCode
)

var codeKinds = [...]string{
	"", "action", "action", "guard", "delay", "output", "context", "cloning the context", "defer", "replay", "child", "stop of children",
}

// runs notes what code runs. Fields are set one by one: a literal would be built elsewhere first.
func (x *interpreter) runs(kind codeKind, name string, state int) {
	x.running.kind, x.running.name, x.running.state = kind, name, state
}

func (x *interpreter) fail(err error) *StepError {
	name, state := x.running.name, x.running.state
	switch x.running.kind {
	case actionCode:
		name = x.running.actions[x.running.at].Name
	case programmedCode:
		name, state = x.running.programmed[x.running.at].Name, x.running.programmed[x.running.at].state
	}
	named := strings.TrimSuffix(codeKinds[x.running.kind]+" "+name, " ")
	return &StepError{Chart: x.chart.id, State: x.chart.nodes[state].path, Event: x.event.Type, Code: named, Err: err}
}
