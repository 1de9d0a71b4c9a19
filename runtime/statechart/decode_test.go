package statechart_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

type order struct {
	Item  string `json:"item"`
	Count int    `json:"count"`
}

func (o *order) Validate() error {
	if o.Count == 13 {
		panic("unlucky")
	}
	if o.Count < 1 {
		return errors.New("count: expected at least 1")
	}
	o.Item = "<" + o.Item + ">" // Validate may also put in order what it read
	return nil
}

type refused bool

func (refused) Validate() error { return errors.New("never valid") }

// picky is a payload whose decoding fails by itself.
type picky struct{}

func (*picky) UnmarshalJSON([]byte) error { panic("too picky") }

func takingOrders(tb testing.TB) *statechart.Chart[trace] {
	tb.Helper()
	chart, err := statechart.Compile(Def{ID: "shop", Version: 1, Initial: "a", Payloads: statechart.Payloads{
		"order": statechart.PayloadOf[order](), "pointer": statechart.PayloadOf[*order](), "plain": statechart.NoPayload(),
		"raw": statechart.PayloadOf[map[string]any](), "flag": statechart.PayloadOf[struct{ F refused }](), "flagged": statechart.PayloadOf[refused](),
		"picky": statechart.PayloadOf[picky](), "inner": statechart.InternalOf[order](),
	}, States: []S{{ID: "a", Tags: settled}}})
	if err != nil {
		tb.Fatal(err)
	}
	return chart
}

func TestDecodeReadsTypeIDAndPayload(t *testing.T) {
	t.Parallel()
	chart := takingOrders(t)
	const padding = " \t\r\n"
	for body, want := range map[string]Event{
		padding + `{"type":"plain"}` + padding:            {Type: "plain"},
		`{"type":"plain"}`:                                {Type: "plain"},
		`{ "type" : "plain", "more": [1]}`:                {Type: "plain"},
		`{"type":"plain","$id":"e-1"}`:                    {Type: "plain", ID: "e-1"},
		`{"type":"plain","$id":null}`:                     {Type: "plain"},
		`{"type":"plain","Type":"order","$ID":7}`:         {Type: "plain"},
		`{"type":"order","item":"x","count":2,"$id":"a"}`: {Type: "order", ID: "a", Payload: order{"<x>", 2}},
		`{"type":"pointer","item":"x","count":2}`:         {Type: "pointer", Payload: &order{"<x>", 2}},
		`{"type":"flag","F":true}`:                        {Type: "flag", Payload: struct{ F refused }{true}},
		`{"type":"raw","n":1}`:                            {Type: "raw", Payload: map[string]any{"type": "raw", "n": 1.0}},
		`{"type":"settle.timer","timer":"3.1","$id":"t"}`: {Type: statechart.TimerEvent, Timer: "3.1", ID: "t"},
	} {
		got, err := chart.Decode([]byte(body))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", body, got, err, want)
		}
	}
}

