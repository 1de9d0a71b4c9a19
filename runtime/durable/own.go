package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// checkOwn reports why a body is not of the form in which the loop writes its own events of the type.
func checkOwn(typ, body string) error {
	forms := map[string]any{
		tendEvent: &tending{}, expiredEvent: &expired{}, aliasTakenEvent: &aliasTaken{}, endedEvent: &ended{},
		watchEvent: &watching{}, childEvent: &childEnd{}, failedEvent: &failing{},
	}
	if err := json.Unmarshal([]byte(body), forms[typ]); err != nil {
		return fmt.Errorf("%w: %s, which only the loop itself sends: %w", statechart.ErrPayload, typ, wrongKey(err))
	}
	return nil
}

// wrongKey returns an error of encoding/json in words that need no knowledge of the code, and without the value.
func wrongKey(err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	got, _, _ := strings.Cut(mismatch.Value, " ") // "number 300"
	switch got {
	case "array", "object":
		got = "an " + got
	case "bool":
		got = "a boolean"
	case "number":
		got = "another number"
		if kindName(mismatch) != wholeNumber {
			got = "a number"
		}
	default:
		got = "a " + got
	}
	return fmt.Errorf("expected under the key %q %s, got %s", mismatch.Field, kindName(mismatch), got)
}

const wholeNumber = "a whole number of 64 bits"

// kindName names what encoding/json has expected as JSON does.
func kindName(mismatch *json.UnmarshalTypeError) string {
	switch kind := mismatch.Type.Kind().String(); {
	case kind == "string":
		return "a string"
	case strings.HasPrefix(kind, "int"):
		return wholeNumber
	case kind == "bool":
		return "a boolean"
	default:
		return "an object"
	}
}
