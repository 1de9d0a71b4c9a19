package statelesshost_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statelesshost"
)

// call is the data of one phone call.
type call struct {
	Callee string `json:"callee,omitempty"`
	Volume int    `json:"volume,omitempty"`
	Why    string `json:"why,omitempty"`
}

// newPhone configures the machine that all calls share.
func newPhone() *stateless.StateMachine {
	phone := statelesshost.NewStateMachine() // was: stateless.NewStateMachine("OffHook")
	phone.Configure("OffHook").
		Permit("CallDialed", "Dialling")
	phone.Configure("Dialling").
		OnEntry(func(ctx context.Context, args ...any) error {
			call := statelesshost.Data[call](ctx)
			call.Callee = args[0].(string)
			if strings.HasPrefix(call.Callee, "0900") {
				call.Why = "blocked"
				return statelesshost.Fire(ctx, "Refused") // was: phone.FireCtx(ctx, "Refused")
			}
			return statelesshost.Fire(ctx, "Accepted")
		}).
		Permit("Accepted", "Ringing").
		Permit("Refused", "HungUp")
	phone.Configure("Ringing").
		Permit("CallConnected", "Connected").
		Permit("NoAnswer", "HungUp")
	phone.Configure("Connected").
		InternalTransition("VolumeSet", func(ctx context.Context, args ...any) error {
			statelesshost.Data[call](ctx).Volume = args[0].(int)
			return nil
		}).
		Permit("PlacedOnHold", "OnHold").
		Permit("HungUp", "HungUp")
	phone.Configure("OnHold").
		SubstateOf("Connected").
		Permit("TakenOffHold", "Connected")
	phone.Configure("HungUp").
		OnEntry(func(ctx context.Context, _ ...any) error {
			return statelesshost.SendTo(ctx, "billing/calls", "CALL_ENDED", statelesshost.Data[call](ctx))
		})
	return phone
}

type dialled struct {
	Number string `json:"number"`
}

type volume struct {
	Level int `json:"level"`
}

// Validate rejects levels that the machine must never see.
func (v volume) Validate() error {
	if v.Level < 0 || v.Level > 10 {
		return fmt.Errorf("expected a level from 0 to 10, got %d", v.Level)
	}
	return nil
}

// hostPhone describes the machine to the runtime.
func hostPhone() *statelesshost.Machine[call] {
	settled := []string{statechart.Settled}
	return statelesshost.Must(statelesshost.Config[call]{
		ID: "phone", Version: 1, Machine: newPhone(), Initial: "OffHook",
		States: []statelesshost.State[call]{
			{State: "OffHook", Tags: settled},
			{State: "Dialling"},
			{State: "Ringing", Tags: settled, After: []statelesshost.After{{Delay: 30 * time.Second, Trigger: "NoAnswer"}}},
			{State: "Connected", Tags: settled},
			{State: "OnHold", Tags: []string{statechart.Settled, "on hold"}},
			{State: "HungUp", Final: true, Output: func(c call) any { return c },
				Resolve: []statechart.Resolution[call]{{Name: "Call", Outcome: "ended"}}},
		},
		Events: map[string]statelesshost.Event{
			"DIAL": {
				Trigger: "CallDialed", Payload: statechart.PayloadOf[dialled](),
				Args: func(payload any) []any { return []any{payload.(dialled).Number} },
			},
			"VOLUME": {
				Trigger: "VolumeSet", Payload: statechart.PayloadOf[volume](),
				Args: func(payload any) []any { return []any{payload.(volume).Level} },
			},
			"CONNECT": {Trigger: "CallConnected"},
			"HOLD":    {Trigger: "PlacedOnHold"},
			"UNHOLD":  {Trigger: "TakenOffHold"},
			"HANG_UP": {Trigger: "HungUp"},
		},
		StartedBy: []string{"DIAL"}, Retention: 15 * 24 * time.Hour,
	})
}

func ExampleNew() {
	p := play(hostPhone())
	p.send(`{"type": "DIAL", "number": "555-0100"}`)
	p.send(`{"type": "CONNECT"}`)
	p.send(`{"type": "HOLD"}`)
	p.send(`{"type": "VOLUME", "level": 7}`)
	p.send(`{"type": "CONNECT"}`)
	p.send(`{"type": "VOLUME", "level": 11}`)
	p.send(`{"type": "HANG_UP"}`)
	// Output:
	// starts in OffHook
	// DIAL: OffHook -> Ringing
	//   2.0 schedule 09:00:30
	// CONNECT: Ringing -> Connected
	// HOLD: Connected -> OnHold
	// VOLUME: OnHold -> OnHold
	// CONNECT: ignored in OnHold
	// VOLUME: wrong payload: event "VOLUME" of chart phone: expected a level from 0 to 10, got 11
	// HANG_UP: OnHold -> HungUp
	//   6.0 send to billing/calls {"callee":"555-0100","type":"CALL_ENDED","volume":7}
	//   6.1 resolve Call outcome=ended state=[HungUp] tags=[]
	// done {"callee":"555-0100","volume":7}
}

