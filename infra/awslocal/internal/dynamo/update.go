package dynamo

import (
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/expression"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// update holds the parameters that UpdateItem and transactional updates share.
type update struct {
	conditional
	Key              attribute.Map
	UpdateExpression *string
}

func (m *Model) prepareUpdate(now time.Time, request *update) (*write, *wire.Error) {
	if request.Key == nil {
		return nil, missing("key")
	}
	w, failed := m.prepare(now, &request.conditional, request.UpdateExpression)
	if failed != nil {
		return nil, failed
	}
	w.refuse(w.table.schema.checkKey(request.Key))
	w.key = request.Key
	w.produce = w.updated
	if w.update == nil {
		return w, nil
	}
	for _, path := range w.update.Paths() {
		if w.table.schema.has(path[0].Name) {
			w.refuse(invalidParameter("Cannot update attribute %s. This attribute is part of the key", path[0].Name))
		}
	}
	return w, nil
}

// updated applies the update expression to the item `old`. If `old` is nil, it applies the expression to an item that
// has only the key.
func (w *write) updated(old attribute.Map) (attribute.Map, *wire.Error) {
	changed := old
	if changed == nil {
		changed = w.key
	}
	if w.update != nil {
		var err error
		if changed, err = w.update.Apply(changed); err != nil {
			return nil, validation("%s", err)
		}
	}
	return changed, w.table.checkUpdated(changed)
}

type updateItemRequest struct {
	singleWrite
	Key              attribute.Map
	UpdateExpression *string
}

func (m *Model) updateItem(now time.Time, request *updateItemRequest) (any, *wire.Error) {
	if failed := request.check(); failed != nil {
		return nil, failed
	}
	w, failed := m.prepareUpdate(now, &update{conditional: request.conditional, Key: request.Key, UpdateExpression: request.UpdateExpression})
	if failed != nil {
		return nil, failed
	}
	old, changed, failed := w.perform(now)
	if failed != nil {
		return nil, failed
	}
	return writeAnswer{
		Attributes:       w.returned(request.ReturnValues, old, changed),
		ConsumedCapacity: w.table.written(request.ReturnConsumedCapacity, old, changed),
	}, nil
}

// returned selects the attributes requested by ReturnValues.
func (w *write) returned(values string, old, changed attribute.Map) attribute.Map {
	switch values {
	case "ALL_OLD":
		return old
	case "ALL_NEW":
		return changed
	}
	if w.update == nil {
		return nil
	}
	switch values {
	case "UPDATED_OLD":
		return expression.NewProjection(w.update.Paths()).Apply(old)
	case "UPDATED_NEW":
		return expression.NewProjection(w.update.Paths()).Apply(changed)
	}
	return nil
}
