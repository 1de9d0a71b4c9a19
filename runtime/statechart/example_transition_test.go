package statechart_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// invitation is the payload of INVITE.
type invitation struct {
	Email string `json:"email"`
}

// Validate rejects an invalid address.
func (i invitation) Validate() error {
	if !strings.Contains(i.Email, "@") {
		return errors.New("expected an email with an @")
	}
	return nil
}

func ExamplePayloadOf() {
	chart := statechart.Must(definition{
		ID: "team", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{
			"INVITE": statechart.PayloadOf[invitation](),
			"CLOSE":  statechart.NoPayload(),
			"FULL":   statechart.Internal(),
		},
		States: []state{
			{ID: "open", Tags: settled, On: []on{
				{Event: "INVITE", Actions: do{statechart.Raise[nothing]("FULL")}},
				{Event: "FULL", Target: "closed"},
				{Event: "CLOSE", Target: "closed"},
			}},
			{ID: "closed", Type: statechart.Final},
		},
	})
	for _, body := range []string{
		`{"type": "INVITE", "email": "ada@example.com", "$id": "mail-17"}`,
		`{"type": "INVITE", "email": "ada"}`,
		`{"type": "INVITE", "email": 7}`,
		`{"type": "FULL"}`,
		`["CLOSE"]`,
	} {
		event, err := chart.Decode([]byte(body))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(event.Type, event.ID, event.Payload)
	}
	// Output:
	// INVITE mail-17 {ada@example.com}
	// wrong payload: event "INVITE" of chart team: expected an email with an @
	// wrong payload: event "INVITE" of chart team: expected a string under "email", got a number
	// undeclared event type: chart team has no event "FULL"; it declares CLOSE, INVITE
	// not an event: expected a JSON object such as {"type": "VERIFY"}, got 9 bytes that begin with "["
}

func ExampleTransition() {
	p := play(statechart.Must(definition{
		ID: "lamp", Version: 1, Initial: "on",
		Payloads: events("DIM", "OFF", "ON", "NIGHT", "RESET", "EVENING"),
		On:       []on{{Event: "RESET", Target: ".on"}},
		States: []state{
			{ID: "on", Initial: "bright",
				On: []on{
					{Event: "OFF", Target: "off"},               // a sibling
					{Event: "NIGHT", Target: ".low"},            // a child
					{Event: "EVENING", Target: "off.scheduled"}, // below a sibling
				},
				States: []state{
					{ID: "bright", Tags: settled, On: []on{{Event: "DIM", Target: "low"}}},
					{ID: "low", Tags: settled, On: []on{{Event: "DIM", Target: "#off.manual"}}}, // a path from the top
				}},
			{ID: "off", Initial: "manual", States: []state{
				{ID: "manual", Tags: settled, On: []on{{Event: "ON", Target: "#bright"}}}, // an ID that is unique in the chart
				{ID: "scheduled", Tags: settled},
			}},
		},
	}))
	p.send("NIGHT", "DIM", "ON", "EVENING", "RESET")
	// Output:
	// starts in on.bright
	// NIGHT: on.bright -> on.low
	// DIM: on.low -> off.manual
	// ON: off.manual -> on.bright
	// EVENING: on.bright -> off.scheduled
	// RESET: off.scheduled -> on.bright
}

func ExampleTransition_targets() {
	region := func(id, first, second string) state {
		return state{ID: id, Initial: first, States: []state{{ID: first, Tags: settled}, {ID: second, Tags: settled}}}
	}
	p := play(statechart.Must(definition{
		ID: "cinema", Version: 1, Initial: "foyer",
		Payloads: events("SHOW", "CLEAN"),
		On:       []on{{Event: "SHOW", Target: ".hall.screen.film .hall.lights.off"}},
		States: []state{
			{ID: "foyer", Tags: settled, On: []on{{Event: "CLEAN", Target: "hall"}}},
			{ID: "hall", Type: statechart.Parallel, States: []state{
				region("screen", "blank", "film"),
				region("lights", "on", "off"),
			}},
		},
	}))
	p.send("CLEAN", "SHOW")
	// Output:
	// starts in foyer
	// CLEAN: foyer -> hall.screen.blank, hall.lights.on
	// SHOW: hall.screen.blank, hall.lights.on -> hall.screen.film, hall.lights.off
}

func ExampleWhen() {
	type account struct {
		Balance int `json:"balance"`
	}
	type withdrawal struct {
		Amount int `json:"amount"`
	}
	type (
		state = statechart.State[account]
		on    = statechart.Transition[account]
		do    = []statechart.Action[account]
	)
	covered := statechart.When("covered", func(a account, w withdrawal) bool { return w.Amount <= a.Balance })
	empty := statechart.If("empty", func(a account) bool { return a.Balance == 0 })
	pay := statechart.Assign("pay", func(a *account, w withdrawal) { a.Balance -= w.Amount })
	p := play(statechart.Must(statechart.Definition[account]{
		ID: "account", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{"WITHDRAW": statechart.PayloadOf[withdrawal]()},
		Context:  func(statechart.Start) account { return account{Balance: 50} },
		States: []state{
			{ID: "open", Tags: settled,
				On: []on{
					{Event: "WITHDRAW", Guard: covered, Actions: do{pay}},
					{Event: "WITHDRAW", Target: "frozen"},
				},
				Always: []on{{Guard: empty, Target: "closed"}}},
			{ID: "frozen", Type: statechart.Final},
			{ID: "closed", Type: statechart.Final},
		},
	}))
	p.sendWith("WITHDRAW", withdrawal{Amount: 30})
	p.sendWith("WITHDRAW", withdrawal{Amount: 20})
	// Output:
	// starts in open
	// WITHDRAW: stays in open
	// WITHDRAW: open -> closed
	//   done
}

