package dynamo

import (
	"fmt"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// validation returns a ValidationException.
func validation(format string, args ...any) *wire.Error {
	return wire.Errorf("ValidationException", format, args...)
}

// invalidParameter returns a ValidationException whose message starts with DynamoDB's usual prefix.
func invalidParameter(format string, args ...any) *wire.Error {
	return validation("One or more parameter values were invalid: "+format, args...)
}

// constraint returns the ValidationException for a parameter that violates a constraint of the API definition.
func constraint(value, parameter, format string, args ...any) *wire.Error {
	return validation("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s",
		value, parameter, fmt.Sprintf(format, args...))
}

// missing returns the ValidationException for a missing required parameter.
func missing(parameter string) *wire.Error {
	return validation("1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", parameter)
}
