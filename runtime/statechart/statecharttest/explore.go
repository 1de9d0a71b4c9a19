package statecharttest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// ByValue is an Identity that compares only values. It keeps the number of paths small if the context has an unbounded
// counter. It misses states that need another context, because the first path to a value stands for all others.
func ByValue[C any](s statechart.Snapshot[C]) string { return string(s.Value()) }

// ByContext is the default Identity. It compares value, context, recorded history, deferred events, and the names of
// children, services and timers. Timers are in the order of their deadlines. It omits times and IDs, because they
// differ between paths. A chart that compares deadlines needs an Identity with more details.
func ByContext[C any](s statechart.Snapshot[C]) string {
	stored, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("marshalling a snapshot that a step led to: %v", err)) // identify has marshalled it before
	}
	var identity struct {
		Value    json.RawMessage     `json:"value"`
		Context  json.RawMessage     `json:"context"`
		History  map[string][]string `json:"historyValue"`
		Deferred json.RawMessage     `json:"deferred"`
		Children []string            `json:"-"`
		Services []string            `json:"-"`
		Timers   []string            `json:"-"`
	}
	if err := json.Unmarshal(stored, &identity); err != nil {
		panic(fmt.Sprintf("reading a snapshot back: %v", err))
	}
	for _, service := range s.Services {
		identity.Services = append(identity.Services, service.ID)
	}
	for _, child := range s.Children {
		identity.Children = append(identity.Children, child.ID+" "+child.Machine)
	}
	for _, timer := range byDeadline(s.Timers) {
		identity.Timers = append(identity.Timers, timerName(timer)+string(timer.Event))
	}
	text, err := json.Marshal([]any{identity.Value, identity.Context, identity.History, identity.Deferred, identity.Services, identity.Children, identity.Timers})
	if err != nil {
		panic(fmt.Sprintf("marshalling an identity: %v", err))
	}
	return string(text)
}

// byDeadline returns the timers in firing order.
func byDeadline(timers []statechart.Timer) []statechart.Timer {
	timers = slices.Clone(timers)
	slices.SortStableFunc(timers, func(a, b statechart.Timer) int { return a.At.Compare(b.At) })
	return timers
}

// timerName returns "queued after pick_up" or, for a delayed event, "delayed REMIND".
func timerName(timer statechart.Timer) string {
	if timer.Event != nil {
		return "delayed " + timer.After
	}
	name := timer.State
	if name == "" {
		name = "(chart)"
	}
	return name + " after " + timer.After
}

// explorer finds the paths of a chart. Each step starts from the snapshot at the end of its path. Identities only
// decide whether a state was visited before.
type explorer[C any] struct {
	chart      *statechart.Chart[C]
	config     PathConfig[C]
	stepper    *statechart.Stepper[C]
	microsteps []statechart.Microstep
}

func newExplorer[C any](chart *statechart.Chart[C], config PathConfig[C]) *explorer[C] {
	x := &explorer[C]{chart: chart, config: config.withDefaults(chart), stepper: chart.Stepper()}
	x.stepper.OnMicrostep = func(m statechart.Microstep) { x.microsteps = append(x.microsteps, m) }
	return x
}

// paths converts each visit to the path that ends at the visit.
func (x *explorer[C]) paths(found []*visit[C], err error) ([]Path[C], error) {
	if err != nil {
		return nil, err
	}
	paths := make([]Path[C], 0, len(found))
	for _, v := range found {
		paths = append(paths, v.path())
	}
	return paths, nil
}

