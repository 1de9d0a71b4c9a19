package statechart_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

type Child = statechart.Child[trace]

var (
	keepOutput = statechart.Assign("keepOutput", func(c *trace, out json.RawMessage) { c.Log = append(c.Log, string(out)) })
	keepBlame  = statechart.Assign("keepBlame", func(c *trace, e statechart.ChildError) { c.Log = append(c.Log, e.Machine+": "+e.Message) })
)

// inputN returns the counter as the input of a child.
func inputN(c trace, _ Event) any { return map[string]int{"n": c.N} }

// parenting returns a chart with two children. The state p invokes the first one. Actions of the root spawn, stop and
// message the second one, w.
func parenting() Def {
	hello := statechart.SendToChild("w", "HELLO", func(trace, Event) any { return map[string]int{"n": 1} })
	return Def{Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "p"}}},
		{ID: "p", Children: []Child{{Machine: "job", Input: inputN, OnDone: []On{{Target: "ok", Actions: Do{keepOutput}}}, OnError: []On{{Target: "a", Actions: Do{keepBlame}}}}},
			On: []On{{Event: "BACK", Target: "a"}, {Event: "AGAIN", Target: "p", Reenter: true}, {Event: "STOP", Actions: Do{statechart.StopChild[trace]("p")}}}},
		{ID: "ok"}, {ID: "end", Type: statechart.Final},
	}, On: []On{
		{Event: "SPAWN", Actions: Do{statechart.Spawn("w", "worker", inputN)}}, {Event: "STOP_W", Actions: Do{statechart.StopChild[trace]("w")}},
		{Event: "HELLO", Actions: Do{hello}}, {Event: "END", Target: ".end"},
		{Event: "BRIEF", Actions: Do{statechart.Spawn[trace]("w", "worker", nil), hello, statechart.StopChild[trace]("w")}},
		{Event: "done.child.w", Actions: Do{keepOutput}}, {Event: "error.child.*", Actions: Do{keepBlame}},
	}}
}

func effects(r *run) string {
	r.t.Helper()
	return text(r.t, r.step.Effects)
}

func (r *run) ref(id string) statechart.ChildRef {
	r.t.Helper()
	for _, ref := range r.step.Next.Children {
		if ref.ID == id {
			return ref
		}
	}
	r.t.Fatalf("child %q is not running in %+v", id, r.step.Next.Children)
	return statechart.ChildRef{}
}

func TestChildrenRunWhileTheirStateIsActive(t *testing.T) {
	t.Parallel()
	r := begin(t, parenting()).send("GO").is("p", "+a -a +p")
	equal(t, "effects", effects(r), `[{"id":"2.0","kind":"spawn","child":"2.0","machine":"job","input":{"n":0}}]`)
	equal(t, "settled", r.step.Next.Settled(), true)
	equal(t, "child", r.ref("p"), statechart.ChildRef{ID: "p", Key: "2.0", Machine: "job", State: "p"})
	r.send("AGAIN")
	equal(t, "effects of leaving and entering", effects(r), `[{"id":"3.0","kind":"stop","child":"2.0","machine":"job"},{"id":"3.1","kind":"spawn","child":"3.1","machine":"job","input":{"n":0}}]`)
	r.send("BACK")
	equal(t, "effects of leaving", effects(r), `[{"id":"4.0","kind":"stop","child":"3.1","machine":"job"}]`)
	equal(t, "children", len(r.step.Next.Children), 0)
	r.send("GO", "STOP")
	equal(t, "effects of StopChild", effects(r), `[{"id":"6.0","kind":"stop","child":"5.0","machine":"job"}]`)
	r.send("BACK")
	equal(t, "effects of leaving then", len(r.step.Effects), 0)
}

