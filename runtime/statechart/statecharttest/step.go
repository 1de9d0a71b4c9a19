package statecharttest

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/settle-run/settle/runtime/statechart"
)

// step takes one macrostep, and checks that it leaves the snapshot unchanged and is repeatable.
func (p *Player[C]) step(event statechart.Event) (statechart.Step[C], error) {
	p.t.Helper()
	if p.steps++; p.steps > StepsMax {
		p.t.Fatalf("%s took %d macrosteps without settling (StepsMax); it is in %s", p.config.Instance, p.steps, p.State())
	}
	event.At = p.now
	before := p.marshal(p.snapshot)
	step, err := p.stepOnce(event)
	if after := p.marshal(p.snapshot); !bytes.Equal(before, after) {
		p.t.Fatalf("stepping %s on %q changed the stepped snapshot: an action or a guard writes through a reference\nbefore: %s\nafter:  %s",
			p.config.Instance, event.Type, before, after)
	}
	if err != nil {
		return step, err
	}
	again, err := p.chart.Step(p.snapshot, event)
	if err != nil {
		p.t.Fatalf("stepping %s on %q again from the same snapshot failed: %v", p.config.Instance, event.Type, err)
	}
	first, second := p.marshal(step.Next), p.marshal(again.Next)
	if !bytes.Equal(first, second) || !reflect.DeepEqual(step.Effects, again.Effects) {
		p.t.Fatalf("stepping %s on %q again from the same snapshot gave a different result. An action or a guard depends on more than context and event.\nfirst:  %s %+v\nsecond: %s %+v",
			p.config.Instance, event.Type, first, step.Effects, second, again.Effects)
	}
	p.take(step)
	return step, nil
}

// take makes the step's snapshot current and records the results.
func (p *Player[C]) take(step statechart.Step[C]) {
	p.t.Helper()
	before := p.snapshot
	p.keep(step.Next)
	p.cover()
	p.effects = append(p.effects, step.Effects...)
	p.trace.enter(p.State())
	p.trace.deferred(before.Deferred, p.snapshot.Deferred)
	for _, effect := range step.Effects {
		p.trace.effect(effect, p.snapshot.Timers, p.since)
	}
	if step.Handled && p.snapshot.Status == statechart.Done {
		p.trace.done(p.snapshot.Tags(), p.snapshot.Output)
	}
}

// keep makes the snapshot current after a round trip through JSON. It checks that the round trip changes neither the
// JSON nor the Go values of the snapshot.
func (p *Player[C]) keep(snapshot statechart.Snapshot[C]) {
	p.t.Helper()
	stored := p.marshal(snapshot)
	restored, err := p.chart.Restore(stored)
	if err != nil {
		p.t.Fatalf("restoring %s from %s: %v", p.config.Instance, stored, err)
	}
	if again := p.marshal(restored); !bytes.Equal(stored, again) {
		p.t.Fatalf("restoring %s changed its JSON\nstored:   %s\nrestored: %s", p.config.Instance, stored, again)
	}
	for _, part := range []struct {
		name              string
		stepped, restored any
	}{
		{"context", snapshot.Context, restored.Context},
		{"timers", snapshot.Timers, restored.Timers},
		{"services", snapshot.Services, restored.Services},
		{"children", snapshot.Children, restored.Children},
		{"deferred events", snapshot.Deferred, restored.Deferred},
	} {
		if diff := difference(part.stepped, part.restored); diff != "" {
			p.t.Fatalf("%s: the %s changed in a JSON round trip: the JSON must contain all state (-stepped +restored):\n%s", p.config.Instance, part.name, diff)
		}
	}
	p.snapshot = restored
}

func (p *Player[C]) marshal(snapshot statechart.Snapshot[C]) []byte {
	p.t.Helper()
	text, err := json.Marshal(snapshot)
	if err != nil {
		p.t.Fatalf("marshalling the snapshot of %s: %v", p.config.Instance, err)
	}
	return text
}

// rawJSON makes cmp compare JSON texts by meaning, because marshalling a snapshot removes white space and escapes some
// characters. Numbers keep their digits.
var rawJSON = cmp.FilterPath(
	func(path cmp.Path) bool { return path.Last().Type() == reflect.TypeFor[json.RawMessage]() },
	cmp.FilterValues(
		func(a, b json.RawMessage) bool { return json.Valid(a) && json.Valid(b) },
		cmp.Transformer("JSON", func(text json.RawMessage) (value any) {
			decoder := json.NewDecoder(bytes.NewReader(text))
			decoder.UseNumber()
			_ = decoder.Decode(&value) // The text is valid.
			return value
		})))

// difference compares two values, including unexported fields. It treats nil and empty as equal.
func difference(a, b any) string {
	if reflect.DeepEqual(a, b) {
		return "" // Most values are equal. They do not need the costly report.
	}
	return cmp.Diff(a, b, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty(), rawJSON)
}
