package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// errand is the input of a courier.
type errand struct {
	Item string `json:"item"`
}

func (e errand) Validate() error {
	if e.Item == "heavy" {
		return errors.New("too heavy")
	}
	return nil
}

// boss is a machine that starts couriers: one as the child of a state, others by an action.
func (w *world) boss() durable.Machine {
	input := func(_ basket, e statechart.Event) any { return e.Payload }
	back := statechart.Assign("back", func(b *basket, output json.RawMessage) {
		if len(output) > 1000 {
			b.Blob = string(output)
			output = nil
		}
		b.Log = append(b.Log, "back "+string(output))
	})
	lost := statechart.Assign("lost", func(b *basket, e statechart.ChildError) { b.Log = append(b.Log, "lost "+e.Machine+": "+e.Message) })
	hire := statechart.EnqueueActions("hire", func(_ *basket, i item, enqueue statechart.Enqueue) error {
		return enqueue.Spawn("temp", i.To, nil)
	})
	pass := statechart.SendToChild("van", "add", input)
	end := statechart.SendToChild("van", "finish", input)
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "boss", Version: 1, Initial: "idle", Payloads: payloads(),
		On: []on{{Event: "add", Actions: do{keep}}, {Event: "error.child.temp", Actions: do{lost}}, {Event: "done.child.temp", Actions: do{back}}},
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "ship", Target: "shipping"}, {Event: "both", Actions: do{hire}}}},
			{ID: "shipping", Tags: settled,
				Children: []statechart.Child[basket]{{ID: "van", Machine: "courier", Input: input, OnDone: []on{{Target: "idle", Actions: do{back}}}, OnError: []on{{Target: "idle", Actions: do{lost}}}}},
				On: []on{{Event: "tell", Actions: do{pass}}, {Event: "finish", Actions: do{end}}, {Event: "cancel", Target: "idle"},
					{Event: "again", Target: "shipping", Reenter: true}, {Event: "doom", Target: "gone"}}},
			{ID: "gone", Type: statechart.Final},
		},
	}), durable.MachineConfig{})
}

// sender is a machine that starts with an input. It calls a service, starts a radio, and sends a message to order/9
// when it leaves the state `driving`.
func (w *world) sender() durable.Machine {
	leave := statechart.SendTo("add", func(b basket, _ statechart.Event) (string, any) {
		return "order/9", map[string]string{"item": "leave of " + b.Log[0]}
	})
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "courier", Version: 1, Initial: "boarding", Payloads: payloads(), Input: statechart.PayloadOf[errand](),
		Context: func(s statechart.Start) basket {
			i, _ := s.Input.(errand)
			if i.Item == "panic" {
				panic("unstartable")
			}
			return basket{Log: []string{i.Item}}
		},
		States: []chartState{
			{ID: "boarding", Invoke: []invoke{{Service: w.service("board"), Retry: statechart.RetryPolicy{Attempts: 4},
				OnDone: []on{{Target: "driving", Actions: do{answered}}}, OnError: []on{{Target: "driving", Actions: do{breakDown}}}}}},
			{ID: "driving", Tags: settled, Exit: do{leave}, Children: []statechart.Child[basket]{{ID: "radio", Machine: "radio"}},
				On: []on{{Event: "add", Actions: do{keep}}, {Event: "finish", Target: "arrived"}, {Event: "grow", Target: "arrived", Actions: do{grow}},
					{Event: "wait", Target: "stuck"}}},
			{ID: "stuck", Invoke: []invoke{{Service: w.service("hang"), OnDone: []on{{Target: "driving"}}, OnError: []on{{Target: "driving", Actions: do{breakDown}}}}}},
			{ID: "arrived", Type: statechart.Final, Output: func(b basket, _ statechart.Event) any { return strings.Join(b.Log, " ") + b.Blob }},
		},
	}), durable.MachineConfig{Retention: deduplicationTime * 12})
}

// radio is a machine without an input. It ends at "finish".
func radio() durable.Machine {
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "radio", Version: 1, Initial: "on", Payloads: payloads(),
		States: []chartState{{ID: "on", Tags: settled, On: []on{{Event: "finish", Target: "off"}}}, {ID: "off", Type: statechart.Final}},
	}), durable.MachineConfig{})
}

// flash is a machine that ends as soon as it starts.
func flash() durable.Machine {
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "flash", Version: 1, Initial: "over", Payloads: payloads(),
		States: []chartState{{ID: "over", Type: statechart.Final, Output: func(basket, statechart.Event) any { return "flash" }}},
	}), durable.MachineConfig{})
}

const boss1 = "boss/1"

// newFamily returns a world that hosts the machines above and the machine `order`.
func newFamily(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	machines, err := durable.NewMachines(w.boss(), w.sender(), radio(), flash(), w.order())
	if err != nil {
		t.Fatal(err)
	}
	w.machines = machines
	return w
}

// inFamily runs a test in a world of newFamily, in virtual time.
func inFamily(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newFamily(t)
		test(t, w)
		w.wantSound(t)
	})
}

// stored returns the names of the instances of a machine.
func (w *world) stored(machine string) (names []string) {
	for name := range w.records {
		if strings.HasPrefix(name, machine+"/") {
			names = append(names, name)
		}
	}
	return names
}

// van returns the name of boss/1's courier.
func (w *world) van(t *testing.T) string {
	t.Helper()
	var snapshot struct {
		Children map[string]struct{ Key, Machine string }
	}
	r := w.load(boss1)
	decode(t, r.Snapshot, &snapshot)
	child, listed := snapshot.Children["van"]
	if !listed {
		t.Fatalf("boss/1 lists no van: %s", r.Snapshot)
	}
	return instances.ChildName(r.Instance, r.CreatedAt, child.Key, child.Machine).String()
}

// wantFamily checks how many couriers and radios have each status, and the log of boss/1.
func (w *world) wantFamily(t *testing.T, want string, log ...string) {
	t.Helper()
	var got []string
	for _, name := range append(w.stored("courier"), w.stored("radio")...) {
		r := w.load(name)
		got = append(got, fmt.Sprintf("%s %s", r.Instance.Machine, r.Status))
	}
	slices.Sort(got)
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("the family is %q, want %q", text, want)
	}
	w.wantLog(t, boss1, log...)
}

// hangs is a service that never answers.
func hangs(ctx context.Context, _ statechart.Call) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}
