package statechart_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

type parcel struct {
	Item string `json:"item"`
}

var (
	keepItem = statechart.Assign("keepItem", func(c *trace, o parcel) { c.Log = append(c.Log, o.Item) })
	enough   = statechart.When("enough", func(c trace, _ Event) bool { return c.N > 0 })
)

// busyDef returns a chart that is busy until FREE and defers ORDER and CALL. After FREE, it handles one deferred event
// and is busy again.
func busyDef() Def {
	return Def{Initial: "busy", Payloads: statechart.Payloads{"ORDER": statechart.PayloadOf[parcel]()}, States: []S{
		{ID: "busy", Defer: []string{"ORDER", "CALL"}, On: []On{{Event: "FREE", Target: "free"}, {Event: "IDLE", Target: "idle"}}},
		{ID: "free", On: []On{{Event: "ORDER", Target: "busy", Actions: Do{keepItem}}, {Event: "CALL", Target: "busy", Actions: logs("call")}}},
		{ID: "idle", On: []On{{Event: "ORDER", Actions: Do{keepItem}}, {Event: "CALL", Actions: logs("call")}}},
	}}
}

func (r *run) order(item, id string) *run {
	r.t.Helper()
	return r.apply(Event{Type: "ORDER", ID: id, Payload: parcel{item}})
}

func deferredBy(r *run) string {
	var types []string
	for _, event := range r.step.Next.Deferred {
		types = append(types, event.Type)
	}
	return strings.Join(types, " ")
}

func TestDeferredEventsAreStoredInOrder(t *testing.T) {
	t.Parallel()
	r := begin(t, busyDef()).order("tea", "p-1").is("busy", "+busy")
	equal(t, "handled", r.step.Handled, true)
	equal(t, "effects", len(r.step.Effects), 0)
	r.send("CALL").order("cake", "")
	equal(t, "steps", r.step.Next.Steps, 4)
	stored := text(t, r.step.Next)
	if want := `"deferred":[{"id":"p-1","event":{"item":"tea","type":"ORDER"}},{"event":{"type":"CALL"}},{"event":{"item":"cake","type":"ORDER"}}]`; !strings.Contains(stored, want) {
		t.Errorf("stored %s, want %s", stored, want)
	}
	restored, err := r.chart.Restore([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "restored", text(t, restored), stored)
	r.step.Next = restored
	r.send("IDLE").is("idle", "-busy +idle tea call cake")
	equal(t, "waiting", deferredBy(r), "")
}

func TestReplayRestartsAtTheOldestReleasedEvent(t *testing.T) {
	t.Parallel()
	r := begin(t, busyDef()).order("tea", "").send("CALL").order("cake", "").is("busy", "+busy")
	r.send("FREE").is("busy", "-busy +free -free tea +busy")
	equal(t, "waiting", deferredBy(r), "CALL ORDER")
	r.send("FREE").is("busy", "-busy +free -free call +busy")
	r.send("FREE").is("busy", "-busy +free -free cake +busy")
	equal(t, "waiting", deferredBy(r), "")
	r.send("FREE").is("free", "-busy +free")

	// The younger of two events may be replayed first, and its transition may release the older one.
	two := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", Defer: []string{"X", "Y"}, On: []On{{Event: "GO", Target: "b"}}},
		{ID: "b", Defer: []string{"X"}, On: []On{{Event: "Y", Target: "c"}}},
		{ID: "c", On: []On{{Event: "X", Actions: logs("x")}, {Event: "Y", Actions: logs("y")}}},
	}})
	two.send("X", "Y", "Y").is("a", "+a")
	two.send("GO").is("c", "-a +b -b +c x y")
}

