package recording_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/recording"
	"github.com/settle-run/settle/runtime/statechart"
)

type (
	chartState = statechart.State[order]
	on         = statechart.Transition[order]
	do         = []statechart.Action[order]
)

type order struct {
	Amount  int    `json:"amount"`
	Email   string `json:"email"`
	Receipt string `json:"receipt"`
}

type pay struct {
	Amount int            `json:"amount"`
	Email  string         `json:"email"`
	Card   map[string]any `json:"card"`
}

type receipt struct {
	Number string `json:"number"`
}

var settled = []string{statechart.Settled}

// orders returns the machine order. A change turns it into the machine of another build.
func orders(t *testing.T, change string) *durable.Machines {
	t.Helper()
	charge := statechart.ServiceFunc("charge", func(context.Context, order, statechart.Call) (receipt, error) { return receipt{}, nil })
	keep := statechart.Assign("keep", func(c *order, e pay) { c.Amount, c.Email = e.Amount, e.Email })
	warehouse := "warehouse/1"
	if change == "another receiver" {
		warehouse = "warehouse/2"
	}
	def := statechart.Definition[order]{
		ID: "order", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{"PAY": statechart.PayloadOf[pay](), "SHIP": statechart.NoPayload(), "NOTE": statechart.NoPayload()},
		States: []chartState{
			{ID: "open", Tags: settled, On: []on{{Event: "PAY", Target: "charging", Actions: do{keep}}},
				After: []statechart.After[order]{{ID: "expiry", Delay: 24 * time.Hour, Target: "expired"}}, Defer: []string{"SHIP"}},
			{ID: "charging", Invoke: []statechart.Invoke[order]{{ID: "charge", Service: charge,
				OnDone:  []on{{Target: "paid", Actions: do{statechart.Assign("file", func(c *order, r receipt) { c.Receipt = r.Number })}}},
				OnError: []on{{Target: "open"}}}}},
			{ID: "paid", Tags: settled, On: []on{{Event: "SHIP", Target: "shipped"}}, Entry: do{
				statechart.SendTo("PACK", func(c order, _ statechart.Event) (string, any) { return warehouse, map[string]int{"amount": c.Amount} }),
				statechart.Log(func(order, statechart.Event) string { return change }),
			}},
			{ID: "shipped", Type: statechart.Final, Output: func(c order, _ statechart.Event) any { return c }},
			{ID: "expired", Type: statechart.Final},
		},
	}
	states := def.States
	switch change {
	case "another path":
		states[0].On[0].Guard = statechart.When("large", func(_ order, e pay) bool { return e.Amount > 100 })
	case "another output":
		states[3].Output = func(c order, _ statechart.Event) any { c.Amount++; return c }
	case "an error":
		states[0].On[0].Actions = do{statechart.TryAssign("keep", func(_ *order, e pay) error { return fmt.Errorf("%q is charged %d", e.Email, e.Amount) })}
	case "another effect":
		states[2].Entry = append(states[2].Entry, statechart.Emit("paid", func(order, statechart.Event) any { return nil }))
	case "another status":
		states[3] = chartState{ID: "shipped", Tags: settled}
	case "another service":
		states[1].Invoke = append(states[1].Invoke, statechart.Invoke[order]{ID: "audit", Service: charge, OnDone: []on{{}}, OnError: []on{{}}})
	case "no deferral":
		states[0].Defer = nil
	case "no event":
		delete(def.Payloads, "SHIP")
		states[0].Defer, states[2].On = nil, []on{{Event: "NOTE", Target: "shipped"}}
	case "no service":
		states[1].Invoke, states[1].Tags, states[1].On = nil, settled, []on{{Event: "NOTE", Target: "paid"}}
	case "no timer":
		states[0].After, def.States = nil, states[:4]
	case "another result":
		states[1].Invoke[0] = statechart.Invoke[order]{ID: "charge", OnDone: []on{{Target: "paid"}}, OnError: []on{{Target: "open"}},
			Service: statechart.ServiceFunc("charge", func(context.Context, order, statechart.Call) (int, error) { return 0, nil })}
	case "no state":
		states[0].ID, def.Initial, states[1].Invoke[0].OnError = "begun", "begun", []on{{Target: "begun"}}
	case "another project":
		def.ID = "stranger"
	}
	machines, err := durable.NewMachines(durable.Host(statechart.Must(def), durable.MachineConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	return machines
}

// consumer commits steps of one instance to a recorder, as the loop does.
type consumer struct {
	t        *testing.T
	machine  durable.Machine
	recorder *recording.Recorder
	log      *bytes.Buffer
	instance durable.Instance
	record   instances.Record
	now      time.Time
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newConsumer returns a consumer that records everything.
func newConsumer(t *testing.T, config recording.Config) *consumer {
	t.Helper()
	c := &consumer{t: t, log: &bytes.Buffer{}, now: epoch}
	var err error
	if c.machine, err = orders(t, "").Lookup("order"); err != nil {
		t.Fatal(err)
	}
	if config.Share == 0 {
		config.Share = 1
	}
	if c.recorder, err = recording.New(slog.New(slog.NewJSONHandler(c.log, nil)), config); err != nil {
		t.Fatal(err)
	}
	c.begin("order/1")
	return c
}

// begin begins another instance.
func (c *consumer) begin(name string) {
	id, err := instances.ParseID(name)
	if err != nil {
		c.t.Fatal(err)
	}
	c.record, c.instance = instances.Record{Instance: id, CreatedAt: c.now}, nil
}

// commit applies the events and commits them. An event is a message in JSON, or "done RESULT", "failed" or "timer".
func (c *consumer) commit(events ...string) {
	c.t.Helper()
	committed := durable.Committed{}
	for _, text := range events {
		c.now = c.now.Add(time.Second)
		var err error
		if c.instance == nil {
			if c.instance, _, err = c.machine.Start(statechart.Start{Instance: c.record.Instance.String(), At: c.now}); err != nil {
				c.t.Fatal(err)
			}
		}
		event, body := c.event(text)
		event.At = c.now
		name := event.Type
		if event.Timer != "" {
			name = "after " + c.instance.Timers()[0].After
		}
		from := c.instance.State()
		next, _, handled, err := c.instance.Apply(event)
		if err != nil {
			c.t.Fatal(err)
		}
		c.instance = next
		committed.Transitions = append(committed.Transitions, instances.Transition{At: c.now, Event: name, From: from, To: next.State(), Ignored: !handled})
		committed.Events, committed.Bodies = append(committed.Events, event), append(committed.Bodies, body)
	}
	snapshot, err := c.instance.Snapshot()
	if err != nil {
		c.t.Fatal(err)
	}
	c.record.Snapshot, c.record.Revision = snapshot, c.record.Revision+1+min(c.record.Revision, 1) // Clearing the outbox counts too.
	committed.Instance, committed.Revision, committed.Record = c.record.Instance.String(), c.record.Revision, c.record
	c.recorder.Committed(c.t.Context(), committed)
}

func (c *consumer) event(text string) (event statechart.Event, body string) {
	result, isResult := strings.CutPrefix(text, "done ")
	switch {
	case isResult:
		return c.instance.Invocations()[0].Done(receipt{result}), ""
	case text == "failed":
		return c.instance.Invocations()[0].Failed(context.DeadlineExceeded), ""
	case text == "timer":
		return statechart.Event{Type: statechart.TimerEvent, Timer: c.instance.Timers()[0].ID}, ""
	}
	event, err := c.machine.Decode([]byte(text))
	if err != nil {
		c.t.Fatal(err)
	}
	return event, text
}

// runs returns the runs in the log of a consumer.
func runs(t *testing.T, log string) []recording.Run {
	t.Helper()
	var assembly recording.Assembly
	for commit, err := range recording.Read(strings.NewReader(log)) {
		if err == nil {
			err = assembly.Add(commit)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	found, err := assembly.Runs()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// played returns the runs as the build of the consumer plays them.
func (c *consumer) played() []recording.Run {
	c.t.Helper()
	found := runs(c.t, c.log.String())
	for i := range found {
		if err := found[i].Play(orders(c.t, ""), 0); err != nil {
			c.t.Fatal(err)
		}
	}
	return found
}

// types returns the types of the steps of a run.
func types(run recording.Run) string {
	var all []string
	for _, step := range run.Steps {
		all = append(all, step.Type)
	}
	return strings.Join(all, " ")
}

func text(t *testing.T, value any) string {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}
