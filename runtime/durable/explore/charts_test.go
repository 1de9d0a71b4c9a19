package explore_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

type (
	chartState = statechart.State[book]
	on         = statechart.Transition[book]
	do         = []statechart.Action[book]
	invoke     = statechart.Invoke[book]
	after      = statechart.After[book]
)

// book is the context of all charts here. It lists the applied items in order.
type book struct {
	Log []string `json:"log"`
}

// item is the payload of events from outside. To is the receiving instance, or the alias to claim.
type item struct {
	Item string `json:"item"`
	To   string `json:"to,omitempty"`
}

// retention is how long an ended instance is kept.
const retention = 15 * 24 * time.Hour

// attemptsMax is the number of attempts of a service. The service `hurry` has one attempt.
const attemptsMax = 2

func note[E any](text func(E) string) statechart.Action[book] {
	return statechart.Assign("note", func(b *book, e E) { b.Log = append(b.Log, text(e)) })
}

func noted(text string) statechart.Action[book] {
	return note(func(statechart.Event) string { return text })
}

var (
	settled = []string{statechart.Settled}
	keep    = note(func(i item) string { return i.Item })
	claim   = statechart.Alias(func(_ book, e statechart.Event) string { i, _ := e.Payload.(item); return i.To })
	tell    = statechart.SendTo("add", func(_ book, e statechart.Event) (string, any) {
		i, _ := e.Payload.(item)
		return i.To, item{Item: i.Item}
	})
	// ring passes the event on to the first instance in the list To. In the event that it sends, this receiver is the
	// last instance in To.
	ring = statechart.SendTo("ring", func(_ book, e statechart.Event) (string, any) {
		i, _ := e.Payload.(item)
		first, others, _ := strings.Cut(i.To, ",")
		return first, item{Item: i.Item + "+", To: others + "," + first}
	})
	tells = statechart.When("tells", func(_ book, i item) bool { return i.To != "" })
)

// service returns a service that calls the world. The service `kill` kills its process.
func service(name string) statechart.Service[book] {
	return statechart.ServiceFunc(name, func(ctx context.Context, _ book, call statechart.Call) (string, error) {
		p, _ := ctx.Value(processKey{}).(*process)
		return name, p.serve(name, call)
	})
}

// invoked returns the invocation of a service. If the service succeeds, the chart enters the state `target`, otherwise
// the state `failed`.
func invoked(name, target, failed string) []invoke {
	attempts := attemptsMax
	if name == "hurry" {
		attempts = 1
	}
	return []invoke{{Service: service(name), Retry: statechart.RetryPolicy{Attempts: attempts},
		OnDone:  []on{{Target: target, Actions: do{note(func(s string) string { return s + " ok" })}}},
		OnError: []on{{Target: failed, Actions: do{note(func(e statechart.ServiceError) string { return e.Service + " failed: " + e.Message })}}}}}
}

// payloads declares the events of all charts.
func payloads() statechart.Payloads {
	p := statechart.Payloads{
		"printed":                     statechart.PayloadOf[statechart.ExecutionEnded](),
		durable.AliasTaken:            statechart.PayloadOf[struct{ Alias string }](),
		durable.TokenExpired:          statechart.PayloadOf[struct{ Name, Execution string }](),
		statechart.CommunicationError: statechart.PayloadOf[statechart.CommunicationFailure](),
	}
	for _, typ := range strings.Fields("add break renew tell ring claim wait charge hurry pay ship kill hand print help-b help-c help-d release again cancel finish") {
		p[typ] = statechart.PayloadOf[item]()
	}
	return p
}

