package payload_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/payload"
)

type (
	plain struct {
		Title  string `json:"title"`
		Reader string
		Copies int `json:"copies,string"`
		Hidden int `json:"-"`
		secret int
	}
	inner  struct{ Street, City string }
	Outer  struct{ City string }
	embeds struct {
		inner
		*Outer
		Named   `json:"named"`
		Country string `json:"country"`
	}
	Named    struct{ Inside int }
	shadowed struct {
		City string `json:"town"`
		Outer
	}
	recursive struct {
		Next *recursive
		*EmbedsItself
	}
	EmbedsItself struct {
		*EmbedsItself
		Level int
	}
	own     struct{ A int }
	promote struct {
		own
		B int
	}
	panics struct {
		At hot `json:"at"`
	}
	hot struct{}
)

func (*own) UnmarshalJSON([]byte) error { return nil }

func (*hot) UnmarshalJSON([]byte) error { panic("hot") }

func TestKeysMatchWhatEncodingJSONDecodes(t *testing.T) {
	t.Parallel()
	_ = plain{secret: 1}
	for _, c := range []struct {
		typ  reflect.Type
		keys string
	}{
		{reflect.TypeFor[plain](), "title Reader copies"},
		{reflect.TypeFor[**plain](), "title Reader copies"},
		// Both embedded structs have City, at the same depth: encoding/json decodes neither.
		{reflect.TypeFor[embeds](), "Street named country"},
		{reflect.TypeFor[shadowed](), "town City"},
		{reflect.TypeFor[recursive](), "Next Level"},
		{reflect.TypeFor[struct{}](), ""},
		{reflect.TypeFor[panics](), "at"},
		{reflect.TypeFor[own](), ""},
		{reflect.TypeFor[promote](), ""},
		{reflect.TypeFor[time.Time](), ""},
		{reflect.TypeFor[map[string]int](), ""},
		{reflect.TypeFor[json.RawMessage](), ""},
		{nil, ""},
	} {
		if got := strings.Join(payload.Keys(c.typ), " "); got != c.keys {
			t.Errorf("%v: expected %q, got %q", c.typ, c.keys, got)
		}
	}
}

func TestKeysIgnoreCase(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{"title": true, "TITLE": true, "reader": true, "titel": false, "": false, "Hidden": false, "secret": false, `a"b`: false} {
		unknown := payload.Unknown(reflect.TypeFor[plain](), map[string]any{key: nil})
		if got := !slices.Contains(unknown, key); got != want {
			t.Errorf("%q: expected %v, got %v", key, want, got)
		}
	}
}

func TestUnknownKeysAreFoundAtAnyDepth(t *testing.T) {
	t.Parallel()
	type line struct {
		Price int `json:"price"`
		inner
	}
	type order struct {
		Lines []line          `json:"lines"`
		By    map[string]line `json:"by"`
		Note  any             `json:"note"`
		Raw   json.RawMessage `json:"raw"`
	}
	for _, c := range []struct {
		typ             reflect.Type
		object, unknown string
	}{
		{reflect.TypeFor[order](), `{"lines": [{"price": 1}, {"prise": 2, "Street": "a"}], "by": {"a": {"cost": 1}}, "note": {"x": 1}, "raw": {"y": 1}, "z": 1}`, "cost prise z"},
		{reflect.TypeFor[*order](), `{"lines": [{"price": 1, "street": "a"}]}`, ""},
		{reflect.TypeFor[map[string]int](), `{"a": 1}`, ""},
		{reflect.TypeFor[own](), `{"b": 1}`, ""},
		{reflect.TypeFor[panics](), `{"at": 1}`, ""},
		{nil, `{"a": 1, "b": {"c": 1}}`, "a b"},
	} {
		var object map[string]any
		if err := json.Unmarshal([]byte(c.object), &object); err != nil {
			t.Fatal(err)
		}
		found := payload.Unknown(c.typ, object)
		slices.Sort(found)
		if got := strings.Join(found, " "); got != c.unknown {
			t.Errorf("%v: expected %q, got %q", c.typ, c.unknown, got)
		}
	}
}

type (
	level  string
	sample struct {
		Title  string          `json:"title"`
		Count  int             `json:"count"`
		Share  float32         `json:"share"`
		Small  *uint8          `json:"small"`
		Quoted int             `json:"quoted,string"`
		On     bool            `json:"on"`
		At     time.Time       `json:"at"`
		Any    any             `json:"any"`
		Level  level           `json:"level"`
		Raw    json.RawMessage `json:"raw"`
		Number json.Number     `json:"number"`
		Bytes  []byte          `json:"bytes"`
		List   []string        `json:"list"`
		Pair   [2]int          `json:"pair"`
		Map    map[string]bool `json:"map"`
		Place  struct {
			City string `json:"city"`
		} `json:"place"`
		inner
		Self   *sample  `json:"self"`
		Selves []sample `json:"selves"`
		Reason string   `json:"reason,omitempty"`
		Until  *Outer   `json:"until,omitzero"`
		Type   string   `json:"type"`
		Task   string   `json:"$task"`
		Hidden string   `json:"-"`
	}
)

func TestSampleHasAValueForEachFieldAndDecodes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	const required = `title="title" count=1 share=1 small=1 quoted="1" on=true at="2026-03-04T05:06:07Z" any="any" level="level" raw=null number=1 ` +
		`bytes="Ynl0ZXM=" list=["list"] pair=[1,1] map={"key":true} place={"city":"city"} Street="Street" City="City" self=null selves=[]`
	for _, c := range []struct {
		typ      reflect.Type
		optional bool
		want     string
	}{
		{reflect.TypeFor[sample](), false, required},
		{reflect.TypeFor[*sample](), true, required + ` reason="reason" until={"City":"City"}`},
		{reflect.TypeFor[map[string]int](), false, "key=1"},
		{reflect.TypeFor[struct{}](), false, ""},
		{reflect.TypeFor[string](), false, ""},
		{reflect.TypeFor[json.RawMessage](), false, ""},
		{reflect.TypeFor[struct{ C chan int }](), false, ""},
		{nil, false, ""},
	} {
		var got []string
		object := map[string]json.RawMessage{}
		for _, field := range payload.Sample(c.typ, now, c.optional) {
			got, object[field.Key] = append(got, field.Key+"="+string(field.Value)), field.Value
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: expected %s, got %s", c.typ, c.want, strings.Join(got, " "))
		}
		if c.want == "" {
			continue
		}
		body, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(body, reflect.New(c.typ).Interface()); err != nil {
			t.Errorf("%v: expected %s to decode, got %v", c.typ, body, err)
		}
	}
}

func TestRuntimeKeysAreReserved(t *testing.T) {
	t.Parallel()
	got := slices.DeleteFunc([]string{"type", "$id", "$task", "$", "Type", "id", ""}, payload.Reserved)
	if strings.Join(got, ",") != "Type,id," {
		t.Errorf("expected Type, id and the empty key not to be reserved, got %q", got)
	}
}