func TestEndOfAChildIsAnEvent(t *testing.T) {
	t.Parallel()
	r := begin(t, parenting()).send("GO")
	r.apply(r.ref("p").Done(json.RawMessage(`{"x":1}`))).is("ok", `+a -a +p -p {"x":1} +ok`)
	equal(t, "effects of a child that has ended", len(r.step.Effects), 0)
	equal(t, "children", len(r.step.Next.Children), 0)

	r = begin(t, parenting()).send("GO")
	first := r.ref("p")
	r.apply(first.Failed(errPlanned)).is("a", "+a -a +p -p job: planned +a")
	r.send("GO")
	before := text(t, r.step.Next)
	for _, stale := range []Event{first.Done(nil), first.Failed(errPlanned)} {
		r.apply(stale)
		equal(t, "handled, being stale", r.step.Handled, false)
		equal(t, "the snapshot", text(t, r.step.Next), before)
	}
}

func TestSpawnedChildrenOutliveStates(t *testing.T) {
	t.Parallel()
	r := begin(t, parenting()).send("SPAWN")
	equal(t, "effects", effects(r), `[{"id":"2.0","kind":"spawn","child":"2.0","machine":"worker","input":{"n":0}}]`)
	r.send("GO", "BACK")
	equal(t, "effects of leaving another state", effects(r), `[{"id":"4.0","kind":"stop","child":"3.0","machine":"job"}]`)
	r.send("HELLO")
	equal(t, "effects of SendToChild", effects(r), `[{"id":"5.0","kind":"send","event":{"n":1,"type":"HELLO"},"child":"2.0","machine":"worker"}]`)
	r.refuses(Event{Type: "SPAWN"}, nil, `chart c, event "SPAWN": action spawn w: spawning child "w": a child with that ID is already running`)
	r.apply(r.ref("w").Done(nil)).is("a", "+a -a +p -p +a ")
	r.refuses(Event{Type: "HELLO"}, nil, `chart c, event "HELLO": action send HELLO: sending event "HELLO": child "w" is not running`)
	r.send("SPAWN")
	equal(t, "key of the second", r.ref("w").Key, "7.0")
	r.apply(r.ref("w").Failed(errPlanned)).is("a", "worker: planned")
	r.send("SPAWN", "STOP_W")
	equal(t, "effects of StopChild", effects(r), `[{"id":"10.0","kind":"stop","child":"9.0","machine":"worker"}]`)
	r.send("STOP_W")
	equal(t, "effects of stopping a child that is not running", len(r.step.Effects), 0)
}

func TestChildStoppedInItsFirstStepHasNoEffects(t *testing.T) {
	t.Parallel()
	r := begin(t, parenting()).send("BRIEF")
	equal(t, "effects", len(r.step.Effects), 0)
	equal(t, "children", len(r.step.Next.Children), 0)
	// A state that is entered and left in one macrostep does not start its child.
	def := parenting()
	def.States[1].Entry = Do{raise("AWAY")}
	def.States[1].On = append(def.States[1].On, On{Event: "AWAY", Target: "a"})
	r = begin(t, def).send("GO")
	equal(t, "effects of a state left at once", len(r.step.Effects), 0)
	// GO enters p, and the replay of the deferred BACK leaves p in the same step. The child of p does not start either.
	def = parenting()
	def.States[0].Defer = []string{"BACK"}
	r = begin(t, def).send("BACK", "GO").is("a", "+a -a +p -p +a")
	equal(t, "effects of a state that a replay left", len(r.step.Effects), 0)
}

func TestEndOfAnInstanceStopsItsChildren(t *testing.T) {
	t.Parallel()
	const stops = `[{"id":"4.0","kind":"stop","child":"2.0","machine":"worker"},{"id":"4.1","kind":"stop","child":"3.0","machine":"job"}]`
	r := begin(t, parenting()).send("SPAWN", "GO")
	stopped, err := r.chart.Stop(r.step.Next, epoch)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "effects of Stop", text(t, stopped.Effects), stops)
	r.send("END")
	equal(t, "children", len(r.step.Next.Children)+len(stopped.Next.Children), 0)
	// END first leaves p, which stops the job. The end of the instance then stops the worker.
	equal(t, "effects of END", effects(r), `[{"id":"4.0","kind":"stop","child":"3.0","machine":"job"},{"id":"4.1","kind":"stop","child":"2.0","machine":"worker"}]`)
}