// machineX is the machine of most instances, with states of many kinds. Version 2 renames the state `idle`. It also
// replaces the state that calls the service `pay` with a settled state.
func machineX(version int, migrations ...statechart.Migration) durable.Machine {
	idle := "idle"
	if version == 2 {
		idle = "ready"
	}
	begin := statechart.StartWorkflow("print", "printed", func(b book, _ statechart.Event) any { return map[string]int{"items": len(b.Log)} })
	handOver := statechart.Resolution[book]{Name: "HandOver", Outcome: "way"}
	paying := chartState{ID: "paying", Tags: settled, After: []after{{ID: "limit", Delay: time.Hour, Target: idle, Actions: do{noted("limit")}}}}
	if version == 1 {
		paying.Tags, paying.Invoke = nil, invoked("pay", idle, idle)
	}
	events, renew := payloads(), []on{{Event: "renew", Actions: do{keep}}}
	if version == 1 { // Version 1 does not declare the event "renew", so the loop parks it.
		delete(events, "renew")
		renew = nil
	}
	breaks := note(func(i item) string {
		if version == 1 {
			panic("version 1 fails on this event")
		}
		return i.Item
	})
	states := []chartState{
		{ID: idle, Tags: settled, On: []on{
			{Event: "wait", Target: "waiting", Actions: do{keep}}, {Event: "charge", Target: "charging", Actions: do{keep}},
			{Event: "pay", Target: "paying", Actions: do{keep}}, {Event: "ship", Target: "packing", Actions: do{keep}},
			{Event: "kill", Target: "killing", Actions: do{keep}}, {Event: "hurry", Target: "hurrying", Actions: do{keep}}, {Event: "hand", Target: "way", Actions: do{keep}},
			{Event: "print", Target: "printing", Actions: do{keep}},
		}},
		{ID: "waiting", Tags: settled, After: []after{{Delay: time.Minute, Target: idle, Actions: do{noted("over")}}}},
		{ID: "charging", Invoke: invoked("charge", idle, idle)},
		{ID: "packing", Invoke: invoked("pack", "posting", idle)},
		{ID: "posting", Invoke: invoked("post", idle, idle)},
		{ID: "killing", Invoke: invoked("kill", idle, idle)},
		{ID: "hurrying", Invoke: invoked("hurry", idle, idle)},
		paying,
		{ID: "way", Tags: settled, Resolve: []statechart.Resolution[book]{handOver}},
		{ID: "printing", Tags: settled, Entry: do{begin}, On: []on{{Event: "again", Target: "printing", Reenter: true, Actions: do{keep}}}},
		{ID: "finished", Type: statechart.Final, Resolve: []statechart.Resolution[book]{handOver}},
	}
	for _, machine := range []string{"b", "c", "d"} {
		states[0].On = append(states[0].On, on{Event: "help-" + machine, Target: "helped-" + machine, Actions: do{keep}})
		states = append(states, helped(machine, idle))
	}
	return durable.Host(statechart.Must(statechart.Definition[book]{
		ID: "x", Version: version, Initial: idle, Payloads: events, States: states, Migrations: migrations,
		On: append(renew, []on{
			{Event: "add", Actions: do{keep}}, {Event: "break", Actions: do{breaks}}, {Event: "tell", Actions: do{keep, tell}}, {Event: "ring", Actions: do{keep, ring}},
			{Event: "claim", Actions: do{keep, claim}}, {Event: "cancel", Target: "." + idle, Actions: do{keep}},
			{Event: "finish", Guard: tells, Target: ".finished", Actions: do{keep, tell}}, {Event: "finish", Target: ".finished", Actions: do{keep}},
			{Event: "printed", Actions: do{note(func(e statechart.ExecutionEnded) string { return "ended " + string(e.Status) })}},
			{Event: durable.AliasTaken, Actions: do{note(func(e struct{ Alias string }) string { return "taken " + e.Alias })}},
			{Event: durable.TokenExpired, Actions: do{note(func(e struct{ Name, Execution string }) string { return "gone " + e.Name + " " + e.Execution })}},
			{Event: statechart.CommunicationError, Actions: do{note(func(e statechart.CommunicationFailure) string { return "failed " + e.Effect })}},
		}...),
	}), durable.MachineConfig{Retention: retention})
}

// helped returns the state of a parent whose child runs the machine.
func helped(machine, idle string) chartState {
	return chartState{ID: "helped-" + machine, Tags: settled,
		Children: []statechart.Child[book]{{ID: "kid", Machine: machine, Input: func(_ book, e statechart.Event) any { return e.Payload },
			OnDone:  []on{{Target: idle, Actions: do{note(func(output json.RawMessage) string { return "back " + string(output) })}}},
			OnError: []on{{Target: idle, Actions: do{note(func(statechart.ChildError) string { return "lost" })}}}}},
		On: []on{{Event: "release", Actions: do{statechart.SendToChild("kid", "finish", func(_ book, e statechart.Event) any { return e.Payload })}},
			{Event: "again", Target: "helped-" + machine, Reenter: true, Actions: do{keep}}}}
}

// child returns one of the machines of children: c, b or d. Machine c waits until its parent releases it. Machine b
// waits too, and its exit action sends the event "bye" to x/b. Machine d calls a service and ends. A child whose input
// is the item "broken" fails to start. A defective child fails to start with any input.
func child(id string, isDefective bool) durable.Machine {
	states := []chartState{
		{ID: "idle", Tags: settled, On: []on{{Event: "add", Actions: do{keep}}, {Event: "finish", Target: "arrived"}}},
		{ID: "arrived", Type: statechart.Final, Output: func(b book, _ statechart.Event) any { return strings.Join(b.Log, " ") }},
	}
	switch id {
	case "b":
		states[0].Exit = do{statechart.SendTo("add", func(book, statechart.Event) (string, any) { return "x/b", item{Item: "bye"} })}
	case "d":
		states[0] = chartState{ID: "boarding", Invoke: invoked("board", "arrived", "arrived")}
	}
	return durable.Host(statechart.Must(statechart.Definition[book]{
		ID: id, Version: 1, Initial: states[0].ID, Payloads: payloads(), States: states, Input: statechart.PayloadOf[item](),
		Context: func(s statechart.Start) book {
			i, _ := s.Input.(item)
			if i.Item == "broken" || isDefective {
				panic("no child starts with this input")
			}
			return book{Log: []string{"begun " + i.Item}}
		},
	}), durable.MachineConfig{Retention: retention})
}

// fromVersion1 migrates x from version 1 to version 2.
var fromVersion1 = statechart.Migration{From: 1, Changes: []statechart.Change{
	statechart.RenameState("idle", "ready"), statechart.MoveState("helped-c", "ready"),
	statechart.Rewrite("drop the service that pays", func(s *statechart.Stored) error {
		if slices.Contains(s.State, "paying") {
			s.Services = nil
		}
		return nil
	}),
}}

// hosts returns the hosted machines before the deployment and, if there is a deployment, after it.
func hosts(versions string) (sets []*durable.Machines) {
	lists := [][]durable.Machine{{machineX(1)}}
	switch versions {
	case "defective children":
		lists = append(lists, lists[0])
	case "beside":
		lists = append(lists, []durable.Machine{machineX(1), machineX(2)})
	case "migrated":
		lists = append(lists, []durable.Machine{machineX(2, fromVersion1)})
	}
	for i, list := range lists {
		isDefective := i == 1 && versions == "defective children"
		set, err := durable.NewMachines(append(list, child("b", isDefective), child("c", isDefective), child("d", isDefective))...)
		if err != nil {
			panic(err)
		}
		sets = append(sets, set)
	}
	return sets
}
