package simulate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// This file draws a machine with two builds of one version. The new build stores fields unknown to the old build.

const fieldsMachine = "fields"

// gifted is the payload of the new build. The payload of the old build is serial, without the gift.
type gifted struct {
	Serial string `json:"serial"`
	Gift   string `json:"gift,omitempty"`
}

// Shelf is the part of the context that both builds declare. Each applied event leaves its serial in one of the lists.
type Shelf[E any] struct {
	Digest string       `json:"digest"`
	Count  int          `json:"count"`
	Plain  []string     `json:"plain,omitempty"`
	Lines  []E          `json:"lines,omitempty"`
	Named  map[string]E `json:"named,omitempty"`
}

// The contexts of the builds. The serial decides in which of three places the new build stores a gift.
type (
	oldEntry struct {
		Serial string `json:"serial"`
	}
	newEntry gifted
	oldShelf struct{ Shelf[oldEntry] }
	newShelf struct {
		Shelf[newEntry]
		Gifts map[string]string `json:"gifts,omitempty"`
	}
)

// put records a step, and stores the entry of an event with a serial.
func (s *Shelf[E]) put(name, serial string, entry E) {
	s.Digest, s.Count = fmt.Sprintf("%016x", digestOf(s.Digest+name+serial)), s.Count+1
	switch place := digestOf(serial) % 3; {
	case serial == "":
	case place == 0:
		s.Plain = append(s.Plain, serial)
	case place == 1:
		s.Lines = append(s.Lines, entry)
	default:
		if s.Named == nil {
			s.Named = map[string]E{}
		}
		s.Named[serial] = entry
	}
}

func (s Shelf[E]) counted() int { return s.Count }

// The old build's step.
func (s *oldShelf) take(name string, e statechart.Event) {
	payload, _ := e.Payload.(serial)
	s.put(name, payload.Serial, oldEntry(payload))
}

// The new build's step.
func (s *newShelf) take(name string, e statechart.Event) {
	payload, _ := e.Payload.(gifted)
	s.put(name, payload.Serial, newEntry(payload))
	if payload.Gift != "" && digestOf(payload.Serial)%3 == 0 {
		if s.Gifts == nil {
			s.Gifts = map[string]string{}
		}
		s.Gifts[payload.Serial] = payload.Gift
	}
}

// drawFields returns a function that hosts a random chart: the old build for firstVersion, the new one for newVersion.
func drawFields(seed uint64) func(*lab, int) durable.Machine {
	return func(l *lab, version int) durable.Machine {
		if version == newVersion {
			return hostFields(l, seed, statechart.PayloadOf[gifted](), (*newShelf).take)
		}
		return hostFields(l, seed, statechart.PayloadOf[serial](), (*oldShelf).take)
	}
}

// hostFields hosts one build.
func hostFields[C interface{ counted() int }](l *lab, seed uint64, payload statechart.Payload, take func(*C, string, statechart.Event)) durable.Machine {
	for try := uint64(0); ; try++ {
		chart, err := statechart.Compile(fieldsChart(l, rand.New(rand.NewPCG(seed, try)), payload, take))
		if err == nil {
			return observed{Machine: durable.Host(chart, durable.MachineConfig{}), lab: l}
		}
		if try == 100 {
			panic(fmt.Sprintf("no chart with two builds can be drawn from the seed %d: %v", seed, err))
		}
	}
}

