package statelesshost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/statechart"
)

// errNoStep is returned by functions that need the context of a guard or an action, if they get another context.
var errNoStep = errors.New("expected the context.Context that the guard or action was called with, got one without an instance")

// errStepOver is returned by functions that are called with the context of a guard or an action after the step has
// ended. The step cannot store their requests.
var errStepOver = errors.New("expected a call during the step, got one after its end: call it before the action returns, or send the instance an event from outside")

// errNested fails a step in which a transition began during another transition.
var errNested = errors.New("a trigger was fired during a transition: fire it with statelesshost.Fire, " +
	"which waits until the transition ends (a machine from Config.Build may also use FiringQueued mode)")

// NewStateMachine returns a stateless machine for Config.Machine. Configure it like any other. It has no state of its
// own: State, Fire, CanFire and so on work only with the context of a guard or an action.
func NewStateMachine() *stateless.StateMachine {
	return stateless.NewStateMachineWithExternalStorage(load, store, stateless.FiringImmediate)
}

func load(ctx context.Context) (stateless.State, error) {
	s, err := stepOf(ctx)
	if err != nil {
		return nil, err
	}
	// An exit action that fires a trigger directly would leave its state again and again.
	if s.loads++; s.loads > loadsMax {
		s.failure = errNested
		return nil, errNested
	}
	return s.state, nil
}

// loadsMax limits how often the code of a machine may read its state while one trigger is fired.
const loadsMax = 10 * statechart.MicrostepsMax

func store(ctx context.Context, state stateless.State) error {
	s, err := stepOf(ctx)
	if err != nil {
		return err
	}
	// Only the context of an action contains a transition. If such a context is used to store a state, the action has
	// fired a trigger itself.
	if stateless.GetTransition(ctx) != (stateless.Transition{}) {
		s.failure = errNested
		return errNested
	}
	s.state = state
	return nil
}

// step is one macrostep of one instance. It is a copy of the instance, and replaces the instance if the step succeeds.
// Guards and actions find the step in their context.
type step struct {
	// `of` is the Machine that takes the step.
	of    any
	event statechart.Event
	// state is the state that a shared machine stores. During a transition, it is already the new state, while the
	// field `at` still has the old one.
	state stateless.State
	// `at` is the index of the state after the last transition.
	at int
	// data is the *T of the instance.
	data   any
	timers []statechart.Timer
	steps  int64
	// sent decodes an event that the instance sends to itself.
	sent func(body []byte) (statechart.Event, error)

	queue    []firing
	firing   firing
	effects  []statechart.Effect
	position int64
	moves    int
	loads    int
	// failure fails the step, even if the machine ignores the error.
	failure error
	over    atomic.Bool // set once the step has ended; an action may have started a goroutine that reads it
}

// firing is a trigger with its arguments.
type firing struct {
	trigger stateless.Trigger
	args    []any
}

type stepKey struct{}

func (s *step) context() context.Context {
	return context.WithValue(context.Background(), stepKey{}, s)
}

// end ends the step. Its context is then useless, except for Data.
func (s *step) end() { s.over.Store(true) }

// stepOf returns the step that runs with the context.
func stepOf(ctx context.Context) (*step, error) {
	s, _ := ctx.Value(stepKey{}).(*step)
	switch {
	case s == nil:
		return nil, errNoStep
	case s.over.Load():
		return nil, errStepOver
	}
	return s, nil
}

// nextID derives an ID as charts do: from the count of steps and a position.
func (s *step) nextID() string {
	id := strconv.FormatInt(s.steps+1, 10) + "." + strconv.FormatInt(s.position, 10)
	s.position++
	return id
}

// effect adds an effect to the step.
func (s *step) effect(e statechart.Effect) error {
	if len(s.effects) >= statechart.EffectsMax {
		return fmt.Errorf("%w: more than %d effects in one macrostep (EffectsMax)", statechart.ErrLimit, statechart.EffectsMax)
	}
	if e.ID == "" {
		e.ID = s.nextID()
	}
	s.effects = append(s.effects, e)
	return nil
}

// start starts a timer. It sets the timer's ID and At.
func (s *step) start(timer statechart.Timer, delay time.Duration) error {
	if len(s.timers) >= statechart.TimersMax {
		return fmt.Errorf("%w: more than %d timers (TimersMax)", statechart.ErrLimit, statechart.TimersMax)
	}
	timer.ID, timer.At = s.nextID(), s.event.At.Add(delay).UTC().Truncate(time.Millisecond)
	if year := timer.At.Year(); year < 0 || year > 9999 {
		return fmt.Errorf("expected a deadline in the years 0 to 9999, got %v", timer.At)
	}
	s.timers = append(slices.Clip(s.timers), timer)
	return s.effect(statechart.Effect{ID: timer.ID, Kind: statechart.Schedule, Timer: timer.ID, At: timer.At})
}

// drop ends the selected timers. If this step started one of them, drop also removes its effect.
func (s *step) drop(which func(statechart.Timer) bool) {
	s.effects = slices.DeleteFunc(s.effects, func(e statechart.Effect) bool {
		return e.Kind == statechart.Schedule && slices.ContainsFunc(s.timers, func(t statechart.Timer) bool { return t.ID == e.Timer && which(t) })
	})
	s.timers = slices.DeleteFunc(slices.Clone(s.timers), which)
}

// encode encodes an event in the JSON form that Decode reads.
func encode(typ string, payload any) (json.RawMessage, error) {
	body, err := statechart.EncodeEvent(typ, payload)
	if err == nil && len(body) > eventBytesMax {
		err = fmt.Errorf("event %q has %d bytes, the limit is %d (instances.EventBytesMax)", typ, len(body), eventBytesMax)
	}
	return body, err
}
