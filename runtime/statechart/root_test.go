package statechart_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestRootAlwaysIsTriedLast(t *testing.T) {
	t.Parallel()
	enough := statechart.Not(below(2))
	r := begin(t, Def{Initial: "a",
		Always: []On{{Guard: enough, Target: ".over", Actions: logs("root")}},
		On:     []On{{Event: "MORE", Actions: Do{add(1)}}},
		States: []S{
			{ID: "a", Tags: settled, Always: []On{{Guard: enough, Target: "b", Actions: logs("own")}}},
			{ID: "b", Tags: settled}, {ID: "over", Type: statechart.Final},
		}})
	r.send("MORE").is("a", "+a")
	r.send("MORE").is("over", "-a own +b -b root +over -over")
}

func TestRootServicesRunFromStartToEnd(t *testing.T) {
	t.Parallel()
	def := func() Def {
		return Def{Initial: "a", Invoke: []Invoke{
			service("", []On{{Target: ".over", Actions: logs("done")}}, []On{{Target: ".b", Actions: logs("failed")}}),
			service("second", []On{{Actions: logs("second")}}, []On{{Actions: logs("lost")}}),
		}, States: []S{
			{ID: "a", Always: []On{{Guard: no, Target: "b"}}}, {ID: "b", Always: []On{{Guard: no, Target: "a"}}}, {ID: "over", Type: statechart.Final},
		}}
	}
	r := begin(t, def()).is("a", "+a")
	services := r.step.Next.Services
	equal(t, "services", text(t, services), `[{"ID":"c","Key":"1.0","State":"","Service":"call","Attempt":0,"RetryAt":"0001-01-01T00:00:00Z"},{"ID":"second","Key":"1.1","State":"","Service":"call","Attempt":0,"RetryAt":"0001-01-01T00:00:00Z"}]`)
	equal(t, "settled", r.step.Next.Settled(), false)
	restored, err := r.chart.Restore([]byte(text(t, r.step.Next)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "restored", text(t, restored), text(t, r.step.Next))
	r.apply(services[0].Failed(errPlanned)).is("b", "-a failed +b")
	equal(t, "services left", len(r.step.Next.Services), 1)

	r = begin(t, def()).is("a", "+a")
	r.apply(r.step.Next.Services[0].Done(nil)).is("over", "-a done +over -over")
	equal(t, "services at the end", len(r.step.Next.Services), 0)
}

func TestRootChildrenRunFromStartToEnd(t *testing.T) {
	t.Parallel()
	def := Def{Initial: "a",
		Children: []Child{{Machine: "job", Input: inputN, OnDone: []On{{Actions: Do{keepOutput}}}}, {ID: "w", Machine: "watch"}},
		On: []On{
			{Event: "SPAWN", Actions: Do{statechart.Spawn[trace]("x", "worker", nil)}},
			{Event: "AGAIN", Target: "#c", Reenter: true}, {Event: "END", Target: ".over"},
		},
		States: []S{{ID: "a"}, {ID: "over", Type: statechart.Final}}}
	r := begin(t, def)
	equal(t, "effects", effects(r), `[{"id":"1.0","kind":"spawn","child":"1.0","machine":"job","input":{"n":0}},{"id":"1.1","kind":"spawn","child":"1.1","machine":"watch"}]`)
	equal(t, "settled", r.step.Next.Settled(), true)
	first := r.ref("c")
	r.apply(first.Done(json.RawMessage(`1`))).is("a", "+a 1")
	r.send("SPAWN")
	restored, err := r.chart.Restore([]byte(text(t, r.step.Next)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "restored", text(t, restored), text(t, r.step.Next))
	r.send("AGAIN").is("a", "-a +a")
	equal(t, "only the chart's own are stopped and started again", effects(r),
		`[{"id":"4.0","kind":"stop","child":"1.1","machine":"watch"},{"id":"4.1","kind":"spawn","child":"4.1","machine":"job","input":{"n":0}},{"id":"4.2","kind":"spawn","child":"4.2","machine":"watch"}]`)
	r.send("END")
	equal(t, "children at the end", len(r.step.Next.Children), 0)
}

func TestRootDefersUnhandledEvents(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", Defer: []string{"LATER"}, States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "b"}}}, {ID: "b", On: []On{{Event: "LATER", Actions: logs("taken")}}},
	}})
	r.send("LATER").is("a", "+a")
	equal(t, "waiting", deferredBy(r), "LATER")
	r.send("GO").is("b", "-a +b taken")
	equal(t, "waiting", deferredBy(r), "")
}

func TestRootHasTagsMetaAndDoc(t *testing.T) {
	t.Parallel()
	def := Def{Initial: "a", Tags: []string{"demo"}, Meta: map[string]int{"width": 3}, Doc: "Waits\nfor ever; #1.", States: []S{{ID: "a", Meta: 1}}}
	r := begin(t, def)
	equal(t, "tags", text(t, r.step.Next.Tags()), `["demo","settled"]`)
	equal(t, "meta", text(t, r.step.Next.Meta()), `{"":{"width":3},"a":1}`)
	contains := func(part string) { equal(t, part, slices.Contains(strings.Split(r.chart.Mermaid(), "\n"), part), true) }
	contains("  accDescr: Waits for ever; #1.")
}

