package outline_test

import (
	"slices"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/internal/outline"
)

func TestTransitionsHaveTheNamesOfTheHistory(t *testing.T) {
	t.Parallel()
	to := []outline.Transition{{}}
	state := outline.State{
		ID: "order", On: []outline.Transition{{Event: "a.*"}}, Always: to, After: []outline.After{{Delay: time.Minute}, {ID: "late"}},
		Invoke:   []outline.Invoke{{Service: "mail", OnDone: to}, {Service: "pay", OnError: to}, {ID: "x", Service: "fax", OnDone: to}},
		Children: []outline.Child{{Machine: "item", OnDone: to, OnError: to}}, OnDone: to,
	}
	for path, want := range map[string][]string{
		"":    {"a.*", "", "after 1m0s", "after late", "done.invoke.order", "error.invoke.order:1", "done.invoke.x", "done.child.order", "error.child.order", "done.state.order"},
		"a.b": {"a.*", "", "after 1m0s", "after late", "done.invoke.a.b", "error.invoke.a.b:1", "done.invoke.x", "done.child.a.b", "error.child.a.b", "done.state.a.b"},
	} {
		var got []string
		for trigger := range state.Transitions(path) {
			got = append(got, trigger.Event)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: expected %q, got %q", path, want, got)
		}
	}
	for range state.Transitions("") {
		break // The sequence may be left early.
	}
}

func TestATriggerMatchesEventsAsSCXMLDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		descriptor, event string
		want              bool
	}{
		{"*", "a", true}, {"*", "done.invoke.x", true}, {"*", "after late", false}, {"*", "error.execution", false}, {"*", "", false},
		{"a.*", "a", true}, {"a.*", "a.b", true}, {"a.*", "ab", false}, {"after late", "after late", true}, {"", "", true}, {"", "a", false}, {"a", "", false},
	} {
		if got := (outline.Trigger{Event: c.descriptor}).Matches(c.event); got != c.want {
			t.Errorf("%q matches %q: expected %v, got %v", c.descriptor, c.event, c.want, got)
		}
	}
}
