package statechart_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestSnapshotReportsItsState(t *testing.T) {
	t.Parallel()
	chart := everything(t)
	snapshot := full(t, chart)
	equal(t, "state", text(t, snapshot.State()), `["p.r1.b.y","p.r2.c"]`)
	equal(t, "value", string(snapshot.Value()), `{"p":{"r1":{"b":"y"},"r2":"c"}}`)
	equal(t, "tags", text(t, snapshot.Tags()), `["busy","settled"]`)
	equal(t, "settled", snapshot.Settled(), true)
	equal(t, "next events", text(t, snapshot.NextEvents()), `["CALL","END","OUT"]`)
	for tag, has := range map[string]bool{"busy": true, "settled": true, "other": false, "": false} {
		equal(t, "tag "+tag, snapshot.HasTag(tag), has)
	}
	for path, matches := range map[string]bool{"": true, "p": true, "p.r1": true, "p.r1.b.y": true, "p.r2.c": true,
		"p.r1.a": false, "out": false, "p.r1.flat": false, "y": false, "nowhere": false} {
		equal(t, "matches "+path, snapshot.Matches(path), matches)
	}
}

func TestSnapshotWithARunningServiceIsNotSettled(t *testing.T) {
	t.Parallel()
	equal(t, "settled", full(t, everything(t), "CALL").Settled(), false)
	// While an ancestor's service runs, a snapshot is not settled, even if all its leaves are final.
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Initial: "f", Invoke: []Invoke{service("", []On{{Target: "ok"}}, []On{{Target: "ok"}})}, States: []S{{ID: "f", Type: statechart.Final}}}, {ID: "ok"}}})
	equal(t, "settled", r.step.Next.Settled(), false)
	equal(t, "settled", r.apply(r.step.Next.Services[0].Done(1)).step.Next.Settled(), true)
}

func TestValueHasXStatesForm(t *testing.T) {
	t.Parallel()
	leaf := S{ID: "x"}
	deep := S{ID: "d", Initial: "x", States: []S{leaf}}
	for want, def := range map[string]Def{
		`"x"`:                        {Initial: "x", States: []S{leaf}},
		`{"d":"x"}`:                  {Initial: "d", States: []S{deep}},
		`{"d":"x","x":{}}`:           {Parallel: true, States: []S{deep, leaf}},
		`{"p":{"x":{},"d":"x"}}`:     {Initial: "p", States: []S{{ID: "p", Type: statechart.Parallel, States: []S{leaf, deep}}}},
		`{"o":{"d":"x"}}`:            {Initial: "o", States: []S{{ID: "o", Initial: "d", States: []S{deep}}}},
		`"é\"\\ü<"`:                  {Initial: `é"\ü<`, States: []S{{ID: `é"\ü<`}}},
		`{"p":{"p":{"p":{"x":{}}}}}`: {Initial: "p", States: []S{{ID: "p", Type: statechart.Parallel, States: []S{{ID: "p", Type: statechart.Parallel, States: []S{{ID: "p", Type: statechart.Parallel, States: []S{leaf}}}}}}}},
	} {
		r := begin(t, def)
		equal(t, "value", string(r.step.Next.Value()), want)
		restored, err := r.chart.Restore([]byte(text(t, r.step.Next)))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "restored", text(t, restored), text(t, r.step.Next))
	}
}

func TestNextEventsFollowDescriptorsAndNameEachOnce(t *testing.T) {
	t.Parallel()
	payloads := statechart.Payloads{"a.b": statechart.NoPayload(), "c": statechart.NoPayload(), "inner": statechart.InternalOf[int]()}
	def := Def{Initial: "p", Payloads: payloads, States: []S{{ID: "p", Type: statechart.Parallel, States: []S{
		{ID: "x", On: []On{{Event: "a.*"}, {Event: "inner"}}}, {ID: "y", On: []On{{Event: "a.b", Guard: no}}}}}}}
	equal(t, "next events", text(t, begin(t, def).step.Next.NextEvents()), `["a.b"]`)
	def.On = []On{{Event: "*"}}
	equal(t, "next events", text(t, begin(t, def).step.Next.NextEvents()), `["a.b","c"]`)
}

func TestChartReturnsItsIDAndVersion(t *testing.T) {
	t.Parallel()
	chart := compile(t, Def{ID: "sign-up_2", Version: 7, Initial: "a", States: []S{{ID: "a", Tags: settled}}})
	equal(t, "ID", chart.ID(), "sign-up_2")
	equal(t, "version", chart.Version(), 7)
}

func TestContextOfANewInstanceIsComputedFromItsStart(t *testing.T) {
	t.Parallel()
	chart := compile(t, Def{ID: "c", Version: 1, Initial: "a", States: []S{{ID: "a", Tags: settled}},
		Context: func(s statechart.Start) trace { return trace{Log: []string{s.Instance, s.At.Format("15:04")}} }})
	step, err := chart.Start(statechart.Start{Instance: "c/9", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "context", text(t, step.Next.Context), `{"log":["c/9","03:04"],"n":0}`)
	equal(t, "handled", step.Handled, true)
}

func TestSnapshotWithInvalidJSONDoesNotMarshal(t *testing.T) {
	t.Parallel()
	chart := everything(t)
	active := full(t, chart)
	active.Timers[0].Event = json.RawMessage("{")
	_, err := active.MarshalJSON()
	if err == nil || !strings.HasPrefix(err.Error(), "marshalling a snapshot of chart c: ") {
		t.Errorf("got the error %v for a timer's event", err)
	}
	done := full(t, chart, "END")
	done.Output = json.RawMessage("{")
	_, err = done.MarshalJSON()
	if err == nil || !strings.HasPrefix(err.Error(), "marshalling the output of chart c: ") {
		t.Errorf("got the error %v for an output", err)
	}
}

func TestTextsAreEscapedAsJSON(t *testing.T) {
	t.Parallel()
	tags := []string{`a"b`, `a\b`, "a\tb", "a\x01b", "a\u00e9b", "a<b", "a\u2028b", "\x7f"}
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", Tags: tags, On: []On{{Event: `GO"\é`, Actions: Do{raise("x"), statechart.Emit(`"\é<`, func(trace, Event) any { return nil })}}}}}, Payloads: statechart.Payloads{"x": statechart.NoPayload()}})
	var form struct{ Tags []string }
	stored := text(t, r.step.Next)
	if err := json.Unmarshal([]byte(stored), &form); err != nil {
		t.Fatalf("%v: %s", err, stored)
	}
	equal(t, "tags", strings.Join(form.Tags, " "), strings.Join(r.step.Next.Tags(), " "))
	appended, err := r.step.Next.AppendJSON(nil)
	if err != nil || !json.Valid(appended) {
		t.Fatalf("%v: %s", err, appended)
	}
	if err := json.Unmarshal(appended, &form); err != nil {
		t.Fatal(err)
	}
	equal(t, "tags, appended", strings.Join(form.Tags, " "), strings.Join(r.step.Next.Tags(), " "))
	restored, err := r.chart.Restore(appended)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "restored", text(t, restored), stored)
	r.send(`GO"\é`)
	var event struct{ Type string }
	if err := json.Unmarshal(r.step.Effects[0].Event, &event); err != nil {
		t.Fatal(err)
	}
	equal(t, "type", event.Type, `"\é<`)
}
