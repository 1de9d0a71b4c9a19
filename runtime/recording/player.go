package recording

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// player runs the steps of one instance on the machines of a build. It calls no service.
type player struct {
	machines *durable.Machines
	id       instances.ID
	machine  durable.Machine
	instance durable.Instance
	bytesMax int // of a snapshot
}

// newPlayer restores the base of the run. A run without a base starts with its first step.
func newPlayer(machines *durable.Machines, run Run, snapshotBytesMax int) (p *player, err error) {
	defer recovered(&err)
	p = &player{machines: machines, bytesMax: cmp.Or(snapshotBytesMax, instances.SnapshotBytesMax)}
	if p.id, err = instances.ParseID(run.Instance); err != nil {
		return nil, err
	}
	if p.machine, err = machines.Lookup(p.id.Machine); err != nil || run.Base == nil {
		return p, err
	}
	if p.machine, p.instance, err = machines.Restore(instances.Record{Instance: p.id, Snapshot: run.Base}); err == nil {
		p.instance.Limit(p.bytesMax)
	}
	return p, err
}

// recovered turns a panic of the machine's code into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = statechart.Panicked(r)
	}
}

// state returns the active atomic states, or nil before the start.
func (p *player) state() []string {
	if p.instance == nil {
		return nil
	}
	return p.instance.State()
}

// play applies the event. After an error, the instance is unchanged.
func (p *player) play(event Event) (outcome Outcome, handled bool, err error) {
	defer recovered(&err)
	before := p.instance
	var effects []statechart.Effect
	var next durable.Instance
	switch {
	case event.Type == startStep:
		var input any
		if input, err = p.machine.DecodeInput(event.Payload); err == nil {
			next, effects, err = p.machine.Start(statechart.Start{Instance: p.id.String(), At: event.At, Input: input})
		}
		if handled = err == nil; handled {
			next.Limit(p.bytesMax)
		}
	case before == nil:
		err = fmt.Errorf("%w: expected the start of the instance as the first step, got %q", ErrFormat, event.Type)
	case event.Type == stopStep:
		next, effects, handled, err = before.Stop(event.At)
	default:
		released := p.release(event)
		var applied statechart.Event
		if applied, err = p.event(event); err == nil {
			next, effects, handled, err = p.instance.Apply(applied)
		}
		effects = slices.Concat(released, effects)
	}
	if err != nil {
		p.instance = before
		return Outcome{}, false, err
	}
	p.instance = next
	snapshot, err := next.Snapshot()
	var stored struct {
		Output json.RawMessage `json:"output"`
	}
	if err == nil {
		err = json.Unmarshal(snapshot, &stored)
	}
	if err != nil {
		return Outcome{}, false, err
	}
	outcome = Outcome{State: next.State(), Status: next.Status(), Output: stored.Output, Effects: named(effects, before, next)}
	outcome.begin(event, before, next)
	return outcome, handled, nil
}

// begin lists the services and timers that begin between two states of the instance, and the timers that end.
func (o *Outcome) begin(event Event, before, after durable.Instance) {
	var services []statechart.Invocation
	var timers []statechart.Timer
	if before != nil {
		services, timers = before.Invocations(), before.Timers()
	}
	for _, invocation := range after.Invocations() {
		if slices.ContainsFunc(services, func(i statechart.Invocation) bool { return i.Key == invocation.Key }) {
			continue
		}
		name := invocation.ID
		if invocation.Service != name {
			name += " (" + invocation.Service + ")"
		}
		o.Services = append(o.Services, name)
	}
	has := func(timers []statechart.Timer, id string) bool {
		return slices.ContainsFunc(timers, func(t statechart.Timer) bool { return t.ID == id })
	}
	for _, timer := range after.Timers() {
		if !has(timers, timer.ID) {
			o.Timers = append(o.Timers, Timer{timerName(timer), timer.At, timer.Event})
		}
	}
	fired := event.Timer != ""
	for _, timer := range timers {
		if fired && "after "+timer.After == event.Type && (event.Owner == "" || event.Owner == timer.State) && !has(after.Timers(), timer.ID) {
			fired = false
		} else if !has(after.Timers(), timer.ID) {
			o.Ended = append(o.Ended, timerName(timer))
		}
	}
}

// timerName returns the name of a timer in outcomes.
func timerName(t statechart.Timer) string { return strings.TrimPrefix(t.State+" "+t.After, " ") }

// owner returns the path of the state whose timer fires.
func (p *player) owner(event Event) string {
	if p.instance == nil || event.Timer == "" {
		return ""
	}
	timers := p.instance.Timers()
	if i := slices.IndexFunc(timers, func(t statechart.Timer) bool { return t.ID == event.Timer }); i >= 0 {
		return timers[i].State
	}
	return ""
}

// release replays the deferred events that this build handles, as the loop does before each event.
func (p *player) release(before Event) []statechart.Effect {
	if before.Type == replayStep || !p.instance.Defers() {
		return nil
	}
	next, effects, handled, err := p.instance.Apply(statechart.Event{Type: statechart.TimerEvent, At: before.At})
	if err != nil || !handled {
		return nil
	}
	p.instance = next
	return effects
}

// errUnawaited is wrapped by the errors of steps for which the instance does not wait.
var errUnawaited = errors.New("the instance does not wait for it")

