package simulate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// This file draws random charts from a seed. They use every feature with effects outside an instance, but never run
// endlessly. A chart's actions leave a trace in its context, so instances with equal contexts have taken the same path.

type (
	chartState  = statechart.State[trail]
	chartOn     = statechart.Transition[trail]
	chartAction = statechart.Action[trail]
	chartAfter  = statechart.After[trail]
	chartInvoke = statechart.Invoke[trail]
)

// trail is the context of a drawn chart.
type trail struct {
	// Digest is a digest of all actions in order, and Count is their number.
	Digest string `json:"digest"`
	Count  int    `json:"count"`
	// Timers, Sends and Kids count actions that are limited because they could be endless. Depth counts the
	// ancestors.
	Timers int `json:"timers"`
	Sends  int `json:"sends"`
	Kids   int `json:"kids"`
	Depth  int `json:"depth"`
	// Migrated is one more than the Count at the migration; 0 if there was no migration.
	Migrated int `json:"migrated,omitempty"`
	// Latest means that the instance is on the new version.
	Latest bool `json:"latest,omitempty"`
	// Pad makes the item large.
	Pad string `json:"pad,omitempty"`
}

const (
	timersLimit = 6
	sendsLimit  = 5
)

// serial is the payload of events from outside.
type serial struct {
	Serial string `json:"serial"`
}

// result is the result of services.
type result struct {
	Key string `json:"key"`
}

// failing is the serial of an event that the first version of a chart fails on. huge is the serial of an event that
// makes the context larger than snapshotBytesMax.
const (
	failing          = "failing"
	huge             = "huge"
	snapshotBytesMax = 8 << 10
)

var outsideEvents = []string{"a", "b", "c", "d"}

// waitNames are the names that workflows wait under.
var waitNames = []string{"w", "v"}

// mark returns an action that leaves a trace.
func mark(name string) chartAction {
	return statechart.TryAssign(name, func(c *trail, e statechart.Event) error {
		c.record(name + " on " + e.Type)
		switch payload := e.Payload.(type) {
		case serial:
			if payload.Serial == failing && !c.Latest {
				return errors.New("this event is one that the chart fails on")
			}
			if payload.Serial == huge {
				c.Pad = strings.Repeat("x", snapshotBytesMax)
			}
			c.record(payload.Serial)
		case result:
			c.record(payload.Key)
		case statechart.ExecutionEnded:
			c.record(fmt.Sprint(payload.Workflow, payload.Status, string(payload.Output), payload.Error))
		case json.RawMessage: // the output of a child
			c.record(string(payload))
		}
		return nil
	})
}

func (c *trail) record(text string) {
	c.Digest = fmt.Sprintf("%016x", digestOf(c.Digest+text))
	c.Count++
}

// drawer draws a chart.
type drawer struct {
	*rand.Rand
	lab   *lab
	id    string
	peers []string
	// family is set if the chart has children. `kid` is set if the chart itself is the chart of children.
	family, kid bool
	// flows is set if the chart starts workflows.
	flows bool
	// version is the chart's version: firstVersion or newVersion. `renamed` is the number of the state that has another
	// name in newVersion.
	version, renamed int
	// count is the number of states. `services` and `children` are the numbers of states with a service or a child.
	count, services, children int
	// paths holds the possible targets of transitions. `all` holds the paths of all states.
	paths, all []string
	// dropped are the services that the new version removes. In their states, the new version waits for events.
	dropped []string
	// preceded are the paths of the states in which the new version puts a service before the others. This changes the
	// default IDs of the others.
	preceded []string
	// retreats maps the path of a state with services to a sibling state. A new version may make the instances in such
	// a state wait in the sibling.
	retreats map[string]string
}

