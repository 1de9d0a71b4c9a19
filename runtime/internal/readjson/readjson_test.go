package readjson_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/internal/readjson"
)

// crate has a field of each kind.
type crate struct {
	label
	Weight  uint8            `json:"weight"`
	Size    *[2]float32      `json:"size"`
	Sent    *time.Time       `json:"sent"`
	Photo   []byte           `json:"photo"`
	Stops   []stop           `json:"stops"`
	ByDay   map[int]bool     `json:"byDay"`
	Next    *crate           `json:"next"`
	Extra   any              `json:"extra"`
	Hidden  string           `json:"-"`
	Numbers map[string][]int `json:"numbers"`
}

type label struct {
	Text string `json:"text"`
}

type stop struct{ City string }

func TestUnmarshalNamesTheMismatchedValue(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"next":`, 20) + `{"text":7}` + strings.Repeat(`}`, 20)
	for document, want := range map[string]readjson.Error{
		``:                                       {Expected: "an object", Got: "nothing"},
		`["a"]`:                                  {Expected: "an object", Got: "an array"},
		`{"text":7}`:                             {Key: "text", Expected: "a string", Got: "a number"},
		`{"TEXT":7}`:                             {Key: "text", Expected: "a string", Got: "a number"},
		`{"weight":256}`:                         {Key: "weight", Expected: "a non-negative whole number of 8 bits", Got: "a number out of range"},
		`{"weight":1.5}`:                         {Key: "weight", Expected: "a non-negative whole number of 8 bits", Got: "a number with a fraction or an exponent"},
		`{"weight":""}`:                          {Key: "weight", Expected: "a non-negative whole number of 8 bits", Got: "an empty string"},
		`{"size":[1,true]}`:                      {Key: "size[1]", Expected: "a number of 32 bits", Got: "a boolean"},
		`{"sent":481516}`:                        {Key: "sent", Expected: "a time such as 2026-01-02T15:04:05Z", Got: "a number"},
		`{"photo":"481516!"}`:                    {Key: "photo", Expected: "a string in base64", Got: "another string"},
		`{"stops":[{"City":"Ulm"},{"city":[]}]}`: {Key: "stops[1].City", Expected: "a string", Got: "an array"},
		`{"byDay":{"481516x":true}}`:             {Key: "byDay", Expected: "an object whose keys are whole numbers", Got: "another object"},
		`{"byDay":{"481516":"x"}}`:               {Key: "byDay.*", Expected: "a boolean", Got: "a string"},
		`{"numbers":{"481516":[1,{}]}}`:          {Key: "numbers.*[1]", Expected: "a whole number of 64 bits", Got: "an object"},
		`{"next":{"text":null,"weight":"x"}}`:    {Key: "next.weight", Expected: "a non-negative whole number of 8 bits", Got: "a string"},
		`{"weight":"x","text":7}`:                {Key: "text", Expected: "a string", Got: "a number"},
		deep:                                     {Key: strings.TrimSuffix(strings.Repeat("next.", 16), "."), Expected: "an object", Got: "another object"},
		strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001): {Expected: "at most 10,000 levels of nested objects and arrays", Got: "more"},
	} {
		err := readjson.Unmarshal([]byte(document), new(crate))
		var got *readjson.Error
		if !errors.As(err, &got) || *got != want {
			t.Errorf("%.60s: got %v\nwant %+v", document, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "481516") {
			t.Errorf("%.60s: want no value quoted, got %v", document, err)
		}
	}
	var read crate
	if err := readjson.Unmarshal([]byte(`{"text":"a","stops":[{"City":"Ulm"}]}`), &read); err != nil || read.Text != "a" || read.Stops[0].City != "Ulm" {
		t.Errorf("want the result of json.Unmarshal, got %+v and %v", read, err)
	}
	var syntax *json.SyntaxError
	if err := readjson.Unmarshal([]byte(`{"text":`), &read); !errors.As(err, &syntax) || err.Error() != "unexpected end of JSON input" {
		t.Errorf("want the error of encoding/json for invalid JSON, got %v", err)
	}
}

// stubborn has an UnmarshalJSON that always fails. Its error quotes the value.
type stubborn struct{ N int }

func (*stubborn) UnmarshalJSON(text []byte) error { return errors.New("cannot take " + string(text)) }

func TestUnmarshalDoesNotLookIntoCustomUnmarshalers(t *testing.T) {
	t.Parallel()
	var into struct {
		Whole stubborn `json:"whole"`
	}
	err := readjson.Unmarshal([]byte(`{"whole":{"N":481516}}`), &into)
	if want := `expected the JSON of a readjson_test.stubborn under "whole", got an object that does not decode`; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
