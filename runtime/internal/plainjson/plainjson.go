// Package plainjson encodes JSON without the escapes that encoding/json adds for HTML.
package plainjson

import (
	"bytes"
	"encoding/json"
)

// Marshal is json.Marshal without the escaping of <, > and &. With the escapes, an output of 256 KiB could grow sixfold
// and be too long for SQS.
func Marshal(v any) (json.RawMessage, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), err
}
