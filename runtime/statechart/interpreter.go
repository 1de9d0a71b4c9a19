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
	Err  error
	// Stack is where Code panicked, empty if it did not. It is no part of Error, which is
	// the same for the same input.
	Stack []byte
}

// Error names chart, state, event and code.
func (e *StepError) Error() string {
	return fmt.Sprintf("chart %s, state %q, event %q: %s: %v", e.Chart, e.State, e.Event, e.Code, e.Err)
}

// Unwrap returns the error of the code.
func (e *StepError) Unwrap() error { return e.Err }

// interpreter runs one macrostep. Its functions are those of SCXML, appendix D, under their
// names.
type interpreter[C any] struct {
	chart   *Chart[C]
	context C
	// event is the event being handled; entry actions and eventless transitions see the one
	// that led to them.
	event         Event
	configuration stateSet
	// history holds, by the index of a history state, what it recorded; nil if nothing.
	history       map[int]stateSet
	internalQueue []Event
	timers        []Timer
	services      []Invocation
	children      []ChildRef
	deferred      []Deferred
	status        Status
	output        []byte
	// moved reports whether a transition was taken, be it an eventless one whose guard looked
	// at an event that enables nothing itself, or the event was deferred.
	moved bool
	// microsteps counts those of the whole step.
	microsteps int

	effects []Effect
	// step is the number of this macrostep within the instance; with position it makes IDs.
	step, position int64

	statesToInvoke stateSet
	statesToEnter  stateSet
	// statesForDefaultEntry are those of the entry set whose initial transition is taken.
	statesForDefaultEntry stateSet
	// defaultHistoryContent holds, by the index of a parent, the history state whose default is
	// taken.
	defaultHistoryContent map[int]int
	// domains are those of the transitions of the microstep, from before history is recorded;
	// domain is that of the one whose entry set is computed: it enters only states below.
	domains []int
	domain  int
	// running is the user code that runs, for errors.
	running code
}

// code names a piece of the chart's code: what it is, its own name, and the path of its state.
type code struct{ what, name, state string }

// macrostep takes the transitions that the event enables, then eventless transitions and
// internal events until none is left (SCXML's mainEventLoop between two external events).
func (x *interpreter[C]) macrostep() error {
	enabled, err := x.selectTransitions()
	if err != nil {
		return err
	}
	if x.defers(enabled) {
		return x.deferEvent()
	}
	if err := x.microstep(enabled); err != nil {
		return err
	}
	return x.complete()
}

// complete runs what follows a microstep within its macrostep, and starts the services of the
// states that were entered and not left again.
func (x *interpreter[C]) complete() error {
	for ; x.status == Active; x.microsteps++ {
		if x.microsteps == MicrostepsMax {
			return fmt.Errorf("%w: chart %s took %d microsteps on event %q (MicrostepsMax); check its always and raise", ErrEndless, x.chart.id, x.microsteps, x.event.Type)
		}
		enabled, err := x.selectEventlessTransitions()
		if err != nil {
			return err
		}
		if len(enabled) == 0 {
			if len(x.internalQueue) == 0 {
				break
			}
			x.event, x.internalQueue = x.internalQueue[0], x.internalQueue[1:]
			if enabled, err = x.selectTransitions(); err != nil {
				return err
			}
			if failure, ok := x.failure(x.event); ok && len(enabled) == 0 {
				return failure
			}
		}
		if err := x.microstep(enabled); err != nil {
			return err
		}
	}
	if x.status != Active {
		return x.exitInterpreter()
	}
	for i := x.statesToInvoke.next(0); i >= 0; i = x.statesToInvoke.next(i + 1) {
		x.invoke(&x.chart.nodes[i])
	}
	return x.invokeChildren()
}

// exitInterpreter runs the exit actions of a chart that is done or stopped, innermost first. The
// configuration stays, so that the snapshot shows where the chart ended.
func (x *interpreter[C]) exitInterpreter() error {
	for i := x.configuration.prev(len(x.chart.nodes) - 1); i >= 0; i = x.configuration.prev(i - 1) {
		if err := x.run(x.chart.nodes[i].def.Exit, i); err != nil {
			return err
		}
	}
	for _, event := range x.internalQueue {
		if failure, ok := x.failure(event); ok {
			return failure // SCXML would drop it, with all that is left in the queue.
		}
	}
	x.timers, x.services, x.internalQueue = nil, nil, nil
	return x.stopChildren(func(ChildRef) bool { return true })
}

