package states

import (
	"encoding/json"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
)

// payloadBytesMax is the maximum size of the input and output of states and tasks (AWS Step Functions Developer Guide,
// "Quotas related to task executions").
const payloadBytesMax = 256 << 10

// payload is a JSON value together with its text. It keeps a caller's text unchanged.
type payload struct {
	value any
	text  string
}

func newPayload(value any) payload { return payload{value, document.Encode(value)} }

// readPayload parses a text that must be one JSON value.
func readPayload(text string) (payload, error) {
	value, err := document.Decode(text)
	return payload{value, text}, err
}

// nestingMax is the maximum nesting depth of objects and arrays. Step Functions does not document its limit. The limit
// of 1000 ensures that every payload can be decoded.
const nestingMax = 1000

// tooLarge reports whether a payload exceeds the limits of Step Functions.
func (p payload) tooLarge() bool {
	return len(p.text) > payloadBytesMax || deeper(p.value, nestingMax)
}

// deeper reports whether a value is nested deeper than `limit`.
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

// MarshalJSON keeps the text unchanged, including white space.
func (p payload) MarshalJSON() ([]byte, error) { return json.Marshal(p.text) }

func (p *payload) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if err == nil && text != "" {
		*p, err = readPayload(text)
	}
	return err
}
