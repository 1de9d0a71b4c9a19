package benchmark

import (
	"context"
	"encoding/json"
	"time"

	sm "github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statelesshost"
)

// In these cases, runtime/statelesshost hosts machines of stateless. The extra cost compared with plain stateless is
// the cost of the adapter. The counts are the instance's data, which the adapter copies before each event.

// hostedAct returns an action that increments a count of the current instance.
func hostedAct(count func(*counts) *int) sm.ActionFunc {
	return func(ctx context.Context, _ ...any) error {
		*count(statelesshost.Data[counts](ctx))++
		return nil
	}
}

var (
	hostedExit   = hostedAct(func(c *counts) *int { return &c.Exits })
	hostedAction = hostedAct(func(c *counts) *int { return &c.Actions })
	hostedEntry  = hostedAct(func(c *counts) *int { return &c.Entries })
)

func hostedFlat() (subject, error) {
	m := statelesshost.NewStateMachine()
	m.Configure("off").Permit("TOGGLE", "on").OnExitWith("TOGGLE", hostedAction)
	m.Configure("on").Permit("TOGGLE", "off").OnExitWith("TOGGLE", hostedAction)
	return hostedSubject(m, []string{"off", "on"}, statechart.Event{Type: "TOGGLE"}, statelesshost.Event{})
}

func hostedPayload() (subject, error) {
	m := statelesshost.NewStateMachine()
	add := func(ctx context.Context, args ...any) error {
		statelesshost.Data[counts](ctx).Actions += args[0].(added).N
		return nil
	}
	m.Configure("off").Permit("ADD", "on").OnExitWith("ADD", add)
	m.Configure("on").Permit("ADD", "off").OnExitWith("ADD", add)
	return hostedSubject(m, []string{"off", "on"}, statechart.Event{Type: "ADD", Payload: added{N: 1}},
		statelesshost.Event{Payload: statechart.PayloadOf[added]()})
}

func hostedNestedMachine() *sm.StateMachine {
	m := statelesshost.NewStateMachine()
	for _, name := range []string{"a", "b"} {
		m.Configure(name+"1").OnEntry(hostedEntry).OnExit(hostedExit).OnExitWith("GO", hostedAction)
		m.Configure(name + "2").SubstateOf(name + "1").OnEntry(hostedEntry).OnExit(hostedExit)
		m.Configure(name+"3").SubstateOf(name+"2").OnEntry(hostedEntry).OnExit(hostedExit).
			Permit("GO", other(name, "a", "b")+"3")
	}
	return m
}

// nestedStates lists the states of hostedNestedMachine, starting with the initial state.
var nestedStates = []string{"a3", "a2", "a1", "b3", "b2", "b1"}

func hostedNested() (subject, error) {
	return hostedSubject(hostedNestedMachine(), nestedStates, statechart.Event{Type: "GO"}, statelesshost.Event{})
}

func hostedPersist() (subject, error) {
	machine, instance, err := hosted(hostedNestedMachine(), nestedStates, "GO", statelesshost.Event{})
	if err != nil {
		return subject{}, err
	}
	stored, err := instance.Snapshot()
	if err != nil {
		return subject{}, err
	}
	event := statechart.Event{Type: "GO", At: time.Unix(0, 0)}
	return subject{
		run: func(n int) error {
			for range n {
				restored, err := machine.Restore(stored)
				if err != nil {
					return err
				}
				if restored, _, _, err = restored.Apply(event); err != nil {
					return err
				}
				if stored, err = restored.Snapshot(); err != nil {
					return err
				}
			}
			instance, err = machine.Restore(stored)
			return err
		},
		seen: func() seen { return hostedSeen(instance) },
	}, nil
}

func hosted(m *sm.StateMachine, states []string, typ string, declared statelesshost.Event) (durable.Machine, durable.Instance, error) {
	config := statelesshost.Config[counts]{
		ID: "benchmark", Version: 1, Machine: m, Initial: states[0], Events: map[string]statelesshost.Event{typ: declared},
	}
	for _, name := range states {
		config.States = append(config.States, statelesshost.State[counts]{State: name, Tags: settled})
	}
	machine, err := statelesshost.New(config)
	if err != nil {
		return nil, nil, err
	}
	instance, _, err := machine.Start(statechart.Start{Instance: "benchmark/1"})
	return machine, instance, err
}

func hostedSubject(m *sm.StateMachine, states []string, event statechart.Event, declared statelesshost.Event) (subject, error) {
	_, instance, err := hosted(m, states, event.Type, declared)
	if err != nil {
		return subject{}, err
	}
	return subject{
		run: func(n int) error {
			for range n {
				var err error
				if instance, _, _, err = instance.Apply(event); err != nil {
					return err
				}
			}
			return nil
		},
		seen: func() seen { return hostedSeen(instance) },
	}, nil
}

func hostedSeen(instance durable.Instance) seen {
	var form struct {
		Context counts `json:"context"`
	}
	snapshot, err := instance.Snapshot()
	if err == nil {
		err = json.Unmarshal(snapshot, &form)
	}
	if err != nil {
		panic(err)
	}
	return seen{counts: form.Context, State: instance.State()}
}
