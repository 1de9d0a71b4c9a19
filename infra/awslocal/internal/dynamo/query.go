package dynamo

import (
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/expression"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

type queryRequest struct {
	pageRequest
	KeyConditionExpression *string
	ScanIndexForward       *bool
}

func (m *Model) query(now time.Time, request *queryRequest) (any, *wire.Error) {
	if failed := request.check(); failed != nil {
		return nil, failed
	}
	if request.KeyConditionExpression == nil {
		return nil, validation("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	expressions, failed := newExpressions(request.ExpressionAttributeNames, request.ExpressionAttributeValues)
	if failed != nil {
		return nil, failed
	}
	terms := parse(expressions, "KeyConditionExpression", request.KeyConditionExpression, expression.ParseKeyCondition)
	filter := parse(expressions, "FilterExpression", request.FilterExpression, expression.ParseCondition)
	projection := parse(expressions, "ProjectionExpression", request.ProjectionExpression, expression.ParseProjection)
	if failed := expressions.finish(); failed != nil {
		return nil, failed
	}
	t, failed := m.table(now, request.TableName)
	if failed != nil {
		return nil, failed
	}
	s, failed := request.source(t)
	if failed != nil {
		return nil, failed
	}
	keys, failed := s.schema.keyRange(terms)
	if failed != nil {
		return nil, failed
	}
	if failed := checkFilterKeys(s.schema, filter); failed != nil {
		return nil, failed
	}
	after := ""
	if request.ExclusiveStartKey != nil {
		if after, failed = s.startAfter(request.ExclusiveStartKey); failed != nil {
			return nil, failed
		}
		if !keys.contains(after) {
			return nil, validation("The provided starting key is outside query boundaries based on provided conditions")
		}
	}
	reader, failed := request.newReader(s, filter, projection)
	if failed != nil {
		return nil, failed
	}
	backwards := request.ScanIndexForward != nil && !*request.ScanIndexForward
	return reader.read(s.walk(keys, after, backwards)), nil
}

// checkFilterKeys rejects filters on the key attributes of the queried table or index.
func checkFilterKeys(schema keySchema, filter *expression.Condition) *wire.Error {
	if filter == nil {
		return nil
	}
	for _, path := range filter.Paths() {
		if schema.has(path[0].Name) {
			return validation("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", path[0].Name)
		}
	}
	return nil
}

// keyRange returns the range of storage keys selected by a key condition.
func (s keySchema) keyRange(terms []expression.KeyTerm) (keyRange, *wire.Error) {
	partition, rest := takeTerm(terms, s[0].name)
	if partition == nil {
		return keyRange{}, validation("Query condition missed key schema element: %s", s[0].name)
	}
	if failed := s[0].checkOperands(partition); failed != nil {
		return keyRange{}, failed
	}
	if partition.Operator != "=" {
		return keyRange{}, validation("Query key condition not supported")
	}
	prefix := partitionPrefix(partition.Operands[0])
	if len(rest) == 0 {
		return keyRange{begin: string(prefix), end: afterPrefix(prefix)}, nil
	}
	if len(s) == 1 {
		return keyRange{}, validation("Query key condition not supported")
	}
	sort, _ := takeTerm(rest, s[1].name)
	if sort == nil {
		return keyRange{}, validation("Query condition missed key schema element: %s", s[1].name)
	}
	if failed := s[1].checkOperands(sort); failed != nil {
		return keyRange{}, failed
	}
	return sortRange(prefix, sort), nil
}

// takeTerm separates the term for an attribute from the others.
func takeTerm(terms []expression.KeyTerm, name string) (found *expression.KeyTerm, rest []expression.KeyTerm) {
	for i, term := range terms {
		if term.Attribute == name {
			found = &terms[i]
		} else {
			rest = append(rest, term)
		}
	}
	return found, rest
}

// checkOperands rejects operands that cannot be values of the key attribute.
func (key keyAttribute) checkOperands(term *expression.KeyTerm) *wire.Error {
	for _, operand := range term.Operands {
		if operand.Type() != key.typ {
			return invalidParameter("Condition parameter type does not match schema type")
		}
		if isEmpty(operand) {
			return validation("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s",
				emptyNames[operand.Type()], key.name)
		}
	}
	return nil
}

// sortRange returns the range of storage keys that a term for the sort key selects within a partition.
func sortRange(partition []byte, term *expression.KeyTerm) keyRange {
	all := keyRange{begin: string(partition), end: afterPrefix(partition)}
	at := func(value attribute.Value) []byte {
		return attribute.AppendOrderKey(partition[:len(partition):len(partition)], value)
	}
	if term.Operator == "begins_with" {
		prefix := attribute.AppendOrderPrefix(partition[:len(partition):len(partition)], term.Operands[0])
		return keyRange{begin: string(prefix), end: afterPrefix(prefix)}
	}
	first := at(term.Operands[0])
	switch term.Operator {
	case "<":
		return keyRange{begin: all.begin, end: string(first)}
	case "<=":
		return keyRange{begin: all.begin, end: afterPrefix(first)}
	case ">":
		return keyRange{begin: afterPrefix(first), end: all.end}
	case ">=":
		return keyRange{begin: string(first), end: all.end}
	case "BETWEEN":
		return keyRange{begin: string(first), end: afterPrefix(at(term.Operands[1]))}
	}
	return keyRange{begin: string(first), end: afterPrefix(first)}
}
