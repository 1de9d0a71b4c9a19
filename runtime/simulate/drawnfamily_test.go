package simulate_test

import (
	"fmt"

	"github.com/settle-run/settle/runtime/statechart"
)

// This file draws the children of random charts. They are instances of another drawn machine, and may have children.

type chartChild = statechart.Child[trail]

const (
	kidMachine = "kid"
	// kidsLimit limits the children that an instance's actions start, and kidsDepth limits the number of generations.
	kidsLimit = 3
	kidsDepth = 2
)

// kidInput is the input of a child.
type kidInput struct {
	Serial string `json:"serial"`
	Depth  int    `json:"depth"`
}

// addFamily adds a chart's reactions to its children. If the chart is a child, it also gets an input and usually an
// end.
func (d *drawer) addFamily(def *statechart.Definition[trail]) {
	def.On = append(def.On,
		chartOn{Event: "done.child.*", Actions: []chartAction{mark("child done")}},
		chartOn{Event: "error.child.*", Actions: []chartAction{mark("child failed")}},
		chartOn{Event: "c", Guard: d.sometimes(2), Actions: []chartAction{d.spawning()}})
	if !d.kid {
		return
	}
	def.Input = statechart.PayloadOf[kidInput]()
	def.Context = func(s statechart.Start) trail {
		input, _ := s.Input.(kidInput)
		if input.Serial == failing {
			panic("this input is one that the chart fails on")
		}
		c := trail{Depth: input.Depth, Latest: d.version == newVersion}
		c.record(input.Serial)
		return c
	}
	if !d.one(4) {
		def.After = []chartAfter{{Delay: delays[1+d.IntN(4)], Target: "#end"}}
	}
	if d.one(2) {
		def.On = append([]chartOn{{Event: "told", Target: "#end", Guard: d.sometimes(2)}}, def.On...)
	}
}

// child draws the child of a state.
func (d *drawer) child(id string) chartChild {
	more := statechart.If("kids left", func(c trail) bool { return c.Kids < kidsLimit })
	count := statechart.Update("count kid", func(c *trail) { c.Kids++ })
	return chartChild{ID: id, Machine: kidMachine, Input: d.input(),
		OnDone: []chartOn{
			{Target: d.target(), Guard: more, Actions: []chartAction{count, mark(id + " child done")}},
			{Actions: []chartAction{mark(id + " child done, stays")}},
		},
		OnError: []chartOn{{Actions: []chartAction{mark(id + " child failed")}}},
	}
}

// input draws a function that returns the input of children. One in eight functions returns a wrong input, and one in
// eight an input that makes the child's chart fail.
func (d *drawer) input() func(trail, statechart.Event) any {
	kind := d.IntN(8)
	return func(c trail, _ statechart.Event) any {
		switch kind {
		case 0:
			return map[string]string{"depth": "wrong"}
		case 1:
			return kidInput{failing, c.Depth + 1}
		default:
			return kidInput{c.Digest, c.Depth + 1}
		}
	}
}

func (d *drawer) spawning() chartAction {
	input := d.input()
	return statechart.EnqueueActions("spawn", func(c *trail, e statechart.Event, enqueue statechart.Enqueue) error {
		if c.Kids >= kidsLimit || c.Depth >= kidsDepth {
			return nil
		}
		c.Kids++
		return enqueue.Spawn(fmt.Sprintf("k%d", c.Kids), kidMachine, input(*c, e))
	})
}

// childAction draws an action on a child.
func (d *drawer) childAction() chartAction {
	switch d.IntN(4) {
	case 0:
		return statechart.EnqueueActions("stop child", func(c *trail, _ statechart.Event, enqueue statechart.Enqueue) error {
			return enqueue.StopChild(fmt.Sprintf("k%d", c.Kids))
		})
	case 1:
		return statechart.EnqueueActions("tell child", func(c *trail, _ statechart.Event, enqueue statechart.Enqueue) error {
			_ = enqueue.SendToChild(fmt.Sprintf("k%d", c.Kids), "told", serial{c.Digest}) // the child may have ended
			return nil
		})
	default:
		return d.spawning()
	}
}
