package xstatejson_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

// TestEffectsMatchXState runs a config on both engines. The config emits, logs, and sends an event to a child.
func TestEffectsMatchXState(t *testing.T) {
	t.Parallel()
	const config = `{"id":"m","initial":"a","tags":["top"],"always":{"guard":"even","target":".b","actions":[{"type":"log","params":{"text":"root"}},{"type":"inc"}]},
		"onDone":{"actions":{"type":"xstate.log","value":"never"}},"states":{
		"a":{"on":{"E":{"target":"b"}}},
		"b":{"entry":[{"type":"xstate.spawnChild","id":"w","src":"listener","input":{"n":1}},{"type":"xstate.emit","event":{"type":"SEEN","x":[1]}},{"type":"xstate.log","value":"here"},{"type":"xstate.sendTo","to":"w","event":{"type":"HI","y":2}}],
			"on":{"E":{"target":"c","actions":{"type":"xstate.stopChild","actorRef":"w"}}}},
		"c":{"type":"final"}}}`
	events := []any{map[string]any{"type": "E"}}
	theirs, err := startXState(t).run([]byte(config), events, nil)
	if err != nil || theirs.Error != "" {
		t.Fatal(err, theirs.Error)
	}
	readable := strings.Replace(config, `"onDone":{"actions":{"type":"xstate.log","value":"never"}},`, "", 1)
	def, err := xstatejson.Read([]byte(readable), implementations())
	if err != nil {
		t.Fatal(err)
	}
	ours := play(def, events, true)
	if difference := differs(ours, theirs); difference != "" {
		t.Error(difference)
	}
	// The engine only requests effects, so the test compares the requests as text.
	if got := string(theirs.Emitted) + string(theirs.Logged) + string(theirs.Received); got != `[{"type":"SEEN","x":[1]}]["here"][{"input":{"n":1}},{"type":"HI","y":2}]` {
		t.Errorf("XState let out %s", got)
	}
	chart, step := begun(t, readable, implementations())
	if got, want := text(step.Effects), `[{"id":"1.0","kind":"spawn","child":"1.0","machine":"listener","input":{"n":1}},{"id":"1.1","kind":"emit","event":{"type":"SEEN","x":[1]}},{"id":"1.2","kind":"log","message":"here"},{"id":"1.3","kind":"send","event":{"type":"HI","y":2},"child":"1.0","machine":"listener"}]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if step, err = chart.Step(step.Next, statechart.Event{Type: "E", At: epoch}); err != nil || text(step.Effects) != `[{"id":"2.0","kind":"stop","child":"1.0","machine":"listener"}]` {
		t.Errorf("%v, %s", err, text(step.Effects))
	}
}

// TestFeaturesWithoutAnXStateKeySurviveARoundTrip takes random machines, and adds the features that the generator does
// not draw. After a round trip, the machines must be equal and run the same.
func TestFeaturesWithoutAnXStateKeySurviveARoundTrip(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for seed := uint64(1); seed <= depth(30, 150); seed++ {
		d := draw(seed)
		def, err := xstatejson.Read(d.config(), implementations())
		if err != nil {
			t.Fatal(err)
		}
		a := &adder{Rand: rand.New(rand.NewPCG(seed, 3))}
		root := statechart.State[counter]{States: def.States, Entry: def.Entry, On: def.On}
		a.add(&root, "m", 0)
		def.Entry, def.On, def.Children, def.Defer = root.Entry, root.On, root.Children, root.Defer
		def.Doc, def.Meta = root.Doc, root.Meta
		for _, typ := range a.types {
			def.Payloads[typ] = statechart.PayloadOf[json.RawMessage]()
		}
		again, config := written(t, def)
		all.Write(config)
		ours := play(def, d.events, false)
		if difference := differs(ours, play(again, d.events, true)); difference != "" && !ours.limited {
			t.Fatalf("seed %d: written and read (below as XState) %s\n%s", seed, difference, config)
		}
	}
	for _, part := range []string{`"xstate.emit"`, `"xstate.log"`, `"xstate.spawnChild"`, `"xstate.stopChild"`, `"xstate.sendTo"`,
		`"child": true`, `"defer"`, `"children"`, `"onDone"`, `"xstate.error.actor.code`, `"description"`, `"n": 0.50`, `"output"`} {
		if !strings.Contains(all.String(), part) {
			t.Errorf("nothing with %s was tried", part)
		}
	}
}

