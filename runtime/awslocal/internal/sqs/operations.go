package sqs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// operation performs one call whose input and output are JSON.
type operation func(m *Model, now time.Time, endpoint string, body []byte) (any, *wire.Error)

// operations is what Call knows, by the name of the operation.
var operations = map[string]operation{
	"CreateQueue": func(m *Model, now time.Time, endpoint string, body []byte) (any, *wire.Error) {
		return run(body, func(in *CreateQueueInput) (CreateQueueOutput, *wire.Error) {
			in.Endpoint = endpoint
			return m.CreateQueue(now, in)
		})
	},
	"GetQueueUrl": func(m *Model, now time.Time, endpoint string, body []byte) (any, *wire.Error) {
		return run(body, func(in *GetQueueUrlInput) (GetQueueUrlOutput, *wire.Error) {
			in.Endpoint = endpoint
			return m.GetQueueUrl(now, in)
		})
	},
	"ListQueues": func(m *Model, now time.Time, endpoint string, body []byte) (any, *wire.Error) {
		return run(body, func(in *ListQueuesInput) (ListQueuesOutput, *wire.Error) {
			in.Endpoint = endpoint
			return m.ListQueues(now, in)
		})
	},
	"GetQueueAttributes":           plain((*Model).GetQueueAttributes),
	"SetQueueAttributes":           plain((*Model).SetQueueAttributes),
	"DeleteQueue":                  plain((*Model).DeleteQueue),
	"PurgeQueue":                   plain((*Model).PurgeQueue),
	"TagQueue":                     plain((*Model).TagQueue),
	"UntagQueue":                   plain((*Model).UntagQueue),
	"ListQueueTags":                plain((*Model).ListQueueTags),
	"SendMessage":                  plain((*Model).SendMessage),
	"SendMessageBatch":             plain((*Model).SendMessageBatch),
	"ReceiveMessage":               plain((*Model).ReceiveMessage),
	"DeleteMessage":                plain((*Model).DeleteMessage),
	"DeleteMessageBatch":           plain((*Model).DeleteMessageBatch),
	"ChangeMessageVisibility":      plain((*Model).ChangeMessageVisibility),
	"ChangeMessageVisibilityBatch": plain((*Model).ChangeMessageVisibilityBatch),
}

// Call performs the operation named: body is its input as JSON, the answer its output as
// JSON. Queue URLs in the answer begin with endpoint. ReceiveMessage answers at once,
// whatever WaitTimeSeconds says; see ReceiveMessageOutput.Wait.
func (m *Model) Call(now time.Time, endpoint, name string, body []byte) ([]byte, *wire.Error) {
	call, ok := operations[name]
	if !ok {
		return nil, namedf("UnsupportedOperation",
			"awslocal does not support the SQS operation %s; it supports %s.",
			name, strings.Join(slices.Sorted(maps.Keys(operations)), ", "))
	}
	out, err := call(m, now, endpoint, body)
	if err != nil {
		return nil, err
	}
	return Encode(out), nil
}

// plain makes an operation of a method that needs no endpoint.
func plain[I, O any](method func(*Model, time.Time, *I) (O, *wire.Error)) operation {
	return func(m *Model, now time.Time, _ string, body []byte) (any, *wire.Error) {
		return run(body, func(in *I) (O, *wire.Error) { return method(m, now, in) })
	}
}

func run[I, O any](body []byte, call func(*I) (O, *wire.Error)) (any, *wire.Error) {
	var in I
	if err := Decode(body, &in); err != nil {
		return nil, err
	}
	return call(&in)
}

// Decode reads the JSON of an operation's input into the struct that in points at. It
// refuses members that the struct does not have: they would be ignored otherwise.
func Decode(body []byte, in any) *wire.Error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(in)
	if err == nil && decoder.More() {
		err = errors.New("something follows the JSON object")
	}
	if err == nil || errors.Is(err, io.EOF) { // no body: an input without members
		return nil
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return wire.Errorf("InvalidParameterValue",
			"awslocal does not support the parameter %s here; leave it out.", name)
	}
	return wire.Errorf("SerializationException",
		"expected a JSON object with the operation's parameters: %v", err)
}

// Encode writes an operation's output as JSON.
func Encode(out any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(out); err != nil {
		panic("sqs: an output that is not JSON: " + err.Error()) // outputs are plain data
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}
