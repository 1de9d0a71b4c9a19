package states

import (
	"encoding/json"

	"github.com/settle-run/settle/runtime/awslocal/internal/states/document"
)

// payloadBytesMax is how long the input and output of states and tasks may be: "Quotas
// related to task executions" of the AWS Step Functions Developer Guide.
const payloadBytesMax = 256 << 10

// payload is a JSON value together with its text. The text of what callers give is kept as
// they wrote it.
type payload struct {
	value any
	text  string
}

func newPayload(value any) payload { return payload{value, document.Encode(value)} }

// readPayload reads a text that must be one JSON value.
func readPayload(text string) (payload, error) {
	value, err := document.Decode(text)
	return payload{value, text}, err
}

// nestingMax is how deep objects and arrays may stand in one another. Step Functions has a
// limit of its own that it does not name; this one keeps every payload readable.
const nestingMax = 1000

// tooLarge reports whether a payload is over the limits of Step Functions.
func (p payload) tooLarge() bool {
	return len(p.text) > payloadBytesMax || deeper(p.value, nestingMax)
}

// deeper reports whether a value is nested deeper than a limit.
func deeper(value any, limit int) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, member := range value {
			if limit == 0 || deeper(member, limit-1) {
				return true
			}
		}
	case []any:
		for _, element := range value {
			if limit == 0 || deeper(element, limit-1) {
				return true
			}
		}
	}
	return false
}

// MarshalJSON keeps the text as it is, white space included.
func (p payload) MarshalJSON() ([]byte, error) { return json.Marshal(p.text) }

func (p *payload) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if err == nil && text != "" {
		*p, err = readPayload(text)
	}
	return err
}
