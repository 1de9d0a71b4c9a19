package attribute

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// number generates numbers of every sign. Their exponents are small, so that a sum fits 38 digits.
func number() *rapid.Generator[Number] {
	return rapid.Custom(func(t *rapid.T) Number {
		text := rapid.StringMatching(`-?[0-9]{1,12}(\.[0-9]{1,12})?(e[+-]?[0-9])?`).Draw(t, "number")
		n, err := ParseNumber(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	})
}

func rational(n Number) *big.Rat {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		panic(n.String())
	}
	return r
}

func TestNumber_calculates_like_rationals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := number().Draw(t, "a"), number().Draw(t, "b")
		if got, want := a.Compare(b), rational(a).Cmp(rational(b)); got != want {
			t.Fatalf("%v compared with %v: want %d, got %d", a, b, want, got)
		}
		sum, err := a.Add(b)
		if err != nil {
			t.Fatal(err)
		}
		if want := new(big.Rat).Add(rational(a), rational(b)); rational(sum).Cmp(want) != 0 {
			t.Fatalf("%v + %v: want %v, got %v", a, b, want, sum)
		}
		difference, err := a.Sub(b)
		if err != nil {
			t.Fatal(err)
		}
		if want := new(big.Rat).Sub(rational(a), rational(b)); rational(difference).Cmp(want) != 0 {
			t.Fatalf("%v - %v: want %v, got %v", a, b, want, difference)
		}
		again, err := ParseNumber(a.String())
		if err != nil || again != a {
			t.Fatalf("%v read again: got %v, %v", a, again, err)
		}
	})
}

func TestOrderKey_orders_like_Compare(t *testing.T) {
	t.Parallel()
	key := rapid.OneOf(
		rapid.Map(number(), func(n Number) Value { return n }),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 254, 255}), 0, 4), func(b []byte) Value { return Binary(b) }),
		rapid.Map(rapid.StringMatching("[\x00ab]{0,4}"), func(s string) Value { return String(s) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		want, ok := Compare(a, b)
		if !ok {
			t.Skip("values of different types have no order")
		}
		keyA, keyB := string(AppendOrderKey(nil, a)), string(AppendOrderKey(nil, b))
		if got := strings.Compare(keyA, keyB); got != want {
			t.Fatalf("%q and %q: want %d, got %d", keyA, keyB, want, got)
		}
		if keyA != keyB && strings.HasPrefix(keyB, keyA) {
			t.Fatalf("%q is a prefix of %q", keyA, keyB)
		}
		if _, isNumber := a.(Number); isNumber {
			return
		}
		prefix := string(AppendOrderPrefix(nil, a))
		if got, want := strings.HasPrefix(keyB, prefix), strings.HasPrefix(textOf(b), textOf(a)); got != want {
			t.Fatalf("%q begins with %q: want %v, got %v", keyB, prefix, want, got)
		}
	})
}

func textOf(value Value) string {
	if s, ok := value.(String); ok {
		return string(s)
	}
	return string(value.(Binary))
}

// read parses an item in wire form.
func read(t *testing.T, wire string) Map {
	t.Helper()
	var m Map
	if err := json.Unmarshal([]byte(wire), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSize_is_as_documented(t *testing.T) {
	t.Parallel()
	for wire, want := range map[string]int{
		`{}`:                               0,
		`{"name": {"S": "żółw"}}`:          4 + 7,
		`{"b": {"B": "AAEC"}}`:             1 + 3,
		`{"n": {"N": "0"}}`:                1 + 1,
		`{"n": {"N": "12"}}`:               1 + 2,
		`{"n": {"N": "-12300"}}`:           1 + 3,
		`{"t": {"BOOL": true}}`:            1 + 1,
		`{"z": {"NULL": true}}`:            1 + 1,
		`{"l": {"L": []}}`:                 1 + 3,
		`{"l": {"L": [{"S": "ab"}]}}`:      1 + 3 + 1 + 2,
		`{"m": {"M": {"k": {"S": "ab"}}}}`: 1 + 3 + 1 + 1 + 2,
		`{"s": {"SS": ["a", "bc"]}}`:       1 + 3,
		`{"s": {"NS": ["1", "123"]}}`:      1 + 2 + 3,
		`{"s": {"BS": ["AAEC"]}}`:          1 + 3,
	} {
		if got := read(t, wire).Size(); got != want {
			t.Errorf("%s: want %d bytes, got %d", wire, want, got)
		}
	}
}

func TestEqual_ignores_the_order_of_sets_and_maps(t *testing.T) {
	t.Parallel()
	m := read(t, `{
		"a": {"M": {"x": {"SS": ["1", "2"]}, "y": {"NS": ["1.0", "2"]}, "z": {"L": [{"N": "1"}, {"BS": ["AA==", "AQ=="]}]}}},
		"b": {"M": {"z": {"L": [{"N": "1e0"}, {"BS": ["AQ==", "AA=="]}]}, "y": {"NS": ["2", "1"]}, "x": {"SS": ["2", "1"]}}},
		"c": {"M": {"x": {"SS": ["1", "2"]}}}, "s": {"S": "1"}, "n": {"N": "1"}
	}`)
	if !Equal(m.Get("a"), m.Get("b")) {
		t.Error("a and b: want them equal")
	}
	for _, pair := range [][2]string{{"a", "c"}, {"s", "n"}, {"a", "nothing"}, {"nothing", "nothing"}} {
		if Equal(m.Get(pair[0]), m.Get(pair[1])) {
			t.Errorf("%v: want them different", pair)
		}
	}
}

func TestMap_changes_are_copies(t *testing.T) {
	t.Parallel()
	before := read(t, `{"a": {"N": "1"}, "c": {"N": "3"}}`)
	for name, changed := range map[string]Map{
		`{"a":{"N":"1"},"b":{"N":"2"},"c":{"N":"3"}}`: before.With("b", NewNumber(2)),
		`{"a":{"N":"2"},"c":{"N":"3"}}`:               before.With("a", NewNumber(2)),
		`{"c":{"N":"3"}}`:                             before.Without("a"),
		`{"a":{"N":"1"},"c":{"N":"3"}}`:               before.Without("b"),
	} {
		got, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != name {
			t.Errorf("want %s, got %s", name, got)
		}
	}
	if got := before.Get("a"); len(before) != 2 || got != Value(NewNumber(1)) {
		t.Errorf("the original map: want it unchanged, got %v", before)
	}
}