func ExampleFire() {
	p := play(hostPhone())
	p.send(`{"type": "DIAL", "number": "0900-1"}`)
	// Output:
	// starts in OffHook
	// DIAL: OffHook -> HungUp
	//   2.0 send to billing/calls {"callee":"0900-1","type":"CALL_ENDED","why":"blocked"}
	//   2.1 resolve Call outcome=ended state=[HungUp] tags=[]
	// done {"callee":"0900-1","why":"blocked"}
}

func ExampleAfter() {
	p := play(hostPhone())
	p.send(`{"type": "DIAL", "number": "555-0100"}`)
	fmt.Println(p.snapshot())
	p.fire() // 30 seconds pass.
	// Output:
	// starts in OffHook
	// DIAL: OffHook -> Ringing
	//   2.0 schedule 09:00:30
	// {"machine":"phone","version":1,"status":"active","value":"Ringing","context":{"callee":"555-0100"},"tags":["settled"],"timers":{"2.0":{"state":"Ringing","after":"30s","at":"2026-11-20T09:00:30Z"}},"steps":2}
	// settle.timer: Ringing -> HungUp
	//   3.0 send to billing/calls {"callee":"555-0100","type":"CALL_ENDED"}
	//   3.1 resolve Call outcome=ended state=[HungUp] tags=[]
	// done {"callee":"555-0100"}
}

