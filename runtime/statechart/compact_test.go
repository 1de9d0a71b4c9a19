package statechart_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// written returns a chart without timers, services or children. AppendJSON writes the fewest members for its snapshots,
// and Restore reads them with the fast parser.
func written(tb testing.TB) *statechart.Chart[trace] {
	tb.Helper()
	chart, err := statechart.Compile(traced(Def{Initial: "p", States: []S{
		{ID: "p", Type: statechart.Parallel, Tags: []string{"busy", "a"}, On: []On{{Event: "OUT", Target: "out"}, {Event: "SOLO", Target: "solo"}, {Event: "END", Target: "end"}}, States: []S{
			{ID: "r1", Initial: "a", States: []S{
				{ID: "h", Type: statechart.ShallowHistory},
				{ID: "a", On: []On{{Event: "GO", Target: "b.y"}}},
				{ID: "b", Initial: "x", States: []S{{ID: "x"}, {ID: "y"}}}}},
			{ID: "r2"},
		}},
		{ID: "solo", Type: statechart.Parallel, States: []S{{ID: "one", Initial: "of", States: []S{{ID: "of", On: []On{{Event: "TWO", Target: "two"}}}, {ID: "two"}}}}},
		{ID: "out", On: []On{{Event: "BACK", Target: "p"}, {Event: "H", Target: "p.r1.h"}}},
		{ID: "end", Type: statechart.Final},
	}}))
	if err != nil {
		tb.Fatal(err)
	}
	return chart
}

