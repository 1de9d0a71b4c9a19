package exactjson_test

import (
	"encoding/json"
	"testing"

	"github.com/settle-run/settle/cmd/settle/internal/exactjson"
)

func TestNumbersAreComparedExactly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b json.Number
		want int
	}{
		{"9007199254740993", "9007199254740992", 1},
		{"-9007199254740993", "-9007199254740992", -1},
		{"1", "1.0", 0},
		{"1e3", "1000", 0},
		{"1E+3", "10.00e2", 0},
		{"0.05", "5e-2", 0},
		{"-0.0e7", "0", 0},
		{"0", "-1", 1},
		{"-1", "1e-9", -1},
		{"0.1", "0.09", 1},
		{"12", "9", 1},
		{"0.10000000000000000001", "0.1", 1},
		{"1e999999999", "1e999999998", 1},
		{"1e99999999999999999999", "2e99999999999999999998", 1},
	} {
		if got, back := exactjson.Compare(c.a, c.b), exactjson.Compare(c.b, c.a); got != c.want || back != -c.want {
			t.Errorf("%s and %s: expected %d, got %d, and %d in the other order", c.a, c.b, c.want, got, back)
		}
	}
}

func TestValuesAreEqualIfTheirNumbersAre(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a": [1, {"b": 1e3}], "c": null}`, `{"c": null, "a": [1.0, {"b": 1000}]}`, true},
		{`[9007199254740993]`, `[9007199254740992]`, false},
		{`{"a": null}`, `{"b": null}`, false},
		{`1`, `"1"`, false},
		{`[1]`, `[1, 2]`, false},
		{`"a"`, `"a"`, true},
	} {
		var a, b any
		if err := exactjson.Unmarshal([]byte(c.a), &a); err != nil {
			t.Fatal(err)
		}
		if err := exactjson.Unmarshal([]byte(c.b), &b); err != nil {
			t.Fatal(err)
		}
		if got := exactjson.Equal(a, b); got != c.want {
			t.Errorf("%s and %s: expected %v, got %v", c.a, c.b, c.want, got)
		}
	}
}

func TestTextAfterTheValueIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1 2", "{} x", "", "1,"} {
		var value any
		if err := exactjson.Unmarshal([]byte(text), &value); err == nil {
			t.Errorf("%q: expected an error, got %v", text, value)
		}
	}
}
