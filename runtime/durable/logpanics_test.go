package durable_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// A log line of a panic has its stack. The panic's value is logged only if the configuration asks for it.
func TestALineOfAPanicHasItsStack(t *testing.T) {
	t.Parallel()
	panicked := &statechart.PanicError{Value: "card 4711", Stack: []string{"shop.charge shop.go:7"}}
	long := &statechart.PanicError{Value: strings.Repeat("4711", 1000)}
	const stack = "[shop.charge shop.go:7]"
	for _, c := range []struct {
		values       bool
		attributes   []any
		value, stack any
	}{
		{false, []any{"error", fmt.Errorf("charging: %w", panicked)}, nil, stack},
		{true, []any{"error", fmt.Errorf("charging: %w", panicked)}, "card 4711", stack},
		{true, []any{"instance", "till/1", "reason", errors.Join(errors.New("no"), panicked), "wait", 1}, "card 4711", stack},
		{true, []any{"error", long}, strings.Repeat("4711", 256), "[]"},
		{true, []any{"error", errors.New("no answer"), "instance", "till/1"}, nil, nil},
		{true, nil, nil, nil},
	} {
		var out strings.Builder
		logger := slog.New(durable.LogPanics(slog.NewJSONHandler(&out, nil), c.values)).With("machine", "till")
		logger.Info("failed", c.attributes...)
		var line map[string]any
		if err := json.Unmarshal([]byte(out.String()), &line); err != nil {
			t.Fatal(err)
		}
		got := line["stack"]
		if got != nil {
			got = fmt.Sprint(got)
		} else if c.stack == "[]" {
			got = "[]" // A nil stack is null in JSON.
		}
		if line["panic"] != c.value || got != c.stack || line["machine"] != "till" {
			t.Errorf("got the line %s, want the value %v and the stack %v", out.String(), c.value, c.stack)
		}
		if !c.values && strings.Contains(out.String(), "card") {
			t.Errorf("the value is in %s", out.String())
		}
	}
	var out strings.Builder
	slog.New(durable.LogPanics(slog.NewJSONHandler(&out, nil), false)).WithGroup("loop").Info("failed", "error", panicked)
	if !strings.Contains(out.String(), `"loop":{"error":`) || !strings.Contains(out.String(), `"stack":["shop.charge shop.go:7"]`) {
		t.Errorf("got %s, want the group with the stack", out.String())
	}
}