// writtenSnapshots returns snapshots of the chart from `written`, as JSON. The snapshots have no history.
func writtenSnapshots(tb testing.TB, chart *statechart.Chart[trace]) []string {
	tb.Helper()
	started, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		tb.Fatal(err)
	}
	moved, err := chart.Step(started.Next, Event{Type: "GO", At: epoch})
	if err != nil {
		tb.Fatal(err)
	}
	moved.Next.Context = trace{Log: []string{`a"b}`, `c\`, `,"]{`, "d", ""}, N: -12}
	first := text(tb, started.Next)
	return []string{
		first, text(tb, moved.Next),
		strings.Replace(first, `{"p":{"r1":"a","r2":{}}}`, `{"solo":{"one":"two"}}`, 1),
		strings.NewReplacer(`{"p":{"r1":"a","r2":{}}}`, `"out"`, `["a","busy","settled"]`, `[]`, `"steps":1`, `"steps":123456789012345678`).Replace(first),
		strings.NewReplacer(`{"p":{"r1":"a","r2":{}}}`, `"end"`, `"active"`, `"done"`).Replace(first),
	}
}

// agreement restores the data twice. The second time, spaces between the tokens force encoding/json instead of the fast
// parser. agreement describes any difference between the results, and any invalid JSON that restores without an error.
// Otherwise it returns "".
func agreement(t fataler, chart *statechart.Chart[trace], data []byte) string {
	t.Helper()
	snapshot, err := chart.Restore(data)
	if err != nil && !errors.Is(err, statechart.ErrUnreadable) {
		return fmt.Sprintf("the error %v of %q does not wrap ErrUnreadable", err, data)
	}
	var spaced bytes.Buffer
	if invalid := json.Indent(&spaced, data, "", " "); invalid != nil {
		if err == nil {
			return fmt.Sprintf("%q restores as %s, but is not JSON: %v", data, text(t, snapshot), invalid)
		}
		return ""
	}
	other, errOther := chart.Restore(spaced.Bytes())
	if fmt.Sprint(err) != fmt.Sprint(errOther) {
		return fmt.Sprintf("%q: got the error %v and, with spaces, %v", data, err, errOther)
	}
	if err != nil {
		return ""
	}
	got, want := text(t, snapshot)+fmt.Sprint(snapshot.State()), text(t, other)+fmt.Sprint(other.State())
	for _, event := range append(chart.Events(), "") {
		step, err := chart.Step(snapshot, Event{Type: event, At: epoch})
		stepOther, errOther := chart.Step(other, Event{Type: event, At: epoch})
		got += fmt.Sprintln(event, text(t, step), err)
		want += fmt.Sprintln(event, text(t, stepOther), errOther)
	}
	if got != want {
		return fmt.Sprintf("%q restores as\n%s\nand, with spaces, as\n%s", data, got, want)
	}
	return ""
}

// TestFastParserAgreesWithEncodingJSONOnDamagedInput damages written snapshots at every position.
func TestFastParserAgreesWithEncodingJSONOnDamagedInput(t *testing.T) {
	t.Parallel()
	chart := written(t)
	check := func(parts ...string) {
		if wrong := agreement(t, chart, []byte(strings.Join(parts, ""))); wrong != "" {
			t.Error(wrong)
		}
	}
	for _, intact := range writtenSnapshots(t, chart)[1:4] {
		if _, err := chart.Restore([]byte(intact)); err != nil {
			t.Fatalf("%s: %v", intact, err)
		}
		for at := range len(intact) {
			before, after := intact[:at], intact[at+1:]
			check(before)
			check(before, after)
			for _, b := range "\"\\{}[],: 0-\x01\u00e9" {
				check(before, string(b), after)
				check(before, string(b), intact[at:])
			}
			check(before, "\xff", after)
			check(intact, intact[at:])
		}
	}
}

// TestFastParserAgreesWithEncodingJSONOnUnusualMembers replaces one member with values that single-byte damage does not
// produce.
func TestFastParserAgreesWithEncodingJSONOnUnusualMembers(t *testing.T) {
	t.Parallel()
	chart := written(t)
	members := []string{
		`"machine":"c"`, `"version":1`, `"status":"active"`, `"value":{"p":{"r1":"a","r2":{}}}`, `"context":{"log":null,"n":0}`, `"tags":["a","busy"]`, `"steps":1`,
	}
	if _, err := chart.Restore([]byte("{" + strings.Join(members, ",") + "}")); err != nil {
		t.Fatal(err)
	}
	odd := append([]string{
		`"machine":"\u0063"`, `"machine":null`, `"machine":"d"`, `"version":01`, `"version":1.0`, `"version":10000000000000000000`, `"version":`, `"version":9223372036854775808`,
		`"status":"stopped"`, `"status":""`, `"status":"\u0061ctive"`, `"status":"done"`, `"Status":"active"`, `"s\u0074atus":"active"`,
		`"tags":null`, `"tags":"a"`, `"tags":[1]`, `"tags":["a",]`, `"tags":["a" "b"]`, `"tags":["a"`, `"tags":[,"a"]`, `"tags":["a",{}]`, `"tags":[]`, `"tags":"a"]`,
		"\"tags\":[\"\x01\"]", `"tags":["\"]"]`, `"tags":["\x"]`,
		`"steps":0`, `"steps":-1`, `"steps":1e0`, `"steps":00`, `"steps":9223372036854775806`, `"steps":9223372036854775807`, `"steps":9223372036854775808`, `"steps":99999999999999999999`, `"steps":`, `"steps":"1"`,
		`"context":`, `"context":null`, `"context":[]`, `"context":{"log":["]","}"],"n":1}`, `"context":{"log":["\"]},"],"n":1}`, `"context":{]`, `"context":{"n":"1"}`, `"context":{"n":1]`, `"context": {"n":1}`,
		`"output":1`, `"timers":{}`, `"timers":{"1.0":{}}`, `"historyValue":{"p.r1.h":["p.r1.a"]}`, `"deferred":[]`, `"children":{}`, `"more":1`, `"":1`, ``,
	}, members...)
	for _, value := range []string{
		``, `null`, `""`, `"p"`, `"out"`, `"end"`, `"solo"`, `"h"`, `"r2"`, `"p.r2"`, `"out"x`, `"out" `, ` "out"`, `"o\u0075t"`, `"out`, `{}`, `[]`, `7`, `{"out":{}}`, `{"out":{},}`, `{"out":"a"}`, `{"out"}`, `{"out":}`, `{:{}}`,
		`{"out":{},"end":{}}`, `{"out":{},"out":{}}`, `{"p":{}}`, `{"p":"r2"}`, `{"p":{"r2":{}}}`, `{"p":{"r2":{},"r1":"a"}}`, `{"p":{"r1":"a","r1":"b"}}`, `{"p":{"r1":"b","r2":{}}}`, `{"p":{"r1":{"b":"y"},"r2":{}}}`,
		`{"p":{"r1":{"b":"y"}"r2":{}}}`, `{"p":{"r1":"a","r2":{}}`, `{"p":{"r1":"a","r2":{}}}}`, `{"p":{"r1":"a","r1":"a"}}`, `{"p":{"r1":"a","r2":{},"r2":{}}}`, `{"p":{"r1":"a","r2":{},"r3":{}}}`, `{"p":{"r1":"h","r2":{}}}`, `{"p":{"r1":"b.x","r2":{}}}`,
		`{"p":{"r1":{"b":{}},"r2":{}}}`, `{"p":{"r1":{"b":{"x":{}}},"r2":{}}}`, `{"p":{"r1":{"a":{},"b":"x"},"r2":{}}}`, `{"p":{"r1":"a","r2":"a"}}`, `{"p":{"r1":"r2","r2":{}}}`, `{"p"{"r1":"a","r2":{}}}`, `{p:{"r1":"a","r2":{}}}`,
		`{"solo":"one"}`, `{"solo":{"one":{}}}`, `{"solo":{"one":"of"}}`, `{"solo":{"one":"of"},"out":{}}`, `{"solo":{"one":{"of":{},"two":{}}}}`,
	} {
		odd = append(odd, `"value":`+value)
	}
	for at := range members {
		for _, member := range odd {
			edited := append([]string{}, members...)
			edited[at] = member
			for _, data := range []string{
				"{" + strings.Join(edited, ",") + "}",
				"{" + strings.Join(append(edited, members[at]), ",") + "}",
				"{" + strings.Join(append(edited, members[at]), ",") + ",}",
				"{" + strings.Join(edited[:at], ",") + strings.Join(edited[at:], ",") + "}",
			} {
				if wrong := agreement(t, chart, []byte(data)); wrong != "" {
					t.Error(wrong)
				}
			}
		}
	}
}

// TestRestoreUsesTheFastParser counts allocations: encoding/json would need twice as many. It tries contexts of
// different shapes.
//
//nolint:paralleltest // Other tests' allocations would be counted.
func TestRestoreUsesTheFastParser(t *testing.T) {
	const allocationsMax = 20 // most of them are for the context
	chart := written(t)
	for _, data := range writtenSnapshots(t, chart) {
		got := testing.AllocsPerRun(20, func() {
			if _, err := chart.Restore([]byte(data)); err != nil {
				t.Fatal(err)
			}
		})
		if got > allocationsMax {
			t.Errorf("%s: got %v allocations, want at most %d", data, got, allocationsMax)
		}
	}
}