func TestDefinitionReturnsTheCompiledDefinition(t *testing.T) {
	t.Parallel()
	def := traced(Def{Initial: "a", Tags: []string{"x"}, Doc: "d", Meta: "m", Defer: []string{"LATER"},
		Payloads: statechart.Payloads{"LATER": statechart.NoPayload()}, ContextParams: json.RawMessage(`{}`), OutputParams: json.RawMessage(`1`),
		Children: []Child{{Machine: "job"}}, Always: []On{{Guard: no, Target: ".b"}}, States: []S{{ID: "a"}, {ID: "b"}}})
	got := compile(t, def).Definition()
	equal(t, "definition", text(t, []any{got.Tags, got.Doc, got.Meta, got.Defer, got.ContextParams, got.OutputParams, len(got.Children), len(got.Always), got.Initial, len(got.States)}),
		`[["x"],"d","m",["LATER"],{},1,1,1,"a",2]`)
}

func TestRootFieldsAreChecked(t *testing.T) {
	t.Parallel()
	checkFlaws(t, []flaw{
		{"tag", func(d *Def, _, _ *S) { d.Tags = settled }, "", "is tagged settled but is not atomic", "tag the atomic states below it that may wait"},
		{"meta", func(d *Def, _, _ *S) { d.Meta = func() {} }, "", "has a Meta that does not marshal to JSON (json: unsupported type: func())", "use values that encoding/json can write"},
		{"defer", func(d *Def, _, _ *S) { d.Defer = []string{"NOPE"} }, "", `defers "NOPE", but Payloads declares no such event from outside`, "declare it, or remove the descriptor from Defer"},
		{"child", func(d *Def, _, _ *S) { d.Children = []Child{{}} }, "", `has the child "c" without a machine`, "set Machine to the ID of the child's machine"},
		{"always to nowhere", func(d *Def, _, _ *S) { d.Always = []On{{Guard: no, Target: ".nope"}} }, "", `always: target ".nope" is not a state`, "name a sibling, a .child, or a #path.of.a.state"},
		{"invoke without an end", func(d *Def, wait, next *S) {
			wait.Tags, next.Tags, next.Type = nil, nil, statechart.Final
			wait.On, wait.Always = nil, []On{{Guard: no, Target: "next"}}
			d.Invoke = []Invoke{service("", []On{{Target: ".next"}}, nil)}
		}, "", "invokes call without OnError", "add a transition to OnError"},
	})
}

// TestRootServiceOrEndlessAlwaysPreventsSettling shows the findings for states that could never wait.
func TestRootServiceOrEndlessAlwaysPreventsSettling(t *testing.T) {
	t.Parallel()
	ends := []On{{Target: ".next"}}
	for _, c := range []struct {
		name   string
		change func(d *Def, wait, next *S)
		want   string
	}{
		{"service", func(d *Def, _, _ *S) { d.Invoke = []Invoke{service("", ends, ends)} }, `chart "c": 2 findings:
  state "wait" is settled, but the chart itself invokes the service "call", so it can never settle: invoke the service from an unsettled state
  state "next" is settled, but the chart itself invokes the service "call", so it can never settle: invoke the service from an unsettled state`},
		{"always", func(d *Def, _, _ *S) { d.Always = ends }, `chart "c": 1 finding:
  state "wait" is settled, but the chart has an unguarded Always transition: remove the tag, or guard the transition`},
		{"endless", func(d *Def, wait, next *S) { d.Always, wait.Tags, wait.On, next.Tags = ends, nil, nil, nil }, `chart "c": 1 finding:
  state "next" is part of a cycle of unguarded Always transitions: "next" -> "next": guard one of the transitions`},
	} {
		_, err := statechart.Compile(flawed(c.change))
		var failure *statechart.DefinitionError
		if !errors.As(err, &failure) {
			t.Errorf("%s: got %v, want a *DefinitionError", c.name, err)
			continue
		}
		equal(t, c.name, err.Error(), c.want)
	}
}

// TestEndOfAnInstanceIsTraced shows that the exit actions at the end are reported as a microstep.
func TestEndOfAnInstanceIsTraced(t *testing.T) {
	t.Parallel()
	chart := compile(t, traced(Def{Initial: "a", Exit: logs("-c"), States: []S{{ID: "a", On: []On{{Event: "GO", Target: "b"}}}, {ID: "b", Type: statechart.Final}}}))
	var reported []statechart.Microstep
	stepper := chart.Stepper()
	stepper.OnMicrostep = func(m statechart.Microstep) { reported = append(reported, m) }
	snapshot, _, err := stepper.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := stepper.Step(&snapshot, &Event{Type: "GO", At: epoch}); err != nil {
		t.Fatal(err)
	}
	equal(t, "last", text(t, reported[1:]), `[{"Event":"GO","Transitions":[0],"Exited":["a"],"Entered":["b"],"Actions":["-a","+b"]},{"Event":"GO","Transitions":null,"Exited":null,"Entered":null,"Actions":["-b","-c"]}]`)
}

func TestInputAndPayloadFunctionsAreOptional(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO", Actions: Do{
		statechart.Spawn[trace]("w", "worker", nil), statechart.SendToChild[trace]("w", "HELLO", nil), statechart.Emit[trace]("seen", nil),
	}}}}}}).send("GO")
	equal(t, "effects", effects(r), `[{"id":"2.0","kind":"spawn","child":"2.0","machine":"worker"},{"id":"2.1","kind":"send","event":{"type":"HELLO"},"child":"2.0","machine":"worker"},{"id":"2.2","kind":"emit","event":{"type":"seen"}}]`)
}
