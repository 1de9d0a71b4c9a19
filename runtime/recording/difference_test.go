package recording_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/recording"
	"github.com/settle-run/settle/runtime/statechart"
)

// watch returns a machine with two regions that have equal timers, a delayed event, and a service. A change turns it
// into the machine of another build.
func watch(t *testing.T, change string) *durable.Machines {
	t.Helper()
	amount := map[string]int{"amount": 1}
	entry, stop := do{}, do{statechart.Cancel[order]("soon")}
	service, idle, busy, goTo, invokes := "charge", "idle", "busy", "busy", []statechart.Invoke[order]{}
	if strings.HasPrefix(change, "another name") {
		idle = "calm"
	}
	switch change {
	case "another name of the working state":
		idle, busy, goTo = "idle", "work", "work"
	case "another target":
		goTo = "idle"
	case "a service before":
		score := statechart.ServiceFunc("score", func(context.Context, order, statechart.Call) (receipt, error) { return receipt{}, nil })
		invokes = append(invokes, statechart.Invoke[order]{Service: score, OnDone: []on{{Target: "busy"}}, OnError: []on{{Target: "busy"}}})
	case "another payload":
		amount["amount"], amount["tip"] = 2, 3
	case "no cancel", "another name and no cancel":
		stop = nil
	case "another service":
		service = "refund"
	case "an effect more":
		entry = do{statechart.Emit("hello", func(order, statechart.Event) any { return nil })}
	}
	region := func(id string, entry do) chartState {
		return chartState{ID: id, Initial: "wait", States: []chartState{
			{ID: "wait", Tags: settled, Entry: entry, After: []statechart.After[order]{{ID: "day", Delay: 24 * time.Hour, Target: "over"}}}, {ID: "over", Tags: settled},
		}}
	}
	remind := do{statechart.SendAfter("soon", "REMIND", func(order, statechart.Event) (time.Duration, any) { return time.Hour, amount })}
	run := statechart.ServiceFunc(service, func(context.Context, order, statechart.Call) (receipt, error) { return receipt{}, nil })
	invokes = append(invokes, statechart.Invoke[order]{Service: run, OnDone: []on{{Target: idle}}, OnError: []on{{Target: idle}}})
	work := chartState{ID: "C", Initial: idle, States: []chartState{
		{ID: idle, Tags: settled, On: []on{{Event: "GO", Target: goTo, Actions: remind}, {Event: "WORK", Target: busy}, {Event: "STOP", Target: idle, Actions: stop}, {Event: "REMIND", Target: idle}}},
		{ID: busy, Invoke: invokes},
	}}
	machines, err := durable.NewMachines(durable.Host(statechart.Must(statechart.Definition[order]{
		ID: "order", Version: 1, Parallel: true, States: []chartState{region("A", entry), region("B", nil), work},
		Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "STOP": statechart.NoPayload(), "WORK": statechart.NoPayload(), "REMIND": statechart.PayloadOf[struct{ Amount, Tip int }]()},
	}), durable.MachineConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	return machines
}

func TestAReplayShowsDifferencesOfTimersAndServices(t *testing.T) {
	t.Parallel()
	step := func(typ, body, timer, key string, seconds int, to ...string) recording.Step {
		return recording.Step{Event: recording.Event{Type: typ, Body: json.RawMessage(body), Timer: timer, Key: key, At: epoch.Add(time.Duration(seconds) * time.Second), To: to}}
	}
	run := recording.Run{Instance: "order/1", Version: 1, Steps: []recording.Step{
		step("settle.start", "", "", "", 0, "A.wait", "B.wait", "C.idle"),
		step("GO", `{"type":"GO"}`, "", "", 1, "A.wait", "B.wait", "C.busy"),
		step("done.invoke.C.busy", "", "", "2.1", 2, "A.wait", "B.wait", "C.idle"),
		step("STOP", `{"type":"STOP"}`, "", "", 3, "A.wait", "B.wait", "C.idle"),
		step("after day", "", "1.1", "", 86400, "A.wait", "B.over", "C.idle"),
	}}
	run.Steps[2].Payload = json.RawMessage(`{}`)
	if err := run.Play(watch(t, ""), 0); err != nil {
		t.Fatal(err)
	}
	replay := func(change string, accepted []recording.Row) (rows []recording.Row, shown []string) {
		r := recording.NewReplay(watch(t, change), accepted)
		if err := r.Add(run); err != nil {
			t.Fatal(err)
		}
		for _, row := range r.Rows() {
			shown = append(shown, fmt.Sprintf("%s: %s: expected %s, got %s", row.Event, row.What, row.Expected, row.Got))
		}
		return r.Rows(), shown
	}
	for change, want := range map[string][]string{
		"":                nil,
		"another payload": {"GO: timers[].event.amount: expected 1, got 2", "GO: timers[].event.tip: expected nothing, got 3"},
		"no cancel":       {"STOP: ended timers: expected REMIND, got none"},
		"another service": {"GO: services: expected C.busy (charge), got C.busy (refund)"},
		// The result of charge belongs to charge, although the ID C.busy now belongs to score.
		"a service before": {"GO: services: expected C.busy (charge), got C.busy (score), C.busy:1 (charge)"},
		"another name":     {"settle.start: state: expected A.wait, B.wait, C.idle, got A.wait, B.wait, C.calm"},
		"an effect more":   {"settle.start: effects: expected schedule A.wait day, schedule B.wait day, got emit hello, schedule A.wait day, schedule B.wait day"},
	} {
		if _, got := replay(change, nil); text(t, got) != text(t, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", change, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	rows, _ := replay("another payload", nil)
	if _, got := replay("another payload", rows[:1]); len(got) != 1 || !strings.Contains(got[0], "tip") {
		t.Errorf("expected only the difference that is not accepted, got %q", got)
	}
	rows, _ = replay("another target", nil)
	r := recording.NewReplay(watch(t, "another target"), rows)
	if err := r.Add(run); err != nil || len(r.Rows()) != 0 || r.Counts()[0].Partial != 1 {
		t.Errorf("expected the replay to skip the rest, because the state is not renamed, got %v and %+v", r.Rows(), r.Counts())
	}
	run.Steps[2].Service = "" // Only the ID, C.busy, names the service.
	var accepted []recording.Row
	for range 3 {
		r = recording.NewReplay(watch(t, "another name of the working state"), accepted)
		if err := r.Add(run); err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, r.Rows()...)
	}
	if len(accepted) != 2 || r.Counts()[0].Same != 1 { // the state of GO and the service of GO
		t.Errorf("expected the result of the service to reach the renamed state, got %+v and %+v", accepted, r.Counts())
	}
	rows, _ = replay("another name", nil)
	if _, got := replay("another name", rows); len(got) != 0 {
		t.Errorf("expected the replay to accept the name in all steps, got %q", got)
	}
	if _, got := replay("another name and no cancel", rows); len(got) != 1 || got[0] != "STOP: ended timers: expected REMIND, got none" {
		t.Errorf("expected the difference after the accepted one, got %q", got)
	}
}