// failure returns what failed, if that is what the event tells and it must not be lost, as it
// may be in SCXML.
func (x *interpreter[C]) failure(event Event) (*StepError, bool) {
	failure, ok := event.Payload.(StepError)
	return &failure, ok && event.Type == ExecutionError && !x.chart.foreign
}

// executionError raises the event by which a chart handles what failed in its code. The error is
// returned if the chart has no transition for the event.
func (x *interpreter[C]) executionError(failure *StepError) error {
	if !x.chart.handlesErrors && !x.chart.foreign || errors.Is(failure, ErrLimit) {
		return failure
	}
	x.raise(Event{Type: ExecutionError, Payload: *failure})
	return nil
}

// selectEventlessTransitions returns the optimal enabled set of eventless transitions.
func (x *interpreter[C]) selectEventlessTransitions() ([]*transition[C], error) {
	return x.selectWhere(func(n *node[C]) []transition[C] { return n.always }, func(*transition[C]) bool { return true })
}

// selectTransitions returns the optimal enabled set of transitions for the current event.
func (x *interpreter[C]) selectTransitions() ([]*transition[C], error) {
	return x.selectWhere(func(n *node[C]) []transition[C] { return n.transitions }, func(t *transition[C]) bool { return matches(t.event, x.event.Type) })
}

// selectWhere finds, for each active atomic state in document order, the first transition in
// it or in its nearest ancestor whose event matches and whose guard holds.
func (x *interpreter[C]) selectWhere(of func(*node[C]) []transition[C], eligible func(*transition[C]) bool) ([]*transition[C], error) {
	var enabled []*transition[C]
	for i := x.configuration.next(0); i >= 0; i = x.configuration.next(i + 1) {
		if len(x.chart.nodes[i].children) > 0 {
			continue
		}
		t, err := x.firstEnabled(i, of, eligible)
		if err != nil {
			return nil, err
		}
		if t != nil && !contains(enabled, t) {
			enabled = append(enabled, t)
		}
	}
	return x.removeConflictingTransitions(enabled), nil
}

func (x *interpreter[C]) firstEnabled(state int, of func(*node[C]) []transition[C], eligible func(*transition[C]) bool) (*transition[C], error) {
	for i := state; i >= 0; i = x.chart.nodes[i].parent {
		transitions := of(&x.chart.nodes[i])
		for k := range transitions {
			t := &transitions[k]
			if !eligible(t) {
				continue
			}
			x.running = code{"guard", t.guard.Name, x.chart.nodes[i].path}
			holds, err := t.guard.holds(x)
			if err != nil {
				if err := x.executionError(x.fail(err)); err != nil {
					return nil, err
				}
				continue
			}
			if holds {
				return t, nil
			}
		}
	}
	return nil, nil
}

// removeConflictingTransitions keeps, of transitions that would leave a common state, the one
// whose source is deeper, else the first in document order.
func (x *interpreter[C]) removeConflictingTransitions(enabled []*transition[C]) []*transition[C] {
	if len(enabled) < 2 {
		return enabled
	}
	var filtered []*transition[C]
	for _, t1 := range enabled {
		preempted := false
		remaining := make([]*transition[C], 0, len(filtered)+1)
		for _, t2 := range filtered {
			conflict := x.computeExitSet(t1).intersects(x.computeExitSet(t2))
			if conflict && !x.chart.isDescendant(t1.source, t2.source) {
				preempted = true
				break
			}
			if !conflict {
				remaining = append(remaining, t2)
			}
		}
		if !preempted {
			remaining = append(remaining, t1)
			filtered = remaining
		}
	}
	return filtered
}

// microstep leaves the states that the transitions leave, runs their actions, and enters the
// states that they enter.
func (x *interpreter[C]) microstep(enabled []*transition[C]) error {
	if len(enabled) == 0 {
		return nil
	}
	x.moved = true
	x.domains = x.domains[:0]
	for _, t := range enabled {
		x.domains = append(x.domains, x.getTransitionDomain(t))
	}
	if err := x.exitStates(enabled); err != nil {
		return err
	}
	for _, t := range enabled {
		if err := x.run(t.actions, t.source); err != nil {
			return err
		}
	}
	return x.enterStates(enabled)
}

