package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// Decode parses the JSON of an operation's input into the struct that `in` points to. An empty body is an input without
// members. Decode rejects unknown members with the error code `unsupported`, because ignoring them would hide mistakes.
func Decode(body []byte, in any, unsupported string) *Error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(in)
	if err == nil && decoder.More() {
		err = errors.New("unexpected data after the JSON object")
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return Errorf(unsupported, "awslocal does not support the parameter %s here; leave it out.", name)
	}
	return Errorf("SerializationException", "expected a JSON object with the operation's parameters: %v", err)
}

// Encode returns an operation's output, which is plain data, as JSON.
func Encode(out any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(out); err != nil {
		panic("wire: cannot encode an output as JSON: " + err.Error())
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}
