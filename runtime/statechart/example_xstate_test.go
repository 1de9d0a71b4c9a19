package statechart_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

func Example_xstateConfig() {
	const config = `{
		"id": "invoice", "initial": "open", "context": {"due": 100},
		"on": {"PAID": ".sending"},
		"states": {
			"open": {
				"tags": ["settled"],
				"on": {"PAY": [
					{"guard": "covers", "actions": ["subtract", {"type": "xstate.raise", "event": {"type": "PAID"}}]},
					{"actions": "subtract"}
				]}
			},
			"sending": {"invoke": {"src": "mail", "input": {"template": "thanks"}, "onDone": "closed", "onError": "unsent"}},
			"unsent": {"type": "final"},
			"closed": {"type": "final"}
		}
	}`
	type invoice struct {
		Due int `json:"due"`
	}
	type payment struct {
		Amount int `json:"amount"`
	}
	def, err := xstatejson.Read([]byte(config), xstatejson.Implementations[invoice]{
		Payloads: statechart.Payloads{"PAY": statechart.PayloadOf[payment](), "PAID": statechart.Internal()},
		Guards: map[string]func(json.RawMessage) (statechart.Guard[invoice], error){
			"covers": func(json.RawMessage) (statechart.Guard[invoice], error) {
				return statechart.When("covers", func(i invoice, p payment) bool { return p.Amount >= i.Due }), nil
			},
		},
		Actions: map[string]func(json.RawMessage) (statechart.Action[invoice], error){
			"subtract": func(json.RawMessage) (statechart.Action[invoice], error) {
				return statechart.Assign("subtract", func(i *invoice, p payment) { i.Due -= p.Amount }), nil
			},
		},
		Services: map[string]func(json.RawMessage) (statechart.Service[invoice], error){
			"mail": func(input json.RawMessage) (statechart.Service[invoice], error) {
				return statechart.ServiceFunc("mail", func(context.Context, invoice, statechart.Call) (string, error) {
					return fmt.Sprintf("sent %s", input), nil
				}), nil
			},
		},
	})
	p := play(must(statechart.Compile(must(def, err))))
	p.sendWith("PAY", payment{30})
	p.sendWith("PAY", payment{70})
	show(p.Snapshot().Context)
	// Output:
	// starts in open
	// PAY: stays in open
	// PAY: open -> sending -> closed
	//   service 3.0 mail attempt 1 done
	//   done
	// {"due":0}
}
