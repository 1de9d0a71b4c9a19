package dynamo

import (
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/runtime/awslocal/internal/expression"
	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// conditional holds the parameters that all conditional writes have in common, alone or in a
// transaction.
type conditional struct {
	TableName                           *string
	ConditionExpression                 *string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           attribute.Map
	ReturnValuesOnConditionCheckFailure string
}

// write is a checked request to change one item.
type write struct {
	table *table
	// key is the primary key of the item.
	key attribute.Map
	// condition must hold for the item as it is; nil always holds.
	condition *expression.Condition
	// returnsOnFailure is set when a failed condition is to be answered with the item.
	returnsOnFailure bool
	// produce makes the new item of the old one: nil in for no item, nil out to have none.
	produce func(old attribute.Map) (attribute.Map, *wire.Error)
	// update is the update expression, where there is one.
	update *expression.Update
	// checksOnly is set when the item stays as it is.
	checksOnly bool
	// refused is set when the request does not fit the table. A single write fails with it;
	// in a transaction it is the reason for its cancellation.
	refused *wire.Error
}

// evaluate returns the item as it is and as the write would leave it. It changes nothing.
func (w *write) evaluate() (old, changed attribute.Map, failed *wire.Error) {
	if w.refused != nil {
		return nil, nil, w.refused
	}
	old = w.table.get(w.key)
	if w.condition != nil && !w.condition.Matches(old) {
		failed := wire.Errorf("ConditionalCheckFailedException", "The conditional request failed")
		if w.returnsOnFailure && old != nil {
			failed.Members = map[string]any{"Item": old}
		}
		return nil, nil, failed
	}
	changed, failed = w.produce(old)
	return old, changed, failed
}

// perform evaluates a write and makes it.
func (w *write) perform(now time.Time) (old, changed attribute.Map, failed *wire.Error) {
	old, changed, failed = w.evaluate()
	if failed == nil {
		w.table.replace(now, old, changed)
	}
	return old, changed, failed
}

// prepare checks what all conditional writes have in common, and the update expression of
// those that have one. The caller adds key, produce and refused.
func (m *Model) prepare(now time.Time, request *conditional, update *string) (*write, *wire.Error) {
	if failed := checkEnum("returnValuesOnConditionCheckFailure", request.ReturnValuesOnConditionCheckFailure, "ALL_OLD", "NONE"); failed != nil {
		return nil, failed
	}
	w := &write{returnsOnFailure: request.ReturnValuesOnConditionCheckFailure == "ALL_OLD"}
	expressions, failed := newExpressions(request.ExpressionAttributeNames, request.ExpressionAttributeValues)
	if failed != nil {
		return nil, failed
	}
	w.update = parse(expressions, "UpdateExpression", update, expression.ParseUpdate)
	w.condition = parse(expressions, "ConditionExpression", request.ConditionExpression, expression.ParseCondition)
	if failed := expressions.finish(); failed != nil {
		return nil, failed
	}
	if w.table, failed = m.table(now, request.TableName); failed != nil {
		return nil, failed
	}
	if w.condition != nil {
		w.refused = w.table.checkPaths(w.condition.Paths())
	}
	return w, nil
}

// refuse keeps the first reason to refuse the write.
func (w *write) refuse(failed *wire.Error) {
	if w.refused == nil {
		w.refused = failed
	}
}

// checkPaths refuses document paths that lead into a key attribute, which is a scalar.
func (t *table) checkPaths(paths []expression.Path) *wire.Error {
	for _, path := range paths {
		if len(path) > 1 && t.schema.has(path[0].Name) {
			return validation("Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: %s", path[0].Name)
		}
	}
	return nil
}