// adder adds to states the features that only Go charts have.
type adder struct {
	*rand.Rand
	count int
	types []string
}

func (a *adder) one(of int) bool { return a.IntN(of) == 0 }

func (a *adder) add(s *statechart.State[counter], path string, depth int) {
	for i := range s.States {
		a.add(&s.States[i], s.States[i].ID, depth+1)
	}
	if a.one(3) {
		s.Doc = "about " + path
	}
	if a.one(4) {
		s.Meta = []any{json.RawMessage(`{"n":0.50,"settled":[null]}`), struct{ X string }{"<x>"}, map[string]any{}, "text", map[string]any{"settle": []int{1}}}[a.IntN(5)]
	}
	if s.Type == statechart.ShallowHistory || s.Type == statechart.DeepHistory || s.Type == statechart.Final {
		return
	}
	if a.one(3) {
		s.Entry = append(slices.Clone(s.Entry), a.actions()...)
	}
	if a.one(5) {
		typ := fmt.Sprint("later.", a.count)
		a.types, s.Defer = append(a.types, typ), []string{typ, "later.*"}
	}
	for a.one(4) {
		a.count++
		c := statechart.Child[counter]{ID: fmt.Sprint("c", a.count), Machine: "job"}
		if a.one(2) {
			c.ID = ""
		}
		if a.one(2) {
			c.OnDone = []statechart.Transition[counter]{{Doc: "ended"}}
		} else if c.ID != "" {
			s.On = append(slices.Clone(s.On), statechart.Transition[counter]{Event: "done.child." + c.ID})
		}
		s.Children = append(s.Children, c)
	}
	if a.one(6) {
		s.On = append(slices.Clone(s.On), statechart.Transition[counter]{Event: "error.child.code"})
	}
}

func (a *adder) actions() []statechart.Action[counter] {
	a.count++
	id := fmt.Sprint("spawned", a.count)
	return []statechart.Action[counter]{
		statechart.Emit[counter]("SEEN", nil), statechart.StopChild[counter](id),
		statechart.Spawn[counter](id, "job", nil), statechart.SendToChild[counter](id, "HI", nil),
		statechart.StopChild[counter](id), a.literal(),
	}
}

// literal returns an action that Read made from a document.
func (a *adder) literal() statechart.Action[counter] {
	def, err := xstatejson.Read([]byte(fmt.Sprintf(`{"initial":"a","states":{"a":{"entry":{"type":"xstate.log","value":"line %d"}}}}`, a.count)), implementations())
	if err != nil {
		panic(err)
	}
	return def.States[0].Entry[0]
}

