package document_test

import (
	"encoding/json"
	"testing"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
)

func TestNumbersAndTextAreUnchanged(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"b": 1.0, "a": [9007199254740993, 1e400, -0]}`: `{"a":[9007199254740993,1e400,-0],"b":1.0}`,
		` "<a> & \u00e9" `: `"<a> & é"`,
		`null`:             `null`,
		`{}`:               `{}`,
	} {
		value, err := document.Decode(text)
		if got := document.Encode(value); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "{", "1 2", "nope", `{"a": 1,}`, "\"\xff\"", "01"} {
		if value, err := document.Decode(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, value)
		}
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true}, {`100`, `1e2`, true}, {`1`, `"1"`, false}, {`1`, `true`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`[1, {"a": null}]`, `[1.0, {"a": null}]`, true}, {`[1]`, `[1, 2]`, false}, {`[1]`, `1`, false}, {`1`, `[1]`, false},
		{`{"a": 1}`, `{"b": 1}`, false}, {`{"a": 1}`, `{"a": 1, "b": 2}`, false}, {`{}`, `[]`, false}, {`null`, `{}`, false}, {`null`, `null`, true},
	} {
		a, errA := document.Decode(test.a)
		b, errB := document.Decode(test.b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if got := document.Equal(a, b); got != test.want {
			t.Errorf("%s and %s: got %t, want %t", test.a, test.b, got, test.want)
		}
	}
}

func TestCompareNumbers(t *testing.T) {
	t.Parallel()
	ascending := []json.Number{"-1e999", "-2", "-1.5", "0", "1e-9", "1", "9007199254740992", "9007199254740993", "9223372036854775808", "1e999"}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := document.CompareNumbers(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s and %s: got %d", a, b, got)
			}
		}
	}
}
