package intrinsic_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
	"github.com/settle-run/settle/infra/awslocal/internal/states/intrinsic"
)

const data = `{"name": "Ada", "age": 36, "pi": 3.10, "list": [1, 2, 2.0, "x", {"a": 1}, {"a": 1.0}], "obj": {"a": 1, "b": {"c": 2}},
	"text": "{\"a\": [1.50]}", "items": [{"k": 1}, {"k": 2}], "long": "` + "\u00e9" + `", "big": 2147483647}`

func scope(tb testing.TB) intrinsic.Scope {
	tb.Helper()
	value, err := document.Decode(data)
	if err != nil {
		tb.Fatal(err)
	}
	drawn := byte(0)
	return intrinsic.Scope{
		Data:    value,
		Context: map[string]any{"Task": map[string]any{"Token": "T"}},
		Random: func() [32]byte {
			drawn++
			return sha256.Sum256([]byte{drawn})
		},
	}
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ call, want string }{
		{`States.Format('{} is {}', $.name, $.age)`, `"Ada is 36"`},
		{`States.Format('{}-{}-{}-{}', $.pi, null, true, $.obj)`, `"3.10-null-true-{\"a\":1,\"b\":{\"c\":2}}"`},
		{`States.Format('it\'s \{ok\} \\ {}', 'a{}b')`, `"it's {ok} \\ a{}b"`},
		{`States.Format($.name)`, `"Ada"`},
		{`States.StringToJson($.text)`, `{"a":[1.50]}`},
		{`States.JsonToString($.obj)`, `"{\"a\":1,\"b\":{\"c\":2}}"`},
		{`States.Array($.name, 1, 'x', States.Array(), $$.Task.Token)`, `["Ada",1,"x",[],"T"]`},
		{`States.Array($.items[?(@.k == 1)], $.items[0,1].k)`, `[[{"k":1}],[1,2]]`},
		{`States.ArrayPartition($.list, 4)`, `[[1,2,2.0,"x"],[{"a":1},{"a":1.0}]]`},
		{`States.ArrayContains($.list, 2)`, `true`},
		{`States.ArrayContains($.list, 'y')`, `false`},
		{`States.ArrayRange(1, 9, 2)`, `[1,3,5,7,9]`},
		{`States.ArrayRange(3, 0, -1)`, `[3,2,1,0]`},
		{`States.ArrayRange(5, 1, 1)`, `[]`},
		{`States.ArrayGetItem($.list, 3)`, `"x"`},
		{`States.ArrayLength($.list)`, `6`},
		{`States.ArrayUnique($.list)`, `[1,2,"x",{"a":1}]`},
		{`States.Base64Encode('Data to encode')`, `"RGF0YSB0byBlbmNvZGU="`},
		{`States.Base64Decode('RGVjb2RlZCBkYXRh')`, `"Decoded data"`},
		{`States.Hash('input data', 'SHA-1')`, `"aaff4a450a104cd177d28d18d74485e8cae074b7"`},
		{`States.Hash('', 'MD5')`, `"d41d8cd98f00b204e9800998ecf8427e"`},
		{`States.Hash('abc', 'SHA-256')`, `"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"`},
		{`States.JsonMerge($.obj, States.StringToJson('{"b": 3}'), false)`, `{"a":1,"b":3}`},
		{`States.MathAdd($.age, -1)`, `35`},
		{`States.MathAdd(1.5, 1.4)`, `3`},
		{`States.StringSplit('This.is+a,test=string', '.+,=')`, `["This","is","a","test","string"]`},
		{`States.StringSplit('1,2,3', ',')`, `["1","2","3"]`},
		{`States.MathRandom(7, 8)`, `7`},
	} {
		call, err := intrinsic.Parse(test.call)
		if err != nil {
			t.Errorf("%s: %v", test.call, err)
			continue
		}
		value, err := call.Evaluate(scope(t))
		if err != nil {
			t.Errorf("%s: %v", test.call, err)
		} else if got := document.Encode(value); got != test.want {
			t.Errorf("%s: got %s, want %s", test.call, got, test.want)
		}
	}
}

