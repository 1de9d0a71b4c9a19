package console

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"testing"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

func TestEscapeRemovesControlCharacters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain, ünïcode 界 👩\nnext line": "plain, ünïcode 界 👩\nnext line",
		"\x1b[2Jclear":                  `\x1b[2Jclear`,
		"\u009b2J, \u009d0;title\a":     `\u009b2J, \u009d0;title\a`,
		"over\rwritten\tand\x7fgone":    `over\rwritten\tand\x7fgone`,
		"bidi \u202e\u2066":             `bidi \u202e\u2066`,
		"no \x9b\xff UTF-8":             `no \x9b\xff UTF-8`,
		"private \U000f0000\ue000":      `private \U000f0000\ue000`,
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q: expected %s, got %q", text, want, got)
		}
	}
}

func TestEscapedJSONKeepsItsMeaning(t *testing.T) {
	t.Parallel()
	text := "{\n\t\"a\u009b\": \"\u202e\x7f\U000f0000界\"\r\n}"
	const want = "{\n\t\"a\\u009b\": \"\\u202e\\u007f\\udb80\\udc00界\"\r\n}"
	got := EscapeJSON(text)
	if got != want {
		t.Errorf("expected %q, got %q", want, got)
	}
	var before, after map[string]string
	if err := json.Unmarshal([]byte(text), &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &after); err != nil || after["a\u009b"] != before["a\u009b"] || before["a\u009b"] == "" {
		t.Errorf("expected %q, got %q, %v", before, after, err)
	}
	if got, want := EscapeJSON("\"\x9b\""), `"\ufffd"`; got != want {
		t.Errorf("invalid UTF-8: expected %s, got %q", want, got)
	}
}

func TestWidthCountsTerminalColumns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, "abc": 3, "\x1b[32mabc\x1b[0m": 3, "→ ü": 3, "界面": 4, "e\u0301": 1, "한글": 4, "ｆｕｌｌ": 8, "🚀!": 3, "𠀀": 2, "👩\u200d🚀": 2, "🇩🇪": 2,
	} {
		if got := Width(text); got != want {
			t.Errorf("%q: expected %d columns, got %d", text, want, got)
		}
	}
}

func TestNullDeviceIsNotATerminal(t *testing.T) {
	t.Parallel()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if IsTerminal(null) || Columns(null) != 0 || Obeys(null) || HasColor(null) {
		t.Errorf("expected %s to be no terminal", os.DevNull)
	}
}

func TestLogLinesContainNoEscapeSequences(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	handler := NewHandler(&out, Style{}, "> ")
	handler.Committed(t.Context(), durable.Committed{Instance: "a/\u009b1", Revision: 1, Transitions: []instances.Transition{
		{Event: "\x1bE", From: []string{"x\u202e"}, To: []string{"y\x1b"}},
	}})
	slog.New(handler).Info("event parked", "reason", "\u009b2J", "ok", "plain")
	const want = `> a/\u009b1           \x1bE          x\u202e → y\x1b  (revision 1)
> event parked reason="\u009b2J" ok=plain
`
	if got := untimed(&out); got != want {
		t.Errorf("expected\n%s\ngot\n%s", want, got)
	}
}
