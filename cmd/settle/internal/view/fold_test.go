package view

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/deadletter"
	"github.com/settle-run/settle/runtime/instances"
)

func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	table := func(columns int) string {
		table := NewTable(console.NewStyle(false, columns), "INSTANCE", "STATE", "SINCE", "REASON")
		table.Add(Bold("signup/42"), State("unverified.waiting"), Plain("2h ago"), Warning("wrong payload: expected a code of 6 digits, got none"))
		table.Add(Bold("面/1"), State("ready"), Plain("1h00m ago"), Warning("-"))
		var b strings.Builder
		if err := table.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for columns, want := range map[int]string{
		0: "INSTANCE   STATE               SINCE      REASON\n" +
			"signup/42  unverified.waiting  2h ago     wrong payload: expected a code of 6 digits, got none\n" +
			"面/1       ready               1h00m ago  -\n",
		70: "INSTANCE   STATE               SINCE      REASON\n" +
			"signup/42  unverified.waiting  2h ago     wrong payload: expected a\n" +
			"                                          code of 6 digits, got none\n" +
			"面/1       ready               1h00m ago  -\n",
		50: "INSTANCE   STATE               SINCE\n    REASON\n" +
			"signup/42  unverified.waiting  2h ago\n" +
			"    wrong payload: expected a code of 6 digits,\n    got none\n" +
			"面/1       ready               1h00m ago\n",
		25: "INSTANCE\n    STATE\n    SINCE\n    REASON\n" +
			"signup/42\n    unverified.waiting\n    2h ago\n" +
			"    wrong payload: expected\n    a code of 6 digits, got\n    none\n" +
			"面/1\n    ready\n    1h00m ago\n",
	} {
		if got := table(columns); got != want {
			t.Errorf("%d columns: expected\n%s\ngot\n%s", columns, want, got)
		}
	}
}

func TestInstanceFitsTheTerminalButForItsContext(t *testing.T) {
	t.Parallel()
	r := record()
	r.History = []instances.Transition{{At: noon, Event: "SIGN_UP", From: []string{"unverified.registering"}, To: []string{"unverified.awaiting_verification"}}}
	v, err := Of(pipelines(t), r)
	if err != nil {
		t.Fatal(err)
	}
	v.NextEvents = strings.Fields(strings.Repeat("EVENT ", 20))
	v.Context = json.RawMessage(`{"long": "` + strings.Repeat("two words, ", 20) + `"}`)
	var b strings.Builder
	if err := v.WriteText(&b, console.NewStyle(false, 60), noon); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if isContext := strings.Contains(line, `"long": "two words`); console.Width(strings.TrimSuffix(line, "\n")) > 60 != isContext {
			t.Errorf("expected at most 60 columns except for the context, got %q", line)
		}
	}
	if text := b.String(); !strings.Contains(text, "  history   01-02 12:00:00.000  SIGN_UP") || !strings.Contains(text, "→ unverified.awaiting_verification\n") {
		t.Errorf("expected the history to be folded before the arrow, got\n%s", text)
	}
}

func TestProseIsFoldedBelowItsLabel(t *testing.T) {
	t.Parallel()
	r := record()
	r.Snapshot = json.RawMessage(`{"machine": "pipeline", "version": 3, "status": "active", "value": "a", "tags": ["settled"]}`)
	v, err := Of(pipelines(t), r)
	if err != nil {
		t.Fatal(err)
	}
	v.Problem, v.Settled = "", true
	v.NextEvents = strings.Fields(strings.Repeat("EVENT ", 9))
	var b strings.Builder
	if err := v.WriteText(&b, console.NewStyle(false, 50), noon); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  status    active, settled: nothing runs until\n            the next event or timer\n",
		"  next      EVENT, EVENT, EVENT, EVENT, EVENT,\n            EVENT, EVENT, EVENT, EVENT\n",
		"  stored    revision 9, 1m00s ago, version 3 of\n            pipeline\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("expected\n%s\nin\n%s", want, b.String())
		}
	}
}

func TestInstanceTextContainsNoEscapeSequences(t *testing.T) {
	t.Parallel()
	const evil = "\x1b[2J\u009b2J\u202e"
	r := record()
	r.State = []string{"busy" + evil}
	r.History = []instances.Transition{{At: noon, Event: "E" + evil, From: r.State, To: r.State}, {At: noon, Event: "E", From: []string{"a" + evil}, To: r.State}}
	v, err := Of(pipelines(t), r)
	if err != nil {
		t.Fatal(err)
	}
	// In JSON, characters from U+007F on may stay unescaped.
	v.Context, v.Output = json.RawMessage("{\"k\u009b\": \"v\u009b2J\u202e\x7f\"}"), json.RawMessage("no JSON\x1b")
	v.Tags, v.NextEvents, v.Parent = []string{"tag" + evil}, []string{"NEXT" + evil}, "p/"+evil
	var b strings.Builder
	if err := v.WriteText(&b, console.Style{}, noon); err != nil {
		t.Fatal(err)
	}
	if err := WriteTable(&b, console.Style{}, []Instance{v}, noon); err != nil {
		t.Fatal(err)
	}
	b.WriteString(v.Summary(console.Style{}))
	if text := b.String(); strings.ContainsAny(text, "\x1b\u009b\u202e\x7f") || !strings.Contains(text, `"k\u009b": "v\u009b2J\u202e\u007f"`) || !strings.Contains(text, `busy\x1b[2J\u009b2J\u202e`) {
		t.Errorf("expected everything to be escaped, got %q", text)
	}
}

func TestParkedEventIsShownCompletely(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	var b strings.Builder
	p := ParkedEvent{Message: &deadletter.Message{Event: "E\x1b", Sent: noon}, Body: json.RawMessage(`{"long": "` + long + "\u009b" + `"}`)}
	if err := p.WriteText(&b, console.Style{}, noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	want := "no instance\n  event     E\\x1b\n  parked    2026-01-02 12:00:00 UTC (1h00m ago)\n  reason    none recorded: SQS moved it after too many receives\n" +
		"  body      {\n              \"long\": \"" + long + "\\u009b\"\n            }\n"
	if b.String() != want {
		t.Errorf("expected\n%s\ngot\n%s", want, b.String())
	}
}

func TestReasonsAreFoldedAtSpaces(t *testing.T) {
	t.Parallel()
	parked := ParkedEvent{Message: &deadletter.Message{ID: "m", Instance: "signup/46", Event: "VERIFY", Sent: noon, Reason: `wrong payload: got {"cod": "1", "x": 2}, expected a code`}}
	for name, c := range map[string]struct {
		write func(*strings.Builder) error
		want  string
	}{
		"one event": {func(b *strings.Builder) error { return parked.WriteText(b, console.NewStyle(true, 50), noon) },
			"\n  \x1b[2mreason\x1b[0m    wrong payload: got {\"cod\": \"1\", \"x\":\n            2}, expected a code\n"},
		"the table": {func(b *strings.Builder) error {
			return WriteParked(b, console.NewStyle(false, 69), []ParkedEvent{parked}, noon)
		}, "m           signup/46  VERIFY  0s ago  wrong payload: got {\"cod\":\n" +
			"                                       \"1\", \"x\": 2}, expected a code\n"},
	} {
		var b strings.Builder
		if err := c.write(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: expected\n%s\nin\n%s", name, c.want, b.String())
		}
	}
}
