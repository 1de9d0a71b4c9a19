package statechart

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// nextID returns an ID that is unique among timers, invocations and effects of the instance.
func (x *interpreter) nextID() string {
	id := derivedID(x.snapshot.Steps+1, x.position)
	x.position++
	return id
}

func derivedID(step, position int64) string {
	return strconv.FormatInt(step, 10) + "." + strconv.FormatInt(position, 10)
}

// effect adds an effect to the step.
func (x *interpreter) effect(e Effect) error {
	if len(x.effects)-x.parked >= EffectsMax {
		return fmt.Errorf("%w: more than %d effects in one macrostep (EffectsMax)", ErrLimit, EffectsMax)
	}
	if e.ID == "" {
		e.ID = x.nextID()
	}
	x.effects = append(x.effects, e)
	return nil
}

func (x *interpreter) invoke(n *node) {
	for k := range n.invokes {
		x.writable().Services = append(slices.Clip(x.snapshot.Services), Invocation{
			ID: n.invokes[k].id, Key: x.nextID(), State: n.path,
			Service: n.invokes[k].service, state: n.index, index: k,
		})
	}
}

// willInvoke records that the services of a state start at the end of the macrostep.
func (x *interpreter) willInvoke(n *node) {
	at, _ := slices.BinarySearch(x.statesToInvoke, n.index)
	x.statesToInvoke = slices.Insert(x.statesToInvoke, at, n.index)
}

// cancelInvoke ends the services of a state that is left, or prevents their start.
func (x *interpreter) cancelInvoke(n *node) {
	x.statesToInvoke = slices.DeleteFunc(x.statesToInvoke, func(i int) bool { return i == n.index })
	x.writable().Services = slices.DeleteFunc(slices.Clone(x.snapshot.Services), func(i Invocation) bool { return i.state == n.index })
}

// startTimers starts the timers of a state that is entered.
func (x *interpreter) startTimers(n *node) error {
	for k := range n.timers {
		if err := x.checkTimers(); err != nil {
			return err
		}
		x.runs(delayCode, n.timers[k].id, n.index)
		at := n.timers[k].due(x.context, *x.event).UTC().Truncate(time.Millisecond)
		if !storable(at) {
			return x.fail(fmt.Errorf("expected a deadline in the years 0 to 9999, got %v", at))
		}
		timer := Timer{ID: x.nextID(), State: n.path, After: n.timers[k].id, At: at, state: n.index, index: k}
		x.writable().Timers = append(slices.Clip(x.snapshot.Timers), timer)
		if n.timers[k].inProcess {
			continue
		}
		if err := x.effect(Effect{ID: timer.ID, Kind: Schedule, Timer: timer.ID, At: timer.At}); err != nil {
			return x.fail(err)
		}
	}
	return nil
}

// storable reports whether a deadline has a four-digit year, which its JSON form requires.
func storable(at time.Time) bool { return at.Year() >= 0 && at.Year() <= 9999 }

func (x *interpreter) checkTimers() error {
	if len(x.snapshot.Timers) >= TimersMax {
		return fmt.Errorf("%w: chart %s: more than %d timers (TimersMax)", ErrLimit, x.chart.id, TimersMax)
	}
	return nil
}

// sendAfter starts a timer that delivers an event to the chart.
func (x *interpreter) sendAfter(id, typ string, delay time.Duration, payload any) error {
	if delay < 0 {
		return fmt.Errorf("sending event %q: expected a delay from 0, got %v", typ, delay)
	}
	body, err := encodeEvent(typ, payload)
	if err != nil {
		return err
	}
	if _, err := x.chart.sent(body); err != nil {
		return fmt.Errorf("sending event %q: %w", typ, err)
	}
	if err := x.checkTimers(); err != nil {
		return err
	}
	at := x.event.At.Add(delay).UTC().Truncate(time.Millisecond)
	timer := Timer{ID: x.nextID(), After: typ, At: at, Event: body, Send: id, state: -1}
	x.writable().Timers = append(slices.Clip(x.snapshot.Timers), timer)
	return x.effect(Effect{ID: timer.ID, Kind: Schedule, Timer: timer.ID, At: timer.At})
}

// cancel drops the timers of events sent with the ID.
func (x *interpreter) cancel(id string) {
	x.dropTimers(func(t Timer) bool { return id != "" && t.Send == id })
}

func (x *interpreter) cancelTimers(n *node) {
	x.dropTimers(func(t Timer) bool { return t.state == n.index })
}

// dropTimers drops the selected timers. For timers started in this step, it also removes their effects.
func (x *interpreter) dropTimers(which func(Timer) bool) {
	x.effects = slices.DeleteFunc(x.effects, func(e Effect) bool {
		return e.Kind == Schedule && slices.ContainsFunc(x.snapshot.Timers, func(t Timer) bool { return t.ID == e.Timer && which(t) })
	})
	x.writable().Timers = slices.DeleteFunc(slices.Clone(x.snapshot.Timers), which)
}