// parcel is an entity of an existing program. The program stores the machine's state in it.
type parcel struct {
	State    stage  `json:"state"`
	Station  string `json:"station,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
}

type stage int

const (
	packed stage = iota
	underway
	refused
	returned
	delivered
)

type move int

const (
	scan move = iota
	handOver
	sendBack
)

// machineFor is typical for such programs: it builds a machine around the entity that a request loaded. It does not
// depend on this runtime.
func machineFor(p *parcel) *stateless.StateMachine {
	sm := stateless.NewStateMachineWithExternalStorage(
		func(context.Context) (stateless.State, error) { return p.State, nil },
		func(_ context.Context, s stateless.State) error { p.State = s.(stage); return nil },
		stateless.FiringQueued)
	arrive := func(_ context.Context, args ...any) error { p.Station = args[0].(station).Name; return nil }
	sm.Configure(packed).Permit(scan, underway)
	sm.Configure(underway).
		OnEntryFrom(scan, arrive).
		InternalTransition(scan, arrive).
		Permit(handOver, delivered, func(_ context.Context, args ...any) bool { return args[0].(handed).Taken }).
		Permit(handOver, refused, func(_ context.Context, args ...any) bool { return !args[0].(handed).Taken })
	sm.Configure(refused).
		OnEntry(func(ctx context.Context, _ ...any) error {
			if p.Attempts++; p.Attempts < 2 {
				return nil
			}
			return sm.FireCtx(ctx, sendBack)
		}).
		Permit(scan, underway).
		Permit(sendBack, returned)
	return sm
}

type station struct {
	Name string `json:"station"`
}

type handed struct {
	Taken bool `json:"taken"`
}

func hostParcel() *statelesshost.Machine[parcel] {
	settled := []string{statechart.Settled}
	return statelesshost.Must(statelesshost.Config[parcel]{
		ID: "parcel", Version: 1, Initial: packed,
		Build: func(state stateless.State, p *parcel) *stateless.StateMachine {
			p.State = state.(stage)
			return machineFor(p)
		},
		States: []statelesshost.State[parcel]{
			{State: packed, Name: "packed", Tags: settled},
			{State: underway, Name: "underway", Tags: settled},
			{State: refused, Name: "refused", Tags: settled},
			{State: returned, Name: "returned", Final: true},
			{State: delivered, Name: "delivered", Final: true},
		},
		Events: map[string]statelesshost.Event{
			"SCAN":      {Trigger: scan, Payload: statechart.PayloadOf[station]()},
			"HAND_OVER": {Trigger: handOver, Payload: statechart.PayloadOf[handed]()},
		},
	})
}

func ExampleConfig_build() {
	p := play(hostParcel())
	p.send(`{"type": "SCAN", "station": "Bonn"}`)
	p.send(`{"type": "SCAN", "station": "Köln"}`)
	p.send(`{"type": "HAND_OVER", "taken": false}`)
	p.send(`{"type": "SCAN", "station": "Köln"}`)
	p.send(`{"type": "HAND_OVER", "taken": false}`)
	// Output:
	// starts in packed
	// SCAN: packed -> underway
	// SCAN: underway -> underway
	// HAND_OVER: underway -> refused
	// SCAN: refused -> underway
	// HAND_OVER: underway -> returned
	// done
}

// phoneChart is the chart that continues the calls of hostPhone.
func phoneChart() durable.Machine {
	type (
		state = statechart.State[call]
		on    = statechart.Transition[call]
	)
	settled := []string{statechart.Settled}
	return durable.Host(statechart.Must(statechart.Definition[call]{
		ID: "phone", Version: 2, Initial: "OffHook",
		Payloads: statechart.Payloads{
			"DIAL": statechart.PayloadOf[dialled](), "CONNECT": statechart.NoPayload(), "HOLD": statechart.NoPayload(),
			"UNHOLD": statechart.NoPayload(), "HANG_UP": statechart.NoPayload(),
		},
		States: []state{
			{ID: "OffHook", Tags: settled, On: []on{{Event: "DIAL", Target: "Ringing"}}},
			{ID: "Ringing", Tags: settled, On: []on{{Event: "CONNECT", Target: "Connected"}},
				After: []statechart.After[call]{{Delay: 30 * time.Second, Target: "HungUp"}}},
			{ID: "Connected", Initial: "Talking", On: []on{{Event: "HANG_UP", Target: "HungUp"}}, States: []state{
				{ID: "Talking", Tags: settled, On: []on{{Event: "HOLD", Target: "OnHold"}}},
				{ID: "OnHold", Tags: settled, On: []on{{Event: "UNHOLD", Target: "Talking"}}},
			}},
			{ID: "HungUp", Type: statechart.Final},
		},
		Migrations: []statechart.Migration{{From: 1, Changes: []statechart.Change{
			statechart.RenameState("Connected", "Connected.Talking"),
			statechart.RenameState("OnHold", "Connected.OnHold"),
		}}},
	}), durable.MachineConfig{})
}

func ExampleMachine_chart() {
	held, ringing := play(hostPhone()), play(hostPhone())
	held.send(`{"type": "DIAL", "number": "555"}`)
	held.send(`{"type": "CONNECT"}`)
	held.send(`{"type": "HOLD"}`)
	ringing.send(`{"type": "DIAL", "number": "556"}`)
	held.machine, ringing.machine = phoneChart(), phoneChart() // deploy the chart
	held.send(`{"type": "UNHOLD"}`)
	ringing.fire()
	// Output:
	// starts in OffHook
	// starts in OffHook
	// DIAL: OffHook -> Ringing
	//   2.0 schedule 09:00:30
	// CONNECT: Ringing -> Connected
	// HOLD: Connected -> OnHold
	// DIAL: OffHook -> Ringing
	//   2.0 schedule 09:00:30
	// UNHOLD: Connected.OnHold -> Connected.Talking
	// settle.timer: Ringing -> HungUp
	// done
}

// player sends events to one instance, and stores and restores it between them.
type player struct {
	machine  durable.Machine
	instance durable.Instance
	now      time.Time
}

func play(machine durable.Machine) *player {
	p := &player{machine: machine, now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	instance, _, err := machine.Start(statechart.Start{Instance: machine.ID() + "/1", At: p.now})
	if err != nil {
		panic(err)
	}
	p.instance = instance
	fmt.Println("starts in", p.state())
	return p
}

func (p *player) state() string { return strings.Join(p.instance.State(), ", ") }

func (p *player) snapshot() string {
	text, err := p.instance.Snapshot()
	if err != nil {
		panic(err)
	}
	return string(text)
}

// send sends an event in its JSON form, and prints the result.
func (p *player) send(body string) {
	event, err := p.machine.Decode([]byte(body))
	if err != nil {
		fmt.Printf("%s: %v\n", event.Type, err)
		return
	}
	p.apply(event)
}

// fire fires the next timer, on time.
func (p *player) fire() {
	timer := p.instance.Timers()[0]
	p.now = timer.At
	p.apply(statechart.Event{Type: statechart.TimerEvent, Timer: timer.ID})
}

func (p *player) apply(event statechart.Event) {
	restored, err := p.machine.Restore([]byte(p.snapshot()))
	if err != nil {
		panic(err)
	}
	p.instance = restored
	event.At = p.now
	from := p.state()
	next, effects, handled, err := p.instance.Apply(event)
	p.instance = next
	switch {
	case err != nil:
		fmt.Printf("%s: %v\n", event.Type, err)
	case !handled:
		fmt.Printf("%s: ignored in %s\n", event.Type, from)
	default:
		fmt.Printf("%s: %s -> %s\n", event.Type, from, p.state())
	}
	for _, e := range effects {
		fmt.Printf("  %s\n", effectLine(e))
	}
	if p.instance.Status() == statechart.Done {
		fmt.Println(strings.TrimSpace("done " + outputOf(p.snapshot())))
	}
}