func TestDecodeRefusesWhatIsNoEventOfTheChart(t *testing.T) {
	t.Parallel()
	chart := takingOrders(t)
	const declared = "it declares flag, flagged, order, picky, plain, pointer, raw"
	for body, want := range map[string]struct {
		is      error
		message string
	}{
		``:                                  {statechart.ErrNotAnEvent, `not an event: expected a JSON object such as {"type": "VERIFY"}, got ""`},
		`[{"type":"plain"}]`:                {statechart.ErrNotAnEvent, `not an event: expected a JSON object such as {"type": "VERIFY"}, got "[{\"type\":\"plain\"}]"`},
		`{"type":"plain"} {}`:               {statechart.ErrNotAnEvent, `not an event: invalid character '{' after top-level value in "{\"type\":\"plain\"} {}"`},
		`{}`:                                {statechart.ErrNotAnEvent, `not an event: expected the key "type" with an event type, got "{}"`},
		`{"Type":"plain"}`:                  {statechart.ErrNotAnEvent, `not an event: expected the key "type" with an event type, got "{\"Type\":\"plain\"}"`},
		`{"type":null}`:                     {statechart.ErrNotAnEvent, `not an event: expected the key "type" with an event type, got "{\"type\":null}"`},
		`{"type":7}`:                        {statechart.ErrNotAnEvent, `not an event: expected a string under the key "type", got "7"`},
		`{"type":"plain","$id":[]}`:         {statechart.ErrNotAnEvent, `not an event: expected a string under the key "$id", got "[]"`},
		`{"type":"other"}`:                  {statechart.ErrUndeclared, `undeclared event type: chart shop has no event "other"; ` + declared},
		`{"type":"inner","count":1}`:        {statechart.ErrUndeclared, `undeclared event type: chart shop has no event "inner"; ` + declared},
		`{"type":"done.invoke.a"}`:          {statechart.ErrUndeclared, `undeclared event type: chart shop has no event "done.invoke.a"; ` + declared},
		`{"type":"settle.after.a.1s"}`:      {statechart.ErrUndeclared, `undeclared event type: chart shop has no event "settle.after.a.1s"; ` + declared},
		`{"type":"settle.timer"}`:           {statechart.ErrPayload, `wrong payload: settle.timer expects the key "timer" with a timer's ID, got "{\"type\":\"settle.timer\"}"`},
		`{"type":"settle.timer","timer":3}`: {statechart.ErrPayload, `wrong payload: settle.timer expects the key "timer" with a timer's ID, got "{\"type\":\"settle.timer\",\"timer\":3}"`},
		`{"type":"order","count":"two"}`:    {statechart.ErrPayload, `wrong payload: event "order" of chart shop: json: cannot unmarshal string into Go struct field order.count of type int`},
		`{"type":"order","count":0}`:        {statechart.ErrPayload, `wrong payload: event "order" of chart shop: count: expected at least 1`},
		`{"type":"pointer","count":0}`:      {statechart.ErrPayload, `wrong payload: event "pointer" of chart shop: count: expected at least 1`},
		`{"type":"order","count":13}`:       {statechart.ErrPayload, `wrong payload: event "order" of chart shop: panic: unlucky`},
		`{"type":"picky"}`:                  {statechart.ErrPayload, `wrong payload: event "picky" of chart shop: panic: too picky`},
		`{"type":"flagged"}`:                {statechart.ErrPayload, `wrong payload: event "flagged" of chart shop: json: cannot unmarshal object into Go value of type statechart_test.refused`},
	} {
		event, err := chart.Decode([]byte(body))
		if !errors.Is(err, want.is) || err.Error() != want.message {
			t.Errorf("%s: got %v\nwant %s", body, err, want.message)
		}
		var head struct{ Type string }
		if !errors.Is(want.is, statechart.ErrNotAnEvent) && json.Unmarshal([]byte(body), &head) != nil {
			t.Fatal(body)
		}
		equal(t, "event", event, Event{Type: head.Type})
	}
}

func TestDecodeQuotesLongBodiesInPart(t *testing.T) {
	t.Parallel()
	body := make([]byte, 100)
	for i := range body {
		body[i] = 'x'
	}
	_, err := takingOrders(t).Decode(body)
	equal(t, "message", err.Error(), `not an event: expected a JSON object such as {"type": "VERIFY"}, got "`+string(body[:80])+`" and 20 more bytes`)
}

func TestEventsAreThoseFromOutsideSorted(t *testing.T) {
	t.Parallel()
	equal(t, "events", text(t, takingOrders(t).Events()), `["flag","flagged","order","picky","plain","pointer","raw"]`)
}

func FuzzDecode(f *testing.F) {
	chart := takingOrders(f)
	for _, seed := range []string{`{"type":"order","item":"x","count":2,"$id":"a"}`, `{"type":"settle.timer","timer":"1.0"}`, `{"type":"raw","a":{"b":[1]}}`, `{"TYPE":"plain"}`, "{\"type\":\"\xff\"}", `{"type":"pointer","count":null}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		event, err := chart.Decode(body)
		if err != nil {
			if !errors.Is(err, statechart.ErrNotAnEvent) && !errors.Is(err, statechart.ErrUndeclared) && !errors.Is(err, statechart.ErrPayload) {
				t.Fatalf("the error wraps none of Decode's: %v", err)
			}
			return
		}
		var head map[string]json.RawMessage
		if err := json.Unmarshal(body, &head); err != nil || text(t, event.Type) == "" {
			t.Fatalf("accepted %q, which is no JSON object", body)
		}
		var typ string
		if err := json.Unmarshal(head["type"], &typ); err != nil || typ != event.Type {
			t.Fatalf("read the type %q from %q", event.Type, body)
		}
	})
}
