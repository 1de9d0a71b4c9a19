package dynamo

import (
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/expression"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// conditional holds the parameters that all conditional writes share, inside and outside transactions.
type conditional struct {
	TableName                           *string
	ConditionExpression                 *string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           attribute.Map
	ReturnValuesOnConditionCheckFailure string
}

// write is a validated request to change one item.
type write struct {
	table *table
	// key is the primary key of the item.
	key attribute.Map
	// condition must hold for the current item. A nil condition always holds.
	condition *expression.Condition
	// returnsOnFailure is set if the answer to a failed condition contains the item.
	returnsOnFailure bool
	// produce computes the new item from the old item. A nil argument or result stands for an absent item.
	produce func(old attribute.Map) (attribute.Map, *wire.Error)
	// update is the update expression, or nil.
	update *expression.Update
	// checksOnly is set if the write does not change the item.
	checksOnly bool
	// refused is the error of a request that does not fit the table, such as a put without the key. It fails a single
	// write and cancels a transaction.
	refused *wire.Error
}

// evaluate returns the current item and the item after the write. It changes nothing.
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

// perform evaluates a write and stores the result.
func (w *write) perform(now time.Time) (old, changed attribute.Map, failed *wire.Error) {
	old, changed, failed = w.evaluate()
	if failed == nil {
		w.table.replace(now, old, changed)
	}
	return old, changed, failed
}

// prepare validates the parameters that all conditional writes share, and the update expression if there is one. The
// caller sets key and produce, and passes the errors of its own checks to refuse.
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

// refuse sets refused unless it is already set.
func (w *write) refuse(failed *wire.Error) {
	if w.refused == nil {
		w.refused = failed
	}
}

// checkPaths rejects document paths that lead into a key attribute, which is a scalar.
func (t *table) checkPaths(paths []expression.Path) *wire.Error {
	for _, path := range paths {
		if len(path) > 1 && t.schema.has(path[0].Name) {
			return validation("Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: %s", path[0].Name)
		}
	}
	return nil
}