// drawMachine returns a function that hosts a random chart. The same seed draws the same chart.
func drawMachine(id string, seed uint64, peers []string, family, flows bool) func(*lab, int) durable.Machine {
	return func(l *lab, version int) durable.Machine {
		for try := uint64(0); ; try++ {
			d := &drawer{Rand: rand.New(rand.NewPCG(seed, try)), lab: l, id: id, peers: peers, family: family, flows: flows, kid: id == kidMachine, version: version, retreats: map[string]string{}}
			d.renamed = 1 + d.IntN(4)
			def := d.definition()
			chart, err := statechart.Compile(def)
			if err == nil && version == newVersion {
				d.release(def.States)
				chart, err = statechart.Compile(def)
			}
			if err == nil {
				return observed{Machine: durable.Host(chart, durable.MachineConfig{Retention: l.plan.retention}), lab: l}
			}
			if try == 100 {
				panic(fmt.Sprintf("no chart can be drawn from the seed %d: %v", seed, err))
			}
		}
	}
}

func (d *drawer) one(of int) bool { return d.IntN(of) == 0 }

func (d *drawer) definition() statechart.Definition[trail] {
	payloads := statechart.Payloads{"later": statechart.PayloadOf[serial](), "hint": statechart.NoPayload(), "told": statechart.PayloadOf[serial](), durable.AliasTaken: statechart.NoPayload(), durable.TokenExpired: statechart.NoPayload()}
	payloads[statechart.CommunicationError] = statechart.PayloadOf[statechart.CommunicationFailure]()
	payloads[flowEnded] = statechart.PayloadOf[statechart.ExecutionEnded]()
	for _, typ := range outsideEvents {
		payloads[typ] = statechart.PayloadOf[serial]()
	}
	def := statechart.Definition[trail]{
		ID: d.id, Version: d.version, Payloads: payloads,
		Context: func(statechart.Start) trail { return trail{Latest: d.version == newVersion} },
		On: []chartOn{
			{Event: "told", Actions: []chartAction{mark("told")}},
			{Event: durable.AliasTaken, Actions: []chartAction{mark("alias taken")}},
			{Event: durable.TokenExpired, Actions: []chartAction{mark("token expired")}},
			{Event: statechart.CommunicationError, Actions: []chartAction{mark("communication failed")}},
			{Event: flowEnded, Actions: []chartAction{mark("flow ended")}},
			// This transition is never taken. It only declares answers to all names, because a chart refuses tasks
			// under names that it does not answer.
			{Event: "hint", Guard: statechart.If("never", func(trail) bool { return false }), Actions: []chartAction{
				statechart.Resolve(statechart.Resolution[trail]{Name: waitNames[0], Outcome: "never"}),
				statechart.Resolve(statechart.Resolution[trail]{Name: waitNames[1], Outcome: "never"}),
			}},
		},
	}
	top := 3 + d.IntN(4)
	for i := range top {
		def.States = append(def.States, d.state("", i, i == 0 || i == top-1, 0))
	}
	d.retreat("", def.States)
	def.Initial = def.States[d.IntN(2)].ID
	// Make every state reachable from anywhere.
	for _, path := range d.paths {
		def.On = append(def.On, chartOn{Event: "a", Target: "#" + path, Guard: d.sometimes(5), Actions: []chartAction{mark("to " + path)}})
	}
	if d.lab.plan.retention > 0 { // so that an instance can end while it has effects to perform
		for _, typ := range outsideEvents {
			def.On = append([]chartOn{{Event: typ, Target: "#end", Guard: d.sometimes(3), Actions: []chartAction{d.sendToPeer(1 + d.IntN(3))}}}, def.On...)
		}
	}
	if d.kid || d.lab.plan.retention > 0 || d.one(3) {
		def.States = append(def.States, chartState{ID: "end", Type: statechart.Final, Output: func(c trail, _ statechart.Event) any { return map[string]string{"digest": c.Digest} }})
		def.On = append(def.On, chartOn{Event: "d", Target: "#end", Guard: d.sometimes(4)})
	}
	if d.lab.plan.killsInARow && d.id == killerMachine {
		killer := chartState{ID: "killer"}
		d.serving(&killer, "#"+d.name(1))
		def.States = append(def.States, killer)
		for _, typ := range outsideEvents {
			def.On = append([]chartOn{{Event: typ, Target: "#killer", Guard: d.sometimes(2)}}, def.On...)
		}
	}
	if d.family {
		d.addFamily(&def)
	}
	if d.version > 1 {
		d.migrating(&def)
	}
	return def
}

