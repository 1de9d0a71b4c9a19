package dynamo

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// decode decodes a request into a struct with one field for each supported parameter. It rejects a parameter without a
// field, at any depth, and names it in the error. At the top level, names must match exactly. encoding/json alone would
// ignore their case.
func decode(body []byte, request any) *wire.Error {
	if !utf8.Valid(body) {
		return wire.Errorf("SerializationException", "The request is not valid UTF-8")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return wire.Errorf("SerializationException", "The request is not a JSON object: %v", err)
	}
	fields := reflect.ValueOf(request).Elem()
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if field, known := fields.Type().FieldByName(name); !known || !field.IsExported() {
			return validation("The parameter %s is not supported by the local DynamoDB", name)
		}
		if string(members[name]) == "null" {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(members[name]))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(fields.FieldByName(name).Addr().Interface()); err != nil {
			return decodeError(name, err)
		}
	}
	return nil
}

// decodeError describes the error in a parameter's value.
func decodeError(parameter string, err error) *wire.Error {
	var invalid *attribute.InvalidError
	switch {
	case errors.As(err, &invalid) && parameter == "ExpressionAttributeValues":
		return validation("ExpressionAttributeValues contains invalid value: %s for key %s", invalid.Message, invalid.Name)
	case errors.As(err, &invalid) && parameter == "ExclusiveStartKey":
		return validation("The provided starting key is invalid: %s", invalid.Message)
	case errors.As(err, &invalid):
		return validation("%s", invalid.Message)
	}
	if unknown, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return validation("The parameter %s of %s is not supported by the local DynamoDB", strings.Trim(unknown, `"`), parameter)
	}
	return wire.Errorf("SerializationException", "The value of %s is of the wrong type: %v", parameter, err)
}

// checkEnum rejects a value that is not allowed. It accepts an empty value, which means that the parameter is absent.
func checkEnum(parameter, value string, allowed ...string) *wire.Error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return constraint(value, parameter, "Member must satisfy enum value set: [%s]", strings.Join(allowed, ", "))
}

// checkReturnConsumedCapacity rejects unknown values of ReturnConsumedCapacity.
func checkReturnConsumedCapacity(value string) *wire.Error {
	return checkEnum("returnConsumedCapacity", value, "INDEXES", "TOTAL", "NONE")
}

// checkReturnItemCollectionMetrics rejects unknown values of ReturnItemCollectionMetrics. SIZE has an effect only on
// tables with local secondary indexes, which the model does not support.
func checkReturnItemCollectionMetrics(value string) *wire.Error {
	return checkEnum("returnItemCollectionMetrics", value, "SIZE", "NONE")
}

// checkRange rejects a number outside a range.
func checkRange(parameter string, value, lowest, highest int) *wire.Error {
	if value < lowest {
		return constraint(strconv.Itoa(value), parameter, "Member must have value greater than or equal to %d", lowest)
	}
	if value > highest {
		return constraint(strconv.Itoa(value), parameter, "Member must have value less than or equal to %d", highest)
	}
	return nil
}
