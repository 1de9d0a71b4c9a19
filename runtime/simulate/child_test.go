package simulate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

// voyage is the context of the harbour, which sends ships, and of the ships. Log lists the events in order.
type voyage struct {
	Cargo string   `json:"cargo"`
	Log   []string `json:"log"`
}

// Validate rejects a cargo that no ship carries.
func (v voyage) Validate() error {
	if v.Cargo == "lead" {
		return fmt.Errorf("no ship carries %s", v.Cargo)
	}
	return nil
}

type cargo struct {
	Cargo string `json:"cargo"`
}

const (
	harbour1 = "harbour/1"
	voyages  = 3 * time.Hour
)

// sailing hosts the harbour, the ships and the boats. The harbour's state `waiting` has a ship as its child. Each ship
// has a boat as its child.
func sailing() []durable.Machine {
	type on = statechart.Transition[voyage]
	type do = []statechart.Action[voyage]
	type state = statechart.State[voyage]
	type child = statechart.Child[voyage]
	settled := []string{statechart.Settled}
	events := statechart.Payloads{"sail": statechart.PayloadOf[cargo](), "hail": statechart.PayloadOf[cargo](), "recall": statechart.NoPayload(), "close": statechart.NoPayload()}
	took := statechart.Assign("took", func(v *voyage, c cargo) { v.Log = append(v.Log, c.Cargo) })
	home := statechart.Assign("home", func(v *voyage, output json.RawMessage) { v.Log = append(v.Log, "home with "+string(output)) })
	lost := statechart.Assign("lost", func(v *voyage, e statechart.ChildError) { v.Log = append(v.Log, "lost: "+e.Message) })
	hail := statechart.SendToChild("ship", "hail", func(_ voyage, e statechart.Event) any { return e.Payload })
	input := func(_ voyage, e statechart.Event) any { return e.Payload }
	begin := func(s statechart.Start) voyage {
		v, _ := s.Input.(voyage)
		return v
	}
	host := func(def statechart.Definition[voyage]) durable.Machine {
		def.Version, def.Payloads = 1, events
		return durable.Host(statechart.Must(def), durable.MachineConfig{StartedBy: []string{"sail"}, Retention: 30 * 24 * time.Hour})
	}
	return []durable.Machine{
		host(statechart.Definition[voyage]{ID: "harbour", Initial: "idle", On: []on{{Event: "close", Target: ".closed"}}, States: []state{
			{ID: "idle", Tags: settled, On: []on{{Event: "sail", Target: "waiting"}}},
			{ID: "waiting", Tags: settled, Children: []child{{ID: "ship", Machine: "ship", Input: input,
				OnDone: []on{{Target: "idle", Actions: do{home}}}, OnError: []on{{Target: "idle", Actions: do{lost}}}}},
				On: []on{{Event: "hail", Actions: do{hail}}, {Event: "recall", Target: "idle"}}},
			{ID: "closed", Type: statechart.Final},
		}}),
		host(statechart.Definition[voyage]{ID: "ship", Initial: "sailing", Input: statechart.PayloadOf[voyage](), Context: begin, States: []state{
			{ID: "sailing", Tags: settled, Children: []child{{Machine: "boat"}}, On: []on{{Event: "hail", Actions: do{took}}},
				After: []statechart.After[voyage]{{Delay: voyages, Target: "home"}}},
			{ID: "home", Type: statechart.Final, Output: func(v voyage, _ statechart.Event) any { return append([]string{v.Cargo}, v.Log...) }},
		}}),
		host(statechart.Definition[voyage]{ID: "boat", Initial: "towed", States: []state{{ID: "towed", Tags: settled, On: []on{{Event: "hail", Actions: do{took}}}}}}),
	}
}

// family summarizes all instances, one line each, sorted.
func (w *world) family() []string {
	w.t.Helper()
	var sums []string
	for record, err := range w.store.List(w.t.Context(), dynamostore.Filter{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		var snapshot struct {
			Context  voyage                     `json:"context"`
			Children map[string]json.RawMessage `json:"children"`
		}
		if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
			w.t.Fatal(err)
		}
		sums = append(sums, fmt.Sprintf("%s %s %s %q, children %d, outbox %d, ignored %d, expires %t, %v", record.Instance.Machine, record.Status,
			snapshot.Context.Cargo, snapshot.Context.Log, len(snapshot.Children), owing(record), record.Ignored, !record.ExpireAt.IsZero(), record.Error))
	}
	slices.Sort(sums)
	return append(sums, "parked "+w.deadLetters())
}

// sail plays four ships: one comes home, one is recalled, one cannot sail, and one is at sea when the harbour closes.
func sail(w *world) string {
	w.t.Helper()
	for _, step := range []struct {
		event string
		wait  time.Duration
	}{
		{`{"type":"sail","cargo":"silk"}`, time.Hour}, {`{"type":"hail","cargo":"tea"}`, voyages},
		{`{"type":"sail","cargo":"wine"}`, time.Hour}, {`{"type":"recall"}`, time.Hour},
		{`{"type":"sail","cargo":"lead"}`, time.Hour},
		{`{"type":"sail","cargo":"salt"}`, time.Hour}, {`{"type":"close"}`, time.Hour},
	} {
		w.send(harbour1, step.event)
		time.Sleep(step.wait)
	}
	return strings.Join(w.family(), "\n")
}

const sailed = `boat stopped  [], children 0, outbox 0, ignored 0, expires true, <nil>
boat stopped  [], children 0, outbox 0, ignored 0, expires true, <nil>
boat stopped  [], children 0, outbox 0, ignored 0, expires true, <nil>
harbour done  ["home with [\"silk\",\"tea\"]" "lost: wrong payload: the input of chart ship: no ship carries lead"], children 0, outbox 0, ignored 0, expires true, <nil>
ship done silk ["tea"], children 0, outbox 0, ignored 0, expires true, <nil>
ship stopped  [], children 0, outbox 0, ignored 0, expires true, <nil>
ship stopped salt [], children 0, outbox 0, ignored 0, expires true, <nil>
ship stopped wine [], children 0, outbox 0, ignored 0, expires true, <nil>
parked 0`

// TestChildrenSurviveAFaultAtEveryCall plays sail with each kind of fault at each AWS call of consumer and forwarder.
func TestChildrenSurviveAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	quiet := &faults{}
	inWorld(t, options{faults: quiet, more: sailing()}, func(w *world) {
		if got := sail(w); got != sailed {
			t.Errorf("without faults: want\n%s\ngot\n%s", sailed, got)
		}
	})
	calls := len(quiet.calls)
	t.Logf("%d calls", calls)
	if calls < 60 {
		t.Fatalf("only %d calls to AWS", calls)
	}
	for _, kind := range []fault{failBefore, loseAnswer, freeze, dieAfter} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			for at := 1; at <= calls; at += stride() {
				hit := &faults{at: at, kind: kind}
				inWorld(t, options{faults: hit, more: sailing()}, func(w *world) {
					if got := sail(w); got != sailed {
						t.Errorf("call %d, %s: want\n%s\ngot\n%s", at, hit.hit(), sailed, got)
					}
				})
			}
		})
	}
}