// shortest searches breadth first. If the function `each` is not nil, it receives every tried step, including steps to
// known states.
func (x *explorer[C]) shortest(each func(*visit[C])) ([]*visit[C], error) {
	start, err := x.start()
	if err != nil {
		return nil, err
	}
	if each != nil {
		each(start)
	}
	seen := map[string]bool{start.identity: true}
	found := []*visit[C]{start}
	for i := 0; i < len(found); i++ {
		following, err := x.following(found[i])
		if err != nil {
			return nil, err
		}
		for _, v := range following {
			if each != nil {
				each(v)
			}
			if seen[v.identity] {
				continue
			}
			seen[v.identity] = true
			if found, err = x.keep(found, v); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// simple searches depth first.
func (x *explorer[C]) simple() ([]*visit[C], error) {
	start, err := x.start()
	if err != nil {
		return nil, err
	}
	found := []*visit[C]{start}
	var search func(*visit[C]) error
	search = func(from *visit[C]) error {
		following, err := x.following(from)
		if err != nil {
			return err
		}
		for _, v := range following {
			if v.repeats() {
				continue
			}
			if found, err = x.keep(found, v); err != nil {
				return err
			}
			if err := search(v); err != nil {
				return err
			}
		}
		return nil
	}
	return found, search(start)
}

// repeats reports whether the path has visited this state before.
func (v *visit[C]) repeats() bool {
	for before := v.previous; before != nil; before = before.previous {
		if before.identity == v.identity {
			return true
		}
	}
	return false
}

// keep appends a visit to the found visits, and marks its predecessor as extended. It fails beyond the limits.
func (x *explorer[C]) keep(found []*visit[C], v *visit[C]) ([]*visit[C], error) {
	const advice = "try fewer events, StopWhen or another Identity, or raise the limit"
	if len(found) >= x.config.PathsMax {
		return nil, fmt.Errorf("exploring chart %s: %w: more than %d (PathConfig.PathsMax); %s; the first path beyond the limit is\n%s",
			x.chart.ID(), ErrPathLimit, x.config.PathsMax, advice, v.path())
	}
	if v.steps > x.config.StepsMax {
		return nil, fmt.Errorf("exploring chart %s: %w: one takes more than %d steps (PathConfig.StepsMax); %s; it is\n%s",
			x.chart.ID(), ErrPathLimit, x.config.StepsMax, advice, v.path())
	}
	v.previous.extended = true
	return append(found, v), nil
}

func (x *explorer[C]) start() (*visit[C], error) {
	x.microsteps = nil
	at := x.config.Start.At
	snapshot, effects, err := x.stepper.Start(statechart.Start{Instance: x.config.Start.Instance, At: at, Input: x.config.Start.Input})
	if err != nil {
		return nil, fmt.Errorf("exploring chart %s: starting: %w", x.chart.ID(), err)
	}
	v := &visit[C]{now: at, step: PathStep[C]{Event: statechart.Event{At: at}, Snapshot: snapshot, Effects: effects, Microsteps: x.microsteps}}
	return v, x.identify(v)
}

// choice is a possible next step.
type choice struct {
	via   string
	event statechart.Event
}

// choice returns the step in which the service or the child has this outcome. `event` is the event of the step.
func (o Outcome) choice(event statechart.Event) choice {
	if o.Name == "" {
		return choice{event.Type, event}
	}
	return choice{event.Type + ", " + o.Name, event}
}

// following returns the possible next visits, in order.
func (x *explorer[C]) following(from *visit[C]) ([]*visit[C], error) {
	snapshot := from.step.Snapshot
	if snapshot.Status != statechart.Active || x.config.StopWhen != nil && x.config.StopWhen(snapshot) {
		return nil, nil
	}
	choices, err := x.choices(from)
	if err != nil {
		return nil, x.failed(from, err)
	}
	var following []*visit[C]
	for _, c := range choices {
		next := snapshot
		x.microsteps = nil
		effects, handled, err := x.stepper.Step(&next, &c.event)
		if err != nil {
			return nil, x.failed(from, fmt.Errorf("%s: %w", c.via, err))
		}
		if !handled {
			continue
		}
		v := &visit[C]{
			previous: from, steps: from.steps + 1, now: c.event.At,
			step: PathStep[C]{
				Via: c.via, Event: c.event, From: strings.Join(snapshot.State(), ", "),
				Snapshot: next, Effects: effects, Microsteps: x.microsteps,
			},
		}
		if err := x.identify(v); err != nil {
			return nil, err
		}
		following = append(following, v)
	}
	return following, nil
}

func (x *explorer[C]) failed(from *visit[C], err error) error {
	return fmt.Errorf("exploring chart %s: %w; the path so far is\n%s", x.chart.ID(), err, from.path())
}

func (x *explorer[C]) identify(v *visit[C]) error {
	if _, err := json.Marshal(v.step.Snapshot); err != nil {
		return x.failed(v, err)
	}
	v.identity = x.config.Identity(v.step.Snapshot)
	return nil
}

// choices returns the possible steps at the end of a path.
func (x *explorer[C]) choices(from *visit[C]) (choices []choice, err error) {
	snapshot := from.step.Snapshot
	if snapshot.Settled() {
		events := x.config.Events
		if x.config.EventsIn != nil {
			events = slices.Concat(events, x.config.EventsIn(snapshot))
		}
		for _, event := range events {
			decoded, err := x.decode(event)
			if err != nil {
				return nil, fmt.Errorf("trying the event %q, see PathConfig.Events: %w", event.Type, err)
			}
			name := event.Name
			if name == "" {
				name = event.Type
			}
			choices = append(choices, choice{name, decoded})
		}
		for _, child := range snapshot.Children {
			if x.config.ChildOutcomes == nil {
				break
			}
			for _, outcome := range x.config.ChildOutcomes(child) {
				event, err := childEnd(child, outcome.Result, outcome.Err)
				if err != nil {
					return nil, fmt.Errorf("ending child %s, see PathConfig.ChildOutcomes: %w", child.ID, err)
				}
				choices = append(choices, outcome.choice(event))
			}
		}
	}
	for _, invocation := range snapshot.Services {
		for _, outcome := range x.config.Outcomes(invocation) {
			event, err := x.end(snapshot, invocation, outcome)
			if err != nil {
				return nil, err
			}
			choices = append(choices, outcome.choice(event))
		}
	}
	for i := range choices {
		choices[i].event.At = from.now
	}
	if timers := byDeadline(snapshot.Timers); len(timers) > 0 {
		choices = append(choices, choice{timerName(timers[0]), statechart.Event{
			Type: statechart.TimerEvent, Timer: timers[0].ID, At: later(from.now, timers[0].At),
		}})
	}
	return choices, nil
}

func (x *explorer[C]) decode(event Event) (statechart.Event, error) {
	body, err := encode(event.Type, event.Payload)
	if err != nil {
		return statechart.Event{}, err
	}
	return x.chart.Decode([]byte(body))
}

// end returns the event that ends an invocation.
func (x *explorer[C]) end(snapshot statechart.Snapshot[C], invocation statechart.Invocation, outcome Outcome) (statechart.Event, error) {
	invoke, err := x.chart.Service(invocation)
	if err != nil {
		return statechart.Event{}, err
	}
	invocation.Attempt = 1
	result, failure := outcome.Result, outcome.Err
	if result == nil && failure == nil {
		result, failure = x.call(invoke.Service, snapshot.Context, invocation)
	}
	if failure == nil {
		return invocation.Done(result), nil
	}
	if !statechart.IsPermanent(failure) {
		invocation.Attempt = max(invoke.Retry.Attempts, 1)
	}
	return invocation.Failed(failure), nil
}

// call calls a service. As on a host, a panic is a failure.
func (x *explorer[C]) call(service statechart.Service[C], c C, invocation statechart.Invocation) (result any, failure error) {
	defer func() {
		if r := recover(); r != nil {
			result, failure = nil, statechart.Panicked(r)
		}
	}()
	instance := x.config.Start.Instance
	return service.Run(context.Background(), c, statechart.Call{Instance: instance, Key: instance + "/" + invocation.Key, Attempt: 1})
}
