package statechart_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestFailedSpawnIsHandledLikeAFailedAction(t *testing.T) {
	t.Parallel()
	unwritable := func(trace, Event) any { return func() {} }
	def := Def{Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "p"}, {Event: "SPAWN", Actions: Do{statechart.Spawn("w", "", inputN)}}}},
		{ID: "p", Children: []Child{{ID: "c", Machine: "job", Input: unwritable}, {Machine: "job"}}, On: []On{{Event: "BACK", Target: "a"}}},
	}}
	r := begin(t, def)
	equal(t, "uses children", r.chart.Outline().UsesChildren, true)
	r.refuses(Event{Type: "GO"}, nil, `chart c, state "p", event "GO": child c: encoding the input of child "c": json: unsupported type: func()`)
	r.refuses(Event{Type: "SPAWN"}, nil, `chart c, state "a", event "SPAWN": action spawn w: spawning a child: expected an ID of at most 244 bytes and a machine, got "w" and ""`)

	handler := On{Event: statechart.ExecutionError, Target: "a", Actions: Do{keepFailure}}
	def.States[1].On = append(def.States[1].On, handler)
	r = begin(t, def).send("GO").is("a", `+a -a +p -p child c in "p" on GO: false +a`)
	equal(t, "effects of the other child, stopped in the same step", len(r.step.Effects), 0)

	// If the handler of the failed spawn re-enters p, the spawn fails again and again, and the step fails with ErrEndless.
	def.States[1].On[1].Target, def.States[1].On[1].Reenter = "p", true
	if _, err := begin(t, def).chart.Step(begin(t, def).step.Next, Event{Type: "GO", At: epoch}); !errors.Is(err, statechart.ErrUnreadable) {
		t.Errorf("got the error %v, want the error for another chart's snapshot", err)
	}
	r = begin(t, def)
	if _, err := r.chart.Step(r.step.Next, Event{Type: "GO", At: epoch}); !errors.Is(err, statechart.ErrEndless) {
		t.Errorf("got the error %v, want ErrEndless", err)
	}

	panics := parenting()
	panics.States[1].Children[0].Input = func(trace, Event) any { panic("planned") }
	begin(t, panics).refuses(Event{Type: "GO"}, nil, `chart c, state "p", event "GO": child p: panic: a value of the type string`)
}

func TestChildrenAreLimited(t *testing.T) {
	t.Parallel()
	spawn := func(c *trace, _ Event, enqueue statechart.Enqueue) error {
		c.N++
		return enqueue.Spawn(fmt.Sprint(c.N), "worker", nil)
	}
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "SPAWN", Actions: Do{statechart.EnqueueActions("spawn", spawn)}}}}}})
	for range statechart.ChildrenMax {
		r.send("SPAWN")
	}
	r.refuses(Event{Type: "SPAWN"}, statechart.ErrLimit, `chart c, state "a", event "SPAWN": action spawn: limit exceeded: more than 64 children at once (ChildrenMax)`)
}

func TestChildrenAreChecked(t *testing.T) {
	t.Parallel()
	const unknown, fixUnknown = "nothing starts a child with that ID", "use the ID of one of Children or of a Spawn"
	takesInt := statechart.Assign("takesInt", func(*trace, int) {})
	const fixType = "use the type of the payload, or Event"
	checkFlaws(t, []flaw{
		{"machine", func(_ *Def, wait, _ *S) { wait.Children = []Child{{}} }, "wait", `has the child "wait" without a machine`, "set Machine to the ID of the child's machine"},
		{"long ID", func(_ *Def, wait, _ *S) { wait.Children = []Child{{ID: strings.Repeat("x", 245), Machine: "m"}} }, "wait",
			`has the child "` + strings.Repeat("x", 245) + `", whose ID is too long for the type of an event`, "use an ID of at most 244 bytes"},
		{"ID twice", func(_ *Def, wait, _ *S) { wait.Children = []Child{{ID: "x", Machine: "m"}, {ID: "x", Machine: "m"}} }, "wait",
			`uses the child ID "x", and "wait" may use it at the same time`, "give each child its own ID"},
		{"ID of a spawned child", func(d *Def, _, next *S) {
			next.Children, d.On = []Child{{ID: "x", Machine: "m"}}, []On{{Event: "GO", Actions: Do{statechart.Spawn[trace]("x", "m", nil)}}}
		}, "", `on GO: spawns a child with the ID "x", which is the ID of a child of "next", so the second of them could not start`, "give each child its own ID"},
		{"spawn without ID", func(_ *Def, wait, _ *S) { wait.Entry = Do{statechart.Spawn[trace]("", "m", nil)} }, "wait", "entry: spawns a child without an ID", "give it one"},
		{"unsettled", func(_ *Def, _, next *S) {
			*next = S{ID: next.ID, Invoke: []Invoke{service("", []On{{Target: "wait"}}, []On{{Target: "wait"}})}, Children: []Child{{Machine: "m"}}}
		}, "next", `is unsettled but has the child "next", whose end cannot reach it`, "move the child to the state that waits for it"},
		{"final", func(d *Def, _, _ *S) {
			d.States = append(d.States, S{ID: "end", Type: statechart.Final, Children: []Child{{Machine: "m"}}})
			d.On = []On{{Event: "GO", Target: ".end"}}
		}, "end", "is final or history but has children, transitions, timers, services or deferred events", "remove them, or make it a plain state"},
		{"done of unknown", func(_ *Def, wait, _ *S) { wait.On = append(wait.On, On{Event: "done.child.x"}) }, "wait", "on done.child.x: " + unknown, fixUnknown},
		{"error of unknown", func(_ *Def, wait, _ *S) { wait.On = append(wait.On, On{Event: "error.child.*"}) }, "wait", "on error.child.*: " + unknown, fixUnknown},
		{"stop of unknown", func(_ *Def, wait, _ *S) { wait.Entry = Do{statechart.StopChild[trace]("x")} }, "wait",
			`entry: the action "stop x" refers to the child "x", which nothing starts`, fixUnknown},
		{"type of OnDone", func(_ *Def, wait, _ *S) {
			wait.Children = []Child{{Machine: "m", OnDone: []On{{Actions: Do{takesInt}}}}}
		}, "wait",
			"on done of child wait: action takesInt expects int, but the event carries json.RawMessage", fixType},
		{"type of OnError", func(_ *Def, wait, _ *S) {
			wait.Children = []Child{{Machine: "m", OnError: []On{{Actions: Do{takesInt}}}}}
		}, "wait",
			"on error of child wait: action takesInt expects int, but the event carries statechart.ChildError", fixType},
		{"type of On", func(_ *Def, wait, _ *S) {
			wait.Entry = Do{statechart.Spawn[trace]("x", "m", nil)}
			wait.On = append(wait.On, On{Event: "done.child.x", Actions: Do{takesInt}})
		}, "wait", "on done.child.x: action takesInt expects int, but the event carries json.RawMessage", fixType},
		{"type of an error in On", func(_ *Def, wait, _ *S) {
			wait.Entry = Do{statechart.Spawn[trace]("x", "m", nil)}
			wait.On = append(wait.On, On{Event: "error.child.x", Actions: Do{takesInt}})
		}, "wait", "on error.child.x: action takesInt expects int, but the event carries statechart.ChildError", fixType},
		{"forged", func(d *Def, _, _ *S) { d.Payloads["done.child.x"] = statechart.NoPayload() }, "", `declares the event type "done.child.x"`,
			"use a name without '*' and spaces that does not begin with settle., done.state., done.invoke., error.invoke., done.child., error.child., error.execution"},
	})
}