func TestReplayedEventEqualsTheDeferredEvent(t *testing.T) {
	t.Parallel()
	var seen []Event
	see := statechart.Assign("see", func(_ *trace, e Event) { seen = append(seen, e) })
	def := busyDef()
	def.States[2].On[0].Actions = Do{see, raise("AFTERWARDS")}
	def.States[2].On = append(def.States[2].On, On{Event: "AFTERWARDS", Actions: logs("afterwards")})
	r := begin(t, def).order("tea", "p-1")
	r.now = r.now.Add(time.Hour)
	r.send("IDLE").is("idle", "+busy -busy +idle afterwards")
	want := Event{Type: "ORDER", ID: "p-1", At: r.now, Payload: parcel{"tea"}}
	if len(seen) != 1 || seen[0] != want {
		t.Errorf("replayed %+v, want %+v", seen, want)
	}
	equal(t, "steps of deferring, and of leaving and replaying", r.step.Next.Steps, 3)
}

func TestTransitionsOfTheDeferringStateOrBelowOverrideDefer(t *testing.T) {
	t.Parallel()
	def := func() Def {
		return Def{Initial: "p", On: []On{{Event: "E", Actions: logs("root")}}, States: []S{
			{ID: "p", Defer: []string{"E"}, Initial: "a", On: []On{{Event: "E", Guard: enough, Actions: logs("p")}, {Event: "MORE", Actions: Do{add(1)}}, {Event: "OUT", Target: "q"}}, States: []S{
				{ID: "a", On: []On{{Event: "NEXT", Target: "b"}}}, {ID: "b", On: []On{{Event: "E", Actions: logs("b")}}},
			}},
			{ID: "q"},
		}}
	}
	r := begin(t, def())
	r.send("E").is("p.a", "+p +a") // p defers E, although the root has a transition
	equal(t, "waiting", deferredBy(r), "E")
	r.send("NEXT").is("p.b", "-a +b b")
	r.send("E").is("p.b", "b")
	equal(t, "waiting", deferredBy(r), "")

	r = begin(t, def()).send("E")
	r.send("MORE").is("p.a", "+p +a p") // now the guard of p's own transition holds
	r = begin(t, def()).send("E", "OUT").is("q", "+p +a -a -p +q root")
	r.send("E").is("q", "root")

	// A transition that forbids the event also overrides Defer.
	forbidding := def()
	forbidding.States[0].States[0].On = append(forbidding.States[0].States[0].On, On{Event: "E"})
	r = begin(t, forbidding).send("E").is("p.a", "+p +a")
	equal(t, "deferred although forbidden", deferredBy(r), "")
}

func TestEveryRegionThatDefersMustBeOverridden(t *testing.T) {
	t.Parallel()
	region := func(id string, deferring bool, on ...On) S {
		s := S{ID: id, Initial: "a" + id, States: []S{{ID: "a" + id, On: append(on, On{Event: "FREE" + id, Target: "b" + id})}, {ID: "b" + id}}}
		if deferring {
			s.States[0].Defer = []string{"E"}
		}
		return s
	}
	does := On{Event: "E", Guard: yes, Actions: logs("did")}
	for name, c := range map[string]struct {
		one, two S
		log      string
		waits    string
	}{
		"one defers, the other would take it": {region("1", true), region("2", false, does), "", "E"},
		"both defer, one overrides":           {region("1", true, does), region("2", true), "", "E"},
		"both override":                       {region("1", true, does), region("2", true, does), "did did", ""},
		"the one that defers overrides":       {region("1", true, does), region("2", false), "did", ""},
	} {
		r := begin(t, Def{Parallel: true, States: []S{c.one, c.two}})
		r.seen = len(r.step.Next.Context.Log)
		r.send("E").is("1.a1 2.a2", c.log)
		t.Log(name)
		equal(t, "waiting", deferredBy(r), c.waits)
	}
	r := begin(t, Def{Parallel: true, States: []S{region("1", true), region("2", true, On{Event: "E", Guard: no})}})
	r.send("E", "FREE1")
	equal(t, "waiting while the other defers", deferredBy(r), "E")
	r.send("FREE2")
	equal(t, "waiting", deferredBy(r), "")
}