func TestChildrenAreStoredWithTheSnapshot(t *testing.T) {
	t.Parallel()
	r := begin(t, parenting()).send("SPAWN", "GO")
	stored := text(t, r.step.Next)
	if want := `"children":{"p":{"key":"3.0","machine":"job","state":"p"},"w":{"key":"2.0","machine":"worker"}}`; !strings.Contains(stored, want) {
		t.Errorf("stored %s, want %s", stored, want)
	}
	restored, err := r.chart.Restore([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "restored", text(t, restored), stored)
	equal(t, "in their order", text(t, restored.Children), text(t, r.step.Next.Children))
	for problem, edit := range map[string][2]string{
		`got "9.0"`:                    {`"key":"3.0"`, `"key":"9.0"`},
		`share the key 2.0`:            {`"key":"3.0"`, `"key":"2.0"`},
		`child "p" of machine "other"`: {`"machine":"job"`, `"machine":"other"`},
		`belongs to the state "a", which is not active`: {`"state":"p"`, `"state":"a"`},
		`child "x" of machine "job" is not`:             {`"p":{"key"`, `"x":{"key"`},
		`an ID and a machine, got "w" and ""`:           {`"machine":"worker"`, `"machine":""`},
		`does not fit the state p`:                      {`"status":"active"`, `"status":"stopped"`},
		`expected at most 64 children`:                  {`"children":{`, `"children":{` + manyChildren(statechart.ChildrenMax)},
		`an ID and a machine, got "" and "worker"`:      {`"w":{"key"`, `"":{"key"`},
	} {
		edited := strings.Replace(stored, edit[0], edit[1], 1)
		if _, err := r.chart.Restore([]byte(edited)); edited == stored || !errors.Is(err, statechart.ErrUnreadable) || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: got the error %v", problem, err)
		}
	}
}

