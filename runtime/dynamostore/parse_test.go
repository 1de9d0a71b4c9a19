package dynamostore

import (
	"encoding/json"
	"errors"
	"testing"
)

// TestTheParserAcceptsOnlyJSON damages a document at each place in many ways, and compares the parser with encoding/json.
func TestTheParserAcceptsOnlyJSON(t *testing.T) {
	t.Parallel()
	const document = ` {"a" : [1.5e-2, -0, true, false, null, "x\n\u00fcü\\", {}, [ ]], "b":"", "":{"c":1}} `
	check := func(text string) {
		_, err := parse(path{{name: "value"}}, []byte(text))
		if number := (*NumberError)(nil); errors.As(err, &number) {
			err = nil
		}
		if (err == nil) != json.Valid([]byte(text)) {
			t.Errorf("%s: got %v, want an error only for invalid JSON", text, err)
		}
	}
	for i := range document {
		check(document[:i])
		check(document[i:])
		for _, c := range "\x00\x1f \"\\{}[]:,0-.eEtn/\xff" {
			check(document[:i] + string(c) + document[i:])
			check(document[:i] + string(c) + document[i+1:])
		}
	}
}
