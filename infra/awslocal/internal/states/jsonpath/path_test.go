package jsonpath_test

import (
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
	"github.com/settle-run/settle/infra/awslocal/internal/states/jsonpath"
)

func decode(tb testing.TB, text string) any {
	tb.Helper()
	value, err := document.Decode(text)
	if err != nil {
		tb.Fatalf("decoding %s: %v", text, err)
	}
	return value
}

const store = `{"store": {"book": [
	{"title": "a", "price": 8.95, "n": 9007199254740993},
	{"title": "b", "price": 12.990, "isbn": "x"},
	{"title": "c", "price": 8, "isbn": "y"}],
	"bicycle": {"price": 19.95}, "a b": {"c-d": null}}, "none": []}`

func TestPathSelects(t *testing.T) {
	t.Parallel()
	data, context := decode(t, store), decode(t, `{"Task": {"Token": "T"}}`)
	for _, test := range []struct{ path, want string }{
		{"$.store.book[0].n", `9007199254740993`},
		{"$.store.book[1].price", `12.990`},
		{"$.store.book[-1].title", `"c"`},
		{"$['store']['a b']['c-d']", `null`},
		{"$.store['book'][2].isbn", `"y"`},
		{"$.none", `[]`},
		{"$$.Task.Token", `"T"`},
		{"$$", `{"Task":{"Token":"T"}}`},
		{"$.store.book[*].title", `["a","b","c"]`},
		{"$.store.book[0:2].title", `["a","b"]`},
		{"$.store.book[1:].title", `["b","c"]`},
		{"$.store.book[-1:].title", `["c"]`},
		{"$.store.book[2,0].title", `["c","a"]`},
		{"$..price", `[19.95,8.95,12.990,8]`},
		{"$.store.*.price", `[19.95]`},
		{"$.store.book[?(@.price < 10)].title", `["a","c"]`},
		{"$.store.book[?(@.price == 12.99)].title", `["b"]`},
		{"$.store.book[?(@.isbn)].title", `["b","c"]`},
		{"$.store.book[?(@.title == 'b' || @.price == 8)].title", `["b","c"]`},
		{"$.store.book[?(@.n == 9007199254740993)].n", `[9007199254740993]`},
		{"$.none[*].x", `[]`},
		{"$.missing[*]", `[]`},
	} {
		p, err := jsonpath.Parse(test.path)
		if err != nil {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		value, ok := p.Get(data, context)
		if got := document.Encode(value); !ok || got != test.want {
			t.Errorf("%s: got %s (%t), want %s", test.path, got, ok, test.want)
		}
	}
}

func TestDefinitePathThatSelectsNothing(t *testing.T) {
	t.Parallel()
	data := decode(t, store)
	for _, path := range []string{"$.missing", "$.store.book[3]", "$.store.book[-4]", "$.store[0]", "$.none.x", "$.store.bicycle.price.x", "$$.x"} {
		p, err := jsonpath.ParseReference(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if value, ok := p.Get(data, nil); ok {
			t.Errorf("%s: got %v, want nothing", path, value)
		}
	}
}

func TestInvalidPathsAreRejected(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "a", "@.a", "$.", "$..", "$a", "$.a[", "$.a[?", "$.a.length()", "$.a b", "$$$", "$@", "$.a[0]$", "$.a[0]@", "$.a[?(@.b == $.c)]", "$.a[(@.length-1)]", "$.a[0]x"} {
		if p, err := jsonpath.Parse(path); err == nil {
			t.Errorf("%q: compiled to %v, want an error", path, p)
		}
	}
	for _, path := range []string{"$..a", "$.a[*]", "$.a[0:2]", "$.a[0,1]", "$.*", "$.a[?(@.b)]"} {
		if _, err := jsonpath.ParseReference(path); err == nil || !strings.Contains(err.Error(), "Reference Path") {
			t.Errorf("%q: got %v, want an error for a Reference Path", path, err)
		}
	}
}

func TestSetCreatesMissingMembersAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ data, path, want string }{
		{`{"a": 1}`, "$.b", `{"a":1,"b":"V"}`},
		{`{"a": 1}`, "$.a", `{"a":"V"}`},
		{`{"a": {"x": 1}}`, "$.a.b.c", `{"a":{"b":{"c":"V"},"x":1}}`},
		{`{"a": [1, 2]}`, "$.a[1]", `{"a":[1,"V"]}`},
		{`{"a": [{"x": 1}]}`, "$.a[0].y", `{"a":[{"x":1,"y":"V"}]}`},
		{`[1]`, "$", `"V"`},
		{`{"a": 1}`, "$.a.b", ""},
		{`{"a": [1]}`, "$.a[1]", ""},
		{`[1]`, "$.a", ""},
		{`"text"`, "$.a", ""},
	} {
		p, err := jsonpath.ParseReference(test.path)
		if err != nil {
			t.Fatal(err)
		}
		data := decode(t, test.data)
		before := document.Encode(data)
		got, err := p.Set(data, "V")
		switch {
		case test.want == "" && err == nil:
			t.Errorf("%s in %s: got %s, want an error", test.path, test.data, document.Encode(got))
		case test.want != "" && (err != nil || document.Encode(got) != test.want):
			t.Errorf("%s in %s: got %s, %v; want %s", test.path, test.data, document.Encode(got), err, test.want)
		}
		if document.Encode(data) != before {
			t.Errorf("%s in %s: the data has changed to %s", test.path, test.data, document.Encode(data))
		}
	}
}

// FuzzPath checks that no path and no data make the package panic, and that the selection is deterministic.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"$.a.b[0]", "$..a[?(@.b > 1 && @.c == 'x')]", "$$.x[1:-1:2]", "$['a','b'][*]", "$.a[?(@.b =~ /x+/)]", "$.a[?(length(@.b) > 1)]"} {
		f.Add(path, `{"a": [{"b": 2, "c": "x"}, {"b": [1]}], "x": [1, 2, 3], "b": {"a": {}}}`)
	}
	f.Fuzz(func(t *testing.T, text, data string) {
		p, err := jsonpath.Parse(text)
		if err != nil {
			return
		}
		value, err := document.Decode(data)
		if err != nil {
			return
		}
		first, ok := p.Get(value, value)
		again, okAgain := p.Get(value, value)
		if ok != okAgain || document.Encode(first) != document.Encode(again) {
			t.Errorf("%s selects %s, then %s", text, document.Encode(first), document.Encode(again))
		}
		if p, err = jsonpath.ParseReference(text); err == nil {
			if changed, err := p.Set(value, "V"); err == nil && !p.Context() {
				if got, _ := p.Get(changed, nil); got != "V" {
					t.Errorf("%s: set to V, got %v", text, got)
				}
			}
		}
	})
}