// fieldsChart draws the states, which are the same in both builds.
func fieldsChart[C interface{ counted() int }](l *lab, rng *rand.Rand, payload statechart.Payload, take func(*C, string, statechart.Event)) statechart.Definition[C] {
	mark := func(name string) []statechart.Action[C] {
		return []statechart.Action[C]{statechart.TryAssign(name, func(c *C, e statechart.Event) error {
			take(c, name+" on "+e.Type, e)
			return nil
		})}
	}
	def := statechart.Definition[C]{ID: fieldsMachine, Version: firstVersion, Initial: "f0", Payloads: statechart.Payloads{}, Context: func(statechart.Start) (c C) { return c }}
	for _, typ := range outsideEvents {
		def.Payloads[typ] = payload
	}
	count := 3 + rng.IntN(3)
	target := func() string { return fmt.Sprintf("#f%d", rng.IntN(count)) }
	for i := range count {
		s := statechart.State[C]{ID: fmt.Sprintf("f%d", i)}
		if i > 0 && rng.IntN(4) == 0 {
			s.Invoke = []statechart.Invoke[C]{fieldsService[C](l, serviceKind(rng.IntN(int(serviceKinds))), s.ID, mark)}
		} else {
			s.Tags = []string{statechart.Settled}
			for _, typ := range outsideEvents[:3] {
				switch rng.IntN(3) {
				case 0:
					s.On = append(s.On, statechart.Transition[C]{Event: typ, Target: target(), Actions: mark(s.ID + " " + typ)})
				case 1:
					s.Defer = append(s.Defer, typ)
				}
			}
			if rng.IntN(3) == 0 {
				s.After = []statechart.After[C]{{Delay: time.Duration(1+rng.IntN(300))*time.Second + time.Millisecond, Target: target(), Actions: mark(s.ID + " after"),
					Guard: statechart.If("timers left", func(c C) bool { return c.counted() < 100 })}}
			}
		}
		def.States = append(def.States, s)
		def.On = append(def.On, statechart.Transition[C]{Event: "d", Target: "#" + s.ID, Actions: mark("to " + s.ID),
			Guard: statechart.If(fmt.Sprintf("%d of %d", i, count), func(c C) bool { return c.counted()%count == i })})
	}
	return def
}

// fieldsService returns a service. When it ends, the chart goes back to its first state, f0.
func fieldsService[C any](l *lab, kind serviceKind, state string, mark func(string) []statechart.Action[C]) statechart.Invoke[C] {
	serve := func(ctx context.Context, _ C, call statechart.Call) (result, error) { return l.serve(ctx, kind, call) }
	return statechart.Invoke[C]{
		Service: statechart.ServiceFunc("service of "+state, serve), Timeout: 2*time.Second + time.Millisecond,
		Retry:   statechart.RetryPolicy{Attempts: 3, Interval: time.Second},
		OnDone:  []statechart.Transition[C]{{Target: "#f0", Actions: mark(state + " done")}},
		OnError: []statechart.Transition[C]{{Target: "#f0", Actions: mark(state + " failed")}},
	}
}

// withFields adds the machine with two builds, its instances and their events to a plan, if the run has the strain
// "fields".
func (p plan) withFields(seed uint64) plan {
	if !p.fields {
		return p
	}
	rng := rand.New(rand.NewPCG(seed, digestOf("events of the fields")))
	seconds := func(most int) time.Duration { return time.Duration(rng.IntN(1000*most)) * time.Millisecond }
	if !p.aim.parking {
		p.deploy = seconds(600)
	}
	// A roll-back in the first minute of a deployment overlaps with the roll-out.
	p.rollBack, p.outage = time.Second+anyOf(rng, seconds(60), seconds(900)), time.Second+seconds(900)
	p.machines, p.sent = append(p.machines, drawFields(rng.Uint64())), map[string]string{}
	for i := range 1 + rng.IntN(2) {
		name, count := fmt.Sprintf("%s/%d", fieldsMachine, i), 4+rng.IntN(9)
		p.instances = append(p.instances, name)
		var sendings []sending
		for j := range count {
			id := fmt.Sprintf("f%d-%d", i, j)
			one := sending{instance: name, queue: rng.IntN(p.queues), after: seconds(2 * int((p.rollBack+p.outage)/time.Second+120) / count)}
			switch {
			case j == 0:
				one.after = max(0, p.deploy-seconds(70))
			case rng.IntN(2) == 0: // so that several events come during one deployment
				one.after = seconds(10)
			}
			event := map[string]any{"type": anyOf(rng, "a", "b", "c", "d"), "serial": id, "$id": id}
			switch rng.IntN(12) {
			case 0:
				event["serial"] = 7
			case 1:
				event["gift"] = 7 // The old build does not know this key, and the new one parks the event.
			case 2, 3, 4:
			default:
				event["gift"] = "gift of " + id
			}
			switch rng.IntN(5) {
			case 0:
				delete(event, "$id")
			case 1:
				one.repeats = []time.Duration{seconds(900)}
			}
			body, _ := json.Marshal(event)
			one.body, p.sent[id] = string(body), string(body)
			sendings = append(sendings, one)
		}
		p.producers = append(p.producers, sendings)
	}
	return p
}