// TestFunctionsAreWrittenByName shows the config of a chart whose functions compute outputs, inputs and payloads.
func TestFunctionsAreWrittenByName(t *testing.T) {
	t.Parallel()
	type action = statechart.Action[counter]
	payload := func(counter, statechart.Event) any { return nil }
	named := statechart.Log(func(counter, statechart.Event) string { return "x" })
	named.Name, named.Params = "tell", json.RawMessage(`{"to":"all"}`)
	config := mustWrite(t, statechart.Definition[counter]{ID: "m", Version: 1, Initial: "a",
		Context: func(statechart.Start) counter { return counter{} }, Output: payload, OutputParams: nil,
		States: []statechart.State[counter]{
			{ID: "a", Tags: []string{statechart.Settled}, Children: []statechart.Child[counter]{{Machine: "job", Input: payload}}, Entry: []action{
				statechart.Emit("SEEN", payload), statechart.Spawn("w", "job", payload), statechart.SendToChild("w", "HI", payload), named,
				statechart.SendTo("HI", func(counter, statechart.Event) (string, any) { return "job/1", nil }),
			}, On: []statechart.Transition[counter]{{Event: "done.child.w"}, {Event: "error.child.*"}}},
		}})
	const want = `{"id":"m","version":"1","initial":"a","states":{"a":{"tags":["settled"],"entry":["emit SEEN","spawn w","send HI",{"type":"tell","params":{"to":"all"}},"send HI"],"invoke":{"src":"job"},"on":{"xstate.done.actor.w":{},"xstate.error.actor.*":{}},"meta":{"settle":{"invoke":[{"child":true}]}}}},"meta":{"settle":{"children":["w"]}}}`
	if got := compact(t, config); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func mustWrite(t *testing.T, def statechart.Definition[counter]) []byte {
	t.Helper()
	chart, err := statechart.Compile(def)
	if err != nil {
		t.Fatal(err)
	}
	config, err := xstatejson.Write(chart)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestUnwritableChartsAreReported shows features without an XState form.
func TestUnwritableChartsAreReported(t *testing.T) {
	t.Parallel()
	type (
		state = statechart.State[counter]
		on    = statechart.Transition[counter]
	)
	call := statechart.ServiceFunc("call", func(_ context.Context, _ counter, _ statechart.Call) (int, error) { return 0, nil })
	for _, c := range []struct {
		name string
		a    state
		want string
	}{
		{"one ID for two", state{Invoke: []statechart.Invoke[counter]{{ID: "x", Service: call}}, Children: []statechart.Child[counter]{{ID: "x", Machine: "job"}}},
			`a: expected different IDs for services and children, got "x" for both`},
		{"ends of services alone", state{Children: []statechart.Child[counter]{{Machine: "job"}}, On: []on{{Event: "done.invoke.*"}}},
			`a: expected both descriptors "done.child.*" and "done.invoke.*", because XState has one for both`},
		{"ends told apart", state{Invoke: []statechart.Invoke[counter]{{Service: call}}, Children: []statechart.Child[counter]{{Machine: "job"}}, On: []on{{Event: "done.child.*"}, {Event: "done.invoke.*", Target: "b"}}},
			`a: expected the same transitions on the ends of services and of children, because XState has one descriptor, "xstate.done.actor.*"`},
		{"child of XState", state{Entry: []statechart.Action[counter]{statechart.StopChild[counter]("#_x")}}, `a: expected IDs of children that do not begin with #_, which XState reserves, got "#_x"`},
	} {
		c.a.ID = "a"
		chart, err := xstatejson.Foreign(statechart.Definition[counter]{ID: "m", Version: 1, Initial: "a", States: []state{c.a, {ID: "b"}}})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		_, err = xstatejson.Write(chart)
		var failure *xstatejson.Error
		if !errors.As(err, &failure) || len(failure.Problems) != 1 || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestOtherwiseImplementsUnlistedNames(t *testing.T) {
	t.Parallel()
	var asked []string
	ask := func(what, name string, params json.RawMessage) {
		asked = append(asked, strings.TrimSpace(what+" "+name+" "+string(params)))
	}
	impl := implementations()
	impl.Otherwise = xstatejson.Otherwise[counter]{
		Action: func(name string, params json.RawMessage) (statechart.Action[counter], error) {
			ask("action", name, params)
			return statechart.Update("", func(c *counter) { c.N++ }), nil
		},
		Guard: func(name string, params json.RawMessage) (statechart.Guard[counter], error) {
			ask("guard", name, params)
			return statechart.If("", func(counter) bool { return true }), nil
		},
		Service: func(name string, input json.RawMessage) (statechart.Service[counter], error) {
			ask("service", name, input)
			return greeting(input)
		},
		Delay: func(name string) (func(counter, statechart.Event) time.Duration, error) {
			ask("delay", name, nil)
			if name == "never" {
				return nil, errors.New("is unknown")
			}
			return func(counter, statechart.Event) time.Duration { return time.Second }, nil
		},
	}
	config := state(`{"entry":["inc","own",{"type":"xstate.raise","event":{"type":"E"},"delay":"soon"}],"always":{"guard":{"type":"sure","params":1}},"invoke":{"src":"call","input":2},"after":{"soon":"b","brief":"b"}}`)
	def, err := xstatejson.Read([]byte(config), impl)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(asked, ", "), "action own, delay soon, service call 2, guard sure 1, delay soon"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	if action := def.States[0].Entry[1]; action.Name != "own" {
		t.Errorf("the action is called %q", action.Name)
	}
	if _, err = xstatejson.Read([]byte(state(`{"after":{"never":"b"}}`)), impl); err == nil || !strings.HasSuffix(err.Error(), `states.a.after.never: the delay "never": is unknown`) {
		t.Errorf("got %v", err)
	}
}