func TestSelfSentEventsAreDeferredButRaisedEventsAreNot(t *testing.T) {
	t.Parallel()
	remind := statechart.SendAfter("r", "REMIND", func(trace, Event) (time.Duration, any) { return time.Minute, reminder{"tea"} })
	keep := statechart.Assign("keep", func(c *trace, e reminder) { c.Log = append(c.Log, e.Text) })
	r := begin(t, Def{Initial: "a", Payloads: statechart.Payloads{"REMIND": statechart.InternalOf[reminder](), "E": statechart.NoPayload()}, States: []S{
		{ID: "a", Entry: Do{remind}, Defer: []string{"*"}, After: []After{{Delay: minutes(2), Actions: logs("timer")}}, On: []On{
			{Event: "RAISE", Guard: yes, Actions: Do{raise("E")}}, {Event: "GO", Guard: yes, Target: "b"}}},
		{ID: "b", On: []On{{Event: "REMIND", Actions: Do{keep}}, {Event: "E", Actions: logs("e")}}},
	}})
	r.fire(r.timer("")).is("a", "+a")
	equal(t, "timers", len(r.step.Next.Timers), 1)
	r.send("RAISE").fire(r.timer("a")).is("a", "timer")
	equal(t, "waiting", deferredBy(r), "REMIND")
	r.send("GO").is("b", "-a +b tea")
}

func TestDeferredEventsWaitUntilTheChartIsSettled(t *testing.T) {
	t.Parallel()
	def := busyDef()
	def.States[0].On = append(def.States[0].On, On{Event: "CHECK", Target: "checking"})
	def.States = append(def.States, S{ID: "checking", Invoke: []Invoke{service("check", []On{{Target: "idle"}}, nil)}, On: []On{{Event: "error.*", Target: "busy"}}})
	r := begin(t, def).order("tea", "").send("CHECK").is("checking", "+busy -busy +checking")
	equal(t, "waiting", deferredBy(r), "ORDER")
	call := r.step.Next.Services[0]
	failed := *r
	r.apply(call.Done(1)).is("idle", "-checking +idle tea")
	failed.apply(call.Failed(errPlanned)).is("busy", "-checking +busy")
	equal(t, "waiting still", deferredBy(&failed), "ORDER")
	// Services start once, regardless of later replays.
	def.States[2].On[0].Target = "checking"
	r = begin(t, def).order("tea", "").order("cake", "").send("IDLE")
	r.is("checking", "+busy -busy +idle -idle tea +checking")
	equal(t, "services", len(r.step.Next.Services), 1)
	equal(t, "waiting", deferredBy(r), "ORDER")
}

func TestReplayedEventWithoutTransitionIsDropped(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", Payloads: statechart.Payloads{"E": statechart.NoPayload()}, States: []S{
		{ID: "a", Defer: []string{"E"}, On: []On{{Event: "GO", Target: "b"}}}, {ID: "b", On: []On{{Event: "BACK", Target: "a"}}}}})
	r.send("E", "GO").is("b", "+a -a +b")
	equal(t, "waiting", deferredBy(r), "")
}

func TestEndsOfChildrenAreNotDeferred(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", Payloads: statechart.Payloads{"E": statechart.NoPayload()}, States: []S{
		{ID: "a", Defer: []string{"*"}, Children: []Child{{Machine: "job"}}},
	}, On: []On{{Event: "done.child.*", Actions: logs("done")}}})
	r.apply(r.ref("a").Done(nil)).is("a", "+a done")
	equal(t, "waiting", deferredBy(r), "")
}

