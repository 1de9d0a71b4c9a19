package pattern_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/awslocal/internal/events/pattern"
)

// sample is an event in the form of "AWS service events" of the EventBridge User Guide.
const sample = `{"version": "0", "detail-type": "order.placed", "source": "settle.order", "time": "2017-10-02T18:43:48Z", "resources": ["a", "b"],
	"detail": {"state": "Running", "count": 5, "limit": 3.018e2, "ip": "10.0.0.33", "empty": "", "none": null, "flag": true, "path": "dir/sub/a*b.png",
		"list": [], "object": {"leaf": 1}, "people": [{"first": "Anna", "last": "Smith"}, {"first": "Peter", "last": "Jones"}]}}`

func TestMatch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"source": ["settle.order"]}`:                                                                        true,
		`{"source": ["x", "settle.order"], "detail-type": ["other"]}`:                                         false,
		`{"resources": ["b"]}`:                                                                                true,
		`{"missing": ["a"]}`:                                                                                  false,
		`{"detail": {"state": [{"prefix": "Run"}]}}`:                                                          true,
		`{"detail": {"state": [{"prefix": "run"}]}}`:                                                          false,
		`{"detail": {"count": [{"prefix": "5"}]}}`:                                                            false,
		`{"detail": {"state": [{"prefix": {"equals-ignore-case": "run"}}]}}`:                                  true,
		`{"detail": {"path": [{"suffix": ".png"}]}}`:                                                          true,
		`{"detail": {"path": [{"suffix": {"equals-ignore-case": ".PNG"}}]}}`:                                  true,
		`{"detail": {"state": [{"equals-ignore-case": "RUNNING"}]}}`:                                          true,
		`{"detail": {"state": [{"equals-ignore-case": "RUN"}]}}`:                                              false,
		`{"detail": {"path": [{"wildcard": "dir/*.png"}]}}`:                                                   true,
		`{"detail": {"path": [{"wildcard": "*/a\\*b.*"}]}}`:                                                   true,
		`{"detail": {"path": [{"wildcard": "dir/*/c*"}]}}`:                                                    false,
		`{"detail": {"path": [{"wildcard": "dir/sub/a*b.png*png"}]}}`:                                         false,
		`{"detail": {"state": [{"anything-but": "Running"}]}}`:                                                false,
		`{"detail": {"state": [{"anything-but": ["Stopped", "Waiting"]}]}}`:                                   true,
		`{"detail": {"count": [{"anything-but": [5, 6]}]}}`:                                                   false,
		`{"detail": {"count": [{"anything-but": 5.0}]}}`:                                                      false,
		`{"detail": {"state": [{"anything-but": {"prefix": "Run"}}]}}`:                                        false,
		`{"detail": {"state": [{"anything-but": {"suffix": ["x", "ng"]}}]}}`:                                  false,
		`{"detail": {"state": [{"anything-but": {"equals-ignore-case": "running"}}]}}`:                        false,
		`{"detail": {"path": [{"anything-but": {"wildcard": "*/lib/*"}}]}}`:                                   true,
		`{"detail": {"missing": [{"anything-but": "x"}]}}`:                                                    false,
		`{"resources": [{"anything-but": "a"}]}`:                                                              true,
		`{"detail": {"count": [{"numeric": ["=", 5]}]}}`:                                                      true,
		`{"detail": {"count": [{"numeric": [">", 5]}]}}`:                                                      false,
		`{"detail": {"count": [{"numeric": [">=", 5, "<", 6]}]}}`:                                             true,
		`{"detail": {"count": [{"numeric": ["<=", 4.5]}]}}`:                                                   false,
		`{"detail": {"limit": [{"numeric": ["=", 301.8]}]}}`:                                                  true,
		`{"detail": {"limit": [301.8]}}`:                                                                      false,
		`{"detail": {"limit": [3.018e2]}}`:                                                                    true,
		`{"detail": {"state": [{"numeric": ["=", 5]}]}}`:                                                      false,
		`{"detail": {"ip": [{"cidr": "10.0.0.0/24"}]}}`:                                                       true,
		`{"detail": {"ip": [{"cidr": "10.0.1.0/24"}]}}`:                                                       false,
		`{"detail": {"empty": [""], "none": [null], "flag": [true]}}`:                                         true,
		`{"detail": {"empty": [null]}}`:                                                                       false,
		`{"detail": {"count": [{"exists": true}], "missing": [{"exists": false}]}}`:                           true,
		`{"detail": {"count": [{"exists": false}]}}`:                                                          false,
		`{"detail": {"none": [{"exists": true}], "list": [{"exists": false}]}}`:                               true,
		`{"detail": {"object": [{"exists": true}]}}`:                                                          false,
		`{"detail": {"object": [{"exists": false}]}}`:                                                         true,
		`{"detail": {"people": {"first": ["Anna"], "last": ["Smith"]}}}`:                                      true,
		`{"detail": {"people": {"first": ["Anna"], "last": ["Jones"]}}}`:                                      false,
		`{"detail": {"people": {"first": ["Anna", "Peter"], "last": ["Jones"]}}}`:                             true,
		`{"$or": [{"source": ["x"]}, {"detail": {"state": ["Running"]}}]}`:                                    true,
		`{"$or": [{"source": ["x"]}, {"detail": {"state": ["x"]}}]}`:                                          false,
		`{"source": ["settle.order"], "detail": {"$or": [{"count": [1]}, {"flag": [true], "none": [null]}]}}`: true,
		`{"source": ["x"], "detail": {"$or": [{"count": [5]}, {"flag": [true]}]}}`:                            false,
		`{"$or": [{"prefix": "a"}, {"prefix": "b"}]}`:                                                         false, // a field with the name $or
	} {
		compiled, err := pattern.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := compiled.Match(json.RawMessage(sample)); err != nil || got != want {
			t.Errorf("%s: got %v and %v, want %v", text, got, err, want)
		}
	}
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`:                                                 "expected one JSON object",
		`[]`:                                                "expected a JSON object with at least one field",
		`{}`:                                                "expected a JSON object with at least one field",
		`{"a": "b"}`:                                        "a: expected an array of conditions or an object, got b",
		`{"a": {}}`:                                         "a: expected at least one field",
		`{"a": {"b": []}}`:                                  "a.b: expected at least one condition",
		`{"a": [["b"]]}`:                                    "a: expected a value or an operator, got an array",
		`{"a": [{"like": "b"}]}`:                            "a: unrecognized match type like: expected one of anything-but, cidr,",
		`{"a": [{"prefix": "b", "cidr": ""}]}`:              "a: expected an object with one operator",
		`{"a": [{"prefix": 1}]}`:                            "a: prefix: expected a string, got 1",
		`{"a": [{"suffix": {"prefix": "b"}}]}`:              "a: suffix: expected a string or an object with equals-ignore-case",
		`{"a": [{"exists": "yes"}]}`:                        "a: exists: expected true or false",
		`{"a": [{"cidr": "10"}]}`:                           "a: cidr: expected a range",
		`{"a": [{"wildcard": "a**"}]}`:                      "a: wildcard: expected no consecutive wildcard characters",
		`{"a": [{"wildcard": "a\\b"}]}`:                     `a: wildcard: expected * or \ after a backslash`,
		`{"a": [{"numeric": []}]}`:                          "a: numeric: expected a comparison",
		`{"a": [{"numeric": ["<", 5, ">", 1]}]}`:            "a: numeric: expected a comparison",
		`{"a": [{"numeric": [">", 5, "<", 5]}]}`:            "a: numeric: expected a comparison",
		`{"a": [{"numeric": ["=", 6e9]}]}`:                  "a: numeric: expected a comparison",
		`{"a": [{"numeric": ["=", "5"]}]}`:                  "a: numeric: expected a comparison",
		`{"a": [{"anything-but": ["b", 1]}]}`:               "a: anything-but: expected only strings or only numbers",
		`{"a": [{"anything-but": []}]}`:                     "a: anything-but: expected at least one value",
		`{"a": [{"anything-but": true}]}`:                   "a: anything-but: expected a string, a number, a list or an operator",
		`{"a": [{"anything-but": {"cidr": "10.0.0.0/8"}}]}`: "a: anything-but: expected one of prefix, suffix,",
		`{"a": ["` + strings.Repeat("x", pattern.BytesMax) + `"]}`:                         "expected at most 4096 bytes",
		`{` + strings.Repeat(`"a": {"$or": [{"b": [1]}, {"c": [1]}]}, `, 1) + or(10) + `}`: "combinations of the branches of $or",
	} {
		if _, err := pattern.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want an error with %q", text, err, want)
		}
	}
}

// or returns n fields. Each field holds a $or of two branches.
func or(n int) string {
	var fields []string
	for i := range n {
		fields = append(fields, `"`+string(rune('a'+i))+`x": {"$or": [{"b": [1]}, {"c": [1]}]}`)
	}
	return strings.Join(fields, ", ")
}

func FuzzParse(f *testing.F) {
	f.Add(`{"a": [{"wildcard": "*"}], "$or": [{"b": [1]}, {"c": [{"anything-but": ["x"]}]}]}`, sample)
	f.Fuzz(func(t *testing.T, text, event string) {
		if compiled, err := pattern.Parse(text); err == nil {
			_, _ = compiled.Match(json.RawMessage(event)) // Match must not panic.
		}
	})
}