func TestUUIDsAndRandomNumbersDependOnTheSource(t *testing.T) {
	t.Parallel()
	call, err := intrinsic.Parse(`States.Array(States.UUID(), States.UUID(), States.MathRandom(1, 1000000), States.MathRandom(1, 1000000, 5))`)
	if err != nil {
		t.Fatal(err)
	}
	first, err := call.Evaluate(scope(t))
	if err != nil {
		t.Fatal(err)
	}
	again, _ := call.Evaluate(scope(t))
	if !document.Equal(first, again) {
		t.Errorf("the same source returned %v, then %v", first, again)
	}
	values := first.([]any)
	if u := values[0].(string); len(u) != 36 || u[14] != '4' || values[0] == values[1] {
		t.Errorf("UUIDs: got %v and %v, want two of version 4", values[0], values[1])
	}
	seeded, err := intrinsic.Parse(`States.MathRandom(1, 1000000, 5)`)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := seeded.Evaluate(scope(t)); n != values[3] {
		t.Errorf("the seed 5 returned %v, then %v", values[3], n)
	}
}

func TestCallsThatFail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ call, want string }{
		{`States.Format('{}')`, "more {}"},
		{`States.Format('x', 1)`, "fewer {}"},
		{`States.Format('{x}', 1)`, "unmatched"},
		{`States.StringToJson('{')`, "not JSON"},
		{`States.ArrayPartition($.list, 0)`, "positive"},
		{`States.ArrayRange(1, 2, 0)`, "other than 0"},
		{`States.ArrayRange(1, 1000, 1)`, ""},
		{`States.ArrayRange(0, 1000, 1)`, "more than 1000"},
		{`States.ArrayGetItem($.list, 6)`, "no element 6"},
		{`States.ArrayLength($.name)`, "an array"},
		{`States.Hash('x', 'SHA-2')`, "SHA-256"},
		{`States.JsonMerge($.obj, $.obj, true)`, "deep"},
		{`States.MathAdd($.big, 1)`, "2147483647"},
		{`States.Base64Decode('!')`, "not Base64"},
		{`States.StringSplit($.age, ',')`, "a string"},
	} {
		call, err := intrinsic.Parse(test.call)
		if err != nil {
			t.Errorf("%s: %v", test.call, err)
			continue
		}
		_, err = call.Evaluate(scope(t))
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want an error that contains %q", test.call, err, test.want)
		}
	}
	call, err := intrinsic.Parse(`States.Format('{}', $.missing)`)
	if err != nil {
		t.Fatal(err)
	}
	var missing *intrinsic.NotFoundError
	if _, err := call.Evaluate(scope(t)); !errors.As(err, &missing) || missing.Path.String() != "$.missing" {
		t.Errorf("got %v, want a NotFoundError of $.missing", err)
	}
}

func TestInvalidCallsAreRejected(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ call, want string }{
		{`States.Nope()`, "unknown function 'States.Nope'"},
		{`States.Format`, "'('"},
		{`States.Format()`, "1 or more"},
		{`States.UUID(1)`, "0 arguments"},
		{`States.MathAdd(1)`, "2 arguments"},
		{`States.Array('x)`, "closing quote"},
		{`States.Array('\n')`, "invalid escape"},
		{`States.Array("x")`, "neither"},
		{`States.Array(x)`, "neither"},
		{`States.Array($.a[)`, "JSONPath"},
		{`States.Array(1 2)`, "neither"},
		{`States.Array(1) x`, "follows"},
		{`States.Array(1`, "expected"},
		{`States.Array(1,)`, "neither"},
		{strings.Repeat(`States.Array(`, 11) + strings.Repeat(`)`, 11), "nested deeper"},
	} {
		if _, err := intrinsic.Parse(test.call); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error that contains %q", test.call, err, test.want)
		}
	}
}

// FuzzCall checks that no call makes the package panic, and that every value is JSON.
func FuzzCall(f *testing.F) {
	f.Add(`States.Format('{} \{\}', States.Array($.name, 1.5e3, null)[0])`)
	f.Add(`States.ArrayPartition(States.ArrayRange(1, 10, 3), 2)`)
	f.Add(`States.JsonMerge($.obj, $.items[?(@.k > 1)], false)`)
	f.Add(`States.Hash(States.UUID(), 'SHA-512')`)
	f.Add(`States.MathRandom(-5, $.age, 1)`)
	f.Fuzz(func(t *testing.T, text string) {
		call, err := intrinsic.Parse(text)
		if err != nil {
			return
		}
		value, err := call.Evaluate(scope(t))
		if err == nil && !json.Valid([]byte(document.Encode(value))) {
			t.Errorf("%s: got %v, which is not JSON", text, value)
		}
	})
}
