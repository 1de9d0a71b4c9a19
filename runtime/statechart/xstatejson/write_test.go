package xstatejson_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

// written writes a definition and reads it, twice. Both texts must be equal.
func written(t *testing.T, def statechart.Definition[counter]) (statechart.Definition[counter], []byte) {
	t.Helper()
	var texts [2][]byte
	for i := range texts {
		chart, err := xstatejson.Foreign(def)
		if err != nil {
			t.Fatal(err)
		}
		if texts[i], err = xstatejson.Write(chart); err != nil {
			t.Fatal(err)
		}
		if def, err = xstatejson.Read(texts[i], implementations()); err != nil {
			t.Fatalf("%v\n%s", err, texts[i])
		}
	}
	if string(texts[0]) != string(texts[1]) {
		t.Fatalf("written, read and written again, it is\n%s\nnot\n%s", texts[1], texts[0])
	}
	return def, texts[1]
}

// TestWrittenMachinesRunTheSame writes random machines and reads them back. It shuffles their transitions, so that
// wildcards may be anywhere: a chart tries transitions in document order, but XState does not. The output runs on
// XState too.
func TestWrittenMachinesRunTheSame(t *testing.T) {
	t.Parallel()
	oracle := startXState(t)
	for seed := uint64(1); seed <= depth(10, 80); seed++ {
		d := draw(seed)
		def, err := xstatejson.Read(d.config(), implementations())
		if err != nil {
			t.Fatal(err)
		}
		def.Payloads["only.listed"], def.Payloads["own"] = statechart.PayloadOf[json.RawMessage](), statechart.Internal()
		random := rand.New(rand.NewPCG(seed, 2))
		shuffle(random, def.States)
		random.Shuffle(len(def.On), func(i, k int) { def.On[i], def.On[k] = def.On[k], def.On[i] })
		again, config := written(t, def)
		for typ := range def.Payloads {
			if _, ok := again.Payloads[typ]; !ok {
				t.Errorf("seed %d: the event type %q is lost", seed, typ)
			}
		}
		ours := play(def, d.events, false)
		if difference := differs(ours, play(again, d.events, false)); difference != "" && !ours.limited {
			t.Fatalf("seed %d: written and read (below as XState) %s\n%s", seed, difference, config)
		}
		if verdict, difference, err := compare(oracle, config, d.events, ours); err != nil || verdict == differing {
			t.Fatalf("seed %d: %v%s\n%s", seed, err, difference, config)
		}
	}
}

func shuffle(random *rand.Rand, states []statechart.State[counter]) {
	for i := range states {
		s := &states[i]
		random.Shuffle(len(s.On), func(i, k int) { s.On[i], s.On[k] = s.On[k], s.On[i] })
		shuffle(random, s.States)
	}
}

// implement returns implementations for the names of a chart's config: the chart's own, and stubs for the operands of
// its guards.
func implement[C any](def statechart.Definition[C], config []byte) xstatejson.Implementations[C] {
	impl := xstatejson.Implementations[C]{
		Actions:  map[string]func(json.RawMessage) (statechart.Action[C], error){},
		Guards:   map[string]func(json.RawMessage) (statechart.Guard[C], error){},
		Services: map[string]func(json.RawMessage) (statechart.Service[C], error){},
		Delays:   map[string]func(C, statechart.Event) time.Duration{},
		Payloads: def.Payloads, Context: def.Context,
	}
	actions := func(actions []statechart.Action[C]) {
		for _, a := range actions {
			impl.Actions[a.Name] = func(json.RawMessage) (statechart.Action[C], error) { return a, nil }
		}
	}
	for _, operands := range regexp.MustCompile(`"guards": \[([^][]*)\]`).FindAllSubmatch(config, -1) {
		for _, name := range regexp.MustCompile(`(?m)^\s*"(\w+)",?$`).FindAllSubmatch(operands[1], -1) {
			stub := statechart.If(string(name[1]), func(C) bool { return false })
			impl.Guards[stub.Name] = func(json.RawMessage) (statechart.Guard[C], error) { return stub, nil }
		}
	}
	guard := func(g statechart.Guard[C]) {
		impl.Guards[g.Name] = func(json.RawMessage) (statechart.Guard[C], error) { return g, nil }
	}
	transitions := func(lists ...[]statechart.Transition[C]) {
		for _, t := range slices.Concat(lists...) {
			actions(t.Actions)
			guard(t.Guard)
		}
	}
	var states func([]statechart.State[C])
	after := func(list []statechart.After[C]) {
		for _, a := range list {
			actions(a.Actions)
			guard(a.Guard)
			if a.DelayFunc != nil {
				impl.Delays[a.ID] = a.DelayFunc
			} else if a.At != nil {
				impl.Delays[a.ID] = func(c C, e statechart.Event) time.Duration { return a.At(c, e).Sub(e.At) }
			}
		}
	}
	states = func(list []statechart.State[C]) {
		for _, s := range list {
			actions(slices.Concat(s.Entry, s.Exit, s.DefaultEntry))
			transitions(s.On, s.Always, s.OnDone)
			after(s.After)
			for _, i := range s.Invoke {
				impl.Services[i.Service.Name] = func(json.RawMessage) (statechart.Service[C], error) { return i.Service, nil }
				transitions(i.OnDone, i.OnError)
			}
			states(s.States)
		}
	}
	actions(slices.Concat(def.Entry, def.Exit, def.DefaultEntry))
	transitions(def.On, def.Always)
	for _, child := range def.Children {
		transitions(child.OnDone, child.OnError)
	}
	after(def.After)
	states(def.States)
	return impl
}