func ExampleAnd() {
	guard := statechart.And(
		statechart.In[nothing]("lights.off"),
		statechart.Or(
			statechart.In[nothing]("doors.shut"),
			statechart.Not(statechart.In[nothing]("owner.away")),
		))
	fmt.Println(guard.Name)

	region := func(id, first, second, event string) state {
		return state{ID: id, Initial: first, States: []state{
			{ID: first, Tags: settled, On: []on{{Event: event, Target: second}}},
			{ID: second, Tags: settled},
		}}
	}
	p := play(statechart.Must(definition{
		ID: "house", Version: 1, Parallel: true,
		Payloads: events("SWITCH", "SHUT", "LEAVE", "ARM"),
		States: []state{
			region("lights", "on", "off", "SWITCH"),
			region("doors", "open", "shut", "SHUT"),
			region("owner", "home", "away", "LEAVE"),
			{ID: "alarm", Initial: "quiet", States: []state{
				{ID: "quiet", Tags: settled, On: []on{{Event: "ARM", Target: "armed", Guard: guard}}},
				{ID: "armed", Tags: settled},
			}},
		},
	}))
	p.send("SWITCH", "LEAVE", "ARM", "SHUT", "ARM")
	// Output:
	// (in lights.off and (in doors.shut or not in owner.away))
	// starts in lights.on, doors.open, owner.home, alarm.quiet
	// SWITCH: lights.on, doors.open, owner.home, alarm.quiet -> lights.off, doors.open, owner.home, alarm.quiet
	// LEAVE: lights.off, doors.open, owner.home, alarm.quiet -> lights.off, doors.open, owner.away, alarm.quiet
	// ARM: ignored in lights.off, doors.open, owner.away, alarm.quiet
	// SHUT: lights.off, doors.open, owner.away, alarm.quiet -> lights.off, doors.shut, owner.away, alarm.quiet
	// ARM: lights.off, doors.shut, owner.away, alarm.quiet -> lights.off, doors.shut, owner.away, alarm.armed
}

func ExampleAssign() {
	type tally struct {
		Events int    `json:"events"`
		Last   string `json:"last"`
		Total  int    `json:"total"`
	}
	type sale struct {
		Price int `json:"price"`
	}
	type (
		state = statechart.State[tally]
		on    = statechart.Transition[tally]
		do    = []statechart.Action[tally]
	)
	count := statechart.Update("count", func(t *tally) { t.Events++ })
	name := statechart.Assign("name", func(t *tally, e statechart.Event) { t.Last = e.Type })
	sum := statechart.TryAssign("sum", func(t *tally, s sale) error {
		if s.Price < 0 {
			return fmt.Errorf("expected a price from 0, got %d", s.Price)
		}
		t.Total += s.Price
		return nil
	})
	p := play(statechart.Must(statechart.Definition[tally]{
		ID: "till", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{"SALE": statechart.PayloadOf[sale]()},
		States:   []state{{ID: "open", Tags: settled, On: []on{{Event: "SALE", Actions: do{count, name, sum}}}}},
	}))
	p.sendWith("SALE", sale{Price: 12})
	show(p.Snapshot().Context)
	fmt.Println(p.Try(`{"type": "SALE", "price": -1}`))
	show(p.Snapshot().Context)
	// Output:
	// starts in open
	// SALE: stays in open
	// {"events":1,"last":"SALE","total":12}
	// chart till, state "open", event "SALE": action sum: expected a price from 0, got -1
	// {"events":1,"last":"SALE","total":12}
}

func ExampleTransition_actions() {
	p := play(statechart.Must(definition{
		ID: "train", Version: 1, Initial: "city",
		Payloads: events("GO"),
		States: []state{
			{ID: "city", Initial: "platform", Exit: do{note("leaves city")}, States: []state{
				{ID: "platform", Tags: settled, Exit: do{note("leaves platform")},
					On: []on{{Event: "GO", Target: "#country.halt", Actions: do{note("whistles"), note("departs")}}}},
			}},
			{ID: "country", Initial: "halt", Entry: do{note("enters country")}, States: []state{
				{ID: "halt", Tags: settled, Entry: do{note("enters halt")}},
			}},
		},
	}))
	p.send("GO")
	// Output:
	// starts in city.platform
	// GO: city.platform -> country.halt
	//   effect 2.0 log leaves platform
	//   effect 2.1 log leaves city
	//   effect 2.2 log whistles
	//   effect 2.3 log departs
	//   effect 2.4 log enters country
	//   effect 2.5 log enters halt
}

