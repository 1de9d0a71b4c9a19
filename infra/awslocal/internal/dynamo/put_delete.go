package dynamo

import (
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// singleWrite holds the additional parameters of a write outside a transaction.
type singleWrite struct {
	conditional
	ReturnConsumedCapacity      string
	ReturnItemCollectionMetrics string
	ReturnValues                string
}

func (s *singleWrite) check() *wire.Error {
	if failed := checkReturnConsumedCapacity(s.ReturnConsumedCapacity); failed != nil {
		return failed
	}
	if failed := checkReturnItemCollectionMetrics(s.ReturnItemCollectionMetrics); failed != nil {
		return failed
	}
	return checkEnum("returnValues", s.ReturnValues, "ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW")
}

// writeAnswer is the answer to PutItem, UpdateItem and DeleteItem.
type writeAnswer struct {
	Attributes       attribute.Map     `json:",omitempty"`
	ConsumedCapacity *consumedCapacity `json:",omitempty"`
}

// put holds the parameters that PutItem and transactional puts share.
type put struct {
	conditional
	Item attribute.Map
}

func (m *Model) preparePut(now time.Time, request *put) (*write, *wire.Error) {
	if request.Item == nil {
		return nil, missing("item")
	}
	w, failed := m.prepare(now, &request.conditional, nil)
	if failed != nil {
		return nil, failed
	}
	w.refuse(w.table.checkNew(request.Item))
	w.key = request.Item
	w.produce = func(attribute.Map) (attribute.Map, *wire.Error) { return request.Item, nil }
	return w, nil
}

type putItemRequest struct {
	singleWrite
	Item attribute.Map
}

func (m *Model) putItem(now time.Time, request *putItemRequest) (any, *wire.Error) {
	if failed := request.check(); failed != nil {
		return nil, failed
	}
	w, failed := m.preparePut(now, &put{conditional: request.conditional, Item: request.Item})
	if failed != nil {
		return nil, failed
	}
	return m.replaceWhole(now, w, &request.singleWrite)
}

// deletion holds the parameters that DeleteItem and transactional deletes share.
type deletion struct {
	conditional
	Key attribute.Map
}

func (m *Model) prepareDelete(now time.Time, request *deletion) (*write, *wire.Error) {
	if request.Key == nil {
		return nil, missing("key")
	}
	w, failed := m.prepare(now, &request.conditional, nil)
	if failed != nil {
		return nil, failed
	}
	w.refuse(w.table.schema.checkKey(request.Key))
	w.key = request.Key
	w.produce = func(attribute.Map) (attribute.Map, *wire.Error) { return nil, nil }
	return w, nil
}

type deleteItemRequest struct {
	singleWrite
	Key attribute.Map
}

func (m *Model) deleteItem(now time.Time, request *deleteItemRequest) (any, *wire.Error) {
	if failed := request.check(); failed != nil {
		return nil, failed
	}
	w, failed := m.prepareDelete(now, &deletion{conditional: request.conditional, Key: request.Key})
	if failed != nil {
		return nil, failed
	}
	return m.replaceWhole(now, w, &request.singleWrite)
}

// replaceWhole performs a put or a deletion.
func (m *Model) replaceWhole(now time.Time, w *write, request *singleWrite) (any, *wire.Error) {
	switch request.ReturnValues {
	case "", "NONE", "ALL_OLD":
	default:
		return nil, validation("ReturnValues can only be ALL_OLD or NONE")
	}
	old, changed, failed := w.perform(now)
	if failed != nil {
		return nil, failed
	}
	answer := writeAnswer{ConsumedCapacity: w.table.written(request.ReturnConsumedCapacity, old, changed)}
	if request.ReturnValues == "ALL_OLD" {
		answer.Attributes = old
	}
	return answer, nil
}
