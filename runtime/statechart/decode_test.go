package statechart_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

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
	o.Item = "<" + o.Item + ">" // Validate may also normalize the value.
	return nil
}

type refused bool

func (refused) Validate() error { return errors.New("never valid") }

// picky is a payload whose UnmarshalJSON panics.
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

func TestDescribedPayloadTypesMatchDecode(t *testing.T) {
	t.Parallel()
	chart := takingOrders(t)
	payloads := chart.Describe().Payloads
	equal(t, "events", len(payloads), len(chart.Events()))
	for event, want := range map[string]reflect.Type{
		"order": reflect.TypeFor[order](), "pointer": reflect.TypeFor[*order](), "raw": reflect.TypeFor[map[string]any](), "plain": nil,
	} {
		if typ := payloads[event]; typ != want {
			t.Errorf("%s: got %v, want %v", event, typ, want)
		}
	}
}

func TestDecodeRejectsInvalidEvents(t *testing.T) {
	t.Parallel()
	chart := takingOrders(t)
	const declared = "it declares flag, flagged, order, picky, plain, pointer, raw"
	for body, want := range map[string]struct {
		is      error
		message string
	}{
		``:                                  {statechart.ErrNotAnEvent, `not an event: expected a JSON object such as {"type": "VERIFY"}, got 0 bytes`},
		`[{"type":"plain"}]`:                {statechart.ErrNotAnEvent, `not an event: expected a JSON object such as {"type": "VERIFY"}, got 18 bytes that begin with "["`},
		`{"type":"plain"} {}`:               {statechart.ErrNotAnEvent, `not an event: invalid character '{' after top-level value, got 19 bytes`},
		`{"type":"pl`:                       {statechart.ErrNotAnEvent, `not an event: unexpected end of JSON input, got 11 bytes`},
		`{}`:                                {statechart.ErrNotAnEvent, `not an event: expected the key "type" with an event type, got no keys`},
		`{"Type":"plain"}`:                  {statechart.ErrNotAnEvent, `not an event: expected the key "type" with an event type, got the keys "Type"`},
		`{"type":null}`:                     {statechart.ErrNotAnEvent, `not an event: expected the key "type" with an event type, got null`},
		`{"type":""}`:                       {statechart.ErrNotAnEvent, `not an event: expected the key "type" with an event type, got an empty string`},
		`{"type":7}`:                        {statechart.ErrNotAnEvent, `not an event: expected a string under the key "type", got a number`},
		`{"type": {"a":1}}`:                 {statechart.ErrNotAnEvent, `not an event: expected a string under the key "type", got an object`},
		`{"type":true}`:                     {statechart.ErrNotAnEvent, `not an event: expected a string under the key "type", got a boolean`},
		`{"type":"plain","$id":[]}`:         {statechart.ErrNotAnEvent, `not an event: expected a string under the key "$id", got an array`},
		`{"type":"other"}`:                  {statechart.ErrUndeclared, `undeclared event type: chart shop has no event "other"; ` + declared},
		`{"type":"inner","count":1}`:        {statechart.ErrUndeclared, `undeclared event type: chart shop has no event "inner"; ` + declared},
		`{"type":"done.invoke.a"}`:          {statechart.ErrUndeclared, `undeclared event type: chart shop has no event "done.invoke.a"; ` + declared},
		`{"type":"settle.after.a.1s"}`:      {statechart.ErrUndeclared, `undeclared event type: chart shop has no event "settle.after.a.1s"; ` + declared},
		`{"type":"settle.timer"}`:           {statechart.ErrPayload, `wrong payload: settle.timer expects the key "timer" with a timer's ID, got nothing`},
		`{"type":"settle.timer","timer":3}`: {statechart.ErrPayload, `wrong payload: settle.timer expects the key "timer" with a timer's ID, got a number`},
		`{"type":"order","count":"two"}`:    {statechart.ErrPayload, `wrong payload: event "order" of chart shop: expected a whole number of 64 bits under "count", got a string`},
		`{"type":"order","count":0}`:        {statechart.ErrPayload, `wrong payload: event "order" of chart shop: count: expected at least 1`},
		`{"type":"pointer","count":0}`:      {statechart.ErrPayload, `wrong payload: event "pointer" of chart shop: count: expected at least 1`},
		`{"type":"order","count":13}`:       {statechart.ErrPayload, `wrong payload: event "order" of chart shop: panic: a value of the type string`},
		`{"type":"picky"}`:                  {statechart.ErrPayload, `wrong payload: event "picky" of chart shop: panic: a value of the type string`},
		`{"type":"flagged"}`:                {statechart.ErrPayload, `wrong payload: event "flagged" of chart shop: expected a boolean, got an object`},
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

func TestDecodeNamesSomeKeysOfABodyWithoutType(t *testing.T) {
	t.Parallel()
	const expected = `not an event: expected the key "type" with an event type, got the keys `
	long := strings.Repeat("x", 32)
	for body, want := range map[string]string{
		`{"code":"secret","b":{"a":1}}`:                                                 `"b", "code"`,
		`{"` + long + `":1}`:                                                            `"` + long + `"`,
		`{"` + long + `y":1,"` + `a":"b"}`:                                              `"a", "` + long + `"...`,
		`{"9":0,"8":0,"7":0,"6":0,"5":0,"4":0,"3":0,"2":0,"1":0,"0":0}`:                 `"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"`,
		`{"9":0,"8":0,"7":0,"6":0,"5":0,"4":0,"3":0,"2":0,"1":0,"0":0,"a":0,"b":"sec"}`: `"0", "1", "2", "3", "4", "5", "6", "7", "8", "9" and 2 more`,
	} {
		_, err := takingOrders(t).Decode([]byte(body))
		equal(t, "message", err.Error(), expected+want)
	}
}

// guess is a payload that a body can mismatch in many ways.
type guess struct {
	Code  string          `json:"code"`
	Small int8            `json:"small"`
	At    time.Time       `json:"at"`
	Sum   json.Number     `json:"sum"`
	Quote int             `json:"quote,string"`
	Big   *big.Int        `json:"big"`
	Rows  map[int]string  `json:"rows"`
	Raw   json.RawMessage `json:"raw"`
	Fussy fussy           `json:"fussy"`
}

type fussy struct{}

func (*fussy) UnmarshalJSON(body []byte) error {
	return json.Unmarshal([]byte(`}`+string(body)), new(int))
}

func TestDecodeQuotesNoValues(t *testing.T) {
	t.Parallel()
	chart, err := statechart.Compile(Def{ID: "c", Version: 1, Initial: "a",
		Payloads: statechart.Payloads{"VERIFY": statechart.PayloadOf[guess]()}, States: []S{{ID: "a", Tags: settled}}})
	if err != nil {
		t.Fatal(err)
	}
	const wrong = `wrong payload: event "VERIFY" of chart c: `
	for body, want := range map[string]string{
		`{"type":"VERIFY","code":481516}`:                                wrong + `expected a string under "code", got a number`,
		`{"type":"VERIFY","small":481516}`:                               wrong + `expected a whole number of 8 bits under "small", got a number out of range`,
		`{"type":"VERIFY","rows":{"481516x":1}}`:                         wrong + `expected a string under "rows.*", got a number`,
		`{"type":"VERIFY","at":"481516"}`:                                wrong + `expected a time such as 2026-01-02T15:04:05Z under "at", got another string`,
		`{"type":"VERIFY","sum":"481516x"}`:                              wrong + `expected a number under "sum", got a string`,
		`{"type":"VERIFY","quote":"481516x"}`:                            wrong + `expected a whole number of 64 bits in a string under "quote", got another string`,
		`{"type":"VERIFY","big":"481516x"}`:                              wrong + `expected the JSON of a big.Int under "big", got a string that does not decode`,
		`{"type":"VERIFY","fussy":481516}`:                               wrong + "expected the JSON of a statechart_test.fussy under \"fussy\", got a number that does not decode",
		`{"type":"VERIFY","code":481516`:                                 "not an event: unexpected end of JSON input, got 30 bytes",
		`VERIFY 481516`:                                                  `not an event: expected a JSON object such as {"type": "VERIFY"}, got 13 bytes that begin with "V"`,
		`{"code":"481516"}`:                                              `not an event: expected the key "type" with an event type, got the keys "code"`,
		`{"type":481516}`:                                                `not an event: expected a string under the key "type", got a number`,
		`{"type":"settle.timer","timer":481516}`:                         `wrong payload: settle.timer expects the key "timer" with a timer's ID, got a number`,
		`{"type":"VERIFY","$id":"` + strings.Repeat("481516", 50) + `"}`: `not an event: expected at most 256 bytes under the key "$id", got 300`,
	} {
		_, err := chart.Decode([]byte(body))
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", body, err, want)
		}
	}
}

func TestEventsListsOutsideEventsSorted(t *testing.T) {
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
			t.Fatalf("accepted %q, which is not a JSON object", body)
		}
		var typ string
		if err := json.Unmarshal(head["type"], &typ); err != nil || typ != event.Type {
			t.Fatalf("read the type %q from %q", event.Type, body)
		}
	})
}