// sometimes returns a guard that holds in one of `of` cases.
func (d *drawer) sometimes(of int) statechart.Guard[trail] {
	which := d.IntN(of)
	return statechart.If(fmt.Sprintf("%d of %d", which, of), func(c trail) bool { return c.Count%of == which })
}

// state draws a state. A safe state waits for events.
func (d *drawer) state(parent string, i int, safe bool, depth int) chartState {
	d.count++
	s := chartState{ID: d.name(d.count)}
	path := join(parent, s.ID)
	d.paths, d.all = append(d.paths, path), append(d.all, path)
	s.Entry, s.Exit = []chartAction{mark("+" + s.ID)}, []chartAction{mark("-" + s.ID)}
	switch kind := d.IntN(10); {
	case kind < 2 && depth < 2:
		for j := range 2 + d.IntN(2) {
			s.States = append(s.States, d.state(path, j, j == 0, depth+1))
		}
		d.retreat(path, s.States)
		s.Initial = s.States[0].ID
		if d.one(3) {
			s.States = append(s.States, chartState{ID: "h" + firstName(s.ID), Type: statechart.DeepHistory})
			d.paths = append(d.paths, path+".h"+firstName(s.ID))
		}
	case kind < 4 && depth < 2:
		s.Type = statechart.Parallel
		for range 2 {
			s.States = append(s.States, d.state(path, 0, true, depth+1))
		}
	case kind < 7 && !safe:
		d.working(&s)
		return s
	}
	if len(s.States) == 0 {
		s.Tags = []string{statechart.Settled}
	}
	d.waiting(&s)
	return s
}

// join returns the path of a state.
func join(parent, id string) string {
	if parent == "" {
		return id
	}
	return parent + "." + id
}

// retreat records, for each state with a service, a state of the new version in which its instances could wait. This is
// the first of the given states, unless that state has substates.
func (d *drawer) retreat(parent string, states []chartState) {
	for _, s := range states {
		if len(states[0].States) == 0 && (len(s.Invoke) > 0 || isSequence(s)) {
			d.retreats[join(parent, s.ID)] = join(parent, states[0].ID)
		}
	}
}

// isSequence reports whether a state runs services one after the other.
func isSequence(s chartState) bool {
	return len(s.States) > 0 && len(s.States[0].Invoke) > 0
}

// working makes a state run one service, or several in sequence.
func (d *drawer) working(s *chartState) {
	if d.one(2) {
		d.serving(s, "#"+d.name(1))
		return
	}
	count, path := 2+d.IntN(2), d.all[len(d.all)-1]
	for i := range count {
		d.count++
		d.all = append(d.all, path+"."+d.name(d.count))
		s.States = append(s.States, chartState{ID: d.name(d.count)})
		target := "#" + d.name(1)
		if i < count-1 {
			target = d.name(d.count + 1)
		}
		d.serving(&s.States[i], target)
	}
	s.Initial = s.States[0].ID
}

