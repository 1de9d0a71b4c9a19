package statechart_test

import (
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

func ExampleMigration() {
	type (
		// The context of version 1. Only the migration uses it.
		orderV1 struct {
			Customer string `json:"customer"`
		}
		order struct {
			Customer string `json:"customer"`
			Currency string `json:"currency"`
		}
		state = statechart.State[order]
		on    = statechart.Transition[order]
		after = statechart.After[order]
	)
	chart := statechart.Must(statechart.Definition[order]{
		ID: "order", Version: 3, Initial: "open",
		Payloads: events("PAID"),
		States: []state{
			{ID: "open", Initial: "unpaid", On: []on{{Event: "PAID", Target: "paid"}}, States: []state{
				{ID: "unpaid", Tags: settled, After: []after{{ID: "patience", Delay: time.Hour, Target: "reminded"}}},
				{ID: "reminded", Tags: settled},
			}},
			{ID: "paid", Type: statechart.Final},
		},
		Migrations: []statechart.Migration{
			{From: 1, Changes: []statechart.Change{
				statechart.RenameState("waiting", "open.unpaid"),
				statechart.MigrateContext(func(old orderV1) order { return order{Customer: old.Customer, Currency: "EUR"} }),
			}},
			{From: 2, Changes: []statechart.Change{statechart.RenameTimer("open.unpaid", "1h0m0s", "patience")}},
		},
	})
	stored := `{"machine": "order", "version": 1, "status": "active", "value": "waiting", "context": {"customer": "c-7"}, "tags": ["settled"],
		"timers": {"1.0": {"state": "waiting", "after": "1h0m0s", "at": "2026-11-20T10:00:00Z"}}, "steps": 1}`
	s := must(chart.Restore([]byte(stored)))
	fmt.Println(s.State(), s.Context)
	fmt.Println(s.Timers[0].State, s.Timers[0].After, s.Timers[0].At)
	// Output:
	// [open.unpaid] {c-7 EUR}
	// open.unpaid patience 2026-11-20 10:00:00 +0000 UTC
}
