package readjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/internal/readjson"
)

// parcel has keys of each kind.
type parcel struct {
	label
	*Inner  `json:"inner"`
	Stops   []stop               `json:"stops"`
	ByName  map[string]*stop     `json:"byName"`
	Grid    [2][]map[string]stop `json:"grid"`
	Sent    time.Time            `json:"sent"`
	Raw     json.RawMessage      `json:"raw"`
	Any     any                  `json:"any"`
	Own     written              `json:"own"`
	Numbers []int                `json:"numbers"`
	Plain   string               `json:"na\"me"` //nolint:staticcheck // encoding/json ignores the invalid name, so the key is Plain.
	Hidden  string               `json:"-"`
	Next    *parcel              `json:"next,omitempty"`
	Nest    []nest               `json:"nest"`
	Umlaut  stop                 `json:"größe"`
	Texts   map[string][]string  `json:"texts"`
	private string
}

type Inner struct{ Depth stop }

type nest []nest

// written has its own MarshalJSON.
type written struct{ n int }

func (written) MarshalJSON() ([]byte, error) { return []byte(`{"any":1}`), nil }

func unknown(typ reflect.Type, document string) string {
	var unknown *readjson.UnknownKeyError
	if errors.As(readjson.KeysOf(typ).Check([]byte(document)), &unknown) {
		return unknown.Key
	}
	return ""
}

func TestUnknownKeysAreFoundAtAnyDepth(t *testing.T) {
	t.Parallel()
	_ = parcel{private: ""}.private
	_ = written{}.n
	for document, want := range map[string]string{
		`null`: "", `{}`: "", `{"text":"a","TEXT":"b","inner":{"Depth":{"city":""}},"größe":{"City":""},"Plain":"","t\u0065xt":""}`: "",
		`{"stops":[{"City":"a"},{"City":"b","zip":1}]}`:                                  "stops[1].zip",
		`{"byName":{"481516":{"City":"a","x":{}}}}`:                                      "byName.*.x",
		`{"grid":[null,[{"a":{}},{"b":{"City":"","y":[1,"]",{}]}}]]}`:                    "grid[1][1].*.y",
		`{"any":{"x":1},"raw":{"x":1},"own":{"x":1},"numbers":[1,-2e3],"nope":1}`:        "nope",
		`{"next":{"next":{"inner":{"Depth":{"z":1}}}}}`:                                  "next.next.inner.Depth.z",
		`{ "nest" : [ [ ] , [ [ ] ] ] , "texts" : { "a\"}" : [ "}" ] } , "Hidden" : 1 }`: "Hidden",
		`{"private":1}`: "private", `{"":1}`: `""`, `{"\u0041\"":1}`: `A"`,
		`{"` + strings.Repeat("k", 70) + `":1}`: strings.Repeat("k", 64) + "…",
	} {
		if got := unknown(reflect.TypeFor[*parcel](), document); got != want {
			t.Errorf("%s: got %q, want %q", document, got, want)
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[any](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[map[string]any](), reflect.TypeFor[written](), reflect.TypeFor[[]int]()} {
		if readjson.KeysOf(typ) != nil {
			t.Errorf("%v: want no keys", typ)
		}
	}
}

// TestUnknownKeysAgreeWithEncodingJSON compares with the decoder's DisallowUnknownFields on random documents.
func TestUnknownKeysAgreeWithEncodingJSON(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	keys := []string{"text", "Text", "inner", "Depth", "City", "CITY", "stops", "byName", "next", "nest", "größe", "GRÖSSE", "GRÖßE", "x"}
	shapes := map[string]string{"text": "s", "inner": "{Depth}", "depth": "o", "city": "s", "stops": "[o]", "byname": "{o}", "next": "p", "größe": "o", "nest": "n", "x": "s"}
	var object func(depth int, keys []string) string
	value := func(key string, depth int) string {
		switch shapes[strings.ToLower(key)] {
		case "{Depth}":
			return object(depth-1, []string{"Depth", "depth", "x"})
		case "o":
			return object(depth-1, []string{"City", "city", "x"})
		case "[o]":
			return "[" + object(depth-1, []string{"City", "x"}) + " ,\n" + object(depth-1, []string{"City"}) + "]"
		case "{o}":
			return `{"any" : ` + object(depth-1, []string{"City", "x"}) + "}"
		case "p":
			return object(depth-1, keys)
		case "n":
			return "[[],[[]]]"
		default:
			return `"a\\\"}"`
		}
	}
	object = func(depth int, keys []string) string {
		var members []string
		for range min(max(depth, 0), random.IntN(4)) {
			key := keys[random.IntN(len(keys))]
			members = append(members, fmt.Sprintf("%q: %s", key, value(key, depth)))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	found := 0
	for range 3000 {
		document := object(5, keys)
		if err := json.Unmarshal([]byte(document), new(parcel)); err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		decoder := json.NewDecoder(bytes.NewReader([]byte(document)))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(new(parcel))
		if err != nil {
			found++
		}
		if got := unknown(reflect.TypeFor[parcel](), document); (got != "") != (err != nil) {
			t.Fatalf("%s: got %q, encoding/json has %v", document, got, err)
		}
	}
	if found < 100 {
		t.Errorf("only %d documents with unknown keys", found)
	}
}

func TestCheckNeverHangsOnInvalidJSON(t *testing.T) {
	t.Parallel()
	const valid = `{"stops":[{"City":"a\""},{"x":1}],"byName":{"a":{}},"nest":[[]]}`
	for i := range len(valid) {
		for _, b := range []byte("\x00\x01\"\\{}[],x") {
			unknown(reflect.TypeFor[parcel](), valid[:i])
			unknown(reflect.TypeFor[parcel](), valid[:i]+string(b)+valid[i+1:])
		}
	}
}

type (
	loopA *loopB
	loopB *loopA
	left  struct{ Both, Left int }
	right struct{ Both, Right int }
)

func TestOddTypesHaveTheKeysOfEncodingJSON(t *testing.T) {
	t.Parallel()
	type odd struct {
		left
		right
		Loop loopA
	}
	for document, want := range map[string]string{`{"Left":1,"Right":2,"Loop":null}`: "", `{"Both":1}`: "Both"} {
		if got := unknown(reflect.TypeFor[odd](), document); got != want {
			t.Errorf("%s: got the unknown key %q, want %q", document, got, want)
		}
	}
}
