package sqs

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// operation performs one call. Its input and output are JSON.
type operation func(m *Model, now time.Time, endpoint string, body []byte) (any, *wire.Error)

// operations holds the supported operations by name.
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

// Call performs an operation. The body is the operation's input. Input and output are JSON. Queue URLs in the output
// start with endpoint. ReceiveMessage returns at once, whatever WaitTimeSeconds says. See ReceiveMessageOutput.Wait.
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
	return wire.Encode(out), nil
}

// plain makes an operation from a method that needs no endpoint.
func plain[I, O any](method func(*Model, time.Time, *I) (O, *wire.Error)) operation {
	return func(m *Model, now time.Time, _ string, body []byte) (any, *wire.Error) {
		return run(body, func(in *I) (O, *wire.Error) { return method(m, now, in) })
	}
}

func run[I, O any](body []byte, call func(*I) (O, *wire.Error)) (any, *wire.Error) {
	var in I
	if err := wire.Decode(body, &in, "InvalidParameterValue"); err != nil {
		return nil, err
	}
	return call(&in)
}