// serving makes a state run a service. When the service returns a result, the chart goes to the target.
func (d *drawer) serving(s *chartState, target string) {
	d.services++
	name := fmt.Sprintf("service%d", d.services)
	kind := serviceKind(d.IntN(int(serviceKinds)))
	invoke := chartInvoke{
		Service: statechart.ServiceFunc(name, func(ctx context.Context, _ trail, call statechart.Call) (result, error) {
			return d.lab.serve(ctx, kind, call)
		}),
		Timeout: 2*time.Second + time.Millisecond, // never equal to a delay, because a seed cannot decide the order of two events at one instant
		Retry:   statechart.RetryPolicy{Attempts: 1000, Interval: time.Second, IntervalMax: 20 * time.Second},
		OnDone:  []chartOn{{Target: target, Actions: []chartAction{mark(name + " done")}}},
		OnError: []chartOn{{Target: "#" + d.name(1), Actions: []chartAction{mark(name + " failed")}}},
	}
	if kind == alwaysFails || kind == hangs || kind == alwaysKills {
		invoke.Retry.Attempts = 1 + d.IntN(3)
	}
	if d.lab.plan.killsInARow && d.id == killerMachine {
		kind, invoke.Retry.Attempts = alwaysKills, 12+d.IntN(20)
	}
	s.Invoke = []chartInvoke{invoke}
	if path := d.all[len(d.all)-1]; d.services%2 == 1 && d.version == newVersion && s.ID != "killer" {
		d.preceded = append(d.preceded, path)
		before := func(_ context.Context, _ trail, call statechart.Call) (result, error) { return result{call.Key}, nil }
		ended := []chartOn{{Actions: []chartAction{mark("before " + name + " ended")}}}
		s.Invoke = []chartInvoke{{Service: statechart.ServiceFunc("before "+name, before), OnDone: ended, OnError: ended}, invoke}
	}
	if d.one(2) && d.version == newVersion {
		d.dropped = append(d.dropped, name)
		s.Invoke, s.Tags = nil, []string{statechart.Settled}
		s.On = []chartOn{{Event: "b", Target: target, Actions: []chartAction{mark(name + " is not needed")}}}
	}
	if d.one(2) {
		s.After = []chartAfter{{Delay: time.Duration(1+d.IntN(8)) * time.Second, Target: "#" + d.name(1), Actions: []chartAction{mark(name + " took too long")}}}
	}
}

// delays are the possible delays of drawn charts.
var delays = []time.Duration{time.Second, 20 * time.Second, 14 * time.Minute, 16 * time.Minute, 5 * time.Hour, 400 * 24 * time.Hour}

// waiting adds the events and timers of a waiting state.
func (d *drawer) waiting(s *chartState) {
	for _, typ := range outsideEvents {
		for d.one(2) {
			t := chartOn{Event: typ, Target: d.target(), Guard: d.guard(), Actions: d.actions(s.ID + " " + typ), Reenter: d.one(8)}
			if n := len(s.On); n == 0 || s.On[n-1].Event != typ || s.On[n-1].Guard.Name != "" { // A transition after an unguarded one is never taken.
				s.On = append(s.On, t)
			}
		}
	}
	s.On = append(s.On, chartOn{Event: "later", Target: d.target(), Actions: []chartAction{mark(s.ID + " later")}})
	if d.one(2) {
		delay := delays[d.IntN(len(delays))]
		if d.lab.plan.denies { // a timer that EventBridge Scheduler denies travels in hops of 15 minutes
			delay = min(delay, 40*24*time.Hour)
		}
		limited := statechart.If("timers left", func(c trail) bool { return c.Timers < timersLimit })
		s.After = append(s.After, chartAfter{Delay: delay, Target: d.target(), Guard: limited, Actions: []chartAction{
			statechart.Update("count timer", func(c *trail) { c.Timers++ }), mark(s.ID + " after"),
		}})
	}
	if d.one(6) {
		s.Defer = []string{"b"}
	}
	if d.one(6) {
		s.Always = []chartOn{{Target: d.target(), Guard: statechart.If("rarely", func(c trail) bool { return c.Count%11 == 7 && c.Timers < timersLimit }), Actions: []chartAction{
			statechart.Update("count always", func(c *trail) { c.Timers++ }), mark(s.ID + " always"),
		}}}
	}
	if d.family && !d.kid && d.one(4) {
		d.children++
		s.Children = []chartChild{d.child(fmt.Sprintf("child%d", d.children))}
	}
	for _, name := range waitNames {
		switch d.IntN(8) {
		case 0:
			s.Resolve = append(s.Resolve, statechart.Resolution[trail]{Name: name, Outcome: "in " + firstName(s.ID)})
		case 1:
			s.Resolve = append(s.Resolve, statechart.Resolution[trail]{Name: name, Error: "Failed", Cause: func(c trail, _ statechart.Event) string { return c.Digest }})
		}
	}
}
