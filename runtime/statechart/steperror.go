package statechart

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of a step. A failed step is rolled back: the snapshot is unchanged.
var (
	ErrEndless = errors.New("the macrostep does not end") // the macrostep exceeds MicrostepsMax
	ErrStalled = errors.New("the chart is stalled")       // the snapshot would be unsettled, and nothing could move it
	ErrLimit   = errors.New("limit exceeded")             // the snapshot or its effects exceed a limit
	// ErrUnreadable is returned by Restore, as an UnreadableError, if the stored snapshot does not fit this chart. A step
	// returns it if the snapshot belongs to another chart.
	ErrUnreadable = errors.New("unreadable snapshot")
)

// StepError is returned by Step if code of the chart fails or panics. It is also the payload of ExecutionError.
type StepError struct {
	Chart string
	State string // the path of the state with the failed code, or "" for the chart itself
	Event string // the type of the current event
	Code  string // the failed code, such as "action keepConclusion" or "guard retriesLeft"
	Err   error  // a *PanicError if the code panicked
}

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

func (e *StepError) Unwrap() error { return e.Err }

// code is a piece of the chart's code, with the index of its state.
type code struct {
	kind  codeKind
	state int
	// name is the code's name, unless the code is an action. For an action, the code is actions[at] or programmed[at].
	// An element of programmed also has the index of the state.
	name       string
	actions    []Action[erased]
	programmed []programmed
	at         int
}

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

// runs records the code that is about to run. It sets the fields one by one, because the Go compiler would first build
// a struct literal elsewhere and then copy it.
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