func ExampleTransition_reenter() {
	p := play(statechart.Must(definition{
		ID: "form", Version: 1, Initial: "filling",
		Payloads: events("NEXT", "BACK", "AGAIN", "TYPE"),
		States: []state{
			{ID: "filling", Initial: "name", Entry: do{note("enters filling")}, Exit: do{note("leaves filling")},
				On: []on{
					{Event: "TYPE", Actions: do{note("types")}},        // no target: nothing is left
					{Event: "BACK", Target: ".name"},                   // filling stays
					{Event: "AGAIN", Target: "filling", Reenter: true}, // filling is left and entered again
				},
				States: []state{
					{ID: "name", Tags: settled, On: []on{{Event: "NEXT", Target: "address"}}},
					{ID: "address", Tags: settled},
				}},
		},
	}))
	p.send("NEXT", "TYPE", "BACK", "NEXT", "AGAIN")
	// Output:
	// starts in filling.name
	//   effect 1.0 log enters filling
	// NEXT: filling.name -> filling.address
	// TYPE: stays in filling.address
	//   effect 3.0 log types
	// BACK: filling.address -> filling.name
	// NEXT: filling.name -> filling.address
	// AGAIN: filling.address -> filling.name
	//   effect 6.0 log leaves filling
	//   effect 6.1 log enters filling
}

func ExampleTransition_forbidden() {
	p := play(statechart.Must(definition{
		ID: "order", Version: 1, Initial: "open",
		Payloads: events("CANCEL", "SHIP"),
		States: []state{
			{ID: "open", Initial: "packing",
				On: []on{{Event: "CANCEL", Target: "cancelled"}},
				States: []state{
					{ID: "packing", Tags: settled, On: []on{{Event: "SHIP", Target: "shipped"}}},
					{ID: "shipped", Tags: settled, On: []on{{Event: "CANCEL"}}},
				}},
			{ID: "cancelled", Type: statechart.Final},
		},
	}))
	p.send("SHIP", "CANCEL")
	// Output:
	// starts in open.packing
	// SHIP: open.packing -> open.shipped
	// CANCEL: stays in open.shipped
}

func ExampleTransition_wildcard() {
	p := play(statechart.Must(definition{
		ID: "import", Version: 1, Initial: "reading",
		Payloads: events("row.added", "row.removed.twice", "rows", "END"),
		States: []state{
			{ID: "reading", Tags: settled, On: []on{
				{Event: "row.added", Actions: do{note("the type itself")}},
				{Event: "row.*", Actions: do{note("every type that begins with row.")}},
				{Event: "*", Actions: do{note("any other")}},
			}},
		},
	}))
	p.send("row.added", "row.removed.twice", "rows")
	// Output:
	// starts in reading
	// row.added: stays in reading
	//   effect 2.0 log the type itself
	// row.removed.twice: stays in reading
	//   effect 3.0 log every type that begins with row.
	// rows: stays in reading
	//   effect 4.0 log any other
}

func ExampleState_always() {
	type cart struct {
		Items int `json:"items"`
	}
	type (
		state = statechart.State[cart]
		on    = statechart.Transition[cart]
		do    = []statechart.Action[cart]
	)
	add := statechart.Update("add", func(c *cart) { c.Items++ })
	full := statechart.If("full", func(c cart) bool { return c.Items == 2 })
	p := play(statechart.Must(statechart.Definition[cart]{
		ID: "cart", Version: 1, Initial: "deciding",
		Payloads: events("ADD"),
		States: []state{
			{ID: "deciding", Always: []on{
				{Guard: full, Target: "full"},
				{Target: "filling"},
			}},
			{ID: "filling", Tags: settled, On: []on{{Event: "ADD", Target: "deciding", Actions: do{add}}}},
			{ID: "full", Tags: settled},
		},
	}))
	p.send("ADD", "ADD")
	// Output:
	// starts in filling
	// ADD: stays in filling
	// ADD: filling -> full
}

func ExampleRaise() {
	p := play(statechart.Must(definition{
		ID: "shop", Version: 1, Parallel: true,
		Payloads: statechart.Payloads{"PAY": statechart.NoPayload(), "PAID": statechart.Internal()},
		States: []state{
			{ID: "till", Initial: "due", States: []state{
				{ID: "due", Tags: settled, On: []on{{Event: "PAY", Target: "paid", Actions: do{statechart.Raise[nothing]("PAID")}}}},
				{ID: "paid", Tags: settled},
			}},
			{ID: "parcel", Initial: "held", States: []state{
				{ID: "held", Tags: settled, On: []on{{Event: "PAID", Target: "released"}}},
				{ID: "released", Tags: settled},
			}},
		},
	}))
	p.send("PAY")
	fmt.Println(p.Try(`{"type": "PAID"}`))
	// Output:
	// starts in till.due, parcel.held
	// PAY: till.due, parcel.held -> till.paid, parcel.released
	// undeclared event type: chart shop has no event "PAID"; it declares PAY
}
