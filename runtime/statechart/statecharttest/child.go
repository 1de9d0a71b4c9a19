package statecharttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/settle-run/settle/runtime/statechart"
)

// ChildDone ends the child instance that has the ID, and settles the player's instance. The output must be nil or
// marshal to JSON. The test fails if the child is not running.
func (p *Player[C]) ChildDone(id string, output any) {
	p.t.Helper()
	if err := p.endChild(id, output, nil); err != nil {
		p.t.Fatalf("ending child %s of %s: %v", id, p.config.Instance, explained(err))
	}
}

// ChildFailed fails the child instance that has the ID, and settles the player's instance. The test fails if the child
// is not running.
func (p *Player[C]) ChildFailed(id string, failure error) {
	p.t.Helper()
	if err := p.endChild(id, nil, failure); err != nil {
		p.t.Fatalf("ending child %s of %s: %v", id, p.config.Instance, explained(err))
	}
}

func (p *Player[C]) endChild(id string, output any, failure error) error {
	p.t.Helper()
	p.begin("")
	children := p.snapshot.Children
	k := slices.IndexFunc(children, func(ref statechart.ChildRef) bool { return ref.ID == id })
	if k < 0 {
		return fmt.Errorf("expected the ID of a running child, got %q (running: %d)", id, len(children))
	}
	event, err := childEnd(children[k], output, failure)
	if err != nil {
		return err
	}
	if err := p.apply(event); err != nil {
		return err
	}
	return p.rest()
}

// childEnd returns the event that ends a child, with an output that is nil or marshals to JSON, or with an error.
func childEnd(ref statechart.ChildRef, output any, failure error) (statechart.Event, error) {
	if failure != nil {
		return ref.Failed(failure), nil
	}
	if output == nil {
		return ref.Done(nil), nil
	}
	text, err := json.Marshal(output)
	return ref.Done(text), err
}

// child runs the script command that ends a child. The command is "child ID done", with the JSON output on the lines
// below, or "child ID failed WORDS".
func (s *script[C]) child(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var words []string
	for _, arg := range d.CmdArgs {
		words = append(words, arg.String())
	}
	switch {
	case len(words) == 2 && words[1] == "done" && (d.Input == "" || json.Valid([]byte(d.Input))):
		if d.Input == "" {
			return s.show(s.player.endChild(words[0], nil, nil))
		}
		return s.show(s.player.endChild(words[0], json.RawMessage(d.Input), nil))
	case len(words) > 2 && words[1] == "failed":
		return s.show(s.player.endChild(words[0], nil, errors.New(strings.Join(words[2:], " "))))
	default:
		d.Fatalf(t, "expected child ID done, with JSON or nothing below, or child ID failed WORDS, got %s", strings.Join(words, " "))
		return ""
	}
}

// childEffect records an effect on a child instance.
func (t *trace) childEffect(effect statechart.Effect) {
	switch effect.Kind {
	case statechart.SpawnInstance:
		t.detail("%s", strings.TrimSpace(fmt.Sprintf("effect %s spawn %s %s", effect.ID, effect.Machine, effect.Input)))
	case statechart.StopInstance:
		t.detail("effect %s stop %s of %s", effect.ID, effect.Child, effect.Machine)
	default:
		t.detail("effect %s %s %s of %s %s", effect.ID, effect.Kind, effect.Child, effect.Machine, effect.Event)
	}
}

// deferred records the events that a macrostep has deferred and replayed. Events that stay deferred keep their order.
func (t *trace) deferred(before, after []statechart.Deferred) {
	for _, event := range before {
		if len(after) > 0 && after[0].ID == event.ID && string(after[0].Event) == string(event.Event) {
			after = after[1:]
			continue
		}
		t.detail("replayed %s", event.Type)
	}
	for _, event := range after {
		t.detail("deferred %s", event.Type)
	}
}
