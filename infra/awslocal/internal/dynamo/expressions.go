package dynamo

import (
	"errors"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/expression"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// expressions parses the expressions of one request, which share their placeholders. It stops at the first error and
// keeps that error.
type expressions struct {
	placeholders *expression.Placeholders
	names        map[string]string
	values       attribute.Map
	// `given` lists the expression parameters of the request. `absent` lists the possible parameters that the request
	// lacks.
	given, absent []string
	failed        *wire.Error
}

func newExpressions(names map[string]string, values attribute.Map) (*expressions, *wire.Error) {
	placeholders, err := expression.NewPlaceholders(names, values)
	if err != nil {
		return nil, validation("%s", err)
	}
	return &expressions{placeholders: placeholders, names: names, values: values}, nil
}

// parse parses the expression of a parameter, if the request has it.
func parse[E any](e *expressions, parameter string, source *string, read func(string, *expression.Placeholders) (E, error)) (parsed E) {
	if source == nil {
		e.absent = append(e.absent, parameter)
		return parsed
	}
	e.given = append(e.given, parameter)
	if e.failed != nil {
		return parsed
	}
	parsed, err := read(*source, e.placeholders)
	var keyCondition *expression.KeyConditionError
	switch {
	case errors.As(err, &keyCondition):
		e.failed = validation("%s", err)
	case err != nil:
		e.failed = validation("Invalid %s: %s", parameter, err)
	}
	return parsed
}

// finish returns the first error. An unused placeholder is an error too.
func (e *expressions) finish() *wire.Error {
	if e.names != nil && len(e.given) == 0 {
		return validation("ExpressionAttributeNames can only be specified when using expressions")
	}
	if e.values != nil && len(e.given) == 0 {
		verb := "is"
		if len(e.absent) > 1 {
			verb = "are"
		}
		return validation("ExpressionAttributeValues can only be specified when using expressions: %s %s null", strings.Join(e.absent, " and "), verb)
	}
	if e.failed != nil {
		return e.failed
	}
	if err := e.placeholders.CheckUsed(); err != nil {
		return validation("%s", err)
	}
	return nil
}
