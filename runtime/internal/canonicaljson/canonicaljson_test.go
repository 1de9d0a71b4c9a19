package canonicaljson_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/settle-run/settle/runtime/internal/canonicaljson"
)

func canonical(text string) (string, error) {
	form, err := canonicaljson.Object([]byte(text), "$id")
	return string(form), err
}

func TestTheFormIgnoresTheSpellingOfAnObject(t *testing.T) {
	t.Parallel()
	const event = `{"type":"PAY","cents":1050,"big":12345678901234567890123456789012345678901,"small":-0.00150,"to":{"a":"é","b":[1,null,true]},"zero":0}`
	want, err := canonical(event)
	if err != nil {
		t.Fatal(err)
	}
	for name, same := range map[string]string{
		"white space and order": "\n { \"zero\": 0, \"to\": {\"b\": [1, null, true], \"a\": \"é\"}, \"small\": -0.00150, \"cents\": 1050, \"big\": 12345678901234567890123456789012345678901, \"type\": \"PAY\" } ",
		"escapes":               strings.Replace(strings.Replace(event, "é", `\u00e9`, 1), "PAY", `\u0050AY`, 1),
		"spelling of numbers":   strings.NewReplacer("1050", "1.05e3", "-0.00150", "-15E-4", `"zero":0`, `"zero":-0.0e9`, "[1,", "[1.0,").Replace(event),
		"with an ID":            strings.Replace(event, "{", `{"$id":"k",`, 1),
		"with an ID at the end": strings.TrimSuffix(event, "}") + `,"$id":"k"}`,
	} {
		if got, err := canonical(same); err != nil || got != want {
			t.Errorf("%s: expected %s, got %s, %v", name, want, got, err)
		}
	}
	for name, other := range map[string]string{
		"another value":             strings.Replace(event, "1050", "1051", 1),
		"the last of 41 digits":     strings.Replace(event, "901,", "902,", 1),
		"a power of ten":            strings.Replace(event, "1050", "10500", 1),
		"a sign":                    strings.Replace(event, "-0.00150", "0.00150", 1),
		"text instead of a number":  strings.Replace(event, "1050", `"1050"`, 1),
		"a further key":             strings.Replace(event, "{", `{"more":null,`, 1),
		"a missing key":             strings.Replace(event, `,"zero":0`, "", 1),
		"the order of a list":       strings.Replace(event, "[1,null,true]", "[null,1,true]", 1),
		"an ID in a nested object":  strings.Replace(event, `"a":"é"`, `"a":"é","$id":"k"`, 1),
		"another exponent":          strings.Replace(event, "1050", "1e999999999999999999999", 1),
		"and one more":              strings.Replace(event, "1050", "1e999999999999999999998", 1),
		"keys that differ in case":  strings.Replace(event, "{", `{"Cents":1050,`, 1),
		"a list instead of a value": strings.Replace(event, "1050", "[1050]", 1),
	} {
		if got, err := canonical(other); err != nil || got == want {
			t.Errorf("%s: expected a form other than %s, got %s, %v", name, want, got, err)
		}
	}
}

// encoding/json decodes keys that differ only in case into one field. The last one wins, as with duplicate keys.
func TestTheFormKeepsTheOrderOfKeysOfOneField(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`},
		{`{"Code":1,"code":2}`, `{"code":2,"Code":1}`},
		{"{\"k\":1,\"\u212a\":2}", "{\"\u212a\":2,\"k\":1}"},
	} {
		first, firstErr := canonical(pair[0])
		second, secondErr := canonical(pair[1])
		if err := errors.Join(firstErr, secondErr); err != nil || first == second {
			t.Errorf("%s and %s: expected two forms, got %s and %s, %v", pair[0], pair[1], first, second, err)
		}
	}
}

// Two objects with the same form decode into the same value. Re-encoding an object with encoding/json keeps its form.
func TestObjectsWithTheSameFormDecodeIntoTheSameValue(t *testing.T) {
	t.Parallel()
	document := rapid.StringMatching(`\{("[ab]":(1|1\.0|10e-1|"[ab]"|\{("a":2)?\}|\[(0|null)?\])){0,1}(,"[cd]":[12]){0,2}\}`)
	rapid.Check(t, func(t *rapid.T) {
		var texts, forms [2]string
		var values [2]string
		for i := range texts {
			texts[i] = strings.Replace(document.Draw(t, "document"), "{,", "{", 1)
			var value map[string]any
			if err := json.Unmarshal([]byte(texts[i]), &value); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			values[i] = string(again)
			if forms[i], err = canonical(texts[i]); err != nil {
				t.Fatal(err)
			}
			if got, err := canonical(string(again)); err != nil || got != forms[i] && !hasDuplicate(texts[i]) {
				t.Fatalf("%s and %s: expected one form, got %s and %s, %v", texts[i], again, forms[i], got, err)
			}
		}
		if forms[0] == forms[1] && values[0] != values[1] {
			t.Fatalf("%s and %s share a form", texts[0], texts[1])
		}
	})
}

// hasDuplicate reports whether the generated document has the key c or d twice.
func hasDuplicate(document string) bool {
	return strings.Count(document, `"c":`) > 1 || strings.Count(document, `"d":`) > 1
}

func TestOnlyAnObjectHasAForm(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"", "[]", `"x"`, "1", "{", `{"a":1}{}`, `{"a":}`, strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)} {
		if got, err := canonical(wrong); err == nil {
			t.Errorf("%.20q: expected an error, got %s", wrong, got)
		}
	}
}

func TestEqualComparesValuesOfAllKindsExactly(t *testing.T) {
	t.Parallel()
	for _, same := range [][2]string{{"1", "1.0"}, {"10", "1e1"}, {"-0", "0"}, {`"\u0061"`, `"a"`}, {"[1, {}]", "[1.0,{}]"}, {"null", " null "}} {
		if !canonicaljson.Equal([]byte(same[0]), []byte(same[1])) {
			t.Errorf("expected %s to equal %s", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{"9007199254740992", "9007199254740993"}, {"1", `"1"`}, {"[]", "{}"}, {"[1,2]", "[2,1]"}, {"", ""}, {"1", ""}, {`1,"b":2`, `1,"b":2`}} {
		if canonicaljson.Equal([]byte(other[0]), []byte(other[1])) {
			t.Errorf("expected %s not to equal %s", other[0], other[1])
		}
	}
}