func TestAnyStepReplaysEventsThatANewVersionDoesNotDefer(t *testing.T) {
	t.Parallel()
	r := begin(t, busyDef()).send("CALL").order("tea", "")
	restored, err := r.chart.Restore([]byte(strings.Replace(text(t, r.step.Next), `"value":"busy"`, `"value":"idle"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	r.step.Next = restored
	r.send("FREE").is("idle", "+busy call tea")
	equal(t, "handled", r.step.Handled, true)

	def := busyDef()
	def.States[2].On = nil // no transition matches
	r = begin(t, def).send("CALL")
	if r.step.Next, err = r.chart.Restore([]byte(strings.Replace(text(t, r.step.Next), `"value":"busy"`, `"value":"idle"`, 1))); err != nil {
		t.Fatal(err)
	}
	r.send("FREE")
	equal(t, "waiting for nobody", deferredBy(r), "")
}

func TestEndedInstanceKeepsUnhandledDeferredEvents(t *testing.T) {
	t.Parallel()
	def := busyDef()
	def.States[1].Type, def.States[1].On = statechart.Final, nil
	r := begin(t, def).order("tea", "").send("CALL")
	stopped, err := r.chart.Stop(r.step.Next, epoch)
	if err != nil {
		t.Fatal(err)
	}
	r.send("FREE")
	for status, next := range map[statechart.Status]statechart.Snapshot[trace]{statechart.Done: r.step.Next, statechart.Stopped: stopped.Next} {
		equal(t, "status", next.Status, status)
		equal(t, "deferred", len(next.Deferred), 2)
		restored, err := r.chart.Restore([]byte(text(t, next)))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "restored", text(t, restored), text(t, next))
	}
}

func TestDeferredEventsAreLimited(t *testing.T) {
	t.Parallel()
	r := begin(t, busyDef())
	for range statechart.DeferredMax {
		r.send("CALL")
	}
	r.refuses(Event{Type: "CALL"}, statechart.ErrLimit, `chart c, event "CALL": defer: limit exceeded: more than 64 deferred events (DeferredMax)`)
	r.send("IDLE")
	equal(t, "waiting", deferredBy(r), "")
	equal(t, "log", len(r.step.Next.Context.Log), 3+statechart.DeferredMax)
}

func TestEveryReplayHasItsOwnMicrostepLimit(t *testing.T) {
	t.Parallel()
	count := statechart.Assign("count", func(c *trace, _ Event) { c.N = 100 })
	down := On{Guard: enough, Actions: Do{add(-1)}}
	endless := On{Guard: statechart.If("endless", func(c trace) bool { return c.N < 0 }), Actions: Do{add(-1)}}
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", Defer: []string{"E", "F"}, On: []On{{Event: "GO", Target: "b"}}},
		{ID: "b", Always: []On{down, endless}, Tags: settled, On: []On{{Event: "E", Actions: Do{count}}, {Event: "F", Actions: Do{add(-1)}}}},
	}})
	for range 15 {
		r.send("E")
	}
	r.send("F", "E")
	r.send("GO").is("b", "+a -a +b")
	equal(t, "waiting", deferredBy(r), "")
	equal(t, "effects", len(r.step.Effects), 1)
	equal(t, "parked", string(r.step.Effects[0].Event), `{"type":"F"}`)
	if !strings.Contains(r.step.Effects[0].Message, "MicrostepsMax") {
		t.Errorf("got the reason %q, want one that names MicrostepsMax", r.step.Effects[0].Message)
	}
}

func TestInvalidDeferredEventsAreUnreadable(t *testing.T) {
	t.Parallel()
	r := begin(t, busyDef()).order("tea", "p-1")
	stored := text(t, r.step.Next)
	for problem, edit := range map[string][2]string{
		`deferred event 0: unexpected end of JSON input`: {`{"item":"tea","type":"ORDER"}`, `null`},
		`expected an ID of at most 256 bytes`:            {`"p-1"`, `"` + strings.Repeat("p", 257) + `"`},
		`expected at most 64 deferred events`:            {`"deferred":[`, `"deferred":[` + strings.Repeat(`{"event":{"type":"CALL"}},`, 64)},
	} {
		edited := strings.Replace(stored, edit[0], edit[1], 1)
		if _, err := r.chart.Restore([]byte(edited)); edited == stored || !errors.Is(err, statechart.ErrUnreadable) || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: got the error %v", problem, err)
		}
	}
}

type secretive struct {
	A int
	b int
}

func TestDeferIsChecked(t *testing.T) {
	t.Parallel()
	_ = secretive{}.b
	const leaf = "is final or history but has children, transitions, timers, services or deferred events"
	const unknown = "declare it, or remove the descriptor from Defer"
	checkFlaws(t, []flaw{
		{"final", func(d *Def, _, _ *S) {
			d.States = append(d.States, S{ID: "end", Type: statechart.Final, Defer: []string{"GO"}})
			d.On = []On{{Event: "GO", Target: ".end"}}
		},
			"end", leaf, "remove them, or make it a plain state"},
		{"undeclared", func(_ *Def, wait, _ *S) { wait.Defer = []string{"WHAT.*"} }, "wait",
			`defers "WHAT.*", but Payloads declares no such event from outside`, unknown},
		{"raised", func(d *Def, wait, _ *S) {
			d.Payloads["OWN"] = statechart.Internal()
			wait.Entry, wait.Defer = Do{raise("OWN")}, []string{"OWN"}
		}, "wait", `defers "OWN", but Payloads declares no such event from outside`, unknown},
		{"handled", func(d *Def, wait, _ *S) {
			d.Payloads["E"] = statechart.NoPayload()
			wait.On, wait.Defer = append(wait.On, On{Event: "E", Actions: Do{add(1)}}), []string{"E"}
		}, "wait", `defers "E", but also handles it without a guard`, "remove it from Defer, or guard the transition"},
		{"unsettled", func(d *Def, _, next *S) {
			d.Payloads["E"] = statechart.NoPayload()
			*next = S{ID: next.ID, Invoke: []Invoke{service("", []On{{Target: "wait"}}, []On{{Target: "wait"}})}, Defer: []string{"E"}}
		}, "next", `is unsettled, so the event "E" cannot reach it to be deferred`, "tag the state settled, or defer the event in a settled state"},
		{"lost field", func(d *Def, wait, _ *S) {
			d.Payloads["E"] = statechart.PayloadOf[secretive]()
			wait.Defer = []string{"E"}
		}, "wait", `defers "E", whose payload's field statechart_test.secretive.b is not stored`,
			"export it with a unique JSON name, or add MarshalJSON and UnmarshalJSON to statechart_test.secretive"},
	})
}

func TestDeferredEventIsReplayedWhenNoStateDefers(t *testing.T) {
	t.Parallel()
	chart := compile(t, traced(Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO", Actions: Do{add(1)}}}}}}))
	snapshot, err := chart.Restore([]byte(`{"machine":"c","version":1,"status":"active","value":"a","context":{},"tags":["settled"],"deferred":[{"event":{"type":"GO"}}],"steps":1}`))
	if err != nil {
		t.Fatal(err)
	}
	step, err := chart.Step(snapshot, Event{Type: "GO", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "counter", step.Next.Context.N, 2)
	equal(t, "waiting", len(step.Next.Deferred), 0)
}

func TestEventlessTransitionsDoNotSeeTheDeferredEvent(t *testing.T) {
	t.Parallel()
	now := epoch.Add(time.Hour)
	sees := statechart.When("sees", func(_ trace, e Event) bool { return e.Type == "E" })
	blank := statechart.When("blank", func(c trace, e Event) bool { return c.N == 0 && e.Type == "" && e.At.Equal(now) })
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", Tags: settled, Defer: []string{"E"}, Always: []On{{Guard: sees, Actions: logs("seen")}, {Guard: blank, Actions: append(logs("blank"), add(1))}},
			On: []On{{Event: "E", Guard: failingWhen}, {Event: statechart.ExecutionError, Actions: logs("failed")}}},
	}})
	r.now = now
	r.send("E").is("a", "+a blank failed")
	equal(t, "waiting", deferredBy(r), "E")
}
