package states

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// operation performs one call. Its input and output are JSON.
type operation func(m *Model, now time.Time, body []byte) (any, *wire.Error)

// operations holds the supported operations by name.
var operations = map[string]operation{
	"CreateStateMachine":               handle((*Model).createStateMachine),
	"UpdateStateMachine":               handle((*Model).updateStateMachine),
	"DescribeStateMachine":             handle((*Model).describeStateMachine),
	"DescribeStateMachineForExecution": handle((*Model).describeStateMachineForExecution),
	"DeleteStateMachine":               handle((*Model).deleteStateMachine),
	"ListStateMachines":                handle((*Model).listStateMachines),
	"ValidateStateMachineDefinition":   handle((*Model).validateStateMachineDefinition),
	"TagResource":                      handle((*Model).tagResource),
	"UntagResource":                    handle((*Model).untagResource),
	"ListTagsForResource":              handle((*Model).listTagsForResource),
	"StartExecution":                   handle((*Model).startExecution),
	"StopExecution":                    handle((*Model).stopExecution),
	"DescribeExecution":                handle((*Model).describeExecution),
	"ListExecutions":                   handle((*Model).listExecutions),
	"GetExecutionHistory":              handle((*Model).getExecutionHistory),
	"SendTaskSuccess":                  handle((*Model).sendTaskSuccess),
	"SendTaskFailure":                  handle((*Model).sendTaskFailure),
	"SendTaskHeartbeat":                handle((*Model).sendTaskHeartbeat),
}

// Call performs all work that is due, and then an operation, such as "StartExecution". The body contains the request,
// and the result contains the answer, both as AWS JSON 1.0.
func (m *Model) Call(now time.Time, name string, body []byte) ([]byte, *wire.Error) {
	call, ok := operations[name]
	if !ok {
		return nil, wire.Errorf("UnknownOperationException",
			"awslocal does not support the Step Functions operation %s; it supports %s.",
			name, strings.Join(slices.Sorted(maps.Keys(operations)), ", "))
	}
	m.Advance(now)
	out, err := call(m, now, body)
	if err != nil {
		return nil, err
	}
	return []byte(document.Encode(out)), nil
}

// CallLagging is Call with a lag: DescribeExecution and GetExecutionHistory return the state as it was at the time
// `now` minus `lag`.
func (m *Model) CallLagging(now time.Time, lag time.Duration, name string, body []byte) ([]byte, *wire.Error) {
	m.lag = lag
	defer func() { m.lag = 0 }()
	return m.Call(now, name, body)
}

// handle makes an operation from a method that takes a decoded request.
func handle[I any](method func(*Model, time.Time, *I) (any, *wire.Error)) operation {
	return func(m *Model, now time.Time, body []byte) (any, *wire.Error) {
		var in I
		if err := decode(body, &in); err != nil {
			return nil, err
		}
		return method(m, now, &in)
	}
}

// decode decodes a request into a struct with one field for each supported parameter. It rejects all other parameters.
// Parameter names start with a lower-case letter.
func decode(body []byte, in any) *wire.Error {
	if !utf8.Valid(body) {
		return wire.Errorf("SerializationException", "The request is not valid UTF-8")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return wire.Errorf("SerializationException", "The request is not a JSON object: %v", err)
	}
	fields := reflect.ValueOf(in).Elem()
	for _, name := range slices.Sorted(maps.Keys(members)) {
		field, known := fields.Type().FieldByName(strings.ToUpper(name[:min(1, len(name))]) + name[min(1, len(name)):])
		if !known || name[0] < 'a' || name[0] > 'z' {
			return validation("awslocal does not support the parameter %s here; leave it out", name)
		}
		if string(members[name]) == "null" {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(members[name]))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(fields.FieldByIndex(field.Index).Addr().Interface())
		if err == nil || errors.Is(err, io.EOF) {
			continue
		}
		if unknown, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
			return validation("awslocal does not support the parameter %s of %s; leave it out", strings.Trim(unknown, `"`), name)
		}
		return wire.Errorf("SerializationException", "The value of %s is of the wrong type: %v", name, err)
	}
	return nil
}

func validation(format string, args ...any) *wire.Error {
	return wire.Errorf("ValidationException", format, args...)
}

// required rejects a missing parameter.
func required(name, value string) *wire.Error {
	if value != "" {
		return nil
	}
	return validation("1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", name)
}

// page returns the page size for maxResults: at most 1000, and 100 by default.
func page(maxResults int) (int, *wire.Error) {
	switch {
	case maxResults < 0 || maxResults > 1000:
		return 0, validation("1 validation error detected: Value '%d' at 'maxResults' failed to satisfy constraint: Member must be between 0 and 1000", maxResults)
	case maxResults == 0:
		return 100, nil
	}
	return maxResults, nil
}