// exitStates leaves the exit set, innermost states first, after recording the history that
// lies in it.
func (x *interpreter[C]) exitStates(enabled []*transition[C]) error {
	statesToExit := newStateSet(len(x.chart.nodes))
	for _, t := range enabled {
		statesToExit.addAll(x.computeExitSet(t))
	}
	last := len(x.chart.nodes) - 1
	for i := statesToExit.next(0); i >= 0; i = statesToExit.next(i + 1) {
		x.recordHistory(&x.chart.nodes[i])
	}
	for i := statesToExit.prev(last); i >= 0; i = statesToExit.prev(i - 1) {
		n := &x.chart.nodes[i]
		if err := x.run(n.def.Exit, i); err != nil {
			return err
		}
		x.statesToInvoke.remove(i)
		x.cancelInvoke(n)
		if err := x.cancelChildren(n); err != nil {
			return err
		}
		x.cancelTimers(n)
		x.configuration.remove(i)
	}
	return nil
}

func (x *interpreter[C]) recordHistory(n *node[C]) {
	for _, child := range n.children {
		h := &x.chart.nodes[child]
		if h.kind != history {
			continue
		}
		recorded := newStateSet(len(x.chart.nodes))
		for i := x.configuration.next(n.index + 1); i >= 0 && i <= n.last; i = x.configuration.next(i + 1) {
			deep := h.def.Type == DeepHistory
			if deep && len(x.chart.nodes[i].children) == 0 || !deep && x.chart.nodes[i].parent == n.index {
				recorded.add(i)
			}
		}
		if x.history == nil {
			x.history = map[int]stateSet{}
		}
		x.history[child] = recorded
	}
}

// computeExitSet returns the active states that a transition leaves.
func (x *interpreter[C]) computeExitSet(t *transition[C]) stateSet {
	exit := newStateSet(len(x.chart.nodes))
	if len(t.targets) == 0 {
		return exit
	}
	domain := x.getTransitionDomain(t)
	from, to := 0, len(x.chart.nodes)-1
	if domain >= 0 {
		from, to = domain+1, x.chart.nodes[domain].last
	}
	for i := x.configuration.next(from); i >= 0 && i <= to; i = x.configuration.next(i + 1) {
		exit.add(i)
	}
	return exit
}

// getTransitionDomain returns the state within which a transition acts: the source, if the
// transition is internal, else the least common ancestor of source and targets, which may be
// a <parallel> as in XState; -1 if the root itself is re-entered.
func (x *interpreter[C]) getTransitionDomain(t *transition[C]) int {
	targets := x.getEffectiveTargetStates(t.targets, nil)
	if !t.reenter {
		internal := true
		for _, target := range targets {
			internal = internal && (target == t.source || x.chart.isDescendant(target, t.source))
		}
		if internal {
			return t.source
		}
	}
	return x.findLCCA(t.source, targets)
}

// findLCCA returns the nearest proper ancestor of the source that contains all targets.
func (x *interpreter[C]) findLCCA(source int, targets []int) int {
	ancestor := x.chart.nodes[source].parent
	for ancestor >= 0 {
		common := true
		for _, target := range targets {
			common = common && x.chart.isDescendant(target, ancestor)
		}
		if common {
			return ancestor
		}
		ancestor = x.chart.nodes[ancestor].parent
	}
	return -1
}

// getEffectiveTargetStates replaces history states by what they recorded, or else by their
// default.
func (x *interpreter[C]) getEffectiveTargetStates(targets []int, into []int) []int {
	for _, target := range targets {
		n := &x.chart.nodes[target]
		if n.kind != history {
			into = append(into, target)
		} else if recorded, ok := x.history[target]; ok {
			for i := recorded.next(0); i >= 0; i = recorded.next(i + 1) {
				into = append(into, i)
			}
		} else {
			into = x.getEffectiveTargetStates(n.initial, into)
		}
	}
	return into
}

// raise puts an event at the end of the internal queue.
func (x *interpreter[C]) raise(event Event) {
	event.At = x.event.At
	x.internalQueue = append(x.internalQueue, event)
}

// run runs actions in order, up to one that fails.
func (x *interpreter[C]) run(actions []Action[C], state int) error {
	for i := range actions {
		x.running = code{"action", actions[i].Name, x.chart.nodes[state].path}
		if err := actions[i].run(x); err != nil {
			return x.executionError(x.fail(err))
		}
	}
	return nil
}

func (x *interpreter[C]) fail(err error) *StepError {
	named := strings.TrimSuffix(x.running.what+" "+x.running.name, " ")
	return &StepError{Chart: x.chart.id, State: x.running.state, Event: x.event.Type, Code: named, Err: err}
}

func contains[C any](transitions []*transition[C], t *transition[C]) bool {
	for _, other := range transitions {
		if other == t {
			return true
		}
	}
	return false
}