func manyChildren(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"m%d":{"key":"2.%d","machine":"worker"},`, i, i)
	}
	return b.String()
}

func TestEnqueueSpawnsChildrenWithAnyID(t *testing.T) {
	t.Parallel()
	spawn := func(c *trace, _ Event, enqueue statechart.Enqueue) error {
		c.N++
		return errors.Join(enqueue.Spawn(fmt.Sprint("w", c.N), "worker", nil), enqueue.SendToChild("w1", "HELLO", nil))
	}
	stop := func(_ *trace, _ Event, enqueue statechart.Enqueue) error { return enqueue.StopChild("w1") }
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{
		{Event: "SPAWN", Actions: Do{statechart.EnqueueActions("spawn", spawn)}}, {Event: "STOP", Actions: Do{statechart.EnqueueActions("stop", stop)}},
		{Event: "done.child.w2", Actions: logs("two")},
	}}}})
	equal(t, "uses children", r.chart.Outline().UsesChildren, false)
	declared := r.chart.Describe()
	equal(t, "child machines", fmt.Sprint(declared.Children, declared.OtherChildren), "[] true")
	r.send("SPAWN", "SPAWN")
	equal(t, "effects", effects(r), `[{"id":"3.0","kind":"spawn","child":"3.0","machine":"worker"},{"id":"3.1","kind":"send","event":{"type":"HELLO"},"child":"2.0","machine":"worker"}]`)
	r.send("STOP")
	equal(t, "effects", effects(r), `[{"id":"4.0","kind":"stop","child":"2.0","machine":"worker"}]`)
	r.apply(r.ref("w2").Done(nil)).is("a", "+a two")
}

func TestDescribeListsChildMachinesOfStatesAndActions(t *testing.T) {
	t.Parallel()
	chart := begin(t, Def{Initial: "a", Children: []Child{{ID: "r", Machine: "root"}}, States: []S{
		{ID: "a", Children: []Child{{ID: "s", Machine: "of a state"}, {ID: "t", Machine: "root"}},
			On: []On{{Event: "GO", Target: "a", Actions: Do{statechart.Spawn[trace]("w", "of an action", nil)}}}},
	}}).chart
	declared := chart.Describe()
	equal(t, "child machines", fmt.Sprint(declared.Children, declared.OtherChildren), "[of a state of an action root] false")
}

func TestSendAfterAndChildrenUseOneSequenceOfIDs(t *testing.T) {
	t.Parallel()
	later := statechart.SendAfter("", "LATER", func(trace, Event) (time.Duration, any) { return time.Minute, nil })
	r := begin(t, Def{Initial: "a", Payloads: statechart.Payloads{"LATER": statechart.NoPayload()}, States: []S{
		{ID: "a", Entry: Do{later, statechart.Spawn[trace]("w", "worker", nil), later}, Children: []Child{{Machine: "job"}}}}})
	equal(t, "keys", r.ref("w").Key+" "+r.ref("a").Key, "1.1 1.3")
}

func TestChildIDsAreLimitedByTheLengthOfEventTypes(t *testing.T) {
	t.Parallel()
	for id, fits := range map[string]bool{"": false, strings.Repeat("x", 244): true, strings.Repeat("x", 245): false} {
		spawn := statechart.EnqueueActions("spawn", func(_ *trace, _ Event, enqueue statechart.Enqueue) error { return enqueue.Spawn(id, "worker", nil) })
		r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO", Actions: Do{spawn}}}}}})
		if fits {
			equal(t, "child", r.send("GO").ref(id).Machine, "worker")
			continue
		}
		r.refuses(Event{Type: "GO"}, nil, fmt.Sprintf(`chart c, state "a", event "GO": action spawn: spawning a child: expected an ID of at most 244 bytes and a machine, got %q and "worker"`, id))
	}
}

func TestEventsSentToAChildBeforeItsStopAreKept(t *testing.T) {
	t.Parallel()
	def := parenting()
	def.On = append(def.On, On{Event: "BYE", Actions: Do{def.On[2].Actions[0], statechart.StopChild[trace]("w")}})
	r := begin(t, def).send("GO", "SPAWN", "BYE") // The child of p is running too, and was spawned first.
	equal(t, "effects", effects(r), `[{"id":"4.0","kind":"send","event":{"n":1,"type":"HELLO"},"child":"3.0","machine":"worker"},{"id":"4.1","kind":"stop","child":"3.0","machine":"worker"}]`)
	equal(t, "child", r.ref("p").Key, "2.0")
}

func TestChildrenAreRestoredInKeyOrderUpToTheLimit(t *testing.T) {
	t.Parallel()
	r := begin(t, parenting())
	for range 10 {
		r.send("GO", "BACK")
	}
	r.send("SPAWN", "GO")
	stored := text(t, r.step.Next)
	equal(t, "keys", r.ref("w").Key+" "+r.ref("p").Key, "22.0 23.0")
	earlier := strings.Replace(stored, `"22.0"`, `"9.0"`, 1)
	restored, err := r.chart.Restore([]byte(earlier))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "order", restored.Children[0].ID+restored.Children[1].ID, "wp")
	inactive := strings.NewReplacer(`"value":"p"`, `"value":"ok"`).Replace(stored)
	if _, err := r.chart.Restore([]byte(inactive)); !errors.Is(err, statechart.ErrUnreadable) || !strings.Contains(err.Error(), `child "p" of machine "job" belongs to the state "p", which is not active`) {
		t.Errorf("of an inactive state: got the error %v", err)
	}
	for more, refused := range map[int]bool{statechart.ChildrenMax - 2: false, statechart.ChildrenMax - 1: true} {
		_, err := r.chart.Restore([]byte(strings.Replace(stored, `"children":{`, `"children":{`+manyChildren(more), 1)))
		equal(t, fmt.Sprint("refused with ", more, " more"), errors.Is(err, statechart.ErrUnreadable), refused)
	}
}