func TestStoppingChildrenBeyondTheEffectLimitFails(t *testing.T) {
	t.Parallel()
	many := statechart.EnqueueActions("many", func(_ *trace, _ Event, enqueue statechart.Enqueue) error {
		for range statechart.EffectsMax {
			if err := enqueue.Log("line"); err != nil {
				return err
			}
		}
		return nil
	})
	def := parenting()
	def.States[1].On = append(def.States[1].On, On{Event: "LEAVE", Target: "a", Actions: Do{many}}, On{Event: "STOPS", Actions: Do{many, statechart.StopChild[trace]("p")}})
	def.States[1].Exit = Do{statechart.EnqueueActions("exit", func(c *trace, _ Event, enqueue statechart.Enqueue) error {
		for range c.N {
			if err := enqueue.Log("line"); err != nil {
				return err
			}
		}
		return nil
	})}
	def.On = append(def.On, On{Event: "FILL", Actions: Do{add(statechart.EffectsMax)}})
	r := begin(t, def).send("GO")
	const limit = "limit exceeded: more than 256 effects in one macrostep (EffectsMax)"
	r.refuses(Event{Type: "STOPS"}, statechart.ErrLimit, `chart c, state "p", event "STOPS": action stop p: `+limit)
	r.send("FILL")
	r.refuses(Event{Type: "BACK"}, statechart.ErrLimit, `chart c, state "p", event "BACK": stop of children: `+limit)
}

func TestPayloadForAChildMustBeAnObject(t *testing.T) {
	t.Parallel()
	wrong := statechart.SendToChild("p", "HELLO", func(trace, Event) any { return 7 })
	def := parenting()
	def.States[1].On = append(def.States[1].On, On{Event: "WRONG", Actions: Do{wrong}})
	r := begin(t, def).send("GO")
	r.refuses(Event{Type: "WRONG"}, nil, `chart c, state "p", event "WRONG": action send HELLO: encoding the payload of event "HELLO": expected a type that marshals to a JSON object, got int`)
}

func TestServicesAndChildrenStartOnceIfOneChildFails(t *testing.T) {
	t.Parallel()
	def := Def{Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "p"}}},
		{ID: "p", Type: statechart.Parallel, States: []S{
			{ID: "r", Invoke: []Invoke{service("s", []On{{Target: "#a"}}, []On{{Target: "#a"}})}},
			{ID: "q", Children: []Child{{ID: "bad", Machine: "job", Input: func(trace, Event) any { return func() {} }}, {ID: "good", Machine: "job"}}},
		}},
	}}
	begin(t, def).refuses(Event{Type: "GO"}, nil, `chart c, state "p.q", event "GO": child bad: encoding the input of child "bad": json: unsupported type: func()`)
	def.On = []On{{Event: statechart.ExecutionError, Actions: Do{keepFailure}}}
	r := begin(t, def).send("GO").is("p.r p.q", `+a -a +p +r +q child bad in "p.q" on GO: false`)
	equal(t, "services", len(r.step.Next.Services), 1)
	equal(t, "child", r.ref("good").Key, "2.1")
	equal(t, "children", len(r.step.Next.Children), 1)
}

func TestFailedStepStartsNothing(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "p"}}},
		{ID: "p", Type: statechart.Parallel, States: []S{
			{ID: "r", Invoke: []Invoke{service("s", []On{{Target: "#a"}}, []On{{Target: "#a"}})}},
			{ID: "q", Children: []Child{{Machine: "job", Input: func(trace, Event) any { panic("planned") }}}},
		}},
	}})
	snapshot, before := r.step.Next, text(t, r.step.Next)
	if _, handled, err := r.chart.Stepper().Step(&snapshot, &Event{Type: "GO", At: epoch}); handled || err == nil {
		t.Fatalf("handled %v, error %v", handled, err)
	}
	equal(t, "the snapshot", text(t, snapshot), before)
}