// event returns the event for the chart. It finds timers, services and children by their names, because a key
// depends on the number of effects before it.
func (p *player) event(event Event) (statechart.Event, error) {
	if event.Type == replayStep { // A timer event without a timer only replays deferred events.
		return statechart.Event{Type: statechart.TimerEvent, At: event.At}, nil
	}
	if event.Timer != "" {
		return p.timer(event)
	}
	if event.Key != "" {
		made, err := p.end(event)
		made.At = event.At
		return made, err
	}
	if event.Body == nil {
		return statechart.Event{}, fmt.Errorf("%w: expected the event %q to have a body", ErrFormat, event.Type)
	}
	decoded, err := p.machine.Decode(event.Body)
	decoded.ID, decoded.At = event.ID, event.At
	return decoded, err
}

// timer returns the event of a timer.
func (p *player) timer(event Event) (statechart.Event, error) {
	timers := p.instance.Timers()
	named := func(t statechart.Timer) bool { return "after "+t.After == event.Type }
	i := slices.IndexFunc(timers, func(t statechart.Timer) bool { return event.Owner != "" && t.State == event.Owner && named(t) })
	if i < 0 {
		i = slices.IndexFunc(timers, func(t statechart.Timer) bool { return t.ID == event.Timer && named(t) })
	}
	if i < 0 {
		i = slices.IndexFunc(timers, named)
	}
	if i < 0 {
		return statechart.Event{}, fmt.Errorf("timer %q: %w", event.Type, errUnawaited)
	}
	return statechart.Event{Type: statechart.TimerEvent, Timer: timers[i].ID, At: event.At}, nil
}

// Prefixes of the types of events that report the end of a service or child.
const (
	doneService  = "done.invoke."
	errorService = "error.invoke."
	doneChild    = "done.child."
	errorChild   = "error.child."
)

// invocation returns the running service with the name and the ID. Without such a service, it looks for the name alone, then
// for the ID alone: a default ID depends on the order of a state's services.
func (p *player) invocation(id, service string) (found statechart.Invocation) {
	for _, i := range p.instance.Invocations() {
		if i.ID == id && i.Service == service {
			return i
		}
		if i.Service == service || i.ID == id && found.Key == "" {
			found = i
		}
	}
	return found
}

// endOf splits the type of an event that reports the end of a service or child into its prefix and the ID.
func endOf(event string) (prefix, id string, ok bool) {
	for _, prefix := range []string{doneService, errorService, doneChild, errorChild} {
		if id, ok := strings.CutPrefix(event, prefix); ok {
			return prefix, id, true
		}
	}
	return "", "", false
}

// service returns the name of the service whose end the event reports.
func (p *player) service(event Event) string {
	prefix, id, _ := endOf(event.Type)
	if p.instance == nil || event.Key == "" || prefix != doneService && prefix != errorService {
		return ""
	}
	return p.invocation(id, "").Service
}

// end returns the event that reports the end of a service or child.
func (p *player) end(event Event) (statechart.Event, error) {
	prefix, id, ok := endOf(event.Type)
	if !ok {
		return statechart.Event{}, fmt.Errorf("%w: expected the end of a service or child, got %q", ErrFormat, event.Type)
	}
	key := ""
	if prefix == doneService || prefix == errorService {
		ended := p.invocation(id, event.Service)
		id, key = ended.ID, ended.Key
	} else if i := slices.IndexFunc(p.instance.Children(), func(c statechart.ChildRef) bool { return c.ID == id }); i >= 0 {
		key = p.instance.Children()[i].Key
	}
	if key == "" {
		return statechart.Event{}, fmt.Errorf("%s: %w", event.Type, errUnawaited)
	}
	made := statechart.Event{Type: prefix + id, Invocation: key, Payload: event.Payload}
	var err error
	switch {
	case prefix == errorService:
		made.Payload, err = decode[statechart.ServiceError](event.Payload)
	case prefix == errorChild:
		made.Payload, err = decode[statechart.ChildError](event.Payload)
	case prefix == doneService && event.Payload == nil:
		made.Payload = nil
	case prefix == doneChild && string(event.Payload) == "null":
		made.Payload = json.RawMessage(nil) // The child has no output.
	}
	return made, err
}

func decode[T any](text json.RawMessage) (value T, err error) {
	if err = json.Unmarshal(text, &value); err != nil {
		err = fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return value, err
}

// named returns the effects with names in place of the IDs of timers and children, and without log messages.
func named(effects []statechart.Effect, before, after durable.Instance) []statechart.Effect {
	var compared []statechart.Effect
	children := after.Children()
	if before != nil {
		children = slices.Concat(children, before.Children())
	}
	for _, effect := range effects {
		if effect.Kind == statechart.LogMessage {
			continue
		}
		timer, child := effect.Timer, effect.Child
		effect.ID, effect.Timer, effect.Child = "", "", ""
		for _, other := range after.Timers() {
			if other.ID == timer {
				effect.Timer = timerName(other)
			}
		}
		for _, other := range children {
			if other.Key == child {
				effect.Child = other.ID
			}
		}
		if !effect.At.IsZero() {
			effect.At = effect.At.Round(time.Millisecond)
		}
		compared = append(compared, effect)
	}
	return compared
}
