// Package dynamo models DynamoDB: its tables, operations and errors, without a network or a clock. It follows the API
// reference and the developer guide of DynamoDB, version 2012-08-10. It rejects unsupported features with an error that
// names them.
package dynamo

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// Model holds tables and their items. Its answers depend only on the previous calls and their times. It is not safe
// for concurrent use.
type Model struct {
	tables map[string]*table
	tokens tokens
	kept   record.Touched
	// ttlDelay defaults to TTLDelay.
	ttlDelay time.Duration
}

// New returns a model without tables.
func New() *Model {
	m := &Model{tables: make(map[string]*table), ttlDelay: TTLDelay}
	m.tokens.changed = m.noteToken
	return m
}

// DelayTTL replaces TTLDelay for this model. Call it before all other calls.
func (m *Model) DelayTTL(delay time.Duration) { m.ttlDelay = delay }

// handler decodes a request and returns a function that performs it.
type handler func(body []byte) (performer, *wire.Error)

// performer performs a request and returns the answer, for encoding as JSON.
type performer func(m *Model, now time.Time) (any, *wire.Error)

// operations holds the supported operations by name.
var operations = map[string]handler{
	"CreateTable":        handle((*Model).createTable),
	"DescribeTable":      handle((*Model).describeTable),
	"ListTables":         handle((*Model).listTables),
	"DeleteTable":        handle((*Model).deleteTable),
	"ListTagsOfResource": handle((*Model).listTagsOfResource),
	"UpdateTimeToLive":   handle((*Model).updateTimeToLive),
	"DescribeTimeToLive": handle((*Model).describeTimeToLive),
	"PutItem":            handle((*Model).putItem),
	"GetItem":            handle((*Model).getItem),
	"UpdateItem":         handle((*Model).updateItem),
	"DeleteItem":         handle((*Model).deleteItem),
	"Query":              handle((*Model).query),
	"Scan":               handle((*Model).scan),
	"BatchGetItem":       handle((*Model).batchGetItem),
	"BatchWriteItem":     handle((*Model).batchWriteItem),
	"TransactWriteItems": handle((*Model).transactWriteItems),
	"TransactGetItems":   handle((*Model).transactGetItems),
}

// Call performs an operation, such as "PutItem", at the given time. The body holds the request. The request and the
// answer are AWS JSON 1.0. Times must not go backwards from call to call.
func (m *Model) Call(now time.Time, operation string, body []byte) ([]byte, *wire.Error) {
	request, failed := Decode(operation, body)
	if failed != nil {
		return nil, failed
	}
	return m.Perform(now, request)
}

// Request is a decoded request. It can be performed once.
type Request struct{ perform performer }

// Decode decodes a request. This is most of the work of a call and needs no model.
func Decode(operation string, body []byte) (Request, *wire.Error) {
	handler, known := operations[operation]
	if !known {
		return Request{}, wire.Errorf("UnknownOperationException", "The operation %s is not supported by the local DynamoDB", operation)
	}
	perform, failed := handler(body)
	return Request{perform}, failed
}

// Perform is like Call, but takes a request that Decode has returned.
func (m *Model) Perform(now time.Time, request Request) ([]byte, *wire.Error) {
	answer, failed := request.perform(m, now)
	if failed != nil {
		return nil, failed
	}
	encoded, err := json.Marshal(answer)
	if err != nil {
		panic(err) // answer types always marshal
	}
	return encoded, nil
}

// handle returns a handler that decodes the request and performs it with the given method.
func handle[In any](perform func(*Model, time.Time, *In) (any, *wire.Error)) handler {
	return func(body []byte) (performer, *wire.Error) {
		var request In
		if failed := decode(body, &request); failed != nil {
			return nil, failed
		}
		return func(m *Model, now time.Time) (any, *wire.Error) { return perform(m, now, &request) }, nil
	}
}
