package statechart_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// holding returns a chart with three of everything that a snapshot may hold, so that slices have room for a fourth.
// Each of its events adds or removes something.
func holding() Def {
	send := func(id string) statechart.Action[trace] {
		return statechart.SendAfter(id, "LATER", func(trace, Event) (time.Duration, any) { return time.Hour, nil })
	}
	spawn := func(id string) statechart.Action[trace] { return statechart.Spawn[trace](id, "worker", nil) }
	region := func(id string) S {
		return S{ID: "r" + id, Initial: "s" + id, States: []S{
			{ID: "s" + id, Tags: settled, Entry: Do{send("send" + id), spawn("child" + id)}, Defer: []string{"D"}, On: []On{{Event: "CALL", Target: "c" + id}}},
			{ID: "c" + id, Entry: Do{send("called" + id)}, Invoke: []Invoke{service("call"+id, []On{{Target: "d" + id}}, []On{{Target: "d" + id}})}},
			{ID: "d" + id},
		}}
	}
	more := S{ID: "more", Initial: "wait", States: []S{
		{ID: "wait", After: []After{{ID: "1", Delay: minutes(1), Target: "w1"}, {ID: "2", Delay: minutes(2), Target: "w2"}, {ID: "3", Delay: minutes(3), Target: "w3"}, {ID: "stay", Delay: minutes(4)}}},
		{ID: "w1", Invoke: []Invoke{service("w1", []On{{Target: "end"}}, []On{{Target: "end"}})}},
		{ID: "w2", Invoke: []Invoke{service("w2", []On{{Target: "end"}}, []On{{Target: "end"}})}},
		{ID: "w3", After: []After{{Delay: minutes(5)}}},
		{ID: "end"},
	}}
	return Def{Parallel: true, Payloads: statechart.Payloads{"LATER": statechart.NoPayload(), "D": statechart.PayloadOf[parcel]()}, On: []On{
		{Event: "SEND1", Actions: Do{send("x")}}, {Event: "SEND2", Actions: Do{send("y")}}, {Event: "CANCEL", Actions: Do{statechart.Cancel[trace]("send1")}},
		{Event: "SPAWN1", Actions: Do{spawn("x")}}, {Event: "SPAWN2", Actions: Do{spawn("y")}}, {Event: "STOP", Actions: Do{statechart.StopChild[trace]("child1")}},
	}, States: []S{region("1"), region("2"), region("3"), more}}
}

// TestStepsOfOneSnapshotShareNoMutableData takes each pair of steps from one snapshot. The second step must change
// neither the snapshot nor the result of the first.
func TestStepsOfOneSnapshotShareNoMutableData(t *testing.T) {
	t.Parallel()
	r := begin(t, holding())
	for range 3 {
		r.apply(Event{Type: "D", Payload: parcel{"tea"}})
	}
	waiting := r.step.Next
	r.send("CALL")
	for name, base := range map[string]statechart.Snapshot[trace]{"waiting": waiting, "calling": r.step.Next} {
		events := []Event{{Type: "D", Payload: parcel{"cake"}}, {Type: "D", Payload: parcel{"pie"}}}
		for _, typ := range []string{"SEND1", "SEND2", "CANCEL", "SPAWN1", "SPAWN2", "STOP", "CALL"} {
			events = append(events, Event{Type: typ})
		}
		for _, timer := range base.Timers {
			events = append(events, Event{Type: statechart.TimerEvent, Timer: timer.ID})
		}
		for _, call := range base.Services {
			events = append(events, call.Done(1))
		}
		for _, child := range base.Children {
			events = append(events, child.Done(nil))
		}
		written := text(t, base)
		for _, one := range events {
			first, err := r.chart.Step(base, one)
			if err != nil {
				t.Fatalf("%s: event %+v: %v", name, one, err)
			}
			result := text(t, first)
			for _, other := range events {
				if _, err := r.chart.Step(base, other); err != nil {
					t.Fatalf("%s: event %+v: %v", name, other, err)
				}
				if text(t, base) != written {
					t.Fatalf("%s: event %+v changed the snapshot from\n%s\nto\n%s", name, other, written, text(t, base))
				}
				if text(t, first) != result {
					t.Fatalf("%s: event %+v changed the result of %+v from\n%s\nto\n%s", name, other, one, result, text(t, first))
				}
			}
		}
	}
}

// TestStepperForgetsFailedSteps takes steps that fail halfway and checks later steps of the same stepper.
func TestStepperForgetsFailedSteps(t *testing.T) {
	t.Parallel()
	note := statechart.Log(func(trace, Event) string { return "line" })
	chart := compile(t, traced(Def{Initial: "a", States: []S{
		{ID: "a", On: []On{
			{Event: "RAISED", Actions: Do{raise("LATE"), failing}}, {Event: "ENTERED", Target: "calls"}, {Event: "EFFECTS", Actions: Do{note, note, failing}},
			{Event: "GO", Target: "b", Actions: Do{note}}, {Event: "END", Target: "end"}, {Event: "LATE", Actions: logs("late")}, {Event: "NEXT", Actions: append(logs("next"), raise("LATE"))},
		}},
		{ID: "calls", Type: statechart.Parallel, States: []S{
			{ID: "r", Invoke: []Invoke{service("s", []On{{Target: "#a"}}, []On{{Target: "#a"}})}},
			{ID: "q", Children: []Child{{Machine: "job", Input: func(trace, Event) any { return func() {} }}}},
		}},
		{ID: "b", On: []On{{Event: "LATE", Actions: logs("late")}}},
		{ID: "end", Type: statechart.Final},
	}}))
	started, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"RAISED", "ENTERED", "EFFECTS", "GO", "END", "NEXT"} {
		for _, then := range []string{"GO", "NEXT", "END", "OTHER"} {
			stepper, spoilt, next := chart.Stepper(), started.Next, started.Next
			_, handled, failure := stepper.Step(&spoilt, &Event{Type: before, At: epoch})
			equal(t, before+" fails or is handled", handled, failure == nil)
			effects, handled, err := stepper.Step(&next, &Event{Type: then, At: epoch})
			want, errWant := chart.Step(started.Next, Event{Type: then, At: epoch})
			got := fmt.Sprintln(text(t, next), text(t, effects), handled, err)
			equal(t, then+" after "+before, got, fmt.Sprintln(text(t, want.Next), text(t, want.Effects), want.Handled, errWant))
		}
	}
	stepper, snapshot := chart.Stepper(), started.Next
	for range statechart.MicrostepsMax {
		if _, _, err := stepper.Step(&snapshot, &Event{Type: "NEXT", At: epoch}); err != nil {
			t.Fatal(err)
		}
	}
}