// TestExampleMachinesConvertToXState writes the charts of machines/ as XState configs. XState must create machines with
// the same states from them. Read must turn them back into charts that statechart.Compile accepts with all checks.
func TestExampleMachinesConvertToXState(t *testing.T) {
	t.Parallel()
	oracle := startXState(t)
	ours(t, oracle, job.New(nil, job.Config{}))
	ours(t, oracle, signup.New(nil, nil, signup.Config{}))
	ours(t, oracle, rooted())
}

// rooted returns a chart whose root uses all features of a state that need no function.
func rooted() *statechart.Chart[counter] {
	type (
		on     = statechart.Transition[counter]
		action = statechart.Action[counter]
	)
	call := statechart.ServiceFunc("call", func(context.Context, counter, statechart.Call) (int, error) { return 0, nil })
	enough := statechart.If("enough", func(c counter) bool { return c.N > 3 })
	spawn := statechart.EnqueueActions("spawn", func(_ *counter, _ statechart.Event, q statechart.Enqueue) error { return q.Spawn("code", "job", nil) })
	return statechart.Must(statechart.Definition[counter]{ID: "rooted", Version: 2, Initial: "waits", Doc: "Has it all.", Meta: map[string]any{"a": 1},
		Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "LATER": statechart.NoPayload()}, Defer: []string{"LATER"},
		Always:   []on{{Guard: enough, Target: ".over", Doc: "It is enough."}},
		Children: []statechart.Child[counter]{{Machine: "watch", OnDone: []on{{Target: ".over"}}}, {ID: "second", Machine: "watch"}},
		On:       []on{{Event: "done.child.code", Target: ".over"}, {Event: "error.child.w"}},
		States: []statechart.State[counter]{
			{ID: "waits", Tags: []string{statechart.Settled}, Meta: []int{1}, Entry: []action{
				spawn, statechart.Spawn[counter]("w", "job", nil), statechart.SendToChild[counter]("w", "HI", nil), statechart.Emit[counter]("SEEN", nil), statechart.StopChild[counter]("w"),
			}, On: []on{{Event: "GO", Target: "calls"}},
				After: []statechart.After[counter]{{ID: "late", Delay: time.Minute, Target: "calls", Doc: "It took long."}}},
			{ID: "calls", Invoke: []statechart.Invoke[counter]{{Service: call, Timeout: time.Second, OnDone: []on{{Target: "waits"}}, OnError: []on{{Target: "over"}}}}},
			{ID: "over", Type: statechart.Final},
		}})
}

func ours[C any](t *testing.T, oracle *xstate, chart *statechart.Chart[C]) {
	t.Helper()
	config, err := xstatejson.Write(chart)
	if err != nil {
		t.Fatal(err)
	}
	def := chart.Definition()
	back, err := xstatejson.Read(config, implement(def, config))
	if err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	again, err := statechart.Compile(back)
	if err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	if second, err := xstatejson.Write(again); err != nil || string(second) != string(config) {
		t.Errorf("%v: written again, it is\n%s\nnot\n%s", err, second, config)
	}
	got, err := oracle.ask(map[string]any{"config": json.RawMessage(config), "shape": true})
	if err != nil || got.Error != "" {
		t.Fatalf("XState takes no machine %s: %v%s\n%s", chart.ID(), err, got.Error, config)
	}
	want := shape{Key: def.ID, Type: "compound", Initial: []string{def.Initial}, Tags: []string{}, States: shapes(def.States)}
	if text(got.Tree) != text(want) {
		t.Errorf("in XState, the states are\n%s\nwant\n%s", text(got.Tree), text(want))
	}
}

// shape is a state in the output of testdata/driver.cjs.
type shape struct {
	Key     string   `json:"key"`
	Type    string   `json:"type"`
	History string   `json:"history,omitempty"`
	Tags    []string `json:"tags"`
	Initial []string `json:"initial,omitempty"`
	States  []shape  `json:"states"`
}

func shapes[C any](states []statechart.State[C]) []shape {
	all := []shape{}
	for _, s := range states {
		one := shape{Key: s.ID, Tags: append([]string{}, s.Tags...), States: shapes(s.States)}
		switch {
		case s.Type == statechart.Final:
			one.Type = "final"
		case s.Type == statechart.Parallel:
			one.Type = "parallel"
		case s.Type == statechart.ShallowHistory:
			one.Type, one.History = "history", "shallow"
		case s.Type == statechart.DeepHistory:
			one.Type, one.History = "history", "deep"
		case len(s.States) > 0:
			one.Type, one.Initial = "compound", []string{s.Initial}
		default:
			one.Type = "atomic"
		}
		all = append(all, one)
	}
	return all
}