// nine returns a chart with the states out and p. The state p has nine regions, and so more leaves than a configuration
// stores inline.
func nine() Def {
	var regions []S
	for i := range 9 {
		regions = append(regions, S{ID: fmt.Sprint("r", i), Initial: fmt.Sprint("a", i), States: []S{
			{ID: fmt.Sprint("a", i), On: []On{{Event: "GO", Target: fmt.Sprint("b", i)}, {Event: fmt.Sprint("GO", i), Target: fmt.Sprint("b", i), Actions: Do{failsAt("go", i)}}}},
			{ID: fmt.Sprint("b", i), On: []On{{Event: "GO", Target: fmt.Sprint("a", i)}}},
		}})
	}
	return Def{Initial: "p", On: []On{{Event: "SET", Actions: Do{add(1)}}}, States: []S{
		{ID: "p", Type: statechart.Parallel, States: regions, On: []On{{Event: "OUT", Target: "out"}, {Event: "AGAIN", Target: "#b7 #b2"}}},
		{ID: "out", On: []On{{Event: "BACK", Target: "p"}}},
	}}
}

func TestManyRegionsBehaveLikeFew(t *testing.T) {
	t.Parallel()
	const b, a = "p.r%[1]d.b%[1]d", "p.r%[1]d.a%[1]d"
	all := func(in map[int]string, other string) string {
		var paths []string
		for i := range 9 {
			form := other
			if in[i] != "" {
				form = in[i]
			}
			paths = append(paths, fmt.Sprintf(form, i))
		}
		return strings.Join(paths, " ")
	}
	r := begin(t, nine())
	ways := newWays(r.chart)
	for _, c := range []struct{ event, states string }{
		{"GO8", all(map[int]string{8: b}, a)}, {"GO1", all(map[int]string{1: b, 8: b}, a)}, {"GO", all(map[int]string{1: a, 8: a}, b)},
		{"AGAIN", all(map[int]string{2: b, 7: b}, a)}, {"OUT", "out"}, {"OTHER", "out"}, {"BACK", all(nil, a)}, {"GO", all(nil, b)}, {"OUT", "out"},
	} {
		before, written := r.step.Next, text(t, r.step.Next)
		step, wrong := ways.step(t, before, Event{Type: c.event, At: epoch})
		if wrong != nil {
			t.Fatal(wrong)
		}
		r.step = step
		equal(t, c.event, states(r), c.states)
		equal(t, "the snapshot before "+c.event, text(t, before)+fmt.Sprint(before.State()), written+fmt.Sprint(before.State()))
		restored, err := r.chart.Restore([]byte(text(t, r.step.Next)))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "restored", fmt.Sprint(restored.State()), fmt.Sprint(r.step.Next.State()))
	}
	r = begin(t, nine()).send("GO2", "SET")
	r.refuses(Event{Type: "GO1"}, errPlanned, `chart c, state "p.r1.a1", event "GO1": action go: planned`)
	equal(t, "states", states(r), all(map[int]string{2: b}, a))
}

// TestTransitionsWorkInChartsOfAnySize tests charts whose states just fit, or just do not fit, in one or two words of a
// stateSet.
func TestTransitionsWorkInChartsOfAnySize(t *testing.T) {
	t.Parallel()
	for _, states := range []int{2, 62, 63, 64, 65, 126, 127, 128, 129} {
		def := Def{Initial: "p.s0", States: []S{{ID: "p", Initial: "s0"}}}
		p := &def.States[0]
		for i := range states {
			p.States = append(p.States, S{ID: fmt.Sprint("s", i)})
			p.On = append(p.On, On{Event: fmt.Sprint("TO", i), Target: fmt.Sprint(".s", i), Reenter: true})
		}
		r := begin(t, def).is("p.s0", "+p +s0")
		last := "s0"
		for i := range states {
			next := fmt.Sprint("s", states-1-i)
			r.send(fmt.Sprint("TO", states-1-i)).is("p."+next, "-"+last+" -p +p +"+next)
			last = next
		}
	}
}

func TestEveryEventOfALargeTableIsFound(t *testing.T) {
	t.Parallel()
	for events := range 40 {
		def := Def{Initial: "a", Payloads: statechart.Payloads{}, States: []S{{ID: "a"}}}
		for i := range 41 {
			def.Payloads[fmt.Sprintf("E%02d", i)] = statechart.NoPayload()
		}
		for i := events - 1; i >= 0; i-- { // in the reverse order of the table's rows
			def.States[0].On = append(def.States[0].On, On{Event: fmt.Sprintf("E%02d", i), Actions: logs(fmt.Sprint(i))})
		}
		r := begin(t, def).is("a", "+a")
		for i := range 41 {
			want := ""
			if i < events {
				want = fmt.Sprint(i)
			}
			r.send(fmt.Sprintf("E%02d", i)).is("a", want)
		}
	}
}
